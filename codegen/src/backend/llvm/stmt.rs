//! Statements: from a lowered function to an LLVM module.

use super::access::{Access, rows};
use super::alias::{Aliasing, Group};
use super::arith::Arith;
use super::device::Device;
use super::expr::ExprEmitter;
use super::ir::{Block, Fun, Ir, Val};
use super::memory::StoreFlags;
use super::parts::{is_large, is_part};
use super::profile::Profile;
use super::runs::Runs;
use super::scope::{GroupSet, Scopes, Symbol};
use crate::backend::abi::{ALLOC, FAIL, FREE};
use crate::backend::x86;
use crate::expr::walk::visit;
use crate::expr::{Expr, ExprKind, Flat, Name, Param, Part};
use crate::ir::args::Arg;
use crate::ir::rewrite::visit_stmts;
use crate::ir::stmt::{LoweredFunction, Stmt};
use crate::schedule::{ForKind, Memory};
use crate::target::{Target, X86};
use crate::types::{ScalarType, Type};
use inkwell::llvm_sys::{LLVMIntPredicate as IntCmp, LLVMOpcode as Op};
use rustc_hash::FxHashSet;

/// An emitted function.
pub(super) struct Module {
    /// The LLVM module.
    pub ir: Ir,
    /// Its entry point.
    pub entry: Fun,
    /// Parts of it that are functions of their own, [`super::parallel`].
    pub bodies: Vec<Fun>,
    /// Messages of the assertions, in program order.
    pub assertions: Vec<String>,
}

/// Emits `f` for `target`.
pub(super) fn emit_function(f: &LoweredFunction, target: &Target) -> Result<Module, String> {
    let ir = Ir::new(&f.name);
    if f.relaxed {
        use inkwell::llvm_sys::*;
        // No arcp: a quotient is rounded once unless the directive `reciprocals` says otherwise. No nnan, ninf: arrays hold NaN and inf
        // as "no data".
        ir.fast_flags.set(LLVMFastMathAllowReassoc | LLVMFastMathNoSignedZeros | LLVMFastMathAllowContract);
    }
    let aliasing = Aliasing::new(&ir, f);
    let mut emitter = StmtEmitter {
        profile: Profile::of(f),
        exprs: ExprEmitter::new(&ir, &aliasing, Scopes::new()),
        target,
        frame: Frame::entry(&ir, target, &f.name),
        assertions: vec![],
        bodies: vec![],
        device: None,
    };
    emitter.frame.in_parts = is_large(&f.body);
    emitter.bind_arguments(f);
    emitter.stmt(&f.body)?;
    emitter.frame_exit();
    let (entry, bodies, assertions) = (emitter.frame.fun, emitter.bodies, emitter.assertions);
    Ok(Module { ir, entry, bodies, assertions })
}

impl Module {
    /// Its entry point and bodies.
    pub(super) fn functions(&self) -> impl Iterator<Item = Fun> {
        std::iter::once(self.entry).chain(self.bodies.iter().copied())
    }

    /// Hides all but the entry point from the linker.
    pub(super) fn hide_bodies(&self) {
        self.bodies.iter().for_each(|&body| self.ir.make_internal(body));
    }

    /// Calls the entry point `symbol`, and bodies after it.
    pub(super) fn name_after(&self, symbol: &str) {
        for &body in &self.bodies {
            self.ir.rename(body, &format!("{symbol}.{}", self.ir.name(body)));
        }
        self.ir.rename(self.entry, symbol);
    }
}

/// A heap block, and for profiles the slot of its Func and its size.
#[derive(Clone, Copy)]
pub(super) struct HeapBlock {
    /// Its address.
    pub address: Val,
    /// See [`crate::runtime::profile`].
    pub profile: Option<(u32, Val)>,
    /// The way out that frees it and those below, once something failed inside: its first block, and the code that it leaves with.
    unwinding: Option<(Block, Val)>,
}

