//! The host's steps of a program: what preconditioners leave to it.

use crate::matrix_free::domain::sizes::Sizes;
use crate::matrix_free::outline::Outline;
use crate::matrix_free::plan::build::Held;
use crate::matrix_free::preconditioner::aggregates::finest::{Finest, Numbers};
use crate::matrix_free::preconditioner::aggregates::hierarchy::Hierarchy;
use crate::matrix_free::preconditioner::aggregates::sources::Sources;
use crate::matrix_free::preconditioner::hierarchy::coarsest;
use crate::matrix_free::preconditioner::hierarchy::shape::Of;
use crate::matrix_free::preconditioner::kinds::aggregation::{FIELD_CORRECTION, FIELD_DAMPING, FIELD_WEIGHT};
use crate::matrix_free::skeleton::packed;
use crate::matrix_free::stages::HostStep;
use crate::matrix_free::vectors::{Extents, VectorId, What};
use crate::problem::aggregates::NOISE;
use crate::problem::data::ProblemData;
use std::collections::BTreeMap;
use sumsq_codegen::ScalarType;
use sumsq_codegen::program::Table;
use sumsq_codegen::runtime::{Buffer, BufferError, Pool};
use sumsq_energy::model::SpaceId;

/// As [`NOISE`], where A comes in float32.
const NOISE_IN_F32: f64 = 1e-6;

/// Everything that the host's steps work on, but for the table.
pub(super) struct Host<'a> {
    pub k: &'a Outline,
    pub vectors: &'a BTreeMap<VectorId, Held>,
    pub coarsest: &'a BTreeMap<SpaceId, u8>,
    pub aggregates: &'a mut BTreeMap<SpaceId, Hierarchy>,
    pub pool: &'a Pool,
}

/// The hierarchies of aggregates of a problem, without numbers.
pub(super) fn aggregates(k: &Outline, sizes: &Sizes, data: &ProblemData<'_>) -> BTreeMap<SpaceId, Hierarchy> {
    let of = |(space, sources): (SpaceId, &Sources)| {
        let graphs = sources.pairs.iter().map(|pairs| pairs.graph.index());
        let graphs: Vec<_> = graphs.map(|g| (&k.energy.graphs[g], &data.graphs()[g])).collect();
        let finest = Finest::new(sources, sizes.extents(Extents::Space(space)), &graphs);
        (space, Hierarchy::new(sources.clone(), finest, k.linear == ScalarType::F32))
    };
    k.spaces.iter().filter_map(|s| Some((s.id, s.aggregates.as_ref()?))).map(of).collect()
}

impl Host<'_> {
    /// Does a step.
    pub fn run(&mut self, step: HostStep, table: &Table) -> Result<(), BufferError> {
        match step {
            HostStep::Invert(kind, space) => self.invert(kind, space, table),
            HostStep::Aggregate(kind, space) => self.aggregate(kind, space, table),
            HostStep::Correct(kind, space) => self.correct(kind, space, table),
        }
    }

    fn invert(&self, kind: u8, id: SpaceId, table: &Table) -> Result<(), BufferError> {
        let space = self.k.space_of_unknowns(id);
        let Some(of) = &space.hierarchy else { return Ok(()) };
        let buffer = |what: Of, level| {
            let field = of.field(what, level);
            self.buffer(table, VectorId { level, ..What::M { kind, field }.of(id) })
        };
        let of_parts = |what: fn(usize) -> Of| -> Vec<&Buffer> {
            (0..of.coarse.parts().count()).map(|part| buffer(what(part), self.coarsest[&id])).collect()
        };
        let [diagonal, matrix] = [of_parts(Of::Diagonal), of_parts(Of::Matrix)];
        coarsest::invert(of, [&diagonal, &matrix], buffer(Of::Inverse, 0))
    }

    fn aggregate(&mut self, kind: u8, id: SpaceId, table: &Table) -> Result<(), BufferError> {
        let space = self.k.space_of_unknowns(id);
        let Some(sources) = &space.aggregates else { return Ok(()) };
        let all = |vector: VectorId| self.channels(table, vector, 0, None);
        let blocks = What::GradientAndBlocks.of(id);
        let kept = space.kept_entries().len();
        let stencil = if sources.stencil.is_empty() { vec![] } else { all(What::Couplings.of(id))? };
        let pairs = sources.pairs.iter().map(|pairs| {
            let domain = sumsq_energy::model::Domain::Graph(pairs.graph);
            all(What::Couplings.of(domain))
        });
        let c = space.components;
        let damping = What::M { kind, field: FIELD_DAMPING }.of(id);
        let active = self.channels(table, damping, c, None)?;
        let numbers = Numbers {
            blocks: self.channels(table, blocks, space.components, Some(kept))?,
            active: active.into_iter().map(|on| on != 0.0).collect(),
            damping: self.channels(table, damping, 0, Some(c))?,
            stencil,
            pairs: pairs.collect::<Result<_, _>>()?,
            x: all(What::X.of(id))?,
            given: match self.vectors.contains_key(&What::NearNull.of(id)) {
                true => all(What::NearNull.of(id))?,
                false => vec![],
            },
        };
        let entries = (0..c).flat_map(|i| (0..=i).map(move |j| (i, j)));
        let mut places = vec![None; packed(c, 0)];
        entries.for_each(|(i, j)| places[packed(i, j)] = space.kept_at(i, j));
        let f32 = self.buffer(table, blocks).spec().ty == ScalarType::F32;
        let weight = self.buffer(table, What::M { kind, field: FIELD_WEIGHT }.of(id));
        let Some(hierarchy) = self.aggregates.get_mut(&id) else { return Ok(()) };
        hierarchy.set_up(self.pool, &numbers, &places, if f32 { NOISE_IN_F32 } else { NOISE });
        weight.copy_from(&[hierarchy.weight()])
    }

    fn correct(&mut self, kind: u8, id: SpaceId, table: &Table) -> Result<(), BufferError> {
        let components = self.k.space_of_unknowns(id).components;
        let from = self.buffer(table, What::DR.of(id));
        let to = self.buffer(table, What::M { kind, field: FIELD_CORRECTION }.of(id));
        let Some(hierarchy) = self.aggregates.get_mut(&id) else { return Ok(()) };
        from.copy_channels_to(components, components, hierarchy.residual(), self.pool)?;
        let correction = hierarchy.correct(self.pool);
        to.generate(self.pool, |element, c| correction[element * components + c])
    }

    /// So many channels of a vector from one on, all of them where nothing is said: by element, channels innermost.
    fn channels(
        &self,
        table: &Table,
        id: VectorId,
        first: usize,
        count: Option<usize>,
    ) -> Result<Vec<f64>, BufferError> {
        let buffer = self.buffer(table, id);
        let count = count.unwrap_or(buffer.spec().channels - first);
        let mut values = vec![0.0; buffer.spec().len() * count];
        buffer.copy_channels_to(first, count, &mut values, self.pool)?;
        Ok(values)
    }

    fn buffer<'t>(&self, table: &'t Table, id: VectorId) -> &'t Buffer {
        table.buffer(self.vectors[&id].buffer)
    }
}
