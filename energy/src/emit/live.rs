//! Count of the values that live at once where expressions are evaluated in the order in which the engine emits them: the noise-free
//! measure of what an order of operands is worth.
//!
//! The engine evaluates operands before users, the first operand first, a shared node once. A value lives from there to its last use;
//! the roots live to the end. Constants, parameters and arithmetic on coordinates are no values: they do not change from element to
//! element, or are addresses. Counted is the body that runs in the interior of a domain, where what is likely holds.

use rustc_hash::{FxHashMap, FxHashSet};
use sumsq_codegen::{BinaryOp, Expr, ExprKind, ScalarType};

/// Cost of evaluating some expressions. The order of the fields is that of importance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Pressure {
    /// Values that live at once, at most.
    pub live: u32,
    /// Number of selections under another condition than the one before.
    pub switches: u32,
}

/// The pressure of evaluating `roots`, one after the other.
pub fn pressure(roots: &[Expr]) -> Pressure {
    let mut interior = Interior::default();
    let roots: Vec<Expr> = roots.iter().map(|r| interior.resolve(r)).collect();
    let order = interior.order(&roots);
    let mut uses: FxHashMap<usize, u32> = FxHashMap::default();
    for e in &order {
        interior.operands(e).iter().for_each(|o| *uses.entry(o.id()).or_default() += 1);
    }
    roots.iter().for_each(|r| *uses.entry(r.id()).or_default() += 1);
    let (mut all, mut live, mut condition) = (Pressure::default(), 0u32, None);
    for e in &order {
        if let ExprKind::Select(c, ..) = e.kind() {
            let c = interior.resolve(c).id();
            all.switches += u32::from(condition.is_some_and(|before| before != c));
            condition = Some(c);
        }
        for o in interior.operands(e) {
            let left = uses.get_mut(&o.id()).expect("operands were counted");
            *left -= 1;
            live -= u32::from(*left == 0 && is_value(&o));
        }
        live += u32::from(is_value(e));
        all.live = all.live.max(live);
    }
    all
}

/// Tells whether an evaluated node is a value that takes a register. An operand's register may hold the result.
fn is_value(e: &Expr) -> bool {
    let leaf = matches!(
        e.kind(),
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) | ExprKind::Param(_) | ExprKind::Likely(_)
    );
    !leaf && (e.ty().scalar.is_float() || e.ty().scalar == ScalarType::Bool)
}

/// Expressions as they are where everything likely is true.
#[derive(Default)]
struct Interior {
    /// Truth of expressions there; nodes are kept so that their ids stay theirs.
    holds: FxHashMap<usize, (Expr, bool)>,
}

impl Interior {
    fn holds(&mut self, e: &Expr) -> bool {
        if let Some((_, known)) = self.holds.get(&e.id()) {
            return *known;
        }
        let mut stack = vec![(e.clone(), false)];
        while let Some((n, ready)) = stack.pop() {
            let known = |e: &Expr| self.holds.get(&e.id()).is_some_and(|k| k.1);
            let value = match n.kind() {
                ExprKind::Likely(_) => true,
                ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b)
                    if n.ty().scalar == ScalarType::Bool =>
                {
                    if !ready {
                        stack.push((n.clone(), true));
                        stack.extend([(a.clone(), false), (b.clone(), false)]);
                        continue;
                    }
                    if *op == BinaryOp::And { known(a) && known(b) } else { known(a) || known(b) }
                }
                _ => false,
            };
            self.holds.insert(n.id(), (n, value));
        }
        self.holds[&e.id()].1
    }

    /// Returns what stands for `e`: the arm of a selection that is decided, the open part of a conjunction.
    fn resolve(&mut self, e: &Expr) -> Expr {
        let mut e = e.clone();
        loop {
            e = match e.kind() {
                ExprKind::Select(c, a, _) if self.holds(&c.clone()) => a.clone(),
                ExprKind::Binary(BinaryOp::And, a, b) if e.ty().scalar == ScalarType::Bool => {
                    let (a, b) = (a.clone(), b.clone());
                    match (self.holds(&a), self.holds(&b)) {
                        (true, false) => b,
                        (false, true) => a,
                        _ => return e,
                    }
                }
                _ => return e,
            };
        }
    }

    fn operands(&mut self, e: &Expr) -> Vec<Expr> {
        let mut operands = vec![];
        if !self.holds(e) {
            e.for_each_child(|c| operands.push(c.clone()));
        }
        operands.iter().map(|o| self.resolve(o)).collect()
    }

    /// The nodes below `roots` in the order of their evaluation.
    fn order(&mut self, roots: &[Expr]) -> Vec<Expr> {
        let (mut order, mut seen) = (vec![], FxHashSet::default());
        for root in roots {
            let mut stack = vec![(root.clone(), false)];
            while let Some((e, ready)) = stack.pop() {
                if seen.contains(&e.id()) {
                    continue;
                }
                if ready {
                    seen.insert(e.id());
                    order.push(e);
                    continue;
                }
                let operands = self.operands(&e);
                stack.push((e, true));
                stack.extend(operands.into_iter().rev().map(|o| (o, false)));
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(n: usize) -> Expr {
        Expr::call("a", ScalarType::F32, vec![Expr::var("x") + 1], n)
    }

    #[test]
    fn values_live_to_their_last_use() {
        let [a, b, c] = [0, 1, 2].map(read);
        assert_eq!(pressure(&[&a + &b]).live, 2);
        // a b, a b + c: two at a time.
        assert_eq!(pressure(&[&(&a * &b) + &c]).live, 2);
        // a waits for b c.
        assert_eq!(pressure(&[&a + &(&b * &c)]).live, 3);
        // a is used twice.
        assert_eq!(pressure(&[&(&(&a * &b) + &c) * &a]).live, 3);
        // A root waits for the others.
        assert_eq!(pressure(&[&a + &b, &b * &c]).live, 3);
        assert_eq!(pressure(&[a.clone() + 1.0]).live, 1);
    }

    #[test]
    fn what_is_likely_costs_nothing() {
        let [a, b] = [0, 1].map(read);
        let zero = || Expr::float(ScalarType::F32, 0.0);
        let inside = Expr::var("x").gt(3).likely();
        let far = Expr::var("y").gt(3).likely();
        let guarded = Expr::select(inside.and(far), a.clone(), zero());
        assert_eq!(pressure(&[&guarded + &b]), pressure(&[&a + &b]));
        let mask = b.gt(zero());
        let both = Expr::select(Expr::var("x").gt(3).likely().and(mask.clone()), a.clone(), zero());
        assert_eq!(pressure(&[both]), pressure(&[Expr::select(mask, a, zero())]));
    }

    #[test]
    fn conditions_are_switched_between() {
        let [a, b] = [0, 1].map(read);
        let zero = || Expr::float(ScalarType::F32, 0.0);
        let (p, q) = (a.gt(zero()), b.gt(zero()));
        let s = |c: &Expr, e: &Expr| Expr::select(c.clone(), e.clone(), zero());
        let apart = &(&s(&p, &a) + &s(&q, &b)) + &s(&p, &b);
        let together = &(&s(&p, &a) + &s(&p, &b)) + &s(&q, &b);
        assert_eq!((pressure(&[apart]).switches, pressure(&[together]).switches), (2, 1));
    }
}
