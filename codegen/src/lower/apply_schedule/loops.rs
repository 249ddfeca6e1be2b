//! Directives that change the loops of one stage.

use super::races::distinct_points;
use crate::error::Error;
use crate::expr::{ExprKind, Name};
use crate::lower::plans::{Dim, FuncPlan, Split, Stage, illegal};
use crate::lower::substitute::nodes;
use crate::schedule::Tail;
use crate::types::Type;

pub fn find_dim(s: &Stage, var: &Name, directive: &str) -> Result<usize, Error> {
    s.dims.iter().position(|d| d.name == *var).ok_or_else(|| {
        let loops: Vec<&str> = s.dims.iter().map(|d| &*d.name).collect();
        illegal(&s.id, directive, format!("{var} is not a loop here; the loops are {}", loops.join(" ")))
    })
}

pub fn split(plan: &mut FuncPlan, k: usize, s: Split) -> Result<(), Error> {
    let is_output = plan.output.is_some() && !plan.sink;
    let stage = &mut plan.stages[k];
    let text = format!("split({}, {}, {})", s.old, s.outer, s.inner);
    let i = find_dim(stage, &s.old, &text)?;
    let used = |n: &Name| {
        stage.dims.iter().any(|d| d.name == *n)
            || stage.splits.iter().any(|t| t.old == *n)
            || plan.func.vars.iter().any(|v| v.0 == *n)
    };
    if s.outer == s.inner || used(&s.outer) || used(&s.inner) {
        return Err(illegal(&stage.id, text, "the new names must be new"));
    }
    if s.factor.ty() != Type::I32 || s.factor.as_int().is_some_and(|f| f < 1) {
        return Err(illegal(&stage.id, text, "the factor must be an i32 of at least 1"));
    }
    if nodes([&s.factor]).iter().any(|e| matches!(e.kind(), ExprKind::Var(_) | ExprKind::Call { .. })) {
        return Err(illegal(&stage.id, text, "the factor must be a constant or made of parameters"));
    }
    if s.tail == Tail::RoundUp && (k > 0 || is_output) {
        let rule = "RoundUp writes beyond the region: pure definitions of intermediates only; use Predicate";
        return Err(illegal(&stage.id, text, rule));
    }
    if s.tail == Tail::ShiftInwards && k > 0 {
        let rule = "ShiftInwards would update some points twice: pure definitions only; use Predicate";
        return Err(illegal(&stage.id, text, rule));
    }
    if let (Tail::RoundUp, Some(extent)) = (s.tail, inner_extent(stage, &s.old))
        && extent.zip(s.factor.as_int()).is_none_or(|(n, factor)| n % factor != 0)
    {
        let rule = "RoundUp of an inner loop needs a factor that divides its extent; use Predicate";
        return Err(illegal(&stage.id, text, rule));
    }
    let d = stage.dims[i].clone();
    stage.dims[i].name = s.inner.clone();
    stage.dims.insert(i + 1, Dim { name: s.outer.clone(), ..d });
    stage.splits.push(s);
    Ok(())
}

/// The extent of a loop inside of a split, as far as it is constant; none for a whole dimension or the outer loops of one.
fn inner_extent(s: &Stage, name: &Name) -> Option<Option<i64>> {
    if let Some(t) = s.splits.iter().find(|t| t.inner == *name) {
        return Some(t.factor.as_int());
    }
    let t = s.splits.iter().find(|t| t.outer == *name)?;
    let old = inner_extent(s, &t.old)?;
    Some(old.zip(t.factor.as_int()).map(|(n, factor)| (n + factor - 1) / factor))
}

/// Puts the named loops, innermost first, in the places they occupied.
pub fn reorder_dims(s: &mut Stage, names: &[Name]) -> Result<(), Error> {
    let text = format!("reorder({})", names.join(", "));
    let mut at = vec![];
    for n in names {
        let i = find_dim(s, n, &text)?;
        if at.contains(&i) {
            return Err(illegal(&s.id, text, format!("{n} is named twice")));
        }
        at.push(i);
    }
    let reductions =
        |dims: &[Dim]| -> Vec<Name> { dims.iter().filter(|d| d.reduction).map(|d| d.name.clone()).collect() };
    let before = reductions(&s.dims);
    let moved: Vec<Dim> = at.iter().map(|&i| s.dims[i].clone()).collect();
    at.sort_unstable();
    for (i, d) in at.into_iter().zip(moved) {
        s.dims[i] = d;
    }
    if reductions(&s.dims) != before && s.ops.is_none() && !distinct_points(s) {
        let rule =
            "changes the order of reduction variables of an update that is not an associative reduction";
        return Err(illegal(&s.id, text, rule));
    }
    Ok(())
}
