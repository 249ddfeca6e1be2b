//! Buffers: the memory of inputs and outputs.
//!
//! A buffer holds, per element of its domain, a tuple of `channels` values of one type. Coordinates run over
//! `[min_d - halo_d, min_d + extent_d + halo_d)`; dimension 0 is the fastest. The *origin* is the element at the minimum.
//!
//! # Layout
//! Strided: dense, or a [`super::View`] of somebody's memory, of which the following does not hold. Planar: one plane per
//! channel, stride 1 in dimension 0. Record(s): one plane whose elements are records of s slots, channels innermost, stride s
//! in dimension 0. Guaranteed of every plane:
//! - The address of the origin is a multiple of 64 bytes.
//! - The strides of dimensions 1 and up are multiples of 16 elements and of 64 bytes. The pitch (stride 1) is no
//!   multiple of 4096 bytes, nor is the distance of planes: rows below each other would compete for the same cache sets.
//! - Rows do not share their halos: from `-halo_0` to the extent, rounded up to 16, and beyond to `extent + halo_0`.
//! - 64 elements before the first and behind the last halo element may be touched by vectors.
//!
//! All is zero at first, pads and halos included.
//!
//! # Devices
//! A buffer may have its values on a device too (`side`). The host's side is brought up to date wherever values are read or written
//! here: `None`, false or an error if that fails. Code that goes by addresses is given them behind [`Buffer::sync_host`].
//!
//! # Sharing
//! Compiled code writes to buffers through shared references, as if the elements were `Cell`s. So a buffer may move to
//! another thread but not be shared between threads (it is not `Sync`), and no reference to its elements leaves it.

use super::Pool;
use super::element::{Element, Wide, with_element};
use super::error::BufferError;
use super::memory::Memory;
use super::side::{Block, Side};
use super::spec::BufferSpec;
use crate::func::{Layout, PITCH};
use std::cell::{Cell, OnceCell};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Elements that vectors may touch outside the halo.
const SLACK: i64 = 64;
/// Bytes of a cache line, and of the widest vector.
const LINE: i64 = 64;
/// Rows or planes at multiples of this many bytes compete for the same cache sets.
const PAGE: i64 = 4096;

/// The bit of a version that says that everything is zero.
const ZERO: u64 = 1 << 63;

/// Memory with the layout of the module's description.
pub struct Buffer {
    spec: BufferSpec,
    /// In elements of `ty`, per dimension.
    strides: Vec<i64>,
    /// In elements, between the planes of a planar buffer (0 for records: channel k is slot k).
    plane: i64,
    /// In elements, from the start of the memory to the origin of plane 0.
    origin: i64,
    memory: Memory,
    /// Differs from all earlier values, of any buffer, whenever the contents may have changed.
    version: Cell<u64>,
    /// The values on a device, once one was asked for them.
    side: OnceCell<Box<Side>>,
}

impl Buffer {
    /// A zeroed buffer.
    ///
    /// # Errors
    /// Impossible extents or coordinates, more channels than slots, too little memory.
    pub fn new(spec: BufferSpec) -> Result<Buffer, BufferError> {
        let shape = Shape::of(&spec)?;
        let stagger = stagger(&spec);
        let bytes = (shape.elements as i128 + stagger as i128) * spec.ty.bytes() as i128;
        let memory = usize::try_from(bytes)
            .ok()
            .filter(|&b| b <= isize::MAX as usize)
            .and_then(Memory::zeroed)
            .ok_or_else(|| BufferError::Memory { ty: spec.ty, extents: spec.extents.clone() })?;
        let Shape { strides, plane, origin, .. } = shape;
        let buffer = Buffer::over(memory, spec, strides, plane, origin + stagger);
        buffer.renew_zero();
        Ok(buffer)
    }

    /// Has the system provide the memory now, not when it is first touched: by the threads of `pool`, so that each share lies near
    /// the thread that computes it.
    pub fn populate(&self, pool: &Pool) {
        self.memory.populate(pool);
    }

    /// A buffer in given memory.
    pub(super) fn over(
        memory: Memory,
        spec: BufferSpec,
        strides: Vec<i64>,
        plane: i64,
        origin: i64,
    ) -> Buffer {
        let (version, side) = (Cell::new(next_version()), OnceCell::new());
        Buffer { spec, strides, plane, origin, memory, version, side }
    }

    /// A buffer whose values, so many bytes, lie in a block of a device: the host's memory stays untouched until it asks for them. `None` if there
    /// is none.
    pub(super) fn of_block(
        block: Box<dyn Block>,
        spec: BufferSpec,
        strides: Vec<i64>,
        plane: i64,
        origin: i64,
        bytes: usize,
    ) -> Option<Buffer> {
        let buffer = Buffer::over(Memory::zeroed(bytes)?, spec, strides, plane, origin);
        buffer.set_side(Side::holding(block));
        Some(buffer)
    }

