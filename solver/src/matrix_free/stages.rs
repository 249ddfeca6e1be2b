//! The stages of a solve, one table: which pipelines each is made of, and which of them every phase runs.

use crate::matrix_free::domain::mask;
use crate::matrix_free::pcg;
use crate::matrix_free::pipelines::{boxed, computed, cost, damping, gradient, linearise, trial};
use crate::matrix_free::skeleton::{Scheduled, Skeleton};
use crate::matrix_free::vectors::{Role, VectorId};

/// A piece of a solve: one pipeline, several that follow one another, or none where there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Computed arrays and their partials, from x.
    Computed,
    /// Partial sums of J^T J p over the rows of graph vertices.
    Parts,
    /// Sweep A of PCG.
    SweepA,
    /// g and the diagonal blocks of J^T J.
    Gradient,
    /// Sweep B of PCG.
    SweepB,
    /// x + d and the model.
    Trial,
    /// E.
    Cost,
    /// D, M^-1 and b.
    Damping,
    /// What J^T J p reads.
    Linearise,
    /// Scales of the damping.
    Scales,
    /// Free elements.
    Mask,
    /// Box bounds.
    Bounds,
    /// The new direction of PCG, where it is a sweep of its own.
    Direction,
    /// The products J p, where they are.
    Products,
}

/// Builds the pipelines of a stage.
type Build = fn(&Skeleton) -> Vec<Scheduled>;

/// Every stage: those of which there may be several pipelines, then the largest first, since they are compiled on all cores.
const STAGES: [(Stage, Build); 14] = [
    (Stage::Computed, computed::pipelines),
    (Stage::Parts, pcg::graph_parts),
    (Stage::SweepA, pcg::sweep_a),
    (Stage::Gradient, gradient::pipeline),
    (Stage::SweepB, pcg::sweep_b),
    (Stage::Trial, trial::pipeline),
    (Stage::Cost, cost::pipeline),
    (Stage::Damping, damping::pipeline),
    (Stage::Linearise, linearise::pipeline),
    (Stage::Scales, damping::scales),
    (Stage::Mask, mask::pipeline),
    (Stage::Bounds, boxed::pipeline),
    (Stage::Direction, pcg::direction),
    (Stage::Products, pcg::products),
];

/// All pipelines of a solver.
pub fn pipelines(k: &Skeleton) -> Vec<(Stage, Scheduled)> {
    let of = |(stage, build): (Stage, Build)| build(k).into_iter().map(move |p| (stage, p));
    STAGES.into_iter().flat_map(of).collect()
}

/// A step of a phase.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Runs the pipelines of a stage.
    Run(Stage),
    /// Runs them in another role than their own.
    RunAs(Role, Stage),
    /// Exchanges two vectors.
    Swap(VectorId, VectorId),
    /// Runs steps until a scalar is not 0 behind them.
    Until(VectorId, Vec<Step>),
}

/// A phase of a solve: what the host runs at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Excluded elements.
    Mask,
    /// Box bounds.
    Bounds,
    /// E at x.
    Cost,
    /// E at x + d.
    TrialCost,
    /// g, blocks and what applyJTJ reads, at x.
    Linearise,
    /// Scales of the damping.
    Scales,
    /// D, M^-1, b.
    Damping,
    /// PCG to its end.
    Pcg,
    /// One sweep A, on its own, with what comes before it.
    SweepA,
    /// One sweep B, on its own.
    SweepB,
    /// x + d and the model.
    Trial,
}

impl Phase {
    /// Every phase, in the order of the enum.
    pub const ALL: [Phase; 11] = {
        use Phase::*;
        [Mask, Bounds, Cost, TrialCost, Linearise, Scales, Damping, Pcg, SweepA, SweepB, Trial]
    };

    /// What it does.
    pub fn steps(self, k: &Skeleton) -> Vec<Step> {
        let run = |stage| vec![Step::Run(stage)];
        match self {
            Phase::Mask => run(Stage::Mask),
            Phase::Bounds => run(Stage::Bounds),
            Phase::Cost => run(Stage::Cost),
            Phase::TrialCost => vec![Step::RunAs(Role::Trial, Stage::Cost)],
            Phase::Linearise => [Stage::Computed, Stage::Gradient, Stage::Linearise].map(Step::Run).to_vec(),
            Phase::Scales => run(Stage::Scales),
            Phase::Damping => run(Stage::Damping),
            Phase::Pcg => pcg::solve(k),
            Phase::SweepA => pcg::to_sweep_a(),
            Phase::SweepB => run(Stage::SweepB),
            Phase::Trial => run(Stage::Trial),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_listed_in_their_order() {
        assert!(Phase::ALL.iter().enumerate().all(|(i, &phase)| phase as usize == i));
    }
}
