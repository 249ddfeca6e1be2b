//! Lookups in tables of at most 1024 bytes, which processors with AVX-512 VBMI hold in registers: an instruction picks 64 bytes anywhere in two of
//! them, and the upper bits of an index choose among pairs.

use super::alias::Group;
use super::expr::ExprEmitter;
use super::ir::Val;
use crate::expr::{Expr, Flat};
use crate::types::{ScalarType, Type};
use inkwell::llvm_sys::{LLVMIntPredicate, LLVMOpcode};

/// Bytes of a vector, and those of two.
const WIDE: u16 = 64;
const PAIR: i64 = 128;

impl ExprEmitter<'_> {
    /// The bytes of `buffer` at an index whose operands are done, if it is such a table.
    pub(super) fn looked_up(&self, buffer: &Flat, index: &Expr, ty: Type, group: Group) -> Option<Val> {
        let ir = self.ir;
        let size = self.aliasing.size(buffer).filter(|n| (PAIR..=8 * PAIR).contains(n) && n % PAIR == 0)?;
        if !ir.permutes.get() || ty != Type::of(ScalarType::U8).with_lanes(WIDE) {
            return None;
        }
        let (None, lanes) = self.apart(index)? else { return None };
        let (base, vector) = (self.buffer(buffer).ok()?, ir.ty(ty));
        let (short, byte) = (Type::of(ScalarType::U16).with_lanes(WIDE), Type::of(ScalarType::U8));
        let lanes = self.done(lanes).ok()?;
        let place = ir.cast(LLVMOpcode::LLVMTrunc, lanes, ir.ty(short));
        let low = ir.cast(LLVMOpcode::LLVMTrunc, place, vector);
        let part = |at: i64| {
            let v = ir.load(vector, ir.element_ptr(ir.ty(byte), base, ir.int(Type::I64, at)), 1);
            self.mark_load(v, group);
            v
        };
        let picked = (0..size).step_by(PAIR as usize).map(|at| {
            let pair = [part(at), low, part(at + i64::from(WIDE))];
            ir.intrinsic("llvm.x86.avx512.vpermi2var.qi.512", &[], &pair)
        });
        let (mut picked, mut bit) = (picked.collect::<Vec<_>>(), PAIR);
        while picked.len() > 1 {
            let set = ir.binary(LLVMOpcode::LLVMAnd, place, ir.int(short, bit));
            let set = ir.icmp(LLVMIntPredicate::LLVMIntNE, set, ir.zero(ir.ty(short)));
            let chosen = picked.chunks(2).map(|two| match two {
                [a, b] => ir.select(set, *b, *a),
                one => one[0],
            });
            (picked, bit) = (chosen.collect(), bit * 2);
        }
        picked.pop()
    }
}
