//! The M of PCG in the assembled path, whatever its kind.

use crate::assembled::preconditioner::BlockDiagonal;
use crate::assembled::{Explicit, Hierarchies, Jacobian};
use crate::problem::options::Preconditioner;

/// M of a linear system, by its inverse.
pub(super) enum Inverse {
    /// Of one element each.
    Blocks(BlockDiagonal),
    /// Of all.
    Levels(Hierarchies),
}

impl Inverse {
    /// M for A = J^T J + diag(`damping`) at x, as of [`BlockDiagonal::new`].
    pub fn new(
        kind: Preconditioner,
        problem: &Explicit<'_>,
        x: &[f64],
        jacobian: &Jacobian,
        (diag, damping): (&[f64], &[f64]),
        blocks: &[Vec<u32>],
    ) -> Inverse {
        match kind {
            Preconditioner::Multigrid => {
                Inverse::Levels(Hierarchies::multigrid(problem, jacobian, (diag, damping), None))
            }
            Preconditioner::Aggregation => {
                Inverse::Levels(Hierarchies::aggregation(problem, x, jacobian, (diag, damping), 1))
            }
            _ => Inverse::Blocks(BlockDiagonal::new(kind, jacobian, diag, damping, blocks)),
        }
    }

    /// M^-1 r.
    pub fn apply(&self, r: &[f64]) -> Vec<f64> {
        match self {
            Inverse::Blocks(m) => m.apply_inverse(r),
            Inverse::Levels(m) => m.apply_inverse(r),
        }
    }
}
