//! Walking and rebuilding expressions, for everything above.
//!
//! Expressions are DAGs: every walk here visits a distinct node once, without recursion, and rebuilding keeps sharing.

use crate::expr::{Expr, ExprKind, Name};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

/// Results by node. Holds the keys alive, so that an id is never reused.
#[derive(Default)]
pub struct Memo(FxHashMap<usize, (Expr, Expr)>);

impl Memo {
    /// The result for `e`.
    pub fn get(&self, e: &Expr) -> Option<Expr> {
        self.0.get(&e.id()).map(|(_, r)| r.clone())
    }
    /// Records the result for `e`.
    pub fn insert(&mut self, e: &Expr, result: Expr) {
        self.0.insert(e.id(), (e.clone(), result));
    }
    /// Forgets everything, when what `f` does has changed.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Rebuilds `e` from its leaves: `f(old, rebuilt)` is called once per distinct node, where `rebuilt` is `old` over
/// the results for its children (with the lanes of those), and returns what replaces it.
pub fn rewrite(e: &Expr, memo: &mut Memo, f: &mut impl FnMut(&Expr, Expr) -> Expr) -> Expr {
    let mut stack = vec![(e, false)];
    while let Some((e, ready)) = stack.pop() {
        if memo.0.contains_key(&e.id()) {
            continue;
        }
        if !ready {
            stack.push((e, true));
            let at = stack.len();
            e.for_each_child(|c| stack.push((c, false)));
            stack[at..].reverse();
            continue;
        }
        let mut children = vec![];
        e.for_each_child(|c| children.push(memo.0[&c.id()].1.clone()));
        let result = f(e, e.with_children(children));
        memo.insert(e, result);
    }
    memo.0[&e.id()].1.clone()
}

/// The same expression with one node for all equal ones.
pub fn interned(e: &Expr) -> Expr {
    Interner::default().apply(e)
}

/// One node for all equal ones of many expressions.
#[derive(Default)]
pub struct Interner {
    made: FxHashSet<Expr>,
    memo: Memo,
}

impl Interner {
    /// The same expression over the nodes of this and earlier ones.
    pub fn apply(&mut self, e: &Expr) -> Expr {
        let made = &mut self.made;
        rewrite(e, &mut self.memo, &mut |_, new| one_of(made, new))
    }

    /// The same node, of children that are interned.
    pub fn node(&mut self, new: Expr) -> Expr {
        one_of(&mut self.made, new)
    }
}

fn one_of(made: &mut FxHashSet<Expr>, new: Expr) -> Expr {
    if let Some(old) = made.get(&new) {
        return old.clone();
    }
    made.insert(new.clone());
    new
}

/// A substitution of variables that shares its memo over many expressions, so that sharing between them is kept.
pub struct Substitution<'a> {
    map: &'a FxHashMap<Name, Expr>,
    memo: Memo,
}

impl<'a> Substitution<'a> {
    /// Variables to their replacements.
    pub fn new(map: &'a FxHashMap<Name, Expr>) -> Self {
        Substitution { map, memo: Memo::default() }
    }

    /// The expression with the variables replaced, simultaneously.
    pub fn apply(&mut self, e: &Expr) -> Expr {
        rewrite(e, &mut self.memo, &mut |old, new| match old.kind() {
            ExprKind::Var(n) => self.map.get(n).cloned().unwrap_or(new),
            _ => new,
        })
    }
}

/// Replaces variables.
pub fn substitute(e: &Expr, by: &FxHashMap<Name, Expr>) -> Expr {
    Substitution::new(by).apply(e)
}

/// Nodes that a walk has come to. Most expressions are small: their nodes are compared, and not hashed.
#[derive(Default)]
struct Seen {
    few: SmallVec<[usize; 16]>,
    many: FxHashSet<usize>,
}

impl Seen {
    /// False if the node is there already.
    fn insert(&mut self, e: &Expr) -> bool {
        let id = e.id();
        if !self.many.is_empty() {
            return self.many.insert(id);
        }
        if self.few.contains(&id) {
            return false;
        }
        self.few.push(id);
        if self.few.spilled() {
            self.many.extend(self.few.drain(..));
        }
        true
    }
}

/// Calls `f` on every distinct node under `e`, in no particular order; does not go below nodes where it returns false.
pub fn visit<'a>(e: &'a Expr, f: &mut impl FnMut(&'a Expr) -> bool) {
    let mut seen = Seen::default();
    let mut stack: SmallVec<[&Expr; 16]> = smallvec![e];
    while let Some(e) = stack.pop() {
        if seen.insert(e) && f(e) {
            e.for_each_child(|c| stack.push(c));
        }
    }
}

/// All distinct nodes below and including `roots`, in no particular order.
pub fn nodes<'a>(roots: impl IntoIterator<Item = &'a Expr>) -> Vec<&'a Expr> {
    let mut seen = Seen::default();
    let mut out = vec![];
    let mut stack: Vec<&Expr> = roots.into_iter().collect();
    while let Some(e) = stack.pop() {
        if seen.insert(e) {
            out.push(e);
            e.for_each_child(|c| stack.push(c));
        }
    }
    out
}

/// Distinct nodes under `roots`, operands first.
pub fn postorder<'a>(roots: &[&'a Expr]) -> Vec<&'a Expr> {
    let mut seen = FxHashSet::default();
    let mut out = vec![];
    let mut stack: Vec<(&Expr, bool)> = roots.iter().rev().map(|r| (*r, false)).collect();
    while let Some((e, done)) = stack.pop() {
        if done {
            out.push(e);
        } else if seen.insert(e.id()) {
            stack.push((e, true));
            let at = stack.len();
            e.for_each_child(|c| stack.push((c, false)));
            stack[at..].reverse();
        }
    }
    out
}

/// Names of the variables in an expression.
pub fn variables(e: &Expr) -> FxHashSet<Name> {
    let mut out = FxHashSet::default();
    visit(e, &mut |n| {
        if let ExprKind::Var(v) = n.kind() {
            out.insert(v.clone());
        }
        true
    });
    out
}

/// True if some node under `e` satisfies `p`.
pub fn any(e: &Expr, p: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    visit(e, &mut |n| {
        found |= p(n);
        !found
    });
    found
}

/// True if an expression reads a buffer.
pub(crate) fn loads(e: &Expr) -> bool {
    any(e, |n| matches!(n.kind(), ExprKind::Load { .. }))
}

/// True if `e` mentions variable `name`.
pub fn uses_var(e: &Expr, name: &str) -> bool {
    any(e, |n| matches!(n.kind(), ExprKind::Var(v) if &**v == name))
}
