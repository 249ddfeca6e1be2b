//! The diagonal blocks of A = J^T J + D at single elements, and where D and M^-1 are computed of them instead of stored.
//!
//! Where the diagonal of J^T J follows from parameters and the place in the domain alone (`inline_diagonal`), the sweeps
//! compute D and M^-1 from it: two arrays less to read, and in the interior both are loop invariants. M^-1 is then finite but
//! not 0 in halos; p stays 0 there because r and the old p are.

use crate::matrix_free::draft::{Draft, no_direction};
use crate::matrix_free::params::Number;
use crate::matrix_free::skeleton::{Space, packed};
use crate::matrix_free::vectors::What;
use sumsq_codegen::{Expr, ScalarType, Var};
use sumsq_energy::dag::{ExprId, Node};
use sumsq_energy::derive::{Kind, Routines, Site};
use sumsq_energy::emit::Place;

/// A's block at one element of a space, as field 0 of M^-1 is made of it.
pub struct Block<'s> {
    /// The space.
    pub space: &'s Space,
    /// The variables of the element; none where only the diagonal is kept.
    pub vars: &'s [Var],
    /// The type of all expressions.
    pub ty: ScalarType,
    /// The type in which field 0 is kept.
    pub linear: ScalarType,
    /// Entry (i, j) of J^T J; `None` off the diagonal where g's pipeline keeps that alone.
    pub entries: Vec<Vec<Option<Expr>>>,
    /// D.
    pub damp: Vec<Expr>,
    /// Conditions: whether scalar i takes part.
    pub active: Vec<Expr>,
}

impl Block<'_> {
    /// A diagonal entry of J^T J.
    pub fn diagonal(&self, i: usize) -> Expr {
        self.entries[i][i].clone().expect("the diagonal is always kept")
    }

    /// A diagonal entry of A.
    pub fn damped(&self, i: usize) -> Expr {
        self.diagonal(i) + &self.damp[i]
    }

    /// `value` where scalar i takes part, else 0.
    pub fn where_active(&self, i: usize, value: Expr) -> Expr {
        Expr::select(self.active[i].clone(), value, self.number(0.0))
    }

    /// A constant.
    pub fn number(&self, value: f64) -> Expr {
        Expr::float(self.ty, value)
    }
}

/// D = clamp(diag, min, max) / R of component `c`, with min and max a tuple of the space and 1/R (0 for Gauss-Newton) a parameter.
pub fn damping(diag: &Expr, space: &Space, c: usize) -> Expr {
    let ty = diag.ty().scalar;
    let name = What::Clamps.of(space.id).to_string();
    let clamp = |i| Expr::call(name.as_str(), ScalarType::F64, vec![], i).cast(ty);
    diag.max(clamp(c)).min(clamp(space.components + c)) * Number::InvRadius.expr(ty)
}

/// True if the diagonal of J^T J of a space reads no field: no graph contributes, and the stencils' share is an expression in
/// parameters and conditions on coordinates. Excluded elements are a field, too.
pub fn is_computable(routines: &Routines, space: &Space) -> bool {
    let site = Site::Element(space.id);
    let read = [Kind::Excluded, Kind::FirstOrder].iter().any(|&kind| !routines.roots(kind, site).is_empty());
    if !space.slots.is_empty() || read {
        return false;
    }
    let reads = |id: &ExprId| {
        matches!(routines.dag.node(*id), Node::Access(_) | Node::Sample { .. } | Node::Free(..))
    };
    !routines.dag.reachable(&diagonal(routines, space)).iter().any(reads)
}

/// The stencils' share of diag(J^T J).
pub fn diagonal(routines: &Routines, space: &Space) -> Vec<ExprId> {
    let blocks = routines.roots(Kind::Blocks, Site::Element(space.id));
    (0..space.components).map(|i| blocks[packed(i, i)]).collect()
}

/// The diagonal of a space with `inline_diagonal` at one element; D and whatever takes no part are 0 where diag is.
pub fn computed<'s>(d: &Draft, space: &'s Space, at: &[Expr]) -> Block<'s> {
    let k = d.k;
    let roots = diagonal(&k.routines, space);
    let diag = d.emit(&roots, Place::Element(space.id, at.to_vec()), &no_direction);
    let zero = Expr::float(d.ty(), 0.0);
    let active: Vec<Expr> = diag.iter().map(|d| d.gt(zero.clone())).collect();
    let damp = diag
        .iter()
        .zip(&active)
        .enumerate()
        .map(|(c, (d, active))| Expr::select(active.clone(), damping(d, space, c), zero.clone()));
    let damp = damp.collect();
    let c = space.components;
    let entry = |i: usize, j: usize| (i == j).then(|| diag[i].clone());
    let entries = (0..c).map(|i| (0..c).map(|j| entry(i, j)).collect()).collect();
    Block { space, vars: &[], ty: d.ty(), linear: k.linear, entries, damp, active }
}
