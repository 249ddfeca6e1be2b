//! Memory: taken, given back, copied and filled.

use super::exports;
use crate::driver::Driver;
use crate::objects::*;
use crate::raw::{Host, Out};
use crate::status::*;
use std::ffi::{c_uchar, c_uint, c_ushort};
use std::sync::Arc;

/// Ways to attach managed memory. The stand-in keeps it like any other: the host reaches it by copies alone.
const ATTACH_GLOBAL: c_uint = 1;
const ATTACH_HOST: c_uint = 2;

exports! {
    fn cuMemAlloc_v2(driver, address: Out<u64>, bytes: usize) {
        let found = driver.take(bytes)?;
        address.put(found)
    }

    fn cuMemAllocManaged(driver, address: Out<u64>, bytes: usize, flags: c_uint) {
        if flags != ATTACH_GLOBAL && flags != ATTACH_HOST {
            return Err(INVALID_VALUE);
        }
        let found = driver.take(bytes)?;
        driver.managed.insert(found);
        address.put(found)
    }

    fn cuMemFree_v2(driver, address: u64) {
        if address == 0 {
            return Ok(());
        }
        // A broken context gives nothing back, but the program has let go.
        if let Err(code) = driver.current() {
            driver.give(address);
            return Err(code);
        }
        let context = driver.current()?;
        driver.not_capturing(context)?;
        driver.owned(address)?;
        let outcome = driver.drain_context(context);
        driver.give(address);
        outcome
    }

    fn cuMemAllocAsync(driver, address: Out<u64>, bytes: usize, stream: Handle) {
        driver.stream(stream)?;
        let found = driver.take(bytes)?;
        address.put(found)
    }

    fn cuMemFreeAsync(driver, address: u64, stream: Handle) {
        if address == 0 {
            return Ok(());
        }
        if let Err(code) = driver.current() {
            driver.give(address);
            return Err(code);
        }
        let stream = driver.stream(stream)?;
        driver.owned(address)?;
        driver.enqueue(stream, Work::Free(address))
    }

    fn cuMemGetInfo_v2(driver, free: Out<usize>, total: Out<usize>) {
        let context = driver.current()?;
        let memory = driver.memory(context)?;
        free.put((memory.capacity() - memory.used()) as usize)?;
        total.put(memory.capacity() as usize)
    }

    fn cuMemHostAlloc(driver, pointer: Out<usize>, bytes: usize, _flags: c_uint) {
        let found = driver.take_host(bytes)?;
        pointer.put(found)
    }

    fn cuMemAllocHost_v2(driver, pointer: Out<usize>, bytes: usize) {
        let found = driver.take_host(bytes)?;
        pointer.put(found)
    }

    fn cuMemFreeHost(driver, pointer: Host) {
        let is_owned = driver.host.get(&pointer.0).is_some_and(|h| h.owned.is_some());
        if !is_owned {
            return Err(INVALID_VALUE);
        }
        let outcome = driver.current().and_then(|context| driver.drain_context(context));
        driver.host.remove(&pointer.0);
        outcome
    }

    fn cuMemHostRegister_v2(driver, pointer: Host, bytes: usize, _flags: c_uint) {
        let context = driver.current()?;
        if pointer.0 == 0 || bytes == 0 {
            return Err(INVALID_VALUE);
        }
        if driver.pinned(pointer, 1) {
            return Err(HOST_MEMORY_ALREADY_REGISTERED);
        }
        driver.host.insert(pointer.0, HostMemory { context, bytes, owned: None });
        Ok(())
    }

    fn cuMemHostUnregister(driver, pointer: Host) {
        if driver.host.get(&pointer.0).is_none_or(|h| h.owned.is_some()) {
            return Err(HOST_MEMORY_NOT_REGISTERED);
        }
        let outcome = driver.current().and_then(|context| driver.drain_context(context));
        driver.host.remove(&pointer.0);
        outcome
    }

    fn cuMemHostGetFlags(driver, flags: Out<c_uint>, pointer: Host) {
        if !driver.pinned(pointer, 1) {
            return Err(INVALID_VALUE);
        }
        flags.put(0)
    }

    fn cuMemcpyHtoD_v2(driver, to: u64, from: Host, bytes: usize) {
        let stream = driver.stream(0)?;
        let work = driver.to_device(to, from, bytes)?;
        driver.now(stream, work)
    }

    fn cuMemcpyHtoDAsync_v2(driver, to: u64, from: Host, bytes: usize, stream: Handle) {
        let stream = driver.stream(stream)?;
        let work = driver.to_device(to, from, bytes)?;
        driver.enqueue(stream, work)
    }

    fn cuMemcpyDtoH_v2(driver, to: Host, from: u64, bytes: usize) {
        let stream = driver.stream(0)?;
        let work = driver.to_host(to, from, bytes)?;
        driver.now(stream, work)
    }

    fn cuMemcpyDtoHAsync_v2(driver, to: Host, from: u64, bytes: usize, stream: Handle) {
        let stream = driver.stream(stream)?;
        let work = driver.to_host(to, from, bytes)?;
        driver.enqueue(stream, work)
    }

    fn cuMemcpyDtoD_v2(driver, to: u64, from: u64, bytes: usize) {
        let stream = driver.stream(0)?;
        let work = driver.within(to, from, bytes)?;
        driver.enqueue(stream, work)
    }

    fn cuMemcpyDtoDAsync_v2(driver, to: u64, from: u64, bytes: usize, stream: Handle) {
        let stream = driver.stream(stream)?;
        let work = driver.within(to, from, bytes)?;
        driver.enqueue(stream, work)
    }

    fn cuMemcpyAsync(driver, to: u64, from: u64, bytes: usize, stream: Handle) {
        let stream = driver.stream(stream)?;
        let work = match (driver.holder(to, bytes), driver.holder(from, bytes)) {
            (Ok(_), Ok(_)) => driver.within(to, from, bytes)?,
            (Ok(_), Err(_)) => driver.to_device(to, Host(from as usize), bytes)?,
            (Err(_), Ok(_)) => driver.to_host(Host(to as usize), from, bytes)?,
            _ => return Err(INVALID_VALUE),
        };
        driver.enqueue(stream, work)
    }

    fn cuMemsetD8_v2(driver, to: u64, value: c_uchar, count: usize) {
        driver.fill(0, to, vec![value], count)
    }

    fn cuMemsetD16_v2(driver, to: u64, value: c_ushort, count: usize) {
        driver.fill(0, to, value.to_le_bytes().to_vec(), count)
    }

    fn cuMemsetD32_v2(driver, to: u64, value: c_uint, count: usize) {
        driver.fill(0, to, value.to_le_bytes().to_vec(), count)
    }

    fn cuMemsetD8Async(driver, to: u64, value: c_uchar, count: usize, stream: Handle) {
        driver.fill(stream, to, vec![value], count)
    }

    fn cuMemsetD16Async(driver, to: u64, value: c_ushort, count: usize, stream: Handle) {
        driver.fill(stream, to, value.to_le_bytes().to_vec(), count)
    }

    fn cuMemsetD32Async(driver, to: u64, value: c_uint, count: usize, stream: Handle) {
        driver.fill(stream, to, value.to_le_bytes().to_vec(), count)
    }
}

