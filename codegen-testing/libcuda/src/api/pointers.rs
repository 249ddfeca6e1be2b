//! Questions about pointers.

use super::exports;
use crate::driver::Driver;
use crate::objects::Handle;
use crate::raw::{Host, In, out_at};
use crate::status::*;
use std::ffi::c_uint;

exports! {
    fn cuPointerGetAttribute(driver, data: Host, attribute: c_uint, pointer: u64) {
        driver.current()?;
        let facts = driver.facts(pointer).ok_or(INVALID_VALUE)?;
        facts.put(attribute, data.0, pointer)
    }

    fn cuPointerGetAttributes(driver, count: c_uint, attributes: In<c_uint>, data: In<usize>, pointer: u64) {
        driver.current()?;
        // Of a pointer that the driver does not know all is zero.
        let facts = driver.facts(pointer).unwrap_or_default();
        for k in 0..count as usize {
            facts.put(attributes.at(k)?, data.at(k)?, pointer)?;
        }
        Ok(())
    }

    fn cuMemGetAddressRange_v2(driver, base: crate::raw::Out<u64>, bytes: crate::raw::Out<usize>, pointer: u64) {
        driver.current()?;
        let found = driver.devices.iter().find_map(|d| d.memory.allocation(pointer)).ok_or(NOT_FOUND)?;
        base.offer(found.0);
        bytes.offer(found.1 as usize);
        Ok(())
    }
}

/// Facts about a pointer.
#[derive(Default)]
struct Facts {
    context: Handle,
    /// 1 of the host, 2 of a device.
    kind: u32,
    device: usize,
    start: u64,
    bytes: u64,
    managed: bool,
}

impl Facts {
    fn put(&self, attribute: c_uint, data: usize, pointer: u64) -> Done {
        let on_device = self.kind == 2;
        match attribute {
            1 => out_at(data).put(self.context),
            2 => out_at(data).put(self.kind),
            3 => out_at(data).put(if on_device { pointer } else { 0 }),
            4 => out_at(data).put(if self.kind == 1 { pointer } else { 0 }),
            8 => out_at(data).put(u32::from(self.managed)),
            9 => out_at(data).put(if self.kind == 0 { -2 } else { self.device as i32 }),
            11 => out_at(data).put(self.start),
            12 => out_at(data).put(self.bytes),
            13 => out_at(data).put(u32::from(self.kind != 0)),
            _ => Err(INVALID_VALUE),
        }
    }
}

impl Driver {
    fn facts(&self, pointer: u64) -> Option<Facts> {
        if let Some((device, found)) =
            self.devices.iter().enumerate().find_map(|(k, d)| Some((k, d.memory.allocation(pointer)?)))
        {
            let context = self.devices[device].context?;
            let managed = self.managed.contains(&found.0);
            return Some(Facts { context, kind: 2, device, start: found.0, bytes: found.1, managed });
        }
        let (start, h) = self.host.range(..=pointer as usize).next_back()?;
        if pointer as usize >= start + h.bytes {
            return None;
        }
        let device = self.device_of(h.context).ok()?;
        let (context, bytes) = (h.context, h.bytes as u64);
        Some(Facts { context, kind: 1, device, start: *start as u64, bytes, managed: false })
    }
}
