//! Ranges of iterations: the interior of an innermost loop, and what lies before and behind it.
//!
//! Where the conditions of an interior are bounds of the loop's variable, the loop becomes two or three consecutive ones, so that no iteration tests
//! them. The order of iterations stays. In the interior the last block need not be moved inwards either: of `min(n k + b, last)`, bound at the
//! top of the body, `n k + b` is left.

use super::partition::is_fixed;
use crate::analysis::algebra::Facts;
use crate::analysis::algebra::build::{max, min};
use crate::analysis::algebra::poly::{Mono, Poly};
use crate::analysis::algebra::rebuild::rebuild;
use crate::expr::walk::variables;
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::ir::stmt::Stmt;
use crate::schedule::ForKind;
use crate::types::Type;

/// The rest of a body below the names bound at its top; these with their values in most iterations; and the conditions under which they have them.
pub(super) fn straightened(body: &Stmt, var: &Name) -> (Stmt, Vec<(Name, Expr)>, Vec<Expr>) {
    let (mut lets, mut tests, mut rest) = (vec![], vec![], body);
    while let Stmt::Let { name, value, body } = rest {
        let is_moved = value.ty() == Type::I32;
        let value = if is_moved { straight(value, var, &mut tests) } else { value.clone() };
        lets.push((name.clone(), value));
        rest = body;
    }
    (rest.clone(), lets, tests)
}

/// The operand of minima and maxima that changes with the loop, and when it is their value.
fn straight(e: &Expr, var: &Name, tests: &mut Vec<Expr>) -> Expr {
    let ExprKind::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) = e.kind() else { return e.clone() };
    let (moving, fixed) = match (variables(a).contains(var), variables(b).contains(var)) {
        (true, false) => (a, b),
        (false, true) => (b, a),
        _ => return e.clone(),
    };
    let moving = straight(moving, var, tests);
    let (less, more) = if *op == BinaryOp::Min { (&moving, fixed) } else { (fixed, &moving) };
    tests.push(less.clone().le(more.clone()));
    moving
}

/// The iterations in which conditions hold.
pub(super) struct Interior {
    /// They begin at the greatest of these.
    firsts: Vec<Expr>,
    /// They end before the least of these.
    ends: Vec<Expr>,
    /// There are any if these hold.
    fixed: Vec<Expr>,
}

impl Interior {
    /// Those in which all of `tests` hold; none if these are not bounds of `var`.
    pub(super) fn of(tests: Vec<Expr>, var: &Name, facts: &Facts) -> Option<Interior> {
        let mut interior = Interior { firsts: vec![], ends: vec![], fixed: vec![] };
        let moving = Mono::product([Expr::var(var.clone())]);
        for test in tests {
            if is_fixed(&test, var) {
                interior.fixed.push(test);
                continue;
            }
            // k var + r <= 0
            let ExprKind::Binary(_, a, _) = test.kind() else { return None };
            let form = facts.at_most_zero(&test).filter(|_| a.ty() == Type::I32)?;
            let (k, r) = (form.coef(&moving), form.without(&moving));
            let quotient = |p: Poly, by: i64| Some(rebuild(&p, Type::I32) / i32::try_from(by).ok()?);
            let bound = match k {
                1.. => quotient(r.scaled(-1)?, k)? + 1,
                0 => return None,
                _ => quotient(r.offset(k.checked_neg()? - 1)?, -k)?,
            };
            if !is_fixed(&bound, var) {
                return None;
            }
            if k > 0 { interior.ends.push(bound) } else { interior.firsts.push(bound) }
        }
        (!interior.firsts.is_empty() || !interior.ends.is_empty()).then_some(interior)
    }

    /// The loop over `[first, stop)`, `inside` in the interior and `general` outside of it.
    pub(super) fn around(self, var: &Name, first: &Expr, stop: &Expr, inside: Stmt, general: Stmt) -> Stmt {
        let named = |part: &str| Name::from(format!("{var}.{part}"));
        let [begin, end, range, from, to] = ["begin", "end", "range", "from", "to"].map(named);
        let value = |name: &Name| Expr::var(name.clone());
        let over = |from: &Expr, to: &Expr, body: Stmt| {
            let (var, min, extent) = (var.clone(), from.clone(), to.clone() - from.clone());
            Stmt::For { var, min, extent, kind: ForKind::Serial, body: Box::new(body) }
        };
        let begins = min(&self.firsts.iter().fold(first.clone(), |a, b| max(&a, b)), stop);
        if self.ends.is_empty() && self.fixed.is_empty() {
            let two = vec![over(first, &value(&begin), general), over(&value(&begin), stop, inside)];
            return bind(&begin, begins, Stmt::Block(two));
        }
        let has_start = !self.firsts.is_empty();
        let start = if has_start { value(&begin) } else { first.clone() };
        let last = max(&self.ends.iter().fold(stop.clone(), |a, b| min(&a, b)), &start);
        let last = match self.fixed.into_iter().reduce(|a, b| a.and(b)) {
            Some(all) => Expr::select(all, last, start.clone()),
            None => last,
        };
        if !has_start {
            let two = vec![over(first, &value(&end), inside), over(&value(&end), stop, general)];
            return bind(&end, last, Stmt::Block(two));
        }
        // One general body for what lies before and behind.
        let is = |n: i32| value(&range).eq_(n);
        let choice = |a: &Expr, b: &Expr, c: &Expr| {
            Expr::select(is(0), a.clone(), Expr::select(is(1), b.clone(), c.clone()))
        };
        let one = Stmt::If {
            cond: is(1),
            then: Box::new(over(&value(&from), &value(&to), inside)),
            otherwise: Some(Box::new(over(&value(&from), &value(&to), general))),
        };
        let ends = choice(&start, &value(&end), stop);
        let one = bind(&from, choice(first, &start, &value(&end)), bind(&to, ends, one));
        let (extent, kind) = (Expr::from(3), ForKind::Serial);
        let all = Stmt::For { var: range.clone(), min: 0.into(), extent, kind, body: Box::new(one) };
        bind(&begin, begins, bind(&end, last, all))
    }
}

fn bind(name: &Name, value: Expr, body: Stmt) -> Stmt {
    Stmt::Let { name: name.clone(), value, body: Box::new(body) }
}
