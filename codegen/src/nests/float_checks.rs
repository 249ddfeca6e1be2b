//! Assertions on floats that coordinates are computed with.
//!
//! The interval of a coordinate such as `i32(value * (1 / sigma))` is finite as long as what it is multiplied with and added to is
//! ([`crate::analysis::float_ends`]). What of that has one value in a run is looked at before the run begins: an infinite factor or NaN
//! would make coordinates that no region holds.

use crate::expr::walk::{any, nodes};
use crate::expr::{BinaryOp, Expr, ExprKind, Name, UnaryOp};
use crate::func::{Func, Pipeline};
use crate::ir::stmt::Stmt;
use rustc_hash::FxHashSet;

/// Greatest magnitude: far beyond any coordinate, and its square is an f32.
const MOST: f64 = 1e18;

/// An assertion for each value of a run, in terms of parameters, that a float beneath a coordinate is computed with.
pub(super) fn float_checks(p: &Pipeline) -> Vec<Stmt> {
    let mut found: Vec<Expr> = vec![];
    let mut seen = FxHashSet::default();
    for f in p.funcs.values() {
        for e in definitions(f) {
            let calls = nodes([e]).into_iter().filter_map(|n| match n.kind() {
                ExprKind::Call { args, .. } => Some(args),
                _ => None,
            });
            calls.flatten().for_each(|a| coordinate(p, a, &mut seen, &mut found));
        }
        f.updates.iter().flat_map(|u| &u.args).for_each(|a| coordinate(p, a, &mut seen, &mut found));
    }
    let check = |c: Expr| Stmt::Assert {
        message: format!("a coordinate is computed with {c}, which is no number below 1e18"),
        cond: c.unary(UnaryOp::Abs).lt(Expr::float(c.ty(), MOST)),
        args: vec![],
    };
    found.into_iter().map(check).collect()
}

fn definitions(f: &Func) -> impl Iterator<Item = &Expr> {
    f.values
        .iter()
        .chain(f.updates.iter().flat_map(|u| u.args.iter().chain(&u.values).chain(&u.rdom.predicate)))
}

/// Goes through a coordinate, and the Funcs whose values it uses (once each).
fn coordinate(p: &Pipeline, e: &Expr, seen: &mut FxHashSet<Name>, found: &mut Vec<Expr>) {
    for n in nodes([e]) {
        match n.kind() {
            ExprKind::Cast(a) if a.ty().scalar.is_float() && n.ty().scalar.is_int() => operands(a, found),
            ExprKind::Call { name, .. } if seen.insert(name.clone()) => {
                if let Some(f) = p.funcs.get(name) {
                    definitions(f).for_each(|e| coordinate(p, e, seen, found));
                }
            }
            _ => {}
        }
    }
}

/// Collects what arithmetic on `e` has of values that a run does not change.
fn operands(e: &Expr, found: &mut Vec<Expr>) {
    let arithmetic = matches!(
        e.operation(),
        ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div, ..)
    );
    e.for_each_child(|c| match c.ty().scalar.is_float() {
        true if arithmetic && is_fixed(c) => {
            if !found.contains(c) {
                found.push(c.clone());
            }
        }
        true => operands(c, found),
        false => {}
    });
}

/// Parameters and constants alone, and at least one parameter.
fn is_fixed(e: &Expr) -> bool {
    let varies =
        |n: &Expr| matches!(n.kind(), ExprKind::Var(_) | ExprKind::Call { .. } | ExprKind::Load { .. });
    !any(e, varies) && any(e, |n| matches!(n.kind(), ExprKind::Param(_)))
}
