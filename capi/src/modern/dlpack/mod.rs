//! Tensors by DLPack, the structs in memory that array libraries exchange: version 1.0, and the one without a version before it.
//!
//! A tensor that comes in is ours once the call has succeeded: its deleter is called when its numbers are needed no more, at once where they were
//! copied. A tensor that goes out is a copy, and its deleter, which the caller calls, frees it: it needs neither problem nor solver.

#[cfg(test)]
mod tests;

use super::device::{shape, strides};
use super::problem::Problem;
use super::{given, status, sumsq_problem, working};
use crate::element::Element;
use crate::failure::{Failure, Result, Status, text};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use sumsq::codegen::ScalarType;
use sumsq::codegen::runtime::cuda::DeviceMemory;
use sumsq::{DeviceArray, Stream};

/// Kinds of devices: memory of the host, of a CUDA device, pinned for one, managed by it.
const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;
const CUDA_MANAGED: i32 = 13;

/// Kinds of numbers.
const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BOOL: u8 = 6;

/// The version that is understood, and the flags of a tensor.
const MAJOR: u32 = 1;
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;

/// Alignment of tensors that go out, in bytes.
const ALIGN: usize = 256;

/// `DLTensor`.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Tensor {
    pub data: *mut c_void,
    pub device_type: i32,
    pub device_id: i32,
    pub ndim: i32,
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

/// `DLManagedTensor`.
#[allow(missing_docs)]
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensor {
    pub tensor: Tensor,
    pub manager: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// `DLManagedTensorVersioned`.
#[allow(missing_docs)]
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensorVersioned {
    pub major: u32,
    pub minor: u32,
    pub manager: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    pub flags: u64,
    pub tensor: Tensor,
}

/// Either of both.
trait Managed: Sized + 'static {
    /// The tensor, or why it is not understood.
    fn tensor(&self) -> Result<Tensor>;
    /// True where nobody may write to it.
    fn read_only(&self) -> bool;
    /// Calls its deleter, if it has one.
    ///
    /// # Safety
    /// It is valid, and not used again.
    unsafe fn delete(this: *mut Self);
    /// One that `free` frees, by `manager`.
    fn new(tensor: Tensor, manager: *mut c_void) -> Self;
    /// The manager that `new` was given.
    fn manager(&self) -> *mut c_void;
}

impl Managed for DLManagedTensor {
    fn tensor(&self) -> Result<Tensor> {
        Ok(self.tensor)
    }

    fn read_only(&self) -> bool {
        false
    }

    unsafe fn delete(this: *mut Self) {
        // SAFETY: by the contract.
        if let Some(deleter) = unsafe { &*this }.deleter {
            // SAFETY: by the contract.
            unsafe { deleter(this) };
        }
    }

    fn new(tensor: Tensor, manager: *mut c_void) -> Self {
        DLManagedTensor { tensor, manager, deleter: Some(free::<Self>) }
    }

    fn manager(&self) -> *mut c_void {
        self.manager
    }
}

impl Managed for DLManagedTensorVersioned {
    fn tensor(&self) -> Result<Tensor> {
        if self.major == MAJOR {
            return Ok(self.tensor);
        }
        let message = format!("the tensor is of DLPack {}.{}: expected {MAJOR}.x", self.major, self.minor);
        Err(Failure::argument(message))
    }

    fn read_only(&self) -> bool {
        self.flags & READ_ONLY != 0
    }

    unsafe fn delete(this: *mut Self) {
        // SAFETY: by the contract.
        if let Some(deleter) = unsafe { &*this }.deleter {
            // SAFETY: by the contract.
            unsafe { deleter(this) };
        }
    }

    fn new(tensor: Tensor, manager: *mut c_void) -> Self {
        let deleter = Some(free::<Self> as unsafe extern "C" fn(*mut Self));
        DLManagedTensorVersioned { major: MAJOR, minor: 0, manager, deleter, flags: IS_COPIED, tensor }
    }

    fn manager(&self) -> *mut c_void {
        self.manager
    }
}

/// A tensor that is ours until it is dropped.
struct Owned<M: Managed>(*mut M);

// SAFETY: the tensor is not looked at any more, and whoever made it lets it be deleted by the thread that needs it no more.
unsafe impl<M: Managed> Send for Owned<M> {}
// SAFETY: as above.
unsafe impl<M: Managed> Sync for Owned<M> {}

impl<M: Managed> Drop for Owned<M> {
    fn drop(&mut self) {
        // SAFETY: ours, by the contract of the call that took it.
        unsafe { M::delete(self.0) };
    }
}

