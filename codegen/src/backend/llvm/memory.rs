//! Loads and stores.
//!
//! A dense access is one vector load or store, a load of every second to fourth element (or of all backwards) so many dense ones
//! (masked, if it is) and shuffles; other lanes a constant stride apart, or anywhere, are `llvm.masked.gather`
//! and `scatter`, which LLVM turns into scalar accesses where the CPU has no such instruction (bytes, for one). A masked
//! access touches only the elements of its true lanes. Bool is a byte in memory, and anything but 0 is true.
//!
//! Storage in registers is read and written whole, inactive lanes blended: a masked access would keep it in memory.
//!
//! Loads are marked with the element's alignment only: on x86 a vector load costs the same either way, and only the
//! address decides. Stores that are known to be aligned say so, since non-temporal ones need it.

use super::access::{Access, MAX_STRIDE, rows};
use super::alias::Group;
use super::arith::Arith;
use super::expr::ExprEmitter;
use super::ir::{Ty, Val};
use super::scope::GroupSet;
use crate::expr::{BinaryOp, Expr, ExprKind, Flat};
use crate::types::{ScalarType, Type};
use inkwell::llvm_sys::{LLVMIntPredicate, LLVMOpcode};

/// Assumptions and permissions of a store.
#[derive(Clone, Copy)]
pub(super) struct StoreFlags {
    /// The address is a multiple of the vector's size.
    pub aligned: bool,
    /// Around the caches, if aligned, dense and unmasked.
    pub non_temporal: bool,
}

/// Integers side by side in memory.
struct Numbers {
    /// Address of the first.
    first: Val,
    /// Their type there.
    ty: Type,
    group: Group,
    /// Types that they are then converted to, one after the other.
    types: Vec<ScalarType>,
}

impl<'f> ExprEmitter<'f> {
    /// Address(es) of an access whose operand is done: a pointer, or a vector of pointers.
    fn address(&self, buffer: &Flat, access: &Access, ty: Type) -> Result<Val, String> {
        let ir = self.ir;
        let operand = access.operand();
        let element = ir.memory_ty(Type::of(ty.scalar));
        if let (Access::Gather(_), Some((shared, narrow))) = (access, self.apart(operand)) {
            let lanes = self.done(narrow)?;
            return Ok(ir.far_element_ptr(element, self.shared_base(buffer, shared, ty)?, lanes));
        }
        let p = self.stepwise(element, self.buffer(buffer)?, operand)?;
        Ok(match access {
            Access::Strided(_, stride) => {
                let steps: Vec<Val> = (0..ty.lanes).map(|i| ir.int(Type::I64, i as i64 * stride)).collect();
                ir.element_ptr(element, p, ir.const_vector(&steps))
            }
            _ => p,
        })
    }

    /// The element at `index` from `base`, one operand of the sum after the other: their order says what changes least ([`crate::lower`]).
    fn stepwise(&self, element: Ty, base: Val, index: &Expr) -> Result<Val, String> {
        match index.kind() {
            ExprKind::Binary(BinaryOp::Add, a, b) if index.ty() == Type::I64 => {
                let p = self.stepwise(element, base, a)?;
                Ok(self.ir.far_element_ptr(element, p, self.done(b)?))
            }
            _ => Ok(self.ir.far_element_ptr(element, base, self.index(self.done(index)?, index.ty()))),
        }
    }

