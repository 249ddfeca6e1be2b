//! Copies between buffers, views and plain slices.
//!
//! A slice is in C order and interleaved: channels fastest, then dimension 0, then dimension 1, and so on. A view has as its first dimension
//! the channels, then those of the buffer. Only the domain is copied; halos and pads keep what they hold.

use super::Pool;
use super::buffer::Buffer;
use super::element::{Element, with_element};
use super::error::BufferError;
use super::view::{Dimension, View};
use crate::error::CudaError;

/// Values that one thread copies at a time, about.
const GRAIN: usize = 1 << 16;

/// The elements of a buffer as cells, by their offset from the origin of plane 0. Made by [`Buffer::cells`] with
/// the buffer's own element type, used while the buffer lives, with offsets inside its memory; several threads write disjoint
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
    pub fn copy_from<T: Element>(&self, from: &[T]) -> Result<(), BufferError> {
        let row = self.row_values(from.len())?;
        if !self.writable() {
            return Err(BufferError::ReadOnly);
        }
        if row == 0 {
            return Ok(());
        }
        self.sync_host()?;
        self.touch();
        with_element!(self.spec().ty, E => {
            let cells = self.cells::<E>();
            let this = RowLayout::of(self);
            for (r, values) in from.chunks(row).enumerate() {
                this.for_each_value(r, |i, offset| cells.put(offset, E::narrow(values[i].widen())));
            }
        });
        Ok(())
    }

    /// Copies a view's channels to the channels from `first` on, converting the element type, on the threads of `pool`. An error if the
    /// view's dimensions are not the channels and then those of the domain.
    pub fn copy_channels(&self, first: usize, from: &View<'_>, pool: &Pool) -> Result<(), BufferError> {
        let own = RowLayout::of(self);
        let (channels, theirs) = own.matching(first, &from.spec().extents, from.strides())?;
        if !self.writable() {
            return Err(BufferError::ReadOnly);
        }
        from.sync_host()?;
        self.sync_host()?;
        self.touch();
        with_element!(self.spec().ty, E => {
            let to = self.cells::<E>();
            with_element!(from.spec().ty, F => {
                let from = from.cells::<F>();
                own.for_each_run(&theirs, first, channels, pool, |n, a, b| {
                    let (to, from) = (&to, &from);
                    // Apart, so that either loop knows its strides.
                    if (a.1, b.1) == (1, 1) {
                        (0..n).for_each(|x| to.put(a.0 + x, E::narrow(from.get(b.0 + x).widen())));
                    } else {
                        (0..n).for_each(|x| to.put(a.0 + x * a.1, E::narrow(from.get(b.0 + x * b.1).widen())));
                    }
                });
            })
        });
        Ok(())
    }

    /// Sets every value of the domain to `value(element, channel)`, elements numbered in C order, on the threads of `pool`.
    ///
    /// # Errors
    /// The memory was borrowed for reading.
    pub fn generate<T: Element>(
        &self,
        pool: &Pool,
        value: impl Fn(usize, usize) -> T + Sync,
    ) -> Result<(), BufferError> {
        if !self.writable() {
            return Err(BufferError::ReadOnly);
        }
        self.sync_host()?;
        self.touch();
        let (own, elements) = (RowLayout::of(self), self.spec().len() as i64);
        // An offset among theirs is the number of the element, behind those of the channels before.
        let dims = Dimension::dense(&own.extents).iter().map(|d| d.stride).collect();
        let numbers = Strides { channel: elements, dims };
        with_element!(self.spec().ty, E => {
            let to = self.cells::<E>();
            own.for_each_run(&numbers, 0, own.channels, pool, |n, a, b| {
                let (to, channel, first) = (&to, (b.0 / elements) as usize, b.0 % elements);
                (0..n).for_each(|x| {
                    let value = value((first + x) as usize, channel);
                    to.put(a.0 + x * a.1, E::narrow(value.widen()));
                });
            })
        });
        Ok(())
    }

    /// Copies the channels from `first` on to a slice of so many, converting the element type, on the threads of `pool`.
    pub fn copy_channels_to<T: Element>(
        &self,
        first: usize,
        channels: usize,
        to: &mut [T],
        pool: &Pool,
    ) -> Result<(), BufferError> {
        let own = RowLayout::of(self);
        let extents: Vec<i32> = std::iter::once(channels as i32).chain(own.extents.iter().copied()).collect();
        let to = View::new(to, &Dimension::dense(&extents))?;
        let (channels, theirs) = own.matching(first, &extents, to.strides())?;
        self.sync_host()?;
        let to = to.cells::<T>();
        with_element!(self.spec().ty, E => {
            let from = self.cells::<E>();
            own.for_each_run(&theirs, first, channels, pool, |n, a, b| {
                let (to, from) = (&to, &from);
                (0..n).for_each(|x| to.put(b.0 + x * b.1, T::narrow(from.get(a.0 + x * a.1).widen())));
            })
        });
        Ok(())
    }

    /// Copies the domain to a slice, converting the element type.
    pub fn copy_to<T: Element>(&self, to: &mut [T]) -> Result<(), BufferError> {
        let row = self.row_values(to.len())?;
        if row == 0 {
            return Ok(());
        }
        self.sync_host()?;
        with_element!(self.spec().ty, E => {
            let cells = self.cells::<E>();
            let this = RowLayout::of(self);
            for (r, values) in to.chunks_mut(row).enumerate() {
                this.for_each_value(r, |i, offset| values[i] = T::narrow(cells.get(offset).widen()));
            }
        });
        Ok(())
    }

    /// The domain as a new vector, converted; empty if a device has the values and does not hand them out, which [`Buffer::copy_to`] tells.
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        let mut v = vec![T::narrow(super::element::Wide::Int(0)); self.spec().len() * self.spec().channels];
        // The length is right by construction.
        self.copy_to(&mut v).map_or_else(|_| vec![], |()| v)
    }

    /// Sets every value of the domain; halos and pads keep what they hold. Nothing is done if the memory was borrowed for reading, or if a
    /// device has the values and does not hand them out.
    pub fn fill<T: Element>(&self, v: T) {
        if !self.writable() || self.sync_host().is_err() {
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
        if !self.clear_side() {
            self.touch();
            let (p, n) = self.whole();
            // SAFETY: the whole memory, cells of this thread; zero bytes are valid elements of every type.
            unsafe { std::ptr::write_bytes(p, 0, n) }
        }
        self.renew_zero();
    }

    /// Some value of the domain outside `[low, high]`, if there is one. Floats are truncated.
    ///
    /// # Errors
    /// A device has the values and does not hand them out.
    pub fn value_outside(&self, low: i64, high: i64) -> Result<Option<i64>, CudaError> {
        self.sync_host()?;
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
        Ok(found)
    }

    /// Rows of the domain.
    fn rows(&self) -> usize {
        (self.spec().len() * self.spec().channels).checked_div(self.row_length()).unwrap_or(0)
    }

    /// The elements, `E` being the type of [`Buffer::spec`].
    pub(super) fn cells<E: Element>(&self) -> Cells<E> {
        assert_eq!(self.spec().ty.bytes(), size_of::<E>(), "size of an element");
        Cells(self.plane_ptr(0).cast())
    }

    /// Values in a row: channels times the first extent.
    fn row_length(&self) -> usize {
        let s = self.spec();
        s.channels * s.extents.first().map_or(1, |&e| e.max(0) as usize)
    }

    /// [`Buffer::row_length`], or an error if `n` is not the number of values of the domain.
    fn row_values(&self, n: usize) -> Result<usize, BufferError> {
        let s = self.spec();
        let expected = s.len() * s.channels;
        if n != expected {
            let (extents, channels) = (s.extents.clone(), s.channels);
            return Err(BufferError::Values { came: n, extents, channels });
        }
        Ok(if expected == 0 { 0 } else { self.row_length() })
    }
}

