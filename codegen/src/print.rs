//! Expressions, statements and schedules as text.
//!
//! Expressions print as a tree with the fewest brackets. i32 constants are bare, f32 constants end in `f`, f64
//! constants hold a point, other types are spelt out: `3`, `1.5f`, `1.5`, `3:i64`, `true`. `f(x, y)` is element 0 of a
//! call, `f(x, y).2` element 2; `f.0[i]` is a load, `f.0[i if p]` a masked one; `x8(e)` a broadcast to 8 lanes.
//! An expression whose tree is much larger than its DAG, or very deep, prints its shared parts first, named
//! `%0`, `%1`, ...: the text is linear in the size of the DAG.
//!
//! A `Let` or `Allocate` scopes to the end of the enclosing braces.

use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::lower::rewrite::{interned, postorder};
use crate::schedule::{Directive, ForKind, LoopLevel, Memory, Partition, Schedule, StageId, Tail};
use crate::stmt::{LoweredFunction, Stmt, Target};
use crate::types::ScalarType;
use rustc_hash::FxHashMap;
use std::fmt::{self, Display, Formatter, Write};

/// Nesting at which a subexpression gets a name, which bounds the recursion of the printer.
const MAX_DEPTH: usize = 64;
/// Trees up to this many nodes always print as trees.
const SMALL_TREE: u64 = 48;
/// Shared nodes with smaller trees than this are repeated.
const REPEATED_TREE: u64 = 5;

/// Which nodes of some expressions are printed as names.
struct Names {
    by_id: FxHashMap<usize, usize>,
    /// Named nodes, operands first.
    order: Vec<Expr>,
}

impl Names {
    /// Decides the names for expressions that are printed together. Trees of up to `repeats` times the DAG's nodes stay trees.
    fn of(roots: &[&Expr], repeats: u64) -> Names {
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
fn whole(f: &mut Formatter<'_>, e: &Expr, repeats: u64) -> fmt::Result {
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

/// An expression of a directive: whatever it shares, equal ones print alike. Every part that occurs again is named, so that reading
/// the text, which may not tell the types of small parts, finds as many.
struct InDirective(Expr);

impl Display for InDirective {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        whole(f, &self.0, 1)
    }
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
        Min | Max | Pow | Atan2 => return None,
    })
}

/// The name of an operator in call form, also used for vector reductions.
fn word(op: BinaryOp) -> &'static str {
    use BinaryOp::*;
    match op {
        Add => "add",
        Sub => "sub",
        Mul => "mul",
        Div => "div",
        Mod => "mod",
        Min => "min",
        Max => "max",
        Pow => "pow",
        Atan2 => "atan2",
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
    }
}

/// Prints a child: by name, or as text where an operator of strength `outer` surrounds it.
fn child(f: &mut dyn Write, e: &Expr, names: &Names, outer: u8) -> fmt::Result {
    match names.by_id.get(&e.id()) {
        Some(i) => write!(f, "%{i}"),
        None => node(f, e, names, outer),
    }
}

fn list(f: &mut dyn Write, es: &[Expr], names: &Names) -> fmt::Result {
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
fn node(f: &mut dyn Write, e: &Expr, names: &Names, outer: u8) -> fmt::Result {
    let ty = e.ty();
    match e.kind() {
        ExprKind::Int(_) | ExprKind::Float(_) if ty.lanes > 1 => {
            write!(f, "x{}(", ty.lanes)?;
            literal(f, e)?;
            f.write_char(')')
        }
        ExprKind::Int(_) | ExprKind::Float(_) => literal(f, e),
        ExprKind::Var(n) | ExprKind::Param(n) => f.write_str(n),
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
        ExprKind::Unary(op, a) => call(f, &format!("{op:?}").to_lowercase(), &[a], names),
        ExprKind::Binary(op, a, b) => binary(f, *op, [a, b], ty.scalar == ScalarType::Bool, names, outer),
        ExprKind::Fma(a, b, c) => call(f, "fma", &[a, b, c], names),
        ExprKind::Select(c, a, b) => call(f, "select", &[c, a, b], names),
        ExprKind::Likely(a) => call(f, "likely", &[a], names),
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
        ExprKind::VectorReduce(op, a) => call(f, &format!("reduce_{}", word(*op)), &[a], names),
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

impl Display for Stmt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        stmt(f, self, 0, true)
    }
}

/// Indentation of a line.
struct Pad(usize);
impl Display for Pad {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (0..self.0).try_for_each(|_| f.write_str("  "))
    }
}

