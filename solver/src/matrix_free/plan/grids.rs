//! The hierarchies of a plan: their sizes, and A on a level.

use crate::matrix_free::plan::Plan;
use crate::matrix_free::preconditioner::hierarchy::pattern::PART;
use crate::matrix_free::preconditioner::hierarchy::shape::{Of, coordinates_of, number_of};
use crate::matrix_free::vectors::{Over, VectorId, What};
use crate::problem::report::Grids;
use sumsq_codegen::runtime::Buffer;
use sumsq_energy::model::SpaceId;

impl Plan {
    /// The hierarchies, as reports have them.
    pub(crate) fn hierarchies(&self) -> Vec<Grids> {
        let grids = |(&space, &coarsest): (&SpaceId, &u8)| {
            let extents = |level: u8| -> Vec<i32> {
                let a = self.matrix(space, level, 0).map(|a| a.spec().extents.clone());
                a.unwrap_or_default()
            };
            let own = |id: &VectorId| {
                id.over == Over::Space(space) && matches!(id.what, What::M { field, .. } if field > 0)
            };
            let bytes = self.vectors.iter().filter(|(id, _)| own(id));
            let elements = |level| extents(level).iter().map(|&n| n as usize).product::<usize>() as f64;
            let entries = |level| {
                let of = self.k.space_of_unknowns(space).hierarchy.as_ref();
                of.map_or(0, |of| of.pattern(level).full().len()) as f64
            };
            let all: f64 = (0..=coarsest).map(|level| elements(level) * entries(level)).sum();
            Grids {
                space: self.k.energy.space_name(space),
                levels: (0..=coarsest).map(extents).collect(),
                bytes: bytes.map(|(_, held)| self.table.buffer(held.buffer).bytes() as u64).sum(),
                operator_complexity: all / (elements(0) * entries(0)),
            }
        };
        let grids = self.coarsest.iter().map(grids);
        grids
            .chain(self.aggregates.iter().map(|(&space, of)| of.report(self.k.energy.space_name(space))))
            .collect()
    }

    /// A part of A on a level, of the first preconditioner that has it.
    fn matrix(&self, space: SpaceId, level: u8, part: usize) -> Option<&Buffer> {
        let field = self.k.space_of_unknowns(space).hierarchy.as_ref()?.field(Of::Matrix(part), level);
        let of = |(id, _): &(&VectorId, _)| {
            let own = matches!(id.what, What::M { field: own, .. } if own == field);
            own && id.over == Over::Space(space) && id.level == level
        };
        let (_, held) = self.vectors.iter().find(of)?;
        Some(self.table.buffer(held.buffer))
    }

    /// The entries of A on a level: see [`Problem::level`](crate::Problem::level).
    pub(crate) fn level(&self, space: SpaceId, level: u8) -> Option<Vec<(usize, usize, f64)>> {
        if let Some(of) = self.aggregates.get(&space) {
            return of.level(usize::from(level));
        }
        if self.coarsest.get(&space).is_none_or(|coarsest| level > *coarsest) {
            return None;
        }
        let a = |part| self.matrix(space, level, part);
        let own = self.k.space_of_unknowns(space);
        let of = own.hierarchy.as_ref()?;
        let pattern = of.pattern(level);
        let extents = &a(0)?.spec().extents;
        let mut all = vec![];
        for element in 0..extents.iter().product::<i32>() {
            let at = coordinates_of(element, extents);
            for (channel, entry) in pattern.entries().iter().enumerate() {
                let there: Vec<i32> = at.iter().zip(&entry.offset).map(|(x, o)| x + o).collect();
                let value = a(channel / PART)?.get::<f64>(&at, channel % PART);
                let (Some(column), Some(value)) = (number_of(&there, extents), value) else { continue };
                let (i, j) =
                    (element as usize * own.components + entry.row, column * own.components + entry.column);
                all.push((i, j, value));
                if i != j {
                    all.push((j, i, value));
                }
            }
        }
        Some(all)
    }
}
