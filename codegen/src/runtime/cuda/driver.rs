//! The driver itself: found, started, and its codes in words.

use crate::error::{CudaError, Fault, Unavailable, Version};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUresult};

/// The least version that has all functions that are called here.
const LEAST: Version = Version(12000);

/// A pointer by which the driver knows something. It may be used on any thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle<T>(pub(super) *mut T);

// SAFETY: the driver serves all threads, and nobody here follows the pointer.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

/// Finds the driver and starts it, which costs little but for the first time. Returns the version of CUDA that it supports.
pub(super) fn start() -> Result<Version, CudaError> {
    // SAFETY: loads a library of the system, which may do when loaded what it likes.
    if !unsafe { sys::is_culib_present() } {
        return Err(Unavailable::NoLibrary.into());
    }
    let mut version = 0;
    // SAFETY: writes a number.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(not_started)?;
    let found = Version(version.unsigned_abs());
    if found < LEAST {
        return Err(Unavailable::OldDriver { found, least: LEAST }.into());
    }
    result::init().map_err(not_started)?;
    Ok(found)
}

/// The reason why the driver cannot be started.
pub(super) fn not_started(error: DriverError) -> CudaError {
    let hint = match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => return Unavailable::NoDevice.into(),
        CUresult::CUDA_ERROR_STUB_LIBRARY => ": a library for linking is loaded in place of the driver's",
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            ": its parts have different versions; restart the machine"
        }
        CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
            ": its compatibility package does not suit the device"
        }
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => ": the device has no memory left",
        _ => "",
    };
    Unavailable::Driver { code: name(error), hint }.into()
}

/// The driver's name of a failure, with its number.
pub(super) fn name(error: DriverError) -> String {
    format!("{:?} ({})", error.0, error.0 as u32)
}

/// The kind of a failure after which the device is of no use, if it is one.
pub(super) fn fault(error: DriverError) -> Option<Fault> {
    use CUresult::*;
    Some(match error.0 {
        CUDA_ERROR_ILLEGAL_ADDRESS | CUDA_ERROR_INVALID_ADDRESS_SPACE => Fault::Address,
        CUDA_ERROR_MISALIGNED_ADDRESS => Fault::Alignment,
        CUDA_ERROR_ILLEGAL_INSTRUCTION | CUDA_ERROR_INVALID_PC | CUDA_ERROR_HARDWARE_STACK_ERROR => {
            Fault::Instruction
        }
        CUDA_ERROR_LAUNCH_TIMEOUT => Fault::Timeout,
        CUDA_ERROR_ECC_UNCORRECTABLE | CUDA_ERROR_NVLINK_UNCORRECTABLE | CUDA_ERROR_CONTAINED => Fault::Ecc,
        CUDA_ERROR_LAUNCH_FAILED | CUDA_ERROR_ASSERT => Fault::Kernel,
        CUDA_ERROR_UNKNOWN
        | CUDA_ERROR_NO_DEVICE
        | CUDA_ERROR_DEVICE_UNAVAILABLE
        | CUDA_ERROR_DEINITIALIZED
        | CUDA_ERROR_CONTEXT_IS_DESTROYED
        | CUDA_ERROR_EXTERNAL_DEVICE => Fault::Lost,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_in_words() {
        let error = DriverError(CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!((name(error).as_str(), fault(error)), ("CUDA_ERROR_INVALID_VALUE (1)", None));
        assert_eq!(fault(DriverError(CUresult::CUDA_ERROR_LAUNCH_TIMEOUT)), Some(Fault::Timeout));
        let stub = not_started(DriverError(CUresult::CUDA_ERROR_STUB_LIBRARY)).to_string();
        assert!(stub.starts_with("GPU not used: the CUDA driver does not start: CUDA_ERROR_STUB_LIBRARY"));
        assert_eq!(
            not_started(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)),
            CudaError::Unavailable(Unavailable::NoDevice)
        );
    }
}