/// Prints the shared parts of a statement's own expressions, a line each.
fn shared(f: &mut Formatter<'_>, pad: usize, roots: &[&Expr]) -> Result<Names, fmt::Error> {
    let names = Names::of(roots, 2);
    for (i, e) in names.order.iter().enumerate() {
        write!(f, "{}%{i} = ", Pad(pad))?;
        node(f, e, &names, 0)?;
        writeln!(f)?;
    }
    Ok(names)
}

/// Prints `s`; `last` says that a scope that ends with `s` ends with the enclosing braces.
fn stmt(f: &mut Formatter<'_>, s: &Stmt, pad: usize, last: bool) -> fmt::Result {
    let p = Pad(pad);
    match s {
        Stmt::Block(v) => {
            v.iter().enumerate().try_for_each(|(i, s)| stmt(f, s, pad, last && i + 1 == v.len()))
        }
        Stmt::Let { name, value, body } => scoped(f, pad, last, body, |f, pad| {
            let n = shared(f, pad, &[value])?;
            write!(f, "{}let {name} = ", Pad(pad))?;
            node(f, value, &n, 0)
        }),
        Stmt::Allocate { buffer, ty, extent, memory, zeroed, body } => {
            scoped(f, pad, last, body, |f, pad| {
                let memory = match memory {
                    Memory::Heap => "",
                    Memory::Stack => " on stack",
                    Memory::Register => " in registers",
                };
                let zeroed = if *zeroed { " zeroed" } else { "" };
                write!(f, "{}allocate {buffer}: {}[{extent}]{memory}{zeroed}", Pad(pad), ty.name())
            })
        }
        Stmt::For { var, min, extent, kind, body } => {
            let kind = kind.prefix();
            match (min.as_int(), extent.as_int()) {
                (Some(0), _) => writeln!(f, "{p}{kind}for {var} in [0, {extent}) {{")?,
                (Some(m), Some(e)) => writeln!(f, "{p}{kind}for {var} in [{m}, {}) {{", m + e)?,
                _ => writeln!(f, "{p}{kind}for {var} in [{min}, {}) {{", min.clone() + extent.clone())?,
            }
            stmt(f, body, pad + 1, true)?;
            writeln!(f, "{p}}}")
        }
        Stmt::If { cond, then, otherwise } => {
            writeln!(f, "{p}if {cond} {{")?;
            stmt(f, then, pad + 1, true)?;
            if let Some(o) = otherwise {
                writeln!(f, "{p}}} else {{")?;
                stmt(f, o, pad + 1, true)?;
            }
            writeln!(f, "{p}}}")
        }
        Stmt::Assert { cond, message, args } => {
            write!(f, "{p}assert {cond}, {message:?}")?;
            args.iter().try_for_each(|a| write!(f, ", {a}"))?;
            writeln!(f)
        }
        Stmt::Realize { func, region, body } => {
            write!(f, "{p}realize {func}")?;
            for (i, (min, extent)) in region.iter().enumerate() {
                write!(f, "{}[{min}, +{extent})", if i == 0 { " over " } else { " x " })?;
            }
            writeln!(f, " {{")?;
            stmt(f, body, pad + 1, true)?;
            writeln!(f, "{p}}}")
        }
        Stmt::Produce { stage, body } => {
            writeln!(f, "{p}produce {stage} {{")?;
            stmt(f, body, pad + 1, true)?;
            writeln!(f, "{p}}}")
        }
        Stmt::Provide { func, args, values, to } => provide(f, pad, func, args, values, to),
        Stmt::Store { buffer, index, value, predicate, aligned, non_temporal } => {
            let roots: Vec<&Expr> = [index, value].into_iter().chain(predicate).collect();
            let n = shared(f, pad, &roots)?;
            write!(f, "{p}{buffer}[")?;
            node(f, index, &n, 0)?;
            f.write_str("] = ")?;
            node(f, value, &n, 0)?;
            if let Some(c) = predicate {
                f.write_str(" if ")?;
                node(f, c, &n, 0)?;
            }
            f.write_str(if *aligned { " aligned" } else { "" })?;
            f.write_str(if *non_temporal { " streaming" } else { "" })?;
            writeln!(f)
        }
        Stmt::Prefetch { name, args } => {
            let roots: Vec<&Expr> = args.iter().collect();
            let n = shared(f, pad, &roots)?;
            write!(f, "{p}prefetch {name}(")?;
            list(f, args, &n)?;
            writeln!(f, ")")
        }
        Stmt::Accumulate { buffer, op, index, value, predicate } => {
            let roots: Vec<&Expr> = [index, value].into_iter().chain(predicate).collect();
            let n = shared(f, pad, &roots)?;
            write!(f, "{p}atomic {} {buffer}[", word(*op))?;
            node(f, index, &n, 0)?;
            f.write_str("], ")?;
            node(f, value, &n, 0)?;
            if let Some(c) = predicate {
                f.write_str(" if ")?;
                node(f, c, &n, 0)?;
            }
            writeln!(f)
        }
    }
}

