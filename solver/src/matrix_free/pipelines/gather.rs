//! Graph gathers: sums over the hyperedges at a vertex.
//!
//! The hyperedges at the vertices of one slot are laid out as *rows* of at most 64 incidences: a vertex of degree 0 has none, one of
//! degree 100,000 has many. Rows are sorted by length and packed in blocks of [`LANES`], columns contiguous per
//! lane. `part` computes one sum per row, over (lane, block); the vertex adds up its rows in order. See [`crate::matrix_free::domain::incidence`] for the lists.
//!
//! Neighbours that hyperedges reach through computed arrays have no rows of their own: those of their vertex hold a sum for each.

use crate::matrix_free::domain::fields::{all, list};
use crate::matrix_free::domain::incidence::ROW;
use crate::matrix_free::pipelines::invariant;
use crate::matrix_free::schedule::reduce::Points;
use crate::matrix_free::{LANES, Skeleton, Space};
use rustc_hash::FxHashMap;
use sumsq_codegen::{
    Expr, Func, Input, LoopLevel, Memory, Name, Pipeline, RDom, ScalarType, Schedule, Tail, Var,
};
use sumsq_energy::dag::{Access, Dag, ExprId, Node, Source};
use sumsq_energy::derive::{Kind, Routines, Site};
use sumsq_energy::emit::{Place, names};
use sumsq_energy::model::{Domain, Energy, GraphId, SpaceId};

/// Blocks of rows that one thread takes at a time.
const BLOCKS: i32 = 16;

/// Prefix of the lists of a slot: `r0s1`.
pub fn rows(g: GraphId, slot: u16) -> String {
    format!("r{}s{slot}", g.0)
}

/// The elements of the rows of a slot: `r0s1.own`.
fn own(g: GraphId, slot: u16) -> String {
    format!("{}.own", rows(g, slot))
}

/// Prefix of the list that holds, beside every entry of the rows of `slot`, the element at vertex `other`: `r0s1.v0`.
pub fn listed(g: GraphId, slot: u16, other: u16) -> String {
    format!("{}.v{other}", rows(g, slot))
}

/// Name of the list that holds, beside every entry of the rows of `slot`, what is stored once per linearisation and the sums read
/// (see `Skeleton::beside`): `r0s1.h`.
pub fn stored(g: GraphId, slot: u16) -> String {
    format!("{}.h", rows(g, slot))
}

/// The hyperedges of the rows of a slot; in range by construction.
pub fn edges(g: GraphId, slot: u16) -> Input {
    let mut edges = list(format!("{}.edge", rows(g, slot)), &[ScalarType::I32]);
    edges.value_range = Some((0.into(), crate::matrix_free::domain::fields::edge_count(g) - 1));
    edges.trusted = true;
    edges
}

/// How many `what` (rows, entries) the lists of a slot hold, an i32 parameter.
fn count(prefix: &str, what: &str) -> Expr {
    Expr::param(format!("{prefix}.{what}"), ScalarType::I32)
}

/// A direction as the gather reads it.
pub type Direction<'a> = &'a dyn Fn(SpaceId, usize, &[Expr]) -> Expr;

/// Sums over the hyperedges of a graph at its vertices of one slot.
pub struct Parts<'a> {
    pub graph: GraphId,
    pub slot: u16,
    /// What every hyperedge contributes, a component each.
    pub contributions: &'a [ExprId],
    pub ty: ScalarType,
    pub direction: Direction<'a>,
}

/// Of every vertex, the channels that J^T J p reads of what is stored over the hyperedges, ascending.
pub fn beside(energy: &Energy, r: &Routines) -> FxHashMap<(GraphId, u16), Vec<usize>> {
    let mut roots: FxHashMap<(GraphId, u16), Vec<ExprId>> = FxHashMap::default();
    for r in r.of(Kind::JtJp) {
        let Site::Slot(graph, slot) = r.site else { continue };
        let vertex = energy.graphs[graph.index()].vertex_of(slot).0;
        roots.entry((graph, vertex)).or_default().extend(&r.roots);
    }
    roots.into_iter().map(|(at, roots)| (at, channels(&r.dag, at.0, &roots))).collect()
}

