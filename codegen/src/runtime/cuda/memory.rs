//! Memory of a device.

use super::device::Device;
use crate::error::CudaError;
use crate::runtime::side::{Block, Home};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::CUresult;
use std::sync::Arc;

/// Alignment of every block of memory, in bytes.
const ALIGN: usize = 256;
/// Most bytes that go up without a wait: so many a driver takes from the host at once.
const FEW: usize = 64 << 10;

/// A block of a device's memory, 256-byte aligned, freed when it is dropped and nothing uses it any more.
#[derive(Debug)]
pub struct DeviceMemory {
    device: Device,
    address: u64,
    bytes: usize,
    /// The whole that it is part of, perhaps with other blocks; `None` for a part of somebody else's, which may lie anywhere.
    whole: Option<Arc<Allocation>>,
}

/// Memory that the driver has given.
#[derive(Debug)]
struct Allocation {
    device: Device,
    address: u64,
    bytes: usize,
}

impl Device {
    /// Checks that so many bytes are free, before any of them are taken.
    ///
    /// # Errors
    /// [`CudaError::Memory`], or the device fails.
    pub fn require(&self, needed: u64) -> Result<(), CudaError> {
        let free = self.memory()?.free;
        if needed <= free { Ok(()) } else { Err(CudaError::Memory { needed, free }) }
    }

    /// A block of so many bytes, whose values are anything.
    ///
    /// # Errors
    /// [`CudaError::Memory`], or the device fails.
    pub fn allocate(&self, bytes: usize) -> Result<DeviceMemory, CudaError> {
        let whole = self.take(bytes)?;
        Ok(DeviceMemory { device: self.clone(), address: whole.address, bytes, whole: Some(whole.into()) })
    }

    /// Blocks of these sizes that lie one behind the other.
    fn allocate_together(&self, bytes: &[usize]) -> Result<Vec<DeviceMemory>, CudaError> {
        let size = |bytes: usize| bytes.checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX);
        let total = bytes.iter().fold(0usize, |sum, n| sum.saturating_add(size(*n)));
        let whole = Arc::new(self.take(total)?);
        let mut address = whole.address;
        let block = |&bytes: &usize| {
            let here = address;
            address += size(bytes) as u64;
            DeviceMemory { device: self.clone(), address: here, bytes, whole: Some(whole.clone()) }
        };
        Ok(bytes.iter().map(block).collect())
    }

    fn take(&self, bytes: usize) -> Result<Allocation, CudaError> {
        let _entered = self.enter()?;
        let size = bytes.max(1).checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX);
        // SAFETY: memory that is not initialised holds numbers nevertheless.
        match unsafe { result::malloc_sync(size) } {
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                let (free, _) = self.check("cuMemGetInfo", result::mem_get_info())?;
                Err(CudaError::Memory { needed: bytes as u64, free: free as u64 })
            }
            made => {
                let address = self.check("cuMemAlloc", made)?;
                Ok(Allocation { device: self.clone(), address, bytes: size })
            }
        }
    }

    /// A block of so many zero bytes.
    ///
    /// # Errors
    /// As of [`Device::allocate`].
    pub fn zeroed(&self, bytes: usize) -> Result<DeviceMemory, CudaError> {
        let memory = self.allocate(bytes)?;
        memory.clear()?;
        Ok(memory)
    }
}

impl DeviceMemory {
    /// Memory of somebody else, who keeps it as long as the result is used.
    pub(in crate::runtime) fn lent(device: &Device, address: u64, bytes: usize) -> DeviceMemory {
        DeviceMemory { device: device.clone(), address, bytes, whole: None }
    }

    /// The address of its first byte, on the device.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Sets all bytes to zero.
    pub fn clear(&self) -> Result<(), CudaError> {
        let _entered = self.device.enter()?;
        // SAFETY: the block lives, and is freed behind what was asked for before.
        let cleared = unsafe { result::memset_d8_async(self.address, 0, self.bytes, self.device.stream()) };
        self.device.check("cuMemsetD8Async", cleared)
    }

