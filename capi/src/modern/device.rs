//! `sumsq_device_array`: arrays in the memory of a GPU.

use super::options::Growing;
use crate::element::Element;
use crate::failure::{Failure, Result};
use std::ffi::c_void;
use std::mem::size_of;
use std::slice;
use sumsq::codegen::error::{CudaError, PointerError};
use sumsq::{DeviceArray, Stream};

/// Most dims of an array from outside.
const MAX_DIMS: i32 = 64;

/// `sumsq_device_array` of the header.
#[allow(non_camel_case_types, missing_docs)]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct sumsq_device_array {
    pub size: usize,
    pub data: *mut c_void,
    pub element: i32,
    pub device: i32,
    pub dims: i32,
    pub shape: *const i64,
    pub strides: *const i64,
    pub stream: *mut c_void,
}

// SAFETY: repr(C), the size first, then pointers and integers.
unsafe impl Growing for sumsq_device_array {
    const NAME: &'static str = "sumsq_device_array";
}

impl Default for sumsq_device_array {
    fn default() -> sumsq_device_array {
        sumsq_device_array {
            size: size_of::<sumsq_device_array>(),
            data: std::ptr::null_mut(),
            element: 0,
            device: 0,
            dims: 0,
            shape: std::ptr::null(),
            strides: std::ptr::null(),
            stream: std::ptr::null_mut(),
        }
    }
}

impl sumsq_device_array {
    /// The array, on the device that is expected.
    ///
    /// # Safety
    /// Shape and strides are null or have as many numbers as there are dims; memory and stream live as long as the array is used.
    pub unsafe fn array(&self, expected: usize) -> Result<DeviceArray> {
        let element = Element::from_code(self.element)?;
        // SAFETY: by the contract.
        let (shape, strides) = unsafe { (shape(self.dims, self.shape)?, strides(self.dims, self.strides)?) };
        if usize::try_from(self.device) != Ok(expected) {
            let came = usize::try_from(self.device).unwrap_or(usize::MAX);
            let other = PointerError::OtherDevice { address: self.data as u64, device: expected, came };
            return Err(CudaError::from(other).into());
        }
        // SAFETY: by the contract.
        let made = unsafe {
            let stream = Stream::new(self.stream);
            DeviceArray::new(expected, element.scalar(), self.data, &shape, strides.as_deref(), stream)
        };
        Ok(made?)
    }
}

/// Extents, slowest first.
///
/// # Safety
/// `shape` is null or has so many numbers.
pub unsafe fn shape(dims: i32, shape: *const i64) -> Result<Vec<usize>> {
    // SAFETY: by the contract.
    let all =
        unsafe { list(dims, shape) }?.ok_or_else(|| Failure::argument("the shape is a null pointer"))?;
    let bad = |n: i64| Failure::data(format!("the shape {all:?}: expected extents from 1 on, came {n}"));
    all.iter().map(|&n| usize::try_from(n).ok().filter(|&n| n > 0).ok_or_else(|| bad(n))).collect()
}

/// Strides in elements, slowest first; `None` for C order.
///
/// # Safety
/// As of [`shape`].
pub unsafe fn strides(dims: i32, strides: *const i64) -> Result<Option<Vec<isize>>> {
    // SAFETY: by the contract.
    let all = unsafe { list(dims, strides) }?;
    Ok(all.filter(|_| !strides.is_null()).map(|all| all.iter().map(|&s| s as isize).collect()))
}

/// So many numbers; `None` for a null pointer where there are some.
///
/// # Safety
/// As of [`shape`].
unsafe fn list<'a>(count: i32, at: *const i64) -> Result<Option<&'a [i64]>> {
    if !(0..=MAX_DIMS).contains(&count) {
        return Err(Failure::argument(format!("expected at most {MAX_DIMS} dims, came {count}")));
    }
    match (count, at.is_null()) {
        (0, _) => Ok(Some(&[])),
        (_, true) => Ok(None),
        // SAFETY: not null, and as many by the contract.
        _ => Ok(Some(unsafe { slice::from_raw_parts(at, count as usize) })),
    }
}
