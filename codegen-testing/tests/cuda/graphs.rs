//! Graphs: chains and loops.

use crate::kernels::{ADD, Lists};
use crate::machine::Machine;
use sumsq_codegen::ScalarType;
use sumsq_codegen::runtime::cuda::{Device, Graph, Module, Shape};
use sumsq_codegen::runtime::{Access, Buffer, BufferSpec};

/// Counts down, and says when nothing is left.
pub const COUNT: &str = include_str!("count.ptx");

#[test]
fn kernels_of_a_chain_run_in_order() {
    let machine = Machine::new();
    let device = Device::open(0).unwrap();
    let function = Module::load(&device, ADD).unwrap().function("add").unwrap();
    let lists = Lists::new(500);
    let [a, b, c, n] = lists.arguments(&device).unwrap();
    let mut graph = Graph::new(&device).unwrap();
    // SAFETY: the kernel takes three lists and their length; the lists live longer than the graph.
    unsafe {
        graph.launch(&function, lists.shape(), &[a, b, c, n]).unwrap();
        // a + b, and b once more.
        graph.launch(&function, lists.shape(), &[c, b, c, n]).unwrap();
        graph.launch(&function, Shape { grid: [1, 0, 1], block: 256 }, &[]).unwrap();
        assert!(graph.launch(&function, Shape { grid: [1; 3], block: 4000 }, &[]).is_err());
    }
    drop(function);
    let ready = graph.ready().unwrap();
    for _ in 0..2 {
        ready.run().unwrap();
        let sum = lists.sum().unwrap();
        assert!((0..500).all(|i| sum[i] == 21.0 * i as f32));
        lists.arguments(&device).unwrap();
    }
    assert_eq!((device.counts().launches, machine.counters().graphs), (2, 2));
    drop((ready, lists, device));
    assert!(machine.is_clean());
}

#[test]
fn the_device_ends_a_loop() {
    let machine = Machine::new();
    let device = Device::open(0).unwrap();
    assert!(device.has_loops());
    let count = Module::load(&device, COUNT).unwrap().function("count").unwrap();
    let numbers = Buffer::new(BufferSpec::new(ScalarType::I32, &[2])).unwrap();
    let address = numbers.on_device(&device, 0, Access::Write).unwrap();
    let mut graph = Graph::new(&device).unwrap();
    let condition = graph.condition().unwrap();
    let arguments = [address, condition.number()];
    let mut body = graph.repeat_while(condition).unwrap();
    let shape = Shape { grid: [1; 3], block: 32 };
    // SAFETY: the kernel takes two numbers and a condition, which live longer than the graph.
    unsafe { body.launch(&count, shape, &arguments) }.unwrap();
    let ready = graph.ready().unwrap();
    for n in [1, 7, 2] {
        numbers.copy_from(&[n, 0]).unwrap();
        assert_eq!(numbers.on_device(&device, 0, Access::Write), Ok(address));
        ready.run().unwrap();
        assert_eq!(numbers.to_vec::<i32>(), [0, n]);
    }
    drop((ready, numbers, count, device));
    assert!(machine.is_clean());
}

#[test]
fn older_drivers_have_no_loops() {
    let machine = Machine::new();
    machine.set("DRIVER_VERSION", "12030");
    let device = Device::open(0).unwrap();
    let mut graph = Graph::new(&device).unwrap();
    let text = graph.condition().unwrap_err().to_string();
    assert!(!device.has_loops() && text.contains("the driver supports CUDA 12.3, 12.4 is needed"), "{text}");
    drop((graph, device));
    assert!(machine.is_clean());
}