    /// Copies bytes to it, from byte `offset` on, behind all that was asked for before; waits until that is done.
    pub fn upload(&self, offset: usize, from: &[u8]) -> Result<(), CudaError> {
        self.within(UPLOAD, offset, from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        let _entered = self.device.enter()?;
        // SAFETY: both blocks have so many bytes and live until the stream is done, which is waited for.
        let copied =
            unsafe { result::memcpy_htod_async(self.address + offset as u64, from, self.device.stream()) };
        self.copied(UPLOAD, copied, true, from.len())
    }

    /// As [`DeviceMemory::upload`] from the beginning on, without a wait where they are few: for what this device's stream does alone.
    fn send(&self, from: &[u8]) -> Result<(), CudaError> {
        if from.is_empty() || from.len() > FEW {
            return self.upload(0, from);
        }
        self.within(UPLOAD, 0, from.len())?;
        let _entered = self.device.enter()?;
        self.device.send(from, |kept| {
            // SAFETY: both blocks have so many bytes; the device keeps its copy until somebody has waited.
            let sent = unsafe { result::memcpy_htod_async(self.address, kept, self.device.stream()) };
            self.device.check(UPLOAD, sent)
        })
    }

    /// Copies bytes from it, from byte `offset` on, behind all that was asked for before; waits until that is done.
    pub fn download(&self, offset: usize, to: &mut [u8]) -> Result<(), CudaError> {
        self.within(DOWNLOAD, offset, to.len())?;
        self.bring(self.address + offset as u64, to)
    }

    /// Brings bytes from an address on, of this block or of others that it lies together with.
    fn bring(&self, from: u64, to: &mut [u8]) -> Result<(), CudaError> {
        if to.is_empty() {
            return Ok(());
        }
        let _entered = self.device.enter()?;
        // SAFETY: both have so many bytes, as the caller has checked, and live until the stream is done, which is waited for.
        let copied = unsafe { result::memcpy_dtoh_async(to, from, self.device.stream()) };
        self.copied(DOWNLOAD, copied, false, to.len())
    }

    /// Copies all bytes of another block of the same device and size to it, behind all that was asked for before, and does not wait.
    pub fn copy_from(&self, from: &DeviceMemory) -> Result<(), CudaError> {
        let call = "cuMemcpyDtoDAsync";
        if from.bytes != self.bytes || from.device.number() != self.device.number() {
            return Err(CudaError::Call { call, code: "blocks of two devices, or of two sizes".into() });
        }
        let _entered = self.device.enter()?;
        // SAFETY: both blocks have so many bytes, and are freed behind what was asked for before.
        let copied = unsafe {
            result::memcpy_dtod_async(self.address, from.address, self.bytes, self.device.stream())
        };
        self.device.check(call, copied)
    }

    /// An error unless so many bytes from `offset` on are inside.
    fn within(&self, call: &'static str, offset: usize, bytes: usize) -> Result<(), CudaError> {
        if offset.checked_add(bytes).is_some_and(|end| end <= self.bytes) {
            return Ok(());
        }
        let code = format!("{bytes} bytes from {offset} on, of {}", self.bytes);
        Err(CudaError::Call { call, code })
    }

    /// Waits for a copy that was started, or not: nothing uses the host's bytes afterwards. A wait may report the failure of earlier work
    /// instead, so that it is made again.
    fn copied(
        &self,
        call: &'static str,
        started: Result<(), DriverError>,
        to_device: bool,
        bytes: usize,
    ) -> Result<(), CudaError> {
        let started = self.device.check(call, started);
        let waited = self.device.wait().or_else(|error| self.device.wait().and(Err(error)));
        started.and(waited)?;
        self.device.count_copy(to_device, bytes);
        Ok(())
    }
}

/// The call that brings bytes to the device.
const UPLOAD: &str = "cuMemcpyHtoDAsync";

/// The call that brings bytes to the host.
const DOWNLOAD: &str = "cuMemcpyDtoHAsync";

impl Drop for Allocation {
    fn drop(&mut self) {
        // Kernels that use the block may still be on their way.
        // SAFETY: the stream lives.
        self.device.free(|| unsafe { result::stream::synchronize(self.device.stream()) });
        // SAFETY: allocated once, freed once.
        self.device.free(|| unsafe { result::free_sync(self.address) });
    }
}

impl Home for Device {
    fn number(&self) -> u64 {
        Device::number(self)
    }

    fn block(&self, bytes: usize) -> Result<Box<dyn Block>, CudaError> {
        Ok(Box::new(self.allocate(bytes)?))
    }

    fn blocks(&self, bytes: &[usize]) -> Result<Vec<Box<dyn Block>>, CudaError> {
        let blocks = self.allocate_together(bytes)?.into_iter();
        Ok(blocks.map(|block| Box::new(block) as Box<dyn Block>).collect())
    }
}

impl Block for DeviceMemory {
    fn home(&self) -> u64 {
        self.device.number()
    }

    fn address(&self) -> u64 {
        self.address
    }

    fn clear(&self) -> Result<(), CudaError> {
        DeviceMemory::clear(self)
    }

    fn upload(&self, from: &[u8]) -> Result<(), CudaError> {
        self.send(from)
    }

    fn download(&self, to: &mut [u8]) -> Result<(), CudaError> {
        DeviceMemory::download(self, 0, to)
    }

    fn whole(&self) -> u64 {
        self.whole.as_ref().map_or(self.address, |whole| whole.address)
    }

    fn download_beyond(&self, to: &mut [u8]) -> Result<(), CudaError> {
        let (first, bytes) = self.whole.as_ref().map_or((self.address, self.bytes), |w| (w.address, w.bytes));
        if self.address - first + to.len() as u64 > bytes as u64 {
            return Err(CudaError::Call { call: DOWNLOAD, code: "more than lies together".into() });
        }
        self.bring(self.address, to)
    }
}
