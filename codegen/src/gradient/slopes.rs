//! Slopes of single nodes: the change of a node where one operand changes.
//!
//! Slopes are linear in the change, so that one function serves both directions: a tangent is the sum of [`along`] over all operands,
//! and the adjoint of operand k is [`along`] it of the node's own. Functions have theirs from the one table,
//! [`Function::derivative`].
//!
//! A strict operation has the slope of the same one without the mark, whose products and sums are not strict.
//! Integers and conditions do not change; neither do floats made of them, roundings, or reinterpreted bits.

use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::functions::{Algebra, Function};
use crate::types::ScalarType;

/// Change of `node` where operand `k` changes by `change`, in type `to` (that of the node, or that of the operand, which differ in casts
/// between floats); none where it never changes. Of a selection and of extrema both ways must be told apart by their conditions
/// ([`arms`]).
pub(super) fn along(node: &Expr, k: usize, change: &Expr, to: ScalarType) -> Option<Expr> {
    match node.operation() {
        ExprKind::Cast(a) if a.ty().scalar.is_float() && node.ty().scalar.is_float() => Some(change.cast(to)),
        ExprKind::Unary(UnaryOp::Neg, _) => Some(negative(change)),
        ExprKind::Unary(op, a) => {
            let mut t = Terms::default();
            let (value, x, dx) = (t.keep(node.clone()), t.keep(a.clone()), t.keep(change.clone()));
            let d = op.function()?.derivative(&mut t, value, &[x], &[dx]);
            t.nonzero(d)
        }
        ExprKind::Binary(op, a, b) => binary(node, *op, [a, b], k, change),
        ExprKind::Fma(a, b, _) => match k {
            0 => Some(times(change, b)),
            1 => Some(times(a, change)),
            _ => Some(change.clone()),
        },
        _ => None,
    }
}

fn binary(node: &Expr, op: BinaryOp, [a, b]: [&Expr; 2], k: usize, change: &Expr) -> Option<Expr> {
    use BinaryOp::*;
    Some(match (op, k) {
        (Add, _) | (Sub, 0) => change.clone(),
        (Sub, _) => negative(change),
        (Mul, 0) => times(change, b),
        (Mul, _) => times(a, change),
        (Div, 0) => Expr::binary(Div, change, b),
        (Div, _) => negative(&times(change, &Expr::binary(Div, node, b))),
        (Mod, 0) => change.clone(),
        (Mod, _) => negative(&times(change, &Expr::binary(Div, a, b).floor())),
        (Atan2 | Pow, _) => {
            let mut t = Terms::default();
            let (value, x, y) = (t.keep(node.clone()), t.keep(a.clone()), t.keep(b.clone()));
            let (dx, zero) = (t.keep(change.clone()), t.keep(Expr::constant(node.ty(), 0.0)));
            let changes = if k == 0 { [dx, zero] } else { [zero, dx] };
            let d = op.function()?.derivative(&mut t, value, &[x, y], &changes);
            return t.nonzero(d);
        }
        _ => return None,
    })
}

/// Of a node whose value is that of one of two operands: the condition for the first, and their places.
pub(super) fn arms(node: &Expr) -> Option<(Expr, [usize; 2])> {
    match node.operation() {
        ExprKind::Select(c, ..) => Some((c.clone(), [1, 2])),
        ExprKind::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) if node.ty().scalar.is_float() => {
            let better = if *op == BinaryOp::Min { a.lt(b) } else { b.lt(a) };
            Some((better.or(b.is_nan()), [0, 1]))
        }
        _ => None,
    }
}

fn negative(e: &Expr) -> Expr {
    match e.as_float() {
        Some(v) => Expr::float(e.ty(), -v),
        None => e.unary(UnaryOp::Neg),
    }
}

/// A product, without factors of 1.
fn times(a: &Expr, b: &Expr) -> Expr {
    match (a.as_float(), b.as_float()) {
        (Some(1.0), _) => b.clone(),
        (_, Some(1.0)) => a.clone(),
        _ => Expr::binary(BinaryOp::Mul, a, b),
    }
}