    /// False if the memory was borrowed for reading.
    pub fn writable(&self) -> bool {
        self.memory.writable()
    }

    /// A scalar holding `v`.
    pub fn scalar<T: Element>(v: T) -> Result<Buffer, BufferError> {
        let b = Buffer::new(BufferSpec::new(T::TYPE, &[]))?;
        b.set(&[], 0, v);
        Ok(b)
    }

    /// Returns what it looks like.
    pub fn spec(&self) -> &BufferSpec {
        &self.spec
    }

    /// Distance of neighbours in each dimension, in elements.
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// A number that no other contents, of this or any other buffer, have had.
    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// Notes that the host may have changed the contents.
    pub(crate) fn touch(&self) {
        self.renew();
        if let Some(side) = self.side() {
            side.host_wrote();
        }
    }

    /// Gives it another version.
    pub(super) fn renew(&self) {
        self.version.set(next_version());
    }

    /// Gives it another version, that of zeros.
    pub(super) fn renew_zero(&self) {
        self.version.set(next_version() | ZERO);
    }

    /// True if everything is known to be zero, pads and halos too.
    pub(super) fn is_zero(&self) -> bool {
        self.version() & ZERO != 0
    }

    /// True if the memory is somebody else's.
    pub(super) fn is_borrowed(&self) -> bool {
        self.memory.is_borrowed()
    }

    /// Its side on a device, if it has one.
    pub(super) fn side(&self) -> Option<&Side> {
        self.side.get().map(|side| &**side)
    }

    /// Gives it a side on a device, its first.
    pub(super) fn set_side(&self, side: Side) -> &Side {
        self.side.get_or_init(|| Box::new(side))
    }

    /// Bytes that the buffer takes, pads included.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Address of the origin of a plane (planar), or of the records (plane 0), in the host's memory.
    pub fn plane_ptr(&self, plane: usize) -> *mut c_void {
        self.memory.base().wrapping_offset(self.plane_offset(plane) as isize).cast()
    }

    /// Offset in bytes, from the start of the memory to the origin of a plane.
    pub(super) fn plane_offset(&self, plane: usize) -> i64 {
        (self.origin + self.plane * plane as i64) * self.spec.ty.bytes() as i64
    }

    /// Offset in elements, from the origin of plane 0, of a value; `None` outside domain and halo.
    fn offset(&self, at: &[i32], channel: usize) -> Option<i64> {
        let s = &self.spec;
        if at.len() != s.extents.len() || channel >= s.channels {
            return None;
        }
        let mut offset = self.channel_step() * channel as i64;
        for (d, &c) in at.iter().enumerate() {
            let c = c as i64 - s.min[d] as i64;
            let (halo, extent) = (s.halo[d] as i64, s.extents[d] as i64);
            if c < -halo || c >= extent + halo {
                return None;
            }
            offset += c * self.strides[d];
        }
        Some(offset)
    }

    /// The farthest offset from the origin of a plane, in elements.
    pub(super) fn reach(&self) -> i64 {
        let sizes = self.spec.extents.iter().zip(&self.spec.halo);
        let along = |((&extent, &halo), stride): ((&i32, &u32), &i64)| {
            (i64::from(extent) + i64::from(halo)).saturating_mul(stride.abs())
        };
        sizes.zip(&self.strides).map(along).fold(0, i64::saturating_add)
    }

    /// Distance of the channels of one element, in elements.
    pub(super) fn channel_step(&self) -> i64 {
        match self.spec.layout {
            Layout::Planar | Layout::Strided => self.plane,
            Layout::Record(_) => 1,
        }
    }

    /// All of the memory.
    pub(super) fn whole(&self) -> (*mut u8, usize) {
        (self.memory.base(), self.memory.bytes())
    }

    /// The value at coordinates `at` (halo included), converted; `None` outside, if there is no such channel, or if a device has it and
    /// does not hand it out.
    pub fn get<T: Element>(&self, at: &[i32], channel: usize) -> Option<T> {
        let offset = self.offset(at, channel)?;
        self.sync_host().ok()?;
        let wide = with_element!(self.spec.ty, E => self.cells::<E>().get(offset).widen());
        Some(T::narrow(wide))
    }