/// The LLVM function being filled.
pub(super) struct Frame {
    /// The function.
    pub fun: Fun,
    /// Holds the allocas; ends in a jump to the first real block.
    pub entry: Block,
    /// The call's [`crate::backend::abi::Context`].
    pub context: Val,
    /// Heap blocks to free on the way out, innermost last.
    pub heap: Vec<HeapBlock>,
    /// Funcs that the thread computed before each of those that it computes here, innermost last.
    pub producing: Vec<Val>,
    /// True for an outlined body, which returns nothing.
    pub is_body: bool,
    /// Are loops of it functions of their own?
    pub in_parts: bool,
    /// True once a non-temporal store was emitted.
    pub non_temporal: bool,
}

impl Frame {
    fn entry(ir: &Ir, target: &Target, name: &str) -> Frame {
        let (ptr, i32_ty) = (ir.ptr_ty(), ir.ty(Type::I32));
        let fun = ir.add_function(name, ir.fn_ty(i32_ty, &[ptr, ptr, ptr]));
        Frame::new(ir, target, fun, false)
    }

    /// Starts to fill `fun`, whose first parameter is the context.
    pub(super) fn new(ir: &Ir, target: &Target, fun: Fun, is_body: bool) -> Frame {
        let processor = &target.processor;
        ir.instructions.replace(x86::Instructions::of(&processor.name, &processor.features));
        ir.permutes.set(x86::has(&processor.features, "avx512vbmi"));
        ir.gathers.set(x86::has(&processor.features, "avx512f"));
        ir.masks.set(match target.gpu {
            Some(_) => Some(1),
            None => x86::masks(&processor.features),
        });
        ir.function_flag(fun, "nounwind");
        ir.function_attribute(fun, "target-cpu", &processor.name);
        ir.function_attribute(fun, "target-features", &processor.features);
        ir.function_attribute(fun, "prefer-vector-width", &target.vector_bits().to_string());
        let (entry, start) = (ir.block(fun, "entry"), ir.block(fun, "start"));
        ir.at_end(entry);
        ir.br(start);
        ir.at_end(start);
        Frame {
            fun,
            entry,
            context: ir.param(fun, 0),
            heap: vec![],
            producing: vec![],
            is_body,
            in_parts: false,
            non_temporal: false,
        }
    }
}

/// Emits statements at the builder's position.
pub(super) struct StmtEmitter<'f> {
    /// Emits expressions.
    pub exprs: ExprEmitter<'f>,
    /// For attributes of outlined functions.
    pub target: &'f Target,
    /// The function being filled.
    pub frame: Frame,
    /// The Funcs being computed, if the function is profiled.
    pub profile: Option<Profile>,
    /// Messages so far.
    pub assertions: Vec<String>,
    /// Outlined bodies so far.
    pub bodies: Vec<Fun>,
    /// The kernel being filled, if it is one.
    pub device: Option<Device>,
}

