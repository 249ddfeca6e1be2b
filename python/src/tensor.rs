//! Tensors of Python: memory with a shape and strides, borrowed from whoever owns it.
//!
//! NumPy's arrays, and whatever else has the buffer protocol (PEP 3118), lend their memory by that; all others by DLPack, with versions or without
//! (<https://dmlc.github.io/dlpack/latest/c_api.html>). Nothing is copied.

use crate::error::Refused;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use std::ffi::{CStr, c_void};
use sumsq::codegen::runtime::{BufferError, Dimension, Element, View};

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Floats {
    F32,
    F64,
}

impl Floats {
    /// The name that NumPy has for it.
    pub fn name(self) -> &'static str {
        match self {
            Floats::F32 => "float32",
            Floats::F64 => "float64",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Floats::F32 => 4,
            Floats::F64 => 8,
        }
    }
}

/// A tensor of floats in the memory of the host, alive until it is dropped.
pub struct Tensor {
    /// As NumPy says: the last axis usually the fastest.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub floats: Floats,
    /// May it be written to?
    pub writable: bool,
    /// In elements, of each axis.
    strides: Vec<i64>,
    /// The address of the element at 0.
    address: usize,
    _owner: Owner,
}

/// Whoever lends the memory.
enum Owner {
    Buffer { _buffer: PyUntypedBuffer },
    Capsule { _managed: Managed },
    Nobody,
}

impl Tensor {
    /// Borrows the memory of an object, called `name` where it is refused.
    ///
    /// # Errors
    /// `TypeError` for what is no tensor or has elements of another type; `ValueError` for one on a device, or whose elements are not aligned.
    pub fn borrow(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        // SAFETY: the object is alive; the call looks at its type alone.
        let tensor = if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } == 1 {
            of_buffer(name, object)?
        } else if object.hasattr("__dlpack__")? && object.hasattr("__dlpack_device__")? {
            of_dlpack(name, object)?
        } else {
            let came = object.get_type().name()?.to_string();
            return Err(Refused::NoTensor { name: name.into(), came }.into());
        };
        if !tensor.address.is_multiple_of(tensor.floats.bytes()) && !tensor.is_empty() {
            return Err(Refused::Unaligned(name.into()).into());
        }
        Ok(tensor)
    }

    /// Zeros of this shape, none of which may be written to: one row of the last axis, at all places of the others.
    pub fn zeros(shape: &[usize], floats: Floats, row: &[u64]) -> Tensor {
        let mut strides = vec![0; shape.len()];
        if let Some(last) = strides.last_mut() {
            *last = 1;
        }
        let address = row.as_ptr().addr();
        Tensor { shape: shape.to_vec(), floats, writable: false, strides, address, _owner: Owner::Nobody }
    }

    /// Has it no element?
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Do neighbours of the last axis lie next to each other?
    pub fn is_dense(&self) -> bool {
        self.shape.last().is_none_or(|&n| n == 1) || self.strides.last() == Some(&1)
    }

    /// The addresses that its elements lie at: from the first byte to behind the last. Empty if they are beyond those of the machine.
    fn bytes(&self) -> std::ops::Range<usize> {
        let mut ends = [0i128; 2];
        for (&n, &stride) in self.shape.iter().zip(&self.strides).filter(|_| !self.is_empty()) {
            let reach = stride as i128 * (n as i128 - 1);
            ends[usize::from(reach > 0)] += reach;
        }
        let size = self.floats.bytes() as i128;
        let count = if self.is_empty() { 0 } else { 1 };
        let at = |elements: i128| usize::try_from(self.address as i128 + elements * size).unwrap_or(0);
        at(ends[0])..at(ends[1] + count)
    }

    /// May an element of the one lie in the memory of the other? Also true of tensors that lie in between each other.
    pub fn meets(&self, other: &Tensor) -> bool {
        let (a, b) = (self.bytes(), other.bytes());
        a.start < b.end && b.start < a.end
    }

    /// The part of it that may cross to where Python's lock is not held.
    pub fn place(&self) -> Place {
        let dims = self.shape.iter().zip(&self.strides).rev();
        let extent = |n: usize| i32::try_from(n).unwrap_or(-1);
        let dims = dims.map(|(&n, &stride)| Dimension::new(0, extent(n), stride)).collect();
        Place { bytes: self.bytes(), dims, writable: self.writable }
    }
}

