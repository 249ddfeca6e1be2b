//! Recognition of associative reductions: the form that rfactor, atomics and reordering count on.

use crate::expr::walk::{Memo, any, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::types::ScalarType;

/// Form of an update that combines an element `f(a)` of its own with something free of `f`.
#[derive(Clone, PartialEq, Debug)]
pub enum Reduction {
    /// `f(a).k = f(a).k op_k e_k` for every tuple element k, in either operand order: associative and commutative.
    Elementwise(Vec<BinaryOp>),
    /// `f(a) = select(e_key better f(a).key, e, f(a))` for the whole tuple: argmin (`Lt`), argmax (`Gt`). Associative, but not
    /// commutative: of equal candidates the first stays.
    Extremum {
        /// The tuple element that is compared.
        key: usize,
        /// `Lt` or `Gt`: which candidate replaces.
        better: BinaryOp,
    },
}

impl Reduction {
    /// The form of an update `f(args) = values` where `predicate` holds; none if it has neither. Coordinates and predicate
    /// must not depend on `f`: whether and where something is added would depend on the order.
    pub fn of(f: &Name, args: &[Expr], values: &[Expr], predicate: Option<&Expr>) -> Option<Reduction> {
        let update = Update { f, args };
        if args.iter().chain(predicate).any(|e| update.reads(e)) {
            return None;
        }
        let ops: Option<Vec<BinaryOp>> =
            values.iter().enumerate().map(|(k, v)| update.operands(k, v).map(|x| x.0)).collect();
        ops.map(Reduction::Elementwise).or_else(|| update.extremum(values))
    }

    /// Does every order give the same? Within rounding, for sums and products of floats.
    pub fn commutes(&self) -> bool {
        matches!(self, Reduction::Elementwise(_))
    }

    /// Does another order round differently? Of minima and maxima only the sign of a zero depends on it, which does not count
    /// here; see [`crate::plan::contracts`] for strict floats.
    pub fn rounds(&self, types: &[ScalarType]) -> bool {
        let Reduction::Elementwise(ops) = self else { return false };
        let sum = |op: &BinaryOp| matches!(op, BinaryOp::Add | BinaryOp::Mul);
        ops.iter().zip(types).any(|(op, ty)| ty.is_float() && sum(op))
    }

    /// The tuple that changes nothing when it is combined.
    pub fn identity(&self, types: &[ScalarType]) -> Vec<Expr> {
        let one = |(k, &ty): (usize, &ScalarType)| match self {
            Reduction::Elementwise(ops) => identity(ops[k], ty),
            Reduction::Extremum { key, better } if *key == k => match better {
                BinaryOp::Lt => identity(BinaryOp::Min, ty),
                _ => identity(BinaryOp::Max, ty),
            },
            Reduction::Extremum { .. } => Expr::constant(ty, 0.0),
        };
        types.iter().enumerate().map(one).collect()
    }

    /// The tuple `old` combined with the tuple `new`, which comes later.
    pub fn combine(&self, old: &[Expr], new: &[Expr]) -> Vec<Expr> {
        match self {
            Reduction::Elementwise(ops) => {
                ops.iter().zip(old.iter().zip(new)).map(|(op, (a, b))| Expr::binary(*op, a, b)).collect()
            }
            Reduction::Extremum { key, better } => {
                let take = Expr::binary(*better, &new[*key], &old[*key]);
                old.iter().zip(new).map(|(a, b)| Expr::select(&take, b, a)).collect()
            }
        }
    }
}

/// Returns what an elementwise update combines each element with.
pub(crate) fn operands(f: &Name, args: &[Expr], values: &[Expr]) -> Option<Vec<(BinaryOp, Expr)>> {
    let update = Update { f, args };
    values.iter().enumerate().map(|(k, v)| update.operands(k, v)).collect()
}

/// `e` with every call `f(args)` replaced by `into(at)`.
pub(crate) fn redirect(e: &Expr, f: &Name, args: &[Expr], into: &Name, at: &[Expr]) -> Expr {
    rewrite(e, &mut Memo::default(), &mut |old, new| match old.kind() {
        ExprKind::Call { name, args: own, value } if name == f && own == args => {
            Expr::call(into.clone(), old.ty().scalar, at.to_vec(), *value)
        }
        _ => new,
    })
}

/// `e` with every call of `f` replaced by one of `by`.
pub(crate) fn redirect_all(e: &Expr, f: &Name, by: &Name) -> Expr {
    rewrite(e, &mut Memo::default(), &mut |_, new| match new.kind() {
        ExprKind::Call { name, args, value } if name == f => {
            Expr::call(by.clone(), new.ty().scalar, args.clone(), *value)
        }
        _ => new,
    })
}

struct Update<'a> {
    f: &'a Name,
    args: &'a [Expr],
}

