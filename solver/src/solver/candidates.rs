//! The preconditioners with levels that `auto` may go on with, and their costs on paper: bytes that memory moves, and what else takes time in
//! terms of them. The constants are from set-ups and iterations of demos of some 17,000 to 260,000 elements.

use crate::matrix_free::preconditioner::kinds;
use crate::outer::auto::{Auto, Candidate};
use crate::problem::data::ProblemData;
use crate::problem::options::Preconditioner;
use crate::problem::{aggregates, grids};
use sumsq_energy::derive::count_ops;
use sumsq_energy::emit::component_count;
use sumsq_energy::model::{Domain, Energy, SpaceId};

/// The number of elements of a space.
type Elements<'a> = &'a dyn Fn(SpaceId) -> f64;

/// Scalars that an iteration reads and writes per unknown: p, d and r, D.
const VECTORS: f64 = 9.0;

/// Bytes that memory moves in the time that one of these takes. They come from caches, mostly.
const PER_SCALAR: f64 = 1.0;

/// Likewise for an operation of a residual, which an iteration does about three times: J p, J^T of that, and again.
const PER_OPERATION: f64 = 0.15;

/// The same on graphs, which gather and scatter.
const PER_GRAPH_OPERATION: f64 = 1.0;

/// While multigrid makes its levels, for every entry of A on the finest one.
const PER_ENTRY: f64 = 15.0;

/// While aggregation does, for every block of A, and for every product of an entry of it with one of T.
const PER_BLOCK: f64 = 2800.0;
const PER_PRODUCT: f64 = 27.0;

/// The factor of both on grids, most of which are larger than caches.
const ON_GRIDS: f64 = 1.4;

/// The factor of both on graphs where an iteration moves more than caches hold: it waits for memory then, and set-ups do not.
const BEYOND_CACHES: f64 = 0.4;
const CACHES: f64 = 20e6;

/// Iterations with multigrid, in iterations without.
const GRID_ITERATION: f64 = 2.8;

/// Share of the set-up that an iteration with aggregation costs beside what it does without.
const AGGREGATE_CYCLE: f64 = 0.032;

/// Bytes that memory moves in the time that loading code of levels from where it is kept, and growing the plan by it, count for. They take up to
/// four times as long where a plan grows, nothing in later solves on it; to compile the code takes a second, once.
const COMPILATION: f64 = 0.15e9;

/// The course of `auto` as a solve begins. `elements`: those of a space that sweeps and levels go over.
pub(super) fn auto(energy: &Energy, data: &ProblemData<'_>, elements: Elements) -> Auto {
    let iteration = iteration(energy, data, elements).max(1.0);
    let compilation = COMPILATION / iteration;
    let candidate = |kind: Preconditioner| match kind {
        Preconditioner::Multigrid => {
            Candidate::new(kind, grid_setup(energy, elements) / iteration, GRID_ITERATION, compilation)
        }
        _ => {
            let setup = aggregate_setup(energy, data, iteration) / iteration;
            Candidate::new(kind, setup, 1.0 + AGGREGATE_CYCLE * setup, compilation)
        }
    };
    Auto::new(kinds::with_levels(energy).into_iter().map(candidate).collect())
}

/// Bytes of an iteration without levels.
fn iteration(energy: &Energy, data: &ProblemData<'_>, elements: Elements) -> f64 {
    let of_space = |space: SpaceId| {
        let c = component_count(energy, space) as f64;
        elements(space) * PER_SCALAR * (VECTORS * c + c * (c + 1.0) / 2.0)
    };
    // Functions and quotients of what does not change with d are kept.
    let residuals = energy.residuals.iter().map(|r| {
        let count = count_ops(&energy.dag, &[r.value]);
        let operations = f64::from(count.add + count.mul + count.select + count.compare + count.loads);
        match r.domain {
            Domain::Space(space) => elements(space) * PER_OPERATION * operations,
            Domain::Graph(graph) => {
                data.graphs()[graph.index()].edges as f64 * PER_GRAPH_OPERATION * operations
            }
        }
    });
    spaces(energy).map(of_space).sum::<f64>() + residuals.sum::<f64>()
}

fn grid_setup(energy: &Energy, elements: Elements) -> f64 {
    let of = |space: SpaceId| {
        let (dims, c) = (energy.spaces[space.index()].len() as u32, component_count(energy, space));
        elements(space) * (3usize.pow(dims).div_ceil(2) * c * c) as f64 * PER_ENTRY
    };
    grids::served(energy).into_iter().map(of).sum()
}

fn aggregate_setup(energy: &Energy, data: &ProblemData<'_>, iteration: f64) -> f64 {
    let on_graphs = if iteration > CACHES { BEYOND_CACHES } else { 1.0 };
    let of = |space: SpaceId| {
        let (dims, c) = (energy.spaces[space.index()].len() as u32, component_count(energy, space));
        let elements = data.elements(energy, space) as f64;
        let on_grid = grids::coupled(energy).contains(&space);
        let (of_grid, share) = if on_grid { (2.0 * f64::from(dims), ON_GRIDS) } else { (0.0, on_graphs) };
        // Of hyperedges, as meshes have them: each couples two elements, one way.
        let graphs = energy.graphs.iter().zip(data.graphs());
        let own = graphs.filter(|(g, _)| g.vertices.iter().any(|v| v.space == space));
        let edges = own.map(|(_, of)| of.edges as f64).sum::<f64>();
        let blocks = elements * (1.0 + of_grid) + edges;
        let products = (c * c * aggregates::candidates(energy, space).len()) as f64;
        share * blocks * (PER_BLOCK + PER_PRODUCT * products)
    };
    aggregates::served(energy).into_iter().map(of).sum()
}

fn spaces(energy: &Energy) -> impl Iterator<Item = SpaceId> {
    (0..energy.spaces.len() as u32).map(SpaceId).filter(|&s| component_count(energy, s) > 0)
}