/// The memory of a [`Tensor`] that outlives it: dimensions in the order of the engine, the last axis first.
pub struct Place {
    bytes: std::ops::Range<usize>,
    dims: Vec<Dimension>,
    writable: bool,
}

impl Place {
    /// The memory as a buffer of the engine.
    ///
    /// # Errors
    /// Elements that share memory, where it is written to; more than 2^31 along an axis.
    ///
    /// # Safety
    /// The tensor is alive as long as the view; it has elements of type `T`; nobody writes to the memory meanwhile, nor reads it if this may be
    /// written to.
    pub unsafe fn view<'t, T: Element>(&self, write: bool) -> Result<View<'t>, BufferError> {
        let len = self.bytes.len() / size_of::<T>();
        let first: *mut T = std::ptr::with_exposed_provenance_mut(self.bytes.start);
        if write && self.writable {
            // SAFETY: the tensor's owner lends these elements; the rest is promised by whoever calls.
            View::new(unsafe { std::slice::from_raw_parts_mut(first, len) }, &self.dims)
        } else {
            // SAFETY: likewise, to read.
            View::reading(unsafe { std::slice::from_raw_parts(first, len) }, &self.dims)
        }
    }
}

/// Borrows by the buffer protocol.
fn of_buffer(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let buffer = match PyUntypedBuffer::get(object) {
        Ok(buffer) => buffer,
        // One without axes has no list of them either; it is refused by their number.
        Err(_) if object.getattr("ndim").is_ok_and(|n| n.extract().is_ok_and(|n: usize| n == 0)) => {
            let single = object.getattr("dtype").is_ok_and(|d| d.to_string() == Floats::F32.name());
            let floats = if single { Floats::F32 } else { Floats::F64 };
            return Ok(Tensor::zeros(&[], floats, &[]));
        }
        Err(error) => return Err(error),
    };
    let floats = match buffer.format().to_bytes() {
        b"f" | b"=f" | b"@f" | b"<f" if buffer.item_size() == 4 => Floats::F32,
        b"d" | b"=d" | b"@d" | b"<d" if buffer.item_size() == 8 => Floats::F64,
        other => {
            let dtype = object.getattr("dtype").and_then(|dtype| dtype.str());
            let came = dtype.map_or_else(|_| String::from_utf8_lossy(other).into_owned(), |s| s.to_string());
            return Err(Refused::Elements { name: name.into(), came }.into());
        }
    };
    let size = floats.bytes() as isize;
    if buffer.suboffsets().is_some() || buffer.strides().iter().any(|stride| stride % size != 0) {
        return Err(Refused::Unaligned(name.into()).into());
    }
    Ok(Tensor {
        shape: buffer.shape().to_vec(),
        floats,
        writable: !buffer.readonly(),
        strides: buffer.strides().iter().map(|&stride| (stride / size) as i64).collect(),
        address: buffer.buf_ptr().expose_provenance(),
        _owner: Owner::Buffer { _buffer: buffer },
    })
}

/// `DLDevice`: kinds of devices by number, as far as they have tensors that can be asked for.
const DEVICES: [(i32, &str); 8] = [
    (2, "CUDA"),
    (3, "pinned memory of CUDA"),
    (4, "OpenCL"),
    (7, "Vulkan"),
    (8, "Metal"),
    (10, "ROCm"),
    (13, "managed memory of CUDA"),
    (14, "oneAPI"),
];

/// The device whose memory is that of the host, `kDLCPU`.
const CPU: i32 = 1;

/// `DLDataTypeCode` of floats.
const FLOAT: u8 = 2;

/// A flag of `DLManagedTensorVersioned`.
const READ_ONLY: u64 = 1;

