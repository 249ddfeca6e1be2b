//! The host's steps of a program: what preconditioners leave to it.

use crate::matrix_free::domain::sizes::Sizes;
use crate::matrix_free::outline::Outline;
use crate::matrix_free::plan::build::Held;
use crate::matrix_free::preconditioner::aggregates::finest::Finest;
use crate::matrix_free::preconditioner::aggregates::hierarchy::{Hierarchy, Levels};
use crate::matrix_free::preconditioner::aggregates::level::News;
use crate::matrix_free::preconditioner::aggregates::numbers::Source;
use crate::matrix_free::preconditioner::aggregates::sources::Sources;
use crate::matrix_free::preconditioner::hierarchy::coarsest;
use crate::matrix_free::preconditioner::hierarchy::shape::Of;
use crate::matrix_free::preconditioner::kinds::aggregation::{FIELD_CORRECTION, FIELD_DAMPING, FIELD_WEIGHT};
use crate::matrix_free::skeleton::packed;
use crate::matrix_free::stages::HostStep;
use crate::matrix_free::vectors::{Extents, VectorId, What};
use crate::problem::data::ProblemData;
use std::collections::BTreeMap;
use sumsq_codegen::ScalarType;
use sumsq_codegen::program::Table;
use sumsq_codegen::runtime::{Buffer, BufferError, Pool};
use sumsq_energy::model::SpaceId;

/// The hierarchy of aggregates of a space, and what has changed since its levels were made.
pub(super) struct Aggregates {
    pub levels: Box<dyn Levels>,
    news: News,
}

/// Everything that the host's steps work on, but for the table.
pub(super) struct Host<'a> {
    pub k: &'a Outline,
    pub vectors: &'a BTreeMap<VectorId, Held>,
    pub coarsest: &'a BTreeMap<SpaceId, u8>,
    pub aggregates: &'a mut BTreeMap<SpaceId, Aggregates>,
    pub pool: &'a Pool,
}

/// The hierarchies of aggregates of a problem, without numbers.
pub(super) fn aggregates(
    k: &Outline,
    sizes: &Sizes,
    data: &ProblemData<'_>,
) -> BTreeMap<SpaceId, Aggregates> {
    let of = |(space, sources): (SpaceId, &Sources)| {
        let graphs = sources.pairs.iter().map(|pairs| pairs.graph.index());
        let graphs: Vec<_> = graphs.map(|g| (&k.energy.graphs[g], &data.graphs()[g])).collect();
        let finest = Finest::new(sources, sizes.extents(Extents::Space(space)), &graphs);
        let levels: Box<dyn Levels> = match k.linear {
            ScalarType::F32 => Box::new(Hierarchy::<f32>::new(sources.clone(), finest)),
            _ => Box::new(Hierarchy::<f64>::new(sources.clone(), finest)),
        };
        (space, Aggregates { levels, news: News::Everything })
    };
    k.spaces.iter().filter_map(|s| Some((s.id, s.aggregates.as_ref()?))).map(of).collect()
}

impl Host<'_> {
    /// Does a step.
    pub fn run(&mut self, step: HostStep, table: &Table) -> Result<(), BufferError> {
        match step {
            HostStep::Invert(kind, space) => self.invert(kind, space, table),
            HostStep::Renew(_, space) => {
                self.aggregates.get_mut(&space).into_iter().for_each(|of| of.news = News::Everything);
                Ok(())
            }
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
        let c = space.components;
        let mut kept = vec![None; packed(c, 0)];
        let entries = (0..c).flat_map(|i| (0..=i).map(move |j| (i, j)));
        entries.for_each(|(i, j)| kept[packed(i, j)] = space.kept_at(i, j));
        let held = |of: VectorId| self.vectors.contains_key(&of).then(|| self.buffer(table, of));
        let pairs = sources.pairs.iter().map(|pairs| {
            let domain = sumsq_energy::model::Domain::Graph(pairs.graph);
            self.buffer(table, What::Couplings.of(domain))
        });
        let source = Source {
            blocks: self.buffer(table, What::GradientAndBlocks.of(id)),
            kept,
            damping: self.buffer(table, What::M { kind, field: FIELD_DAMPING }.of(id)),
            stencil: if sources.stencil.is_empty() { None } else { held(What::Couplings.of(id)) },
            pairs: pairs.collect(),
            x: self.buffer(table, What::X.of(id)),
            given: held(What::NearNull.of(id)),
        };
        let weight = self.buffer(table, What::M { kind, field: FIELD_WEIGHT }.of(id));
        let Some(of) = self.aggregates.get_mut(&id) else { return Ok(()) };
        let w = of.levels.set_up(self.pool, of.news, &source)?;
        of.news = News::Diagonal;
        weight.copy_from(&[w])
    }

    fn correct(&mut self, kind: u8, id: SpaceId, table: &Table) -> Result<(), BufferError> {
        let components = self.k.space_of_unknowns(id).components;
        let r = self.buffer(table, What::DR.of(id));
        let to = self.buffer(table, What::M { kind, field: FIELD_CORRECTION }.of(id));
        let Some(of) = self.aggregates.get_mut(&id) else { return Ok(()) };
        of.levels.correct(self.pool, (r, components), to)
    }

    fn buffer<'t>(&self, table: &'t Table, id: VectorId) -> &'t Buffer {
        table.buffer(self.vectors[&id].buffer)
    }
}
