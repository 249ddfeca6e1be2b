//! Conditions: comparisons, logic and selection.
//!
//! `And`, `Or` and `Select` use what one condition says about another ([`Dag::implies`]): operands that others imply
//! vanish, contradictions fold, and a branch is resolved under the condition that guards it. Boxes of `InBounds` under
//! one `And` become their hull: the domain is a box, so both lie inside iff the hull does.

use super::{At, Compare, Dag, ExprId, Node, Offset};

/// Longer operand lists are only sorted and deduplicated, not compared pairwise.
const PAIRWISE_LIMIT: usize = 48;
/// Depth of nested conditions to which an implication looks.
const IMPLIES_DEPTH: u32 = 4;

impl Dag {
    /// Tells whether the node is 1 or 0 by construction.
    pub fn is_boolean(&self, id: ExprId) -> bool {
        match self.node(id) {
            Node::InBounds { .. } | Node::Free(..) | Node::Compare(..) | Node::NonZero(_) => true,
            Node::SameVertex(..) | Node::InBoundsAt { .. } | Node::And(_) | Node::Or(_) | Node::Not(_) => {
                true
            }
            Node::Const(c) => c.get() == 0.0 || c.get() == 1.0,
            _ => false,
        }
    }

    /// `a ~= 0` as a boolean; a boolean is itself.
    pub fn truth(&mut self, a: ExprId) -> ExprId {
        if self.is_boolean(a) {
            return a;
        }
        match *self.node(a) {
            Node::Const(c) => return self.constant(f64::from(u8::from(c.get() != 0.0))),
            Node::Select(cond, x, y) if self.is_constant(y, 0.0) => {
                let x = self.truth(x);
                return self.and(&[cond, x]);
            }
            _ => {}
        }
        if let Some(two) = self.two_valued(a) {
            return self.choose(two.0, two.1 != 0.0, two.2 != 0.0);
        }
        self.intern(Node::NonZero(a))
    }

    /// `a op b`.
    pub fn compare(&mut self, op: Compare, a: ExprId, b: ExprId) -> ExprId {
        let holds = |x: f64, y: f64| match op {
            Compare::Eq => x == y,
            Compare::Less => x < y,
            Compare::LessEq => x <= y,
        };
        match (self.as_constant(a), self.as_constant(b)) {
            (Some(x), Some(y)) => return self.constant(f64::from(u8::from(holds(x, y)))),
            (None, Some(y)) => {
                if let Some((cond, t, f)) = self.two_valued(a) {
                    return self.choose(cond, holds(t, y), holds(f, y));
                }
            }
            (Some(x), None) => {
                if let Some((cond, t, f)) = self.two_valued(b) {
                    return self.choose(cond, holds(x, t), holds(x, f));
                }
            }
            (None, None) => {}
        }
        // `x == x` and `x <= x` are false for NaN and stay.
        if a == b && op == Compare::Less {
            return self.constant(0.0);
        }
        if a == b && self.is_boolean(a) {
            return self.constant(1.0);
        }
        let (a, b) = if op == Compare::Eq && b < a { (b, a) } else { (a, b) };
        self.intern(Node::Compare(op, a, b))
    }

    /// An expression where it is a positive and finite number, else NaN.
    pub(crate) fn positive_or_nan(&mut self, e: ExprId) -> ExprId {
        let [zero, most, none] = [0.0, f64::INFINITY, f64::NAN].map(|v| self.constant(v));
        let (positive, finite) = (self.less(zero, e), self.less(e, most));
        let is_so = self.and(&[positive, finite]);
        self.select(is_so, e, none)
    }

    /// `a < b`.
    pub fn less(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.compare(Compare::Less, a, b)
    }

    /// `a <= b`.
    pub fn less_eq(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.compare(Compare::LessEq, a, b)
    }

    /// `a > b`.
    pub fn greater(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.compare(Compare::Less, b, a)
    }

    /// `a >= b`.
    pub fn greater_eq(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.compare(Compare::LessEq, b, a)
    }

    /// `a == b`.
    pub fn equal(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.compare(Compare::Eq, a, b)
    }