impl<'f> StmtEmitter<'f> {
    fn ir(&self) -> &'f Ir {
        self.exprs.ir
    }

    /// Binds buffers and scalars to what the entry point's argument arrays hold.
    fn bind_arguments(&mut self, f: &'f LoweredFunction) {
        let ir = self.ir();
        let (buffers, scalars) = (ir.param(self.frame.fun, 1), ir.param(self.frame.fun, 2));
        let (mut n_buffers, mut n_scalars) = (0, 0);
        for a in &f.args {
            let (symbol, value) = match a {
                Arg::Buffer { flat, .. } => {
                    let p = ir.element_ptr(ir.ptr_ty(), buffers, ir.int(Type::I64, n_buffers));
                    n_buffers += 1;
                    (Symbol::Buffer(flat.clone()), ir.load(ir.ptr_ty(), p, 8))
                }
                Arg::Scalar { param, ty } => {
                    let p = ir.element_ptr(ir.ty(Type::I64), scalars, ir.int(Type::I64, n_scalars));
                    n_scalars += 1;
                    let v = ir.load(ir.memory_ty(Type::of(*ty)), p, 8);
                    let v = match ty {
                        ScalarType::Bool => Arith(ir).cast(v, Type::of(ScalarType::U8), ScalarType::Bool),
                        _ => v,
                    };
                    (Symbol::Param(param.clone()), v)
                }
            };
            self.exprs.scopes.bind(symbol, value);
        }
        self.bind_phases(f);
    }

    /// Binds [`Part::Phase`] of the outputs of which `f` asks for it.
    fn bind_phases(&mut self, f: &'f LoweredFunction) {
        let mut asked = FxHashSet::default();
        visit_stmts(&f.body, &mut |s| {
            let Stmt::If { cond, .. } = s else { return };
            visit(cond, &mut |e| {
                if let ExprKind::Param(Param::Of(of, Part::Phase)) = e.kind() {
                    asked.insert(of);
                }
                true
            });
        });
        let ir = self.ir();
        for of in asked {
            let planes = f.args.iter().filter_map(Arg::flat).filter(|flat| flat.of == *of);
            let addresses: Vec<Val> = planes
                .filter_map(|flat| self.exprs.scopes.value(&Symbol::Buffer(flat.clone())))
                .map(|p| ir.cast(Op::LLVMPtrToInt, p, ir.ty(Type::I64)))
                .collect();
            let all = addresses.into_iter().reduce(|a, b| ir.binary(Op::LLVMOr, a, b));
            let rest = all.map(|a| ir.binary(Op::LLVMAnd, a, ir.int(Type::I64, 63)));
            let phase = rest.unwrap_or_else(|| ir.int(Type::I64, 0));
            self.exprs.scopes.bind(Symbol::Param(Param::Of(of.clone(), Part::Phase)), phase);
        }
    }

    /// Emits `s`.
    pub(super) fn stmt(&mut self, s: &'f Stmt) -> Result<(), String> {
        let mut s = s;
        // Long chains of lets would nest as deep as they are long.
        while let Stmt::Let { name, value, body } = s {
            self.agree(&[value])?;
            let v = self.exprs.emit(value)?;
            self.exprs.scopes.bind(Symbol::Var(name.clone()), v);
            s = body;
        }
        match s {
            Stmt::Block(list) => {
                list.chunk_by(|a, b| is_store(a) && is_store(b)).try_for_each(|part| match part {
                    [one] => self.stmt(one),
                    stores => self.stores(stores),
                })
            }
            Stmt::For { var, min, body, kind: ForKind::GpuBlock, .. } if self.device.is_some() => {
                self.gpu_block(var, min, body)
            }
            Stmt::For { kind: ForKind::GpuThread, .. } if self.device.is_some() => self.gpu_thread(s),
            Stmt::For { kind: ForKind::Parallel, var, .. } if self.device.is_some() => {
                Err(format!("a parallel loop over {var} in a kernel"))
            }
            Stmt::For { var, min, extent, kind, body } => match kind {
                ForKind::Parallel => self.parallel(var, min, extent, body),
                // A CPU runs the blocks of a GPU on its pool, and the threads of a block one after the other.
                ForKind::GpuBlock if !self.frame.is_body => self.parallel(var, min, extent, body),
                ForKind::Serial if self.frame.in_parts && is_part(s, self.frame.is_body) => self.apart(s),
                ForKind::Serial | ForKind::GpuBlock | ForKind::GpuThread => {
                    self.serial(var, min, extent, body)
                }
                other => Err(format!("a {other:?} loop over {var} was left by lowering")),
            },
            Stmt::If { cond, then, otherwise } => {
                self.agree(&[cond])?;
                self.branch(cond, then, otherwise.as_deref())
            }
            Stmt::Assert { message, .. } if self.device.is_some() => {
                Err(format!("an assertion in a kernel: {message}"))
            }
            Stmt::Assert { cond, message, args } => self.assertion(cond, message, args),
            Stmt::Allocate { buffer, ty, extent, memory, zeroed, body } => {
                self.allocate(buffer, *ty, extent, *memory, *zeroed, body)
            }
            Stmt::Store { .. } => self.stores(std::slice::from_ref(s)),
            Stmt::Accumulate { buffer, op, index, value, predicate } => {
                self.device_store(buffer, |e| e.accumulate(buffer, *op, index, value, predicate.as_ref()))
            }
            Stmt::PrefetchByte { .. } if self.device.is_some() => Ok(()),
            Stmt::PrefetchByte { buffer, byte } => self.prefetch(buffer, byte),
            Stmt::Let { .. } => Err("lets are handled above".into()),
            Stmt::Realize { func, .. } | Stmt::Provide { func, .. } | Stmt::Prefetch { name: func, .. } => {
                Err(format!("a multi-dimensional statement of {func} was left by lowering"))
            }
            Stmt::Produce { stage, body } => self.produce(&stage.func, body),
        }
    }

    /// Stores that follow each other.
    fn stores(&mut self, list: &'f [Stmt]) -> Result<(), String> {
        self.exprs.runs = Runs::in_stores(list);
        for s in list {
            let Stmt::Store { buffer, index, value, predicate, aligned, non_temporal } = s else { continue };
            let non_temporal = *non_temporal && self.device.is_none();
            let flags = StoreFlags { aligned: *aligned, non_temporal };
            self.device_store(buffer, |e| e.store(buffer, index, value, predicate.as_ref(), flags))?;
        }
        self.exprs.runs = Runs::default();
        Ok(())
    }

    fn store(
        &mut self,
        buffer: &'f Flat,
        index: &'f Expr,
        value: &'f Expr,
        predicate: Option<&'f Expr>,
        flags: StoreFlags,
    ) -> Result<(), String> {
        for row in rows(index).map_or(std::slice::from_ref(index), |rows| rows.0) {
            self.exprs.emit(Access::of(row).operand())?;
        }
        self.exprs.emit(value)?;
        if let Some(p) = predicate {
            self.exprs.emit(p)?;
        }
        self.exprs.store(buffer, index, value, predicate, flags)?;
        self.frame.non_temporal |= flags.non_temporal;
        let group = self.exprs.aliasing.group(buffer);
        self.exprs.scopes.stored(group.map(GroupSet::of).unwrap_or_default());
        Ok(())
    }

    /// Asks for the cache line of an element, to be read, in all levels.
    fn prefetch(&mut self, buffer: &'f Flat, byte: &'f Expr) -> Result<(), String> {
        let ir = self.ir();
        let i = self.exprs.emit(byte)?;
        let p = self.exprs.element(buffer, i, byte.ty(), Type::of(ScalarType::U8))?;
        let int = |v| ir.int(Type::I32, v);
        ir.intrinsic("llvm.prefetch", &[ir.ptr_ty()], &[p, int(0), int(3), int(1)]);
        Ok(())
    }

    /// `if extent > 0 { i = min; do { body } while (++i < min + extent) }`
    pub(super) fn serial(
        &mut self,
        var: &'f Name,
        min: &'f Expr,
        extent: &'f Expr,
        body: &'f Stmt,
    ) -> Result<(), String> {
        let ir = self.ir();
        let ty = ir.ty(min.ty());
        self.agree(&[min, extent])?;
        let first = self.exprs.emit(min)?;
        match extent.as_int() {
            Some(n) if n <= 0 => return Ok(()),
            Some(1) => {
                return self.scoped(|e| {
                    e.exprs.scopes.bind(Symbol::Var(var.clone()), first);
                    e.stmt(body)
                });
            }
            _ => {}
        }
        let n = self.exprs.emit(extent)?;
        let end = ir.add_nsw(first, n);
        let (head, exit) = (self.block("loop"), self.block("after"));
        let before = ir.current_block();
        if extent.as_int().is_some() {
            ir.br(head);
        } else {
            ir.cond_br(ir.icmp(IntCmp::LLVMIntSGT, n, ir.zero(ty)), head, exit);
        }
        ir.at_end(head);
        let i = ir.phi(ty);
        ir.add_incoming(i, first, before);
        self.exprs.scopes.stored(self.stores_in(body));
        self.scoped(|e| {
            e.exprs.scopes.bind(Symbol::Var(var.clone()), i);
            e.stmt(body)
        })?;
        let next = ir.add_nsw(i, ir.int(min.ty(), 1));
        ir.add_incoming(i, next, ir.current_block());
        ir.cond_br(ir.icmp(IntCmp::LLVMIntSLT, next, end), head, exit);
        ir.at_end(exit);
        Ok(())
    }

    fn branch(&mut self, cond: &'f Expr, then: &'f Stmt, otherwise: Option<&'f Stmt>) -> Result<(), String> {
        if cond.ty().lanes != 1 {
            return Err("an `if` on a vector was left by lowering".into());
        }
        let ir = self.ir();
        let c = self.exprs.emit(cond)?;
        let (yes, end) = (self.block("then"), self.block("end"));
        let no = if otherwise.is_some() { self.block("else") } else { end };
        ir.cond_br(c, yes, no);
        for (block, s) in [(yes, Some(then)), (no, otherwise)] {
            if let Some(s) = s {
                ir.at_end(block);
                self.scoped(|e| e.stmt(s))?;
                ir.br(end);
            }
        }
        ir.at_end(end);
        Ok(())
    }

    fn assertion(&mut self, cond: &'f Expr, message: &str, args: &'f [Expr]) -> Result<(), String> {
        let ir = self.ir();
        self.assertions.push(message.to_string());
        let code = ir.int(Type::I32, self.assertions.len() as i64);
        let c = self.exprs.emit(cond)?;
        let (failed, fine) = (self.block("failed"), self.block("fine"));
        ir.cond_br(c, fine, failed);
        ir.at_end(failed);
        self.scoped(|e| {
            let slots = e.alloca(ir.array_ty(ir.ty(Type::I64), args.len() as u64), 8);
            for (i, a) in args.iter().enumerate() {
                let v = e.exprs.emit(a)?;
                let p = ir.element_ptr(ir.ty(Type::I64), slots, ir.int(Type::I64, i as i64));
                ir.store(Arith(ir).cast(v, a.ty(), ScalarType::I64), p, 8);
            }
            let (ptr, i32_ty) = (ir.ptr_ty(), ir.ty(Type::I32));
            let fail = ir.add_function(FAIL, ir.fn_ty(ir.void_ty(), &[ptr, i32_ty, ptr, i32_ty]));
            ir.call(fail, &[e.frame.context, code, slots, ir.int(Type::I32, args.len() as i64)]);
            Ok(())
        })?;
        self.leave(code);
        ir.at_end(fine);
        Ok(())
    }

    fn allocate(
        &mut self,
        buffer: &'f Flat,
        ty: ScalarType,
        extent: &'f Expr,
        memory: Memory,
        zeroed: bool,
        body: &'f Stmt,
    ) -> Result<(), String> {
        let ir = self.ir();
        let size = ty.bytes() as i64;
        let (p, bytes) = match memory {
            Memory::Heap if self.device.is_some() => {
                return Err(format!("{buffer} is allocated in a kernel"));
            }
            Memory::Heap => self.heap_block(buffer, extent, size)?,
            Memory::Stack | Memory::Register | Memory::Shared => {
                let n = extent.as_int().filter(|n| (0..1 << 20).contains(n)).ok_or_else(|| {
                    format!("{buffer} lies in the frame, but its size is not a constant (below 2^20)")
                })?;
                let p = match memory {
                    Memory::Shared if self.device.is_some() => self.shared(buffer, ty, n),
                    _ => self.alloca(ir.array_ty(ir.memory_ty(Type::of(ty)), n as u64), 64),
                };
                (p, ir.int(Type::I64, n * size))
            }
        };
        if zeroed {
            let m = ir.memset_zero(p, bytes, 64);
            if let Some(g) = self.exprs.aliasing.group(buffer) {
                self.exprs.aliasing.annotate(ir, m, g);
            }
        }
        self.exprs.scopes.push();
        self.exprs.scopes.bind(Symbol::Buffer(buffer.clone()), p);
        let done = self.stmt(body);
        self.exprs.scopes.pop();
        if memory == Memory::Heap
            && let Some(block) = self.frame.heap.pop()
        {
            self.free(block);
        }
        done
    }

    /// Allocates `extent * size` bytes and leaves the function if there are none.
    fn heap_block(&mut self, buffer: &Flat, extent: &'f Expr, size: i64) -> Result<(Val, Val), String> {
        let ir = self.ir();
        let n = self.exprs.emit(extent)?;
        let n = Arith(ir).cast(n, extent.ty(), ScalarType::I64);
        let n = ir.intrinsic("llvm.smax", &[ir.ty(Type::I64)], &[n, ir.int(Type::I64, 0)]);
        let bytes = ir.mul_nsw(n, ir.int(Type::I64, size));
        let (ptr, i64_ty) = (ir.ptr_ty(), ir.ty(Type::I64));
        let alloc = ir.add_function(ALLOC, ir.fn_ty(ptr, &[ptr, i64_ty]));
        let p = ir.call(alloc, &[self.frame.context, bytes]);
        let (none, some) = (self.block("no_memory"), self.block("memory"));
        ir.cond_br(ir.icmp(IntCmp::LLVMIntEQ, p, ir.zero(ptr)), none, some);
        ir.at_end(none);
        self.leave(ir.int(Type::I32, crate::backend::abi::OUT_OF_MEMORY as i64));
        ir.at_end(some);
        let profile = self.profile_allocation(buffer, bytes);
        self.frame.heap.push(HeapBlock { address: p, profile, unwinding: None });
        Ok((p, bytes))
    }

    fn free(&self, block: HeapBlock) {
        let ir = self.ir();
        self.profile_free(block);
        let free = ir.add_function(FREE, ir.fn_ty(ir.void_ty(), &[ir.ptr_ty()]));
        ir.call(free, &[block.address]);
    }

    /// Leaves the function for good with `code`, freeing what is allocated. All failures inside of an allocation share the way out, so
    /// that its length is that of the allocations, however many fail.
    pub(super) fn leave(&mut self, code: Val) {
        let ir = self.ir();
        if let Some(&before) = self.frame.producing.first() {
            self.profile_back(before);
        }
        let mut code = code;
        for top in (0..self.frame.heap.len()).rev() {
            let from = ir.current_block();
            if let Some((block, known)) = self.frame.heap[top].unwinding {
                ir.br(block);
                ir.add_incoming(known, code, from);
                return;
            }
            let block = self.block("unwind");
            ir.br(block);
            ir.at_end(block);
            let phi = ir.phi(ir.ty(Type::I32));
            ir.add_incoming(phi, code, from);
            self.frame.heap[top].unwinding = Some((block, phi));
            self.free(self.frame.heap[top]);
            code = phi;
        }
        ir.ret((!self.frame.is_body).then_some(code));
    }

    /// The normal end of the function being filled.
    pub(super) fn frame_exit(&mut self) {
        let ir = self.ir();
        if self.frame.non_temporal && self.target.is(X86) {
            // Non-temporal stores are not ordered by the release that ends a parallel loop.
            ir.intrinsic(x86::STORE_FENCE, &[], &[]);
        }
        self.leave(ir.int(Type::I32, 0));
    }

    /// Frame space, allocated once per call of the function.
    pub(super) fn alloca(&self, ty: super::ir::Ty, align: u32) -> Val {
        let ir = self.ir();
        let here = ir.current_block();
        ir.before_terminator(self.frame.entry);
        let p = ir.alloca(ty, align);
        ir.at_end(here);
        p
    }

    /// A new block of the function being filled.
    pub(super) fn block(&self, name: &str) -> Block {
        self.ir().block(self.frame.fun, name)
    }

    /// Emits with a scope of its own.
    pub(super) fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.exprs.scopes.push();
        let r = f(self);
        self.exprs.scopes.pop();
        r
    }

    /// Groups that `s` stores to.
    pub(super) fn stores_in(&self, s: &Stmt) -> GroupSet {
        let mut set = GroupSet::default();
        visit_stmts(s, &mut |s| {
            if let Stmt::Store { buffer, .. } | Stmt::Accumulate { buffer, .. } = s {
                let g: Option<Group> = self.exprs.aliasing.group(buffer);
                set = set.union(g.map(GroupSet::of).unwrap_or_default());
            }
        });
        set
    }

    /// Continues behind a parallel loop only if nothing failed in it.
    pub(super) fn leave_if_failed(&mut self) {
        let ir = self.ir();
        let i32_ty = ir.ty(Type::I32);
        // `failed` is the context's first field.
        let code = ir.load(i32_ty, self.frame.context, 4);
        let (failed, fine) = (self.block("failed"), self.block("fine"));
        ir.cond_br(ir.icmp(IntCmp::LLVMIntNE, code, ir.zero(i32_ty)), failed, fine);
        ir.at_end(failed);
        self.leave(code);
        ir.at_end(fine);
    }

    /// A scalar index or count as i32.
    pub(super) fn as_i32(&self, v: Val, ty: Type) -> Val {
        if ty == Type::I64 { self.ir().cast(Op::LLVMTrunc, v, self.ir().ty(Type::I32)) } else { v }
    }
}

fn is_store(s: &Stmt) -> bool {
    matches!(s, Stmt::Store { .. })
}
