//! Operators, with the semantics of [`crate::expr`], on scalars and vectors alike.

use super::ir::{Ir, Val};
use crate::analysis::float_range::FloatRange;
use crate::expr::{BinaryOp, UnaryOp};
use crate::types::{ScalarType, Type};
use inkwell::llvm_sys::{LLVMIntPredicate as IntCmp, LLVMOpcode as Op, LLVMRealPredicate as FloatCmp};

/// Emits operators. Operands named `ty` have that type.
pub(super) struct Arith<'f>(pub &'f Ir);

impl Arith<'_> {
    /// Conversion of `v`, a `from`, to elements `to`.
    pub(super) fn cast(&self, v: Val, from: Type, to: ScalarType) -> Val {
        use ScalarType::Bool;
        let (ir, to_ty) = (self.0, self.0.ty(Type { scalar: to, lanes: from.lanes }));
        let source = from.scalar;
        match (source, to) {
            (a, b) if a == b => v,
            (_, Bool) if source.is_float() => ir.fcmp(FloatCmp::LLVMRealUNE, v, self.zero(from)),
            (_, Bool) => ir.icmp(IntCmp::LLVMIntNE, v, self.zero(from)),
            (ScalarType::F64, ScalarType::F16) => self.f64_to_f16(v, from),
            _ if source.is_float() && to.is_float() => {
                let op = if to.bytes() < source.bytes() { Op::LLVMFPTrunc } else { Op::LLVMFPExt };
                ir.cast(op, v, to_ty)
            }
            _ if source.is_float() => self.to_integer(v, from, to, FloatRange::ANY),
            _ if to.is_float() => {
                let op = if source.is_signed() { Op::LLVMSIToFP } else { Op::LLVMUIToFP };
                ir.cast(op, v, to_ty)
            }
            (Bool, _) => ir.cast(Op::LLVMZExt, v, to_ty),
            _ if to.bytes() == source.bytes() => v,
            _ if to.bytes() < source.bytes() => ir.cast(Op::LLVMTrunc, v, to_ty),
            _ => ir.cast(if source.is_signed() { Op::LLVMSExt } else { Op::LLVMZExt }, v, to_ty),
        }
    }

    /// f64 to f16 in two steps without rounding twice: f32 by rounding to odd, whose 24 bits keep what decides the
    /// rounding to 11 bits. CPUs have no such instruction.
    fn f64_to_f16(&self, v: Val, from: Type) -> Val {
        let ir = self.0;
        let (single, bits) = (from.of_element(ScalarType::F32), from.of_element(ScalarType::I32));
        let near = ir.cast(Op::LLVMFPTrunc, v, ir.ty(single));
        let back = ir.cast(Op::LLVMFPExt, near, ir.ty(from));
        let magnitude = |x: Val| ir.intrinsic("llvm.fabs", &[ir.ty(from)], &[x]);
        let beyond = ir.fcmp(FloatCmp::LLVMRealOGT, magnitude(back), magnitude(v));
        let inexact = ir.fcmp(FloatCmp::LLVMRealONE, back, v);
        let b = ir.cast(Op::LLVMBitCast, near, ir.ty(bits));
        // Towards zero, then the last bit set where something was cut off.
        let b = ir.binary(Op::LLVMSub, b, ir.cast(Op::LLVMZExt, beyond, ir.ty(bits)));
        let b = ir.binary(Op::LLVMOr, b, ir.cast(Op::LLVMZExt, inexact, ir.ty(bits)));
        let odd = ir.cast(Op::LLVMBitCast, b, ir.ty(single));
        ir.cast(Op::LLVMFPTrunc, odd, ir.ty(from.of_element(ScalarType::F16)))
    }

    fn zero(&self, ty: Type) -> Val {
        self.0.zero(self.0.ty(ty))
    }

    /// `a + b`
    pub(super) fn add(&self, a: Val, b: Val, ty: Type) -> Val {
        if ty.scalar.is_float() {
            self.0.float_binary(Op::LLVMFAdd, a, b)
        } else {
            self.0.binary(Op::LLVMAdd, a, b)
        }
    }

    /// `a * b`
    pub(super) fn mul(&self, a: Val, b: Val, ty: Type) -> Val {
        if ty.scalar.is_float() {
            self.0.float_binary(Op::LLVMFMul, a, b)
        } else {
            self.0.binary(Op::LLVMMul, a, b)
        }
    }

    /// `a * b + c`, rounded once. That of f16 is exact enough in f64: the exact sum of halves has at most 53
    /// significant bits, unless the result overflows or c decides no tie.
    pub(super) fn fma(&self, a: Val, b: Val, c: Val, ty: Type) -> Val {
        if ty.scalar == ScalarType::F16 {
            let [a, b, c] = [a, b, c].map(|v| self.cast(v, ty, ScalarType::F64));
            let wide = ty.of_element(ScalarType::F64);
            return self.cast(self.fma(a, b, c, wide), wide, ScalarType::F16);
        }
        if ty.scalar.is_float() {
            self.0.float_intrinsic("llvm.fma", &[self.0.ty(ty)], &[a, b, c])
        } else {
            self.add(self.mul(a, b, ty), c, ty)
        }
    }

    /// `op v`.
    pub(super) fn unary(&self, op: UnaryOp, v: Val, ty: Type) -> Result<Val, String> {
        let ir = self.0;
        let (float, t) = (ty.scalar.is_float(), ir.ty(ty));
        let rounding = |name| Ok(if float { ir.intrinsic(name, &[t], &[v]) } else { v });
        match op {
            UnaryOp::Neg if float => Ok(ir.fneg(v)),
            UnaryOp::Neg => Ok(ir.binary(Op::LLVMSub, self.zero(ty), v)),
            UnaryOp::Not => Ok(ir.binary(Op::LLVMXor, v, ir.int(ty, -1))),
            UnaryOp::Abs if float => Ok(ir.intrinsic("llvm.fabs", &[t], &[v])),
            UnaryOp::Abs if ty.scalar.is_signed() => {
                Ok(ir.intrinsic("llvm.abs", &[t], &[v, ir.int(Type::BOOL, 0)]))
            }
            UnaryOp::Abs => Ok(v),
            UnaryOp::Floor => rounding("llvm.floor"),
            UnaryOp::Ceil => rounding("llvm.ceil"),
            UnaryOp::Round => rounding("llvm.roundeven"),
            UnaryOp::Trunc => rounding("llvm.trunc"),
            UnaryOp::IsNan if float => Ok(ir.fcmp(FloatCmp::LLVMRealUNO, v, v)),
            UnaryOp::IsNan => Ok(ir.int(ty.as_bool(), 0)),
            _ if !float => Err(format!("{op:?} of {ty}")),
            UnaryOp::Sqrt => Ok(ir.float_intrinsic("llvm.sqrt", &[t], &[v])),
            _ => self.function(op.function(), &[v], ty),
        }
    }

    /// `a op b`, both of type `ty`.
    pub(super) fn binary(&self, op: BinaryOp, a: Val, b: Val, ty: Type) -> Result<Val, String> {
        use BinaryOp::*;
        let ir = self.0;
        let scalar = ty.scalar;
        if op.is_comparison() {
            return Ok(self.compare(op, a, b, scalar));
        }
        Ok(match op {
            And => ir.binary(Op::LLVMAnd, a, b),
            Or => ir.binary(Op::LLVMOr, a, b),
            Xor => ir.binary(Op::LLVMXor, a, b),
            Min if scalar == ScalarType::Bool => ir.binary(Op::LLVMAnd, a, b),
            Max if scalar == ScalarType::Bool => ir.binary(Op::LLVMOr, a, b),
            _ if scalar == ScalarType::Bool => return Err(format!("{op:?} of bool")),
            Add => self.add(a, b, ty),
            Sub if scalar.is_float() => ir.float_binary(Op::LLVMFSub, a, b),
            Sub => ir.binary(Op::LLVMSub, a, b),
            Mul => self.mul(a, b, ty),
            Div if scalar.is_float() => ir.float_binary(Op::LLVMFDiv, a, b),
            Div => self.euclid(a, b, ty).0,
            Mod if scalar.is_float() => self.float_mod(a, b, ty),
            Mod => self.euclid(a, b, ty).1,
            Min | Max if scalar.is_float() => self.float_min_max(op == Min, a, b, false),
            Min | Max => self.int_min_max(op == Min, a, b, ty),
            Shl | Shr if scalar.is_float() => return Err(format!("{op:?} of {ty}")),
            Shl | Shr => self.shift(op == Shl, a, b, ty),
            Eq | Ne | Lt | Le | Gt | Ge => return Err("comparisons are above".into()),
            _ => self.function(op.function(), &[a, b], ty)?,
        })
    }

    fn compare(&self, op: BinaryOp, a: Val, b: Val, scalar: ScalarType) -> Val {
        use BinaryOp::*;
        if scalar.is_float() {
            let p = match op {
                Eq => FloatCmp::LLVMRealOEQ,
                Ne => FloatCmp::LLVMRealUNE,
                Lt => FloatCmp::LLVMRealOLT,
                Le => FloatCmp::LLVMRealOLE,
                Gt => FloatCmp::LLVMRealOGT,
                _ => FloatCmp::LLVMRealOGE,
            };
            return self.0.fcmp(p, a, b);
        }
        let p = match (op, scalar.is_signed()) {
            (Eq, _) => IntCmp::LLVMIntEQ,
            (Ne, _) => IntCmp::LLVMIntNE,
            (Lt, true) => IntCmp::LLVMIntSLT,
            (Lt, false) => IntCmp::LLVMIntULT,
            (Le, true) => IntCmp::LLVMIntSLE,
            (Le, false) => IntCmp::LLVMIntULE,
            (Gt, true) => IntCmp::LLVMIntSGT,
            (Gt, false) => IntCmp::LLVMIntUGT,
            (_, true) => IntCmp::LLVMIntSGE,
            (_, false) => IntCmp::LLVMIntUGE,
        };
        self.0.icmp(p, a, b)
    }

    /// Minimum or maximum: `isnan(b) ? a : (a < b ? a : b)`, with `>` for the maximum. If `a` is NaN the comparison is
    /// false and gives `b`; of two zeros it gives `b`. The reference evaluator uses the same formula. Relaxed, or if `b` is a number,
    /// it is `a < b ? a : b`, one instruction.
    pub(super) fn float_min_max(&self, min: bool, a: Val, b: Val, b_is_a_number: bool) -> Val {
        let ir = self.0;
        let p = if min { FloatCmp::LLVMRealOLT } else { FloatCmp::LLVMRealOGT };
        let chosen = ir.select(ir.fcmp(p, a, b), a, b);
        if b_is_a_number || ir.fast_flags.get() != 0 {
            return chosen;
        }
        ir.select(ir.fcmp(FloatCmp::LLVMRealUNO, b, b), a, chosen)
    }

    fn int_min_max(&self, min: bool, a: Val, b: Val, ty: Type) -> Val {
        let name = match (min, ty.scalar.is_signed()) {
            (true, true) => "llvm.smin",
            (true, false) => "llvm.umin",
            (false, true) => "llvm.smax",
            (false, false) => "llvm.umax",
        };
        self.0.intrinsic(name, &[self.0.ty(ty)], &[a, b])
    }

    /// `a - b * floor(a / b)`: the float remainder with the divisor's sign.
    fn float_mod(&self, a: Val, b: Val, ty: Type) -> Val {
        let ir = self.0;
        let q = ir.intrinsic("llvm.floor", &[ir.ty(ty)], &[ir.float_binary(Op::LLVMFDiv, a, b)]);
        ir.float_binary(Op::LLVMFSub, a, ir.float_binary(Op::LLVMFMul, b, q))
    }

    /// Shift by `n`, negative or not below the width: 0, or copies of the sign for an arithmetic right shift.
    fn shift(&self, left: bool, v: Val, n: Val, ty: Type) -> Val {
        let ir = self.0;
        let width = 8 * ty.scalar.bytes() as i64;
        if !left && ty.scalar.is_signed() {
            let most = ir.int(ty, width - 1);
            let n = ir.intrinsic("llvm.umin", &[ir.ty(ty)], &[n, most]);
            return ir.binary(Op::LLVMAShr, v, n);
        }
        let small = ir.icmp(IntCmp::LLVMIntULT, n, ir.int(ty, width));
        // An amount out of range must not reach the instruction, which would give poison.
        let n = match ir.saturates.get() && width == 64 {
            // Of `select(n < 64, shift(v, n), 0)`, which LLVM makes of the other form, its back end for GPUs (22.1) leaves a shift by the low
            // 32 bits of n.
            true => ir.intrinsic("llvm.umin", &[ir.ty(ty)], &[n, ir.int(ty, width - 1)]),
            false => ir.select(small, n, self.zero(ty)),
        };
        let shifted = ir.binary(if left { Op::LLVMShl } else { Op::LLVMLShr }, v, n);
        ir.select(small, shifted, self.zero(ty))
    }

    /// Euclidean quotient and remainder of integers: `a = q b + r`, `0 <= r < |b|`; both 0 for `b = 0`.
    fn euclid(&self, a: Val, b: Val, ty: Type) -> (Val, Val) {
        let ir = self.0;
        let zero = self.zero(ty);
        let by_zero = ir.icmp(IntCmp::LLVMIntEQ, b, zero);
        if !ty.scalar.is_signed() {
            let d = ir.select(by_zero, ir.int(ty, 1), b);
            let (q, r) = self.truncated(a, d, ty);
            return (ir.select(by_zero, zero, q), ir.select(by_zero, zero, r));
        }
        // MIN / -1 traps; MIN / 1 is the wrapped quotient, and the remainder is 0 either way.
        let minimum = ir.int(ty, i64::MIN >> (64 - 8 * ty.scalar.bytes()));
        let is_min = ir.icmp(IntCmp::LLVMIntEQ, a, minimum);
        let minus_one = ir.icmp(IntCmp::LLVMIntEQ, b, ir.int(ty, -1));
        let unsafe_divisor = ir.binary(Op::LLVMOr, by_zero, ir.binary(Op::LLVMAnd, is_min, minus_one));
        let d = ir.select(unsafe_divisor, ir.int(ty, 1), b);
        let (q, r) = self.truncated(a, d, ty);
        // Truncated to Euclidean: a negative remainder moves one |b| up.
        let negative = ir.icmp(IntCmp::LLVMIntSLT, r, zero);
        let sign = ir.binary(
            Op::LLVMOr,
            ir.binary(Op::LLVMAShr, b, ir.int(ty, 63.min(8 * ty.scalar.bytes() as i64 - 1))),
            ir.int(ty, 1),
        );
        let magnitude = ir.binary(Op::LLVMMul, b, sign);
        let q = ir.binary(Op::LLVMSub, q, ir.select(negative, sign, zero));
        let r = ir.binary(Op::LLVMAdd, r, ir.select(negative, magnitude, zero));
        (ir.select(by_zero, zero, q), ir.select(by_zero, zero, r))
    }

    /// Truncated quotient and remainder, where both are defined.
    ///
    /// Processors divide lanes one by one, but floats at once. A quotient of floats that have all values of the type is exact when truncated: `a / b` lies
    /// at least `1 / (a + b)` of itself below the next integer, which is 2^-17 for 16 bits and 2^-33 for 32, more than what rounding to 24 and 53 bits adds.
    fn truncated(&self, a: Val, b: Val, ty: Type) -> (Val, Val) {
        use Op::*;
        let ir = self.0;
        let signed = ty.scalar.is_signed();
        let by_lane = ty.lanes == 1 || ty.scalar.bytes() > 4 || ir.is_constant(b) || ir.saturates.get();
        if by_lane {
            let (quotient, rest) = if signed { (LLVMSDiv, LLVMSRem) } else { (LLVMUDiv, LLVMURem) };
            return (ir.binary(quotient, a, b), ir.binary(rest, a, b));
        }
        let float = if ty.scalar.bytes() <= 2 { ScalarType::F32 } else { ScalarType::F64 };
        let (to, back) = if signed { (LLVMSIToFP, LLVMFPToSI) } else { (LLVMUIToFP, LLVMFPToUI) };
        let [x, y] = [a, b].map(|v| ir.cast(to, v, ir.ty(ty.of_element(float))));
        // Without the flags of relaxed floats: this is arithmetic of integers.
        let quotient = ir.cast(back, ir.binary(LLVMFDiv, x, y), ir.ty(ty));
        (quotient, ir.binary(LLVMSub, a, ir.binary(LLVMMul, quotient, b)))
    }

    /// Euclidean quotient by a constant.
    pub(super) fn div_by(&self, a: Val, c: i64, ty: Type) -> Val {
        match power_of_two(c, ty) {
            Some(k) => self.right_shift(a, k, ty),
            None => self.euclid(a, self.0.int(ty, c), ty).0,
        }
    }

    /// Euclidean remainder by a constant.
    pub(super) fn mod_by(&self, a: Val, c: i64, ty: Type) -> Val {
        match power_of_two(c, ty) {
            Some(_) => self.0.binary(Op::LLVMAnd, a, self.0.int(ty, c - 1)),
            None => self.euclid(a, self.0.int(ty, c), ty).1,
        }
    }

    fn right_shift(&self, a: Val, k: u32, ty: Type) -> Val {
        let op = if ty.scalar.is_signed() { Op::LLVMAShr } else { Op::LLVMLShr };
        self.0.binary(op, a, self.0.int(ty, k as i64))
    }

    /// Reduction of `groups` of neighbouring lanes, each to one. Floats: while a group has more than one lane, lane i is combined with lane i + h,
    /// h being half the lanes rounded up, for all i + h that exist. Integers do not depend on the order.
    pub(super) fn reduce(&self, op: BinaryOp, v: Val, ty: Type, groups: u16) -> Result<Val, String> {
        let (mut v, mut each) = (v, ty.lanes / groups);
        while each > 1 {
            let half = each.div_ceil(2);
            let pick = |lane: &dyn Fn(u16) -> u16| {
                let mask: Vec<u16> = (0..groups * half).map(|i| i / half * each + lane(i % half)).collect();
                if mask.len() == 1 { self.0.extract(v, mask[0]) } else { self.0.pick(v, &mask) }
            };
            // Of an odd number of lanes one is left over.
            let (low, high) = (pick(&|i| i), pick(&|i| (half + i).min(each - 1)));
            let combined = self.binary(op, low, high, ty.with_lanes(groups * half))?;
            v = if each.is_multiple_of(2) {
                combined
            } else {
                let own = |i: u16| if i % half == half - 1 { groups * half + i } else { i };
                self.0.shuffle(combined, low, &(0..groups * half).map(own).collect::<Vec<_>>())
            };
            each = half;
        }
        Ok(v)
    }
}

/// `k` if `c` is the positive value `2^k` of type `ty`.
fn power_of_two(c: i64, ty: Type) -> Option<u32> {
    let positive = c > 0 && ty.scalar.wrap(c) == c;
    (positive && (c as u64).is_power_of_two()).then(|| c.trailing_zeros())
}
