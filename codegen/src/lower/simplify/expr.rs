//! Expressions, from the leaves up.

use super::exact::exact;
use crate::analysis::algebra::Facts;
use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::poly::{Mono, Poly, as_lane, is_index, lane_atom};
use crate::analysis::algebra::rebuild::{rebuild, splat};
use crate::analysis::evaluate::boolean;
use crate::expr::walk::any;
use crate::expr::{BinaryOp, Expr, ExprKind, Name, UnaryOp};
use crate::types::{ScalarType, Type};
use rustc_hash::FxHashMap;

/// Rules that an integer expression obeys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Mode {
    /// i32 and i64 do not wrap.
    Index,
    /// Integers wrap.
    Data,
}

/// Simplifies expressions at one place of the program.
pub(super) struct Simplifier {
    pub facts: Facts,
    /// Values of let-bound names that replace them: constants, variables and parameters.
    pub known: FxHashMap<Name, Expr>,
    memo: FxHashMap<(usize, Mode), (Expr, Expr)>,
    polys: Polys,
    /// Nodes, with true if the subtree holds data.
    reads: FxHashMap<usize, (Expr, bool)>,
}

/// Applications of rules at one node before giving up on a fixed point: a bound, never reached in practice.
const ROUNDS: usize = 16;

impl Simplifier {
    pub(super) fn new(facts: Facts) -> Simplifier {
        Simplifier {
            facts,
            known: FxHashMap::default(),
            memo: FxHashMap::default(),
            polys: Polys::default(),
            reads: FxHashMap::default(),
        }
    }

    /// The same knowledge without results, to be extended where a scope is entered.
    pub(super) fn inner(&self) -> Simplifier {
        Simplifier { known: self.known.clone(), ..Simplifier::new(self.facts.clone()) }
    }

    /// Simplifies `e`; iterative over the DAG, each node once per mode.
    pub(super) fn expr(&mut self, e: &Expr, mode: Mode) -> Expr {
        let mut stack = vec![(e.clone(), mode, false)];
        while let Some((e, mode, ready)) = stack.pop() {
            if self.memo.contains_key(&(e.id(), mode)) {
                continue;
            }
            if !ready {
                stack.push((e.clone(), mode, true));
                let below = self.child_mode(&e, mode);
                e.for_each_child(|c| stack.push((c.clone(), below, false)));
                continue;
            }
            let below = self.child_mode(&e, mode);
            let mut children = vec![];
            e.for_each_child(|c| children.push(self.memo[&(c.id(), below)].1.clone()));
            let result = self.fixed_point(e.with_children(children), mode);
            // Results are in normal form themselves.
            self.memo.insert((result.id(), mode), (result.clone(), result.clone()));
            self.memo.insert((e.id(), mode), (e, result));
        }
        self.memo[&(e.id(), mode)].1.clone()
    }

    /// Mode of the children of `e`.
    fn child_mode(&mut self, e: &Expr, mode: Mode) -> Mode {
        match e.kind() {
            ExprKind::Call { .. } | ExprKind::Load { .. } => Mode::Index,
            ExprKind::Binary(op, a, _) if op.is_comparison() => {
                if is_index(a.ty()) && (mode == Mode::Index || !self.holds_data(e)) {
                    Mode::Index
                } else {
                    Mode::Data
                }
            }
            ExprKind::Reinterpret(_) => Mode::Data,
            ExprKind::Cast(a) if !is_index(a.ty()) => Mode::Data,
            ExprKind::Cast(_) if !is_index(e.ty()) => Mode::Data,
            _ => mode,
        }
    }

    /// True if loaded values, floats or bit patterns are among the operands: integer arithmetic there is data.
    pub(super) fn holds_data(&mut self, e: &Expr) -> bool {
        if let Some((_, r)) = self.reads.get(&e.id()) {
            return *r;
        }
        let r = any(e, |n| {
            n.ty().scalar.is_float()
                || matches!(
                    n.kind(),
                    ExprKind::Load { .. } | ExprKind::Call { .. } | ExprKind::Reinterpret(_)
                )
        });
        self.reads.insert(e.id(), (e.clone(), r));
        r
    }