/// A header line whose scope is `body`.
fn scoped(
    f: &mut Formatter<'_>,
    pad: usize,
    last: bool,
    body: &Stmt,
    header: impl FnOnce(&mut Formatter<'_>, usize) -> fmt::Result,
) -> fmt::Result {
    if last {
        header(f, pad)?;
        writeln!(f)?;
        return stmt(f, body, pad, true);
    }
    writeln!(f, "{}{{", Pad(pad))?;
    header(f, pad + 1)?;
    writeln!(f)?;
    stmt(f, body, pad + 1, true)?;
    writeln!(f, "{}}}", Pad(pad))
}

fn provide(
    f: &mut Formatter<'_>,
    pad: usize,
    func: &str,
    args: &[Expr],
    values: &[Expr],
    to: &Target,
) -> fmt::Result {
    let roots: Vec<&Expr> = args.iter().chain(values).collect();
    let n = shared(f, pad, &roots)?;
    let out = if *to == Target::Output { ".out" } else { "" };
    write!(f, "{}{func}{out}(", Pad(pad))?;
    list(f, args, &n)?;
    match to {
        Target::Atomic(ops) => {
            let ops: Vec<&str> = ops.iter().map(|op| word(*op)).collect();
            write!(f, ") = atomic {} ", ops.join(", "))?;
        }
        Target::Intermediate | Target::Output => f.write_str(") = ")?,
    }
    if let [v] = values {
        node(f, v, &n, 0)?;
    } else {
        f.write_char('(')?;
        list(f, values, &n)?;
        f.write_char(')')?;
    }
    writeln!(f)
}

impl ForKind {
    /// What stands before `for`.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            ForKind::Serial => "",
            ForKind::Parallel => "parallel ",
            ForKind::Vectorized => "vectorized ",
            ForKind::Unrolled => "unrolled ",
        }
    }
}

impl Display for LoweredFunction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "function {}{} {{", self.name, if self.relaxed { " relaxed" } else { "" })?;
        for a in &self.args {
            writeln!(f, "  {} {}: {}", format!("{:?}", a.kind).to_lowercase(), a.name, a.ty.name())?;
        }
        writeln!(f, "}} {{")?;
        stmt(f, &self.body, 1, true)?;
        writeln!(f, "}}")
    }
}

impl Display for StageId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.stage {
            0 => f.write_str(&self.func),
            k => write!(f, "{}.update({})", self.func, k - 1),
        }
    }
}

impl Display for LoopLevel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.stage, self.var)
    }
}

impl Display for Tail {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tail::Auto => "auto",
            Tail::GuardWithIf => "guard",
            Tail::Predicate => "predicate",
            Tail::RoundUp => "round_up",
            Tail::ShiftInwards => "shift_inwards",
        })
    }
}

