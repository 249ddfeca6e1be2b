//! Resolution of the tail `Auto`, and of blocks that may overlap.

use crate::error::Error;
use crate::expr::Name;
use crate::plan::plans::{Change, FuncPlan, Level, Split, Stage, illegal};
use crate::schedule::{Directive, LoopLevel, Tail};
use indexmap::IndexMap;

/// Replaces every `Auto`: by `ShiftInwards` in pure definitions where that is legal, else by `Predicate`. Refuses an explicit
/// `ShiftInwards` whose overlapping blocks would run in parallel.
pub(super) fn resolve(plans: &mut IndexMap<Name, FuncPlan>) -> Result<(), Error> {
    let holds_sink: Vec<LoopLevel> = plans
        .values()
        .filter(|f| f.sink)
        .filter_map(|f| if let Level::At(l) = &f.compute { Some(l.clone()) } else { None })
        .collect();
    for f in plans.values_mut() {
        let in_place = f.in_place_of.is_some();
        for (k, s) in f.stages.iter_mut().enumerate() {
            let once = k > 0 || in_place || holds_sink.iter().any(|l| l.stage == s.id);
            resolve_stage(s, once)?;
        }
    }
    Ok(())
}

/// `once`: no point may be computed twice.
fn resolve_stage(s: &mut Stage, once: bool) -> Result<(), Error> {
    for i in 0..s.changes.len() {
        let Change::Split(t) = &s.changes[i] else { continue };
        let parallel = runs_in_parallel(s, t);
        let Change::Split(t) = &mut s.changes[i] else { continue };
        match (t.tail, parallel) {
            (Tail::Auto, None) if !once => t.tail = Tail::ShiftInwards,
            (Tail::Auto, _) => t.tail = Tail::Predicate,
            (Tail::ShiftInwards, Some(v)) => {
                let directive = Directive::Split {
                    old: t.old.clone(),
                    outer: t.outer.clone(),
                    inner: t.inner.clone(),
                    factor: t.factor.clone(),
                    tail: t.tail,
                };
                let rule = format!(
                    "the last two blocks overlap, but the loop {v} runs them in parallel; use Predicate"
                );
                return Err(illegal(&s.id, directive.to_string(), rule));
            }
            _ => {}
        }
    }
    s.special.iter_mut().try_for_each(|(_, s)| resolve_stage(s, once))
}

/// The parallel loop that runs blocks of a split, or places in them with a loop over blocks inside, if there is one.
fn runs_in_parallel(s: &Stage, t: &Split) -> Option<Name> {
    // The innermost loop is the first.
    let over_blocks = s.dims.iter().position(|d| s.descends(&d.name, &t.outer));
    let apart = |i: usize, name: &Name| {
        s.descends(name, &t.outer) || s.descends(name, &t.inner) && over_blocks.is_some_and(|b| b < i)
    };
    let mut parallel = s.dims.iter().enumerate().filter(|(_, d)| d.kind.is_parallel());
    parallel.find(|(i, d)| apart(*i, &d.name)).map(|(_, d)| d.name.clone())
}
