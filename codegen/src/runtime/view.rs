//! Buffers over memory that somebody else owns.

use super::buffer::Buffer;
use super::cuda::{Device, DeviceMemory};
use super::element::Element;
use super::error::BufferError;
use super::memory::Memory;
use super::side::{Access, Block};
use super::spec::BufferSpec;
use crate::func::Layout;
use crate::types::ScalarType;
use std::marker::PhantomData;
use std::ops::Deref;

/// One dimension of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dimension {
    /// First coordinate.
    pub min: i32,
    /// Number of coordinates.
    pub extent: i32,
    /// Distance of neighbours in elements; may be negative.
    pub stride: i64,
}

impl Dimension {
    /// Coordinates `[min, min + extent)`, `stride` elements apart.
    pub fn new(min: i32, extent: i32, stride: i64) -> Dimension {
        Dimension { min, extent, stride }
    }

    /// Dense dimensions from 0 on, the first the fastest.
    pub fn dense(extents: &[i32]) -> Vec<Dimension> {
        let mut stride = 1;
        let mut one = |&extent: &i32| {
            let d = Dimension::new(0, extent, stride);
            stride *= extent.max(0) as i64;
            d
        };
        extents.iter().map(&mut one).collect()
    }
}

/// A one-channel buffer of layout [`Layout::Strided`] over a borrowed slice: bound as an input or output, it is read and written in
/// place, at its coordinates and nowhere else. The element of least address is the slice's first.
pub struct View<'m> {
    buffer: Buffer,
    memory: PhantomData<&'m mut [u8]>,
}

impl Deref for View<'_> {
    type Target = Buffer;
    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

impl<'m> View<'m> {
    /// A view to read from and write to. No two coordinates may share an element.
    pub fn new<T: Element>(memory: &'m mut [T], dims: &[Dimension]) -> Result<View<'m>, BufferError> {
        if let Some(dim) = overlapping(dims) {
            return Err(BufferError::Overlap { dim });
        }
        View::over(memory.as_mut_ptr(), memory.len(), dims, true)
    }

    /// A view to read from. Several coordinates may share an element (a stride of 0 repeats a row, for instance).
    pub fn reading<T: Element>(memory: &'m [T], dims: &[Dimension]) -> Result<View<'m>, BufferError> {
        View::over(memory.as_ptr().cast_mut(), memory.len(), dims, false)
    }

    fn over<T: Element>(
        base: *mut T,
        len: usize,
        dims: &[Dimension],
        writable: bool,
    ) -> Result<View<'m>, BufferError> {
        let (spec, origin) = strided(T::TYPE, len, dims)?;
        let memory = Memory::borrowed(base.cast(), len * size_of::<T>(), writable);
        let strides = dims.iter().map(|d| d.stride).collect();
        Ok(View { buffer: Buffer::over(memory, spec, strides, 0, origin), memory: PhantomData })
    }

    /// A view of a block of a device, which has so many elements and holds all their values: the host's memory stays untouched until it asks
    /// for them.
    pub(super) fn of_block(
        block: Box<dyn Block>,
        ty: ScalarType,
        len: usize,
        dims: &[Dimension],
    ) -> Result<View<'m>, BufferError> {
        let (spec, origin) = strided(ty, len, dims)?;
        let none = || BufferError::Memory { ty, extents: spec.extents.clone() };
        let strides = dims.iter().map(|d| d.stride).collect();
        let bytes = len.checked_mul(ty.bytes()).ok_or_else(none)?;
        let buffer = Buffer::of_block(block, spec.clone(), strides, 0, origin, bytes).ok_or_else(none)?;
        Ok(View { buffer, memory: PhantomData })
    }
}

impl Buffer {
    /// Some channels on a device, for what that is asked for next: dimensions are the channels, then those of the domain. What is written to the
    /// view, where `access` says so, is written to the buffer.
    ///
    /// # Errors
    /// As of [`Buffer::on_device`]; channels that the buffer does not have.
    pub fn channels_on(
        &self,
        device: &Device,
        first: usize,
        channels: usize,
        access: Access,
    ) -> Result<View<'_>, BufferError> {
        let (spec, step) = (self.spec(), self.channel_step());
        let counts: Vec<i32> = std::iter::once(channels as i32).chain(spec.extents.iter().copied()).collect();
        if first + channels > spec.channels {
            let (extents, channels) = (spec.extents.clone(), spec.channels);
            return Err(BufferError::Channels { came: counts, extents, channels });
        }
        let strides = std::iter::once(step).chain(self.strides().iter().copied());
        let dims: Vec<Dimension> =
            counts.iter().zip(strides).map(|(&n, s)| Dimension::new(0, n, s)).collect();
        let reach: i64 = dims.iter().map(|d| (d.extent as i64 - 1).max(0) * d.stride).sum();
        let size = spec.ty.bytes();
        let address = self.on_device(device, 0, access)? + first as u64 * step as u64 * size as u64;
        let memory = DeviceMemory::lent(device, address, (reach as usize + 1) * size);
        View::of_block(Box::new(memory), spec.ty, reach as usize + 1, &dims)
    }
}

