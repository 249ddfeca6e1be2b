//! Which reduction variables may be reordered, or run at once.

use crate::error::Error;
use crate::expr::{ExprKind, Name};
use crate::lower::plans::{Stage, illegal};
use crate::lower::substitute::{nodes, variables};
use crate::lower::validate::is_var;
use crate::schedule::ForKind;

/// Does every iteration write, and read of the Func, a point of its own? True if each reduction variable stands alone in
/// some coordinate, the same in every access.
pub fn distinct_points(s: &Stage) -> bool {
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

/// Parallel and vector loops over reduction variables must not race.
pub fn check_loops(s: &Stage) -> Result<(), Error> {
    for d in s.dims.iter().filter(|d| d.reduction) {
        let from = s.origins(&d.name);
        let free = from.iter().all(|r| independent(s, r));
        let unused = s.args.iter().all(|a| !variables(a).iter().any(|v| from.contains(v)));
        match d.kind {
            ForKind::Parallel if !free => {
                let rule = "iterations of this reduction variable may write the same element; use rfactor";
                return Err(illegal(&s.id, format!("parallel({})", d.name), rule));
            }
            ForKind::Vectorized if !free && (s.ops.is_none() || !unused) => {
                let rule =
                    "the update is neither an associative reduction over this variable nor independent in it";
                return Err(illegal(&s.id, format!("vectorize({})", d.name), rule));
            }
            _ => {}
        }
    }
    Ok(())
}