/// The channels of what is stored over the hyperedges of `graph` that `roots` read, ascending.
pub fn channels(dag: &Dag, graph: GraphId, roots: &[ExprId]) -> Vec<usize> {
    let read = dag.reachable(roots).into_iter().filter_map(|n| match dag.node(n) {
        Node::Access(Access { source: Source::Hoisted(d), channel, .. }) if *d == Domain::Graph(graph) => {
            Some(usize::from(*channel))
        }
        _ => None,
    });
    let read: std::collections::BTreeSet<usize> = read.collect();
    read.into_iter().collect()
}

/// The Funcs of the sums over the rows of a slot, not yet scheduled.
pub struct Rows {
    /// Per row, over (lane, block), the sum of the contributions.
    pub part: Func,
    sum: Name,
    own: Option<Name>,
}

impl Rows {
    /// Stored at root, blocks in parallel.
    pub fn at_root(self, s: &mut Schedule) -> Func {
        let name = &self.part.name;
        s.func(name).compute_root().relaxed().split("block", "strip", "b", BLOCKS, Tail::Predicate);
        s.func(name).parallel("strip").vectorize("lane", LANES, Tail::Predicate);
        s.func(name).reorder(&["lanei", "laneo", "b", "strip"]);
        self.sums_at(s, LoopLevel::pure(name, "laneo"));
        self.part
    }

    /// Stored block by block at `level`, where something else uses them, too.
    pub fn within(self, s: &mut Schedule, level: LoopLevel) {
        let part = s.func(&self.part.name).relaxed().compute_at(level.clone());
        part.vectorize("lane", LANES, Tail::Predicate).sink();
        self.sums_at(s, level);
    }

    fn sums_at(&self, s: &mut Schedule, level: LoopLevel) {
        for name in self.own.iter().chain([&self.sum]) {
            s.func(name).compute_at(level.clone()).store_in(Memory::Register);
            s.func(name).vectorize("lane", LANES, Tail::Predicate);
        }
        s.update(&self.sum, 0).vectorize("lane", LANES, Tail::Predicate);
    }
}

/// All rows of a slot, blocks last, in strips as [`Rows::at_root`] has them.
pub fn row_points(graph: GraphId, slot: u16) -> Points {
    let blocks = count(&rows(graph, slot), "rows") / LANES as i64;
    let rdom = RDom::new([("rlane", Expr::from(0), Expr::from(LANES)), ("rblock", Expr::from(0), blocks)]);
    let coordinates = vec![rdom.var(0), rdom.var(1)];
    Points { rdom, coordinates, strip: Expr::from(BLOCKS) }
}

/// The element of the row at (lane, block).
pub fn element(k: &Skeleton, (graph, slot): (GraphId, u16), at: &[Expr]) -> Vec<Expr> {
    let space = k.slot_space(graph, slot);
    let row = &at[1] * LANES as i64 + &at[0];
    names::listed_coordinates(&own(graph, slot), k.energy.spaces[space.index()].len(), space, &row)
}