    fn fixed_point(&mut self, mut e: Expr, mode: Mode) -> Expr {
        for _ in 0..ROUNDS {
            match self.step(&e, mode) {
                Some(next) if next != e => e = self.with_simple_children(&next, mode),
                _ => break,
            }
        }
        e
    }

    /// A rewrite may have made new nodes below the root; those that were there before are answered from the memo.
    fn with_simple_children(&mut self, e: &Expr, mode: Mode) -> Expr {
        let below = self.child_mode(e, mode);
        let mut old = vec![];
        e.for_each_child(|c| old.push(c.clone()));
        e.with_children(old.iter().map(|c| self.expr(c, below)).collect())
    }

    /// One rewrite at the root; none if `e` is in normal form.
    fn step(&mut self, e: &Expr, mode: Mode) -> Option<Expr> {
        if let ExprKind::Var(n) = e.kind() {
            return self.known.get(n).filter(|k| k.ty() == e.ty()).cloned();
        }
        if let Some(x) = exact(e) {
            return Some(x);
        }
        if let Some(x) = self.lift_broadcast(e) {
            return Some(x);
        }
        match e.kind() {
            ExprKind::Binary(op, a, b) if op.is_comparison() && is_index(a.ty()) => {
                match self.child_mode(e, mode) {
                    Mode::Index => self.comparison(*op, a, b),
                    Mode::Data => None,
                }
            }
            ExprKind::VectorReduce(op, a) => self.reduce(*op, a, e.ty().lanes),
            _ if mode == Mode::Index && is_index(e.ty()) => self.index(e),
            _ => None,
        }
    }

