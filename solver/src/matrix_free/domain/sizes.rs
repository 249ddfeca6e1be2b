//! Everything that follows from sizes: extents, strip heights, parameters of generated pipelines.

use crate::error::SolveError;
use crate::matrix_free::domain::incidence::{Incidence, Overlong, Packing};
use crate::matrix_free::domain::mask;
use crate::matrix_free::outline::Outline;
use crate::matrix_free::params::Size;
use crate::matrix_free::schedule::grain;
use crate::matrix_free::schedule::{level_strip_height, strip_height};
use crate::matrix_free::skeleton::Space;
use crate::matrix_free::vectors::Extents;
use crate::problem::data::ProblemData;
use crate::problem::grids;
use rustc_hash::FxHashMap;
use sumsq_energy::emit::component_count;
use sumsq_energy::model::{Domain, GraphId, SpaceId};

/// The sizes of a problem: those of its spaces and graphs, and the lists behind its gathers.
pub struct Sizes<'a> {
    k: &'a Outline,
    data: &'a ProblemData<'a>,
    /// The lists of every vertex that is gathered at.
    pub incidences: FxHashMap<(GraphId, u16), Incidence>,
}

impl<'a> Sizes<'a> {
    /// Builds the lists.
    ///
    /// # Errors
    /// Lists that 32-bit indices do not reach. All other counts were bound below 2^31.
    pub fn new(k: &'a Outline, data: &'a ProblemData) -> Result<Sizes<'a>, SolveError> {
        let vertices = k.spaces.iter().flat_map(|s| s.slots.iter().map(move |&at| (s, at)));
        let lists = vertices.map(|(space, (g, v))| {
            let elements = data.elements(&k.energy, space.id);
            let packing = if space.by_element { Packing::ByElement } else { Packing::ByLength };
            let meets = &data.graphs()[g.index()].vertices[usize::from(v)];
            let lists = Incidence::build(elements, meets, k.target.lanes as usize, packing);
            let of = || k.energy.graphs[g.index()].slot_name(v);
            let overlong = |Overlong { what, count }| SolveError::Lists { of: of(), what, count };
            Ok(((g, v), lists.map_err(overlong)?))
        });
        Ok(Sizes { k, data, incidences: lists.collect::<Result<_, SolveError>>()? })
    }

    /// Extents of the points of a vector.
    pub fn extents(&self, points: Extents) -> Vec<i32> {
        let space = |s: SpaceId| -> Vec<i32> {
            self.data.extents(&self.k.energy, s).into_iter().map(|n| n as i32).collect()
        };
        let lists = |g: GraphId, v: u16| &self.incidences[&(g, v)];
        match points {
            Extents::Scalar => vec![],
            Extents::Space(s) => space(s),
            Extents::Level { space: s, level, .. } => {
                let all = self.levels(s);
                all[usize::from(level).min(all.len() - 1)].iter().map(|&n| n as i32).collect()
            }
            Extents::LevelVectors { space, level, reach } => {
                let elements = self.extents(Extents::Level { space, level, reach });
                mask::vector_extents(&elements, grain(&self.k.target))
            }
            Extents::Pairs { space: s, level, reach, pairs } => {
                let elements = self.extents(Extents::Level { space: s, level, reach });
                elements.into_iter().chain([i32::from(pairs)]).collect()
            }
            Extents::Coarsest(s) => {
                let all = self.levels(s);
                let coarsest = &all[all.len() - 1];
                let scalars = coarsest.iter().product::<usize>() * component_count(&self.k.energy, s);
                coarsest.iter().copied().chain([scalars]).map(|n| n as i32).collect()
            }
            Extents::Vectors(s) => mask::vector_extents(&space(s), grain(&self.k.target)),
            Extents::Edges(g) => vec![self.data.graphs()[g.index()].edges as i32],
            Extents::Blocks(g, v) => vec![lists(g, v).block.len() as i32],
            Extents::Rows(g, v) => vec![lists(g, v).rows() as i32],
            Extents::LanesByBlocks(g, v) => {
                vec![self.k.target.lanes, self.summed(lists(g, v)) / self.k.target.lanes]
            }
            Extents::Entries(g, v) => vec![lists(g, v).edge.len() as i32],
            Extents::RowsByElement(g, v) => vec![lists(g, v).of.len() as i32],
        }
    }

    /// Rows that are summed on their own: in whole blocks, at least one.
    fn summed(&self, lists: &Incidence) -> i32 {
        (lists.summed as i32).max(self.k.target.lanes)
    }

    /// Tells whether elements that add up their hyperedges have several rows at some vertex.
    pub fn has_several_rows(&self) -> bool {
        let spaces = self.k.spaces.iter().filter(|s| s.by_element);
        spaces.flat_map(|s| &s.slots).any(|at| self.incidences[at].summed > 0)
    }

    /// The extents of every level of a space, that of the problem first; it alone if the space has no hierarchy.
    pub fn levels(&self, space: SpaceId) -> Vec<Vec<usize>> {
        let extents = self.data.extents(&self.k.energy, space);
        let has_hierarchy = |s: &Space| s.id == space && s.hierarchy.is_some();
        match self.k.spaces.iter().any(has_hierarchy) {
            true => grids::levels(&extents, component_count(&self.k.energy, space)),
            false => vec![extents],
        }
    }

    /// The parameters that follow from sizes and the machine.
    pub fn parameters(&self) -> Vec<(Size, i32)> {
        let mut out = vec![(Size::Streaming, i32::from(self.vector_bytes() > self.k.target.caches.last))];
        for s in (0..self.k.energy.spaces.len() as u32).map(SpaceId) {
            let extents = self.data.extents(&self.k.energy, s);
            out.extend(extents.iter().enumerate().map(|(d, &n)| (Size::Extent(s, d), n as i32)));
            out.push((Size::Strip(Domain::Space(s)), self.strip(&extents) as i32));
            for (level, extents) in (0..).zip(self.levels(s)).skip(1) {
                let along = |(d, n)| (Size::LevelExtent(s, level, d), n as i32);
                out.push((Size::LevelStrip(s, level), self.level_strip(s, level, &extents) as i32));
                out.extend(extents.into_iter().enumerate().map(along));
            }
        }
        for (g, graph) in (0..).map(GraphId).zip(self.data.graphs()) {
            out.push((Size::Edges(g), graph.edges as i32));
            out.push((Size::Strip(Domain::Graph(g)), self.strip(&[graph.edges]) as i32));
        }
        for (&(g, v), lists) in &self.incidences {
            out.push((Size::Rows(g, v), lists.rows() as i32));
            out.push((Size::Summed(g, v), self.summed(lists)));
            out.push((Size::Entries(g, v), lists.edge.len() as i32));
        }
        out
    }

    /// Bytes that a sweep of PCG moves: a bound on what it would keep in the cache.
    fn vector_bytes(&self) -> usize {
        let energy = &self.k.energy;
        let spaces = (0..energy.spaces.len() as u32).map(SpaceId);
        let scalars = spaces.map(|s| component_count(energy, s) * self.data.elements(energy, s));
        4 * scalars.sum::<usize>() * self.k.linear.bytes()
    }

    fn strip(&self, extents: &[usize]) -> usize {
        strip_height(extents, &self.k.target)
    }

    fn level_strip(&self, space: SpaceId, level: u8, extents: &[usize]) -> usize {
        let own = self.k.spaces.iter().find(|s| s.id == space).and_then(|s| s.hierarchy.as_ref());
        let numbers = own.map_or(1, |of| of.coarse.ways().len() * of.pairs.list().len());
        let rolls = level == 1 && own.is_some_and(|of| of.rolls);
        level_strip_height(extents, numbers, rolls, &self.k.target)
    }
}
