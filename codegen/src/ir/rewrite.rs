//! Walking and rebuilding statements, for all passes.

use crate::expr::walk::any;
use crate::expr::{Expr, ExprKind, Flat, Name};
use crate::ir::stmt::Stmt;

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

/// Does a statement read or write a buffer?
pub(crate) fn mentions(s: &Stmt, buffer: &Flat) -> bool {
    let mut found = false;
    visit_stmts(s, &mut |s| {
        found |= matches!(s, Stmt::Store { buffer: b, .. } | Stmt::Accumulate { buffer: b, .. }
            | Stmt::PrefetchByte { buffer: b, .. } if b == buffer);
        own_exprs(s, &mut |e| {
            found |= any(e, |n| matches!(n.kind(), ExprKind::Load { buffer: b, .. } if b == buffer));
        });
    });
    found
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

/// `let name = value` around `body`.
pub fn bind(name: Name, value: Expr, body: Stmt) -> Stmt {
    Stmt::Let { name, value, body: Box::new(body) }
}

/// `if cond { then } else { otherwise }`.
pub fn branch(cond: Expr, then: Stmt, otherwise: Option<Stmt>) -> Stmt {
    Stmt::If { cond, then: Box::new(then), otherwise: otherwise.map(Box::new) }
}

/// `body` under conditions, the first one outermost.
pub fn under(conds: &[Expr], body: Stmt) -> Stmt {
    conds.iter().rev().fold(body, |body, c| branch(c.clone(), body, None))
}
