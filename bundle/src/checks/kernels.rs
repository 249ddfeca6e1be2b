//! Kernels written by hand or by LLVM from a few lines: sums over warps and blocks, shared and constant memory, atomics, calls, loops of graphs.

use super::Extent;
use super::records::Records;
use sumsq::codegen::runtime::cuda::{CudaError, Device, DeviceMemory, Graph, Module, Shape};

const ADD: &str = include_str!("../../../codegen-testing/tests/cuda/add.ptx");
const COUNT: &str = include_str!("../../../codegen-testing/tests/cuda/count.ptx");
const SAMPLES: &str = include_str!("../../../codegen-testing/ptx/tests/samples/sm_75.ptx");

/// Modules by name.
pub const TEXTS: [(&str, &str); 3] = [("add", ADD), ("count", COUNT), ("samples", SAMPLES)];

/// A launch.
struct Launch {
    text: &'static str,
    kernel: &'static str,
    shape: Shape,
    /// Lists that it is given.
    inputs: Vec<Vec<u8>>,
    /// Bytes of the list that it writes, which begins as zeros.
    output: usize,
    /// Bytes of an element of that.
    width: usize,
    /// Numbers behind the lists.
    numbers: Vec<u64>,
}

fn bytes<T: Copy, const N: usize>(values: impl Iterator<Item = T>, of: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.flat_map(of).collect()
}

fn floats(values: impl Iterator<Item = f32>) -> Vec<u8> {
    bytes(values, f32::to_le_bytes)
}

fn launches() -> Vec<Launch> {
    let line = |blocks, block| Shape { grid: [blocks, 1, 1], block };
    let x = || floats((0..2048).map(|i| (i as f32 * 0.37).sin()));
    let y = || floats((0..2048).map(|i| (i as f32 * 0.11).cos() * 1e3));
    let launch = |kernel, shape, inputs, output, width| Launch {
        text: SAMPLES,
        kernel,
        shape,
        inputs,
        output,
        width,
        numbers: vec![],
    };
    let byte = |i: u32| (i * i % 251) as u8;
    let mut all = vec![
        Launch { text: ADD, numbers: vec![2048], ..launch("add", line(8, 256), vec![x(), y()], 8192, 4) },
        launch("dot", line(2, 256), vec![x(), y()], 16, 8),
        launch("blur", line(2, 256), vec![x()], 2048, 4),
        launch("histogram", line(4, 256), vec![(0..1024).map(byte).collect()], 64, 4),
        launch(
            "pixels",
            Shape { grid: [5, 3, 1], block: 1 },
            vec![(0..60).map(|i| (i * 37 % 256) as u8).collect()],
            240,
            4,
        ),
    ];
    all.extend((0..8).map(|which| Launch {
        numbers: vec![which, 0xf0, 100, 0x4200],
        ..launch("calls", line(1, 1), vec![floats([1.5, -2.0, 3.25, 8.0].into_iter())], 24, 4)
    }));
    all
}

fn run(device: &Device, l: &Launch) -> Result<Vec<u8>, CudaError> {
    let function = Module::load(device, l.text)?.function(l.kernel)?;
    let filled = |bytes: &Vec<u8>| -> Result<DeviceMemory, CudaError> {
        let memory = device.allocate(bytes.len())?;
        memory.upload(0, bytes)?;
        Ok(memory)
    };
    let lists = l.inputs.iter().map(filled).collect::<Result<Vec<_>, _>>()?;
    let output = device.zeroed(l.output)?;
    let addresses = lists.iter().chain([&output]).map(DeviceMemory::address);
    let arguments: Vec<u64> = addresses.chain(l.numbers.iter().copied()).collect();
    // SAFETY: the kernel takes these lists and numbers and keeps inside of them; the download waits for it.
    unsafe { function.launch(l.shape, &arguments) }?;
    let mut bytes = vec![0; l.output];
    output.download(0, &mut bytes)?;
    Ok(bytes)
}

/// A loop whose end the device decides: two numbers behind it.
fn counted(device: &Device, turns: i32) -> Result<Vec<u8>, CudaError> {
    let function = Module::load(device, COUNT)?.function("count")?;
    let numbers = device.allocate(8)?;
    numbers.upload(0, &bytes([turns, 0].into_iter(), i32::to_le_bytes))?;
    let mut graph = Graph::new(device)?;
    let condition = graph.condition()?;
    let mut body = graph.repeat_while(condition)?;
    // SAFETY: the kernel takes two numbers and a condition, which live longer than the graph.
    unsafe {
        body.launch(&function, Shape { grid: [1; 3], block: 32 }, &[numbers.address(), condition.number()])
    }?;
    let ready = graph.ready()?;
    ready.run()?;
    let mut bytes = vec![0; 8];
    numbers.download(0, &mut bytes)?;
    Ok(bytes)
}

pub fn kernels(records: &mut Records, _: Extent) {
    let device = Device::open(0).unwrap_or_else(|e| panic!("{e}"));
    for (k, launch) in launches().iter().enumerate() {
        let name = format!("{}_{k}", launch.kernel);
        if records.begin(&name, launch.text) {
            let done = run(&device, launch).unwrap_or_else(|e| panic!("{name}: {e}"));
            records.add(&name, launch.width, &done);
        }
    }
    if !device.has_loops() {
        println!("this driver's graphs hold no loops");
        return;
    }
    for turns in [1, 7, 1000] {
        let name = format!("count_{turns}");
        if records.begin(&name, COUNT) {
            let done = counted(&device, turns).unwrap_or_else(|e| panic!("{name}: {e}"));
            let expected = bytes([0, turns].into_iter(), i32::to_le_bytes);
            assert_eq!(done, expected, "{name}");
            records.add(&name, 4, &done);
        }
    }
}
