//! Values of operators on constants, and of expressions whose variables and parameters are known.
//!
//! Exact, as [`crate::expr`] defines every operator: integers wrap in their type, division is Euclidean and total, floats are
//! rounded once per operation. What it cannot do exactly (library functions) it leaves alone.

use crate::analysis::algebra::rebuild::splat;
use crate::expr::walk::{Memo, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind, Name, Param, UnaryOp};
use crate::types::{ScalarType, Type, f16};
use rustc_hash::FxHashMap;

/// The constants that variables and parameters stand for.
#[derive(Clone, Default, Debug)]
pub struct Known {
    /// Variables.
    pub vars: FxHashMap<Name, Expr>,
    /// Parameters.
    pub params: FxHashMap<Param, Expr>,
}

/// The integer value of `e` where variables and parameters are known; none if that is not all it depends on.
pub fn evaluate(e: &Expr, known: &Known) -> Option<i64> {
    constant(e, known)?.as_int()
}

/// The constant that `e` is where variables and parameters are known; none if that is not all it depends on, or it is not exact.
pub fn constant(e: &Expr, known: &Known) -> Option<Expr> {
    Constants::new(known).of(e)
}

/// Constants of many expressions: what they share is looked at once.
pub struct Constants<'k> {
    known: &'k Known,
    memo: Memo,
}

