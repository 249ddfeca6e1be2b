//! Symbolic expressions as engine expressions.
//!
//! [`Emitter`] turns DAG nodes into [`codegen`](sumsq_codegen) expressions at a [`Place`]: an element of an
//! index space, or a hyperedge. It knows the *naming* of the inputs that a generated pipeline reads ([`names`]) and
//! nothing of solvers or schedules.
//!
//! The order of terms and factors is chosen by what it takes in registers (`order.rs`, `live.rs`).
//!
//! Booleans stay booleans until a number is wanted. A `Select` becomes the engine's select, on values: nothing is ever
//! multiplied by a mask. Conditions on coordinates are marked likely, so that the interior of a domain runs without them.

mod live;
mod loss;
pub mod names;
mod order;

pub use live::{Pressure, pressure};
pub use loss::{LossAt, formula_loss, scaled_loss};

use crate::dag::{At, Compare, Dag, ExprId, Function, Node, Offset, Source};
use crate::derive::Routines;
use crate::model::{ArrayId, Domain, Energy, GraphId, SpaceId, UnknownId};
use order::Order;
use rustc_hash::{FxHashMap, FxHashSet};
use sumsq_codegen::{BinaryOp, Expr, ScalarType, Type, UnaryOp};

/// Place where an expression is evaluated.
#[derive(Clone, Debug)]
pub enum Place {
    /// At an element of an index space: one coordinate per dim, fastest first.
    Element(SpaceId, Vec<Expr>),
    /// At a hyperedge; `known` are slots whose coordinates are known without reading their index arrays.
    Edge {
        /// The graph.
        graph: GraphId,
        /// The hyperedge, i32.
        edge: Expr,
        /// Slots and their coordinates; those of neighbours follow from their vertices'.
        known: Vec<(u16, Vec<Expr>)>,
    },
}

/// Function that reads a field: given the source, the component within the field's tuple and coordinates.
pub type ReadField<'a> = &'a dyn Fn(Source, usize, &[Expr]) -> Expr;

/// Number of a scalar component within the tuple of its index space: every channel of every unknown of that space in
/// order of declaration.
pub fn component_index(energy: &Energy, unknown: UnknownId, channel: u16) -> usize {
    let space = energy.unknowns[unknown.index()].space;
    let before = energy.unknowns[..unknown.index()].iter().filter(|u| u.space == space);
    before.map(|u| u.channels as usize).sum::<usize>() + channel as usize
}

/// Number of scalar components of an index space.
pub fn component_count(energy: &Energy, space: SpaceId) -> usize {
    energy.unknowns.iter().filter(|u| u.space == space).map(|u| u.channels as usize).sum()
}

/// Returns what evaluating `roots` takes for an instance of `domain`, in the order in which they are emitted.
pub fn routine_pressure(energy: &Energy, routines: &Routines, domain: Domain, roots: &[ExprId]) -> Pressure {
    let place = match domain {
        Domain::Space(s) => {
            let coordinates = energy.spaces[s.index()].iter().enumerate();
            Place::Element(s, coordinates.map(|(d, _)| Expr::var(format!("x{d}"))).collect())
        }
        Domain::Graph(graph) => Place::Edge { graph, edge: Expr::var("e"), known: vec![] },
    };
    let ty = ScalarType::F32;
    let read = |source: Source, component: usize, coordinates: &[Expr]| {
        Expr::call(format!("{source:?}"), ty, coordinates.to_vec(), component)
    };
    pressure(&Emitter::new(energy, routines, ty, place, &read).numbers(roots))
}

/// Emits nodes of one DAG at one place, in one float type.
pub struct Emitter<'a> {
    energy: &'a Energy,
    dag: &'a Dag,
    ty: ScalarType,
    place: Place,
    read: ReadField<'a>,
    /// True if the order of operands is chosen.
    scheduled: bool,
    order: Order,
    memo: FxHashMap<ExprId, Expr>,
    /// Products whose denominator's reciprocal is taken instead.
    reciprocals: FxHashSet<ExprId>,
}

