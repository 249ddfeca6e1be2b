//! Robust losses: what a block's weight rho' and energy rho are, as expressions (Triggs et al., "Bundle adjustment --
//! a modern synthesis", 1999, section 4.3).
//!
//! To first order J~ = sqrt(rho') J. To second order J~ = sqrt(rho') (I - alpha r r^T / sq) J with alpha = 1 - sqrt(D),
//! D = 1 + 2 sq rho''/rho': where r is linear, J~^T J~ is then half the Hessian of rho(|r|^2). Where D is not above [`LEAST`] the Hessian has
//! no curvature along r, or a negative one, and alpha = 0: the rows of first order bound rho from above there, while rows without
//! curvature would leave the step to the damping alone, which knows nothing of how unknowns hang together.

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

/// The share D of its curvature above which a block bends: more than rounding makes of 0, which is what outliers of Huber have.
const LEAST: f64 = 1e-6;

/// The root of a weight, which is never negative.
pub(super) fn root(dag: &mut Dag, weight: ExprId) -> ExprId {
    dag.call(Function::Sqrt, &[weight])
}

/// alpha / sq of a loss: (1 - D) / sq / (1 + sqrt(D)), which loses no digits near sq = 0; 0 where D is too small.
fn bend(dag: &mut Dag, loss: &Row, at: Point) -> ExprId {
    let Bend { share, base, flat } = (loss.bend)(dag, at);
    let above = dag.sum(0.0, &[(1.0, base), (-share, at.q)]);
    let d = dag.div(above, base);
    let root = dag.call(Function::Sqrt, &[d]);
    let below = dag.sum(1.0, &[(1.0, root)]);
    let gentle = dag.product(share, &[(base, -1), (below, -1)]);
    let (least, zero) = (dag.constant(LEAST), dag.constant(0.0));
    let is_gentle = dag.less(least, d);
    let bent = dag.select(is_gentle, gentle, zero);
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
