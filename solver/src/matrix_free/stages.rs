//! The stages of a solve, one table: which pipelines each is made of, and which of them every phase runs.

use crate::matrix_free::domain::mask;
use crate::matrix_free::pcg;
use crate::matrix_free::pipelines::{boxed, computed, cost, damping, gradient, linearise, trial};
use crate::matrix_free::preconditioner::{M, Preconditioner};
use crate::matrix_free::skeleton::{Scheduled, Skeleton, When};
use crate::matrix_free::vectors::{Role, VectorId};
use std::sync::Arc;

/// A piece of a solve: one pipeline, several that follow one another, or none where there is nothing to do. What depends on M
/// has the number of a preconditioner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Computed arrays and their partials, from x.
    Computed,
    /// Partial sums of J^T J p over the rows of graph vertices.
    Parts,
    /// Sweep A of PCG.
    SweepA(u8),
    /// g and the diagonal blocks of J^T J.
    Gradient,
    /// Sweep B of PCG.
    SweepB(u8),
    /// r.z, |r|^2 and the stop rules, where sweep B does not have them.
    Sums(u8),
    /// x + d and the model.
    Trial,
    /// E.
    Cost,
    /// D, field 0 of M^-1 and b.
    Damping(u8),
    /// r0.z0, where the damping does not have it.
    StartProduct(u8),
    /// Inputs of J^T J p.
    Linearise,
    /// Scales of the damping.
    Scales,
    /// Free elements.
    Mask,
    /// Box bounds.
    Bounds,
    /// The new direction of PCG, where it is a sweep of its own.
    Direction(u8),
    /// The products J p, where they are.
    Products,
    /// A stage of a preconditioner's own.
    Preconditioner {
        /// The preconditioner.
        kind: u8,
        /// The time at which it runs.
        when: When,
        /// Its number among those of the same time.
        number: u8,
    },
}

/// Builds the pipelines of a stage.
enum Build {
    /// Of one that all preconditioners share.
    Once(Stage, fn(&Skeleton) -> Vec<Scheduled>),
    /// Of one that each has.
    PerKind(fn(u8) -> Stage, fn(&Skeleton, M) -> Vec<Scheduled>),
}

/// Every stage but those of preconditioners' own: those of which there may be several pipelines, then the largest first, since
/// they are compiled on all cores.
const STAGES: [Build; 16] = {
    use Build::{Once, PerKind};
    [
        Once(Stage::Computed, computed::pipelines),
        Once(Stage::Parts, pcg::graph_parts),
        PerKind(Stage::SweepA, pcg::sweep_a),
        Once(Stage::Gradient, gradient::pipeline),
        PerKind(Stage::SweepB, pcg::sweep_b),
        PerKind(Stage::Sums, pcg::sums),
        Once(Stage::Trial, trial::pipeline),
        Once(Stage::Cost, cost::pipeline),
        PerKind(Stage::Damping, damping::pipeline),
        PerKind(Stage::StartProduct, damping::start_product),
        Once(Stage::Linearise, linearise::pipeline),
        Once(Stage::Scales, damping::scales),
        Once(Stage::Mask, mask::pipeline),
        Once(Stage::Bounds, boxed::pipeline),
        PerKind(Stage::Direction, pcg::direction),
        Once(Stage::Products, pcg::products),
    ]
};

/// All pipelines of a solver with these preconditioners, the skeleton's.
pub fn pipelines(k: &Skeleton, of: &[Arc<dyn Preconditioner>]) -> Vec<(Stage, Scheduled)> {
    let all = || (0..).zip(of).map(|(kind, of)| M { kind, of: &**of });
    let mut pipelines = vec![];
    let mut add = |stage, built: Vec<Scheduled>| pipelines.extend(built.into_iter().map(|p| (stage, p)));
    for row in STAGES {
        match row {
            Build::Once(stage, build) => add(stage, build(k)),
            Build::PerKind(stage, build) => all().for_each(|m| add(stage(m.kind), build(k, m))),
        }
    }
    for M { kind, of } in all() {
        for when in When::ALL {
            for number in 0..of.stages(when) {
                let stage = Stage::Preconditioner { kind, when, number };
                add(stage, of.pipelines(k, kind, when, number));
            }
        }
    }
    pipelines
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

/// A phase of a solve: what the host runs at once. What depends on M has the number of a preconditioner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
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
    /// Stages of M per linearisation.
    Prepare(u8),
    /// Scales of the damping.
    Scales,
    /// D, M^-1, b and r0.z0.
    Damping(u8),
    /// PCG to its end.
    Pcg(u8),
    /// One sweep A, on its own, with what comes before it.
    SweepA(u8),
    /// One sweep B, on its own.
    SweepB(u8),
    /// x + d and the model.
    Trial,
}

impl Phase {
    /// Every phase.
    pub fn all(k: &Skeleton) -> Vec<Phase> {
        use Phase::*;
        let per_kind = |kind| [Prepare(kind), Damping(kind), Pcg(kind), SweepA(kind), SweepB(kind)];
        let kinds = 0..k.preconditioners.len() as u8;
        let shared = [Mask, Bounds, Cost, TrialCost, Linearise, Scales, Trial];
        shared.into_iter().chain(kinds.flat_map(per_kind)).collect()
    }

    /// Its steps.
    pub fn steps(self, k: &Skeleton) -> Vec<Step> {
        let run = |stage| vec![Step::Run(stage)];
        match self {
            Phase::Mask => run(Stage::Mask),
            Phase::Bounds => run(Stage::Bounds),
            Phase::Cost => run(Stage::Cost),
            Phase::TrialCost => vec![Step::RunAs(Role::Trial, Stage::Cost)],
            Phase::Linearise => [Stage::Computed, Stage::Gradient, Stage::Linearise].map(Step::Run).to_vec(),
            Phase::Prepare(kind) => own(k, kind, When::Linearised),
            Phase::Scales => run(Stage::Scales),
            Phase::Damping(kind) => {
                let steps =
                    [run(Stage::Damping(kind)), own(k, kind, When::Damped), own(k, kind, When::Iteration)];
                [steps.concat(), run(Stage::StartProduct(kind))].concat()
            }
            Phase::Pcg(kind) => pcg::solve(k, kind),
            Phase::SweepA(kind) => [own(k, kind, When::Iteration), pcg::to_sweep_a(kind)].concat(),
            Phase::SweepB(kind) => run(Stage::SweepB(kind)),
            Phase::Trial => run(Stage::Trial),
        }
    }
}

/// A preconditioner's own stages at these times.
pub fn own(k: &Skeleton, kind: u8, when: When) -> Vec<Step> {
    let numbers = 0..k.preconditioners[usize::from(kind)].stages(when);
    numbers.map(|number| Step::Run(Stage::Preconditioner { kind, when, number })).collect()
}
