//! Shapes of buffers.

use crate::func::Layout;
use crate::types::ScalarType;

/// Type, shape and layout of a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BufferSpec {
    /// Type of every value.
    pub ty: ScalarType,
    /// Values per element.
    pub channels: usize,
    /// Layout of the elements.
    pub layout: Layout,
    /// First coordinate of the domain per dimension, fastest first.
    pub min: Vec<i32>,
    /// Size of the domain per dimension, fastest first; empty for a scalar.
    pub extents: Vec<i32>,
    /// Readable elements on both sides, per dimension.
    pub halo: Vec<u32>,
}

impl BufferSpec {
    /// Planar, one channel, no halo, from 0 on.
    pub fn new(ty: ScalarType, extents: &[i32]) -> BufferSpec {
        let (halo, min) = (vec![0; extents.len()], vec![0; extents.len()]);
        BufferSpec { ty, channels: 1, layout: Layout::Planar, min, extents: extents.to_vec(), halo }
    }
    /// With other first coordinates, one per dimension.
    pub fn starting_at(mut self, min: &[i32]) -> BufferSpec {
        self.min = min.to_vec();
        self
    }
    /// With so many values per element.
    pub fn channels(mut self, channels: usize) -> BufferSpec {
        self.channels = channels;
        self
    }
    /// With another layout.
    pub fn layout(mut self, layout: Layout) -> BufferSpec {
        self.layout = layout;
        self
    }
    /// With a halo, one width per dimension.
    pub fn halo(mut self, halo: &[u32]) -> BufferSpec {
        self.halo = halo.to_vec();
        self
    }
    /// Number of elements of the domain.
    pub fn len(&self) -> usize {
        self.extents.iter().map(|&e| e.max(0) as usize).product()
    }
    /// True if the domain has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