    /// Not `a`.
    pub fn not(&mut self, a: ExprId) -> ExprId {
        let a = self.truth(a);
        match *self.node(a) {
            Node::Const(c) => self.constant(1.0 - c.get()),
            Node::Not(b) => b,
            _ => self.intern(Node::Not(a)),
        }
    }

    /// All of `operands`; 1 if there are none.
    pub fn and(&mut self, operands: &[ExprId]) -> ExprId {
        let mut ops = Vec::with_capacity(operands.len());
        let mut boxes: Option<(Offset, Offset)> = None;
        for &op in operands {
            let op = self.truth(op);
            let inner = match self.node(op) {
                Node::And(inner) => inner.to_vec(),
                _ => vec![op],
            };
            for i in inner {
                match self.node(i) {
                    Node::InBounds { lo, hi } => match &mut boxes {
                        Some((l, h)) if l.len() == lo.len() => {
                            l.iter_mut().zip(lo).for_each(|(a, b)| *a = (*a).min(*b));
                            h.iter_mut().zip(hi).for_each(|(a, b)| *a = (*a).max(*b));
                        }
                        Some(_) => ops.push(i),
                        None => boxes = Some((lo.clone(), hi.clone())),
                    },
                    Node::Const(c) if c.get() == 0.0 => return self.constant(0.0),
                    Node::Const(_) => {}
                    _ => ops.push(i),
                }
            }
        }
        if let Some((lo, hi)) = boxes {
            ops.push(self.in_bounds(&lo, &hi));
        }
        self.finish_logic(ops, true)
    }

    /// Any of `operands`; 0 if there are none.
    pub fn or(&mut self, operands: &[ExprId]) -> ExprId {
        let mut ops = Vec::with_capacity(operands.len());
        for &op in operands {
            let op = self.truth(op);
            match self.node(op) {
                Node::Or(inner) => ops.extend(inner.iter().copied()),
                Node::Const(c) if c.get() != 0.0 => return self.constant(1.0),
                Node::Const(_) => {}
                _ => ops.push(op),
            }
        }
        self.finish_logic(ops, false)
    }

    /// Sorts, absorbs and interns the operands of a conjunction (or disjunction).
    fn finish_logic(&mut self, mut ops: Vec<ExprId>, conjunction: bool) -> ExprId {
        ops.sort_unstable();
        ops.dedup();
        if ops.len() <= PAIRWISE_LIMIT {
            if self.complementary(&ops, conjunction) {
                return self.constant(f64::from(u8::from(!conjunction)));
            }
            let mut i = 0;
            while i < ops.len() {
                // In a conjunction drop what another operand implies, in a disjunction what implies another.
                let redundant = (0..ops.len()).any(|j| {
                    j != i
                        && if conjunction {
                            self.implies(ops[j], ops[i])
                        } else {
                            self.implies(ops[i], ops[j])
                        }
                });
                if redundant {
                    ops.remove(i);
                } else {
                    i += 1;
                }
            }
        }
        match ops[..] {
            [] => self.constant(f64::from(u8::from(conjunction))),
            [one] => one,
            _ if conjunction => self.intern(Node::And(ops.into_boxed_slice())),
            _ => self.intern(Node::Or(ops.into_boxed_slice())),
        }
    }

    /// Tells whether two operands cannot both hold (conjunction), or cannot both fail (disjunction).
    fn complementary(&self, ops: &[ExprId], conjunction: bool) -> bool {
        ops.iter().any(|&a| {
            ops.iter().any(|&b| match (conjunction, self.node(a)) {
                _ if a == b => false,
                (true, _) => self.excludes(a, b),
                (false, &Node::Not(inner)) => self.implies(inner, b),
                (false, _) => false,
            })
        })
    }

