//! Guards of what a thread adds up, as conditions on values.
//!
//! Before: a kernel in whose thread nests statements follow each other that update one element, each under a condition of its own, as the
//! copies of an unrolled loop do: `if c { b[i] = b[i] + a[j] }`. After: `b[i] = select(c, b[i] + a[select(c, j, 0)], b[i])`, all of them where one of the
//! conditions holds. So a thread asks for all that it adds up at once, where behind a branch it would wait for each. Only what allocations at root
//! hold is read so, which are never empty on a device. Values and their order stay.

use crate::expr::walk::{Memo, any, loads, rewrite, substitute};
use crate::expr::{Expr, ExprKind, Flat, Name};
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use crate::schedule::ForKind;
use rustc_hash::FxHashMap;

/// See the module's description. `own`: is this an allocation around the kernel?
pub(super) fn unguarded(s: &Stmt, own: &dyn Fn(&Flat) -> bool) -> Stmt {
    walk(s, own, false)
}

fn walk(s: &Stmt, own: &dyn Fn(&Flat) -> bool, thread: bool) -> Stmt {
    let list = match s {
        Stmt::Block(list) if thread => list,
        s => {
            let thread = thread || matches!(s, Stmt::For { kind: ForKind::GpuThread, .. });
            return map_children(s, &mut Expr::clone, &mut |s| walk(s, own, thread));
        }
    };
    let (mut out, mut rest) = (vec![], &list[..]);
    while let Some(first) = rest.first() {
        let all: Vec<Guarded> = rest.iter().map_while(|s| Guarded::of(s, own)).collect();
        let n = all.iter().take_while(|g| g.element == all[0].element).count();
        if n > 1 {
            let one = all[..n].iter().map(|g| g.cond.clone()).reduce(|a, b| a.or(b)).expect("several");
            let then = Box::new(Stmt::Block(rest[..n].iter().map(without_guard).collect()));
            out.push(Stmt::If { cond: one, then, otherwise: None });
        } else {
            out.push(walk(first, own, thread));
        }
        rest = &rest[n.max(1)..];
    }
    Stmt::Block(out)
}

/// An update under a condition, with lets around it.
struct Guarded<'a> {
    /// Without the names of the lets, as the element is.
    cond: Expr,
    element: (&'a Flat, &'a Expr),
}

impl<'a> Guarded<'a> {
    fn of(s: &'a Stmt, own: &dyn Fn(&Flat) -> bool) -> Option<Guarded<'a>> {
        let (mut s, mut lets) = (s, FxHashMap::<Name, Expr>::default());
        while let Stmt::Let { name, value, body } = s
            && !loads(value)
        {
            lets.insert(name.clone(), substitute(value, &lets));
            s = body;
        }
        let Stmt::If { cond, then, otherwise: None } = s else { return None };
        let Stmt::Store { buffer, index, value, predicate: None, .. } = &**then else { return None };
        let updates = |n: &Expr| is_load(n).is_some_and(|of| of == (buffer, index));
        let others = |n: &Expr| {
            matches!(n.kind(), ExprKind::Load { buffer: from, predicate, .. }
                if !updates(n) && (from == buffer || predicate.is_some() || !own(from)))
        };
        let local = |n: &Expr| matches!(n.kind(), ExprKind::Var(name) if lets.contains_key(name));
        let fits = !loads(cond) && !loads(index) && !any(index, local) && any(value, updates);
        (fits && !any(value, others))
            .then(|| Guarded { cond: substitute(cond, &lets), element: (buffer, index) })
    }
}

/// Buffer and index of a load.
fn is_load(e: &Expr) -> Option<(&Flat, &Expr)> {
    match e.kind() {
        ExprKind::Load { buffer, index, predicate: None } => Some((buffer, index)),
        _ => None,
    }
}

/// A guarded update as one that is always made.
fn without_guard(s: &Stmt) -> Stmt {
    let Stmt::If { cond, then, .. } = s else {
        return map_children(s, &mut Expr::clone, &mut without_guard);
    };
    let Stmt::Store { buffer, index, value, predicate, aligned, non_temporal } = &**then else {
        return s.clone();
    };
    let read = rewrite(value, &mut Memo::default(), &mut |_, e| match is_load(&e) {
        Some((from, at)) if from != buffer => {
            let at = Expr::select(cond.clone(), at.clone(), Expr::int(at.ty(), 0));
            let kind = ExprKind::Load { buffer: from.clone(), index: at, predicate: None };
            Expr::new(kind, e.ty())
        }
        _ => e,
    });
    let before = ExprKind::Load { buffer: buffer.clone(), index: index.clone(), predicate: None };
    let before = Expr::new(before, value.ty());
    Stmt::Store {
        buffer: buffer.clone(),
        index: index.clone(),
        value: Expr::select(cond.clone(), read, before),
        predicate: predicate.clone(),
        aligned: *aligned,
        non_temporal: *non_temporal,
    }
}
