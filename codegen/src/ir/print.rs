//! Statements as text: a line each, the shared parts of a statement's own expressions in front of it. A `Let` or `Allocate`
//! scopes to the end of the enclosing braces.

use crate::expr::Expr;
use crate::expr::print::{Names, list, node, word};
use crate::ir::stmt::{LoweredFunction, Stmt, Target};
use crate::schedule::Memory;
use std::fmt::{self, Display, Formatter, Write};

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
                    Memory::Shared => " in shared memory",
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
        Stmt::PrefetchByte { buffer, byte } => {
            let n = shared(f, pad, &[byte])?;
            write!(f, "{p}prefetch {buffer}(")?;
            list(f, std::slice::from_ref(byte), &n)?;
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

impl Display for LoweredFunction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "function {}{} {{", self.name, if self.relaxed { " relaxed" } else { "" })?;
        for a in &self.args {
            writeln!(f, "  {a}")?;
        }
        writeln!(f, "}} {{")?;
        stmt(f, &self.body, 1, true)?;
        writeln!(f, "}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Type;

    #[test]
    fn scopes_end_with_their_braces() {
        let store = |b: &str| Stmt::Store {
            buffer: b.into(),
            index: Expr::int(Type::I64, 0),
            value: Expr::var("t"),
            predicate: None,
            aligned: false,
            non_temporal: true,
        };
        let scoped = Stmt::Let { name: "t".into(), value: Expr::from(1), body: Box::new(store("f.0")) };
        assert_eq!(
            Stmt::Block(vec![scoped.clone(), scoped]).to_string(),
            "{\n  let t = 1\n  f.0[0:i64] = t streaming\n}\nlet t = 1\nf.0[0:i64] = t streaming\n"
        );
    }
}
