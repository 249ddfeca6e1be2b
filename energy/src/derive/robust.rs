//! Robust losses: what a block's weight rho' and energy rho are, as expressions (Triggs et al., "Bundle adjustment --
//! a modern synthesis", 1999, section 4.3).
//!
//! To first order J~ = sqrt(rho') J. To second order J~ = sqrt(rho') (I - alpha r r^T / sq) J with alpha = 1 - sqrt(D),
//! D = 1 + 2 sq rho''/rho': where r is linear, J~^T J~ is then half the Hessian of rho(|r|^2), for any D > 0. Where rho bends more than that,
//! alpha stays at [`STEEPEST`]: the Hessian is indefinite there, J~^T J~ is not. (Dropping the correction there, as Ceres does, would leave
//! Huber's outliers to rounding: their D is 0.)

use crate::dag::{Dag, ExprId, Function};
use crate::losses::{Bend, Point, Row};
use crate::model::Block;

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

/// alpha / sq of a loss: (1 - D) / sq / (1 + sqrt(D)), which loses no digits near sq = 0.
fn bend(dag: &mut Dag, loss: &Row, at: Point) -> ExprId {
    let steepest = dag.product(STEEPEST, &[(at.q, -1)]);
    let Bend { share, base, flat } = (loss.bend)(dag, at);
    let above = dag.sum(0.0, &[(1.0, base), (-share, at.q)]);
    let d = dag.div(above, base);
    let root = dag.call(Function::Sqrt, &[d]);
    let below = dag.sum(1.0, &[(1.0, root)]);
    let gentle = dag.product(share, &[(base, -1), (below, -1)]);
    let least = dag.constant((1.0 - STEEPEST).powi(2));
    let is_gentle = dag.less(least, d);
    let bent = dag.select(is_gentle, gentle, steepest);
    let zero = dag.constant(0.0);
    flat.map_or(bent, |flat| dag.select(flat, zero, bent))
}

/// The loss of `block` at the squared norm `sq`.
pub(super) fn robust(dag: &mut Dag, block: &Block, sq: ExprId) -> Robust {
    let loss = block.kind.row();
    let at = Point { s: block.scale, s2: dag.powi(block.scale, 2), q: sq };
    let bend = block.second_order.then(|| bend(dag, loss, at));
    let (energy, weight) = (loss.value_and_slope)(dag, at);
    Robust { energy, weight, bend }
}
