//! Schedules without what was refused of them.

use crate::random::program::Case;
use indexmap::IndexMap;
use sumsq_codegen::{Directive, Error, StageId, Tail};

/// Drops the directive that an error names, if others do not build on it, else all of its stage's, or all; false if there are
/// none left.
pub fn drop_refused(case: &mut Case, error: &Error) -> bool {
    let count = |stages: &IndexMap<StageId, Vec<Directive>>| stages.values().map(Vec::len).sum::<usize>();
    let before = count(&case.schedule.stages);
    if exact_instead(case, &error.to_string()) {
        return true;
    }
    let stages = &mut case.schedule.stages;
    let Error::Schedule { func, directive, .. } = error else {
        // A region that turned out too small, or a consumer that turned out larger.
        stages.retain(|_, v| !v.iter().any(|d| matches!(d, Directive::Bound { .. } | Directive::Sink)));
        return before > 0;
    };
    // Errors of late passes name a loop, such as `f.s0.xi`.
    let of = |s: &StageId| s.to_string() == *func || func.starts_with(&format!("{}.s{}.", s.func, s.stage));
    for (_, v) in stages.iter_mut().filter(|(s, _)| of(s)) {
        v.retain(|d| builds_loops(d) || d.to_string() != *directive);
    }
    if count(stages) == before {
        stages.retain(|s, _| !of(s));
    }
    if count(stages) == before {
        stages.clear();
    }
    before > 0
}

/// Guards the splits of an output that rounds up what is no multiple; false if that is not what is refused.
fn exact_instead(case: &mut Case, text: &str) -> bool {
    let mut changed = false;
    for (_, d) in case.schedule.stages.iter_mut().filter(|(s, _)| text.contains(&format!("{}: ", s.func))) {
        for d in d.iter_mut().filter(|_| text.contains("round_up of ")) {
            if let Directive::Split { tail: tail @ Tail::RoundUp, .. } = d {
                *tail = Tail::GuardWithIf;
                changed = true;
            }
        }
    }
    changed
}

/// Do other directives name what this one makes, or make no sense without it?
fn builds_loops(d: &Directive) -> bool {
    use Directive::*;
    matches!(
        d,
        Split { .. }
            | Fuse { .. }
            | Rename { .. }
            | Rfactor { .. }
            | ComputeAt(_)
            | Sink
            | In { .. }
            | CloneIn { .. }
    )
}
