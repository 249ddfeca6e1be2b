//! Numbers in the memory of a GPU that the caller owns: read in place where they lie as a buffer of the plan would, else copied there by a
//! kernel; unknowns are always copied, so that a solve that fails leaves the caller's as they were.

use crate::error::SolveError;
use crate::matrix_free::plan::Plan;
use crate::matrix_free::plan::build::Builder;
use crate::matrix_free::plan::compile::{Module, Modules};
use crate::matrix_free::plan::transfer::Transfers;
use crate::matrix_free::vectors::{VectorId, What};
use crate::problem::data::{DataError, Numbers, ProblemData};
use crate::problem::report::Lent;
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::Name;
use sumsq_codegen::runtime::cuda::DeviceArray;
use sumsq_codegen::runtime::{Buffer, BufferError, Dimension, Scalar, View};
use sumsq_energy::emit::component_index;
use sumsq_energy::model::{Field, UnknownId};

/// What a plan for a GPU has besides.
pub(super) struct OnDevice {
    pub transfers: Arc<Transfers>,
    /// Per array, the coordinates that kernels read, from a first to a last one in every dim; none where that is not known.
    reads: BTreeMap<VectorId, Option<Region>>,
    /// Arrays whose buffers are memory of the caller.
    borrowed: BTreeMap<VectorId, DeviceArray>,
    /// Copies between memory of the caller and buffers.
    copies: Cell<u64>,
}

impl OnDevice {
    pub(super) fn new(transfers: Arc<Transfers>, modules: &Modules, b: &Builder) -> OnDevice {
        let mut reads = BTreeMap::new();
        for m in modules.all() {
            let regions = regions(m, b);
            let arrays = m
                .code
                .signature()
                .buffers
                .iter()
                .map(|slot| (slot, b.k.in_role(m.vectors[&slot.name], m.role)));
            for (slot, id) in arrays.filter(|(_, id)| matches!(id.what, What::Array | What::LinearArray)) {
                let read = regions.as_ref().and_then(|all| all.get(&slot.name).cloned());
                let both = match reads.remove(&id) {
                    None => read,
                    Some(known) => Option::zip(known, read).map(|(a, b)| hull(&a, &b)),
                };
                reads.insert(id, both);
            }
        }
        OnDevice { transfers, reads, borrowed: BTreeMap::new(), copies: Cell::new(0) }
    }

    pub(super) fn count_copy(&self) {
        self.copies.set(self.copies.get() + 1);
    }
}

/// First and last coordinate in every dim.
type Region = Vec<(i64, i64)>;

/// The least region that holds both.
fn hull(a: &Region, b: &Region) -> Region {
    a.iter().zip(b).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))).collect()
}

/// The regions that a pipeline reads of its inputs, for the sizes of a plan; `None` where these do not decide.
fn regions(m: &Module, b: &Builder) -> Option<FxHashMap<Name, Region>> {
    let signature = m.code.signature();
    let extents = signature.buffers.iter().map(|slot| {
        let id = b.k.in_role(m.vectors[&slot.name], m.role);
        (&*slot.name, b.table.buffer(b.vectors[&id].buffer).spec().extents.clone())
    });
    let extents: Vec<(&str, Vec<i32>)> = extents.collect();
    let extents: Vec<(&str, &[i32])> = extents.iter().map(|(name, e)| (*name, &e[..])).collect();
    let params =
        signature.params.iter().map(|(name, &ty)| (&**name, b.table.param(b.params[&(m.params[name], ty)])));
    let params: Vec<(&str, Scalar)> = params.collect();
    let regions = m.code.required_regions(&extents, &params).ok()?;
    Some(regions.into_iter().collect())
}

impl Plan {
    /// How the caller's memory on the GPU was used so far.
    pub(crate) fn lent(&self) -> Lent {
        self.device
            .as_ref()
            .map_or_else(Lent::default, |on| Lent { in_place: on.borrowed.len(), copies: on.copies.get() })
    }

    /// An error for numbers on another GPU than the plan's. A plan for the CPU copies them to the host.
    pub(super) fn check_device(&self, numbers: &Numbers<'_>, field: &Field) -> Result<(), SolveError> {
        let (Some(on), Some(array)) = (&self.device, numbers.device()) else { return Ok(()) };
        let other = |source| DataError::Pointer { name: field.name.clone(), source };
        Ok(array.check_on(on.transfers.ordinal()).map_err(other)?)
    }

    /// Makes memory of the caller the buffer of an array, if it can be; else the array has a buffer of the plan's. `from` is what there is to be
    /// read, its channels first.
    pub(super) fn borrow(
        &mut self,
        id: VectorId,
        numbers: &Numbers<'_>,
        from: &View<'_>,
    ) -> Result<bool, SolveError> {
        let Some(on) = &mut self.device else { return Ok(false) };
        let (held, of_buffer) =
            (self.vectors[&id].buffer, |source| SolveError::of_buffer(&id.to_string(), source));
        let spec = self.table.buffer(held).spec().clone();
        if let (Some(array), Some(Some(read))) = (numbers.device(), on.reads.get(&id)) {
            let dims = from.spec().extents.iter().zip(from.strides());
            let dims: Vec<Dimension> = dims.map(|(&e, &stride)| Dimension::new(0, e, stride)).collect();
            if let Some(buffer) = array.in_place_of(&on.transfers.device()?, &spec, &dims, read) {
                self.table.replace(held, buffer)?;
                on.borrowed.insert(id, array.clone());
                return Ok(true);
            }
        }
        if on.borrowed.contains_key(&id) {
            let own = Buffer::new(spec).map_err(|e: BufferError| of_buffer(e))?;
            self.table.replace(held, own)?;
            on.borrowed.remove(&id);
        }
        Ok(false)
    }

    /// What the caller asks his stream for next comes behind all that was done with these numbers.
    pub(super) fn release(&self, numbers: &Numbers<'_>) -> Result<(), SolveError> {
        match (&self.device, numbers.device()) {
            (Some(_), Some(array)) => Ok(array.release()?),
            _ => Ok(()),
        }
    }

    /// Copies x to an unknown in the memory of the GPU.
    pub(super) fn hand_out(&self, unknown: usize, data: &ProblemData<'_>) -> Result<(), SolveError> {
        let (numbers, field) = (&data.unknown_numbers()[unknown], &self.k.energy.unknowns[unknown]);
        let Some(on) = &self.device else { return Ok(()) };
        let to = self.view(numbers, field, data)?;
        let first = component_index(&self.k.energy, UnknownId(unknown as u32), 0);
        on.transfers.read(self.essential(What::X.of(field.space)), first, &to, &self.pool)?;
        on.count_copy();
        self.release(numbers)
    }
}
