//! Buffers with values on pretended devices: memory of this process, where copies are counted and made to fail.

use super::{Access, Block, Home};
use crate::error::{CudaError, Fault};
use crate::runtime::{Buffer, BufferError, BufferSpec, Dimension, Pool, View};
use crate::types::ScalarType;
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Default)]
struct Memory {
    /// Blocks by number, those that are freed empty.
    blocks: Vec<Vec<u8>>,
    to_device: usize,
    to_host: usize,
    failing: bool,
}

/// A device whose block k begins at address k << 32.
#[derive(Clone)]
struct Pretended(u64, Arc<Mutex<Memory>>);

struct PretendedBlock(Pretended, usize);

fn lost() -> CudaError {
    CudaError::Fault { fault: Fault::Lost, kernel: "k".into() }
}

impl Pretended {
    fn new(number: u64) -> Pretended {
        Pretended(number, Arc::default())
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.1.lock().unwrap()
    }

    /// The values at an address.
    fn at<R>(&self, address: u64, f: impl FnOnce(&mut [i32]) -> R) -> R {
        let mut memory = self.memory();
        let bytes = &mut memory.blocks[(address >> 32) as usize][address as u32 as usize..];
        let mut values: Vec<i32> =
            bytes.chunks_exact(4).map(|c| i32::from_ne_bytes(c.try_into().unwrap())).collect();
        let result = f(&mut values);
        for (to, from) in bytes.chunks_exact_mut(4).zip(values) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        result
    }

    fn copies(&self) -> (usize, usize) {
        let memory = self.memory();
        (memory.to_device, memory.to_host)
    }

    fn fail(&self, failing: bool) {
        self.memory().failing = failing;
    }
}

impl Home for Pretended {
    fn number(&self) -> u64 {
        self.0
    }

    fn block(&self, bytes: usize) -> Result<Box<dyn Block>, CudaError> {
        let mut memory = self.memory();
        if memory.failing {
            return Err(CudaError::Memory { needed: bytes as u64, free: 0 });
        }
        memory.blocks.push(vec![0xa5; bytes]);
        let number = memory.blocks.len() - 1;
        Ok(Box::new(PretendedBlock(self.clone(), number)))
    }
}

impl Block for PretendedBlock {
    fn home(&self) -> u64 {
        self.0.0
    }

    fn address(&self) -> u64 {
        (self.1 as u64) << 32
    }

    fn clear(&self) -> Result<(), CudaError> {
        let mut memory = self.0.memory();
        if memory.failing {
            return Err(lost());
        }
        memory.blocks[self.1].fill(0);
        Ok(())
    }

    fn upload(&self, from: &[u8]) -> Result<(), CudaError> {
        let mut memory = self.0.memory();
        if memory.failing {
            return Err(lost());
        }
        memory.to_device += 1;
        memory.blocks[self.1].copy_from_slice(from);
        Ok(())
    }

    fn download(&self, to: &mut [u8]) -> Result<(), CudaError> {
        let mut memory = self.0.memory();
        if memory.failing {
            to.fill(0x5a);
            return Err(lost());
        }
        memory.to_host += 1;
        to.copy_from_slice(&memory.blocks[self.1]);
        Ok(())
    }
}

impl Drop for PretendedBlock {
    fn drop(&mut self) {
        self.0.memory().blocks[self.1].clear();
    }
}

fn list(n: i32) -> Buffer {
    Buffer::new(BufferSpec::new(ScalarType::I32, &[n]).halo(&[2])).unwrap()
}

