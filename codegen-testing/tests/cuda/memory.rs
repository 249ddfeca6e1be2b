//! Devices, their memory, and buffers with a side on one.

use crate::machine::Machine;
use sumsq_codegen::ScalarType;
use sumsq_codegen::runtime::cuda::{CudaError, Device, Version, devices};
use sumsq_codegen::runtime::{Access, Buffer, BufferSpec};

#[test]
fn devices_are_described() {
    let machine = Machine::new();
    machine.set("DEVICES", "2");
    machine.set("CAPABILITY", "8.6");
    machine.set("MULTIPROCESSORS", "84");
    let all = devices().unwrap();
    assert_eq!(all.iter().map(|d| d.ordinal).collect::<Vec<_>>(), [0, 1]);
    let d = &all[1];
    assert_eq!((d.sm, d.memory, d.multiprocessors, d.driver), (86, 64 << 20, 84, Version(12080)));
    assert!(!d.name.is_empty() && d.obstacle().is_none());
    assert_eq!(d.target().processor.name, "sm_86");
    assert_eq!(Device::open(1).unwrap().info(), d);
    let text = Device::open(2).unwrap_err().to_string();
    assert_eq!(text, "there is no CUDA device 2: devices are numbered from 0 to 1");
    machine.set("MULTIPROCESSORS", "132");
    assert!(machine.is_clean());
}

#[test]
fn bytes_go_there_and_back() {
    let machine = Machine::new();
    let device = Device::open(0).unwrap();
    let before = device.memory().unwrap();
    let memory = device.zeroed(1000).unwrap();
    assert_eq!((memory.address() % 256, memory.bytes()), (0, 1000));
    assert!(device.memory().unwrap().free < before.free && before.total == 64 << 20);
    memory.upload(10, &[1, 2, 3]).unwrap();
    let mut back = [9; 5];
    memory.download(9, &mut back).unwrap();
    assert_eq!(back, [0, 1, 2, 3, 0]);
    memory.clear().unwrap();
    memory.download(0, &mut back).unwrap();
    assert_eq!(back, [0; 5]);
    for (offset, bytes) in [(998, 3), (1001, 0), (usize::MAX, 1)] {
        assert!(memory.upload(offset, &vec![0; bytes]).is_err());
        assert!(memory.download(offset, &mut vec![0; bytes]).is_err());
    }
    let counts = device.counts();
    assert_eq!((counts.to_device, counts.to_host, counts.launches, counts.waits), (3, 10, 0, 3));
    drop(memory);
    assert_eq!(device.memory().unwrap(), before);
    drop(device);
    assert!(machine.is_clean());
}

#[test]
fn too_little_memory_is_told_in_bytes() {
    let machine = Machine::new();
    let device = Device::open(0).unwrap();
    let _half = device.allocate(32 << 20).unwrap();
    let free = device.memory().unwrap().free;
    let error = device.allocate(48 << 20).unwrap_err();
    assert_eq!(error, CudaError::Memory { needed: 48 << 20, free });
    let text = format!("not enough memory on the GPU: 50331648 bytes are needed, {free} are free");
    assert_eq!(error.to_string(), text);
    assert_eq!(device.require(48 << 20), Err(error));
    assert_eq!(device.require(free), Ok(()));
    assert!(device.allocate(usize::MAX).is_err());
    let large = Buffer::new(BufferSpec::new(ScalarType::F32, &[16 << 20])).unwrap();
    assert!(large.on_device(&device, 0, Access::Read).is_err());
    assert!(large.set(&[5], 0, 1.0f32), "the host has it");
    assert!(device.allocate(1 << 20).is_ok());
    drop((_half, device));
    assert!(machine.is_clean());
}

/// Kernels count elements in 32 bits.
#[test]
fn planes_that_kernels_do_not_reach_stay_away() {
    let machine = Machine::new();
    let device = Device::open(0).unwrap();
    let plane =
        |rows: i32| Buffer::new(BufferSpec::new(ScalarType::U8, &[65_472, rows]).halo(&[0, 0])).unwrap();
    let error = plane(32_800).on_device(&device, 0, Access::Read).unwrap_err().to_string();
    let sentence =
        "extents [65472, 32800] are too large for a GPU: a plane has at most 2147418112 elements there";
    assert_eq!(error, sentence);
    assert!(plane(3).on_device(&device, 0, Access::Read).is_ok());
    drop(device);
    assert!(machine.is_clean());
}

#[test]
fn a_buffer_has_its_values_on_a_device() {
    let machine = Machine::new();
    let device = Device::open(0).unwrap();
    let spec = BufferSpec::new(ScalarType::F32, &[9, 4]).channels(2).halo(&[1, 1]);
    let (b, zeros) = (Buffer::new(spec.clone()).unwrap(), Buffer::new(spec).unwrap());
    let values: Vec<f32> = (0..72).map(|i| i as f32).collect();
    b.copy_from(&values).unwrap();
    let [p, q] = [0, 1].map(|plane| b.on_device(&device, plane, Access::Write).unwrap());
    assert_eq!((p % 64, q - p), (0, b.plane_ptr(1) as u64 - b.plane_ptr(0) as u64));
    assert_eq!(device.counts().to_device, b.bytes() as u64);
    assert_eq!(b.to_vec::<f32>(), values, "copied back");
    assert_eq!(device.counts().to_host, b.bytes() as u64);
    zeros.on_device(&device, 0, Access::Write).unwrap();
    assert_eq!(zeros.to_vec::<f32>(), [0.0; 72]);
    assert_eq!(device.counts().to_device, b.bytes() as u64, "zeros are not copied");
    drop((b, zeros, device));
    assert!(machine.is_clean());
}
