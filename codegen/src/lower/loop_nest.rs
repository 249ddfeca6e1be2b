//! The loop nest of a scheduled pipeline as pseudo-code, for people who schedule.
//!
//! ```text
//! produce out:
//!   parallel for yo:
//!     store bx, y modulo 4 (slides along y over yi):
//!       for yi in [0, 3]:
//!         produce bx:
//!           for y:
//!             for x:
//!               bx(...) = ...
//!         consume bx:
//!           for x:
//!             out(...) = ...
//! ```
//! Loops have the names of the schedule, and their bounds where those are constants (both ends included). `store` stands
//! where storage is allocated outside of the computation, with the loop over which it then slides or the reason why it does not, or is special. Bounds, guards and the bodies of definitions are
//! left out; `if` appears only where its arms do different things. The full statement is
//! [`crate::nests::Built`] as text.

use crate::error::Error;
use crate::expr::walk::any;
use crate::expr::{Expr, ExprKind, Name};
use crate::func::Pipeline;
use crate::ir::rewrite::{own_exprs, visit_stmts};
use crate::ir::stmt::{Stmt, Target};
use crate::lower::trim::trim;
use crate::nests::{Built, build_nests};
use crate::plan::plan;
use crate::plan::plans::{Plan, shown};
use crate::schedule::{Memory, Schedule};
use crate::stack::on_large_stack;

impl Pipeline {
    /// The loops that `schedule` makes of this pipeline, as pseudo-code.
    pub fn print_loop_nest(&self, schedule: &Schedule) -> Result<String, Error> {
        on_large_stack(|| {
            let plan = plan(self, schedule)?;
            let built = build_nests(&plan)?;
            Ok(Printer { plan: &plan, built: &built }.stmt(&trim(&built.body)))
        })
    }
}

struct Printer<'a> {
    plan: &'a Plan,
    built: &'a Built,
}

/// Do the statements call a Func?
fn reads(list: &[Stmt], func: &Name) -> bool {
    let calls = |e: &Expr| any(e, |n| matches!(n.kind(), ExprKind::Call { name, .. } if name == func));
    let mut found = false;
    list.iter().for_each(|s| visit_stmts(s, &mut |s| own_exprs(s, &mut |e| found |= calls(e))));
    found
}

/// `header:` over an indented body; nothing if the body is empty.
fn under(header: String, body: &str) -> String {
    let mut out = String::new();
    for line in body.lines() {
        out.push_str("  ");
        out.push_str(line);
        out.push('\n');
    }
    if out.is_empty() { out } else { format!("{header}:\n{out}") }
}

impl Printer<'_> {
    fn stmt(&self, s: &Stmt) -> String {
        match s {
            Stmt::Block(list) => self.block(list),
            Stmt::Let { body, .. } => self.stmt(body),
            Stmt::For { var, min, extent, kind, body } => {
                let kind = kind.prefix();
                let range = match (min.as_int(), extent.as_int()) {
                    (Some(min), Some(n)) => format!(" in [{min}, {}]", min + n - 1),
                    _ => String::new(),
                };
                under(format!("{kind}for {}{range}", loop_name(var)), &self.stmt(body))
            }
            Stmt::If { then, otherwise, .. } => {
                let then = self.stmt(then);
                match otherwise.as_ref().map(|o| self.stmt(o)) {
                    Some(other) if same_loops(&other, &then) => then,
                    Some(other) => under("if".into(), &then) + &under("else".into(), &other),
                    None => then,
                }
            }
            // A window is stored once, and moves inside.
            Stmt::Realize { func, region, body } => match self.store(func) {
                Some(header) if !self.moves(func, region) => under(header, &self.stmt(body)),
                _ => self.stmt(body),
            },
            Stmt::Produce { stage, body } => under(format!("produce {stage}"), &self.stmt(body)),
            Stmt::Provide { func, to, .. } => {
                let stored = self.built.storage.contains_key(func);
                let out = if *to == Target::Output && stored { ".out" } else { "" };
                format!("{func}{out}(...) = ...\n")
            }
            Stmt::Prefetch { name, .. } => format!("prefetch {name}(...)\n"),
            Stmt::Assert { .. }
            | Stmt::Allocate { .. }
            | Stmt::Store { .. }
            | Stmt::Accumulate { .. }
            | Stmt::PrefetchByte { .. } => String::new(),
        }
    }

    /// Prints statements in order; what follows the stages of a Func consumes it.
    fn block(&self, list: &[Stmt]) -> String {
        let Some((first, rest)) = list.split_first() else { return String::new() };
        let text = self.stmt(first);
        let rest_text = self.block(rest);
        let func = |s: &Stmt| match s {
            Stmt::Produce { stage, .. } => Some(stage.func.clone()),
            _ => None,
        };
        match func(first) {
            // Of stages whose loops run together, none consumes the other.
            Some(f) if rest.first().and_then(func) != Some(f.clone()) && reads(rest, &f) => {
                text + &under(format!("consume {f}"), &rest_text)
            }
            _ => text + &rest_text,
        }
    }

    /// Is this the place of a window in an iteration?
    fn moves(&self, func: &Name, region: &[(Expr, Expr)]) -> bool {
        let window = self.built.storage.get(func).and_then(|s| s.window.as_ref());
        window.is_some_and(|w| region[w.dim].0.as_int() != Some(0))
    }

    /// The line that allocates storage, where there is something to say.
    fn store(&self, func: &Name) -> Option<String> {
        let f = self.plan.funcs.get(func)?;
        let mut text = format!("store {func}");
        let plain = text.len();
        let stored = self.built.storage.get(func);
        for (v, fold) in f.func.vars.iter().zip(stored.into_iter().flat_map(|s| &s.fold)) {
            if let Some(n) = fold {
                text += &format!(", {} modulo {n}", v.name());
            }
        }
        if let Some(w) = stored.and_then(|s| s.window.as_ref()) {
            text += &format!(", a window of {} along {}", w.extent, f.func.vars[w.dim].name());
        }
        text += match stored.map(|s| s.memory) {
            Some(Memory::Stack) => ", on the stack",
            Some(Memory::Register) => ", in registers",
            Some(Memory::Shared) => ", in shared memory",
            _ => "",
        };
        if f.store == f.compute {
            return (text.len() > plain).then_some(text);
        }
        Some(match self.built.sliding.get(func) {
            Some(sliding) => format!("{text} ({sliding})"),
            None => text,
        })
    }
}

