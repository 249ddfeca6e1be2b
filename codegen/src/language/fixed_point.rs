//! Arithmetic on integers as numbers of limited range: saturating, widening, halving, interpolating.
//!
//! All are made of the operators of [`crate::expr`] in the forms that LLVM turns into the one instruction where there is
//! one. Operands of different types are brought to one as those of operators are; on floats the plain operation is meant.

use crate::expr::{Expr, Operand};
use crate::types::ScalarType;

impl Expr {
    /// Conversion to the nearest value of `to`: integers are clamped to its range, floats convert as by [`Expr::cast`].
    pub fn saturating_cast(&self, to: ScalarType) -> Expr {
        let ty = self.ty();
        if !ty.scalar.is_int() || !to.is_int() {
            return self.cast(to);
        }
        let ((least, greatest), (low, high)) = (range(ty.scalar), range(to));
        let mut e = self.clone();
        if low > least {
            e = e.max(Expr::int(ty, low as i64));
        }
        if high < greatest {
            e = e.min(Expr::int(ty, high as i64));
        }
        e.cast(to)
    }

    /// The nearest value of the type to `self + b`.
    pub fn saturating_add(&self, b: impl Operand) -> Expr {
        let (a, b) = self.clone().with(b);
        let ty = a.ty();
        match ty.scalar.wider() {
            _ if !ty.scalar.is_int() => a + &b,
            _ if !ty.scalar.is_signed() => a.min(b.not_()) + &b,
            Some(wide) => (a.cast(wide) + b.cast(wide)).saturating_cast(ty.scalar),
            None => {
                let sum = &a + &b;
                // Overflow: both operands have the sign that the sum lacks.
                let overflow = a.xor(&sum).and(b.xor(&sum)).lt(Expr::int(ty, 0));
                Expr::select(overflow, beyond(&a), sum)
            }
        }
    }

    /// The nearest value of the type to `self - b`.
    pub fn saturating_sub(&self, b: impl Operand) -> Expr {
        let (a, b) = self.clone().with(b);
        let ty = a.ty();
        match ty.scalar.wider() {
            _ if !ty.scalar.is_int() => a - &b,
            _ if !ty.scalar.is_signed() => a.max(&b) - &b,
            Some(wide) => (a.cast(wide) - b.cast(wide)).saturating_cast(ty.scalar),
            None => {
                let difference = &a - &b;
                let overflow = a.xor(&b).and(a.xor(&difference)).lt(Expr::int(ty, 0));
                Expr::select(overflow, beyond(&a), difference)
            }
        }
    }

    /// `self + b` in the type of twice the width. That of 64 bits wraps, as do the other widening operations.
    pub fn widening_add(&self, b: impl Operand) -> Expr {
        let (a, b) = self.clone().with(b);
        let wide = wider(&a);
        a.cast(wide) + b.cast(wide)
    }

    /// `self - b` in the signed type of twice the width.
    pub fn widening_sub(&self, b: impl Operand) -> Expr {
        let (a, b) = self.clone().with(b);
        let wide = wider(&a).signed();
        a.cast(wide) - b.cast(wide)
    }

    /// `self * b` in the type of twice the width.
    pub fn widening_mul(&self, b: impl Operand) -> Expr {
        let (a, b) = self.clone().with(b);
        let wide = wider(&a);
        a.cast(wide) * b.cast(wide)
    }

    /// `(self + b) / 2` without overflow, rounded down.
    pub fn halving_add(&self, b: impl Operand) -> Expr {
        let (a, b) = self.clone().with(b);
        let ty = a.ty();
        if ty.scalar.is_float() {
            return (a + &b) * Expr::float(ty, 0.5);
        }
        a.and(&b) + a.xor(&b).shr(Expr::int(ty, 1))
    }

    /// `(self + b) / 2` without overflow, rounded up.
    pub fn rounding_halving_add(&self, b: impl Operand) -> Expr {
        let (a, b) = self.clone().with(b);
        let ty = a.ty();
        if ty.scalar.is_float() {
            return a.halving_add(b);
        }
        a.or(&b) - a.xor(&b).shr(Expr::int(ty, 1))
    }

    /// `|self - b|` without overflow: of integers, in the unsigned type of their width.
    pub fn absd(&self, b: impl Operand) -> Expr {
        let (a, b) = self.clone().with(b);
        if a.ty().scalar.is_float() {
            return (a - &b).abs();
        }
        (a.max(&b) - a.min(&b)).cast(a.ty().scalar.unsigned())
    }

    /// The value between `zero` and `one` that `weight` says, 0 being `zero`. A float weight runs to 1. The weight of integers is
    /// a float (clamped), or an unsigned integer of their width that runs to its greatest value M; the result is the exact
    /// `(zero (M - weight) + one weight) / M` to the nearest integer. 64-bit integers go through f64.
    pub fn lerp(zero: impl Into<Expr>, one: impl Into<Expr>, weight: impl Into<Expr>) -> Expr {
        let (zero, one, weight) = (zero.into(), one.into(), weight.into());
        let ty = zero.ty();
        let float = |ty, a: &Expr, b: &Expr, w: Expr| {
            a.cast(ty) * (Expr::float(zero.ty().of_element(ty), 1.0) - &w) + b.cast(ty) * w
        };
        if ty.scalar.is_float() {
            return float(ty.scalar, &zero, &one, weight.cast(ty.scalar));
        }
        let unsigned = ty.scalar.unsigned();
        let most = greatest_as_f64(unsigned);
        let Some(wide) = unsigned.wider() else {
            let w = weight.cast(ScalarType::F64);
            let w = if weight.ty().scalar.is_float() { w } else { w / most };
            return float(ScalarType::F64, &zero, &one, w).round().cast(ty.scalar);
        };
        let weight = match weight.ty().scalar.is_float() {
            true => {
                let w = weight.cast(ScalarType::F64);
                let limit = |v| Expr::float(w.ty(), v);
                (w.max(limit(0.0)).min(limit(1.0)) * most).round().cast(unsigned)
            }
            false => weight.cast(unsigned),
        };
        // A signed number, moved up by half of the range, is an unsigned one.
        let bias =
            Expr::int(ty.of_element(unsigned), if ty.scalar.is_signed() { ty.scalar.least() } else { 0 });
        let moved = |e: &Expr| e.cast(unsigned).xor(&bias).cast(wide);
        let (w, m) = (weight.cast(wide), Expr::int(ty.of_element(wide), unsigned.greatest()));
        let sum = moved(&zero) * (&m - &w) + moved(&one) * w;
        ((sum + &m / 2) / m).cast(unsigned).xor(bias).cast(ty.scalar)
    }
}

/// Least and greatest value of an integer type.
fn range(ty: ScalarType) -> (i128, i128) {
    let greatest = match ty {
        ScalarType::U64 => u64::MAX as i128,
        ty => ty.greatest() as i128,
    };
    (ty.least() as i128, greatest)
}

fn greatest_as_f64(ty: ScalarType) -> f64 {
    range(ty).1 as f64
}

/// The type of twice the width, or the type itself.
fn wider(e: &Expr) -> ScalarType {
    e.ty().scalar.wider().unwrap_or(e.ty().scalar)
}

/// The end of the type's range on the side of `a`'s sign.
fn beyond(a: &Expr) -> Expr {
    let ty = a.ty();
    Expr::select(a.lt(Expr::int(ty, 0)), Expr::least(ty), Expr::greatest(ty))
}
