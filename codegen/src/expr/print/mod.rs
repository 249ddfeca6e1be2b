//! Expressions as text, as statements and schedules quote them.
//!
//! They print as a tree with the fewest brackets. i32 constants are bare, f32 constants end in `f`, f64
//! constants hold a point, other types are spelt out: `3`, `1.5f`, `1.5`, `3:i64`, `true`. `f(x, y)` is element 0 of a
//! call, `f(x, y).2` element 2; `f.0[i]` is a load, `f.0[i if p]` a masked one; `x8(e)` a broadcast to 8 lanes.
//! An expression whose tree is much larger than its DAG, or very deep, prints its shared parts first, named
//! `%0`, `%1`, ...: the text is linear in the size of the DAG.

use crate::expr::walk::postorder;
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::ScalarType;
use rustc_hash::FxHashMap;
use std::fmt::{self, Display, Formatter, Write};

/// Nesting at which a subexpression gets a name, which bounds the recursion of the printer.
const MAX_DEPTH: usize = 64;
/// Trees up to this many nodes always print as trees.
const SMALL_TREE: u64 = 48;
/// Shared nodes with smaller trees than this are repeated.
const REPEATED_TREE: u64 = 5;

/// Nodes of some expressions that are printed as names.
pub(crate) struct Names {
    by_id: FxHashMap<usize, usize>,
    /// Named nodes, operands first.
    pub order: Vec<Expr>,
}

impl Names {
    /// Decides the names for expressions that are printed together. Trees of up to `repeats` times the DAG's nodes stay trees.
    pub(crate) fn of(roots: &[&Expr], repeats: u64) -> Names {
        let mut names = Names { by_id: FxHashMap::default(), order: vec![] };
        let order = postorder(roots);
        let mut uses: FxHashMap<usize, u32> = FxHashMap::default();
        let mut size: FxHashMap<usize, u64> = FxHashMap::default();
        for e in &order {
            let mut n = 1u64;
            e.for_each_child(|c| {
                *uses.entry(c.id()).or_default() += 1;
                n = n.saturating_add(size[&c.id()]);
            });
            size.insert(e.id(), n);
        }
        let total = roots.iter().fold(0u64, |s, r| s.saturating_add(size[&r.id()]));
        let share = total > SMALL_TREE && total > repeats * order.len() as u64;
        let mut depth: FxHashMap<usize, usize> = FxHashMap::default();
        for e in order {
            let mut d = 0;
            e.for_each_child(|c| d = d.max(depth[&c.id()] + 1));
            let shared = share && uses.get(&e.id()).is_some_and(|&u| u > 1) && size[&e.id()] >= REPEATED_TREE;
            if (shared || d >= MAX_DEPTH) && !roots.iter().any(|r| r.id() == e.id()) {
                d = 0;
                names.by_id.insert(e.id(), names.order.len());
                names.order.push(e.clone());
            }
            depth.insert(e.id(), d);
        }
        names
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        whole(f, self, 2)
    }
}

/// An expression with its shared parts in front, inside of braces.
pub(crate) fn whole(f: &mut Formatter<'_>, e: &Expr, repeats: u64) -> fmt::Result {
    let names = Names::of(&[e], repeats);
    if !names.order.is_empty() {
        f.write_str("{ ")?;
        for (i, e) in names.order.iter().enumerate() {
            write!(f, "%{i} = ")?;
            node(f, e, &names, 0)?;
            f.write_str("; ")?;
        }
    }
    node(f, e, &names, 0)?;
    if names.order.is_empty() { Ok(()) } else { f.write_str(" }") }
}

/// Binding strength of infix operators, loosest first; others print as calls.
fn infix(op: BinaryOp, logical: bool) -> Option<(u8, &'static str)> {
    use BinaryOp::*;
    Some(match op {
        Or => (1, if logical { "||" } else { "|" }),
        Xor => (2, "^"),
        And => (3, if logical { "&&" } else { "&" }),
        Eq => (4, "=="),
        Ne => (4, "!="),
        Lt => (4, "<"),
        Le => (4, "<="),
        Gt => (4, ">"),
        Ge => (4, ">="),
        Shl => (5, "<<"),
        Shr => (5, ">>"),
        Add => (6, "+"),
        Sub => (6, "-"),
        Mul => (7, "*"),
        Div => (7, "/"),
        Mod => (7, "%"),
        _ => return None,
    })
}

/// Name of an operator in call form, also used for vector reductions.
pub(crate) fn word(op: BinaryOp) -> &'static str {
    use BinaryOp::*;
    match op {
        Add => "add",
        Sub => "sub",
        Mul => "mul",
        Div => "div",
        Mod => "mod",
        Min => "min",
        Max => "max",
        And => "and",
        Or => "or",
        Xor => "xor",
        Shl => "shl",
        Shr => "shr",
        Eq => "eq",
        Ne => "ne",
        Lt => "lt",
        Le => "le",
        Gt => "gt",
        Ge => "ge",
        _ => match op.function() {
            Some(f) => f.name(),
            None => "",
        },
    }
}

/// Prints a child: by name, or as text where an operator of strength `outer` surrounds it.
fn child(f: &mut dyn Write, e: &Expr, names: &Names, outer: u8) -> fmt::Result {
    match names.by_id.get(&e.id()) {
        Some(i) => write!(f, "%{i}"),
        None => node(f, e, names, outer),
    }
}

