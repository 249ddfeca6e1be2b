//! Start, version and devices.

use super::exports;
use crate::driver::Driver;
use crate::raw::Out;
use crate::status::{INVALID_VALUE, Status};
use std::ffi::{c_char, c_int, c_uint};

exports! {
    fn cuInit(driver, flags: c_uint) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        driver.initialize()
    }

    fn cuDriverGetVersion(driver, version: Out<c_int>) {
        driver.read_environment()?;
        version.put(driver.settings.driver_version)
    }

    fn cuDeviceGetCount(driver, count: Out<c_int>) {
        count.put(driver.devices.len() as c_int)
    }

    fn cuDeviceGet(driver, device: Out<c_int>, ordinal: c_int) {
        driver.device(ordinal)?;
        device.put(ordinal)
    }

    fn cuDeviceGetName(driver, name: Out<c_char>, room: c_int, device: c_int) {
        driver.device(device)?;
        let (major, minor) = driver.settings.capability;
        name.put_text(&format!("sumsq interpreter of PTX, as sm_{major}{minor}"), room.max(0) as usize);
        Ok(())
    }

    fn cuDeviceGetAttribute(driver, value: Out<c_int>, attribute: c_uint, device: c_int) {
        driver.device(device)?;
        value.put(attribute_of(driver, attribute)?)
    }

    fn cuDeviceComputeCapability(driver, major: Out<c_int>, minor: Out<c_int>, device: c_int) {
        driver.device(device)?;
        major.put(driver.settings.capability.0)?;
        minor.put(driver.settings.capability.1)
    }

    fn cuDeviceTotalMem_v2(driver, bytes: Out<usize>, device: c_int) {
        let capacity = driver.device(device)?.memory.capacity();
        bytes.put(capacity as usize)
    }

    fn cuDeviceGetUuid(driver, uuid: Out<[u8; 16]>, device: c_int) {
        driver.device(device)?;
        uuid.put(uuid_of(device))
    }

    fn cuDeviceGetUuid_v2(driver, uuid: Out<[u8; 16]>, device: c_int) {
        driver.device(device)?;
        uuid.put(uuid_of(device))
    }
}

fn uuid_of(device: c_int) -> [u8; 16] {
    let mut uuid = *b"sumsq libcuda  \0";
    uuid[15] = device as u8;
    uuid
}

/// Values of `CUdevice_attribute`; those of an H200 where nothing depends on them.
fn attribute_of(driver: &Driver, attribute: c_uint) -> Result<c_int, Status> {
    let (major, minor) = driver.settings.capability;
    Ok(match attribute {
        // Threads of a block, sizes of blocks and grids.
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        // Bytes of shared memory of a block, of constant memory.
        8 => sumsq_ptx::SHARED_MOST as c_int,
        9 => 65_536,
        // Lanes, registers of a block.
        10 => 32,
        12 => 65_536,
        // Clock in kHz, multiprocessors.
        13 => 1_980_000,
        20 => driver.settings.compute_mode,
        16 => driver.settings.multiprocessors,
        // Unified addressing, kernels at a time, maps host memory, error correction.
        19 | 31 | 32 | 41 => 1,
        // Memory clock in kHz, bus in bits, bytes of second-level cache.
        36 => 2_619_000,
        37 => 6144,
        38 => 60 << 20,
        // Threads, shared bytes, registers and blocks of a multiprocessor.
        39 => 2048,
        81 => 233_472,
        82 => 65_536,
        106 => 32,
        75 => major,
        76 => minor,
        // Rate of single to double precision.
        87 => {
            if matches!((major, minor), (8..=10, 0)) {
                2
            } else {
                64
            }
        }
        // Cooperative launches, pools of memory.
        95 | 115 => 1,
        97 => 232_448,
        1.. if attribute < 150 => 0,
        _ => return Err(INVALID_VALUE),
    })
}