impl<'a> Emitter<'a> {
    /// An emitter of arithmetic in `ty`.
    pub fn new(
        energy: &'a Energy,
        routines: &'a Routines,
        ty: ScalarType,
        place: Place,
        read: ReadField<'a>,
    ) -> Emitter<'a> {
        let (dag, scheduled) = (&routines.dag, routines.scheduled);
        let (order, memo, reciprocals) = (Order::default(), FxHashMap::default(), FxHashSet::default());
        Emitter { energy, dag, ty, place, read, scheduled, order, memo, reciprocals }
    }

    /// The expressions of `roots` as numbers of the emitter's type; common parts are shared.
    pub fn numbers(mut self, roots: &[ExprId]) -> Vec<Expr> {
        if self.ty == ScalarType::F64 {
            self.reciprocals = reciprocals(self.dag, roots);
        }
        let mut best = self.emitted(roots);
        if self.scheduled {
            let mut least = pressure(&best);
            for order in Order::candidates(self.dag, roots) {
                self.order = order;
                let other = self.emitted(roots);
                let taken = pressure(&other);
                if taken < least {
                    (best, least) = (other, taken);
                }
            }
        }
        best
    }

    /// The roots in the order that is set.
    fn emitted(&mut self, roots: &[ExprId]) -> Vec<Expr> {
        self.memo.clear();
        self.prepare(roots);
        roots.iter().map(|&r| self.number(r)).collect()
    }

    /// Emits everything below `roots`, children first, without recursion.
    fn prepare(&mut self, roots: &[ExprId]) {
        for id in self.dag.reachable(roots) {
            if !self.memo.contains_key(&id) {
                let e = self.emit(id);
                self.memo.insert(id, e);
            }
        }
    }

    fn constant(&self, v: f64) -> Expr {
        Expr::float(self.ty, v)
    }

    fn number(&self, id: ExprId) -> Expr {
        let e = self.memo[&id].clone();
        if e.ty() == Type::BOOL { Expr::select(e, self.constant(1.0), self.constant(0.0)) } else { e }
    }

    fn truth(&self, id: ExprId) -> Expr {
        let e = self.memo[&id].clone();
        if e.ty() == Type::BOOL { e } else { e.ne_(self.constant(0.0)) }
    }

    fn emit(&self, id: ExprId) -> Expr {
        match self.dag.node(id) {
            Node::Const(c) => self.constant(c.get()),
            Node::Access(a) => {
                let component = match a.source {
                    Source::Unknown(u) | Source::Direction(u) => component_index(self.energy, u, a.channel),
                    _ => a.channel as usize,
                };
                (self.read)(a.source, component, &self.coordinates(&a.at))
            }
            Node::Param(p, channel) => Expr::param(names::param(*p, *channel), self.ty),
            Node::Index(d) => self.element()[*d as usize].cast(self.ty),
            Node::InBounds { lo, hi } => self.in_bounds(lo, hi),
            Node::Free(space, at) => self.free(*space, at),
            Node::SameVertex(_, a, b) => {
                let (a, b) = (self.vertex(*a), self.vertex(*b));
                conjunction(a.into_iter().zip(b).map(|(a, b)| a.eq_(b)))
            }
            Node::InBoundsAt { graph, slot, lo, hi } => {
                let space = self.energy.graphs[graph.index()].space_of(*slot);
                conjunction(within(space, &self.vertex(*slot), lo, hi))
            }
            Node::IndexAt(_, slot, d) => self.vertex(*slot)[*d as usize].cast(self.ty),
            Node::Sum { constant, terms } => self.sum(id, constant.get(), terms),
            Node::Prod(factors) => self.product(id, factors),
            Node::Call(f, args) => self.call(*f, args),
            Node::Sample { image, at, .. } => self.sample(*image, at),
            Node::Compare(op, a, b) => {
                let op = match op {
                    Compare::Eq => BinaryOp::Eq,
                    Compare::Less => BinaryOp::Lt,
                    Compare::LessEq => BinaryOp::Le,
                };
                Expr::binary(op, self.number(*a), self.number(*b))
            }
            Node::NonZero(a) => self.truth(*a),
            Node::And(xs) => conjunction(xs.iter().map(|x| self.truth(*x))),
            Node::Or(xs) => {
                let mut xs = xs.iter().map(|x| self.truth(*x));
                let first = xs.next().unwrap_or_else(|| Expr::bool(false));
                xs.fold(first, |a, b| a.or(b))
            }
            Node::Not(a) => self.truth(*a).not_(),
            Node::Select(c, a, b) => {
                let boolean = self.memo[a].ty() == Type::BOOL && self.memo[b].ty() == Type::BOOL;
                let arm = |x: &ExprId| if boolean { self.truth(*x) } else { self.number(*x) };
                Expr::select(self.truth(*c), arm(a), arm(b))
            }
        }
    }

    /// Multilinear interpolation. Taps outside the array read its halo of zeros: tap coordinates are clamped to one beyond it.
    fn sample(&self, (array, channel): (ArrayId, u16), at: &[ExprId]) -> Expr {
        let space = self.energy.arrays[array.index()].space;
        let (mut taps, mut weights) = (vec![], vec![]);
        for (d, &coordinate) in at.iter().enumerate() {
            let x = self.number(coordinate);
            let floor = x.clone().unary(UnaryOp::Floor);
            // Casts saturate; NaN becomes some place, and its weights are NaN.
            let extent = || names::extent(space, d);
            let base = floor.clone().cast(ScalarType::I32).max(-2).min(extent());
            taps.push([base.clone().max(-1), (base + 1).min(extent())]);
            let upper = x - floor;
            weights.push([self.constant(1.0) - upper.clone(), upper]);
        }
        self.interpolate(&taps, &weights, &mut |coordinates| {
            (self.read)(Source::Array(array), channel as usize, coordinates)
        })
    }

    /// Interpolates along the last dim between what interpolating along the others gives.
    fn interpolate(
        &self,
        taps: &[[Expr; 2]],
        weights: &[[Expr; 2]],
        read: &mut dyn FnMut(&[Expr]) -> Expr,
    ) -> Expr {
        let (Some((last, others)), Some((weight, other_weights))) = (taps.split_last(), weights.split_last())
        else {
            return read(&[]);
        };
        let mut side = |i: usize| {
            let mut along = |coordinates: &[Expr]| read(&[coordinates, &[last[i].clone()]].concat());
            self.interpolate(others, other_weights, &mut along) * weight[i].clone()
        };
        side(0) + side(1)
    }

    /// The element's coordinates; a graph's residual cannot ask for them.
    fn element(&self) -> &[Expr] {
        match &self.place {
            Place::Element(_, c) => c,
            Place::Edge { .. } => {
                unreachable!("stencil node in a graph residual: rejected when the energy is built")
            }
        }
    }

    fn coordinates(&self, at: &At) -> Vec<Expr> {
        match at {
            At::Offset(o) => self.element().iter().zip(o).map(|(x, &o)| plus(x, o)).collect(),
            At::Vertex(_, slot) => self.vertex(*slot),
            At::Edge(_) => match &self.place {
                Place::Edge { edge, .. } => vec![edge.clone()],
                Place::Element(..) => {
                    unreachable!("graph node in a stencil residual: rejected when the energy is built")
                }
            },
            At::Global => vec![Expr::from(0)],
        }
    }

    /// Coordinates of a slot of the hyperedge, out of the domain by its offset at most. Index arrays hold one coordinate per dim; in spaces of several dims they are
    /// clamped, which changes nothing (they are checked when bound) and bounds them for the engine.
    fn vertex(&self, slot: u16) -> Vec<Expr> {
        let Place::Edge { graph, edge, known } = &self.place else {
            unreachable!("graph node in a stencil residual: rejected when the energy is built")
        };
        if let Some((_, coordinates)) = known.iter().find(|(s, _)| *s == slot) {
            return coordinates.clone();
        }
        let declared = &self.energy.graphs[graph.index()];
        if let (vertex, Some(offset)) = declared.vertex_of(slot) {
            return self.vertex(vertex).iter().zip(offset).map(|(x, &o)| plus(x, o)).collect();
        }
        let space = declared.space_of(slot);
        let dims = self.energy.spaces[space.index()].len();
        names::vertex_coordinates(*graph, slot, dims, space, edge)
    }

    fn in_bounds(&self, lo: &Offset, hi: &Offset) -> Expr {
        let Place::Element(space, coordinates) = &self.place else {
            unreachable!("InBounds in a graph residual: rejected when the energy is built")
        };
        conjunction(within(*space, coordinates, lo, hi).into_iter().map(|part| part.likely()))
    }

    fn free(&self, space: SpaceId, at: &At) -> Expr {
        let mask = Expr::call(names::free(space), ScalarType::U8, self.coordinates(at), 0);
        mask.ne_(Expr::int(ScalarType::U8, 0))
    }

    fn sum(&self, id: ExprId, constant: f64, terms: &[(crate::dag::Const, ExprId)]) -> Expr {
        let mut sum: Option<Expr> = (constant != 0.0).then(|| self.constant(constant));
        let mut ordered = terms.to_vec();
        // A positive term first, so that a difference needs no negation.
        ordered.sort_by_key(|t| t.0.get() <= 0.0);
        self.order.sort(id, &mut ordered, |t| t.1);
        if let (None, Some(first)) = (&sum, ordered.iter().position(|t| t.0.get() > 0.0)) {
            ordered[..=first].rotate_right(1);
        }
        for (c, x) in ordered {
            let (c, x) = (c.get(), self.number(x));
            sum = Some(match (sum, c) {
                (None, 1.0) => x,
                (None, -1.0) => -x,
                (None, c) => self.constant(c) * x,
                (Some(s), 1.0) => s + x,
                (Some(s), -1.0) => s - x,
                (Some(s), c) if c < 0.0 => s - self.constant(-c) * x,
                (Some(s), c) => s + self.constant(c) * x,
            });
        }
        sum.unwrap_or_else(|| self.constant(0.0))
    }

    fn product(&self, id: ExprId, factors: &[(ExprId, i32)]) -> Expr {
        let mut factors = factors.to_vec();
        self.order.sort(id, &mut factors, |f| f.0);
        let side = |positive: bool| {
            let powers = factors.iter().filter(|(_, n)| (*n > 0) == positive);
            powers.map(|(x, n)| power(self.number(*x), n.unsigned_abs())).reduce(|a, b| a * b)
        };
        match (side(true), side(false)) {
            (Some(a), None) => a,
            (Some(a), Some(b)) if self.reciprocals.contains(&id) => a * (self.constant(1.0) / b),
            (Some(a), Some(b)) => a / b,
            (None, Some(b)) => self.constant(1.0) / b,
            (None, None) => self.constant(1.0),
        }
    }

    fn call(&self, f: Function, args: &[ExprId]) -> Expr {
        let operands: Vec<Expr> = args.iter().map(|&a| self.number(a)).collect();
        match (f, &operands[..]) {
            (Function::Atan2, [y, x]) => self.angle(y, x),
            _ => Expr::apply(f, &operands),
        }
    }

    /// atan2(y, x) as of zeros without a sign, which no stage keeps.
    fn angle(&self, y: &Expr, x: &Expr) -> Expr {
        let zero = self.constant(0.0);
        let on_cut = y.eq_(&zero).and(x.le(&zero));
        let there = Expr::select(x.lt(&zero), self.constant(std::f64::consts::PI), zero);
        Expr::select(on_cut, there, Expr::apply(Function::Atan2, &[y.clone(), x.clone()]))
    }
}

