//! The stages of a solve, and the steps and phases that run them.

use crate::matrix_free::skeleton::{Skeleton, When};
use crate::matrix_free::vectors::{Role, VectorId};
use serde::{Deserialize, Serialize};
use std::fmt;
use sumsq_energy::model::SpaceId;

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
    /// Residuals that are stored for g.
    Residuals,
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
    /// Scales of the damping: what it is clamped by, and its running maximum.
    Scales,
    /// Free elements, and their number.
    Mask,
    /// Vectors that hold free elements or are near one.
    Near,
    /// x + d of x, where the trial leaves some out.
    Matched,
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
    /// The host does something.
    Host(HostStep),
}

/// Something that the host does for a preconditioner, by number, over a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum HostStep {
    /// Inverts A on the coarsest level.
    Invert(u8, SpaceId),
    /// Notes that everything that the levels of aggregates are made of is new.
    Renew(u8, SpaceId),
    /// Makes the levels of aggregates.
    Aggregate(u8, SpaceId),
    /// Makes the correction of aggregates of r.
    Correct(u8, SpaceId),
}

impl HostStep {
    /// The step that has this name in a program.
    pub fn named(name: &str) -> Option<HostStep> {
        let (what, of) = name.split_once(' ')?;
        let (kind, space) = of.split_once('.')?;
        let (kind, space) = (kind.parse().ok()?, SpaceId(space.parse().ok()?));
        match what {
            "invert" => Some(HostStep::Invert(kind, space)),
            "renew" => Some(HostStep::Renew(kind, space)),
            "aggregate" => Some(HostStep::Aggregate(kind, space)),
            "correct" => Some(HostStep::Correct(kind, space)),
            _ => None,
        }
    }
}

impl fmt::Display for HostStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, kind, space) = match self {
            HostStep::Invert(kind, space) => ("invert", kind, space),
            HostStep::Renew(kind, space) => ("renew", kind, space),
            HostStep::Aggregate(kind, space) => ("aggregate", kind, space),
            HostStep::Correct(kind, space) => ("correct", kind, space),
        };
        write!(f, "{what} {kind}.{}", space.0)
    }
}

/// A phase of a solve: what the host runs at once. What depends on M has the number of a preconditioner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Phase {
    /// Excluded elements.
    Mask,
    /// Marks of vectors that follow from excluded elements.
    Near,
    /// Copies that follow from a new x.
    Matched,
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
    /// D, field 0 of M^-1, and b.
    Damping(u8),
    /// Stages of M per linearisation, behind its first damping.
    Prepare(u8),
    /// Stages of M per damping, the first z, and r0.z0 where the damping does not have it.
    Start(u8),
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
        let per_kind =
            |kind| [Damping(kind), Prepare(kind), Start(kind), Pcg(kind), SweepA(kind), SweepB(kind)];
        let kinds = 0..k.preconditioners.len() as u8;
        let shared = [Mask, Near, Matched, Bounds, Cost, TrialCost, Linearise, Scales, Trial];
        shared.into_iter().chain(kinds.flat_map(per_kind)).collect()
    }
}

/// A preconditioner's own stages at these times, and what the host does behind them.
pub fn own(k: &Skeleton, kind: u8, when: When) -> Vec<Step> {
    let of = &k.preconditioners[usize::from(kind)];
    let numbers = 0..of.stages(when);
    let stages = numbers.map(|number| Step::Run(Stage::Preconditioner { kind, when, number }));
    let host = k.spaces.iter().filter_map(|s| match when {
        When::Damped if of.has_hierarchies && s.hierarchy.is_some() => Some(HostStep::Invert(kind, s.id)),
        When::Linearised if of.has_aggregates && s.aggregates.is_some() => Some(HostStep::Renew(kind, s.id)),
        When::Damped if of.has_aggregates && s.aggregates.is_some() => Some(HostStep::Aggregate(kind, s.id)),
        When::Iteration if of.has_aggregates && s.aggregates.is_some() => Some(HostStep::Correct(kind, s.id)),
        _ => None,
    });
    stages.chain(host.map(Step::Host)).collect()
}
