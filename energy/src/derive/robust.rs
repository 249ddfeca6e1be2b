//! Robust losses: what a block's weight rho' and energy rho are, as expressions (Triggs et al., "Bundle adjustment --
//! a modern synthesis", 1999, section 4.3).
//!
//! To first order J~ = sqrt(rho') J. To second order J~ = sqrt(rho') (I - alpha r r^T / sq) J with alpha = 1 - sqrt(D),
//! D = 1 + 2 sq rho''/rho': where r is linear, J~^T J~ is then half the Hessian of rho(|r|^2), for any D > 0. Where rho bends more than that,
//! alpha stays at [`STEEPEST`]: the Hessian is indefinite there, J~^T J~ is not. (Dropping the correction there, as Ceres does, would leave
//! Huber's outliers to rounding: their D is 0.)

use crate::dag::{Dag, ExprId, Function};
use crate::model::{Block, LossKind};

/// A loss of a block at its squared norm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Robust {
    /// rho(sq): the block's part of E.
    pub energy: ExprId,
    /// rho'(sq), 0 where it is not positive.
    pub weight: ExprId,
    /// alpha / sq, to second order.
    pub bend: Option<ExprId>,
}

/// The largest alpha: along r a block keeps (1 - alpha)^2 of its curvature.
const STEEPEST: f64 = 0.999;

/// The root of a weight, which is never negative.
pub(super) fn root(dag: &mut Dag, weight: ExprId) -> ExprId {
    dag.call(Function::Sqrt, &[weight])
}

/// alpha / sq of a loss: (1 - D) / sq / (1 + sqrt(D)), which loses no digits near sq = 0. 1 - D = k sq / (s^2 +- sq) but for Huber,
/// whose D is 1 up to s^2 and 0 beyond.
fn bend(dag: &mut Dag, kind: LossKind, s2: ExprId, sq: ExprId) -> ExprId {
    let steepest = dag.product(STEEPEST, &[(sq, -1)]);
    let (k, sign) = match kind {
        LossKind::Huber => {
            let (inlier, zero) = (dag.less_eq(sq, s2), dag.constant(0.0));
            return dag.select(inlier, zero, steepest);
        }
        LossKind::Cauchy => (2.0, 1.0),
        LossKind::Tukey => (4.0, -1.0),
        LossKind::GemanMcClure => (4.0, 1.0),
    };
    let base = dag.sum(0.0, &[(1.0, s2), (sign, sq)]);
    let above = dag.sum(0.0, &[(1.0, s2), (sign - k, sq)]);
    let d = dag.div(above, base);
    let root = dag.call(Function::Sqrt, &[d]);
    let below = dag.sum(1.0, &[(1.0, root)]);
    let gentle = dag.product(k, &[(base, -1), (below, -1)]);
    let least = dag.constant((1.0 - STEEPEST).powi(2));
    let is_gentle = dag.less(least, d);
    dag.select(is_gentle, gentle, steepest)
}

/// The loss of `block` at the squared norm `sq`.
pub(super) fn robust(dag: &mut Dag, block: &Block, sq: ExprId) -> Robust {
    let s2 = dag.powi(block.scale, 2);
    let bend = block.second_order.then(|| bend(dag, block.kind, s2, sq));
    let (energy, weight) = energy_and_weight(dag, block, sq);
    Robust { energy, weight, bend }
}

/// rho and rho', 0 where it is not positive.
fn energy_and_weight(dag: &mut Dag, block: &Block, sq: ExprId) -> (ExprId, ExprId) {
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
            (dag.select(inlier, sq, linear), dag.select(inlier, one, slope))
        }
        LossKind::Cauchy => {
            let base = dag.sum(1.0, &[(1.0, ratio)]);
            let log = dag.call(Function::Log, &[base]);
            (dag.mul(s2, log), dag.powi(base, -1))
        }
        LossKind::Tukey => {
            // NaN is no outlier: it must not pass for one of finite energy.
            let (outlier, zero) = (dag.less(s2, sq), dag.constant(0.0));
            let rest = dag.sum(1.0, &[(-1.0, ratio)]);
            let (square, cube) = (dag.powi(rest, 2), dag.powi(rest, 3));
            let risen = dag.sum(1.0, &[(-1.0, cube)]);
            let inner = dag.product(1.0 / 3.0, &[(s2, 1), (risen, 1)]);
            let flat = dag.product(1.0 / 3.0, &[(s2, 1)]);
            (dag.select(outlier, flat, inner), dag.select(outlier, zero, square))
        }
        LossKind::GemanMcClure => {
            let base = dag.sum(1.0, &[(1.0, ratio)]);
            (dag.div(sq, base), dag.powi(base, -2))
        }
    }
}