/// Expressions by number, since [`Algebra`] copies its values.
#[derive(Default)]
struct Terms(Vec<Expr>);

impl Terms {
    fn keep(&mut self, e: Expr) -> usize {
        self.0.push(e);
        self.0.len() - 1
    }

    /// The type of all that is computed.
    fn constant(&self, v: f64) -> Expr {
        Expr::constant(self.0[0].ty(), v)
    }

    fn nonzero(&self, at: usize) -> Option<Expr> {
        (!self.is_zero(at)).then(|| self.0[at].clone())
    }
}

impl Algebra for Terms {
    type Value = usize;

    fn constant(&mut self, v: f64) -> usize {
        let e = Terms::constant(self, v);
        self.keep(e)
    }
    fn sum(&mut self, constant: f64, terms: &[(f64, usize)]) -> usize {
        let start = (constant != 0.0).then(|| Terms::constant(self, constant));
        let mut sum = start;
        for &(c, at) in terms.iter().filter(|(_, at)| !self.is_zero(*at)) {
            let (e, magnitude) = (self.0[at].clone(), Terms::constant(self, c.abs()));
            let e = times(&magnitude, &e);
            sum = Some(match sum {
                Some(sum) if c < 0.0 => Expr::binary(BinaryOp::Sub, sum, e),
                Some(sum) => Expr::binary(BinaryOp::Add, sum, e),
                None if c < 0.0 => negative(&e),
                None => e,
            });
        }
        let sum = sum.unwrap_or_else(|| Terms::constant(self, 0.0));
        self.keep(sum)
    }
    fn product(&mut self, coefficient: f64, factors: &[(usize, i32)]) -> usize {
        let (mut above, mut below) = (Terms::constant(self, coefficient), None);
        for &(at, exponent) in factors {
            for _ in 0..exponent.unsigned_abs() {
                let factor = &self.0[at];
                match exponent > 0 {
                    true => above = times(&above, factor),
                    false => below = Some(below.map_or(factor.clone(), |b| times(&b, factor))),
                }
            }
        }
        let zero = factors.iter().any(|&(at, exponent)| exponent > 0 && self.is_zero(at));
        self.keep(match below {
            _ if zero => Terms::constant(self, 0.0),
            Some(below) => Expr::binary(BinaryOp::Div, above, below),
            None => above,
        })
    }
    fn call(&mut self, f: Function, operands: &[usize]) -> usize {
        let operands: Vec<Expr> = operands.iter().map(|&at| self.0[at].clone()).collect();
        self.keep(Expr::apply(f, &operands))
    }
    fn select(&mut self, cond: usize, a: usize, b: usize) -> usize {
        let e = Expr::select(&self.0[cond], &self.0[a], &self.0[b]);
        self.keep(e)
    }
    fn truth(&mut self, a: usize) -> usize {
        let e = self.0[a].ne_(Terms::constant(self, 0.0));
        self.keep(e)
    }
    fn equal(&mut self, a: usize, b: usize) -> usize {
        let e = self.0[a].eq_(&self.0[b]);
        self.keep(e)
    }
    fn less(&mut self, a: usize, b: usize) -> usize {
        let e = self.0[a].lt(&self.0[b]);
        self.keep(e)
    }
    fn less_eq(&mut self, a: usize, b: usize) -> usize {
        let e = self.0[a].le(&self.0[b]);
        self.keep(e)
    }
    fn and(&mut self, conditions: &[usize]) -> usize {
        let all = conditions.iter().map(|&at| self.0[at].clone()).reduce(|a, b| a.and(b));
        self.keep(all.unwrap_or_else(|| Expr::bool(true)))
    }
    fn or(&mut self, conditions: &[usize]) -> usize {
        let any = conditions.iter().map(|&at| self.0[at].clone()).reduce(|a, b| a.or(b));
        self.keep(any.unwrap_or_else(|| Expr::bool(false)))
    }
    fn is_zero(&self, a: usize) -> bool {
        self.0[a].as_float() == Some(0.0)
    }
}