    /// Sets the value at coordinates `at`, converted; false (and nothing done) outside, if the memory is only read, or if a device has the
    /// others and does not hand them out.
    pub fn set<T: Element>(&self, at: &[i32], channel: usize, v: T) -> bool {
        let ready = || self.writable() && self.sync_host().is_ok();
        let Some(offset) = self.offset(at, channel).filter(|_| ready()) else { return false };
        self.write(offset, v.widen());
        true
    }

    fn write(&self, offset: i64, v: Wide) {
        self.touch();
        with_element!(self.spec.ty, E => self.cells::<E>().put(offset, E::narrow(v)));
    }

    /// The error of an exchange with, or a copy of, a buffer that looks otherwise.
    pub(super) fn unlike(&self, other: &Buffer) -> BufferError {
        BufferError::Unlike(Box::new(self.spec.clone()), Box::new(other.spec.clone()))
    }

    /// Exchanges the memory of two buffers that look alike, on the host and on devices.
    pub fn swap(&mut self, other: &mut Buffer) -> Result<(), BufferError> {
        if self.spec != other.spec || self.strides != other.strides {
            return Err(self.unlike(other));
        }
        std::mem::swap(self, other);
        Ok(())
    }
}

/// Offsets within a buffer, in elements.
struct Shape {
    strides: Vec<i64>,
    plane: i64,
    origin: i64,
    elements: i64,
}

impl Shape {
    fn of(spec: &BufferSpec) -> Result<Shape, BufferError> {
        let dims = spec.extents.len();
        let slots = match spec.layout {
            Layout::Planar | Layout::Strided => 1,
            Layout::Record(s) if spec.channels <= s as usize => s as i64,
            Layout::Record(slots) => {
                return Err(BufferError::Record { channels: spec.channels, slots });
            }
        };
        if spec.halo.len() != dims {
            return Err(BufferError::Halo { widths: spec.halo.len(), dims });
        }
        if spec.min.len() != dims {
            return Err(BufferError::Minima { minima: spec.min.len(), dims });
        }
        let mut coordinates = spec.min.iter().zip(&spec.extents);
        if let Some((&min, &extent)) = coordinates.find(|(m, e)| m.checked_add(**e).is_none()) {
            return Err(BufferError::Coordinates { min, extent });
        }
        if let Some(&extent) = spec.extents.iter().find(|&&e| e < 0) {
            return Err(BufferError::Negative { extent });
        }
        if spec.channels == 0 {
            return Err(BufferError::NoChannel);
        }
        let too_large = || BufferError::TooLarge { extents: spec.extents.clone() };
        Shape::checked(spec, slots).ok_or_else(too_large)
    }

    /// `None` on overflow.
    fn checked(spec: &BufferSpec, slots: i64) -> Option<Shape> {
        let size = spec.ty.bytes() as i64;
        // Code for strided buffers counts on nothing.
        let unit = if spec.layout == Layout::Strided { 1 } else { PITCH.max(LINE / size) };
        let page = PAGE / size;
        let (mut strides, mut before, mut step) = (vec![], 0i64, slots);
        for (d, (&e, &h)) in spec.extents.iter().zip(&spec.halo).enumerate() {
            let (e, h) = (e as i64, h as i64);
            strides.push(step);
            let lead = if d == 0 { round_up(h, unit)? } else { h };
            before = before.checked_add(lead.checked_mul(step)?)?;
            let mut next = step.checked_mul(lead.checked_add(e)?.checked_add(h)?)?;
            next = round_up(next, unit)?;
            if d == 0 && next % page == 0 && next > 0 && unit > 1 {
                next += unit;
            }
            step = next;
        }
        let slack = round_up(SLACK, unit)?;
        let mut plane = round_up(step.checked_add(slack)?, unit)?;
        if plane % page == 0 {
            plane += 3 * unit;
        }
        let planes = if slots == 1 { spec.channels as i64 } else { 1 };
        let elements = plane.checked_mul(planes)?.checked_add(2 * slack)?;
        let plane = if let Layout::Record(_) = spec.layout { 0 } else { plane };
        Some(Shape { strides, plane, origin: slack + before, elements })
    }
}

fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn round_up(n: i64, unit: i64) -> Option<i64> {
    Some(n.checked_add(unit - 1)? / unit * unit)
}

/// Elements by which the origin is moved, a multiple of 64 bytes, differing from buffer to buffer: large blocks all
/// start at the same place in a page, and the same row of several arrays would compete for the same cache sets.
fn stagger(spec: &BufferSpec) -> i64 {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    if spec.len() * spec.ty.bytes() < PAGE as usize {
        return 0;
    }
    let n = COUNT.fetch_add(1, Ordering::Relaxed) as i64;
    n * 5 * LINE % PAGE / spec.ty.bytes() as i64
}
