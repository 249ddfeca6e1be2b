//! Walking and rebuilding expressions and statements, for all passes.
//!
//! Expressions are DAGs: every walk here visits a distinct node once, without recursion, and rebuilding keeps
//! sharing.

use crate::expr::{Expr, ExprKind, Name};
use crate::ir::stmt::Stmt;
use rustc_hash::{FxHashMap, FxHashSet};

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
    let mut made: FxHashSet<Expr> = FxHashSet::default();
    rewrite(e, &mut Memo::default(), &mut |_, new| match made.get(&new) {
        Some(old) => old.clone(),
        None => {
            made.insert(new.clone());
            new
        }
    })
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

/// Calls `f` on every distinct node under `e`, in no particular order; does not go below nodes where it returns false.
pub fn visit<'a>(e: &'a Expr, f: &mut impl FnMut(&'a Expr) -> bool) {
    let mut seen = FxHashSet::default();
    let mut stack = vec![e];
    while let Some(e) = stack.pop() {
        if seen.insert(e.id()) && f(e) {
            e.for_each_child(|c| stack.push(c));
        }
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

/// True if `e` mentions variable `name`.
pub fn uses_var(e: &Expr, name: &str) -> bool {
    any(e, |n| matches!(n.kind(), ExprKind::Var(v) if &**v == name))
}

/// The statement with its own expressions (not those of nested statements) mapped by `f`, and its direct nested
/// statements by `g`.
pub fn map_children(s: &Stmt, f: &mut impl FnMut(&Expr) -> Expr, g: &mut impl FnMut(&Stmt) -> Stmt) -> Stmt {
    match s {
        Stmt::Block(v) => Stmt::Block(v.iter().map(g).collect()),
        Stmt::Let { name, value, body } => {
            Stmt::Let { name: name.clone(), value: f(value), body: Box::new(g(body)) }
        }
        Stmt::For { var, min, extent, kind, body } => Stmt::For {
            var: var.clone(),
            min: f(min),
            extent: f(extent),
            kind: *kind,
            body: Box::new(g(body)),
        },
        Stmt::If { cond, then, otherwise } => Stmt::If {
            cond: f(cond),
            then: Box::new(g(then)),
            otherwise: otherwise.as_ref().map(|o| Box::new(g(o))),
        },
        Stmt::Assert { cond, message, args } => {
            Stmt::Assert { cond: f(cond), message: message.clone(), args: args.iter().map(f).collect() }
        }
        Stmt::Realize { func, region, body } => Stmt::Realize {
            func: func.clone(),
            region: region.iter().map(|(a, b)| (f(a), f(b))).collect(),
            body: Box::new(g(body)),
        },
        Stmt::Produce { stage, body } => Stmt::Produce { stage: stage.clone(), body: Box::new(g(body)) },
        Stmt::Provide { func, args, values, to } => Stmt::Provide {
            func: func.clone(),
            args: args.iter().map(&mut *f).collect(),
            values: values.iter().map(f).collect(),
            to: to.clone(),
        },
        Stmt::Allocate { buffer, ty, extent, memory, zeroed, body } => Stmt::Allocate {
            buffer: buffer.clone(),
            ty: *ty,
            extent: f(extent),
            memory: *memory,
            zeroed: *zeroed,
            body: Box::new(g(body)),
        },
        Stmt::Store { buffer, index, value, predicate, aligned, non_temporal } => Stmt::Store {
            buffer: buffer.clone(),
            index: f(index),
            value: f(value),
            predicate: predicate.as_ref().map(f),
            aligned: *aligned,
            non_temporal: *non_temporal,
        },
        Stmt::Prefetch { name, args } => {
            Stmt::Prefetch { name: name.clone(), args: args.iter().map(f).collect() }
        }
        Stmt::PrefetchByte { buffer, byte } => Stmt::PrefetchByte { buffer: buffer.clone(), byte: f(byte) },
        Stmt::Accumulate { buffer, op, index, value, predicate } => Stmt::Accumulate {
            buffer: buffer.clone(),
            op: *op,
            index: f(index),
            value: f(value),
            predicate: predicate.as_ref().map(f),
        },
    }
}

/// Calls `f` on every statement under `s` (itself included), outermost first.
pub fn visit_stmts<'a>(s: &'a Stmt, f: &mut impl FnMut(&'a Stmt)) {
    f(s);
    for_each_child(s, &mut |s| visit_stmts(s, f));
}

/// Calls `f` on the statements directly inside of `s`, in order.
pub fn for_each_child<'a>(s: &'a Stmt, f: &mut dyn FnMut(&'a Stmt)) {
    match s {
        Stmt::Block(v) => v.iter().for_each(f),
        Stmt::Let { body, .. }
        | Stmt::For { body, .. }
        | Stmt::Realize { body, .. }
        | Stmt::Produce { body, .. }
        | Stmt::Allocate { body, .. } => f(body),
        Stmt::If { then, otherwise, .. } => {
            f(then);
            if let Some(o) = otherwise {
                f(o);
            }
        }
        Stmt::Assert { .. }
        | Stmt::Provide { .. }
        | Stmt::Store { .. }
        | Stmt::Accumulate { .. }
        | Stmt::Prefetch { .. }
        | Stmt::PrefetchByte { .. } => {}
    }
}

/// Calls `f` on every expression that `s` itself holds, not those of nested statements.
pub fn own_exprs<'a>(s: &'a Stmt, f: &mut impl FnMut(&'a Expr)) {
    match s {
        Stmt::Block(_) | Stmt::Produce { .. } => {}
        Stmt::Let { value, .. } => f(value),
        Stmt::For { min, extent, .. } => {
            f(min);
            f(extent);
        }
        Stmt::If { cond, .. } => f(cond),
        Stmt::Assert { cond, args, .. } => {
            f(cond);
            args.iter().for_each(f);
        }
        Stmt::Realize { region, .. } => region.iter().for_each(|(a, b)| {
            f(a);
            f(b);
        }),
        Stmt::Provide { args, values, .. } => args.iter().chain(values).for_each(f),
        Stmt::Prefetch { args, .. } => args.iter().for_each(f),
        Stmt::PrefetchByte { byte, .. } => f(byte),
        Stmt::Allocate { extent, .. } => f(extent),
        Stmt::Store { index, value, predicate, .. } | Stmt::Accumulate { index, value, predicate, .. } => {
            f(index);
            f(value);
            predicate.iter().for_each(f);
        }
    }
}

/// A block without nested or empty blocks; a single statement stands for itself.
pub fn block(stmts: Vec<Stmt>) -> Stmt {
    let mut out = vec![];
    for s in stmts {
        match s {
            Stmt::Block(v) => out.extend(v),
            s => out.push(s),
        }
    }
    if out.len() == 1 { out.remove(0) } else { Stmt::Block(out) }
}
