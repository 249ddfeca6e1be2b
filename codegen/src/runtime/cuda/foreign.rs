//! Arrays in a device's memory that somebody else owns, and the order with what its owner asks the device for.
//!
//! The owner has streams of his own. Before an array is used the device's stream waits for the owner's ([`DeviceArray::acquire`]), and
//! afterwards the owner's waits for the device's ([`DeviceArray::release`]): the host waits for neither.

use super::device::Device;
use super::driver::Handle;
use super::memory::DeviceMemory;
use crate::error::{CudaError, PointerError};
use crate::func::{Layout, PITCH};
use crate::runtime::element::Element;
use crate::runtime::{Buffer, BufferError, BufferSpec, Dimension, View};
use crate::types::ScalarType;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUmemorytype, CUpointer_attribute, CUresult};
use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

/// A stream of somebody else: a `CUstream` or `cudaStream_t` of the device's primary context. Null, the default, is the stream that work without one is in.
#[derive(Clone, Copy, Debug)]
pub struct Stream(Handle<sys::CUstream_st>);

impl Stream {
    /// The stream of this handle.
    ///
    /// # Safety
    /// It is null, one of the driver's constants, or a stream that lives as long as arrays with it are used.
    pub unsafe fn new(handle: *mut c_void) -> Stream {
        Stream(Handle(handle.cast()))
    }

    /// True for the handles that every context has streams of.
    fn is_built_in(self) -> bool {
        matches!(self.0.0 as usize, 0..=2)
    }
}

impl Default for Stream {
    fn default() -> Stream {
        Stream(Handle(std::ptr::null_mut()))
    }
}

/// An array in the memory of a device that somebody else owns: an allocation of the driver's, also managed memory. Cheap to clone.
#[derive(Clone)]
pub struct DeviceArray {
    ordinal: usize,
    ty: ScalarType,
    /// The element of least address, and the number of places from there to the greatest.
    least: u64,
    places: usize,
    /// Slowest first.
    shape: Vec<usize>,
    /// In elements, likewise.
    strides: Vec<isize>,
    /// Addresses of the allocation, its end left out.
    allocation: (u64, u64),
    stream: Stream,
    /// Kept until the last clone is gone.
    _owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for DeviceArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceArray { ordinal, ty, least, shape, strides, .. } = self;
        let mut all = f.debug_struct("DeviceArray");
        all.field("device", ordinal).field("ty", ty).field("least", &format_args!("{least:#x}"));
        all.field("shape", shape).field("strides", strides).finish_non_exhaustive()
    }
}

impl DeviceArray {
    /// An array of device `ordinal` whose first element is at `pointer`: the `shape`, slowest first, with the distance of neighbours in elements, or
    /// in C order without. Its pointer is checked; its numbers are not looked at.
    ///
    /// # Errors
    /// [`CudaError::Pointer`], or the device cannot be used.
    ///
    /// # Safety
    /// As long as the array or a clone is used, the memory lives, and whoever else writes to it, or reads it where it is written to, does so in
    /// work that is ordered with the stream.
    pub unsafe fn new(
        ordinal: usize,
        ty: ScalarType,
        pointer: *mut c_void,
        shape: &[usize],
        strides: Option<&[isize]>,
        stream: Stream,
    ) -> Result<DeviceArray, CudaError> {
        let address = pointer as u64;
        if address == 0 {
            return Err(PointerError::Null { device: ordinal }.into());
        }
        if !address.is_multiple_of(ty.bytes() as u64) {
            return Err(PointerError::Misaligned { address, ty: ty.name(), bytes: ty.bytes() }.into());
        }
        let strides = strides.map_or_else(|| dense(shape), <[isize]>::to_vec);
        let (before, places) = reach(shape, &strides)
            .ok_or_else(|| PointerError::Strides { shape: shape.to_vec(), strides: strides.clone() })?;
        let least = address.wrapping_sub(before * ty.bytes() as u64);
        let device = Device::shared(ordinal)?;
        let allocation = device.allocation(address)?;
        let needed = places as u64 * ty.bytes() as u64;
        let there = allocation.1.saturating_sub(least);
        if least < allocation.0 || needed > there {
            let there = if least < allocation.0 { 0 } else { there };
            return Err(PointerError::TooShort { address: least, needed, there }.into());
        }
        device.knows(stream)?;
        let shape = shape.to_vec();
        Ok(DeviceArray { ordinal, ty, least, places, shape, strides, allocation, stream, _owner: None })
    }