/// Offsets of the rows of a buffer, in elements from the origin.
struct RowLayout {
    extents: Vec<i32>,
    strides: Vec<i64>,
    channels: usize,
    channel_step: i64,
}

/// Offsets of somebody else's values, in elements.
struct Strides {
    channel: i64,
    dims: Vec<i64>,
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

    /// Returns how many channels and with which strides something of these extents and strides, the channels first, is to be copied from or to
    /// the channels from `first` on.
    fn matching(
        &self,
        first: usize,
        extents: &[i32],
        strides: &[i64],
    ) -> Result<(usize, Strides), BufferError> {
        let fits = extents.split_first().is_some_and(|(&c, dims)| {
            dims == self.extents && usize::try_from(c).is_ok_and(|c| first + c <= self.channels)
        });
        if !fits {
            let (came, extents, channels) = (extents.to_vec(), self.extents.clone(), self.channels);
            return Err(BufferError::Channels { came, extents, channels });
        }
        Ok((extents[0] as usize, Strides { channel: strides[0], dims: strides[1..].to_vec() }))
    }

    /// Calls `f(values, (own offset, own step), (their offset, their step))` for every channel of every row, pieces of rows in parallel.
    fn for_each_run(
        &self,
        theirs: &Strides,
        first: usize,
        channels: usize,
        pool: &Pool,
        f: impl Fn(i64, (i64, i64), (i64, i64)) + Sync,
    ) {
        let row = self.extents.first().map_or(1, |&e| e as usize);
        let rows: usize = self.extents.iter().skip(1).map(|&e| e as usize).product();
        if row * rows * channels == 0 {
            return;
        }
        let steps = [&self.strides, &theirs.dims].map(|s| s.first().copied().unwrap_or(0));
        // Lists are one long row.
        let piece = (GRAIN / channels).clamp(1, row);
        let per_row = row.div_ceil(piece);
        let (pieces, some) = (rows * per_row, (GRAIN / (piece * channels)).max(1));
        pool.for_each(pieces.div_ceil(some) as i32, |task| {
            for p in task as usize * some..pieces.min((task as usize + 1) * some) {
                let (r, from) = (p / per_row, p % per_row * piece);
                let n = piece.min(row - from) as i64;
                let [own, other] = [(&self.strides, steps[0]), (&theirs.dims, steps[1])]
                    .map(|(strides, step)| self.start(r, strides) + from as i64 * step);
                for c in 0..channels as i64 {
                    let own = own + (first as i64 + c) * self.channel_step;
                    f(n, (own, steps[0]), (other + c * theirs.channel, steps[1]));
                }
            }
        });
    }

    /// Returns where a row begins under some strides.
    fn start(&self, r: usize, strides: &[i64]) -> i64 {
        let (mut rest, mut start) = (r, 0);
        for (&e, &s) in self.extents.iter().zip(strides).skip(1) {
            start += (rest % e as usize) as i64 * s;
            rest /= e as usize;
        }
        start
    }

    /// Calls `f(index in the row, offset from the origin)` for every value of row `r` in C order.
    fn for_each_value(&self, r: usize, mut f: impl FnMut(usize, i64)) {
        let start = self.start(r, &self.strides);
        let n = self.extents.first().map_or(1, |&e| e as usize);
        let step = self.strides.first().copied().unwrap_or(0);
        for x in 0..n {
            for c in 0..self.channels {
                f(x * self.channels + c, start + x as i64 * step + c as i64 * self.channel_step);
            }
        }
    }
}
