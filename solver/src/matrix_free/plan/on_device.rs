//! Things that a plan for a GPU has besides: copies, what kernels read of arrays, and which of these are memory of the caller.

use crate::matrix_free::outline::Pipeline;
use crate::matrix_free::plan::build::Builder;
use crate::matrix_free::plan::transfer::Transfers;
use crate::matrix_free::vectors::{VectorId, What};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::Scalar;
use sumsq_codegen::runtime::cuda::{Device, DeviceArray, DeviceMemory};
use sumsq_codegen::{Name, ScalarType};

/// Things that a plan for a GPU has besides.
pub(super) struct OnDevice {
    pub transfers: Arc<Transfers>,
    pub device: Device,
    /// Per array, the coordinates that kernels read, from a first to a last one in every dim; none where that is not known.
    pub reads: BTreeMap<VectorId, Option<Region>>,
    /// Arrays whose buffers are memory of the caller.
    pub borrowed: BTreeMap<VectorId, DeviceArray>,
    /// Copies between memory of the caller and buffers.
    pub copies: Cell<u64>,
}

impl OnDevice {
    /// Nothing is borrowed yet.
    pub(super) fn new(transfers: Arc<Transfers>, device: Device, code: &[Compiled], b: &Builder) -> OnDevice {
        let mut reads = BTreeMap::new();
        for (code, of) in code.iter().zip(&b.k.pipelines) {
            let regions = regions(code, of, b);
            let slots = code.signature().buffers.iter().zip(&of.vectors);
            let arrays = slots.map(|(slot, &number)| (slot, b.k.vectors[number].0));
            for (slot, id) in arrays.filter(|(_, id)| matches!(id.what, What::Array | What::LinearArray)) {
                let read = regions.as_ref().and_then(|all| all.get(&slot.name).cloned());
                let both = match reads.remove(&id) {
                    None => read,
                    Some(known) => Option::zip(known, read).map(|(a, b)| hull(&a, &b)),
                };
                reads.insert(id, both);
            }
        }
        OnDevice { transfers, device, reads, borrowed: BTreeMap::new(), copies: Cell::new(0) }
    }

    /// Counts a copy between memory of the caller and a buffer.
    pub(super) fn count_copy(&self) {
        self.copies.set(self.copies.get() + 1);
    }
}

/// An unknown in memory of a GPU of its own, in C order.
#[derive(Debug)]
pub struct Exported {
    /// Its numbers.
    pub memory: DeviceMemory,
    /// Their type.
    pub ty: ScalarType,
    /// Extents, slowest first, then the channels if there are several.
    pub shape: Vec<usize>,
}

/// First and last coordinate in every dim.
pub type Region = Vec<(i64, i64)>;

/// The least region that holds both.
fn hull(a: &Region, b: &Region) -> Region {
    a.iter().zip(b).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))).collect()
}

/// The regions that a pipeline reads of its inputs, for the sizes of a plan; `None` where these do not decide.
fn regions(code: &Compiled, of: &Pipeline, b: &Builder) -> Option<FxHashMap<Name, Region>> {
    let signature = code.signature();
    let extents = signature.buffers.iter().zip(&of.vectors);
    let extents = extents
        .map(|(slot, &number)| (&*slot.name, b.table.buffer(b.buffers[number]).spec().extents.clone()));
    let extents: Vec<(&str, Vec<i32>)> = extents.collect();
    let extents: Vec<(&str, &[i32])> = extents.iter().map(|(name, e)| (*name, &e[..])).collect();
    let params = signature.params.iter().zip(&of.params);
    let params = params.map(|((name, &ty), &param)| (&**name, b.table.param(b.params[&(param, ty)])));
    let params: Vec<(&str, Scalar)> = params.collect();
    let regions = code.required_regions(&extents, &params).ok()?;
    Some(regions.into_iter().collect())
}
