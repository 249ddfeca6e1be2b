//! The hierarchies of a plan: their sizes, and A on a level.

use crate::matrix_free::params::{Number, Param};
use crate::matrix_free::plan::Plan;
use crate::matrix_free::preconditioner::hierarchy::pattern::{PART, is_own};
use crate::matrix_free::preconditioner::hierarchy::shape::{Of, coordinates_of, number_of};
use crate::matrix_free::skeleton::Space;
use crate::matrix_free::vectors::{Over, VectorId, What};
use crate::problem::report::Grids;
use sumsq_codegen::runtime::{Buffer, Scalar};
use sumsq_energy::model::SpaceId;

impl Plan {
    /// The hierarchies, as reports have them.
    pub(crate) fn hierarchies(&self) -> Vec<Grids> {
        let grids = self.coarsest.iter().filter_map(|(&space, &coarsest)| self.grids(space, coarsest));
        let aggregates = self.aggregates.iter();
        grids
            .chain(aggregates.map(|(&space, of)| of.levels.report(self.k.energy.space_name(space))))
            .collect()
    }

    /// The spaces that have none and keep block Jacobi, where others have one.
    pub(crate) fn without_levels(&self) -> Vec<String> {
        let has = |s: &&Space| self.coarsest.contains_key(&s.id) || self.aggregates.contains_key(&s.id);
        let (with, without): (Vec<&Space>, Vec<&Space>) = self.k.spaces.iter().partition(has);
        let names = without.into_iter().map(|s| self.k.energy.space_name(s.id));
        if with.is_empty() { vec![] } else { names.collect() }
    }

    /// The hierarchy of a space down to its coarsest level.
    fn grids(&self, space: SpaceId, coarsest: u8) -> Option<Grids> {
        let of = self.k.space_of_unknowns(space).hierarchy.as_ref()?;
        let finest = self.table.buffer(self.vectors.get(&What::X.of(space))?.buffer).spec().extents.clone();
        let extents = |level| match level {
            0 => Some(finest.clone()),
            _ => Some(self.matrix(space, level, 0)?.spec().extents.split_last()?.1.to_vec()),
        };
        let bytes = |level| {
            let own = |id: &VectorId| {
                let field = matches!(id.what, What::M { field, .. } if field > 0);
                field && id.over == Over::Space(space) && id.level == level
            };
            let own = self.vectors.iter().filter(|(id, _)| own(id));
            own.map(|(_, held)| self.table.buffer(held.buffer).bytes() as u64).sum::<u64>()
        };
        let levels: Vec<Vec<i32>> = (0..=coarsest).map(extents).collect::<Option<_>>()?;
        let entries = |level| of.pattern(level).full().len() * of.pairs.list().len();
        let stencils: Vec<usize> = (0..=coarsest).map(entries).collect();
        let level_bytes: Vec<u64> = (0..=coarsest).map(bytes).collect();
        let elements = levels.iter().map(|extents| extents.iter().map(|&n| f64::from(n)).product::<f64>());
        let all: Vec<f64> = elements.zip(&stencils).map(|(n, &entries)| n * entries as f64).collect();
        Some(Grids {
            space: self.k.energy.space_name(space),
            bytes: level_bytes.iter().sum(),
            operator_complexity: all.iter().sum::<f64>() / all[0],
            levels,
            stencils,
            level_bytes,
        })
    }

    /// A part of A on a level where it is stored, of the first preconditioner that has it.
    fn matrix(&self, space: SpaceId, level: u8, part: usize) -> Option<&Buffer> {
        let field = self.k.space_of_unknowns(space).hierarchy.as_ref()?.field(Of::Matrix(part), level);
        let of = |(id, _): &(&VectorId, _)| {
            let own = matches!(id.what, What::M { field: own, .. } if own == field);
            own && id.over == Over::Space(space) && id.level == level
        };
        let (_, held) = self.vectors.iter().find(of)?;
        Some(self.table.buffer(held.buffer))
    }

    /// The near-null candidates of a space: see [`Problem::candidates`](crate::Problem::candidates).
    pub(crate) fn candidates(&self, space: SpaceId) -> Vec<Vec<f64>> {
        self.aggregates.get(&space).map(|of| of.levels.candidates()).unwrap_or_default()
    }

    /// The entries of A on a level: see [`Problem::level`](crate::Problem::level).
    pub(crate) fn level(&self, space: SpaceId, level: u8) -> Option<Vec<(usize, usize, f64)>> {
        if let Some(of) = self.aggregates.get(&space) {
            return of.levels.level(usize::from(level));
        }
        if self.coarsest.get(&space).is_none_or(|coarsest| level > *coarsest) {
            return None;
        }
        let own = self.k.space_of_unknowns(space);
        let of = own.hierarchy.as_ref()?;
        let (_, extents) = self.matrix(space, level, 0)?.spec().extents.split_last()?;
        let scale = self.params.get(&(Param::Number(Number::DampingScale), self.k.linear));
        let scale = match scale.map(|&id| self.table.param(id)) {
            Some(Scalar::F32(scale)) => f64::from(scale),
            Some(Scalar::F64(scale)) => scale,
            _ => 1.0,
        };
        let mut all = vec![];
        for element in 0..extents.iter().product::<i32>() {
            let at = coordinates_of(element, extents);
            for (number, way) in of.pattern(level).ways().iter().enumerate() {
                let there: Vec<i32> = at.iter().zip(way).map(|(x, o)| x + o).collect();
                let Some(column) = number_of(&there, extents) else { continue };
                for (pair, &(r, c)) in
                    of.pairs.list().iter().enumerate().filter(|(_, (r, c))| !is_own(way) || r >= c)
                {
                    let value = |pair: usize| {
                        let at: Vec<i32> = at.iter().copied().chain([pair as i32]).collect();
                        self.matrix(space, level, number / PART)?.get::<f64>(&at, number % PART)
                    };
                    let mut a = value(pair)?;
                    if r == c {
                        a += scale * value(of.pairs.list().len() + c)?;
                    }
                    let (i, j) = (element as usize * own.components + r, column * own.components + c);
                    all.push((i, j, a));
                    if i != j {
                        all.push((j, i, a));
                    }
                }
            }
        }
        Some(all)
    }
}
