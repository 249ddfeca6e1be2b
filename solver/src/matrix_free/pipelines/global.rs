//! Globals: unknowns that every instance may read. Their rows of J^T J p and of the gradient are sums over whole domains.

use crate::matrix_free::draft::{Direction, Draft};
use crate::matrix_free::schedule::reduce::Op;
use crate::matrix_free::skeleton::Skeleton;
use sumsq_codegen::{Expr, Func, Name, ScalarType};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{Kind, Site};
use sumsq_energy::model::SpaceId;

impl Skeleton {
    /// The sites of a space of globals, by domain, with their numbers among all.
    pub fn globals(&self, space: SpaceId) -> impl Iterator<Item = (usize, Site)> {
        let globals = self.global_sites().enumerate();
        globals.filter(move |(_, site)| site.row_space(&self.energy) == Some(space))
    }

    /// The sites of all globals.
    pub fn global_sites(&self) -> impl Iterator<Item = Site> {
        let sites = self.routines.of(Kind::JtJp).map(|r| r.site);
        sites.filter(|site| matches!(site, Site::Global(..)))
    }
}

/// Adds the scalar tuple Func `name`: the sums of `roots` over all instances of the domain of `site`, in float64.
pub fn totals(d: &mut Draft, name: &str, site: Site, roots: &[ExprId], direction: Direction) -> Func {
    let domain = site.domain(&d.k.energy);
    let points = d.k.points(domain);
    let terms = d.emit(roots, d.k.place(domain, points.coordinates.clone()), direction);
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
