//! One table of the stages of a solve: the pipelines that each is made of; and the steps of every phase.

use crate::matrix_free::domain::mask;
use crate::matrix_free::pcg;
use crate::matrix_free::pipelines::{boxed, computed, cost, damping, gradient, linearise, trial};
use crate::matrix_free::preconditioner::{M, Preconditioner};
use crate::matrix_free::skeleton::{Scheduled, Skeleton, When};
use crate::matrix_free::stages::{Phase, Stage, Step, own};
use crate::matrix_free::vectors::Role;
use std::sync::Arc;

/// Builds the pipelines of a stage.
enum Build {
    /// Of one that all preconditioners share.
    Once(Stage, fn(&Skeleton) -> Vec<Scheduled>),
    /// Of one that each has.
    PerKind(fn(u8) -> Stage, fn(&Skeleton, M) -> Vec<Scheduled>),
}

/// Every stage but those of preconditioners' own: those of which there may be several pipelines, then the largest first, since
/// they are compiled on all cores.
const STAGES: [Build; 19] = {
    use Build::{Once, PerKind};
    [
        Once(Stage::Computed, computed::pipelines),
        Once(Stage::Parts, pcg::graph_parts),
        PerKind(Stage::SweepA, pcg::sweep_a),
        Once(Stage::Gradient, gradient::pipeline),
        Once(Stage::Residuals, gradient::residuals),
        PerKind(Stage::SweepB, pcg::sweep_b),
        PerKind(Stage::Sums, pcg::sums),
        Once(Stage::Trial, trial::pipeline),
        Once(Stage::Cost, cost::pipelines),
        PerKind(Stage::Damping, damping::pipeline),
        PerKind(Stage::StartProduct, damping::start_product),
        Once(Stage::Linearise, linearise::pipeline),
        Once(Stage::Scales, damping::scales),
        Once(Stage::Mask, mask::pipeline),
        Once(Stage::Near, mask::near),
        Once(Stage::Matched, mask::matched),
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

impl Phase {
    /// Its steps.
    pub fn steps(self, k: &Skeleton) -> Vec<Step> {
        let run = |stage| vec![Step::Run(stage)];
        match self {
            Phase::Mask => run(Stage::Mask),
            Phase::Near => {
                let kinds = 0..k.preconditioners.len() as u8;
                let own = kinds.flat_map(|kind| own(k, kind, When::Masked));
                [Stage::Near, Stage::Matched].map(Step::Run).into_iter().chain(own).collect()
            }
            Phase::Matched => run(Stage::Matched),
            Phase::Bounds => run(Stage::Bounds),
            Phase::Cost => run(Stage::Cost),
            Phase::TrialCost => vec![Step::RunAs(Role::Trial, Stage::Cost)],
            Phase::Linearise => {
                let stages = [Stage::Computed, Stage::Residuals, Stage::Gradient, Stage::Linearise];
                stages.map(Step::Run).to_vec()
            }
            Phase::Prepare(kind) => own(k, kind, When::Linearised),
            Phase::Scales => run(Stage::Scales),
            Phase::Damping(kind) => run(Stage::Damping(kind)),
            Phase::Start(kind) => {
                let stages = [own(k, kind, When::Damped), own(k, kind, When::Iteration)].concat();
                [stages, run(Stage::StartProduct(kind))].concat()
            }
            Phase::Pcg(kind) => pcg::solve(k, kind),
            Phase::SweepA(kind) => [own(k, kind, When::Iteration), pcg::to_sweep_a(kind)].concat(),
            Phase::SweepB(kind) => run(Stage::SweepB(kind)),
            Phase::Trial => run(Stage::Trial),
        }
    }
}