/// Adds Func `name` = per row the sum of the contributions.
pub fn parts(k: &Skeleton, p: &mut Pipeline, name: &str, of: Parts) -> Rows {
    let Parts { graph, slot, contributions, ty, direction } = of;
    let prefix = rows(graph, slot);
    let space = k.slot_space(graph, slot);
    let ranged = |suffix: &str, to: Expr| {
        let mut i = list(format!("{prefix}.{suffix}"), &[ScalarType::I32]);
        i.value_range = Some((0.into(), to));
        i
    };
    let block = p.input(ranged("block", count(&prefix, "entries")));
    let length = p.input(ranged("length", Expr::from(ROW as i32)));
    let edges = edges(graph, slot);
    p.input(k.vertex_input(own(graph, slot), space));

    let (lane, b) = (Var::new("lane"), Var::new("block"));
    let (vars, at) = ([lane.clone(), b.clone()], [lane.expr(), b.expr()]);
    let row = [b.expr() * LANES as i64 + lane.expr()];
    let rdom = RDom::new([("i", Expr::from(0), length.at(&row, 0))]);
    // What the terms read of the vertex itself is computed once before the loop over its incidences.
    let own_name = format!("{name}_own");
    // One after the other in the lanes.
    let entry = block.at(&[b.expr()], 0) + rdom.var(0) * LANES as i64 + lane.expr();
    let vertices = &k.energy.graphs[graph.index()].vertices;
    let known = (0..vertices.len() as u16).map(|v| {
        if v == slot {
            return (v, element(k, (graph, slot), &at));
        }
        let space = vertices[usize::from(v)].space;
        let dims = k.energy.spaces[space.index()].len();
        (v, names::listed_coordinates(&listed(graph, slot, v), dims, space, &entry))
    });
    let place =
        Place::Edge { graph, edge: edges.at(std::slice::from_ref(&entry), 0), known: known.collect() };
    let beside = &k.beside[&(graph, slot)];
    let stored = |domain: Domain, channel: usize| {
        let at = beside.iter().position(|&c| c == channel).filter(|_| domain == Domain::Graph(graph))?;
        Some(Expr::call(
            crate::matrix_free::pipelines::gather::stored(graph, slot),
            ty,
            vec![entry.clone()],
            at,
        ))
    };
    let terms = k.emit_reading(contributions, ty, place, direction, &stored);
    let stand_in = |i: usize, e: &Expr| Expr::call(own_name.as_str(), e.ty().scalar, at.to_vec(), i);
    let invariant::Split { invariants, terms } = invariant::split(&terms, &rdom.var(0), stand_in);
    let own = (!invariants.is_empty()).then(|| p.func(Func::new(own_name.as_str(), &vars, invariants)).name);
    let sum = p.func(Func::sum(format!("{name}_sum"), &vars, rdom, terms));
    let part = p.func(Func::new(name, &vars, all(&sum, &at)));
    Rows { part, sum: sum.name, own }
}

/// What hyperedges give the elements at `vars`: Func `name` = `start` + the sum of `parts` over all rows, of every graph vertex that points
/// into `space`, at the elements that the ones at `vars` are or are neighbours of; outside the domain `count` is 0.
/// Inlined if no graph reads the space.
pub fn gather(
    k: &Skeleton,
    p: &mut Pipeline,
    name: &str,
    space: &Space,
    vars: &[Var],
    start: Vec<Expr>,
    parts: &[Func],
) -> Func {
    let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
    let mut f = Func::new(name, vars, start);
    for (&(graph, slot), part) in space.slots.iter().zip(parts) {
        let prefix = rows(graph, slot);
        let rows = count(&prefix, "rows");
        let field = |suffix: &str| {
            let mut i = k.field(format!("{prefix}.{suffix}"), &[ScalarType::I32], space.id);
            i.value_range = Some((0.into(), rows.clone()));
            i
        };
        let (first, number) = (p.input(field("first")), p.input(field("count")));
        let mut of = list(format!("{prefix}.of"), &[ScalarType::I32]);
        of.value_range = Some((0.into(), rows - 1));
        of.trusted = true;
        let of = p.input(of);
        for (i, place) in k.places(graph, slot).enumerate() {
            let vertex = k.vertex_at(graph, place, &at);
            let n = number.at(&vertex, 0);
            let rdom = RDom::new([(format!("i{}", f.updates.len()), Expr::from(0), n)]);
            let row = of.at(&[first.at(&vertex, 0) + rdom.var(0)], 0);
            let row = [&row % LANES as i64, &row / LANES as i64];
            let n = f.values.len();
            let values = (0..n).map(|c| f.at(&at, c) + part.at(&row, i * n + c)).collect();
            f = f.update(at.clone(), values, rdom);
        }
    }
    p.func(f)
}

/// Schedules a gather Func to be computed one vector at a time at `level`, over the variables `vars`.
pub fn at_vector(s: &mut Schedule, f: &Func, level: LoopLevel) {
    if f.updates.is_empty() {
        s.func(&f.name).inline();
        return;
    }
    let x = f.vars[0].0.clone();
    s.func(&f.name).compute_at(level).store_in(Memory::Register).vectorize(&x, LANES, Tail::Predicate);
    for u in 0..f.updates.len() {
        s.update(&f.name, u).vectorize(&x, LANES, Tail::Predicate);
    }
}