impl Driver {
    fn take(&mut self, bytes: usize) -> Result<u64, Status> {
        let context = self.current()?;
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        self.memory(context)?.allocate(bytes as u64).ok_or(OUT_OF_MEMORY)
    }

    /// Refuses an address that is not the start of an allocation of the program.
    fn owned(&self, address: u64) -> Done {
        let start = self.devices.iter().find_map(|d| d.memory.allocation(address)).map(|a| a.0);
        let of_module = self.modules.iter().any(|(_, m)| m.module.holds_variable(address));
        if start == Some(address) && !of_module { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn give(&mut self, address: u64) {
        self.managed.remove(&address);
        self.devices.iter_mut().for_each(|d| {
            d.memory.free(address);
        });
    }

    fn take_host(&mut self, bytes: usize) -> Result<usize, Status> {
        let context = self.current()?;
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        // Poisoned like all new memory.
        let owned = vec![u64::MAX; bytes.div_ceil(8)];
        let pointer = owned.as_ptr() as usize;
        self.host.insert(pointer, HostMemory { context, bytes, owned: Some(owned) });
        Ok(pointer)
    }

    /// True where bytes of the host are pinned, and copies may read and write them late.
    pub fn pinned(&self, pointer: Host, bytes: usize) -> bool {
        let before = self.host.range(..=pointer.0).next_back();
        before.is_some_and(|(start, h)| pointer.0 + bytes <= start + h.bytes)
    }

    pub fn to_device(&self, to: u64, from: Host, bytes: usize) -> Result<Work, Status> {
        self.holder(to, bytes)?;
        if self.is_device(from) {
            return Err(INVALID_VALUE);
        }
        let from = if self.pinned(from, bytes) {
            Source::Late(from.0, bytes)
        } else {
            Source::Taken(Arc::new(from.read(bytes)?))
        };
        Ok(Work::ToDevice { to, from })
    }

    pub fn to_host(&self, to: Host, from: u64, bytes: usize) -> Result<Work, Status> {
        self.holder(from, bytes)?;
        if self.is_device(to) || to.0 == 0 {
            return Err(INVALID_VALUE);
        }
        Ok(Work::ToHost { to: to.0, from, bytes })
    }

    fn is_device(&self, pointer: Host) -> bool {
        self.devices.iter().any(|d| d.memory.holds(pointer.0 as u64, 1))
    }

    pub fn within(&self, to: u64, from: u64, bytes: usize) -> Result<Work, Status> {
        self.holder(to, bytes)?;
        self.holder(from, bytes)?;
        Ok(Work::Within { to, from, bytes })
    }

    fn fill(&mut self, stream: Handle, to: u64, pattern: Vec<u8>, count: usize) -> Done {
        let stream = self.stream(stream)?;
        let bytes = pattern.len() * count;
        if !to.is_multiple_of(pattern.len() as u64) {
            return Err(INVALID_VALUE);
        }
        self.holder(to, bytes)?;
        self.enqueue(stream, Work::Fill { to, pattern, bytes })
    }

    /// Does work at once, behind all that its stream has.
    fn now(&mut self, stream: Handle, work: Work) -> Done {
        self.not_capturing(self.current()?)?;
        self.counters.waits += 1;
        self.enqueue(stream, work)?;
        self.drain_stream(stream)
    }
}