    /// `cond ? a : b`, selecting values; `cond` is true when not 0.
    pub fn select(&mut self, cond: ExprId, a: ExprId, b: ExprId) -> ExprId {
        let cond = self.truth(cond);
        match *self.node(cond) {
            Node::Const(c) => return if c.get() != 0.0 { a } else { b },
            Node::Not(c) if !self.is_constant(b, 0.0) || self.is_constant(a, 0.0) => {
                return self.select(c, b, a);
            }
            _ => {}
        }
        if a == b {
            return a;
        }
        let negated = self.not(cond);
        let (a, b) = (self.under(cond, a), self.under(negated, b));
        if a == b {
            return a;
        }
        let (zero, one) = (self.constant(0.0), self.constant(1.0));
        if self.is_boolean(a) && self.is_boolean(b) {
            match (a, b) {
                _ if b == zero => return self.and(&[cond, a]),
                _ if a == one => return self.or(&[cond, b]),
                _ if a == zero => return self.and(&[negated, b]),
                _ if b == one => return self.or(&[negated, a]),
                _ => {}
            }
        }
        if a == zero {
            return self.guard(negated, b);
        }
        if b == zero {
            return self.guard(cond, a);
        }
        self.intern(Node::Select(cond, a, b))
    }

    /// `Select(cond, a, 0)` for a non-boolean `a`.
    fn guard(&mut self, cond: ExprId, a: ExprId) -> ExprId {
        if let Some((inner, x)) = self.as_guarded(a) {
            let both = self.and(&[cond, inner]);
            let zero = self.constant(0.0);
            return self.select(both, x, zero);
        }
        match self.as_constant(a) {
            Some(k) if k.is_finite() => self.sum(0.0, &[(k, cond)]),
            _ => {
                let zero = self.constant(0.0);
                self.intern(Node::Select(cond, a, zero))
            }
        }
    }

    /// `a` where `cond` is known to hold (looking at its outermost Selects only).
    pub fn under(&mut self, cond: ExprId, mut a: ExprId) -> ExprId {
        loop {
            match *self.node(a) {
                Node::Select(c, x, _) if self.implies(cond, c) => a = x,
                Node::Select(c, _, y) if self.excludes(cond, c) => a = y,
                Node::Const(_) => return a,
                _ if !self.is_boolean(a) => return a,
                _ if self.implies(cond, a) => return self.constant(1.0),
                _ if self.excludes(cond, a) => return self.constant(0.0),
                _ => return a,
            }
        }
    }

    /// Tells whether `a` is known to imply `b`. May miss implications, never invents one.
    pub fn implies(&self, a: ExprId, b: ExprId) -> bool {
        self.implies_to(a, b, IMPLIES_DEPTH)
    }

    /// Tells whether `a` and `b` are known never to hold together.
    pub fn excludes(&self, a: ExprId, b: ExprId) -> bool {
        self.excludes_to(a, b, IMPLIES_DEPTH)
    }