/// Do two bodies differ in nothing but a store to an output?
fn same_loops(a: &str, b: &str) -> bool {
    let kept = |s: &str| -> Vec<String> {
        s.lines().filter(|l| !l.contains(".out(...)")).map(str::to_string).collect()
    };
    kept(a) == kept(b)
}

/// `yi` of `f.s0.yi`.
pub(super) fn loop_name(var: &str) -> &str {
    let stage = |part: &str| part.strip_prefix('s').is_some_and(|n| n.parse::<usize>().is_ok());
    let mut from = 0;
    let mut at = 0;
    let var = var.trim_end_matches(".joint");
    for part in var.split('.') {
        at += part.len() + 1;
        if stage(part) && at < var.len() {
            from = at;
        }
    }
    shown(&var[from..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Expr;
    use crate::func::{Func, Input, RDom, Var};
    use crate::schedule::{LoopLevel, Tail};
    use crate::types::ScalarType;

    /// A vertical blur of a horizontal one.
    fn blur() -> Pipeline {
        let (vx, vy) = (Var::new("x"), Var::new("y"));
        let (x, y) = (vx.expr(), vy.expr());
        let mut p = Pipeline::new("blur");
        let i = p.input(Input::new("in", &[ScalarType::I32], 2));
        let at = |dx: i64| i.at(&[&x + dx, y.clone()], 0);
        let bx = p.func(Func::new("bx", &[vx, vy], vec![at(0) + at(1) + at(2)]));
        let by = |dy: i64| bx.at(&[x.clone(), &y + dy], 0);
        let out = p.func(Func::new("out", &[vx, vy], vec![by(0) + by(1) + by(2)]));
        p.output(&out);
        p
    }

    #[test]
    fn a_ring_in_parallel_strips() {
        let mut s = Schedule::new();
        s.func("out").split("y", "yo", "yi", 4, Tail::GuardWithIf).vectorize("x", 8, Tail::Predicate);
        s.func("out").parallel("yo");
        let (store, compute) = (LoopLevel::pure("out", "yo"), LoopLevel::pure("out", "yi"));
        s.func("bx").store_at(store).compute_at(compute).fold_storage("y", 4);
        s.func("bx").split("x", "xo", "xi", 2, Tail::Predicate);
        let text = blur().print_loop_nest(&s).expect("legal");
        let want = "\
produce out:
  parallel for yo:
    store bx, y modulo 4 (slides along y over yi):
      for yi:
        produce bx:
          for y:
            for xo:
              for xi:
                bx(...) = ...
        consume bx:
          for xo:
            vectorized for xi in [0, 7]:
              out(...) = ...
";
        assert_eq!(text, want);
    }

    #[test]
    fn stages_at_root() {
        let mut p = blur();
        let out = p.funcs["out"].clone();
        let r = RDom::new([("r", Expr::from(0), Expr::from(4)), ("q", Expr::from(0), Expr::from(3))]);
        let here = [r.var(0), r.var(1)];
        let total = p.func(Func::sum("total", &[], r, vec![out.at(&here, 0)]));
        p.outputs.clear();
        p.output(&total);
        let mut s = Schedule::new();
        s.func("bx").compute_root();
        s.func("out").compute_root();
        s.update("total", 0).unroll("r");
        let want = "\
produce bx:
  for y in [0, 4]:
    for x in [0, 3]:
      bx(...) = ...
consume bx:
  produce out:
    for y in [0, 2]:
      for x in [0, 3]:
        out(...) = ...
  consume out:
    produce total:
      total(...) = ...
    produce total.update(0):
      for q in [0, 2]:
        unrolled for r in [0, 3]:
          total(...) = ...
";
        assert_eq!(p.print_loop_nest(&s).expect("legal"), want);
    }
}
