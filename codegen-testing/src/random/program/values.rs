//! Expressions.

use super::Builder;
use sumsq_codegen::{Expr, ScalarType, UnaryOp};

impl Builder<'_> {
    /// A value of type `ty` around the coordinates `at`, one per dimension.
    pub(super) fn value(&mut self, ty: ScalarType, at: &[Expr], depth: usize) -> Expr {
        if depth == 0 || self.rng.percent(15) {
            return self.leaf(ty, at);
        }
        if ty == ScalarType::Bool {
            return self.condition(at, depth);
        }
        if ty.is_float() && self.rng.percent(8) {
            return self.value(ty, at, depth - 1).strict_float();
        }
        if self.smooth && ty.is_float() {
            return self.polynomial(ty, at, depth);
        }
        let a = self.value(ty, at, depth - 1);
        if self.rng.percent(15) {
            return if ty.is_float() { self.float_unary(a) } else { self.int_unary(ty, a) };
        }
        let b = self.value(ty, at, depth - 1);
        match self.rng.below(10) {
            0 => a - b,
            1 => a * b,
            2 => a.min(b),
            3 => a.max(b),
            4 => Expr::select(self.compare(true, &a, &b), b, a),
            5 => {
                let condition = self.condition(at, depth - 1);
                Expr::select(condition, a, b)
            }
            8 if self.rng.percent(30) => {
                let number = self.rng.pick(at);
                Expr::mux(number, [a.clone(), b.clone(), a + b])
            }
            6 | 7 if !ty.is_float() => self.int_binary(a, b),
            6 => a / self.rng.range(2, 9),
            _ => a + b,
        }
    }

    /// Sums and products of floats, without anything that magnifies the error of an operand.
    fn polynomial(&mut self, ty: ScalarType, at: &[Expr], depth: usize) -> Expr {
        let [a, b] = [0, 1].map(|_| self.value(ty, at, depth - 1));
        match self.rng.below(10) {
            0 => a - b,
            1 | 2 => a * b,
            3 => a.min(b),
            4 => a.max(b.abs()),
            5 => {
                let condition = self.condition(at, depth - 1);
                Expr::select(condition, a, -b)
            }
            6 => a / self.rng.range(2, 9) + b,
            7 => Expr::fma(&a, &b, &a),
            8 => a.powi(2) - b,
            _ => a + b,
        }
    }

    /// `a + b`, or what stands for it on bool.
    pub(super) fn plus(&mut self, a: Expr, b: Expr) -> Expr {
        if a.ty().scalar == ScalarType::Bool { a.xor(b) } else { a + b }
    }

    /// A comparison. Those of i32 and i64 may read no memory once Funcs are inlined, and must not overflow then: they are
    /// made in another type, in which there is no such rule.
    pub(super) fn compare(&mut self, less: bool, a: &Expr, b: &Expr) -> Expr {
        let ty = match a.ty().scalar {
            ScalarType::I32 => ScalarType::I16,
            ScalarType::I64 => ScalarType::U64,
            ty => ty,
        };
        let (a, b) = (a.cast(ty), b.cast(ty));
        match self.rng.below(4) {
            0 if less => a.le(b),
            0 => a.ge(b),
            _ if less => a.lt(b),
            _ => a.gt(b),
        }
    }

    pub(super) fn condition(&mut self, at: &[Expr], depth: usize) -> Expr {
        // A comparison of floats that a schedule changes a little may come out otherwise.
        match self.rng.below(if self.smooth { 2 } else { 8 }) {
            // The same through a run: what only one arm needs is not computed.
            7 => self.scale().gt(self.rng.range(-2, 2) as i32),
            0 => at[0].lt(self.rng.range(0, 9) as i32),
            1 => (&at[0] + &at[1]).modulo(self.rng.range(2, 3) as i32).eq_(0).likely(),
            2 if depth > 0 => self.condition(at, depth - 1).and(self.condition(at, depth - 1)),
            3 if depth > 0 => self.condition(at, depth - 1).or(self.condition(at, depth - 1)),
            4 if depth > 0 => self.condition(at, depth - 1).not_(),
            _ => {
                let ty = self.ty();
                let (a, b) = (self.leaf(ty, at), self.leaf(ty, at));
                match self.rng.below(3) {
                    0 => {
                        let smaller = if ty == ScalarType::I32 { ScalarType::U32 } else { ty };
                        let smaller = if ty == ScalarType::I64 { ScalarType::U64 } else { smaller };
                        a.cast(smaller).ne_(b.cast(smaller))
                    }
                    k => self.compare(k == 1, &a, &b),
                }
            }
        }
    }

    fn leaf(&mut self, ty: ScalarType, at: &[Expr]) -> Expr {
        match self.rng.below(10) {
            9 => {
                let seed = self.rng.bits() as u32;
                match self.smooth || ty.is_float() {
                    true => Expr::random_f32(seed, at).cast(ty),
                    false => Expr::random_u32(seed, at).cast(ty),
                }
            }
            0 => Expr::constant(ty, self.rng.range(0, 20) as f64),
            1 => self.rng.pick(at).cast(ty),
            2 => self.scale().cast(ty),
            3 => {
                let name = self.name("any");
                let any = self.case.pipeline.params[&*name];
                Expr::param(name, any).cast(ty)
            }
            _ => {
                let callee = self.callee();
                let call = self.call(&callee, at);
                let from = call.ty().scalar;
                match self.rng.below(6) {
                    // The same bits, except in half precision, whose NaNs have no one pattern.
                    0 if from.bytes() == ty.bytes() && from.is_int() && ty.is_int() => call.reinterpret(ty),
                    1 => call.saturating_cast(ty),
                    _ => call.cast(ty),
                }
            }
        }
    }

    fn int_unary(&mut self, ty: ScalarType, a: Expr) -> Expr {
        match self.rng.below(4) {
            0 => -a,
            1 => a.not_(),
            2 if ty.is_signed() => a.abs(),
            _ => self.through_another(ty, a),
        }
    }

    /// To some other type and back.
    fn through_another(&mut self, ty: ScalarType, a: Expr) -> Expr {
        let other = self.ty();
        a.cast(other).cast(ty)
    }

    fn int_binary(&mut self, a: Expr, b: Expr) -> Expr {
        let ty = b.ty();
        match self.rng.below(22) {
            16 => a.rounding_shift_right(b),
            17 => a.rounding_shift_left(b),
            18 => a.rounding_shift_right(Expr::int(ty, self.rng.range(0, 9))),
            19 => a.mul_shift_right(b, self.rng.below(70) as u32),
            20 => a.rounding_mul_shift_right(b, self.rng.below(70) as u32),
            21 => a.rounding_mul_shift_right(b, ty.scalar.bits() - 1),
            0 => a / b,
            1 => a.modulo(b),
            2 => a / self.rng.range(1, 9),
            3 => a / Expr::int(ty, ty.scalar.wrap(self.rng.range(-9, 0))),
            4 => a.modulo(Expr::int(ty, self.rng.range(1, 9))),
            5 => a.and(b),
            6 => a.or(b),
            7 => a.xor(b),
            8 => a.shl(b),
            9 => a.shr(b),
            10 => a.shr(Expr::int(ty, self.rng.range(0, 9))),
            11 => a.saturating_add(b),
            12 => a.saturating_sub(b),
            13 => a.widening_mul(b).cast(ty.scalar),
            14 => Expr::lerp(&a, &b, Expr::int(ty.of_element(ty.scalar.unsigned()), self.rng.range(0, 255))),
            _ => a.absd(b).cast(ty.scalar),
        }
    }

    fn float_unary(&mut self, a: Expr) -> Expr {
        let ty = a.ty().scalar;
        match self.rng.below(13) {
            10 => a.powi(self.rng.range(-3, 6) as i32),
            11 if ty == ScalarType::F32 => {
                let fast = [Expr::fast_exp, Expr::fast_log, Expr::fast_inverse, Expr::fast_inverse_sqrt];
                self.rng.pick(&fast)(&a)
            }
            12 if ty == ScalarType::F32 => a.fast_pow(self.rng.range(-2, 4) as f32),
            7 | 8 if ty != ScalarType::F16 => {
                a.unary(self.rng.pick(&[UnaryOp::Sin, UnaryOp::Cos, UnaryOp::Exp, UnaryOp::Log]))
            }
            // Of f32 the library's functions of f64, rounded, are others.
            9 if ty == ScalarType::F64 => {
                a.unary(self.rng.pick(&[UnaryOp::Tan, UnaryOp::Tanh, UnaryOp::Atan, UnaryOp::Sinh]))
            }
            0 => -a,
            1 => a.abs().sqrt(),
            2 => a.floor(),
            3 => a.unary(UnaryOp::Round),
            4 => Expr::fma(&a, &a, &a),
            5 => self.through_another(ty, a),
            _ => a.abs(),
        }
    }
}