/// Prints operands, apart by commas.
pub(crate) fn list(f: &mut dyn Write, es: &[Expr], names: &Names) -> fmt::Result {
    for (i, e) in es.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        child(f, e, names, 0)?;
    }
    Ok(())
}

fn call(f: &mut dyn Write, name: &str, es: &[&Expr], names: &Names) -> fmt::Result {
    write!(f, "{name}(")?;
    for (i, e) in es.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        child(f, e, names, 0)?;
    }
    f.write_char(')')
}

/// Prints one node (never by its own name).
pub(crate) fn node(f: &mut dyn Write, e: &Expr, names: &Names, outer: u8) -> fmt::Result {
    let ty = e.ty();
    match e.kind() {
        ExprKind::Int(_) | ExprKind::Float(_) if ty.lanes > 1 => {
            write!(f, "x{}(", ty.lanes)?;
            literal(f, e)?;
            f.write_char(')')
        }
        ExprKind::Int(_) | ExprKind::Float(_) => literal(f, e),
        ExprKind::Var(n) => f.write_str(n),
        ExprKind::Param(p) => write!(f, "{p}"),
        ExprKind::Cast(a) => call(f, ty.scalar.name(), &[a], names),
        ExprKind::Reinterpret(a) => call(f, &format!("bits_as_{}", ty.scalar.name()), &[a], names),
        ExprKind::Unary(UnaryOp::Neg, a) => {
            f.write_char('-')?;
            // `-3` is a constant, `-(3)` this operator on one.
            match a.kind() {
                ExprKind::Int(_) | ExprKind::Float(_) => {
                    f.write_char('(')?;
                    child(f, a, names, 0)?;
                    f.write_char(')')
                }
                _ => child(f, a, names, 8),
            }
        }
        ExprKind::Unary(UnaryOp::Not, a) => {
            f.write_char('!')?;
            child(f, a, names, 8)
        }
        ExprKind::Unary(op, a) => call(f, op.name(), &[a], names),
        ExprKind::Binary(op, a, b) => binary(f, *op, [a, b], ty.scalar == ScalarType::Bool, names, outer),
        ExprKind::Fma(a, b, c) => call(f, "fma", &[a, b, c], names),
        ExprKind::Select(c, a, b) => call(f, "select", &[c, a, b], names),
        ExprKind::Likely(a) => call(f, "likely", &[a], names),
        ExprKind::Strict(_) => {
            f.write_str("strict(")?;
            node(f, &e.unmarked(), names, 0)?;
            f.write_char(')')
        }
        ExprKind::Call { name, args, value } => {
            write!(f, "{name}(")?;
            list(f, args, names)?;
            f.write_char(')')?;
            if *value > 0 { write!(f, ".{value}") } else { Ok(()) }
        }
        ExprKind::Ramp(a, b) => {
            f.write_str("ramp(")?;
            child(f, a, names, 0)?;
            f.write_str(", ")?;
            child(f, b, names, 0)?;
            write!(f, ", {})", ty.lanes)
        }
        ExprKind::Broadcast(a) => call(f, &format!("x{}", ty.lanes), &[a], names),
        ExprKind::Interleave(parts) => call(f, "interleave", &parts.iter().collect::<Vec<_>>(), names),
        ExprKind::Concat(parts) => call(f, "concat", &parts.iter().collect::<Vec<_>>(), names),
        ExprKind::VectorReduce(op, a) => {
            write!(f, "reduce_{}(", word(*op))?;
            child(f, a, names, 0)?;
            if ty.lanes > 1 { write!(f, ", {})", ty.lanes) } else { f.write_char(')') }
        }
        ExprKind::Load { buffer, index, predicate } => {
            write!(f, "{buffer}[")?;
            child(f, index, names, 0)?;
            if let Some(p) = predicate {
                f.write_str(" if ")?;
                child(f, p, names, 0)?;
            }
            f.write_char(']')
        }
    }
}

/// `logical` says that the result is a bool.
fn binary(
    f: &mut dyn Write,
    op: BinaryOp,
    [a, b]: [&Expr; 2],
    logical: bool,
    names: &Names,
    outer: u8,
) -> fmt::Result {
    let Some((strength, sign)) = infix(op, logical) else {
        return call(f, word(op), &[a, b], names);
    };
    // `a - (b - c)` and `a == (b == c)` need brackets on the right, all else is left-associative.
    let brackets = strength < outer;
    if brackets {
        f.write_char('(')?;
    }
    let left = if op.is_comparison() { strength + 1 } else { strength };
    child(f, a, names, left)?;
    write!(f, " {sign} ")?;
    child(f, b, names, strength + 1)?;
    if brackets { f.write_char(')') } else { Ok(()) }
}

fn literal(f: &mut dyn Write, e: &Expr) -> fmt::Result {
    match (e.kind(), e.ty().scalar) {
        (ExprKind::Int(v), ScalarType::Bool) => write!(f, "{}", *v != 0),
        (ExprKind::Int(v), ScalarType::I32) => write!(f, "{v}"),
        (ExprKind::Int(v), ScalarType::U64) => write!(f, "{}:u64", *v as u64),
        (ExprKind::Int(v), s) => write!(f, "{v}:{}", s.name()),
        (ExprKind::Float(v), ScalarType::F32) => write!(f, "{}f", *v as f32),
        (ExprKind::Float(v), ScalarType::F64) => write!(f, "{v:?}"),
        (ExprKind::Float(v), s) => write!(f, "{v}:{}", s.name()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
