//! Shifts that round, and products of fixed-point numbers: exact until the last step, which says what it does.

use crate::expr::{Expr, Operand};

impl Expr {
    /// `self / 2^b` to the nearest integer, halves up, without overflow on the way; for negative `b` a shift to the left, which wraps.
    pub fn rounding_shift_right(&self, b: impl Operand) -> Expr {
        let (a, b) = self.clone().with(b);
        let ty = a.ty();
        let one = Expr::int(ty, 1);
        // The last bit that is shifted out is the half.
        let right = |b: &Expr| a.shr(b) + a.shr(b - &one).and(&one);
        match b.as_int() {
            Some(0) => a,
            Some(n) if n > 0 || !ty.scalar.is_signed() => right(&b),
            Some(_) => a.shl(-b),
            None if ty.scalar.is_signed() => Expr::select(is_above(&b, 0), right(&b), a.shl(-b.clone())),
            None => Expr::select(b.gt(0), right(&b), a),
        }
    }

    /// `self` times `2^b`, which wraps; for negative `b` [`Expr::rounding_shift_right`] by `-b`.
    pub fn rounding_shift_left(&self, b: impl Operand) -> Expr {
        let (a, b) = self.clone().with(b);
        if !a.ty().scalar.is_signed() {
            return a.shl(b);
        }
        match b.as_int() {
            Some(n) if n >= 0 => a.shl(b),
            Some(_) => a.rounding_shift_right(-b),
            None => Expr::select(is_above(&b, -1), a.shl(&b), a.rounding_shift_right(-b.clone())),
        }
    }

    /// The nearest value of the type to `self * b / 2^q`, rounded down. The product is exact, but of 64 bits, which wraps.
    pub fn mul_shift_right(&self, b: impl Operand, q: u32) -> Expr {
        let (a, b) = self.clone().with(b);
        let product = a.widening_mul(&b);
        let q = Expr::int(product.ty(), i64::from(q));
        product.shr(q).saturating_cast(a.ty().scalar)
    }

    /// The nearest value of the type to `self * b / 2^q`, rounded to the nearest integer, halves up. The product is exact, but of 64 bits,
    /// which wraps. Of i16 with a `q` of 15 it is one instruction of many processors, and a correction.
    pub fn rounding_mul_shift_right(&self, b: impl Operand, q: u32) -> Expr {
        let (a, b) = self.clone().with(b);
        let ty = a.ty();
        let product = a.widening_mul(&b);
        let fractions = ty.scalar.is_signed() && product.ty() != ty && q + 1 == ty.scalar.bits();
        if !fractions {
            let q = Expr::int(product.ty(), i64::from(q));
            return product.rounding_shift_right(q).saturating_cast(ty.scalar);
        }
        // Of all products only that of the least number with itself is beyond the type, and only that wraps to the least number.
        let q = i64::from(q);
        let (shift, one) = (Expr::int(product.ty(), q - 1), Expr::int(product.ty(), 1));
        let rounded = (product.shr(shift) + &one).shr(&one).cast(ty.scalar);
        let unsigned = |e: &Expr| e.cast(ty.scalar.unsigned());
        let wrapped = unsigned(&rounded).eq_(unsigned(&Expr::least(ty)));
        Expr::select(wrapped, Expr::greatest(ty), rounded)
    }
}

/// `a > least`, -1 or 0, of a signed number. As a comparison of unsigned ones, since those of i32 and i64 must not overflow.
fn is_above(a: &Expr, least: i64) -> Expr {
    let ty = a.ty().scalar;
    let first = least + 1;
    (a - first).cast(ty.unsigned()).le(Expr::int(ty.unsigned(), ty.greatest() - first))
}
