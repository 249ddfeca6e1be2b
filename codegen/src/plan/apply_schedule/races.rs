//! Rules for reduction variables that are reordered, or run at once.

use crate::analysis::associative::Reduction;
use crate::error::Error;
use crate::expr::walk::{nodes, variables};
use crate::expr::{ExprKind, Name};
use crate::plan::plans::{Stage, illegal};
use crate::plan::validate::is_var;
use crate::types::ScalarType;

/// Does every iteration write, and read of the Func, a point of its own? True if each reduction variable stands alone in
/// some coordinate, the same in every access.
pub(super) fn distinct_points(s: &Stage) -> bool {
    s.rvars.iter().all(|r| independent(s, &r.name))
}

/// Do distinct values of reduction variable `r` touch distinct elements of the Func?
fn independent(s: &Stage, r: &Name) -> bool {
    let Some(place) = s.args.iter().position(|a| is_var(a, r)) else { return false };
    nodes(s.args.iter().chain(&s.values).chain(&s.predicate)).iter().all(|e| match e.kind() {
        ExprKind::Call { name, args, .. } if *name == s.id.func => is_var(&args[place], r),
        _ => true,
    })
}

/// Parallel and vector loops over reduction variables must not race, and float sums keep their order unless the stage is
/// relaxed. `types` are those of the tuple.
pub(super) fn check_loops(s: &Stage, types: &[ScalarType]) -> Result<(), Error> {
    let rounds = s.reduction.as_ref().is_some_and(|r| r.rounds(types));
    if let (Some(text), true, false) = (&s.reordered, rounds, s.relaxed) {
        let rule = "another order rounds a sum of floats differently; say `relaxed` if that may be";
        return Err(illegal(&s.id, text.clone(), rule));
    }
    let elementwise = s.reduction.as_ref().is_some_and(Reduction::commutes);
    if s.atomic && !elementwise {
        return Err(illegal(&s.id, "atomic", "the update is no f(a) = f(a) op e, op in + * min max & | ^"));
    }
    for d in s.dims.iter().filter(|d| d.reduction) {
        let from = s.origins(&d.name);
        if from.iter().all(|r| independent(s, r)) {
            continue;
        }
        let unused = s.args.iter().all(|a| !variables(a).iter().any(|v| from.contains(v)));
        match d.kind {
            kind if kind.is_parallel() && s.atomic && rounds && !s.relaxed => {
                let rule = "atomic sums of floats come in any order and round differently; say `relaxed` if that may be";
                return Err(illegal(&s.id, d.directive(), rule));
            }
            kind if kind.is_parallel() && !s.atomic => {
                let rule =
                    "iterations of this reduction variable may write the same element; use rfactor or atomic";
                return Err(illegal(&s.id, d.directive(), rule));
            }
            kind if kind.is_vector() && !(elementwise && (unused || s.atomic)) => {
                let (shared, ordered) = (
                    "lanes of this reduction variable may write the same element; use rfactor or atomic",
                    "the update is neither an associative reduction over this variable nor independent in it",
                );
                return Err(illegal(&s.id, d.directive(), if elementwise { shared } else { ordered }));
            }
            _ => {}
        }
    }
    Ok(())
}
