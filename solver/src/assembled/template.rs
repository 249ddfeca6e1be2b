//! Residual templates over their domains.

use crate::assembled::domain::{Instance, Point};
use crate::assembled::eval;
use crate::assembled::eval::Workspace;
use crate::assembled::tape::Tape;
use sumsq_energy::dag::Offset;
use sumsq_energy::model::Domain;

/// A residual template over its domain.
pub(super) struct Template {
    pub(super) tape: Tape,
    pub(super) domain: Domain,
    /// Box of the boundary rule.
    pub(super) guard: Option<(Offset, Offset)>,
    pub(super) group: usize,
    /// The robust loss it is under.
    pub(super) block: Option<usize>,
    /// The instances that count.
    pub(super) counted: Vec<u32>,
}

impl Template {
    /// Tells whether the boundary rule makes the residual 0 here.
    pub(super) fn is_cut(&self, at: &Instance<'_>) -> bool {
        self.guard.as_ref().is_some_and(|(lo, hi)| !at.box_inside(lo, hi))
    }

    pub(super) fn value(&self, at: &Instance<'_>, point: &Point<'_>, work: &mut Workspace) -> f64 {
        if self.is_cut(at) { 0.0 } else { eval::value(&self.tape, at, point, work) }
    }

    /// Adds one row of J to `values`, which belong to the ascending `columns`; returns the residual. Reads that coincide (two
    /// vertices at one element) add up.
    pub(super) fn row(
        &self,
        at: &Instance<'_>,
        point: &Point<'_>,
        columns: &[u32],
        values: &mut [f64],
        work: &mut Workspace,
    ) -> f64 {
        if self.is_cut(at) {
            return 0.0;
        }
        let residual = eval::value_and_partials(&self.tape, at, point, work);
        for (slot, partial) in self.tape.result_slots().iter().zip(work.result_partials(&self.tape)) {
            let column = at.column(self.tape.slot_read(*slot));
            if let Some(k) = column.and_then(|c| columns.binary_search(&c).ok()) {
                values[k] += partial;
            }
        }
        residual
    }
}