    /// An index of lanes as the number that they share, if there is one, and one for each in 32 bits, which processors gather twice
    /// as many of at once.
    pub(super) fn apart<'e>(&self, index: &'e Expr) -> Option<(Option<Val>, &'e Expr)> {
        let (lanes, shared) = match index.kind() {
            ExprKind::Cast(lanes) => (lanes, None),
            ExprKind::Binary(BinaryOp::Add, a, b) => match (a.kind(), b.kind()) {
                (ExprKind::Cast(lanes), ExprKind::Broadcast(shared)) => (lanes, Some(shared)),
                (ExprKind::Broadcast(shared), ExprKind::Cast(lanes)) => (lanes, Some(shared)),
                _ => return None,
            },
            _ => return None,
        };
        let shared = match shared {
            Some(shared) => Some(self.scopes.recall(shared)?.value),
            None => None,
        };
        (lanes.ty().scalar == ScalarType::I32 && self.scopes.recall(lanes).is_some())
            .then_some((shared, lanes))
    }

    /// The address that a shared part of indices leads to, which may lie outside of the buffer.
    fn shared_base(&self, buffer: &Flat, shared: Option<Val>, ty: Type) -> Result<Val, String> {
        let (ir, base) = (self.ir, self.buffer(buffer)?);
        let Some(shared) = shared else { return Ok(base) };
        // As a number, or LLVM would add the lanes' numbers first where only these stay the same in a loop.
        let p = ir.cast(LLVMOpcode::LLVMPtrToInt, base, ir.ty(Type::I64));
        let bytes = ir.int(Type::I64, ty.scalar.bytes() as i64);
        let p = ir.binary(LLVMOpcode::LLVMAdd, p, ir.mul_nsw(shared, bytes));
        Ok(ir.cast(LLVMOpcode::LLVMIntToPtr, p, ir.ptr_ty()))
    }

    /// Address of one element.
    pub(super) fn element(&self, buffer: &Flat, index: Val, index_ty: Type, ty: Type) -> Result<Val, String> {
        let index = self.index(index, index_ty);
        Ok(self.ir.element_ptr(self.ir.memory_ty(ty), self.buffer(buffer)?, index))
    }

    /// A load whose operands are done, and its group. Lanes with a false predicate give 0.
    /// `loads` are the groups that the operands were loaded from.
    pub(super) fn load(
        &mut self,
        buffer: &Flat,
        index: &'f Expr,
        predicate: Option<&'f Expr>,
        loads: GroupSet,
        ty: Type,
    ) -> Result<(Val, Group), String> {
        let ir = self.ir;
        let group = self.group(buffer)?;
        let access = Access::of(index);
        let mask = predicate.map(|e| self.done(e)).transpose()?;
        if let Some(slots) = self.slots(buffer, &access, predicate, ty) {
            let depends = loads.union(GroupSet::of(group));
            return Ok((self.load_slot(buffer, &access, mask, slots, depends, ty)?, group));
        }
        if let Access::Strided(first, stride) = &access
            && (*stride == -1 || (2..=MAX_STRIDE.min(ty.lanes as i64)).contains(stride))
            && !self.aliasing.in_registers(buffer, first, ty.lanes)
        {
            let v = self.strided_load(buffer, (first, *stride), mask, ty, group)?;
            return Ok((self.to_register(v, ty), group));
        }
        if let (Access::Gather(index), None) = (&access, mask) {
            let v = match self.looked_up(buffer, index, ty, group) {
                None => self.one_by_one(buffer, index, ty, group)?,
                v => v,
            };
            if let Some(v) = v {
                return Ok((self.to_register(v, ty), group));
            }
        }
        let p = self.address(buffer, &access, ty)?;
        let (memory, align) = (ir.memory_ty(ty), ty.scalar.bytes() as u32);
        let value = match (&access, mask) {
            (Access::Scalar(_) | Access::Dense(_), None) => ir.load(memory, p, align),
            // One lane: a vector of one, which becomes a branch.
            (Access::Scalar(_), Some(m)) => {
                let one = ir.vector_type_of_one(memory);
                let m = ir.vector_of_one(m);
                let v = ir.intrinsic("llvm.masked.load", &[one, ir.ptr_ty()], &[p, m, ir.zero(one)]);
                ir.call_align(v, 0, align as u64);
                self.mark_load(v, group);
                ir.extract(v, 0)
            }
            // Plain accesses and blends, which LLVM promotes to registers.
            (Access::Dense(first), Some(m)) if self.aliasing.in_registers(buffer, first, ty.lanes) => {
                let v = ir.load(memory, p, align);
                self.mark_load(v, group);
                ir.select(m, v, ir.zero(memory))
            }
            (Access::Dense(_), Some(m)) => {
                let v = self.masked_load(p, m, ty, group);
                return Ok((self.to_register(v, ty), group));
            }
            (Access::Strided(..) | Access::Gather(_), m) => {
                let all = ir.int(ty.as_bool(), 1);
                let (p, m) = match m {
                    // LLVM branches for each lane of a mask where there is no such instruction.
                    Some(m) if !ir.gathers.get() => (ir.select(m, p, ir.splat(ir.zeros(), ty.lanes)), all),
                    m => (p, m.unwrap_or(all)),
                };
                let ptrs = ir.type_of(p);
                let v = ir.intrinsic("llvm.masked.gather", &[memory, ptrs], &[p, m, ir.zero(memory)]);
                ir.call_align(v, 0, align as u64);
                v
            }
        };
        self.mark_load(value, group);
        Ok((self.to_register(value, ty), group))
    }

    /// Elements anywhere, where no instruction gathers them: bytes and words, and before AVX-512 those whose indices lie side by side in memory. These
    /// are read from there again, which is one instruction for each, not two or three. Other indices leave the vector before they become addresses,
    /// since twice as many do so at once.
    fn one_by_one(
        &self,
        buffer: &Flat,
        index: &'f Expr,
        ty: Type,
        group: Group,
    ) -> Result<Option<Val>, String> {
        let (ir, is_small) = (self.ir, ty.scalar.bytes() <= 2);
        if !is_small && ir.gathers.get() {
            return Ok(None);
        }
        let (shared, lanes) = self.apart(index).unwrap_or((None, index));
        let beside = self.side_by_side_in_memory(lanes)?;
        if !is_small && beside.is_none() {
            return Ok(None);
        }
        let element = ir.memory_ty(Type::of(ty.scalar));
        let (vector, lanes_ty) = (self.done(lanes)?, Type::of(lanes.ty().scalar));
        let base = self.shared_base(buffer, shared, ty)?;
        let mut all = ir.poison(ir.memory_ty(ty));
        for i in 0..ty.lanes {
            let at = match &beside {
                Some(numbers) => self.reread(numbers, i),
                None => self.index(ir.extract(vector, i), lanes_ty),
            };
            let v = ir.load(element, ir.far_element_ptr(element, base, at), ty.scalar.bytes() as u32);
            self.mark_load(v, group);
            all = ir.insert(all, v, i);
        }
        Ok(Some(all))
    }

    /// The place that the lanes of an index were loaded from, if side by side.
    fn side_by_side_in_memory(&self, lanes: &'f Expr) -> Result<Option<Numbers>, String> {
        let mut types = vec![];
        let mut e = lanes;
        while let ExprKind::Cast(a) = e.kind()
            && e.ty().scalar.is_int()
        {
            types.push(e.ty().scalar);
            e = a;
        }
        let ExprKind::Load { buffer, index, predicate: None } = e.kind() else { return Ok(None) };
        let access = Access::of(index);
        match access {
            Access::Dense(first)
                if e.ty().scalar.is_int() && !self.aliasing.in_registers(buffer, first, e.ty().lanes) =>
            {
                types.reverse();
                let (first, ty) = (self.address(buffer, &access, e.ty())?, Type::of(e.ty().scalar));
                Ok(Some(Numbers { first, ty, group: self.group(buffer)?, types }))
            }
            _ => Ok(None),
        }
    }

    /// One of them, as an i64.
    fn reread(&self, numbers: &Numbers, lane: u16) -> Val {
        let (ir, mut ty) = (self.ir, numbers.ty);
        let p = ir.element_ptr(ir.ty(ty), numbers.first, ir.int(Type::I64, lane.into()));
        let mut v = ir.load(ir.ty(ty), p, ty.scalar.bytes() as u32);
        self.mark_load(v, numbers.group);
        for &to in &numbers.types {
            v = Arith(ir).cast(v, ty, to);
            ty = Type::of(to);
        }
        self.index(v, ty)
    }

    /// Lanes a small stride apart: dense loads of the elements from the first to the last lane's, and shuffles. Nothing else is
    /// touched: the last load ends with the last lane, and of masked lanes the loads are masked too.
    fn strided_load(
        &self,
        buffer: &Flat,
        (first, stride): (&'f Expr, i64),
        mask: Option<Val>,
        ty: Type,
        group: Group,
    ) -> Result<Val, String> {
        let ir = self.ir;
        let (n, element) = (ty.lanes as i64, ir.memory_ty(Type::of(ty.scalar)));
        let p = self.address(buffer, &Access::Scalar(first), ty)?;
        let (memory, bytes) = (ir.memory_ty(ty), ty.scalar.bytes() as u32);
        let dense = |offset: i64| {
            let p = ir.element_ptr(element, p, ir.int(Type::I64, offset));
            let Some(m) = mask else {
                let v = ir.load(memory, p, bytes);
                self.mark_load(v, group);
                return v;
            };
            // An element is loaded for the lane that it is of; those in between are of none.
            let lane = |e: i64| if e % stride == 0 { e / stride } else { n };
            let lanes: Vec<u16> = (offset..offset + n).map(|e| lane(e) as u16).collect();
            self.masked_load(p, ir.shuffle(m, ir.zero(ir.type_of(m)), &lanes), ty, group)
        };
        if stride < 0 {
            return Ok(ir.pick(dense(1 - n), &(0..ty.lanes).rev().collect::<Vec<_>>()));
        }
        let offsets: Vec<i64> = (0..stride - 1).map(|j| j * n).chain([(n - 1) * (stride - 1)]).collect();
        let loads: Vec<Val> = offsets.iter().map(|&o| dense(o)).collect();
        // Load and lane in it of each of our lanes.
        let place = |i: i64| {
            let j = (i * stride / n).min(stride - 1) as usize;
            (j, i * stride - offsets[j])
        };
        let mut all = loads[0];
        for (j, &v) in loads.iter().enumerate().skip(1) {
            let lane = |i: i64| match place(i) {
                (from, lane) if from == j => n + lane,
                (0, lane) if j == 1 => lane,
                _ => i,
            };
            all = ir.shuffle(all, v, &(0..n).map(|i| lane(i) as u16).collect::<Vec<_>>());
        }
        Ok(all)
    }

    /// A store whose operands (index operand, value, predicate) are done.
    pub(super) fn store(
        &mut self,
        buffer: &Flat,
        index: &'f Expr,
        value: &'f Expr,
        predicate: Option<&'f Expr>,
        flags: StoreFlags,
    ) -> Result<(), String> {
        let (ir, ty) = (self.ir, value.ty());
        if index.ty().lanes != ty.lanes {
            return Err(format!("a store to {buffer} of {ty} has an index of {} lanes", index.ty().lanes));
        }
        let v = self.to_memory(self.done(value)?, ty);
        let mask = predicate.map(|e| self.done(e)).transpose()?;
        let Some((rows, lanes)) = rows(index) else {
            return self.store_lanes(buffer, index, (v, ty), mask, flags);
        };
        let flags = StoreFlags { aligned: false, ..flags };
        rows.iter().zip(0..).try_for_each(|(row, i)| {
            let pick = |v| ir.pick(v, &lanes(i));
            let ty = row.ty().of_element(ty.scalar);
            self.store_lanes(buffer, row, (pick(v), ty), mask.map(pick), flags)
        })
    }

    /// A store of a value, as it is in memory.
    fn store_lanes(
        &self,
        buffer: &Flat,
        index: &'f Expr,
        (v, ty): (Val, Type),
        mask: Option<Val>,
        flags: StoreFlags,
    ) -> Result<(), String> {
        let ir = self.ir;
        let group = self.group(buffer)?;
        let access = Access::of(index);
        if mask.is_none()
            && let Some((first, step)) = self.steps(index)?
        {
            return self.store_apart(buffer, (first, step), v, ty);
        }
        let p = self.address(buffer, &access, ty)?;
        let bytes = ty.scalar.bytes() as u32;
        let whole = bytes * ty.lanes as u32;
        let known_aligned = flags.aligned && matches!(access, Access::Dense(_)) && whole.is_power_of_two();
        let align = if known_aligned { whole.min(64) } else { bytes };
        let memory = ir.memory_ty(ty);
        let s = match (&access, mask) {
            (Access::Scalar(_) | Access::Dense(_), None) => {
                let s = ir.store(v, p, align);
                if flags.non_temporal && known_aligned {
                    ir.mark_non_temporal(s);
                }
                s
            }
            (Access::Scalar(_), Some(m)) => {
                let (v, m) = (ir.vector_of_one(v), ir.vector_of_one(m));
                ir.masked_store(
                    "llvm.masked.store",
                    ir.vector_type_of_one(memory),
                    ir.ptr_ty(),
                    v,
                    p,
                    m,
                    align,
                )
            }
            (Access::Dense(first), Some(m)) if self.aliasing.in_registers(buffer, first, ty.lanes) => {
                let old = ir.load(memory, p, align);
                self.aliasing.annotate(ir, old, group);
                ir.store(ir.select(m, v, old), p, align)
            }
            (Access::Dense(_), Some(m)) => {
                self.masked_store(v, p, m, ty, group);
                return Ok(());
            }
            (Access::Strided(..) | Access::Gather(_), m) => {
                let m = m.unwrap_or_else(|| ir.int(ty.as_bool(), 1));
                ir.masked_store("llvm.masked.scatter", memory, ir.type_of(p), v, p, m, align)
            }
        };
        self.aliasing.annotate(ir, s, group);
        Ok(())
    }

    /// The first lane's index and the number of elements from lane to lane, of lanes that lie apart by the same number, whatever it is.
    fn steps(&self, index: &'f Expr) -> Result<Option<(Val, Val)>, String> {
        let ExprKind::Ramp(first, step) = index.kind() else { return Ok(None) };
        let by = match step.as_int() {
            Some(1) => return Ok(None),
            Some(n) => self.ir.int(Type::I64, n),
            None => self.index(self.done(step)?, step.ty()),
        };
        Ok(Some((self.index(self.done(first)?, first.ty()), by)))
    }

    /// Lanes one by one: each address is that of the lane before and the step. A scatter takes them from a vector.
    fn store_apart(&self, buffer: &Flat, (first, step): (Val, Val), v: Val, ty: Type) -> Result<(), String> {
        let (ir, group) = (self.ir, self.group(buffer)?);
        let element = ir.memory_ty(Type::of(ty.scalar));
        let mut p = ir.element_ptr(element, self.buffer(buffer)?, first);
        for lane in 0..ty.lanes {
            if lane > 0 {
                p = ir.element_ptr(element, p, step);
            }
            let s = ir.store(ir.extract(v, lane), p, ty.scalar.bytes() as u32);
            self.aliasing.annotate(ir, s, group);
        }
        Ok(())
    }

    pub(super) fn group(&self, buffer: &Flat) -> Result<Group, String> {
        self.aliasing.group(buffer).ok_or_else(|| format!("buffer {buffer} is not declared"))
    }

    pub(super) fn mark_load(&self, v: Val, group: Group) {
        self.aliasing.annotate(self.ir, v, group);
        if self.aliasing.is_read_only(group) {
            self.ir.annotate(v, "invariant.load", self.ir.meta(&[]));
        }
    }

    fn to_register(&self, v: Val, ty: Type) -> Val {
        match ty.scalar {
            ScalarType::Bool => {
                self.ir.icmp(LLVMIntPredicate::LLVMIntNE, v, self.ir.zero(self.ir.memory_ty(ty)))
            }
            _ => v,
        }
    }

    fn to_memory(&self, v: Val, ty: Type) -> Val {
        match ty.scalar {
            ScalarType::Bool => self.ir.cast(LLVMOpcode::LLVMZExt, v, self.ir.memory_ty(ty)),
            _ => v,
        }
    }
}
