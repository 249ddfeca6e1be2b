//! Numbers in the memory of a GPU that the caller owns: read in place where they lie as a buffer of the plan would, else copied there by a
//! kernel; unknowns are always copied, so that a solve that fails leaves the caller's as they were.

use crate::error::SolveError;
use crate::matrix_free::plan::Plan;
use crate::matrix_free::plan::on_device::Exported;
use crate::matrix_free::vectors::{VectorId, What};
use crate::problem::data::{DataError, Numbers, ProblemData};
use crate::problem::report::Lent;
use sumsq_codegen::runtime::cuda::Stream;
use sumsq_codegen::runtime::{Buffer, Dimension, View};
use sumsq_energy::emit::component_index;
use sumsq_energy::model::{Field, UnknownId};

impl Plan {
    /// Uses of the caller's memory on the GPU so far.
    pub(crate) fn lent(&self) -> Lent {
        self.device
            .as_ref()
            .map_or_else(Lent::default, |on| Lent { in_place: on.borrowed.len(), copies: on.copies.get() })
    }

    /// Times that the host has waited for the GPU since this was opened.
    pub(crate) fn waits(&self) -> u64 {
        self.device.as_ref().map_or(0, |on| on.device.counts().waits)
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
        let held = self.vectors[&id].buffer;
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
            let own = Buffer::new(spec).map_err(|e| SolveError::of_buffer(&id.to_string(), e))?;
            self.table.replace(held, own)?;
            on.borrowed.remove(&id);
        }
        Ok(false)
    }

    /// Lets all that the caller asks his stream for next come behind all that was done with these numbers.
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

    /// A copy of an unknown as it stands, in memory of the GPU of its own; a stream of the caller's comes behind it. `None` on the CPU.
    pub(crate) fn export(&self, unknown: usize, stream: Stream) -> Result<Option<Exported>, SolveError> {
        let Some(on) = &self.device else { return Ok(None) };
        let field = &self.k.energy.unknowns[unknown];
        let (x, channels) = (self.essential(What::X.of(field.space)), usize::from(field.channels));
        let (ty, extents) = (x.spec().ty, &x.spec().extents);
        let counts: Vec<i32> = std::iter::once(channels as i32).chain(extents.iter().copied()).collect();
        let device = on.transfers.device()?;
        let memory = device.allocate(x.spec().len() * channels * ty.bytes())?;
        let to = memory.view(ty, &Dimension::dense(&counts));
        let to = to.map_err(|source| SolveError::of_buffer(&field.name, source))?;
        let first = component_index(&self.k.energy, UnknownId(unknown as u32), 0);
        on.transfers.read(x, first, &to, &self.pool)?;
        drop(to);
        device.ahead_of(stream)?;
        let shaped = if self.k.energy.is_global(field.space) { &[][..] } else { extents };
        let shape =
            shaped.iter().rev().map(|&e| e as usize).chain((channels > 1).then_some(channels)).collect();
        Ok(Some(Exported { memory, ty, shape }))
    }
}
