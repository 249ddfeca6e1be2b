//! Robust losses: what a block's weight rho' and energy rho are, as expressions (Triggs et al., "Bundle adjustment --
//! a modern synthesis", 1999, section 4.3).
//!
//! To first order J~ = sqrt(rho') J. To second order J~ = sqrt(rho') (I - alpha r r^T / sq) J with alpha = 1 - sqrt(D),
//! D = 1 + 2 sq rho''/rho': where r is linear, J~^T J~ is then half the Hessian of rho(|r|^2). Where D is not above [`LEAST`] the Hessian has
//! no curvature along r, or a negative one, and alpha = 0: the rows of first order bound rho from above there, while rows without
//! curvature would leave the step to the damping alone, which knows nothing of how unknowns hang together.

use crate::dag::{Access, Dag, ExprId, Function, Node};
use crate::losses::{Bend, Point};
use crate::model::{Block, Loss};

/// A loss of a block at its squared norm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Robust {
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
fn bend(dag: &mut Dag, q: ExprId, Bend { share, base, flat }: Bend) -> ExprId {
    let above = dag.sum(0.0, &[(1.0, base), (-share, q)]);
    let d = dag.div(above, base);
    let root = dag.call(Function::Sqrt, &[d]);
    let below = dag.sum(1.0, &[(1.0, root)]);
    let gentle = dag.product(share, &[(base, -1), (below, -1)]);
    let (least, zero) = (dag.scale(LEAST, base), dag.constant(0.0));
    // D > LEAST without the quotient: where `base` is 0 that is infinite, and of either sign once it is simplified.
    let is_gentle = if above == zero { zero } else { dag.less(least, above) };
    let bent = dag.select(is_gentle, gentle, zero);
    flat.map_or(bent, |flat| dag.select(flat, zero, bent))
}

/// The loss of `block` at the squared norm `sq`, where some of its residuals count. They add to `sq` where their guards hold.
pub(crate) fn robust(dag: &mut Dag, block: &Block, sq: ExprId, counts: ExprId, guards: &[ExprId]) -> Robust {
    match block.loss {
        Loss::Scaled(kind, scale) => {
            let (loss, at) = (kind.row(), Point { s: scale, s2: dag.powi(scale, 2), q: sq });
            let bend = block.second_order.then(|| {
                let of = (loss.bend)(dag, at);
                bend(dag, sq, of)
            });
            let (energy, weight) = (loss.value_and_slope)(dag, at);
            // rho(0) = 0: where nothing counts, this is 0, if there is a scale.
            let energy = match dag.is_uniform(scale) {
                true => energy,
                false => {
                    let (some, zero) = (dag.or(guards), dag.constant(0.0));
                    dag.select(some, energy, zero)
                }
            };
            Robust { energy, weight, bend }
        }
        Loss::Formula(rho) => formula(dag, block, rho, sq, counts),
    }
}

/// A loss whose slopes are derived: rho' and rho'' with respect to q, at q = sq.
fn formula(dag: &mut Dag, block: &Block, rho: ExprId, sq: ExprId, counts: ExprId) -> Robust {
    let squared = Access::squared();
    let slope = dag.derivative(rho, &squared);
    let curvature = dag.derivative(slope, &squared);
    let at_sq = dag.substitute_all(&[rho, slope, curvature], &mut |_, node| match node {
        Node::Access(a) if *a == squared => Some(sq),
        _ => None,
    });
    let [rho, slope, curvature] = at_sq[..] else { unreachable!("three roots") };
    let zero = dag.constant(0.0);
    let (falls, convex) = (dag.less_eq(slope, zero), dag.less_eq(zero, curvature));
    let bend = block.second_order.then(|| {
        let base = dag.product(-0.5, &[(slope, 1), (curvature, -1)]);
        let flat = Some(dag.or(&[falls, convex]));
        bend(dag, sq, Bend { share: 1.0, base, flat })
    });
    Robust { energy: dag.select(counts, rho, zero), weight: dag.select(falls, zero, slope), bend }
}
