//! Streams and events.

use super::exports;
use crate::driver::Driver;
use crate::objects::*;
use crate::raw::{Callback, Host, Out};
use crate::status::*;
use std::ffi::{c_int, c_uint, c_void};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;

/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: c_uint = 2;

/// A device that is asked "done?" has not done anything the first time.
const NOT_READY_TIMES: u32 = 1;

exports! {
    fn cuStreamCreate(driver, stream: Out<Handle>, flags: c_uint) {
        let handle = driver.open_stream(flags)?;
        stream.put(handle)
    }

    fn cuStreamCreateWithPriority(driver, stream: Out<Handle>, flags: c_uint, _priority: c_int) {
        let handle = driver.open_stream(flags)?;
        stream.put(handle)
    }

    fn cuStreamDestroy_v2(driver, stream: Handle) {
        if driver.streams.get(stream)?.built_in {
            return Err(INVALID_HANDLE);
        }
        let last = driver.streams.get(stream)?.enqueued;
        let outcome = driver.drain(stream, last);
        driver.streams.remove(stream)?;
        driver.current()?;
        outcome
    }

    fn cuStreamSynchronize(driver, stream: Handle) {
        let stream = driver.stream(stream)?;
        if driver.streams.get(stream)?.capture.is_some() {
            return Err(STREAM_CAPTURE_UNSUPPORTED);
        }
        driver.counters.waits += 1;
        driver.drain_stream(stream)
    }

    fn cuStreamQuery(driver, stream: Handle) {
        let stream = driver.stream(stream)?;
        let s = driver.streams.get_mut(stream)?;
        if s.done == s.enqueued {
            return Ok(());
        }
        s.asked += 1;
        if s.asked <= NOT_READY_TIMES {
            return Err(NOT_READY);
        }
        s.asked = 0;
        driver.drain_stream(stream)
    }

    fn cuStreamWaitEvent(driver, stream: Handle, event: Handle, _flags: c_uint) {
        let stream = driver.stream(stream)?;
        match driver.events.get(event)?.recorded {
            Some((other, number)) if other != stream => driver.enqueue(stream, Work::After(other, number)),
            _ => Ok(()),
        }
    }

    fn cuStreamGetCtx(driver, stream: Handle, context: Out<Handle>) {
        // Of any context, but for the names that each has streams of.
        let stream = if driver.streams.get(stream).is_ok() { stream } else { driver.stream(stream)? };
        context.put(driver.streams.get(stream)?.context)
    }

    fn cuLaunchHostFunc(driver, stream: Handle, function: Option<extern "C" fn(*mut c_void)>, data: Host) {
        let stream = driver.stream(stream)?;
        driver.enqueue(stream, Work::Host(Callback::new(function, data)?))
    }

    fn cuEventCreate(driver, event: Out<Handle>, flags: c_uint) {
        let context = driver.current()?;
        let handle = driver.handle();
        let timing = flags & NO_TIMING == 0;
        driver.events.insert(handle, Event { context, recorded: None, reached: None, timing, asked: 0 });
        event.put(handle)
    }

    fn cuEventRecord(driver, event: Handle, stream: Handle) {
        let stream = driver.stream(stream)?;
        if driver.events.get(event)?.context != driver.current()? {
            return Err(INVALID_HANDLE);
        }
        if driver.streams.get(stream)?.capture.is_some() {
            return Err(STREAM_CAPTURE_UNSUPPORTED);
        }
        driver.enqueue(stream, Work::Record(event))?;
        let number = driver.streams.get(stream)?.enqueued;
        let e = driver.events.get_mut(event)?;
        (e.recorded, e.reached, e.asked) = (Some((stream, number)), None, 0);
        Ok(())
    }

    fn cuEventSynchronize(driver, event: Handle) {
        driver.current()?;
        driver.counters.waits += 1;
        driver.reach(event)
    }

    fn cuEventQuery(driver, event: Handle) {
        driver.current()?;
        let pending = driver.pending(event)?;
        let e = driver.events.get_mut(event)?;
        if !pending {
            return Ok(());
        }
        e.asked += 1;
        if e.asked <= NOT_READY_TIMES {
            return Err(NOT_READY);
        }
        driver.reach(event)
    }

    fn cuEventElapsedTime(driver, milliseconds: Out<f32>, start: Handle, end: Handle) {
        let elapsed = driver.elapsed(start, end)?;
        milliseconds.put(elapsed)
    }

    fn cuEventElapsedTime_v2(driver, milliseconds: Out<f32>, start: Handle, end: Handle) {
        let elapsed = driver.elapsed(start, end)?;
        milliseconds.put(elapsed)
    }

    fn cuEventDestroy_v2(driver, event: Handle) {
        driver.events.remove(event)?;
        driver.current().map(drop)
    }
}

impl Driver {
    fn open_stream(&mut self, flags: c_uint) -> Result<Handle, Status> {
        let context = self.current()?;
        if flags > NON_BLOCKING {
            return Err(INVALID_VALUE);
        }
        Ok(self.new_stream(context, flags & NON_BLOCKING == 0, false))
    }

    /// True where work before an event is still to be done.
    fn pending(&self, event: Handle) -> Result<bool, Status> {
        let Some((stream, number)) = self.events.get(event)?.recorded else { return Ok(false) };
        Ok(self.streams.get(stream).is_ok_and(|s| s.done < number))
    }

    /// Does the work before an event.
    fn reach(&mut self, event: Handle) -> Done {
        match self.events.get(event)?.recorded {
            Some((stream, number)) => self.drain(stream, number),
            None => Ok(()),
        }
    }

    fn elapsed(&self, start: Handle, end: Handle) -> Result<f32, Status> {
        self.current()?;
        let (a, b) = (self.events.get(start)?, self.events.get(end)?);
        if !a.timing || !b.timing || a.recorded.is_none() || b.recorded.is_none() {
            return Err(INVALID_HANDLE);
        }
        match (a.reached, b.reached) {
            (Some(a), Some(b)) => Ok((b as f64 - a as f64) as f32 / 1000.0),
            _ => Err(NOT_READY),
        }
    }
}
