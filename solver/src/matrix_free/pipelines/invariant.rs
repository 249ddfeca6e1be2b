//! Invariants of a reduction: the parts of its terms that do not depend on the reduction's variable.
//!
//! A gather over the hyperedges of a vertex reads much of that vertex itself. As an own Func, computed once before the
//! loop, these reads are dense in the row and happen once instead of once per hyperedge.

use rustc_hash::{FxHashMap, FxHashSet};
use sumsq_codegen::{Expr, ExprKind};

/// The terms split at their maximal invariant parts.
pub struct Split {
    /// The invariant parts that read something.
    pub invariants: Vec<Expr>,
    /// The terms, with part k replaced by `stand_in(k)`.
    pub terms: Vec<Expr>,
}

/// Splits `terms` at what does not depend on the variable `var`.
pub fn split(terms: &[Expr], var: &Expr, stand_in: impl Fn(usize, &Expr) -> Expr) -> Split {
    let order = post_order(terms);
    let mut varies: FxHashSet<usize> = FxHashSet::default();
    let mut reads: FxHashSet<usize> = FxHashSet::default();
    for e in &order {
        let mut any =
            (matches!((e.kind(), var.kind()), (ExprKind::Var(a), ExprKind::Var(b)) if a == b), false);
        any.1 = matches!(e.kind(), ExprKind::Call { .. }) && !e.ty().scalar.is_int();
        e.for_each_child(|c| {
            any.0 |= varies.contains(&c.id());
            any.1 |= reads.contains(&c.id());
        });
        if any.0 {
            varies.insert(e.id());
        }
        if any.1 {
            reads.insert(e.id());
        }
    }
    let invariant =
        |e: &Expr| !varies.contains(&e.id()) && reads.contains(&e.id()) && e.ty().scalar.is_float();
    // Maximal: below something that varies, or a whole term.
    let mut invariants: Vec<Expr> = Vec::new();
    let mut replaced: FxHashMap<usize, Expr> = FxHashMap::default();
    let mut take = |e: &Expr| {
        if invariant(e) && !replaced.contains_key(&e.id()) {
            replaced.insert(e.id(), stand_in(invariants.len(), e));
            invariants.push(e.clone());
        }
    };
    for e in &order {
        if varies.contains(&e.id()) {
            e.for_each_child(&mut take);
        }
    }
    terms.iter().for_each(&mut take);
    for e in &order {
        if varies.contains(&e.id()) {
            let mut children = Vec::new();
            e.for_each_child(|c| children.push(replaced.get(&c.id()).unwrap_or(c).clone()));
            replaced.insert(e.id(), e.with_children(children));
        }
    }
    let terms = terms.iter().map(|t| replaced.get(&t.id()).unwrap_or(t).clone()).collect();
    Split { invariants, terms }
}

/// Every node once, operands before users, without recursion.
fn post_order(roots: &[Expr]) -> Vec<Expr> {
    let (mut seen, mut order) = (FxHashSet::default(), Vec::new());
    let mut stack: Vec<(&Expr, bool)> = roots.iter().rev().map(|e| (e, false)).collect();
    while let Some((e, done)) = stack.pop() {
        if done {
            order.push(e.clone());
        } else if seen.insert(e.id()) {
            stack.push((e, true));
            e.for_each_child(|c| stack.push((c, false)));
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::split;
    use sumsq_codegen::{Expr, ScalarType};

    #[test]
    fn parts_that_do_not_vary_are_taken_whole() {
        let i = Expr::var("i");
        let read = |name: &str, at: &Expr| Expr::call(name, ScalarType::F32, vec![at.clone()], 0);
        let (a, b) = (read("a", &Expr::var("row")), read("b", &Expr::var("row")));
        let own = &a * &b;
        let term = &own + &(&read("c", &i) * &a);
        let parts = split(&[term], &i, |k, e| Expr::call("own", e.ty().scalar, vec![Expr::var("row")], k));
        let stand_in = |k| Expr::call("own", ScalarType::F32, vec![Expr::var("row")], k);
        assert_eq!(parts.invariants.len(), 2);
        assert!(parts.invariants.iter().any(|e| e.id() == own.id()));
        let text: Vec<String> = parts.terms.iter().map(|t| format!("{t}")).collect();
        let c = read("c", &i);
        let expected = [&stand_in(0) + &(&c * &stand_in(1)), &stand_in(1) + &(&c * &stand_in(0))];
        assert!(expected.iter().any(|e| format!("{e}") == text[0]), "{text:?}");
    }
}