impl<'k> Constants<'k> {
    /// Those where `known` is all that is known.
    pub fn new(known: &'k Known) -> Constants<'k> {
        Constants { known, memo: Memo::default() }
    }

    /// As [`constant`].
    pub fn of(&mut self, e: &Expr) -> Option<Expr> {
        let known = self.known;
        let value = rewrite(e, &mut self.memo, &mut |_, new| match new.kind() {
            ExprKind::Var(name) => known.vars.get(name).cloned().unwrap_or(new),
            ExprKind::Param(param) => known.params.get(param).cloned().unwrap_or(new),
            _ => fold(&new).unwrap_or(new),
        });
        (value.as_int().is_some() || value.as_float().is_some()).then_some(value)
    }
}

/// The constant that an operator gives for constant operands; none if some are not, or the result is not exact.
pub fn fold(e: &Expr) -> Option<Expr> {
    match e.operation() {
        ExprKind::Unary(op, a) => unary(*op, a, e.ty()),
        ExprKind::Binary(op, a, b) => binary(*op, a, b),
        ExprKind::Select(c, a, b) => c.as_int().map(|c| if c == 0 { b.clone() } else { a.clone() }),
        ExprKind::Likely(c) => c.as_int().map(|_| c.clone()),
        ExprKind::Cast(a) => cast(a, e.ty()),
        ExprKind::Reinterpret(a) => Some(splat(of_bits(e.ty().scalar, bits(a)?), e.ty().lanes)),
        ExprKind::Fma(a, b, c) => fma(a.as_float()?, b.as_float()?, c.as_float()?, e.ty()),
        _ => None,
    }
}

/// An integer in every lane of a type.
pub fn int(ty: Type, v: i64) -> Expr {
    splat(Expr::int(ty.scalar, v), ty.lanes)
}

fn float(ty: Type, v: f64) -> Expr {
    splat(Expr::float(ty.scalar, v), ty.lanes)
}

/// A truth value in every lane of a type.
pub fn boolean(ty: Type, v: bool) -> Expr {
    int(ty.as_bool(), v as i64)
}

/// The constant of a type with these bits, of which it takes the low ones.
pub fn of_bits(ty: ScalarType, bits: u64) -> Expr {
    match ty {
        ScalarType::Bool => Expr::bool(bits & 1 != 0),
        ScalarType::F16 => Expr::float(ty, f16::from_bits(bits as u16).to_f64()),
        ScalarType::F32 => Expr::float(ty, f32::from_bits(bits as u32) as f64),
        ScalarType::F64 => Expr::float(ty, f64::from_bits(bits)),
        ty => Expr::int(ty, ty.wrap(bits as i64)),
    }
}

/// The bits of a constant, in the low bytes.
pub fn bits(e: &Expr) -> Option<u64> {
    if let Some(v) = e.as_int() {
        return Some(v as u64);
    }
    let v = e.as_float()?;
    Some(match e.ty().scalar {
        ScalarType::F16 => f16::from_f64(v).to_bits().into(),
        ScalarType::F32 => (v as f32).to_bits().into(),
        _ => v.to_bits(),
    })
}

fn unary(op: UnaryOp, a: &Expr, ty: Type) -> Option<Expr> {
    use UnaryOp::*;
    if let Some(v) = a.as_int() {
        return match op {
            Neg => Some(int(ty, v.wrapping_neg())),
            Not if ty.scalar == ScalarType::Bool => Some(int(ty, 1 - v)),
            Not => Some(int(ty, !v)),
            Abs if ty.scalar.is_signed() => Some(int(ty, v.wrapping_abs())),
            Abs => Some(a.clone()),
            _ => None,
        };
    }
    let v = a.as_float()?;
    match op {
        Neg => Some(float(ty, -v)),
        Abs => Some(float(ty, v.abs())),
        // Rounding f64's root to the type is the type's root (2p + 2 bits).
        Sqrt => Some(float(ty, v.sqrt())),
        Floor => Some(float(ty, v.floor())),
        Ceil => Some(float(ty, v.ceil())),
        Trunc => Some(float(ty, v.trunc())),
        Round => Some(float(ty, v.round_ties_even())),
        IsNan => Some(boolean(ty, v.is_nan())),
        _ => None,
    }
}

fn fma(a: f64, b: f64, c: f64, ty: Type) -> Option<Expr> {
    match ty.scalar {
        ScalarType::F32 => Some(float(ty, (a as f32).mul_add(b as f32, c as f32) as f64)),
        ScalarType::F64 => Some(float(ty, a.mul_add(b, c))),
        _ => None,
    }
}

fn binary(op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
    let ty = a.ty();
    if let (Some(x), Some(y)) = (a.as_float(), b.as_float()) {
        return fold_float(op, ty, x, y);
    }
    let v = fold_int(op, ty.scalar, a.as_int()?, b.as_int()?)?;
    Some(if op.is_comparison() { boolean(ty, v != 0) } else { int(ty, v) })
}

/// Value of a binary operator on integers of type `ty` (u64 as its bits).
fn fold_int(op: BinaryOp, ty: ScalarType, a: i64, b: i64) -> Option<i64> {
    use BinaryOp::*;
    let unsigned = ty == ScalarType::U64;
    let less = if unsigned { (a as u64) < (b as u64) } else { a < b };
    let width = 8 * ty.bytes() as i64;
    let shift = |v: i64| if (0..width).contains(&b) { v } else { 0 };
    Some(match op {
        Add => ty.wrap(a.wrapping_add(b)),
        Sub => ty.wrap(a.wrapping_sub(b)),
        Mul => ty.wrap(a.wrapping_mul(b)),
        Div | Mod if b == 0 => 0,
        Div if unsigned => ((a as u64) / (b as u64)) as i64,
        Mod if unsigned => ((a as u64) % (b as u64)) as i64,
        Div => ty.wrap(a.wrapping_div_euclid(b)),
        Mod => ty.wrap(a.wrapping_rem_euclid(b)),
        Min if less => a,
        Min => b,
        Max if less => b,
        Max => a,
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        Shl => shift(ty.wrap(a.wrapping_shl(b as u32))),
        Shr if unsigned => shift(((a as u64).wrapping_shr(b as u32)) as i64),
        Shr if (0..width).contains(&b) => a >> b,
        Shr if ty.is_signed() => a >> 63,
        Shr => 0,
        Eq => (a == b) as i64,
        Ne => (a != b) as i64,
        Lt => less as i64,
        Le => (less || a == b) as i64,
        Gt => (!less && a != b) as i64,
        Ge => !less as i64,
        _ => return None,
    })
}

/// Results of f16 and f32 are exact: one operation in f64, rounded, is the operation in the type (2p + 2 bits).
fn fold_float(op: BinaryOp, ty: Type, a: f64, b: f64) -> Option<Expr> {
    use BinaryOp::*;
    Some(match op {
        Add => float(ty, a + b),
        Sub => float(ty, a - b),
        Mul => float(ty, a * b),
        Div => float(ty, a / b),
        Min => float(ty, if b.is_nan() || a < b { a } else { b }),
        Max => float(ty, if b.is_nan() || a > b { a } else { b }),
        Eq => boolean(ty, a == b),
        Ne => boolean(ty, a != b),
        Lt => boolean(ty, a < b),
        Le => boolean(ty, a <= b),
        Gt => boolean(ty, a > b),
        Ge => boolean(ty, a >= b),
        _ => return None,
    })
}

fn cast(a: &Expr, ty: Type) -> Option<Expr> {
    use ScalarType::*;
    let from = a.ty().scalar;
    if from == ty.scalar {
        return Some(a.clone());
    }
    if let Some(v) = a.as_int() {
        return match ty.scalar {
            // An integer that f64 does not hold is beyond f16's range.
            F16 if from == U64 => Some(float(ty, (v as u64) as f64)),
            F16 => Some(float(ty, v as f64)),
            // i64 to f32 goes directly, not through f64.
            F32 if from == U64 => Some(float(ty, (v as u64) as f32 as f64)),
            F32 => Some(float(ty, v as f32 as f64)),
            F64 if from == U64 => Some(float(ty, (v as u64) as f64)),
            F64 => Some(float(ty, v as f64)),
            _ => Some(int(ty, v)),
        };
    }
    a.as_float().map(|v| splat(Expr::constant(ty.scalar, v), ty.lanes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use BinaryOp::*;

    fn value(op: BinaryOp, ty: ScalarType, a: i64, b: i64) -> Option<i64> {
        evaluate(&Expr::binary(op, Expr::int(ty, a), Expr::int(ty, b)), &Known::default())
    }

    #[test]
    fn division_is_euclidean_and_total() {
        for (a, b, q, r) in [(7, 3, 2, 1), (-7, 3, -3, 2), (7, -3, -2, 1), (-7, -3, 3, 2), (5, 0, 0, 0)] {
            let ty = ScalarType::I32;
            assert_eq!((value(Div, ty, a, b), value(Mod, ty, a, b)), (Some(q), Some(r)), "{a} by {b}");
        }
    }

    #[test]
    fn integers_wrap_in_their_type() {
        use ScalarType::*;
        let least = i64::from(i32::MIN);
        assert_eq!(value(Div, I8, -128, -1), Some(-128));
        assert_eq!(value(Div, I64, i64::MIN, -1), Some(i64::MIN));
        assert_eq!(value(Mul, I32, 1 << 20, 1 << 12), Some(0));
        assert_eq!(value(Sub, I32, least, 1), Some(i32::MAX.into()));
        assert_eq!(value(Div, U64, -1, 2), Some(i64::MAX));
        assert_eq!(value(Shl, I32, 1, 32), Some(0));
        assert_eq!(value(Shr, I32, -8, 40), Some(-1));
    }

    #[test]
    fn bits_are_those_of_the_type() {
        use ScalarType::*;
        let one = [(F16, U16, 0x3c00), (F32, U32, 0x3f80_0000), (F64, U64, 0x3ff0_0000_0000_0000)];
        for (float, int, of_one) in one {
            for (v, expected) in [(1.0, of_one), (0.0, 0), (-0.0, int.wrap(int.signed().least()))] {
                let (number, bits) = (Expr::float(float, v), Expr::int(int, expected));
                assert_eq!(fold(&number.reinterpret(int)), Some(bits.clone()), "{v} {float:?}");
                let back = fold(&bits.reinterpret(float)).and_then(|e| e.as_float());
                assert_eq!(back.map(f64::to_bits), Some(v.to_bits()), "{v} {float:?}");
            }
        }
        assert_eq!(evaluate(&Expr::int(I8, -1).reinterpret(U8), &Known::default()), Some(255));
        assert_eq!(fold(&Expr::var("x").reinterpret(U32)), None);
    }

    #[test]
    fn names_stand_for_constants() {
        let (x, p) = (Expr::var("x"), Expr::param("p", ScalarType::F32));
        let e = Expr::select(x.lt(3), &x * 2, p.unary(UnaryOp::Floor).cast(ScalarType::I32));
        let at = |x: i32, p: f32| {
            let mut known = Known::default();
            known.vars.insert("x".into(), Expr::from(x));
            known.params.insert("p".into(), Expr::from(p));
            evaluate(&e, &known)
        };
        assert_eq!((at(2, 0.0), at(3, -1.5)), (Some(4), Some(-2)));
        assert_eq!(evaluate(&e, &Known::default()), None);
    }
}