    fn implies_to(&self, a: ExprId, b: ExprId, depth: u32) -> bool {
        if a == b {
            return true;
        }
        self.spend(1);
        if depth == 0 || self.is_spent() {
            return false;
        }
        let deeper = depth - 1;
        match (self.node(a), self.node(b)) {
            (Node::Const(c), _) if c.get() == 0.0 => true,
            (_, Node::Const(c)) => c.get() != 0.0,
            (Node::Or(ops), _) => ops.iter().all(|&o| self.implies_to(o, b, deeper)),
            (_, Node::And(ops)) => ops.iter().all(|&o| self.implies_to(a, o, deeper)),
            (Node::And(ops), Node::Or(others)) => {
                ops.iter().any(|&o| self.implies_to(o, b, deeper))
                    || others.iter().any(|&o| self.implies_to(a, o, deeper))
            }
            (Node::And(ops), _) => ops.iter().any(|&o| self.implies_to(o, b, deeper)),
            (_, Node::Or(ops)) => ops.iter().any(|&o| self.implies_to(a, o, deeper)),
            (&Node::Not(x), &Node::Not(y)) => self.implies_to(y, x, deeper),
            (_, &Node::Not(y)) => self.excludes_to(a, y, deeper),
            (Node::InBounds { lo, hi }, Node::InBounds { lo: l, hi: h }) => holds_box((lo, hi), (l, h)),
            (Node::Free(_, At::Offset(o)), Node::InBounds { lo, hi }) => {
                let l: Offset = o.iter().map(|&v| v.min(0)).collect();
                let h: Offset = o.iter().map(|&v| v.max(0)).collect();
                holds_box((&l, &h), (lo, hi))
            }
            (&Node::Compare(p, a0, a1), &Node::Compare(q, b0, b1)) => {
                use Compare::{Eq, Less, LessEq};
                match (p, q) {
                    (Less, LessEq) => (a0, a1) == (b0, b1),
                    (Eq, LessEq) => (a0, a1) == (b0, b1) || (a1, a0) == (b0, b1),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    fn excludes_to(&self, a: ExprId, b: ExprId, depth: u32) -> bool {
        self.spend(1);
        if depth == 0 || a == b || self.is_spent() {
            return self.is_constant(a, 0.0);
        }
        let deeper = depth - 1;
        match (self.node(a), self.node(b)) {
            (Node::Const(c), _) | (_, Node::Const(c)) if c.get() == 0.0 => true,
            (&Node::Not(x), _) if self.implies_to(b, x, deeper) => true,
            (_, &Node::Not(y)) if self.implies_to(a, y, deeper) => true,
            (Node::And(ops), _) => ops.iter().any(|&o| self.excludes_to(o, b, deeper)),
            (_, Node::And(ops)) => ops.iter().any(|&o| self.excludes_to(a, o, deeper)),
            (Node::Or(ops), _) => ops.iter().all(|&o| self.excludes_to(o, b, deeper)),
            (_, Node::Or(ops)) => ops.iter().all(|&o| self.excludes_to(a, o, deeper)),
            (&Node::Compare(p, a0, a1), &Node::Compare(q, b0, b1)) => {
                use Compare::{Eq, Less, LessEq};
                let same = (a0, a1) == (b0, b1);
                let swapped = (a0, a1) == (b1, b0);
                match (p, q) {
                    (Less, Less) | (Less, LessEq) | (LessEq, Less) => swapped,
                    (Less, Eq) | (Eq, Less) => same || swapped,
                    (Eq, Eq) => self.differ_by_constant(a0, a1, b0, b1),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// Tells whether `a0 == a1` and `b0 == b1` compare one expression with two distinct constants.
    fn differ_by_constant(&self, a0: ExprId, a1: ExprId, b0: ExprId, b1: ExprId) -> bool {
        let split = |x, y| match (self.as_constant(x), self.as_constant(y)) {
            (Some(c), None) => Some((y, c)),
            (None, Some(c)) => Some((x, c)),
            _ => None,
        };
        matches!((split(a0, a1), split(b0, b1)), (Some((x, c)), Some((y, d))) if x == y && c != d)
    }

    /// `(cond, value if it holds, value if not)` of a node that takes two constant values: a boolean, a sum with one boolean
    /// term, or a Select of constants.
    fn two_valued(&self, id: ExprId) -> Option<(ExprId, f64, f64)> {
        match self.node(id) {
            Node::Const(_) => None,
            Node::Sum { constant, terms } if terms.len() == 1 && self.is_boolean(terms[0].1) => {
                let k = constant.get();
                Some((terms[0].1, k + terms[0].0.get(), k))
            }
            &Node::Select(cond, a, b) => Some((cond, self.as_constant(a)?, self.as_constant(b)?)),
            _ if self.is_boolean(id) => Some((id, 1.0, 0.0)),
            _ => None,
        }
    }

    /// The boolean that is `then` where `cond` holds and `otherwise` where not.
    fn choose(&mut self, cond: ExprId, then: bool, otherwise: bool) -> ExprId {
        match (then, otherwise) {
            (true, true) => self.constant(1.0),
            (false, false) => self.constant(0.0),
            (true, false) => cond,
            (false, true) => self.not(cond),
        }
    }
}

/// Tells whether the first box holds the second.
fn holds_box(outer: (&Offset, &Offset), inner: (&Offset, &Offset)) -> bool {
    outer.0.len() == inner.0.len()
        && outer.0.iter().zip(inner.0).all(|(o, i)| o <= i)
        && outer.1.iter().zip(inner.1).all(|(o, i)| o >= i)
}
