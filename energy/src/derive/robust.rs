//! Robust losses: what a block's weight rho' and energy rho are, as expressions (design section 5; Triggs et al., "Bundle
//! adjustment -- a modern synthesis" (1999), section 4.3, first order: J~ = sqrt(rho') J).

use crate::dag::{Dag, ExprId, Function};
use crate::model::{Block, LossKind};

/// A loss of a block at its squared norm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Robust {
    /// rho(sq): the block's part of E.
    pub energy: ExprId,
    /// rho'(sq), 0 where it is not positive.
    pub weight: ExprId,
}

/// The root of a weight, which is never negative.
pub(super) fn root(dag: &mut Dag, weight: ExprId) -> ExprId {
    dag.call(Function::Sqrt, &[weight])
}

/// The loss of `block` at the squared norm `sq`.
pub(super) fn robust(dag: &mut Dag, block: &Block, sq: ExprId) -> Robust {
    let s = block.scale;
    let s2 = dag.powi(s, 2);
    let ratio = dag.div(sq, s2);
    match block.kind {
        LossKind::Huber => {
            let norm = dag.call(Function::Sqrt, &[sq]);
            let (inlier, one) = (dag.less_eq(sq, s2), dag.constant(1.0));
            let product = dag.mul(s, norm);
            let linear = dag.sum(0.0, &[(2.0, product), (-1.0, s2)]);
            let slope = dag.div(s, norm);
            Robust { energy: dag.select(inlier, sq, linear), weight: dag.select(inlier, one, slope) }
        }
        LossKind::Cauchy => {
            let base = dag.sum(1.0, &[(1.0, ratio)]);
            let log = dag.call(Function::Log, &[base]);
            Robust { energy: dag.mul(s2, log), weight: dag.powi(base, -1) }
        }
        LossKind::Tukey => {
            // NaN is no outlier: it must not pass for one of finite energy.
            let (outlier, zero) = (dag.less(s2, sq), dag.constant(0.0));
            let rest = dag.sum(1.0, &[(-1.0, ratio)]);
            let (square, cube) = (dag.powi(rest, 2), dag.powi(rest, 3));
            let risen = dag.sum(1.0, &[(-1.0, cube)]);
            let inner = dag.product(1.0 / 3.0, &[(s2, 1), (risen, 1)]);
            let flat = dag.product(1.0 / 3.0, &[(s2, 1)]);
            Robust { energy: dag.select(outlier, flat, inner), weight: dag.select(outlier, zero, square) }
        }
        LossKind::GemanMcClure => {
            let base = dag.sum(1.0, &[(1.0, ratio)]);
            Robust { energy: dag.div(sq, base), weight: dag.powi(base, -2) }
        }
    }
}
