//! Indivisible updates.
//!
//! Each active lane is one read-modify-write, lane after lane: an instruction where the CPU has one for the operator, else a
//! compare-and-exchange loop. The order is relaxed: the end of the parallel loop around orders everything after it.

use super::arith::Arith;
use super::ir::{Val, bits_of};
use super::scope::GroupSet;
use super::stmt::StmtEmitter;
use crate::expr::{BinaryOp, Expr, Flat};
use crate::types::{ScalarType, Type};
use inkwell::llvm_sys::{LLVMAtomicRMWBinOp as Rmw, LLVMOpcode as Op};

impl<'f> StmtEmitter<'f> {
    /// `buffer[index] = buffer[index] op value` per lane.
    pub(super) fn accumulate(
        &mut self,
        buffer: &'f Flat,
        op: BinaryOp,
        index: &'f Expr,
        value: &'f Expr,
        predicate: Option<&'f Expr>,
    ) -> Result<(), String> {
        let ir = self.exprs.ir;
        let (i, v) = (self.exprs.emit(index)?, self.exprs.emit(value)?);
        let mask = predicate.map(|p| self.exprs.emit(p)).transpose()?;
        let lanes = value.ty().lanes;
        let lane = |v: Val, l: u16| if lanes == 1 { v } else { ir.extract(v, l) };
        let ty = Type::of(value.ty().scalar);
        for l in 0..lanes {
            let p = self.exprs.element(buffer, lane(i, l), Type::of(index.ty().scalar), ty)?;
            let end = self.block("updated");
            let update = self.block("update");
            match mask {
                Some(m) => ir.cond_br(lane(m, l), update, end),
                None => ir.br(update),
            }
            ir.at_end(update);
            self.update(op, p, lane(v, l), ty)?;
            ir.br(end);
            ir.at_end(end);
        }
        let group = self.exprs.aliasing.group(buffer);
        self.exprs.scopes.stored(group.map(GroupSet::of).unwrap_or_default());
        Ok(())
    }

    /// One element.
    fn update(&mut self, op: BinaryOp, p: Val, v: Val, ty: Type) -> Result<(), String> {
        let ir = self.exprs.ir;
        if self.device.is_some() && ty.scalar.bytes() < 4 {
            return self.update_in_word(op, p, v, ty);
        }
        if let Some(op) = instruction(op, ty.scalar) {
            let v = Arith(ir).cast(v, ty, if ty == Type::BOOL { ScalarType::U8 } else { ty.scalar });
            ir.atomic_update(op, p, v);
            return Ok(());
        }
        let bits = bits_of(ty.scalar);
        let (bits_ty, value_ty) = (ir.ty(bits), ir.ty(ty));
        let first = ir.atomic_load(bits_ty, p, ty.scalar.bytes() as u32);
        let before = ir.current_block();
        let (again, done) = (self.block("again"), self.block("exchanged"));
        ir.br(again);
        ir.at_end(again);
        let old = ir.phi(bits_ty);
        ir.add_incoming(old, first, before);
        let before = ir.cast(Op::LLVMBitCast, old, value_ty);
        let new = match op {
            BinaryOp::Min | BinaryOp::Max => Arith(ir).float_min_max(op == BinaryOp::Min, before, v, false),
            _ => Arith(ir).binary(op, before, v, ty)?,
        };
        let (seen, same) = ir.compare_exchange(p, old, ir.cast(Op::LLVMBitCast, new, bits_ty));
        ir.add_incoming(old, seen, ir.current_block());
        ir.cond_br(same, done, again);
        ir.at_end(done);
        Ok(())
    }
}

impl StmtEmitter<'_> {
    /// One element of less than 32 bits on a GPU, which exchanges whole words: the other elements of the word stay as they are.
    fn update_in_word(&mut self, op: BinaryOp, p: Val, v: Val, ty: Type) -> Result<(), String> {
        let ir = self.exprs.ir;
        let (word, long) = (Type::I32, Type::I64);
        let narrow = Type::of(if ty.scalar.bytes() == 1 { ScalarType::U8 } else { ScalarType::U16 });
        let address = ir.cast(Op::LLVMPtrToInt, p, ir.ty(long));
        let byte = ir.binary(Op::LLVMAnd, address, ir.int(long, 3));
        let shift = ir.cast(Op::LLVMTrunc, ir.binary(Op::LLVMMul, byte, ir.int(long, 8)), ir.ty(word));
        let whole = ir.cast(Op::LLVMIntToPtr, ir.binary(Op::LLVMSub, address, byte), ir.ptr_ty());
        let ones = ir.int(word, (1 << (8 * ty.scalar.bytes())) - 1);
        let others = ir.binary(Op::LLVMXor, ir.binary(Op::LLVMShl, ones, shift), ir.int(word, -1));

        let first = ir.atomic_load(ir.ty(word), whole, 4);
        let before = ir.current_block();
        let (again, done) = (self.block("again"), self.block("exchanged"));
        ir.br(again);
        ir.at_end(again);
        let old = ir.phi(ir.ty(word));
        ir.add_incoming(old, first, before);
        let bits = ir.cast(Op::LLVMTrunc, ir.binary(Op::LLVMLShr, old, shift), ir.ty(narrow));
        let element = match ty == Type::BOOL {
            true => Arith(ir).cast(bits, narrow, ScalarType::Bool),
            false => ir.cast(Op::LLVMBitCast, bits, ir.ty(ty)),
        };
        let new = match op {
            BinaryOp::Min | BinaryOp::Max if ty.scalar.is_float() => {
                Arith(ir).float_min_max(op == BinaryOp::Min, element, v, false)
            }
            _ => Arith(ir).binary(op, element, v, ty)?,
        };
        let new = match ty == Type::BOOL {
            true => Arith(ir).cast(new, ty, ScalarType::U8),
            false => ir.cast(Op::LLVMBitCast, new, ir.ty(narrow)),
        };
        let new = ir.binary(Op::LLVMShl, ir.cast(Op::LLVMZExt, new, ir.ty(word)), shift);
        let new = ir.binary(Op::LLVMOr, ir.binary(Op::LLVMAnd, old, others), new);
        let (seen, same) = ir.compare_exchange(whole, old, new);
        ir.add_incoming(old, seen, ir.current_block());
        ir.cond_br(same, done, again);
        ir.at_end(done);
        Ok(())
    }
}

/// The operator of one instruction.
fn instruction(op: BinaryOp, ty: ScalarType) -> Option<Rmw> {
    let signed = ty.is_signed();
    Some(match op {
        _ if ty.is_float() => return None,
        BinaryOp::And => Rmw::LLVMAtomicRMWBinOpAnd,
        BinaryOp::Or => Rmw::LLVMAtomicRMWBinOpOr,
        BinaryOp::Xor => Rmw::LLVMAtomicRMWBinOpXor,
        BinaryOp::Add => Rmw::LLVMAtomicRMWBinOpAdd,
        BinaryOp::Min if signed => Rmw::LLVMAtomicRMWBinOpMin,
        BinaryOp::Max if signed => Rmw::LLVMAtomicRMWBinOpMax,
        BinaryOp::Min => Rmw::LLVMAtomicRMWBinOpUMin,
        BinaryOp::Max => Rmw::LLVMAtomicRMWBinOpUMax,
        _ => return None,
    })
}