/// `DLTensor`.
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Plain {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Plain)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// A tensor that was taken out of a capsule, given back when dropped.
enum Managed {
    Plain(*mut Plain),
    Versioned(*mut Versioned),
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: whoever takes the tensor out of its capsule calls the deleter once; tensors are dropped where Python's lock is held.
        unsafe {
            match *self {
                Managed::Plain(of) => (*of).deleter.into_iter().for_each(|delete| delete(of)),
                Managed::Versioned(of) => (*of).deleter.into_iter().for_each(|delete| delete(of)),
            }
        }
    }
}

/// Borrows by DLPack.
fn of_dlpack(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let (device, _): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    if device != CPU {
        let known = DEVICES.iter().find(|(kind, _)| *kind == device);
        let came = known.map_or_else(|| format!("device {device}"), |(_, name)| name.to_string());
        return Err(Refused::Device { name: name.into(), came }.into());
    }
    let managed = taken(name, &capsule(object)?)?;
    // SAFETY: the producer's structure, alive until it is given back.
    let (tensor, writable) = unsafe {
        match &managed {
            Managed::Plain(of) => (&(**of).tensor, true),
            Managed::Versioned(of) => (&(**of).tensor, (**of).flags & READ_ONLY == 0),
        }
    };
    let floats = match (tensor.code, tensor.bits, tensor.lanes) {
        (FLOAT, 32, 1) => Floats::F32,
        (FLOAT, 64, 1) => Floats::F64,
        (code, bits, lanes) => {
            let dtype = object.getattr("dtype").and_then(|dtype| dtype.str()).map(|s| s.to_string());
            let came = dtype.unwrap_or_else(|_| format!("type {code} of {bits} bits, {lanes} lanes"));
            return Err(Refused::Elements { name: name.into(), came }.into());
        }
    };
    let dims = usize::try_from(tensor.ndim).unwrap_or(0);
    let list = |of: *const i64| -> Option<Vec<i64>> {
        // SAFETY: lists of so many entries, or null.
        (dims > 0 && !of.is_null()).then(|| unsafe { std::slice::from_raw_parts(of, dims).to_vec() })
    };
    let shape = list(tensor.shape).unwrap_or_default().iter().map(|&n| n.max(0) as usize).collect::<Vec<_>>();
    let strides = list(tensor.strides).unwrap_or_else(|| dense(&shape));
    let address = tensor.data.expose_provenance() + tensor.byte_offset as usize;
    Ok(Tensor { shape, floats, writable, strides, address, _owner: Owner::Capsule { _managed: managed } })
}

/// Strides where the last axis is the fastest.
fn dense(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis] as i64);
    }
    strides
}

/// The capsule of an object: of version 1 where it knows of versions, since only that tells what is read-only.
fn capsule<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let versioned: Bound<'_, PyDict> = [("max_version", (1, 0))].into_py_dict(py)?;
    match object.call_method("__dlpack__", (), Some(&versioned)) {
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
            object.call_method0("__dlpack__")
        }
        result => result,
    }
}

/// Takes the tensor out of a capsule, which is renamed so that nobody else does.
fn taken(name: &str, capsule: &Bound<'_, PyAny>) -> PyResult<Managed> {
    const NAMES: [(&CStr, &CStr); 2] =
        [(c"dltensor_versioned", c"used_dltensor_versioned"), (c"dltensor", c"used_dltensor")];
    for (fresh, used) in NAMES {
        // SAFETY: a capsule of this name holds the structure of that name; renamed, it is ours to give back.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule.as_ptr(), fresh.as_ptr()) == 0 {
                continue;
            }
            let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), fresh.as_ptr());
            if pointer.is_null() || ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) != 0 {
                return Err(PyErr::fetch(capsule.py()));
            }
            let managed = match fresh == c"dltensor" {
                true => Managed::Plain(pointer.cast()),
                false => Managed::Versioned(pointer.cast()),
            };
            // Of another version nothing is known but how it is given back.
            match managed {
                Managed::Versioned(of) if (*of).major != 1 => {
                    return Err(Refused::Capsule(name.into()).into());
                }
                managed => return Ok(managed),
            }
        }
    }
    Err(Refused::Capsule(name.into()).into())
}
