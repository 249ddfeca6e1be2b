//! Guards of what a thread adds up, as conditions on values.
//!
//! Before: a kernel in whose thread nests statements follow each other that update the same elements, each under a condition of its own, as the
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
        let n = all.iter().take_while(|g| g.elements == all[0].elements).count();
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

/// Updates under a condition, with lets around it.
struct Guarded<'a> {
    /// Without the names of the lets, as the elements are.
    cond: Expr,
    elements: Vec<Element<'a>>,
}

/// Buffer and index.
type Element<'a> = (&'a Flat, &'a Expr);

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
        let list = if let Stmt::Block(list) = &**then { &list[..] } else { std::slice::from_ref(&**then) };
        let updates: Vec<(Element, &Expr)> = list.iter().map(update).collect::<Option<_>>()?;
        let elements: Vec<Element> = updates.iter().map(|u| u.0).collect();
        let local = |n: &Expr| matches!(n.kind(), ExprKind::Var(name) if lets.contains_key(name));
        let stays = |index: &Expr| !loads(index) && !any(index, local);
        let fixed = |from: &Flat| own(from) && elements.iter().all(|e| e.0 != from);
        let fits = updates.iter().all(|&(element, value)| {
            let other = |n: &Expr| {
                matches!(n.kind(), ExprKind::Load { buffer, predicate, .. }
                    if is_load(n) != Some(element) && (predicate.is_some() || !fixed(buffer)))
            };
            stays(element.1) && !any(value, other)
        });
        (fits && !loads(cond)).then(|| Guarded { cond: substitute(cond, &lets), elements })
    }
}

/// Element and value of a store that reads what it replaces.
fn update(s: &Stmt) -> Option<(Element<'_>, &Expr)> {
    let Stmt::Store { buffer, index, value, predicate: None, .. } = s else { return None };
    any(value, |n| is_load(n) == Some((buffer, index))).then_some(((buffer, index), value))
}

/// The element that a load reads.
fn is_load(e: &Expr) -> Option<Element<'_>> {
    match e.kind() {
        ExprKind::Load { buffer, index, predicate: None } => Some((buffer, index)),
        _ => None,
    }
}

/// Guarded updates as ones that are always made.
fn without_guard(s: &Stmt) -> Stmt {
    match s {
        Stmt::If { cond, then, .. } => always(then, cond),
        s => map_children(s, &mut Expr::clone, &mut without_guard),
    }
}

/// Updates that leave what there is where the condition does not hold.
fn always(s: &Stmt, cond: &Expr) -> Stmt {
    let Stmt::Store { buffer, index, value, predicate, aligned, non_temporal } = s else {
        return map_children(s, &mut Expr::clone, &mut |s| always(s, cond));
    };
    let read = rewrite(value, &mut Memo::default(), &mut |_, e| match is_load(&e) {
        Some((from, at)) if from != buffer => {
            let at = Expr::select(cond.clone(), at.clone(), Expr::int(at.ty(), 0));
            Expr::load(from.clone(), at, e.ty())
        }
        _ => e,
    });
    let before = Expr::load(buffer.clone(), index.clone(), value.ty());
    Stmt::Store {
        buffer: buffer.clone(),
        index: index.clone(),
        value: Expr::select(cond.clone(), read, before),
        predicate: predicate.clone(),
        aligned: *aligned,
        non_temporal: *non_temporal,
    }
}