#[test]
fn nothing_is_copied_that_both_sides_have() {
    let (device, b) = (Pretended::new(0), list(4));
    let read = b.on_device(&device, 0, Access::Read).unwrap();
    assert_eq!(device.at(read, |v| v[0]), 0);
    assert_eq!(device.copies(), (0, 0), "zeros are not copied");
    assert!(b.set(&[1], 0, 7) && b.set(&[-2], 0, 5));
    let version = b.version();
    assert_eq!(b.on_device(&device, 0, Access::Read), Ok(read));
    assert_eq!(b.on_device(&device, 0, Access::Read), Ok(read));
    assert_eq!((device.copies(), b.version()), ((1, 0), version));
    let write = b.on_device(&device, 0, Access::Write).unwrap();
    assert_eq!((write, device.copies()), (read, (1, 0)));
    assert_ne!(b.version(), version);
    device.at(write, |v| v[2] = 9);
    assert_eq!(b.to_vec::<i32>(), [0, 7, 9, 0]);
    assert_eq!((b.get(&[-2], 0), b.get::<i32>(&[2], 0)), (Some(5), Some(9)));
    assert_eq!(device.copies(), (1, 1));
    drop(b);
    assert!(device.memory().blocks.iter().all(Vec::is_empty));
}

#[test]
fn planes_lie_on_the_device_as_on_the_host() {
    let device = Pretended::new(0);
    let b = Buffer::new(BufferSpec::new(ScalarType::I32, &[5, 3]).channels(2).halo(&[1, 1])).unwrap();
    b.generate(&Pool::new(1), |element, channel| (10 * element + channel) as i32).unwrap();
    let at = |plane| b.on_device(&device, plane, Access::Read).unwrap();
    assert_eq!((at(1) - at(0)) as usize, b.plane_ptr(1) as usize - b.plane_ptr(0) as usize);
    let row = b.strides()[1] as usize;
    assert_eq!(device.at(at(1), |v| (v[0], v[row + 2])), (1, 71));
}

#[test]
fn both_sides_are_exchanged() {
    let (device, mut a, mut b) = (Pretended::new(0), list(1), list(1));
    assert!(b.set(&[0], 0, 3));
    let address = a.on_device(&device, 0, Access::Write).unwrap();
    device.at(address, |v| v[0] = 8);
    a.swap(&mut b).unwrap();
    assert_eq!((a.get::<i32>(&[0], 0), b.get::<i32>(&[0], 0)), (Some(3), Some(8)));
    assert_eq!(b.on_device(&device, 0, Access::Read), Ok(address));
}

#[test]
fn values_move_from_device_to_device() {
    let (one, two, b) = (Pretended::new(1), Pretended::new(2), list(3));
    let address = b.on_device(&one, 0, Access::Write).unwrap();
    one.at(address, |v| v[1] = 4);
    let address = b.on_device(&two, 0, Access::Write).unwrap();
    assert!(one.memory().blocks[0].is_empty(), "freed");
    two.at(address, |v| v[2] = v[1] + 1);
    assert_eq!(b.to_vec::<i32>(), [0, 4, 5]);
    assert_eq!((one.copies(), two.copies()), ((0, 1), (1, 1)));
}

#[test]
fn old_values_are_not_handed_out() {
    let (device, b) = (Pretended::new(0), list(3));
    b.copy_from(&[1, 2, 3]).unwrap();
    let address = b.on_device(&device, 0, Access::Write).unwrap();
    device.at(address, |v| v[0] = 10);
    device.fail(true);
    let (lost, pool) = (Err(BufferError::Device(lost())), Pool::new(1));
    let view = Dimension::dense(&[1, 3]);
    for _ in 0..2 {
        assert_eq!((b.get::<i32>(&[0], 0), b.set(&[0], 0, 1)), (None, false));
        assert!(b.to_vec::<i32>().is_empty());
        assert_eq!(b.copy_to(&mut [0; 3]), lost);
        assert_eq!(b.copy_from(&[0; 3]), lost);
        assert_eq!(b.copy_channels(0, &View::reading(&[0; 3], &view).unwrap(), &pool), lost);
        assert_eq!(b.copy_channels_to(0, 1, &mut [0; 3], &pool), lost);
        assert_eq!(b.generate(&pool, |_, _| 0), lost);
        assert!(b.value_outside(0, 1).is_err() && b.sync_host().is_err());
        assert!(b.on_device(&Pretended::new(5), 0, Access::Read).is_err());
        b.fill(4);
    }
    device.fail(false);
    assert_eq!(b.to_vec::<i32>(), [10, 2, 3]);
    device.fail(true);
    assert!(b.set(&[1], 0, 5), "the host has them all");
    assert!(b.on_device(&device, 0, Access::Write).is_err());
    assert_eq!(b.to_vec::<i32>(), [10, 5, 3], "nothing was written");
    b.clear();
    assert_eq!(b.to_vec::<i32>(), [0; 3]);
}

