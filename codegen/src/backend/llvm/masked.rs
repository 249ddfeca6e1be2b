//! Dense accesses under a mask.
//!
//! Where no instruction masks elements of a size (bytes and words before AVX-512, all before AVX and on AArch64), LLVM would jump over each lane: some 60
//! instructions and 32 blocks for 16 words, which also take long to compile. Here a mask that is on in all lanes is one plain access, and a loop goes
//! through the lanes of any other.

use super::alias::Group;
use super::expr::ExprEmitter;
use super::ir::{Val, bits_of};
use crate::types::{ScalarType, Type};
use inkwell::llvm_sys::{LLVMIntPredicate, LLVMOpcode};

impl ExprEmitter<'_> {
    /// The vector at `p`. Lanes whose mask is false are not touched, and 0.
    pub(super) fn masked_load(&self, p: Val, mask: Val, ty: Type, group: Group) -> Val {
        let ir = self.ir;
        let (memory, bytes) = (ir.memory_ty(ty), ty.scalar.bytes() as u32);
        let marked = |v: Val| {
            self.mark_load(v, group);
            v
        };
        if self.has_masks(bytes) {
            let v = ir.intrinsic("llvm.masked.load", &[memory, ir.ptr_ty()], &[p, mask, ir.zero(memory)]);
            ir.call_align(v, 0, bytes.into());
            return marked(v);
        }
        let (element, number) = (ir.memory_ty(Type::of(ty.scalar)), bits_of(ty.scalar));
        let places: Vec<Val> = (0..ty.lanes).map(|i| ir.int(number, i.into())).collect();
        let places = ir.const_vector(&places);
        self.each_lane(
            mask,
            ir.zero(memory),
            || marked(ir.load(memory, p, bytes)),
            |lane, so_far| {
                let v = marked(ir.load(element, ir.element_ptr(element, p, lane), bytes));
                let lane = ir.splat(ir.resize(lane, ir.ty(number)), ty.lanes);
                let here = ir.icmp(LLVMIntPredicate::LLVMIntEQ, places, lane);
                ir.select(here, ir.splat(v, ty.lanes), so_far)
            },
        )
    }

    /// Stores a vector, as it is in memory, to `p`. Lanes whose mask is false are not touched.
    pub(super) fn masked_store(&self, v: Val, p: Val, mask: Val, ty: Type, group: Group) {
        let ir = self.ir;
        let (memory, bytes) = (ir.memory_ty(ty), ty.scalar.bytes() as u32);
        let mark = |s: Val| self.aliasing.annotate(ir, s, group);
        if self.has_masks(bytes) {
            return mark(ir.masked_store("llvm.masked.store", memory, ir.ptr_ty(), v, p, mask, bytes));
        }
        let element = ir.memory_ty(Type::of(ty.scalar));
        let nothing = ir.int(Type::of(ScalarType::Bool), 0);
        self.each_lane(
            mask,
            nothing,
            || {
                mark(ir.store(v, p, bytes));
                nothing
            },
            |lane, _| {
                mark(ir.store(ir.extract_at(v, lane), ir.element_ptr(element, p, lane), bytes));
                nothing
            },
        );
    }

    fn has_masks(&self, bytes: u32) -> bool {
        self.ir.masks.get().is_some_and(|least| bytes >= least)
    }

    /// The value of `whole` where all lanes of a mask are on; else `start`, given to `one` with each lane (an i64) that is on, from the first to the last.
    fn each_lane(
        &self,
        mask: Val,
        start: Val,
        whole: impl FnOnce() -> Val,
        one: impl FnOnce(Val, Val) -> Val,
    ) -> Val {
        let (ir, equal) = (self.ir, LLVMIntPredicate::LLVMIntEQ);
        let bits = ir.mask_bits(mask);
        let ty = ir.type_of(bits);
        let [all, next, lane, end] = ["all", "next", "lane", "accessed"].map(|name| ir.sibling_block(name));
        let before = ir.current_block();
        ir.cond_br(ir.icmp(equal, bits, ir.ones(ty)), all, next);

        ir.at_end(all);
        let complete = whole();
        ir.br(end);

        ir.at_end(next);
        let (left, so_far) = (ir.phi(ty), ir.phi(ir.type_of(start)));
        ir.add_incoming(left, bits, before);
        ir.add_incoming(so_far, start, before);
        ir.cond_br(ir.icmp(equal, left, ir.zero(ty)), end, lane);

        ir.at_end(lane);
        let first = ir.intrinsic("llvm.cttz", &[ty], &[left, ir.int(Type::of(ScalarType::Bool), 1)]);
        ir.add_incoming(so_far, one(ir.resize(first, ir.ty(Type::I64)), so_far), lane);
        let less = ir.binary(LLVMOpcode::LLVMAdd, left, ir.ones(ty));
        ir.add_incoming(left, ir.binary(LLVMOpcode::LLVMAnd, left, less), lane);
        ir.br(next);

        ir.at_end(end);
        let value = ir.phi(ir.type_of(start));
        ir.add_incoming(value, complete, all);
        ir.add_incoming(value, so_far, next);
        value
    }
}
