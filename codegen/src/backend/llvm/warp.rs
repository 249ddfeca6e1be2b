//! Reductions over the lanes of a warp, by shuffles.

use super::arith::Arith;
use super::ir::{Ir, Val};
use crate::backend::nvptx;
use crate::expr::BinaryOp;
use crate::lower::kernels::WARP;
use crate::types::{ScalarType, Type};
use inkwell::llvm_sys::{LLVMIntPredicate as IntCmp, LLVMOpcode as Op};

/// The reduction of a scalar over the lanes of a warp: lane i is combined with lane i + 16, then i + 8 and so on. Every lane does as the lane does
/// whose number has that bit clear, so all come to the same bits.
pub(super) fn warp_reduce(ir: &Ir, op: BinaryOp, v: Val, ty: Type) -> Result<Val, String> {
    let mut v = v;
    let lane = ir.binary(Op::LLVMAnd, ir.intrinsic(nvptx::THREAD, &[], &[]), ir.int(Type::I32, WARP - 1));
    let mut distance = WARP / 2;
    while distance > 0 {
        let other = shuffled(ir, v, ty, distance)?;
        let bit = ir.binary(Op::LLVMAnd, lane, ir.int(Type::I32, distance));
        let upper = ir.icmp(IntCmp::LLVMIntNE, bit, ir.int(Type::I32, 0));
        // Minima and maxima of floats depend on the order of equal zeros and of NaN.
        let ordered = ty.scalar.is_float() && matches!(op, BinaryOp::Min | BinaryOp::Max);
        let (low, high) = match ordered {
            true => (ir.select(upper, other, v), ir.select(upper, v, other)),
            false => (v, other),
        };
        v = Arith(ir).binary(op, low, high, ty)?;
        distance /= 2;
    }
    Ok(v)
}

/// The value of the lane whose number differs by `distance`, a power of two.
fn shuffled(ir: &Ir, v: Val, ty: Type, distance: i64) -> Result<Val, String> {
    let i32s = |v| ir.int(Type::I32, v);
    let one = |bits: Val| {
        let args = [i32s(-1), bits, i32s(distance), i32s(WARP - 1)];
        ir.intrinsic(nvptx::SHUFFLE_XOR, &[], &args)
    };
    let (i32_ty, i64_ty) = (ir.ty(Type::I32), ir.ty(Type::I64));
    if ty == Type::BOOL {
        let bits = ir.cast(Op::LLVMZExt, v, i32_ty);
        return Ok(ir.cast(Op::LLVMTrunc, one(bits), ir.ty(ty)));
    }
    let own = ir.ty(ty);
    match ty.scalar.bytes() {
        8 => {
            let bits = ir.cast(Op::LLVMBitCast, v, i64_ty);
            let high = ir.binary(Op::LLVMLShr, bits, ir.int(Type::I64, 32));
            let [low, high] = [bits, high].map(|half| one(ir.cast(Op::LLVMTrunc, half, i32_ty)));
            let [low, high] = [low, high].map(|half| ir.cast(Op::LLVMZExt, half, i64_ty));
            let high = ir.binary(Op::LLVMShl, high, ir.int(Type::I64, 32));
            Ok(ir.cast(Op::LLVMBitCast, ir.binary(Op::LLVMOr, low, high), own))
        }
        4 => Ok(ir.cast(Op::LLVMBitCast, one(ir.cast(Op::LLVMBitCast, v, i32_ty)), own)),
        n => {
            let narrow = ir.ty(Type::of(if n == 2 { ScalarType::I16 } else { ScalarType::I8 }));
            let bits = ir.cast(Op::LLVMZExt, ir.cast(Op::LLVMBitCast, v, narrow), i32_ty);
            Ok(ir.cast(Op::LLVMBitCast, ir.cast(Op::LLVMTrunc, one(bits), narrow), own))
        }
    }
}
