//! Globals: unknowns that every instance may read. Their rows of J^T J p and of the gradient are sums over whole domains.

use crate::matrix_free::Skeleton;
use crate::matrix_free::draft::{Direction, Draft};
use crate::matrix_free::schedule::reduce::Op;
use sumsq_codegen::{Expr, Func, Name, ScalarType};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::GlobalRoutines;
use sumsq_energy::model::SpaceId;

impl Skeleton {
    /// The routines of a space of globals, by domain, with their numbers among all.
    pub fn globals(&self, space: SpaceId) -> impl Iterator<Item = (usize, &GlobalRoutines)> {
        self.routines.globals.iter().enumerate().filter(move |(_, g)| g.space == space)
    }
}

/// Adds the scalar tuple Func `name`: the sums of `roots` over all instances of the domain of `g`, in float64.
pub fn totals(d: &mut Draft, name: &str, g: &GlobalRoutines, roots: &[ExprId], direction: Direction) -> Func {
    let points = d.k.points(g.domain);
    let terms = d.emit(roots, d.k.place(g.domain, points.coordinates.clone()), direction);
    let terms = terms.into_iter().map(|t| (Op::Add, t.cast(ScalarType::F64))).collect();
    d.reduce(name, &points, terms)
}

/// `values` with the elements of scalar tuples added.
pub fn add_totals(values: Vec<Expr>, totals: &[Name]) -> Vec<Expr> {
    let element = |f: &Name, c| Expr::call(f.clone(), ScalarType::F64, vec![], c);
    let add = |(c, v): (usize, Expr)| {
        totals.iter().fold(v.clone(), |sum, f| sum + element(f, c).cast(v.ty().scalar))
    };
    values.into_iter().enumerate().map(add).collect()
}