#[test]
fn zeros_are_never_copied() {
    let (device, b) = (Pretended::new(0), list(2));
    assert!(b.set(&[0], 0, 1));
    let address = b.on_device(&device, 0, Access::Write).unwrap();
    device.at(address, |v| v[1] = 2);
    device.fail(true);
    b.clear();
    assert_eq!(b.to_vec::<i32>(), [0; 2], "without a copy back");
    device.fail(false);
    assert_eq!(b.on_device(&device, 0, Access::Read), Ok(address));
    assert_eq!((device.at(address, |v| v[..2].to_vec()), device.copies()), (vec![0; 2], (1, 0)));
    assert!(b.set(&[1], 0, 3));
    b.on_device(&device, 0, Access::Read).unwrap();
    assert_eq!((device.at(address, |v| v[..2].to_vec()), device.copies()), (vec![0, 3], (2, 0)));
}

#[test]
fn borrowed_memory() {
    let device = Pretended::new(0);
    let mut slice = [1, 2, 3, 4];
    {
        let dims = [Dimension::new(0, 2, 2)];
        let v = View::new(&mut slice, &dims).unwrap();
        let address = v.on_device(&device, 0, Access::Write).unwrap();
        device.at(address, |v| v[2] = 30);
        v.sync_borrowed().unwrap();
        let v = View::reading(&[5, 6], &[Dimension::new(0, 2, -1)]).unwrap();
        let address = v.on_device(&device, 0, Access::Read).unwrap();
        assert_eq!(device.at(address - 4, |v| (v[0], v[1])), (5, 6));
        assert_eq!(v.on_device(&device, 0, Access::Write), Err(BufferError::ReadOnly));
    }
    assert_eq!(slice, [1, 2, 30, 4]);
    let own = list(1);
    own.on_device(&device, 0, Access::Write).unwrap();
    own.sync_borrowed().unwrap();
    assert_eq!(device.copies().1, 1, "nobody looks at it");
}

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Whoever reads and writes where in whatever order, with copies that fail now and then: every read gives the last value written.
#[test]
fn every_read_gives_the_last_value() {
    let devices = [Pretended::new(1), Pretended::new(2)];
    let mut random = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut a, mut b) = (list(3), list(3));
    let mut model = [[0; 3]; 2];
    // Miri takes some hundred times as long for a step.
    for step in 0..if cfg!(miri) { 200 } else { 4000 } {
        let device = &devices[random.below(8) as usize / 7];
        device.fail(random.below(4) == 0);
        let at = random.below(3) as usize;
        let (buffer, values) = if random.below(2) == 0 { (&a, &mut model[0]) } else { (&b, &mut model[1]) };
        match random.below(6) {
            0 if buffer.set(&[at as i32], 0, step) => values[at] = step,
            1 => {
                if let Ok(address) = buffer.on_device(device, 0, Access::Write) {
                    values[at] = step;
                    device.at(address, |v| v[at] = step);
                }
            }
            2 => {
                if let Ok(address) = buffer.on_device(device, 0, Access::Read) {
                    assert_eq!(device.at(address, |v| v[..3].to_vec()), *values);
                }
            }
            3 => {
                a.swap(&mut b).unwrap();
                model.swap(0, 1);
            }
            4 => {
                let read = buffer.to_vec::<i32>();
                assert!(read.is_empty() || read == *values, "step {step}: {read:?}, expected {values:?}");
            }
            _ => {
                let read = buffer.get::<i32>(&[at as i32], 0);
                assert!(read.is_none_or(|v| v == values[at]), "step {step}");
            }
        }
        devices.iter().for_each(|d| d.fail(false));
    }
    assert_eq!([a, b].map(|b| b.to_vec::<i32>()), model);
}
