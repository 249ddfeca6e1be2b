//! Evaluation in f64: the slow, obvious meaning of a DAG.

use super::{Access, At, Compare, Dag, ExprId, Node, Offset, arith::powi};
use crate::ids::{ArrayId, GraphId, ParamId, SpaceId};
use rustc_hash::FxHashMap;

/// Surroundings of an expression at one element or hyperedge.
pub trait Env {
    /// A scalar read; 0 outside the domain.
    fn access(&self, access: &Access) -> f64;
    /// An array's element nearest `at` (whole coordinates), or 0 outside its domain.
    fn tap(&self, image: (ArrayId, u16), at: &[i64]) -> f64;
    /// Channel of a parameter.
    fn param(&self, param: ParamId, channel: u16) -> f64;
    /// The element's coordinate along a dim.
    fn index(&self, dim: u16) -> f64;
    /// Tells whether the box around the element lies in the domain.
    fn in_bounds(&self, lo: &Offset, hi: &Offset) -> bool;
    /// True if the element there is in the domain and not excluded.
    fn free(&self, space: SpaceId, at: &At) -> bool;
    /// Tells whether two slots of the hyperedge are the same element.
    fn same_vertex(&self, graph: GraphId, a: u16, b: u16) -> bool;
    /// Tells whether the box around a slot of the hyperedge lies in the domain.
    fn in_bounds_at(&self, graph: GraphId, slot: u16, lo: &Offset, hi: &Offset) -> bool;
    /// The coordinate of a slot of the hyperedge along a dim.
    fn index_at(&self, graph: GraphId, slot: u16, dim: u16) -> f64;
}

/// Evaluates the same roots again and again: the nodes they need, in order.
pub struct Evaluator<'a> {
    dag: &'a Dag,
    order: Vec<ExprId>,
    position: FxHashMap<ExprId, usize>,
    roots: Vec<ExprId>,
}

impl<'a> Evaluator<'a> {
    /// An evaluator of `roots`.
    pub fn new(dag: &'a Dag, roots: &[ExprId]) -> Evaluator<'a> {
        let order = dag.reachable(roots);
        let position = order.iter().enumerate().map(|(i, &n)| (n, i)).collect();
        Evaluator { dag, order, position, roots: roots.to_vec() }
    }

    /// The values of the roots.
    pub fn eval(&self, env: &dyn Env) -> Vec<f64> {
        let mut values = vec![0.0; self.order.len()];
        for (i, &n) in self.order.iter().enumerate() {
            values[i] = self.eval_node(n, env, &values);
        }
        self.roots.iter().map(|r| values[self.position[r]]).collect()
    }

    fn eval_node(&self, id: ExprId, env: &dyn Env, values: &[f64]) -> f64 {
        let value = |n: &ExprId| values[self.position[n]];
        let truth = |b: bool| f64::from(u8::from(b));
        match self.dag.node(id) {
            Node::Const(c) => c.get(),
            Node::Access(a) => env.access(a),
            Node::Param(p, c) => env.param(*p, *c),
            Node::Index(d) => env.index(*d),
            Node::InBounds { lo, hi } => truth(env.in_bounds(lo, hi)),
            Node::Free(s, at) => truth(env.free(*s, at)),
            Node::SameVertex(g, a, b) => truth(env.same_vertex(*g, *a, *b)),
            Node::InBoundsAt { graph, slot, lo, hi } => truth(env.in_bounds_at(*graph, *slot, lo, hi)),
            Node::IndexAt(g, slot, d) => env.index_at(*g, *slot, *d),
            Node::Sum { constant, terms } => {
                terms.iter().fold(constant.get(), |sum, (c, t)| sum + c.get() * value(t))
            }
            // One quotient: a condition on it is exact.
            Node::Prod(factors) => {
                let side = |positive: bool| {
                    let own = factors.iter().filter(|(_, e)| (*e > 0) == positive);
                    own.map(|(f, e)| powi(value(f), i64::from(e.unsigned_abs()))).product::<f64>()
                };
                side(true) / side(false)
            }
            Node::Sample { image, at, .. } => {
                let at: Vec<f64> = at.iter().map(value).collect();
                interpolate(&at, &mut |tap| env.tap(*image, tap))
            }
            // A zero has no sign: 0 is added to make it 0.
            Node::Call(f, args) => f.value(value(&args[0]) + 0.0, args.get(1).map_or(0.0, value) + 0.0),
            Node::Compare(Compare::Eq, a, b) => truth(value(a) == value(b)),
            Node::Compare(Compare::Less, a, b) => truth(value(a) < value(b)),
            Node::Compare(Compare::LessEq, a, b) => truth(value(a) <= value(b)),
            Node::NonZero(a) => truth(value(a) != 0.0),
            Node::And(ops) => truth(ops.iter().all(|o| value(o) != 0.0)),
            Node::Or(ops) => truth(ops.iter().any(|o| value(o) != 0.0)),
            Node::Not(a) => truth(value(a) == 0.0),
            Node::Select(c, a, b) => value(if value(c) != 0.0 { a } else { b }),
        }
    }
}

/// Multilinear interpolation at real coordinates from taps at whole ones; pixel centres are at integers.
pub fn interpolate(at: &[f64], tap: &mut dyn FnMut(&[i64]) -> f64) -> f64 {
    // Far outside every tap is 0; bounded coordinates keep the conversion exact.
    let base: Vec<f64> = at.iter().map(|x| x.floor().clamp(-1e9, 1e9)).collect();
    let corners = 0..1usize << at.len();
    let term = |corner: usize| {
        let upper = |d: usize| corner >> d & 1 == 1;
        let place: Vec<i64> = base.iter().enumerate().map(|(d, b)| *b as i64 + i64::from(upper(d))).collect();
        let weights = at.iter().zip(&base).enumerate();
        let weight: f64 = weights.map(|(d, (x, b))| if upper(d) { x - b } else { 1.0 - (x - b) }).product();
        weight * tap(&place)
    };
    corners.map(term).sum()
}

impl Dag {
    /// The value of `id` in f64.
    pub fn eval(&self, id: ExprId, env: &dyn Env) -> f64 {
        Evaluator::new(self, &[id]).eval(env)[0]
    }
}
