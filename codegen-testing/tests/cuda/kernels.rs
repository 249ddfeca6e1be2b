//! Modules and launches of a kernel written by hand.

use crate::machine::Machine;
use sumsq_codegen::ScalarType;
use sumsq_codegen::runtime::cuda::{CudaError, Device, Fault, Function, Module, Shape};
use sumsq_codegen::runtime::{Access, Buffer, BufferSpec};

/// c\[i\] = a\[i\] + b\[i\] for i < n, by blocks of 256 threads.
pub const ADD: &str = include_str!("add.ptx");

/// Three lists, the third of them the sum of the others once [`Lists::add`] has run.
pub struct Lists(pub [Buffer; 3]);

impl Lists {
    pub fn new(n: i32) -> Lists {
        let list = |_| Buffer::new(BufferSpec::new(ScalarType::F32, &[n])).unwrap();
        let lists = Lists([0, 1, 2].map(list));
        for (b, factor) in lists.0.iter().zip([1.0, 10.0]) {
            let values: Vec<f32> = (0..n).map(|i| factor * i as f32).collect();
            b.copy_from(&values).unwrap();
        }
        lists
    }

    /// The arguments of the kernel.
    pub fn arguments(&self, device: &Device) -> Result<[u64; 4], CudaError> {
        let address = |k: usize| {
            let access = if k == 2 { Access::Write } else { Access::Read };
            self.0[k].on_device(device, 0, access).map_err(|error| match error {
                sumsq_codegen::runtime::BufferError::Device(error) => error,
                other => panic!("{other}"),
            })
        };
        Ok([address(0)?, address(1)?, address(2)?, self.0[2].spec().len() as u64])
    }

    pub fn shape(&self) -> Shape {
        Shape { grid: [self.0[2].spec().len().div_ceil(256) as u32, 1, 1], block: 256 }
    }

    pub fn add(&self, function: &Function) -> Result<(), CudaError> {
        let arguments = self.arguments(function.device())?;
        // SAFETY: the kernel takes three lists and their length; the lists live longer than the device is at work.
        unsafe { function.launch(self.shape(), &arguments) }
    }

    /// The sum; an error if the device does not hand it out.
    pub fn sum(&self) -> Result<Vec<f32>, CudaError> {
        self.0[2].sync_host()?;
        Ok(self.0[2].to_vec())
    }

    pub fn expected(&self) -> Vec<f32> {
        (0..self.0[2].spec().len()).map(|i| 11.0 * i as f32).collect()
    }
}

#[test]
fn a_kernel_runs() {
    let machine = Machine::new();
    let device = Device::open(0).unwrap();
    let module = Module::load(&device, ADD).unwrap();
    let function = module.function("add").unwrap();
    assert_eq!(function.name(), "add");
    for n in [1, 255, 256, 1000] {
        let lists = Lists::new(n);
        let start = device.mark().unwrap();
        lists.add(&function).unwrap();
        assert!(device.mark().unwrap().since(&start).is_ok());
        assert_eq!(lists.sum().unwrap(), lists.expected());
    }
    assert_eq!(device.counts().launches, 4);
    // Nothing to do.
    // SAFETY: nothing is launched.
    unsafe { function.launch(Shape { grid: [0, 1, 1], block: 256 }, &[]) }.unwrap();
    assert_eq!(machine.counters().launches, 4);
    drop((module, function, device));
    assert!(machine.is_clean());
}

#[test]
fn a_module_is_compiled_once() {
    let machine = Machine::new();
    let device = Device::open(0).unwrap();
    let one = Module::load(&device, ADD).unwrap();
    let objects = machine.counters().objects;
    let function = Module::load(&device, ADD).unwrap().function("add").unwrap();
    assert_eq!(machine.counters().objects, objects);
    drop(one);
    assert_eq!(machine.counters().objects, objects, "the function holds on to it");
    drop(function);
    assert_eq!(machine.counters().objects, objects - 1);
    Module::load(&device, ADD).unwrap();
    drop(device);
    assert!(machine.is_clean());
}

#[test]
fn what_the_driver_refuses() {
    let machine = Machine::new();
    let device = Device::open(0).unwrap();
    for wrong in [ADD.replace("add.rn.f32", "bogus.rn.f32"), "no PTX".into(), "\0".into()] {
        let error = Module::load(&device, &wrong).unwrap_err();
        let CudaError::Refused { log } = &error else { panic!("{error}") };
        assert!(!log.is_empty());
        assert!(error.to_string().starts_with("the CUDA driver refuses the generated code: "));
    }
    let bogus = Module::load(&device, &ADD.replace("add.rn.f32", "bogus.rn.f32")).unwrap_err();
    assert!(bogus.to_string().contains("bogus"), "{bogus}");
    let module = Module::load(&device, ADD).unwrap();
    for name in ["sub", "a\0b"] {
        let error = module.function(name).unwrap_err();
        assert_eq!(error, CudaError::NoKernel { name: name.into() });
    }
    let function = module.function("add").unwrap();
    // SAFETY: nothing is launched.
    let launch = |grid, block| unsafe { function.launch(Shape { grid, block }, &[]) }.unwrap_err();
    assert_eq!(
        launch([1, 65_536, 1], 256).to_string(),
        "kernel `add`: 65536 blocks along dimension 1, a device takes 65535: split the loop over blocks"
    );
    let text = "kernel `add`: 2048 threads in a block, a device takes 1024";
    assert_eq!(launch([1; 3], 2048).to_string(), text);
    device.synchronize().unwrap();
    drop((module, function, device));
    assert!(machine.is_clean());
}

#[test]
fn a_stray_access_ends_the_device_and_nothing_else() {
    let machine = Machine::new();
    let device = Device::open(0).unwrap();
    let function = Module::load(&device, ADD).unwrap().function("add").unwrap();
    let lists = Lists::new(300);
    lists.add(&function).unwrap();
    let mut arguments = lists.arguments(&device).unwrap();
    arguments[0] = 64;
    // SAFETY: the stand-in checks addresses.
    let launched = unsafe { function.launch(lists.shape(), &arguments) };
    let fault = launched.and_then(|()| device.synchronize()).unwrap_err();
    assert_eq!(fault, CudaError::Fault { fault: Fault::Address, kernel: "add".into() });
    for _ in 0..2 {
        assert_eq!(lists.sum().as_ref(), Err(&fault));
        assert_eq!(device.zeroed(4).unwrap_err(), fault);
        assert_eq!(lists.add(&function).as_ref(), Err(&fault));
        assert_eq!(device.synchronize().as_ref(), Err(&fault));
    }
    assert!(lists.sum().is_err());
    let fresh = Lists::new(300);
    assert_eq!(fresh.0[0].get(&[7], 0), Some(7.0f32), "the host goes on");
    drop((lists, function, device));
    let device = Device::open(0).unwrap();
    let function = Module::load(&device, ADD).unwrap().function("add").unwrap();
    fresh.add(&function).unwrap();
    assert_eq!(fresh.sum().unwrap(), fresh.expected(), "so does another context");
    drop((fresh, function, device));
    let counters = machine.counters();
    assert_eq!((counters.allocations, counters.objects), (0, 0));
}
