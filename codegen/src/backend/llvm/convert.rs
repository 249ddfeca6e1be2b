//! Floats to integers: truncated towards zero and saturated, NaN gives 0.
//!
//! LLVM's saturating conversions take a vector apart, so that they are made here: NaN becomes 0 and the ends of the range are applied to the
//! float, or behind the conversion where the float type lacks the greatest integer. Each step is left out where the range of the operand makes it
//! needless. What a plain conversion leaves undefined is never chosen.

use super::arith::Arith;
use super::ir::Val;
use crate::analysis::float_range::FloatRange;
use crate::types::{ScalarType, Type};
use inkwell::llvm_sys::{LLVMOpcode as Op, LLVMRealPredicate as FloatCmp};

impl Arith<'_> {
    /// `v`, a float of type `from` with values in `range`, as integers `to`.
    pub(super) fn to_integer(&self, v: Val, from: Type, to: ScalarType, range: FloatRange) -> Val {
        let (ir, to_ty) = (self.0, self.0.ty(from.of_element(to)));
        if from.scalar == ScalarType::F16 {
            // By way of f32, which has all values of f16: LLVM 22 converts NaN to the least i16 on a processor with AVX512-FP16.
            let wide = self.cast(v, from, ScalarType::F32);
            return self.to_integer(wide, from.of_element(ScalarType::F32), to, range);
        }
        if ir.saturates.get() {
            let name = if to.is_signed() { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
            return ir.intrinsic(name, &[to_ty, ir.ty(from)], &[v]);
        }
        let limits = Limits::of(to);
        let v = self.raised_to_least(v, from, limits, range);
        if range.high < limits.beyond {
            return self.convert(v, from, to);
        }
        let greatest = limits.beyond - 1.0;
        if greatest < limits.beyond && from.scalar.round(greatest) == greatest {
            let most = ir.float(from, greatest);
            let v = ir.select(ir.fcmp(FloatCmp::LLVMRealOLT, v, most), v, most);
            return self.convert(v, from, to);
        }
        let beyond = ir.fcmp(FloatCmp::LLVMRealOGE, v, ir.float(from, limits.beyond));
        ir.select(beyond, ir.int(from.of_element(to), to.greatest()), self.convert(v, from, to))
    }

    /// `v` where that is not below the least integer; what truncates to that otherwise, and to 0 for NaN.
    fn raised_to_least(&self, v: Val, from: Type, limits: Limits, range: FloatRange) -> Val {
        let ir = self.0;
        let mut v = v;
        let mut compare = range.low.trunc() < limits.least;
        match (range.nan, limits.least == 0.0) {
            // NaN is not above the least value, which becomes 0.
            (true, true) => compare = true,
            (true, false) => v = ir.select(ir.fcmp(FloatCmp::LLVMRealORD, v, v), v, ir.float(from, 0.0)),
            (false, _) => {}
        }
        // Truncates to 0 as well; LLVM makes a mask of a maximum with 0 itself, which is two instructions.
        let least = if limits.least == 0.0 { -0.5 } else { limits.least };
        let least = ir.float(from, least);
        if compare { ir.select(ir.fcmp(FloatCmp::LLVMRealOGT, v, least), v, least) } else { v }
    }

    /// Converts what is known to fit. Narrow ones go by way of i32, which processors convert to.
    fn convert(&self, v: Val, from: Type, to: ScalarType) -> Val {
        let ir = self.0;
        let ty = |to| ir.ty(from.of_element(to));
        if to.bytes() < 4 {
            let wide = ir.cast(Op::LLVMFPToSI, v, ty(ScalarType::I32));
            return ir.truncate_exactly(wide, ty(to), to.is_signed());
        }
        let op = if to.is_signed() { Op::LLVMFPToSI } else { Op::LLVMFPToUI };
        ir.cast(op, v, ty(to))
    }
}

/// Ends of an integer type, which every wider float type has.
#[derive(Clone, Copy)]
struct Limits {
    /// The least value.
    least: f64,
    /// The greatest value and 1.
    beyond: f64,
}

impl Limits {
    fn of(ty: ScalarType) -> Limits {
        let magnitude = ty.bits() - u32::from(ty.is_signed());
        Limits { least: ty.least() as f64, beyond: 2f64.powi(magnitude as i32) }
    }
}
