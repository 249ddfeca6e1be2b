//! Points of time on a device.

use super::device::Device;
use super::driver::Handle;
use crate::error::CudaError;
use cudarc::driver::{result, sys};
use std::time::Duration;

/// The moment at which a device has done everything that it was asked for before.
#[derive(Debug)]
pub struct Event {
    device: Device,
    handle: Handle<sys::CUevent_st>,
}

impl Device {
    /// The moment at which everything is done that was asked for so far.
    pub fn mark(&self) -> Result<Event, CudaError> {
        let _entered = self.enter()?;
        let made = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let event = Event { device: self.clone(), handle: Handle(self.check("cuEventCreate", made)?) };
        // SAFETY: event and stream live.
        let recorded = unsafe { result::event::record(event.handle.0, self.stream()) };
        self.check("cuEventRecord", recorded)?;
        Ok(event)
    }
}

impl Event {
    /// Time that went by on the device since an earlier moment; waits for this one.
    ///
    /// # Errors
    /// The moments are of two devices, or the device fails.
    pub fn since(&self, earlier: &Event) -> Result<Duration, CudaError> {
        let device = &self.device;
        let _entered = device.enter()?;
        self.wait()?;
        // SAFETY: both live and are recorded; the driver refuses those of two devices.
        let elapsed = unsafe { result::event::elapsed(earlier.handle.0, self.handle.0) };
        let milliseconds = device.check("cuEventElapsedTime", elapsed)?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) * 1e-3).unwrap_or_default())
    }
}

impl Event {
    /// Waits for it.
    fn wait(&self) -> Result<(), CudaError> {
        let _entered = self.device.enter()?;
        self.device.count_wait();
        // SAFETY: the event lives and is recorded.
        let reached = unsafe { result::event::synchronize(self.handle.0) };
        self.device.check("cuEventSynchronize", reached)
    }
}

/// A place of the host where two numbers of a device arrive, as they are behind all that it was asked for before. The host reads them without
/// waiting for what it asks for afterwards.
#[derive(Debug)]
pub struct Mailbox {
    device: Device,
    /// Memory that the device writes to by itself.
    numbers: Handle<[i32; 2]>,
    /// The moment at which what was posted last is there.
    posted: Option<Event>,
}

impl Mailbox {
    /// An empty one.
    pub fn new(device: &Device) -> Result<Mailbox, CudaError> {
        let _entered = device.enter()?;
        // SAFETY: memory that is not initialised holds numbers nevertheless.
        let made = unsafe { result::malloc_host(size_of::<[i32; 2]>(), 0) };
        let numbers = Handle(device.check("cuMemHostAlloc", made)?.cast());
        Ok(Mailbox { device: device.clone(), numbers, posted: None })
    }

    /// Asks for the two i32 at an address of the device, and does not wait.
    ///
    /// # Safety
    /// They are memory of the device that lives until they have been read, or this is dropped.
    pub unsafe fn post(&mut self, from: u64) -> Result<(), CudaError> {
        let (device, bytes) = (&self.device, size_of::<[i32; 2]>());
        let _entered = device.enter()?;
        // SAFETY: both have so many bytes; the host's live until the device is done with them.
        let copied =
            unsafe { sys::cuMemcpyDtoHAsync_v2(self.numbers.0.cast(), from, bytes, device.stream()) };
        device.check("cuMemcpyDtoHAsync", copied.result())?;
        device.count_copy(false, bytes);
        self.posted = Some(device.mark()?);
        Ok(())
    }

    /// Waits for what was posted last; zeros where nothing was.
    pub fn read(&self) -> Result<[i32; 2], CudaError> {
        let Some(posted) = &self.posted else { return Ok([0; 2]) };
        posted.wait()?;
        // SAFETY: the device has written them, and writes no more.
        Ok(unsafe { self.numbers.0.read() })
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // SAFETY: the stream lives.
        self.device.free(|| unsafe { result::stream::synchronize(self.device.stream()) });
        // SAFETY: allocated once, freed once.
        self.device.free(|| unsafe { result::free_host(self.numbers.0.cast()) });
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        self.device.free(|| unsafe { result::event::destroy(self.handle.0) });
    }
}
