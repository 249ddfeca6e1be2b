//! Looking through names: what the facts remember of how a name came about.

use crate::analysis::algebra::facts::{Facts, Range};
use crate::expr::walk::{Memo, rewrite};
use crate::expr::{Expr, ExprKind, Name};
use rustc_hash::FxHashMap;

impl Range {
    /// The value of a let-bound name; none for a loop.
    fn value(&self) -> Option<&Expr> {
        self.lo.as_ref().filter(|lo| self.hi.as_ref() == Some(lo))
    }
}

impl Facts {
    /// Replaces names that were let-bound inside the loop over `since` by their values. `alias` is consulted first.
    pub fn expand(&self, e: &Expr, since: &Name, alias: &FxHashMap<Name, Expr>) -> Expr {
        let from = self.named(since).map_or(0, |r| r.depth);
        let mut e = e.clone();
        loop {
            let next = rewrite(&e, &mut Memo::default(), &mut |_, n| {
                let ExprKind::Var(v) = n.kind() else { return n };
                let inside = || self.named(v).filter(|r| r.depth > from)?.value();
                alias.get(v).or_else(inside).cloned().unwrap_or(n)
            });
            if next.id() == e.id() {
                return e;
            }
            e = next;
        }
    }

    /// The first value of a loop variable.
    pub fn first(&self, var: &Name) -> Option<&Expr> {
        self.named(var)?.lo.as_ref()
    }

    /// The first and the last value of a loop variable.
    pub fn range(&self, var: &Name) -> Option<[Expr; 2]> {
        let of = self.named(var)?;
        Some([of.lo.clone()?, of.hi.clone()?])
    }
}