impl Update<'_> {
    fn reads(&self, e: &Expr) -> bool {
        any(e, |n| matches!(n.kind(), ExprKind::Call { name, .. } if name == self.f))
    }

    /// Is `e` the updated element `k` itself?
    fn is_self(&self, e: &Expr, k: usize) -> bool {
        matches!(e.kind(), ExprKind::Call { name, args, value }
            if name == self.f && args == self.args && *value == k)
    }

    /// `(op, e)` of tuple element `k`.
    fn operands(&self, k: usize, v: &Expr) -> Option<(BinaryOp, Expr)> {
        use BinaryOp::*;
        let ExprKind::Binary(op, a, b) = v.kind() else { return None };
        let bitwise = matches!(op, And | Or | Xor) && !v.ty().scalar.is_float();
        if !matches!(op, Add | Mul | Min | Max) && !bitwise {
            return None;
        }
        // The running value may sit anywhere in a chain of one operator: (f + a) + b is f + (a + b) only with
        // reassociation, so only the two operands of the root count.
        match (self.is_self(a, k), self.is_self(b, k)) {
            (true, false) if !self.reads(b) => Some((*op, b.clone())),
            (false, true) if !self.reads(a) => Some((*op, a.clone())),
            _ => None,
        }
    }

    /// Argmin and argmax: one strict comparison decides about every element.
    fn extremum(&self, values: &[Expr]) -> Option<Reduction> {
        use BinaryOp::{Gt, Lt};
        let parts = |v: &Expr| match v.kind() {
            ExprKind::Select(c, a, b) => Some((c.clone(), a.clone(), b.clone())),
            _ => None,
        };
        let parts: Vec<(Expr, Expr, Expr)> = values.iter().map(parts).collect::<Option<_>>()?;
        let condition = &parts.first()?.0;
        let ExprKind::Binary(op @ (Lt | Gt), a, b) = condition.kind() else { return None };
        let key_of = |e: &Expr| (0..values.len()).find(|&k| self.is_self(e, k));
        let (candidate, key, better) = match (key_of(a), key_of(b)) {
            (None, Some(key)) => (a, key, *op),
            (Some(key), None) => (b, key, if *op == Lt { Gt } else { Lt }),
            _ => return None,
        };
        let fits = |(k, (c, new, old)): (usize, &(Expr, Expr, Expr))| {
            c == condition && self.is_self(old, k) && !self.reads(new) && (k != key || new == candidate)
        };
        parts.iter().enumerate().all(fits).then_some(Reduction::Extremum { key, better })
    }
}

/// The value that changes nothing: -0 for float sums (-0 + 0 is 0), infinities for float minima and maxima.
pub(crate) fn identity(op: BinaryOp, ty: ScalarType) -> Expr {
    match op {
        BinaryOp::Add if ty.is_float() => Expr::float(ty, -0.0),
        BinaryOp::Add | BinaryOp::Or | BinaryOp::Xor => Expr::constant(ty, 0.0),
        BinaryOp::Mul => Expr::constant(ty, 1.0),
        BinaryOp::Min => Expr::greatest(ty),
        BinaryOp::Max => Expr::least(ty),
        BinaryOp::And => Expr::int(ty, -1),
        _ => unreachable!("identity: {op:?} is not an associative operator"),
    }
}
