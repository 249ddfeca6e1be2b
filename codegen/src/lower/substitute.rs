//! Rewriting of expression DAGs: memoised on node identity, without recursion.

use crate::expr::{Expr, ExprKind, Name};
use rustc_hash::{FxHashMap, FxHashSet};

/// Rewrites expressions bottom-up. Each distinct node is visited once over the lifetime of the rewriter, so that
/// sharing between expressions given to the same rewriter is kept.
#[derive(Default)]
pub struct Rewriter {
    /// Node identity to result. The key's node is kept alive next to it, so that identities are not reused.
    memo: FxHashMap<usize, (Expr, Expr)>,
}

impl Rewriter {
    /// `leave` gets each node with its children already rewritten and may replace it.
    pub fn rewrite(&mut self, root: &Expr, leave: &mut dyn FnMut(Expr) -> Expr) -> Expr {
        let mut stack = vec![(root.clone(), false)];
        while let Some((e, children_done)) = stack.pop() {
            if self.memo.contains_key(&e.id()) {
                continue;
            }
            if !children_done {
                stack.push((e.clone(), true));
                e.for_each_child(|c| stack.push((c.clone(), false)));
                continue;
            }
            let mut children = vec![];
            e.for_each_child(|c| children.push(self.memo[&c.id()].1.clone()));
            let new = leave(e.with_children(children));
            self.memo.insert(e.id(), (e, new));
        }
        self.memo[&root.id()].1.clone()
    }
}

/// Replaces variables by expressions, simultaneously.
pub fn substitute_vars(e: &Expr, map: &FxHashMap<Name, Expr>) -> Expr {
    Substitution::new(map).apply(e)
}

/// A substitution of variables that shares its memo over many expressions.
pub struct Substitution<'a> {
    map: &'a FxHashMap<Name, Expr>,
    rewriter: Rewriter,
}

impl<'a> Substitution<'a> {
    /// Variables to their replacements.
    pub fn new(map: &'a FxHashMap<Name, Expr>) -> Self {
        Substitution { map, rewriter: Rewriter::default() }
    }
    /// The expression with the variables replaced.
    pub fn apply(&mut self, e: &Expr) -> Expr {
        let map = self.map;
        self.rewriter.rewrite(e, &mut |n| match n.kind() {
            ExprKind::Var(v) => map.get(v).cloned().unwrap_or(n),
            _ => n,
        })
    }
}

/// All distinct nodes below and including `roots`, in no particular order.
pub fn nodes<'a>(roots: impl IntoIterator<Item = &'a Expr>) -> Vec<&'a Expr> {
    let mut seen = FxHashSet::default();
    let mut out = vec![];
    let mut stack: Vec<&Expr> = roots.into_iter().collect();
    while let Some(e) = stack.pop() {
        if seen.insert(e.id()) {
            out.push(e);
            e.for_each_child(|c| stack.push(c));
        }
    }
    out
}

/// Names of the variables in an expression.
pub fn variables(e: &Expr) -> FxHashSet<Name> {
    let name = |e: &Expr| match e.kind() {
        ExprKind::Var(v) => Some(v.clone()),
        _ => None,
    };
    nodes([e]).into_iter().filter_map(name).collect()
}
