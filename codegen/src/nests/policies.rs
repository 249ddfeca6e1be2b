//! Partition policies: which conditions of a loop the pass [`crate::lower::partition`] may test up front.

use crate::error::Error;
use crate::expr::walk::{Memo, any, rewrite, variables};
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use crate::plan::plans::{Stage, illegal};
use crate::schedule::{Directive, Partition};
use rustc_hash::FxHashSet;

/// The body of loop `j` of `s`, counted from outside, whose variable is `var`, under the stage's policy for it.
pub(super) fn with_policy(s: &Stage, j: usize, var: &Name, body: Stmt) -> Result<Stmt, Error> {
    let local = &s.dims[s.dims.len() - 1 - j].name;
    let Some(&(_, policy)) = s.partition.iter().find(|(v, _)| v == local) else { return Ok(body) };
    let mut marks = Marks { on: FxHashSet::from_iter([var.clone()]), policy, found: false };
    let body = marks.stmt(&body);
    if policy == Partition::Always && !marks.found {
        let text = Directive::Partition { var: local.clone(), policy }.to_string();
        return Err(illegal(&s.id, text, "there is no condition on this loop"));
    }
    Ok(body)
}

/// Sets or removes the `likely` marks of conditions on some names, and on what is let-bound from them.
struct Marks {
    on: FxHashSet<Name>,
    policy: Partition,
    /// Was a condition marked, or marked already?
    found: bool,
}

impl Marks {
    fn stmt(&mut self, s: &Stmt) -> Stmt {
        if let Stmt::Let { name, value, .. } = s
            && self.concerns(value)
        {
            self.on.insert(name.clone());
        }
        let cond = match s {
            Stmt::If { cond, .. } => Some(cond.id()),
            _ => None,
        };
        let mut memo = Memo::default();
        let mut marked = |e: &Expr| {
            let own = cond == Some(e.id());
            let e = rewrite(e, &mut memo, &mut |_, n| self.node(n));
            if own { self.condition(&e) } else { e }
        };
        let s = map_children(s, &mut marked, &mut Stmt::clone);
        map_children(&s, &mut Expr::clone, &mut |s| self.stmt(s))
    }

    fn node(&mut self, n: Expr) -> Expr {
        match n.kind() {
            ExprKind::Likely(c) if self.concerns(c) => {
                self.found = true;
                if self.policy == Partition::Never { c.clone() } else { n }
            }
            ExprKind::Select(c, a, b) => Expr::select(self.condition(c), a, b),
            _ => n,
        }
    }

    /// A condition as the policy wants it.
    fn condition(&mut self, c: &Expr) -> Expr {
        let known = |n: &Expr| matches!(n.kind(), ExprKind::Likely(_) | ExprKind::Call { .. });
        if self.policy != Partition::Always || any(c, known) || !self.concerns(c) {
            return c.clone();
        }
        self.found = true;
        c.clone().likely()
    }

    fn concerns(&self, e: &Expr) -> bool {
        variables(e).iter().any(|v| self.on.contains(v))
    }
}