impl Tensor {
    fn element(&self) -> Result<Element> {
        Ok(match (self.code, self.bits, self.lanes) {
            (FLOAT, 32, 1) => Element::Float32,
            (FLOAT, 64, 1) => Element::Float64,
            (BOOL, 8, 1) => Element::Bool,
            (INT, 8, 1) => Element::Int8,
            (INT, 16, 1) => Element::Int16,
            (INT, 32, 1) => Element::Int32,
            (INT, 64, 1) => Element::Int64,
            (UINT, 8, 1) => Element::Uint8,
            (UINT, 16, 1) => Element::Uint16,
            (UINT, 32, 1) => Element::Uint32,
            (UINT, 64, 1) => Element::Uint64,
            (code, bits, lanes) => {
                let message = format!(
                    "the tensor has numbers of code {code}, {bits} bits, {lanes} lanes: not supported"
                );
                return Err(Failure::argument(message));
            }
        })
    }

    /// The address of the first element.
    fn first(&self) -> *mut c_void {
        if self.data.is_null() { self.data } else { self.data.wrapping_byte_add(self.byte_offset as usize) }
    }

    /// The numbers of the host, packed in C order.
    ///
    /// # Safety
    /// They can be read.
    unsafe fn packed(&self, element: Element, shape: &[usize], strides: Option<&[isize]>) -> Result<Vec<u8>> {
        let first = self.first().cast::<u8>();
        if first.is_null() {
            return Err(Failure::argument("the data of the tensor are a null pointer"));
        }
        let width = element.bytes();
        let count = shape.iter().try_fold(width, |n, &e| n.checked_mul(e));
        let bytes = count.ok_or_else(|| Failure::data(format!("the shape {shape:?} is too large")))?;
        let Some(strides) = strides else {
            // SAFETY: by the contract, and C order has no gaps.
            return Ok(unsafe { crate::element::view(first, bytes) }?.to_vec());
        };
        let mut packed = Vec::with_capacity(bytes);
        for flat in 0..bytes / width {
            let (mut rest, mut place) = (flat, 0isize);
            for (&extent, &stride) in shape.iter().zip(strides).rev() {
                place = place.wrapping_add(stride.wrapping_mul((rest % extent) as isize));
                rest /= extent;
            }
            // SAFETY: an element of the tensor, by the contract.
            packed.extend_from_slice(unsafe {
                crate::element::view(first.wrapping_offset(place.wrapping_mul(width as isize)), width)
            }?);
        }
        Ok(packed)
    }
}

/// Takes a tensor.
///
/// # Safety
/// `tensor` is null or valid, and its memory lives until its deleter is called.
unsafe fn take<M: Managed>(p: &mut Problem, name: &str, tensor: *mut M, stream: *mut c_void) -> Result<()> {
    // SAFETY: by the contract.
    let managed = unsafe { given(tensor, "tensor") }?;
    let t = managed.tensor()?;
    let element = t.element()?;
    // SAFETY: by the contract of the tensor.
    let (shape, strides) = unsafe { (shape(t.ndim, t.shape)?, strides(t.ndim, t.strides)?) };
    p.check_shape(name, &shape)?;
    match t.device_type {
        CPU | CUDA_HOST => {
            // SAFETY: memory of the host that lives, by the contract.
            unsafe {
                let packed = t.packed(element, &shape, strides.as_deref())?;
                p.set(name, element, packed.as_ptr().cast(), packed.len())?;
            }
            drop(Owned(tensor));
            Ok(())
        }
        CUDA | CUDA_MANAGED => {
            if managed.read_only() && p.is_unknown(name) {
                let message = format!(
                    "`{name}` is an unknown, which is written to, and the tensor is for reading only"
                );
                return Err(Failure::argument(message));
            }
            let ordinal = p.device()?;
            let came = if t.device_type == CUDA { t.device_id } else { ordinal as i32 };
            let described = super::sumsq_device_array {
                data: t.first(),
                element: element as i32,
                device: came,
                dims: t.ndim,
                shape: t.shape,
                strides: t.strides,
                stream,
                ..Default::default()
            };
            // SAFETY: by the contract.
            let array: DeviceArray = unsafe { described.array(ordinal) }?;
            p.check_bindable(name, &array)?;
            p.bind(name, array.keeping(Arc::new(Owned(tensor))))
        }
        other => Err(Failure::argument(format!(
            "the tensor is on a device of kind {other}: expected the host or CUDA"
        ))),
    }
}

/// A tensor that goes out, with all that it points to.
struct Export<M> {
    managed: Option<M>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    _memory: Memory,
}

/// Its numbers.
enum Memory {
    Host { _bytes: Vec<u8> },
    Device { _memory: DeviceMemory },
}

/// Frees a tensor that went out.
unsafe extern "C" fn free<M: Managed>(tensor: *mut M) {
    // SAFETY: null, or made by `export` and not freed yet, as whoever calls a deleter promises.
    let Some(managed) = (unsafe { tensor.as_ref() }) else { return };
    let export = managed.manager().cast::<Export<M>>();
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(export) });
}

