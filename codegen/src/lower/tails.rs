//! Tails of unrolled loops as loops.
//!
//! Before: flat statements. An unrolled loop may hold a guard alone, as that over the places in a block of a split does: the last block is not whole.
//! After: where the guards of all copies hold, the unrolled loop without them; elsewhere the loop with its guard, one iteration after the other. The test
//! stands in front of the serial loops around with which it does not change. There is one at least: a loop that changes it is cut at its
//! interior ([`crate::lower::partition`]). Copies with guards would be most of what is compiled, for the few rows at an end. Loops around `likely` conditions of the tail are cut no further.
//!
//! Left alone: kernels; what is inside of lanes; copies that go through registers, whose indices must be constants; guards of the loop's variable
//! itself, whose copies may be more than there ever are; copies with loops of their own, of which there would be one more.
//! Follows flattening, precedes unrolling.

use super::partition::strip;
use super::simplify::simplify_index;
use crate::analysis::algebra::Facts;
use crate::expr::walk::{loads, substitute, uses_var};
use crate::expr::{BinaryOp, Expr, ExprKind, Flat, Name};
use crate::ir::rewrite::{map_children, mentions, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::schedule::{ForKind, Memory};
use rustc_hash::FxHashMap;

/// See the module's description.
pub(super) fn tails(s: &Stmt) -> Stmt {
    walk(s, &[])
}

/// `registers`: those that are allocated around.
fn walk(s: &Stmt, registers: &[Flat]) -> Stmt {
    match s {
        Stmt::For { kind: ForKind::GpuBlock | ForKind::Vectorized, .. } => return s.clone(),
        Stmt::Allocate { buffer, memory: Memory::Register, .. } => {
            let registers = [registers, std::slice::from_ref(buffer)].concat();
            return map_children(s, &mut Expr::clone, &mut |s| walk(s, &registers));
        }
        _ => {}
    }
    match Cut::of(s, registers) {
        Some(Cut { cond, whole, tail, outside: true }) => Stmt::If {
            cond,
            then: Box::new(walk(&whole, registers)),
            otherwise: Some(Box::new(strip(&tail))),
        },
        _ => map_children(s, &mut Expr::clone, &mut |s| walk(s, registers)),
    }
}

/// Loops and lets down to an unrolled loop with a guard.
struct Cut {
    /// All guards hold.
    cond: Expr,
    /// The statement that runs then, and the one elsewhere.
    whole: Stmt,
    tail: Stmt,
    /// A serial loop is around the unrolled one.
    outside: bool,
}

impl Cut {
    fn of(s: &Stmt, registers: &[Flat]) -> Option<Cut> {
        match s {
            Stmt::For { var, min, extent, kind: ForKind::Unrolled, body: whole } => {
                let of = |kind, body| Stmt::For {
                    var: var.clone(),
                    min: min.clone(),
                    extent: extent.clone(),
                    kind,
                    body: Box::new(body),
                };
                let copies = simplify_index(extent).as_int().filter(|n| (2..=256).contains(n))?;
                let (guard, body) = guarded(whole, &FxHashMap::default())?;
                let is_own = matches!(guard.kind(), ExprKind::Binary(BinaryOp::Le, value, _)
                    if matches!(value.kind(), ExprKind::Var(v) if v == var));
                let stays = registers.iter().any(|r| mentions(s, r)) || loads(&guard) || has_loops(&body);
                if is_own || stays || !uses_var(&guard, var) {
                    return None;
                }
                let copy = |k: i64| {
                    let value = min + &Expr::int(min.ty(), k);
                    simplify_index(&substitute(&guard, &FxHashMap::from_iter([(var.clone(), value)])))
                };
                let cond = all((0..copies).map(copy).collect());
                let tail = of(ForKind::Serial, (**whole).clone());
                Some(Cut { cond, whole: of(ForKind::Unrolled, body), tail, outside: false })
            }
            Stmt::For { var, min, extent, kind: ForKind::Serial, body } => {
                let Cut { cond, whole, tail, .. } = Cut::of(body, registers)?;
                let around = |body| Stmt::For {
                    var: var.clone(),
                    min: min.clone(),
                    extent: extent.clone(),
                    kind: ForKind::Serial,
                    body: Box::new(body),
                };
                (!uses_var(&cond, var)).then(|| Cut {
                    cond,
                    whole: around(whole),
                    tail: around(tail),
                    outside: true,
                })
            }
            Stmt::Let { name, value, body } => {
                let Cut { cond, whole, tail, outside } = Cut::of(body, registers)?;
                if loads(value) && uses_var(&cond, name) {
                    return None;
                }
                let around =
                    |body| Stmt::Let { name: name.clone(), value: value.clone(), body: Box::new(body) };
                let cond = substitute(&cond, &FxHashMap::from_iter([(name.clone(), value.clone())]));
                Some(Cut { cond, whole: around(whole), tail: around(tail), outside })
            }
            Stmt::Produce { stage, body } => {
                let Cut { cond, whole, tail, outside } = Cut::of(body, registers)?;
                let around = |body| Stmt::Produce { stage: stage.clone(), body: Box::new(body) };
                Some(Cut { cond, whole: around(whole), tail: around(tail), outside })
            }
            _ => None,
        }
    }
}

/// A likely condition around all of a body, in terms of names outside of it, and the body without it.
fn guarded(s: &Stmt, lets: &FxHashMap<Name, Expr>) -> Option<(Expr, Stmt)> {
    match s {
        Stmt::Let { name, value, body } if !loads(value) => {
            let mut inner = lets.clone();
            inner.insert(name.clone(), substitute(value, lets));
            let (guard, body) = guarded(body, &inner)?;
            Some((guard, Stmt::Let { name: name.clone(), value: value.clone(), body: Box::new(body) }))
        }
        Stmt::If { cond, then, otherwise: None } => match cond.kind() {
            ExprKind::Likely(guard) => Some((substitute(guard, lets), (**then).clone())),
            _ => None,
        },
        _ => None,
    }
}

/// Are there loops that neither are lanes nor become copies?
fn has_loops(s: &Stmt) -> bool {
    let mut found = false;
    let copied = [ForKind::Vectorized, ForKind::Unrolled];
    visit_stmts(s, &mut |s| found |= matches!(s, Stmt::For { kind, .. } if !copied.contains(kind)));
    found
}

/// Their conjunction: the last one alone where that implies the others.
fn all(mut guards: Vec<Expr>) -> Expr {
    let last = guards.pop().expect("two copies at least");
    let mut facts = Facts::new();
    facts.assume(&last);
    guards.into_iter().filter(|g| facts.decide(g) != Some(true)).fold(last, |all, g| all.and(g))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ScalarType;

    fn store(at: &Expr) -> Stmt {
        Stmt::store("f.0", at.cast(ScalarType::I64), Expr::from(0.5f32))
    }

    fn loop_of(var: &str, extent: Expr, kind: ForKind, body: Stmt) -> Stmt {
        Stmt::For { var: var.into(), min: Expr::from(0), extent, kind, body: Box::new(body) }
    }

    fn guarded_by(cond: Expr, body: Stmt) -> Stmt {
        Stmt::If { cond: cond.likely(), then: Box::new(body), otherwise: None }
    }

    #[test]
    fn the_test_stands_in_front_of_loops() {
        let y = Expr::var("base") + Expr::var("k");
        let body = guarded_by(y.le(Expr::var("last")), store(&(&y * 8 + Expr::var("x"))));
        let s = loop_of("k", Expr::from(4), ForKind::Unrolled, body);
        let s = loop_of("x", Expr::var("n"), ForKind::Serial, s);
        let text = "if base + 3 <= last {\n  for x in [0, n) {\n    unrolled for k in [0, 4) {\n      \
                    f.0[i64((base + k) * 8 + x)] = 0.5f\n    }\n  }\n} else {\n  for x in [0, n) {\n    \
                    for k in [0, 4) {\n      if base + k <= last {\n        f.0[i64((base + k) * 8 + x)] = 0.5f\n      \
                    }\n    }\n  }\n}\n";
        assert_eq!(tails(&s).to_string(), text);
    }

    /// A guard of the variable alone, one of a loop around, copies through registers, a guard that changes with the loop around.
    #[test]
    fn what_is_left_alone() {
        let [k, x, last] = ["k", "x", "last"].map(Expr::var);
        let copies = |guard: Expr| {
            let copies = loop_of("k", Expr::from(4), ForKind::Unrolled, guarded_by(guard, store(&k)));
            loop_of("x", Expr::var("n"), ForKind::Serial, copies)
        };
        for guard in [k.le(&last), Expr::var("y").le(&last), (&x * 4 + &k).le(&last)] {
            assert_eq!(tails(&copies(guard.clone())), copies(guard));
        }
        let s = copies((Expr::var("base") + &k).le(&last));
        assert_ne!(tails(&s), s);
        let (buffer, ty, extent, zeroed) = ("f.0".into(), ScalarType::F32, Expr::from(4), false);
        let s = Stmt::Allocate { buffer, ty, extent, memory: Memory::Register, zeroed, body: Box::new(s) };
        assert_eq!(tails(&s), s);
    }
}
