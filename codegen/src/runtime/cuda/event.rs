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
        // SAFETY: the event lives and is recorded.
        let reached = unsafe { result::event::synchronize(self.handle.0) };
        device.check("cuEventSynchronize", reached)?;
        // SAFETY: both live and are recorded; the driver refuses those of two devices.
        let elapsed = unsafe { result::event::elapsed(earlier.handle.0, self.handle.0) };
        let milliseconds = device.check("cuEventElapsedTime", elapsed)?;
        Ok(Duration::try_from_secs_f64(f64::from(milliseconds) * 1e-3).unwrap_or_default())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        self.device.free(|| unsafe { result::event::destroy(self.handle.0) });
    }
}
