//! Copies between buffers and plain slices.
//!
//! A slice is in C order and interleaved: channels fastest, then dimension 0, then dimension 1, and so on. Only the
//! domain is copied; halos and pads keep what they hold.

use super::buffer::Buffer;
use super::element::{Element, with_element};
use rayon::prelude::*;

/// Number of values from which on copies run in parallel.
const PARALLEL: usize = 1 << 16;

/// The elements of a buffer as cells, by their offset from the origin of plane 0. Made by [`Buffer::cells`] with
/// the buffer's own element type, used while the buffer lives, with offsets inside its memory; several threads touch disjoint
/// elements only, while the buffer's own thread waits for them.
pub(super) struct Cells<E>(*mut E);

// SAFETY: by the rules of the type.
unsafe impl<E> Send for Cells<E> {}
// SAFETY: as above.
unsafe impl<E> Sync for Cells<E> {}

impl<E: Element> Cells<E> {
    /// The element at an offset.
    pub(super) fn get(&self, offset: i64) -> E {
        // SAFETY: by the rules of the type; memory is initialised when it is allocated.
        unsafe { self.0.offset(offset as isize).read() }
    }

    /// Sets the element at an offset.
    pub(super) fn put(&self, offset: i64, v: E) {
        // SAFETY: by the rules of the type.
        unsafe { self.0.offset(offset as isize).write(v) }
    }
}

impl Buffer {
    /// Copies the domain from a slice, converting the element type. The slice must have one value per element and
    /// channel.
    pub fn copy_from<T: Element>(&self, from: &[T]) -> Result<(), String> {
        let row = self.row_values(from.len())?;
        if !self.writable() {
            return Err("its memory was borrowed for reading".into());
        }
        if row == 0 {
            return Ok(());
        }
        self.touch();
        with_element!(self.spec().ty, E => {
            let cells = self.cells::<E>();
            let this = RowLayout::of(self);
            let copy = |(r, values): (usize, &[T])| {
                let cells = &cells;
                this.for_each_value(r, |i, offset| {
                    cells.put(offset, E::narrow(values[i].widen()));
                });
            };
            if from.len() < PARALLEL {
                from.chunks(row).enumerate().for_each(copy);
            } else {
                from.par_chunks(row).enumerate().for_each(copy);
            }
        });
        Ok(())
    }

    /// Copies the domain to a slice, converting the element type.
    pub fn copy_to<T: Element>(&self, to: &mut [T]) -> Result<(), String> {
        let row = self.row_values(to.len())?;
        if row == 0 {
            return Ok(());
        }
        with_element!(self.spec().ty, E => {
            let cells = self.cells::<E>();
            let this = RowLayout::of(self);
            let copy = |(r, values): (usize, &mut [T])| {
                let cells = &cells;
                this.for_each_value(r, |i, offset| {
                    values[i] = T::narrow(cells.get(offset).widen());
                });
            };
            if to.len() < PARALLEL {
                to.chunks_mut(row).enumerate().for_each(copy);
            } else {
                to.par_chunks_mut(row).enumerate().for_each(copy);
            }
        });
        Ok(())
    }

    /// The domain as a new vector, converted.
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        let mut v = vec![T::narrow(super::element::Wide::Int(0)); self.spec().len() * self.spec().channels];
        // The length is right by construction.
        let _ = self.copy_to(&mut v);
        v
    }

    /// Sets every value of the domain; halos and pads keep what they hold, as does memory borrowed for reading.
    pub fn fill<T: Element>(&self, v: T) {
        if !self.writable() {
            return;
        }
        self.touch();
        let row = self.row_length();
        let values = vec![v; row];
        let rows = self.rows();
        with_element!(self.spec().ty, E => {
            let cells = self.cells::<E>();
            let this = RowLayout::of(self);
            for r in 0..rows {
                this.for_each_value(r, |i, offset| {
                    cells.put(offset, E::narrow(values[i].widen()));
                });
            }
        });
    }

    /// Sets everything to zero, pads and halos included; of borrowed memory, the domain.
    pub fn clear(&self) {
        if self.spec().layout == crate::func::Layout::Strided {
            return self.fill(0i8);
        }
        self.touch();
        let (p, n) = self.whole();
        // SAFETY: the whole memory, cells of this thread; zero bytes are valid elements of every type.
        unsafe { std::ptr::write_bytes(p, 0, n) }
    }

    /// Some value of the domain outside `[low, high]`, if there is one. Floats are truncated.
    pub fn value_outside(&self, low: i64, high: i64) -> Option<i64> {
        let mut found = None;
        with_element!(self.spec().ty, E => {
            let cells = self.cells::<E>();
            let this = RowLayout::of(self);
            for r in 0..self.rows() {
                this.for_each_value(r, |_, offset| {
                    let v = i64::narrow(cells.get(offset).widen());
                    if v < low || v > high {
                        found = Some(v);
                    }
                });
            }
        });
        found
    }

    /// Rows of the domain.
    fn rows(&self) -> usize {
        (self.spec().len() * self.spec().channels).checked_div(self.row_length()).unwrap_or(0)
    }

    /// The elements, `E` being the type of [`Buffer::spec`].
    pub(super) fn cells<E: Element>(&self) -> Cells<E> {
        debug_assert_eq!(self.spec().ty.bytes(), size_of::<E>());
        Cells(self.plane_ptr(0).cast())
    }

    /// Values in a row: channels times the first extent.
    fn row_length(&self) -> usize {
        let s = self.spec();
        s.channels * s.extents.first().map_or(1, |&e| e.max(0) as usize)
    }

    /// [`Buffer::row_length`], or an error if `n` is not the number of values of the domain.
    fn row_values(&self, n: usize) -> Result<usize, String> {
        let s = self.spec();
        let expected = s.len() * s.channels;
        if n != expected {
            return Err(format!("{n} values for {:?} elements of {} channels", s.extents, s.channels));
        }
        Ok(if expected == 0 { 0 } else { self.row_length() })
    }
}

/// Where the rows of a buffer lie, in elements from the origin.
struct RowLayout {
    extents: Vec<i32>,
    strides: Vec<i64>,
    channels: usize,
    channel_step: i64,
}

impl RowLayout {
    fn of(b: &Buffer) -> RowLayout {
        RowLayout {
            extents: b.spec().extents.clone(),
            strides: b.strides().to_vec(),
            channels: b.spec().channels,
            channel_step: b.channel_step(),
        }
    }

    /// Calls `f(index in the row, offset from the origin)` for every value of row `r` in C order.
    fn for_each_value(&self, r: usize, mut f: impl FnMut(usize, i64)) {
        let (mut rest, mut start) = (r, 0);
        for (&e, &s) in self.extents.iter().zip(&self.strides).skip(1) {
            start += (rest % e as usize) as i64 * s;
            rest /= e as usize;
        }
        let n = self.extents.first().map_or(1, |&e| e as usize);
        let step = self.strides.first().copied().unwrap_or(0);
        for x in 0..n {
            for c in 0..self.channels {
                f(x * self.channels + c, start + x as i64 * step + c as i64 * self.channel_step);
            }
        }
    }
}