impl Display for Directive {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let e = |e: &Expr| InDirective(interned(e));
        match self {
            Directive::Split { old, outer, inner, factor, tail } => {
                let factor = e(factor);
                write!(f, "split({old}, {outer}, {inner}, {factor}, {tail})")
            }
            Directive::Fuse { inner, outer, fused } => write!(f, "fuse({inner}, {outer}, {fused})"),
            Directive::Rename { old, new } => write!(f, "rename({old}, {new})"),
            Directive::Reorder(vars) => write!(f, "reorder({})", vars.join(", ")),
            Directive::Kind { var, kind } => {
                let kind = match kind {
                    ForKind::Serial => "serial",
                    ForKind::Parallel => "parallel",
                    ForKind::Vectorized => "vectorize",
                    ForKind::Unrolled => "unroll",
                };
                write!(f, "{kind}({var})")
            }
            Directive::Rfactor { keep, into } => {
                f.write_str("rfactor(")?;
                keep.iter().try_for_each(|(r, v)| write!(f, "{r} as {v}, "))?;
                write!(f, "into {into})")
            }
            Directive::SkipUnless { var, cond } => write!(f, "skip_unless({var}, {})", e(cond)),
            Directive::Atomic => f.write_str("atomic"),
            Directive::Relaxed => f.write_str("relaxed"),
            Directive::Specialize { cond, directives } => {
                write!(f, "specialize({}) {{", e(cond))?;
                directives.iter().try_for_each(|d| write!(f, " {d}"))?;
                f.write_str(" }")
            }
            Directive::Partition { var, policy } => {
                let policy = match policy {
                    Partition::Auto => "auto",
                    Partition::Never => "never",
                    Partition::Always => "always",
                };
                write!(f, "partition({var}, {policy})")
            }
            Directive::Prefetch { name, var, ahead } => write!(f, "prefetch({name}, {var}, {ahead})"),
            Directive::In { consumers, wrapper: new } => {
                f.write_str("in_(")?;
                consumers.iter().try_for_each(|c| write!(f, "{c}, "))?;
                write!(f, "as {new})")
            }
            Directive::CloneIn { consumers, clone: new } => {
                f.write_str("clone_in(")?;
                consumers.iter().try_for_each(|c| write!(f, "{c}, "))?;
                write!(f, "as {new})")
            }
            Directive::Inline => f.write_str("inline"),
            Directive::ComputeRoot => f.write_str("compute_root"),
            Directive::ComputeAt(l) => write!(f, "compute_at({l})"),
            Directive::ComputeWith(l) => write!(f, "compute_with({l})"),
            Directive::StoreAt(l) => write!(f, "store_at({l})"),
            Directive::StoreWhole => write!(f, "store_whole"),
            Directive::FoldStorage { var, factor } => write!(f, "fold_storage({var}, {factor})"),
            Directive::AlignBounds { var, modulus } => write!(f, "align_bounds({var}, {modulus})"),
            Directive::Bound { var, min: Some(min), extent } => {
                write!(f, "bound({var}, {}, {})", e(min), e(extent))
            }
            Directive::Bound { var, min: None, extent } => {
                write!(f, "bound_extent({var}, {})", e(extent))
            }
            Directive::Estimate { var, min, extent } => write!(f, "set_estimate({var}, {min}, {extent})"),
            Directive::AlignStorage { var, modulus } => write!(f, "align_storage({var}, {modulus})"),
            Directive::ReorderStorage(vars) => write!(f, "reorder_storage({})", vars.join(", ")),
            Directive::StoreIn(Memory::Heap) => f.write_str("store_in(heap)"),
            Directive::StoreIn(Memory::Stack) => f.write_str("store_in(stack)"),
            Directive::StoreIn(Memory::Register) => f.write_str("store_in(register)"),
            Directive::Sink => f.write_str("sink"),
            Directive::NonTemporal(when) => write!(f, "non_temporal({})", e(when)),
            Directive::InPlaceOf(n) => write!(f, "in_place_of({n})"),
        }
    }
}

/// One line a stage: `p: store_at(q, yo) compute_at(q, yi)`.
impl Display for Schedule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (stage, directives) in &self.stages {
            write!(f, "{stage}:")?;
            directives.iter().try_for_each(|d| write!(f, " {d}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