    /// `f(x8(a), x8(b))` is `x8(f(a, b))`: scalar work is done once.
    fn lift_broadcast(&mut self, e: &Expr) -> Option<Expr> {
        let lanes = e.ty().lanes;
        if lanes == 1
            || !matches!(
                e.kind(),
                ExprKind::Unary(..)
                    | ExprKind::Binary(..)
                    | ExprKind::Cast(_)
                    | ExprKind::Select(..)
                    | ExprKind::Likely(_)
                    | ExprKind::Fma(..)
                    | ExprKind::Strict(_)
            )
        {
            return None;
        }
        let mut inner = vec![];
        let mut uniform = true;
        e.for_each_child(|c| match c.kind() {
            ExprKind::Broadcast(x) if x.ty().lanes == 1 => inner.push(x.clone()),
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) | ExprKind::Param(_)
                if c.ty().lanes == 1 =>
            {
                inner.push(c.clone())
            }
            _ => uniform = false,
        });
        uniform.then(|| splat(e.with_children(inner), lanes))
    }

    /// Normal form of index arithmetic; min and max decided where possible.
    fn index(&mut self, e: &Expr) -> Option<Expr> {
        match e.kind() {
            ExprKind::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) => {
                let (small, large) = if *op == BinaryOp::Min { (a, b) } else { (b, a) };
                // min(a, b) is `small` if small <= large; max(a, b) = `large` of (b, a) is a if b <= a.
                if self.facts.proves_le(small, large) {
                    return Some(a.clone());
                }
                if self.facts.proves_le(large, small) {
                    return Some(b.clone());
                }
                None
            }
            ExprKind::Binary(BinaryOp::Div | BinaryOp::Mod, a, b) => {
                self.quotient(e, a, b).or_else(|| self.normal(e))
            }
            ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, ..)
            | ExprKind::Unary(UnaryOp::Neg, _)
            | ExprKind::Ramp(..)
            | ExprKind::Broadcast(_) => self.normal(e),
            ExprKind::Cast(a) if e.ty().scalar == ScalarType::I64 && a.ty().scalar == ScalarType::I32 => {
                self.widened(e, a)
            }
            _ => None,
        }
    }

    fn normal(&mut self, e: &Expr) -> Option<Expr> {
        let p = self.polys.of(e);
        Some(rebuild(&p, e.ty()))
    }

    /// A widening cast of a sum is the sum of casts; that of an atom stays.
    fn widened(&mut self, e: &Expr, a: &Expr) -> Option<Expr> {
        let p = self.polys.of(a);
        if p.as_atom().is_some_and(|x| x == a && as_lane(a).is_none()) {
            None
        } else {
            Some(rebuild(&p, e.ty()))
        }
    }

    /// `(c a + r) / c` and `mod c`, where the facts confine r to one multiple of c.
    fn quotient(&mut self, e: &Expr, a: &Expr, b: &Expr) -> Option<Expr> {
        let c = b.as_int().filter(|&c| c > 0)?;
        let p = self.polys.of(a);
        let (q, r) = p.split_multiples(c);
        if r.terms.is_empty() {
            return None;
        }
        let rest = rebuild(&r, e.ty());
        let k = self.facts.quotient(&rest, c)?;
        let p = match e.kind() {
            ExprKind::Binary(BinaryOp::Div, ..) => q.offset(k)?,
            _ => r.offset(k.checked_mul(c)?.checked_neg()?)?,
        };
        Some(rebuild(&p, e.ty()))
    }

    /// Comparison of index expressions: decided, split over min and max, or with common terms cancelled.
    fn comparison(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
        use BinaryOp::*;
        let (op, a, b) = match op {
            Gt => (Lt, b, a),
            Ge => (Le, b, a),
            op => (op, a, b),
        };
        let e = Expr::binary(op, a.clone(), b.clone());
        if let Some(v) = self.facts.decide(&e) {
            return Some(boolean(e.ty(), v));
        }
        if matches!(op, Le | Lt) {
            let both = |x: Expr, y: Expr| Some(x.and(y));
            if let ExprKind::Binary(Min, x, y) = b.kind() {
                let (x, y) = (Expr::binary(op, a, x), Expr::binary(op, a, y));
                return both(self.fixed_point(x, Mode::Index), self.fixed_point(y, Mode::Index));
            }
            if let ExprKind::Binary(Max, x, y) = a.kind() {
                let (x, y) = (Expr::binary(op, x, b), Expr::binary(op, y, b));
                return both(self.fixed_point(x, Mode::Index), self.fixed_point(y, Mode::Index));
            }
        }
        let (p, q) = (self.polys.of(a), self.polys.of(b));
        let d = p.clone().plus(&q, -1)?;
        let cancels = d.terms.len() < p.terms.len() + q.terms.len() || (p.constant != 0 && q.constant != 0);
        Some(if cancels { balanced(op, &d, a.ty()) } else { e })
    }

    /// A reduction over lanes of an affine condition is the condition at the first or last lane; `lanes` are those of the result.
    fn reduce(&mut self, op: BinaryOp, a: &Expr, lanes: u16) -> Option<Expr> {
        match (op, a.kind()) {
            (BinaryOp::And, ExprKind::Binary(BinaryOp::And, x, y)) => {
                let x = self.reduced(op, x, lanes);
                Some(x.and(self.reduced(op, y, lanes)))
            }
            (BinaryOp::Or, ExprKind::Binary(BinaryOp::Or, x, y)) => {
                let x = self.reduced(op, x, lanes);
                Some(x.or(self.reduced(op, y, lanes)))
            }
            (BinaryOp::And | BinaryOp::Or, ExprKind::Likely(x)) => {
                let x = self.reduced(op, x, lanes);
                Some(x.likely())
            }
            (BinaryOp::And | BinaryOp::Or, ExprKind::Unary(UnaryOp::Not, x)) => {
                let dual = if op == BinaryOp::And { BinaryOp::Or } else { BinaryOp::And };
                Some(self.reduced(dual, x, lanes).not_())
            }
            (BinaryOp::And | BinaryOp::Or, ExprKind::Binary(cmp, x, y)) if is_index(x.ty()) => {
                if self.holds_data(a) { None } else { self.decisive_lane(op, *cmp, x, y, lanes) }
            }
            _ => None,
        }
    }

    /// `x cmp y` for all (And) or some (Or) lanes of each group, where `x - y` is affine in the lane number, or in digits of it: what tells apart the
    /// lanes of a group is decided by the lane where all of that is 0 or its greatest.
    fn decisive_lane(
        &mut self,
        op: BinaryOp,
        cmp: BinaryOp,
        x: &Expr,
        y: &Expr,
        groups: u16,
    ) -> Option<Expr> {
        let (cmp, x, y) = match cmp {
            BinaryOp::Le | BinaryOp::Lt => (cmp, x, y),
            BinaryOp::Ge => (BinaryOp::Le, y, x),
            BinaryOp::Gt => (BinaryOp::Lt, y, x),
            _ => return None,
        };
        let each = i64::from(x.ty().lanes / groups);
        let mut d = self.polys.of(x).plus(&self.polys.of(y), -1)?;
        let uniform = |m: &Mono| m.iter().all(|e| e.ty().lanes == 1);
        let (mut decided, mut outer) = (vec![], Poly::default());
        while let Some(i) = d.terms.iter().position(|(m, _)| !uniform(m)) {
            let (m, k) = d.terms.remove(i);
            let [atom] = &m[..] else { return None };
            let (low, high) = digit(atom)?;
            let fits = |n: i64| each % n == 0 || n % each == 0;
            if !(fits(low) && fits(high)) {
                return None;
            }
            let inner = (low, high.min(each));
            if inner.0 < inner.1 {
                let value = if (op == BinaryOp::And) == (k > 0) { inner.1 / inner.0 - 1 } else { 0 };
                d.constant = d.constant.checked_add(k.checked_mul(value)?)?;
                decided.push(inner);
            }
            if high > each {
                let (unit, low) = ((each / low).max(1), (low / each).max(1));
                let part = self.polys.of(&lane_digit(groups, low, high / each));
                outer = outer.plus(&part, k.checked_mul(unit)?)?;
            }
        }
        decided.sort_unstable();
        let apart = decided.windows(2).all(|d| d[1].0 % d[0].1 == 0);
        let d = d.plus(&outer, 1)?;
        apart.then(|| balanced(cmp, &d, Type::of(x.ty().scalar).with_lanes(groups)))
    }

    fn reduced(&mut self, op: BinaryOp, a: &Expr, lanes: u16) -> Expr {
        self.fixed_point(Expr::reduced(op, a.clone(), lanes), Mode::Data)
    }
}

