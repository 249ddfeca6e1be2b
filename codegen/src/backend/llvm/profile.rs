//! Calls that say who computes and who allocates, where a function is profiled ([`crate::runtime::profile`]).

use super::ir::Val;
use super::stmt::{HeapBlock, StmtEmitter};
use crate::backend::abi::{PROFILE_ALLOCATE, PROFILE_ENTER};
use crate::expr::{Flat, Name};
use crate::ir::rewrite::visit_stmts;
use crate::ir::stmt::{LoweredFunction, Stmt};
use crate::runtime::profile::slot;
use crate::types::Type;

/// Of a function that is profiled.
pub(super) struct Profile {
    /// The pipeline's name.
    pipeline: String,
    /// Slots of the Funcs being computed, innermost last.
    producing: Vec<u32>,
}

impl Profile {
    /// Some if lowering left marks of who computes.
    pub(super) fn of(f: &LoweredFunction) -> Option<Profile> {
        let mut marked = false;
        visit_stmts(&f.body, &mut |s| marked |= matches!(s, Stmt::Produce { .. }));
        marked.then(|| Profile { pipeline: f.name.clone(), producing: vec![] })
    }
}

impl<'f> StmtEmitter<'f> {
    /// The code that computes `func`.
    pub(super) fn produce(&mut self, func: &Name, body: &'f Stmt) -> Result<(), String> {
        let Some(profile) = &mut self.profile else { return self.stmt(body) };
        let slot = slot(&profile.pipeline, func);
        profile.producing.push(slot);
        let before = self.profile_enter(slot);
        self.frame.producing.push(before);
        let done = self.stmt(body);
        self.frame.producing.pop();
        self.profile_back(before);
        if let Some(profile) = &mut self.profile {
            profile.producing.pop();
        }
        done
    }

    /// The body of a parallel loop computes what the code around the loop does.
    pub(super) fn profile_worker(&mut self) {
        if let Some(&slot) = self.profile.as_ref().and_then(|p| p.producing.last()) {
            let before = self.profile_enter(slot);
            self.frame.producing.push(before);
        }
    }

    fn profile_enter(&self, slot: u32) -> Val {
        self.profile_back(self.exprs.ir.int(Type::I32, slot as i64))
    }

    /// Computes `slot` from here on; what was computed before.
    pub(super) fn profile_back(&self, slot: Val) -> Val {
        let ir = self.exprs.ir;
        let i32_ty = ir.ty(Type::I32);
        let enter = ir.add_function(PROFILE_ENTER, ir.fn_ty(i32_ty, &[i32_ty]));
        ir.call(enter, &[slot])
    }

    /// `bytes` were allocated for `buffer`; what to say when they are freed.
    pub(super) fn profile_allocation(&self, buffer: &Flat, bytes: Val) -> Option<(u32, Val)> {
        let profile = self.profile.as_ref()?;
        let slot = slot(&profile.pipeline, &buffer.of);
        self.profile_allocate(slot, bytes);
        Some((slot, bytes))
    }

    /// A block is about to be freed.
    pub(super) fn profile_free(&self, block: HeapBlock) {
        if let Some((slot, bytes)) = block.profile {
            let ir = self.exprs.ir;
            self.profile_allocate(slot, ir.mul_nsw(ir.int(Type::I64, -1), bytes));
        }
    }

    fn profile_allocate(&self, slot: u32, bytes: Val) {
        let ir = self.exprs.ir;
        let params = [ir.ty(Type::I32), ir.ty(Type::I64)];
        let allocate = ir.add_function(PROFILE_ALLOCATE, ir.fn_ty(ir.void_ty(), &params));
        ir.call(allocate, &[ir.int(Type::I32, slot as i64), bytes]);
    }
}
