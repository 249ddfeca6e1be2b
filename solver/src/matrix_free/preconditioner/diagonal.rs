//! D and M^-1 of single scalars, and where they are computed instead of stored.
//!
//! Where the diagonal of J^T J follows from parameters and the place in the domain alone (`inline_diagonal`), the sweeps compute D
//! and M^-1 from it: two arrays less to read, and in the interior both are loop invariants. M^-1 is then finite but not 0 in
//! halos; p stays 0 there because r and the old p are.

use crate::matrix_free::draft::{Draft, no_direction};
use crate::matrix_free::params::Number;
use crate::matrix_free::skeleton::{Space, packed};
use sumsq_codegen::Expr;
use sumsq_energy::dag::{ExprId, Node};
use sumsq_energy::derive::{Kind, Routines, Site};
use sumsq_energy::emit::Place;

/// D and M^-1 at one element, one entry per component; 0 where diag = 0.
pub struct Diagonal {
    /// D.
    pub damp: Vec<Expr>,
    /// M^-1.
    pub minv: Vec<Expr>,
}

/// s = 1/(1 + sqrt(diag)).
pub fn scale(diag: &Expr) -> Expr {
    let one = Expr::float(diag.ty(), 1.0);
    &one / &(&one + &diag.sqrt())
}

/// D = clamp(s^2 diag, min, max) / (s^2 R), with min, max and 1/R (0 for Gauss-Newton) parameters.
pub fn damping(diag: &Expr, scale: &Expr) -> Expr {
    let numbers = [Number::MinDiagonal, Number::MaxDiagonal, Number::InvRadius];
    let [min, max, inv_radius] = numbers.map(|n| n.expr(diag.ty().scalar));
    let s2 = scale * scale;
    (&s2 * diag).max(min).min(max) / s2 * inv_radius
}

/// Whether the diagonal of J^T J of a space reads no field: no graph contributes, and the stencils' share is an expression in
/// parameters and conditions on coordinates. Excluded elements are a field, too.
pub fn is_computable(routines: &Routines, space: &Space) -> bool {
    let site = Site::Element(space.id);
    if !space.slots.is_empty() || !routines.roots(Kind::Excluded, site).is_empty() {
        return false;
    }
    let reads = |id: &ExprId| {
        matches!(routines.dag.node(*id), Node::Access(_) | Node::Sample { .. } | Node::Free(..))
    };
    !routines.dag.reachable(&diagonal(routines, space)).iter().any(reads)
}

/// What the stencils give diag(J^T J).
fn diagonal(routines: &Routines, space: &Space) -> Vec<ExprId> {
    let blocks = routines.roots(Kind::Blocks, Site::Element(space.id));
    (0..space.components).map(|i| blocks[packed(i, i)]).collect()
}

/// D and M^-1 of a space with `inline_diagonal`.
pub fn computed(d: &Draft, space: &Space, at: &[Expr]) -> Diagonal {
    let k = d.k;
    let roots = diagonal(&k.routines, space);
    let diag = d.emit(&roots, Place::Element(space.id, at.to_vec()), &no_direction);
    let (zero, one) = (Expr::float(d.ty(), 0.0), Expr::float(d.ty(), 1.0));
    let active = |d: &Expr| d.gt(zero.clone());
    let damp: Vec<Expr> =
        diag.iter().map(|d| Expr::select(active(d), damping(d, &scale(d)), zero.clone())).collect();
    let inverse = |(d, damp): (&Expr, &Expr)| {
        let value = if k.identity { one.clone() } else { &one / &(d + damp) };
        Expr::select(active(d), value, zero.clone())
    };
    let minv = diag.iter().zip(&damp).map(inverse).collect();
    Diagonal { damp, minv }
}