    /// The same array, which keeps something until it and all its clones are gone.
    pub fn keeping(self, owner: Arc<dyn Any + Send + Sync>) -> DeviceArray {
        DeviceArray { _owner: Some(owner), ..self }
    }

    /// The number of its device.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The type of its numbers.
    pub fn ty(&self) -> ScalarType {
        self.ty
    }

    /// Its extents, slowest first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The distance of neighbours in elements, likewise.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Bytes from its first to its last number.
    pub fn bytes(&self) -> usize {
        self.places * self.ty.bytes()
    }

    /// Checks that it can be written to.
    ///
    /// # Errors
    /// [`PointerError::Overlap`].
    pub fn check_writable(&self) -> Result<(), PointerError> {
        let dims = self.shape.iter().zip(&self.strides);
        let mut dims: Vec<(u128, u128)> =
            dims.filter(|(e, _)| **e > 1).map(|(&e, s)| (s.unsigned_abs() as u128, e as u128)).collect();
        dims.sort_unstable();
        let mut reach = 0;
        for (stride, extent) in dims {
            if stride <= reach {
                let (shape, strides) = (self.shape.clone(), self.strides.clone());
                return Err(PointerError::Overlap { shape, strides });
            }
            reach += stride * (extent - 1);
        }
        Ok(())
    }

    /// Checks that it is on the device of this number.
    ///
    /// # Errors
    /// [`PointerError::OtherDevice`].
    pub fn check_on(&self, device: usize) -> Result<(), PointerError> {
        let other = || PointerError::OtherDevice { address: self.least, device, came: self.ordinal };
        if self.ordinal == device { Ok(()) } else { Err(other()) }
    }

    /// Lets all that the device is asked for next come behind all that the owner's stream was asked for.
    ///
    /// # Errors
    /// The device fails.
    pub fn acquire(&self) -> Result<Device, CudaError> {
        let device = Device::shared(self.ordinal)?;
        device.behind(self.stream.0.0, device.stream())?;
        Ok(device)
    }

    /// Lets all that the owner's stream is asked for next come behind all that the device was asked for.
    ///
    /// # Errors
    /// As of [`DeviceArray::acquire`].
    pub fn release(&self) -> Result<(), CudaError> {
        let device = Device::shared(self.ordinal)?;
        device.behind(device.stream(), self.stream.0.0)
    }

