//! Contexts.

use super::exports;
use crate::objects::Handle;
use crate::raw::Out;
use crate::status::{INVALID_CONTEXT, INVALID_VALUE};
use std::ffi::{c_int, c_uint};

exports! {
    fn cuDevicePrimaryCtxRetain(driver, context: Out<Handle>, device: c_int) {
        let handle = driver.retain(device)?;
        context.put(handle)
    }

    fn cuDevicePrimaryCtxRelease_v2(driver, device: c_int) {
        driver.release(device)
    }

    fn cuDevicePrimaryCtxGetState(driver, device: c_int, flags: Out<c_uint>, active: Out<c_int>) {
        let is_active = driver.device(device)?.context.is_some();
        flags.put(0)?;
        active.put(is_active.into())
    }

    fn cuCtxSetCurrent(driver, context: Handle) {
        if context != 0 {
            driver.contexts.get(context).map_err(|_| INVALID_CONTEXT)?;
        }
        driver.set_current(context);
        Ok(())
    }

    fn cuCtxGetCurrent(driver, context: Out<Handle>) {
        context.put(driver.current_any())
    }

    fn cuCtxPushCurrent_v2(driver, context: Handle) {
        driver.contexts.get(context).map_err(|_| INVALID_CONTEXT)?;
        driver.push_current(context);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(driver, context: Out<Handle>) {
        let popped = driver.pop_current()?;
        context.offer(popped);
        Ok(())
    }

    fn cuCtxGetDevice(driver, device: Out<c_int>) {
        let context = driver.current()?;
        device.put(driver.device_of(context)? as c_int)
    }

    fn cuCtxSynchronize(driver) {
        driver.wait_for_context()
    }

    fn cuCtxSetFlags(driver, _flags: c_uint) {
        driver.current().map(drop)
    }

    fn cuCtxGetApiVersion(driver, context: Handle, version: Out<c_uint>) {
        driver.contexts.get(context).map_err(|_| INVALID_CONTEXT)?;
        version.put(driver.settings.driver_version as c_uint)
    }

    fn cuCtxGetStreamPriorityRange(driver, least: Out<c_int>, greatest: Out<c_int>) {
        driver.current()?;
        least.offer(0);
        greatest.offer(-5);
        Ok(())
    }

    fn cuCtxGetLimit(driver, value: Out<usize>, limit: c_uint) {
        driver.current()?;
        match limit {
            0 => value.put(1024),
            1 | 2 => value.put(8 << 20),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuCtxSetLimit(driver, limit: c_uint, _value: usize) {
        driver.current()?;
        if limit <= 2 { Ok(()) } else { Err(INVALID_VALUE) }
    }
}
