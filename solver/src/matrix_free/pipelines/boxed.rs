//! Box bounds: `lo<s>` and `hi<s>` over the spaces that have any, and what the other pipelines make of them (see
//! `problem::bounds`). Unbounded components of such a space have infinite bounds.

use crate::matrix_free::draft::{Draft, coordinates, no_direction, vars};
use crate::matrix_free::schedule::Strip;
use crate::matrix_free::skeleton::{Scheduled, Skeleton, Space};
use crate::matrix_free::vectors::{Role, What};
use sumsq_codegen::Expr;
use sumsq_energy::dag::ExprId;
use sumsq_energy::emit::{Place, component_index};
use sumsq_energy::model::{BoxBounds, Domain};

/// Evaluates the bounds, if there are any; run when arrays or params are bound and when a solve starts.
pub fn pipeline(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "bounds", Role::Master);
    for space in k.spaces.iter().filter(|s| s.bounded) {
        let sides: [(_, _, Side); 2] =
            [(What::Lower, f64::NEG_INFINITY, |b| &b.lower), (What::Upper, f64::INFINITY, |b| &b.upper)];
        for (what, none, side) in sides {
            let (id, vars) = (what.of(space.id), vars(space.dims));
            let values = bounds(&d, space, coordinates(&vars), none, side);
            let f = d.func(id, &vars, values);
            d.map(&f, Strip::Of(Domain::Space(space.id)));
            d.output(&f, id);
        }
    }
    d.finish()
}

/// Lower or upper.
type Side = fn(&BoxBounds) -> &Vec<ExprId>;

/// One side of the bounds of every component at `at`; `none` where there is no bound.
fn bounds(d: &Draft, space: &Space, at: Vec<Expr>, none: f64, side: Side) -> Vec<Expr> {
    let k = d.k;
    let mut values = vec![Expr::float(d.ty(), none); space.components];
    for of in k.energy.bounds.iter().filter(|b| k.energy.unknowns[b.unknown.index()].space == space.id) {
        let emitted = d.emit(side(of), Place::Element(space.id, at.clone()), &no_direction);
        let first = component_index(&k.energy, of.unknown, 0);
        emitted.into_iter().enumerate().for_each(|(c, e)| values[first + c] = e);
    }
    values
}

/// x and its bounds at one element.
pub struct Boxed {
    x: Vec<Expr>,
    lower: Vec<Expr>,
    upper: Vec<Expr>,
}

impl Draft<'_> {
    /// x and its bounds at an element of a space; `None` where it has none.
    pub fn boxed(&self, space: &Space, at: &[Expr]) -> Option<Boxed> {
        let all = |what: What| self.all(what.of(space.id), at);
        space.bounded.then(|| Boxed { x: all(What::X), lower: all(What::Lower), upper: all(What::Upper) })
    }
}

impl Boxed {
    /// True where component i with gradient g is held.
    pub fn is_held(&self, i: usize, g: &Expr) -> Expr {
        let zero = || Expr::float(g.ty(), 0.0);
        let (at_lower, at_upper) = (self.x[i].le(self.lower[i].clone()), self.x[i].ge(self.upper[i].clone()));
        let below = at_lower.and(g.gt(zero()).or(at_upper.clone()));
        below.or(at_upper.and(g.lt(zero())))
    }

    /// P(x + d) of component i: x itself where d = 0, so that what is excluded stays where it is.
    pub fn moved(&self, i: usize, d: &Expr) -> Expr {
        let zero = Expr::float(d.ty(), 0.0);
        let inside = clamp(&(&self.x[i] + d), &self.lower[i], &self.upper[i]);
        Expr::select(d.ne_(zero), inside, self.x[i].clone())
    }

    /// P(x + d) - x of component i, without cancellation where no bound is near; 0 where d = 0.
    pub fn step(&self, i: usize, d: &Expr) -> Expr {
        let zero = Expr::float(d.ty(), 0.0);
        let inside = clamp(d, &(&self.lower[i] - &self.x[i]), &(&self.upper[i] - &self.x[i]));
        Expr::select(d.ne_(zero.clone()), inside, zero)
    }
}

/// `v` in its bounds; NaN stays NaN.
fn clamp(v: &Expr, lower: &Expr, upper: &Expr) -> Expr {
    let below = Expr::select(v.gt(upper.clone()), upper.clone(), v.clone());
    Expr::select(v.lt(lower.clone()), lower.clone(), below)
}