    /// It as a buffer of a device, for what that is asked for next: dimensions of these extents, which are those of the array in another order, or
    /// of one element.
    ///
    /// # Errors
    /// Elements that it does not have.
    pub fn view(&self, device: &Device, dims: &[Dimension]) -> Result<View<'_>, BufferError> {
        let memory = DeviceMemory::lent(device, self.least, self.bytes());
        View::of_block(Box::new(memory), self.ty, self.places, dims)
    }

    /// It in place of a buffer that looks like `spec`, without a copy: `dims` are its channels, then those of the buffer, fastest first. `None` where
    /// such a buffer lies otherwise (see `runtime::buffer`), or where what is read of it, coordinates from a first to a last one in every dimension,
    /// reaches out of the allocation.
    pub fn in_place_of(
        &self,
        device: &Device,
        spec: &BufferSpec,
        dims: &[Dimension],
        read: &[(i64, i64)],
    ) -> Option<Buffer> {
        let (channel, dims) = dims.split_first()?;
        let size = self.ty.bytes() as i64;
        let (step, slots) = match spec.layout {
            Layout::Planar => (1, 1),
            Layout::Record(slots) => (slots.into(), i64::from(slots)),
            Layout::Strided => return None,
        };
        let unit = PITCH.max(64 / size);
        let fits = |(d, dim): (usize, &Dimension)| {
            let one = dim.extent == 1 && read[d] == (0, 0);
            one || if d == 0 { dim.stride == step } else { dim.stride > 0 && dim.stride % unit == 0 }
        };
        let alike = spec.ty == self.ty
            && spec.channels == channel.extent as usize
            && dims.iter().map(|d| d.extent).eq(spec.extents.iter().copied())
            && read.len() == dims.len()
            && dims.iter().enumerate().all(fits)
            && (slots == 1 || spec.channels == 1 || channel.stride == 1);
        if !alike {
            return None;
        }
        // Places of the first element, and of what is read around it, in bytes.
        let planes = if slots == 1 { spec.channels as i64 } else { 1 };
        let all = self.shape.iter().zip(&self.strides).filter(|(_, s)| **s < 0);
        let before: i64 = all.map(|(&e, &s)| (e as i64 - 1) * -(s as i64)).sum();
        let of = |end: fn(&(i64, i64)) -> i64| -> i64 {
            read.iter().zip(dims).map(|(r, d)| end(r) * d.stride).sum()
        };
        let (low, high) = (of(|r| r.0), of(|r| r.1) + slots);
        let inside = |plane: i64| {
            let origin = self.least as i64 + (before + plane * channel.stride) * size;
            let (start, end) = (origin + low * size, origin + high * size);
            origin % 64 == 0 && start >= self.allocation.0 as i64 && end <= self.allocation.1 as i64
        };
        if !(0..planes).all(inside) {
            return None;
        }
        let memory = DeviceMemory::lent(device, self.least, self.bytes());
        let strides = dims.iter().map(|d| d.stride).collect();
        let plane = if slots == 1 { channel.stride } else { 0 };
        Buffer::of_block(Box::new(memory), spec.clone(), strides, plane, before, self.bytes())
    }

    /// Its numbers in C order, converted, once all that its owner's stream was asked for is done.
    ///
    /// # Errors
    /// The device does not hand them out.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, BufferError> {
        let device = self.acquire()?;
        let dims = self.shape.iter().zip(&self.strides).rev();
        let dims: Vec<Dimension> = dims.map(|(&e, &s)| Dimension::new(0, e as i32, s as i64)).collect();
        let view = self.view(&device, &dims)?;
        view.sync_host()?;
        Ok(view.to_vec())
    }
}

impl DeviceMemory {
    /// Numbers of a type in it, from its first byte on, for what the device is asked for next.
    ///
    /// # Errors
    /// More elements than it holds.
    pub fn view(&self, ty: ScalarType, dims: &[Dimension]) -> Result<View<'_>, BufferError> {
        let memory = DeviceMemory::lent(self.device(), self.address(), self.bytes());
        View::of_block(Box::new(memory), ty, self.bytes() / ty.bytes(), dims)
    }
}

/// Strides of C order.
fn dense(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1isize; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d].saturating_mul(isize::try_from(shape[d]).unwrap_or(isize::MAX));
    }
    strides
}

/// Places before the first element, and from the least to the greatest.
fn reach(shape: &[usize], strides: &[isize]) -> Option<(u64, usize)> {
    let fits = shape.len() == strides.len() && shape.iter().all(|&e| i32::try_from(e).is_ok_and(|e| e > 0));
    let (mut before, mut behind) = (0usize, 0usize);
    for (&stride, &extent) in strides.iter().zip(shape) {
        let end = if stride < 0 { &mut before } else { &mut behind };
        *end = end.checked_add(stride.unsigned_abs().checked_mul(extent.max(1) - 1)?)?;
    }
    let places = before.checked_add(behind)?.checked_add(1)?;
    (fits && places < isize::MAX as usize / 8).then_some((before as u64, places))
}

