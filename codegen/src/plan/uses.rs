//! Calls of Funcs and inputs: by which stages, at which coordinates.

use crate::expr::walk::nodes;
use crate::expr::{Expr, ExprKind, Name};
use crate::plan::plans::Stage;
use crate::schedule::StageId;
use rustc_hash::{FxHashMap, FxHashSet};

/// Calls of one Func or input: the stages that call it, with the distinct coordinates.
pub(crate) type Uses = FxHashMap<Name, Vec<(StageId, Vec<Vec<Expr>>)>>;

/// Collects the calls of all stages.
pub(crate) fn uses<'a>(stages: impl Iterator<Item = &'a Stage>) -> Uses {
    let mut out = Uses::default();
    for s in stages {
        let mut seen: FxHashSet<(Name, Vec<Expr>)> = FxHashSet::default();
        for e in nodes(exprs(s)) {
            let ExprKind::Call { name, args, .. } = e.kind() else { continue };
            if !seen.insert((name.clone(), args.clone())) {
                continue;
            }
            let list = out.entry(name.clone()).or_default();
            match list.last_mut().filter(|l| l.0 == s.id) {
                Some(l) => l.1.push(args.clone()),
                None => list.push((s.id.clone(), vec![args.clone()])),
            }
        }
    }
    out
}

/// All expressions of a stage.
fn exprs(s: &Stage) -> impl Iterator<Item = &Expr> {
    let bounds = s.rvars.iter().flat_map(|r| [&r.min, &r.max]);
    s.args.iter().chain(&s.values).chain(&s.predicate).chain(bounds).chain(s.skips.iter().map(|x| &x.1))
}
