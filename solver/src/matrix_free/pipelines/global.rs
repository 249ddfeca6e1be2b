//! Globals: unknowns that every instance may read. Their rows of J^T J p and of the gradient are sums over whole domains.

use crate::matrix_free::Skeleton;
use crate::matrix_free::schedule::reduce::{Op, reduce};
use sumsq_codegen::{Expr, Func, Pipeline, ScalarType, Schedule};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{Kind, Site};
use sumsq_energy::model::SpaceId;

impl Skeleton {
    /// The sites of a space of globals, by domain, with their numbers among all.
    pub fn globals(&self, space: SpaceId) -> impl Iterator<Item = (usize, Site)> {
        let sites = self.routines.of(Kind::JtJp).map(|r| r.site);
        let globals = sites.filter(|site| matches!(site, Site::Global(..))).enumerate();
        globals.filter(move |(_, site)| site.row_space(&self.energy) == Some(space))
    }
}

/// Adds the scalar tuple Func `name`: the sums of `roots` over all instances of the domain of `site`, in float64.
pub fn totals(
    k: &Skeleton,
    p: &mut Pipeline,
    s: &mut Schedule,
    (name, site): (&str, Site),
    (roots, ty): (&[ExprId], ScalarType),
    direction: crate::matrix_free::pipelines::gather::Direction,
) -> Func {
    let domain = site.domain(&k.energy);
    let points = k.points(domain);
    let terms = k.emit(roots, ty, k.place(domain, points.coordinates.clone()), direction);
    let terms = terms.into_iter().map(|t| (Op::Add, t.cast(ScalarType::F64))).collect();
    reduce(p, s, name, &points, terms).0
}

/// `values` with the elements of scalar tuples added.
pub fn add_totals(values: Vec<Expr>, totals: &[Func]) -> Vec<Expr> {
    let add = |(c, v): (usize, Expr)| {
        totals.iter().fold(v.clone(), |sum, f| sum + f.at(&[], c).cast(v.ty().scalar))
    };
    values.into_iter().enumerate().map(add).collect()
}