impl Device {
    /// Lets all that a stream of somebody else is asked for next come behind all that the device was asked for.
    ///
    /// # Errors
    /// A stream of another context, or the device fails.
    pub fn ahead_of(&self, stream: Stream) -> Result<(), CudaError> {
        self.knows(stream)?;
        self.behind(self.stream(), stream.0.0)
    }

    /// The addresses of the allocation that a pointer is in, the end left out.
    fn allocation(&self, address: u64) -> Result<(u64, u64), CudaError> {
        let (ordinal, _entered) = (self.info().ordinal, self.enter()?);
        let (mut kind, mut managed, mut owner) = (0u32, 0u32, -2i32);
        let (mut context, mut start, mut bytes) = (std::ptr::null_mut::<c_void>(), 0u64, 0usize);
        use CUpointer_attribute::*;
        let mut asked = [
            CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            CU_POINTER_ATTRIBUTE_IS_MANAGED,
            CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            CU_POINTER_ATTRIBUTE_CONTEXT,
            CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        ];
        let mut places: [*mut c_void; 6] = [
            (&raw mut kind).cast(),
            (&raw mut managed).cast(),
            (&raw mut owner).cast(),
            (&raw mut context).cast(),
            (&raw mut start).cast(),
            (&raw mut bytes).cast(),
        ];
        // SAFETY: as many places as attributes, each of the size of its attribute's value; the driver knows the pointer or says so.
        let code = unsafe {
            sys::cuPointerGetAttributes(asked.len() as u32, asked.as_mut_ptr(), places.as_mut_ptr(), address)
        };
        self.check("cuPointerGetAttributes", code.result())?;
        let managed = managed & 0xff != 0;
        if kind != CUmemorytype::CU_MEMORYTYPE_DEVICE as u32 && !managed {
            return Err(PointerError::Host { address, device: ordinal }.into());
        }
        if let Ok(came) = usize::try_from(owner)
            && came != ordinal
            && !managed
        {
            return Err(PointerError::OtherDevice { address, device: ordinal, came }.into());
        }
        // Memory of a pool, or mapped by hand, has no context.
        if !context.is_null() && context != self.context().cast() && !managed {
            return Err(PointerError::Context { device: ordinal, what: "pointer" }.into());
        }
        Ok((start, start.saturating_add(bytes as u64)))
    }

    /// An error for a stream that is not of the device's context.
    fn knows(&self, stream: Stream) -> Result<(), CudaError> {
        if stream.is_built_in() {
            return Ok(());
        }
        let other = || CudaError::from(PointerError::Context { device: self.info().ordinal, what: "stream" });
        let _entered = self.enter()?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the stream lives, as whoever made it a `Stream` said.
        match unsafe { sys::cuStreamGetCtx(stream.0.0, &mut context) } {
            CUresult::CUDA_ERROR_INVALID_HANDLE | CUresult::CUDA_ERROR_INVALID_CONTEXT => Err(other()),
            code => {
                self.check("cuStreamGetCtx", code.result())?;
                if context == self.context() { Ok(()) } else { Err(other()) }
            }
        }
    }

    /// Makes a stream wait for all that another one was asked for so far.
    fn behind(&self, first: sys::CUstream, second: sys::CUstream) -> Result<(), CudaError> {
        let _entered = self.enter()?;
        let made = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        let event = self.check("cuEventCreate", made)?;
        // SAFETY: event and streams live; the driver frees the event once it is reached.
        let ordered = unsafe { self.order(event, first, second) };
        // SAFETY: created once, destroyed once.
        self.free(|| unsafe { result::event::destroy(event) });
        ordered
    }

    /// # Safety
    /// The event and both streams live.
    unsafe fn order(
        &self,
        event: sys::CUevent,
        first: sys::CUstream,
        second: sys::CUstream,
    ) -> Result<(), CudaError> {
        // SAFETY: by the contract.
        let recorded: Result<(), DriverError> = unsafe { result::event::record(event, first) };
        self.check("cuEventRecord", recorded)?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: by the contract.
        let waiting = unsafe { result::stream::wait_event(second, event, flags) };
        self.check("cuStreamWaitEvent", waiting)
    }
}