/// A tensor with a copy of an unknown.
fn export<M: Managed>(p: &Problem, name: &str, stream: *mut c_void) -> Result<*mut M> {
    let shape = p.unknown_shape(name)?;
    if !p.is_unknown(name) {
        return Err(Failure::argument(format!("the energy declares no unknown `{name}`")));
    }
    let Ok(ordinal) = p.device() else {
        return on_host(&p.values(name)?, p.element(), &shape);
    };
    // SAFETY: the caller's stream lives during the call, by the contract of the extern functions.
    let made = p.instance.export(name, unsafe { Stream::new(stream) })?;
    let element = if made.ty == ScalarType::F32 { Element::Float32 } else { Element::Float64 };
    let (data, memory) = (made.memory.address() as *mut c_void, made.memory);
    Ok(boxed(data, (CUDA, ordinal as i32), element, &made.shape, Memory::Device { _memory: memory }))
}

/// A tensor of the host with so many numbers.
fn on_host<M: Managed>(values: &[f64], element: Element, shape: &[usize]) -> Result<*mut M> {
    let mut bytes = vec![0u8; values.len() * element.bytes() + ALIGN];
    let start = bytes.as_ptr().align_offset(ALIGN);
    element.encode(values, &mut bytes[start..start + values.len() * element.bytes()])?;
    let data = bytes[start..].as_mut_ptr().cast();
    Ok(boxed(data, (CPU, 0), element, shape, Memory::Host { _bytes: bytes }))
}

/// Puts a tensor into memory of its own.
fn boxed<M: Managed>(
    data: *mut c_void,
    (device_type, device_id): (i32, i32),
    element: Element,
    shape: &[usize],
    memory: Memory,
) -> *mut M {
    let mut strides = vec![1i64; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d] as i64;
    }
    let shape = shape.iter().map(|&n| n as i64).collect();
    let export = Box::into_raw(Box::new(Export { managed: None, shape, strides, _memory: memory }));
    // SAFETY: made just now, and nobody else has it yet.
    let made = unsafe { &mut *export };
    let (ndim, bits) = (made.shape.len() as i32, 8 * element.bytes() as u8);
    let (shape, strides) = (made.shape.as_mut_ptr(), made.strides.as_mut_ptr());
    let tensor = Tensor {
        data,
        device_type,
        device_id,
        ndim,
        code: FLOAT,
        bits,
        lanes: 1,
        shape,
        strides,
        byte_offset: 0,
    };
    std::ptr::from_mut(made.managed.insert(M::new(tensor, export.cast())))
}

/// Exports into `out`, or null on an error.
///
/// # Safety
/// As of the extern functions.
unsafe fn export_to<M: Managed>(
    problem: *const sumsq_problem,
    name: *const c_char,
    stream: *mut c_void,
    out: *mut *mut M,
) -> Status {
    if out.is_null() {
        let null = || Err(Failure::argument("the place for the tensor is a null pointer"));
        return status(crate::failure::guarded(null));
    }
    let mut made = std::ptr::null_mut();
    // SAFETY: by the contract.
    let done = unsafe {
        working(problem, |p| {
            made = export(p, text(name, "the name")?, stream)?;
            Ok(())
        })
    };
    // SAFETY: not null, writable by the contract.
    unsafe { out.write(made) };
    done
}

/// See `include/sumsq.h`.
///
/// # Safety
/// `problem` is null or valid, `name` null or NUL-terminated, `tensor` null or a valid tensor that is the callee's once the call has succeeded;
/// `stream` as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_bind_dlpack(
    problem: *mut sumsq_problem,
    name: *const c_char,
    tensor: *mut DLManagedTensor,
    stream: *mut c_void,
) -> Status {
    // SAFETY: by the contract.
    unsafe { working(problem, |p| take(p, text(name, "the name")?, tensor, stream)) }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// As for [`sumsq_bind_dlpack`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_bind_dlpack_versioned(
    problem: *mut sumsq_problem,
    name: *const c_char,
    tensor: *mut DLManagedTensorVersioned,
    stream: *mut c_void,
) -> Status {
    // SAFETY: by the contract.
    unsafe { working(problem, |p| take(p, text(name, "the name")?, tensor, stream)) }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// `problem` is null or valid, `name` null or NUL-terminated, `tensor` null or writable; `stream` as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_export_dlpack(
    problem: *const sumsq_problem,
    name: *const c_char,
    stream: *mut c_void,
    tensor: *mut *mut DLManagedTensor,
) -> Status {
    // SAFETY: by the contract.
    unsafe { export_to(problem, name, stream, tensor) }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// As for [`sumsq_export_dlpack`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_export_dlpack_versioned(
    problem: *const sumsq_problem,
    name: *const c_char,
    stream: *mut c_void,
    tensor: *mut *mut DLManagedTensorVersioned,
) -> Status {
    // SAFETY: by the contract.
    unsafe { export_to(problem, name, stream, tensor) }
}
