//! Failures of CUDA devices, in sentences that say what to do.

use std::fmt::{self, Display};
use thiserror::Error;

/// A version of CUDA as drivers count them: 12040 is 12.4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version(pub u32);

impl Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// A failure of a CUDA device, or the reason why there is none.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CudaError {
    /// No device can be used.
    #[error("GPU not used: {0}")]
    Unavailable(#[from] Unavailable),
    /// A device was asked for that is not there.
    #[error("there is no CUDA device {asked}: devices are numbered from 0 to {last}")]
    NoSuchDevice {
        /// Its number.
        asked: usize,
        /// The last one that is there.
        last: usize,
    },
    /// Too little memory.
    #[error("not enough memory on the GPU: {needed} bytes are needed, {free} are free")]
    Memory {
        /// Bytes that were asked for.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The driver does not take the generated code.
    #[error("the CUDA driver refuses the generated code: {log}")]
    Refused {
        /// Its words.
        log: String,
    },
    /// A function is not in its module.
    #[error("the module has no kernel `{name}`")]
    NoKernel {
        /// Its name.
        name: String,
    },
    /// A launch that no device can make.
    #[error("kernel `{kernel}`: {message}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// The limit and what came.
        message: String,
    },
    /// A pointer that is not what it is said to be.
    #[error("{0}")]
    Pointer(#[from] PointerError),
    /// The device fails from now on: what it holds is lost.
    #[error(
        "the GPU failed: {fault} (in kernel `{kernel}`, or before it); values that only the GPU had are lost, \
         the CPU can go on"
    )]
    Fault {
        /// The kind.
        fault: Fault,
        /// The kernel that was launched last.
        kernel: String,
    },
    /// Any other failure.
    #[error("the CUDA driver's {call} failed: {code}")]
    Call {
        /// The driver's function.
        call: &'static str,
        /// The driver's name of the failure.
        code: String,
    },
}

/// Reason why no device can be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The driver is not installed.
    #[error("no CUDA driver library on this machine")]
    NoLibrary,
    /// There is a driver and no device.
    #[error("the CUDA driver finds no device on this machine, or CUDA_VISIBLE_DEVICES hides them")]
    NoDevice,
    /// The driver knows too little.
    #[error("the driver supports CUDA {found}, at least {least} is needed: update the driver")]
    OldDriver {
        /// Its version.
        found: Version,
        /// The least one.
        least: Version,
    },
    /// The device knows too little.
    #[error(
        "device {ordinal} ({name}) has compute capability {}.{}, at least {}.{} is needed",
        found / 10, found % 10, least / 10, least % 10
    )]
    OldDevice {
        /// Its number.
        ordinal: usize,
        /// Its name.
        name: String,
        /// Its compute capability: 70 is 7.0.
        found: u32,
        /// The least one.
        least: u32,
    },
    /// The device serves one process, another one.
    #[error(
        "device {ordinal} ({name}) is taken by another process, which has it to itself: wait until that ends, or use \
         another device"
    )]
    Taken {
        /// Its number.
        ordinal: usize,
        /// Its name.
        name: String,
    },
    /// The device serves nobody.
    #[error("device {ordinal} ({name}) takes no work: its compute mode is `prohibited`")]
    Closed {
        /// Its number.
        ordinal: usize,
        /// Its name.
        name: String,
    },
    /// The driver is there and does not work.
    #[error("the CUDA driver does not start: {code}{hint}")]
    Driver {
        /// The driver's name of the failure.
        code: String,
        /// A remedy, if one is known.
        hint: &'static str,
    },
}

/// Reason why a device cannot use a pointer of somebody else's. The device goes on.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PointerError {
    /// It is null.
    #[error("the pointer is null: expected memory of device {device}")]
    Null {
        /// The device that was expected.
        device: usize,
    },
    /// It is no multiple of the size of a number.
    #[error(
        "the pointer {address:#x} is misaligned: expected a multiple of {bytes} bytes, the size of a {ty}"
    )]
    Misaligned {
        /// The address.
        address: u64,
        /// The type of the numbers.
        ty: &'static str,
        /// Their size.
        bytes: usize,
    },
    /// No device knows it.
    #[error("the pointer {address:#x} is memory of the host: expected memory of device {device}")]
    Host {
        /// The address.
        address: u64,
        /// The device that was expected.
        device: usize,
    },
    /// It is another device's.
    #[error("the pointer {address:#x} is memory of device {came}: expected memory of device {device}")]
    OtherDevice {
        /// The address.
        address: u64,
        /// The device that was expected.
        device: usize,
        /// That of the pointer.
        came: usize,
    },
    /// The numbers go beyond their allocation.
    #[error(
        "the array takes {needed} bytes from {address:#x} on, the allocation there has {there}: check shape, strides and \
         type"
    )]
    TooShort {
        /// The least address.
        address: u64,
        /// Bytes from there to the end of the array.
        needed: u64,
        /// Bytes from there to the end of the allocation.
        there: u64,
    },
    /// Shape and strides do not fit each other, or reach further than there are addresses.
    #[error("the shape {shape:?} with the strides {strides:?} is no array")]
    Strides {
        /// The shape.
        shape: Vec<usize>,
        /// The strides.
        strides: Vec<isize>,
    },
    /// Several elements of an array that is written to are the same number.
    #[error(
        "the shape {shape:?} with the strides {strides:?} has several elements in one place, and is written to"
    )]
    Overlap {
        /// The shape.
        shape: Vec<usize>,
        /// The strides.
        strides: Vec<isize>,
    },
    /// The memory, or the stream, belongs to a context that is not the device's primary one.
    #[error("the {what} is of another CUDA context: expected the primary one of device {device}")]
    Context {
        /// The device.
        device: usize,
        /// Pointer or stream.
        what: &'static str,
    },
}

/// A failure after which a device, or what it holds, is of no use to this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    /// Memory that is not allocated was touched.
    #[error("illegal address")]
    Address,
    /// A load or store was not aligned.
    #[error("misaligned address")]
    Alignment,
    /// An instruction that the device does not have, or no instruction.
    #[error("illegal instruction")]
    Instruction,
    /// The system ended a kernel that ran for too long.
    #[error("a kernel ran for longer than the system allows")]
    Timeout,
    /// Memory or a link is broken.
    #[error("uncorrectable memory error (ECC)")]
    Ecc,
    /// The device is gone.
    #[error("the device is lost")]
    Lost,
    /// A kernel ended early for some other reason.
    #[error("a kernel ended early")]
    Kernel,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences() {
        let text = |e: Unavailable| CudaError::from(e).to_string();
        assert_eq!(text(Unavailable::NoLibrary), "GPU not used: no CUDA driver library on this machine");
        let old = Unavailable::OldDriver { found: Version(11080), least: Version(12000) };
        assert_eq!(
            text(old),
            "GPU not used: the driver supports CUDA 11.8, at least 12.0 is needed: update the driver"
        );
        let old = Unavailable::OldDevice { ordinal: 1, name: "Old".into(), found: 70, least: 75 };
        assert_eq!(
            text(old),
            "GPU not used: device 1 (Old) has compute capability 7.0, at least 7.5 is needed"
        );
        let fault = CudaError::Fault { fault: Fault::Timeout, kernel: "sweep".into() };
        assert_eq!(
            fault.to_string(),
            "the GPU failed: a kernel ran for longer than the system allows (in kernel `sweep`, or before it); \
             values that only the GPU had are lost, the CPU can go on"
        );
    }
}
