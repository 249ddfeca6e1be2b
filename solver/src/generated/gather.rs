//! Graph gathers: sums over the hyperedges at a vertex (design B4).
//!
//! The hyperedges at the vertices of one slot are laid out as *rows* of at most 64 incidences: a vertex of degree 0 has none, one of
//! degree 100,000 has many. Rows are sorted by length and packed in blocks of [`LANES`], columns contiguous per
//! lane. `part` computes one sum per row, over (lane, block); the vertex adds up its rows in order. See [`super::incidence`] for the lists.

use super::{LANES, Skeleton, Space, fields::all, fields::list, incidence::ROW, invariant};
use sumsq_codegen::{Expr, Func, Input, LoopLevel, Memory, Pipeline, RDom, ScalarType, Schedule, Tail, Var};
use sumsq_energy::dag::ExprId;
use sumsq_energy::emit::{Place, names};
use sumsq_energy::model::{GraphId, SpaceId};

/// Prefix of the lists of a slot: `r0s1`.
pub fn rows(g: GraphId, slot: u16) -> String {
    format!("r{}s{slot}", g.0)
}

/// Prefix of the list that holds, beside every entry of the rows of `slot`, the element at vertex `other`: `r0s1.v0`.
pub fn listed(g: GraphId, slot: u16, other: u16) -> String {
    format!("{}.v{other}", rows(g, slot))
}

/// The hyperedges of the rows of a slot; in range by construction.
pub fn edges(g: GraphId, slot: u16) -> Input {
    let mut edges = list(format!("{}.edge", rows(g, slot)), &[ScalarType::I32]);
    edges.value_range = Some((0.into(), super::fields::edge_count(g) - 1));
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

/// Adds Func `name` = per row the sum of the contributions.
pub fn parts(k: &Skeleton, p: &mut Pipeline, s: &mut Schedule, name: &str, of: Parts) -> Func {
    let Parts { graph, slot, contributions, ty, direction } = of;
    let prefix = rows(graph, slot);
    let space = k.energy.graphs[graph.index()].vertices[slot as usize].space;
    let ranged = |suffix: &str, to: Expr| {
        let mut i = list(format!("{prefix}.{suffix}"), &[ScalarType::I32]);
        i.value_range = Some((0.into(), to));
        i
    };
    let block = p.input(ranged("block", count(&prefix, "entries")));
    let length = p.input(ranged("length", Expr::from(ROW as i32)));
    let edges = edges(graph, slot);
    let own = p.input(k.vertex_input(format!("{prefix}.own"), space));

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
        let space = vertices[usize::from(v)].space;
        let (list, at) =
            if v == slot { (own.name.to_string(), &row[0]) } else { (listed(graph, slot, v), &entry) };
        (v, names::listed_coordinates(&list, k.energy.spaces[space.index()].len(), space, at))
    });
    let place =
        Place::Edge { graph, edge: edges.at(std::slice::from_ref(&entry), 0), known: known.collect() };
    let terms = k.emit(contributions, ty, place, direction);
    let stand_in = |i: usize, e: &Expr| Expr::call(own_name.as_str(), e.ty().scalar, at.to_vec(), i);
    let invariant::Split { invariants, terms } = invariant::split(&terms, &rdom.var(0), stand_in);
    let level = LoopLevel::pure(name, "laneo");
    if !invariants.is_empty() {
        p.func(Func::new(own_name.as_str(), &vars, invariants));
        s.func(&own_name).compute_at(level.clone()).store_in(Memory::Register);
        s.func(&own_name).vectorize("lane", LANES, Tail::Predicate);
    }
    let sum = p.func(Func::sum(format!("{name}_sum"), &vars, rdom, terms));
    let part = p.func(Func::new(name, &vars, all(&sum, &at)));
    s.func(name).compute_root().relaxed().split("block", "strip", "b", 16, Tail::Predicate);
    s.func(name).parallel("strip").vectorize("lane", LANES, Tail::Predicate);
    s.func(name).reorder(&["lanei", "laneo", "b", "strip"]);
    s.func(&sum.name).compute_at(level).store_in(Memory::Register);
    s.func(&sum.name).vectorize("lane", LANES, Tail::Predicate);
    s.update(&sum.name, 0).vectorize("lane", LANES, Tail::Predicate);
    part
}

/// The sum over all rows of the vertices at `vars`: Func `name` = `start` + sum of `parts` of every slot into `space`.
/// Inlined if no graph reads the space.
pub fn gather(
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
            let mut i = Input::new(format!("{prefix}.{suffix}"), &[ScalarType::I32], space.dims);
            i.halo[0] = LANES as u32;
            i.value_range = Some((0.into(), rows.clone()));
            i
        };
        let (first, number) = (p.input(field("first")), p.input(field("count")));
        let mut of = list(format!("{prefix}.of"), &[ScalarType::I32]);
        of.value_range = Some((0.into(), rows - 1));
        of.trusted = true;
        let of = p.input(of);
        let rdom = RDom::new([(format!("i{}", f.updates.len()), Expr::from(0), number.at(&at, 0))]);
        let row = of.at(&[first.at(&at, 0) + rdom.var(0)], 0);
        let row = [&row % LANES as i64, &row / LANES as i64];
        let values = (0..f.values.len()).map(|c| f.at(&at, c) + part.at(&row, c)).collect();
        f = f.update(at.clone(), values, rdom);
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