/// The products that vary over what is the same for all elements, whose reciprocal a loop takes once. Those that equalities
/// are made of stay quotients, rounded once. (In float32 a reciprocal may overflow where the quotient does not.)
fn reciprocals(dag: &Dag, roots: &[ExprId]) -> FxHashSet<ExprId> {
    let deciding = dag.deciding(roots);
    let (mut uniform, mut out) = (FxHashSet::default(), FxHashSet::default());
    for id in dag.reachable(roots) {
        if !dag.asks_place(id) && dag.children(id).iter().all(|c| uniform.contains(c)) {
            uniform.insert(id);
        } else if let Node::Prod(factors) = dag.node(id)
            && !deciding.contains(&id)
            && factors.iter().any(|(_, n)| *n < 0)
            && factors.iter().all(|(x, n)| *n > 0 || uniform.contains(x))
        {
            out.insert(id);
        }
    }
    out
}

fn plus(x: &Expr, o: i32) -> Expr {
    if o == 0 { x.clone() } else { x + o as i64 }
}

/// The conditions under which the box `[lo, hi]` around an element of the domain, offset 0 included, lies in the domain.
fn within(space: SpaceId, coordinates: &[Expr], lo: &Offset, hi: &Offset) -> Vec<Expr> {
    let mut parts = vec![];
    for (d, x) in coordinates.iter().enumerate() {
        if lo[d] < 0 {
            parts.push(plus(x, lo[d]).ge(0));
        }
        if hi[d] > 0 {
            parts.push(plus(x, hi[d]).lt(names::extent(space, d)));
        }
    }
    parts
}

fn conjunction(parts: impl IntoIterator<Item = Expr>) -> Expr {
    parts.into_iter().reduce(|a, b| a.and(b)).unwrap_or_else(|| Expr::bool(true))
}

/// `x^n` for n >= 1 by repeated squaring.
fn power(x: Expr, n: u32) -> Expr {
    let half = |n| power(x.clone(), n);
    match n {
        0 | 1 => x,
        n if n % 2 == 0 => {
            let h = half(n / 2);
            &h * &h
        }
        n => half(n - 1) * x,
    }
}

#[cfg(test)]
mod tests;