/// The lane number, or a digit of it: `lane % high / low`, as these two, where the number of lanes is a multiple of `high` and that of `low`. Digits
/// that do not overlap take all values that they have together.
fn digit(e: &Expr) -> Option<(i64, i64)> {
    if let Some(lanes) = as_lane(e) {
        return Some((1, i64::from(lanes)));
    }
    let ExprKind::Binary(op, a, c) = e.kind() else { return None };
    let ((low, high), c) = (digit(a)?, c.as_int().filter(|c| *c > 0)?);
    let part = match op {
        BinaryOp::Div => (low.checked_mul(c)?, high),
        BinaryOp::Mod => (low, low.checked_mul(c)?),
        _ => return None,
    };
    (high % part.0 == 0 && high % part.1 == 0).then_some(part)
}

/// The digit `lane % high / low` of the number of one of `lanes`.
fn lane_digit(lanes: u16, low: i64, high: i64) -> Expr {
    let constant = |c: i64| splat(Expr::from(c as i32), lanes);
    let lane = lane_atom(lanes);
    let below = if high < i64::from(lanes) { lane.modulo(constant(high)) } else { lane };
    if low > 1 { below / constant(low) } else { below }
}

/// `d op 0` with the positive terms on the left and the others, negated, on the right.
fn balanced(op: BinaryOp, d: &Poly, ty: Type) -> Expr {
    let (mut left, mut right) = (Poly::default(), Poly::default());
    for (m, c) in &d.terms {
        if *c > 0 {
            left.terms.push((m.clone(), *c));
        } else {
            right.terms.push((m.clone(), -c));
        }
    }
    if d.constant > 0 && !left.terms.is_empty()
        || right.terms.is_empty() && d.constant < 0 && left.terms.is_empty()
    {
        left.constant = d.constant;
    } else {
        right.constant = -d.constant;
    }
    Expr::binary(op, rebuild(&left, ty), rebuild(&right, ty))
}