/// The shape of a view over so many elements, and the place of the origin among them.
fn strided(ty: ScalarType, len: usize, dims: &[Dimension]) -> Result<(BufferSpec, i64), BufferError> {
    let spec = BufferSpec {
        layout: Layout::Strided,
        ..BufferSpec::new(ty, &dims.iter().map(|d| d.extent).collect::<Vec<_>>())
    };
    let spec = spec.starting_at(&dims.iter().map(|d| d.min).collect::<Vec<_>>());
    let impossible = |d: &&Dimension| d.extent < 0 || d.min.checked_add(d.extent).is_none();
    if let Some(&Dimension { min, extent, .. }) = dims.iter().find(impossible) {
        return Err(BufferError::Coordinates { min, extent });
    }
    let (mut before, mut behind) = (0i64, 0i64);
    for d in dims.iter().filter(|_| !spec.is_empty()) {
        let reach = d.stride.checked_mul(d.extent as i64 - 1).ok_or(BufferError::Strides)?;
        let end = if reach < 0 { &mut before } else { &mut behind };
        *end = end.checked_add(reach).ok_or(BufferError::Strides)?;
    }
    let needed = behind.checked_sub(before).and_then(|n| n.checked_add(1)).ok_or(BufferError::Strides)?;
    if !spec.is_empty() && needed as u64 > len as u64 {
        return Err(BufferError::Slice { needed, came: len });
    }
    Ok((spec, -before))
}

/// A dimension of which neighbours may lie among the elements of faster ones.
fn overlapping(dims: &[Dimension]) -> Option<usize> {
    let mut order: Vec<usize> = (0..dims.len()).filter(|&d| dims[d].extent > 1).collect();
    order.sort_by_key(|&d| dims[d].stride.unsigned_abs());
    let mut reach = 0u128;
    for d in order {
        let stride = dims[d].stride.unsigned_abs() as u128;
        if stride <= reach {
            return Some(d);
        }
        reach += stride * (dims[d].extent as u128 - 1);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(d: &[(i32, i32, i64)]) -> Vec<Dimension> {
        d.iter().map(|&(min, extent, stride)| Dimension::new(min, extent, stride)).collect()
    }

    #[test]
    fn coordinates_are_places_in_the_slice() {
        let mut memory: Vec<i32> = (0..24).collect();
        {
            // Upside down, every second column.
            let v = View::new(&mut memory, &dims(&[(10, 3, 2), (-1, 4, -6)])).unwrap();
            assert_eq!(v.get::<i32>(&[10, -1], 0), Some(18));
            assert_eq!(v.get::<i32>(&[12, 2], 0), Some(4));
            assert_eq!(v.get::<i32>(&[9, 0], 0), None);
            assert!(v.set(&[11, 1], 0, 77));
            assert_eq!(v.to_vec::<i32>()[..4], [18, 20, 22, 12]);
        }
        assert_eq!(memory[8], 77);
    }

    #[test]
    fn reading_never_writes() {
        let memory = [1u8, 2, 3];
        let v = View::reading(&memory, &dims(&[(0, 3, 1), (0, 5, 0)])).unwrap();
        assert_eq!(v.get::<u8>(&[2, 4], 0), Some(3));
        assert!(!v.set(&[0, 0], 0, 9u8));
        v.fill(9u8);
        v.clear();
        assert_eq!(v.copy_from(&[0u8; 15]), Err(BufferError::ReadOnly));
        assert_eq!(memory, [1, 2, 3]);
    }

    #[test]
    fn what_is_refused() {
        let mut m = vec![0f32; 10];
        let mut text = |d: &[(i32, i32, i64)]| {
            View::new(&mut m, &dims(d)).err().map_or(String::new(), |e| e.to_string())
        };
        assert_eq!(text(&[(0, 4, 1), (0, 3, 4)]), "12 elements are needed, the slice has 10");
        assert_eq!(text(&[(0, 4, 1), (0, 3, 3)]), "coordinates of dimension 1 share elements with others");
        assert_eq!(text(&[(0, 2, 0)]), "coordinates of dimension 0 share elements with others");
        assert_eq!(text(&[(i32::MAX, 2, 1)]), "coordinates from 2147483647 on, 2 of them, do not fit in i32");
        assert_eq!(text(&[(0, 2, i64::MAX), (0, 3, i64::MIN)]), "strides are too large");
        assert_eq!(text(&[(0, 0, 1), (0, 1000, 1)]), "", "nothing needs nothing");
    }
}
