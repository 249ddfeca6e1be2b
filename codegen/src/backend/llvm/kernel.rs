//! Kernels of a GPU: block loops, thread nests and what stands between them.
//!
//! A kernel is a function of its buffers and scalars, in the order of its arguments. Its blocks have one dimension: thread coordinates are
//! decoded from the thread's number, so that nests of different shapes share one block size. All threads run what is between thread nests, alike:
//! - a thread nest is `if number < iterations { body }` and a barrier;
//! - a store outside of all thread nests is done by thread 0, and followed by a barrier;
//! - so is a load there from a buffer that the kernel writes: nobody goes on, and changes it, before all have read.
//!
//! In a nest whose iterations are warps, a store to what the kernel also reads has the warp wait before and after it, since its lanes may have
//! diverged. Nothing fails in a kernel, and nothing is allocated from a heap.

use super::alias::Aliasing;
use super::arith::Arith;
use super::device::Device;
use super::expr::ExprEmitter;
use super::ir::{Ir, Val};
use super::scope::{Scopes, Symbol};
use super::stmt::{Frame, StmtEmitter};
use crate::backend::nvptx;
use crate::expr::walk::{nodes, visit};
use crate::expr::{Expr, ExprKind, Flat, Name};
use crate::ir::args::Arg;
use crate::ir::rewrite::visit_stmts;
use crate::ir::segments::Kernel;
use crate::ir::stmt::Stmt;
use crate::lower::join::shared;
use crate::lower::kernels::WARP;
use crate::lower::partition::nodes as statement_nodes;
use crate::lower::segments::{extents, is_warps};
use crate::lower::warps::WARP_LANE;
use crate::target::Target;
use crate::types::{ScalarType, Type};
use inkwell::llvm_sys::{LLVMIntPredicate as IntCmp, LLVMOpcode as Op};
use rustc_hash::FxHashSet;

/// Emits kernels into one module.
pub(super) fn emit_kernels(name: &str, kernels: &[Kernel], target: &Target) -> Result<Ir, String> {
    let ir = Ir::new(name);
    ir.saturates.set(true);
    for kernel in kernels {
        emit_kernel(&ir, kernel, target).map_err(|e| format!("{}: {e}", kernel.function.name))?;
    }
    Ok(ir)
}

fn emit_kernel(ir: &Ir, kernel: &Kernel, target: &Target) -> Result<(), String> {
    let f = &kernel.function;
    let types = f.args.iter().map(|a| match a {
        Arg::Buffer { .. } => ir.ptr_ty(),
        Arg::Scalar { ty, .. } => ir.memory_ty(Type::of(*ty)),
    });
    let fun = ir.add_function(&f.name, ir.fn_ty(ir.void_ty(), &types.collect::<Vec<_>>()));
    ir.calling_convention(fun, nvptx::KERNEL);
    ir.function_attribute(fun, nvptx::BLOCK_SIZE, &format!("{},1,1", kernel.threads));
    let buffers = f.args.iter().filter(|a| a.flat().is_some()).count();
    if buffers >= nvptx::MANY_BUFFERS && loops_by_data(&f.body) {
        ir.function_attribute(fun, nvptx::LEAST_BLOCKS, "1");
    } else if buffers >= nvptx::VERY_MANY_BUFFERS {
        let blocks = (nvptx::FEWER_THREADS / kernel.threads).max(1);
        ir.function_attribute(fun, nvptx::LEAST_BLOCKS, &blocks.to_string());
    } else if !shared(&f.body).is_empty() && statement_nodes(&f.body) >= nvptx::MANY_NODES {
        ir.function_attribute(fun, nvptx::LEAST_BLOCKS, "2");
    }
    let aliasing = Aliasing::new(ir, f);
    let frame = Frame::new(ir, target, fun, true);
    let device = Device::new(ir, kernel);
    let mut emitter = StmtEmitter {
        profile: None,
        exprs: ExprEmitter::new(ir, &aliasing, Scopes::new()),
        target,
        frame,
        assertions: vec![],
        bodies: vec![],
        device: Some(device),
    };
    for (i, a) in f.args.iter().enumerate() {
        let value = ir.param(fun, i as u32);
        let (symbol, value) = match a {
            Arg::Buffer { flat, written, .. } => {
                let aliased = f.aliases.iter().any(|(a, b)| a == flat || b == flat);
                let flags = [("noalias", !aliased), ("readonly", !written && !aliased)];
                flags.iter().filter(|f| f.1).for_each(|f| ir.param_flag(fun, i as u32, f.0));
                (Symbol::Buffer(flat.clone()), value)
            }
            Arg::Scalar { param, ty: ScalarType::Bool } => {
                let byte = Type::of(ScalarType::U8);
                (Symbol::Param(param.clone()), Arith(ir).cast(value, byte, ScalarType::Bool))
            }
            Arg::Scalar { param, .. } => (Symbol::Param(param.clone()), value),
        };
        emitter.exprs.scopes.bind(symbol, value);
    }
    emitter.stmt(&f.body)?;
    emitter.frame_exit();
    Ok(())
}

/// True if a loop has as many iterations as a buffer says.
fn loops_by_data(body: &Stmt) -> bool {
    let (mut loaded, mut found) = (FxHashSet::default(), false);
    visit_stmts(body, &mut |s| {
        let by_data = |e: &Expr| {
            nodes([e]).iter().any(|e| match e.kind() {
                ExprKind::Load { .. } => true,
                ExprKind::Var(name) => loaded.contains(name),
                _ => false,
            })
        };
        match s {
            Stmt::For { extent, .. } => found |= by_data(extent),
            Stmt::Let { name, value, .. } if by_data(value) => _ = loaded.insert(name.clone()),
            _ => (),
        }
    });
    found
}

/// Emits the kernel that ends an iteration of a device's loop.
///
/// `tick(until, count, max, turn, second, first)`: counts the iteration; the loop goes on if the i32 at `until` is 0 and fewer than `max` are
/// done. The condition `turn` decides on another turn of two iterations, `second` on the second one of this turn, which is asked after the first
/// alone. In chunks, `tick(until, count, max)`, the i32 behind the count tells whether the loop has ended.
pub(super) fn emit_tick(target: &Target, in_chunks: bool) -> Ir {
    let ir = Ir::new("loop");
    let (ptr, i32_ty, i64_ty) = (ir.ptr_ty(), ir.ty(Type::I32), ir.ty(Type::I64));
    let types = [ptr, ptr, i32_ty, i64_ty, i64_ty, i32_ty];
    let types = if in_chunks { &types[..3] } else { &types };
    let fun = ir.add_function(TICK, ir.fn_ty(ir.void_ty(), types));
    ir.calling_convention(fun, nvptx::KERNEL);
    ir.function_attribute(fun, nvptx::BLOCK_SIZE, "1,1,1");
    let frame = Frame::new(&ir, target, fun, true);
    let param = |i| ir.param(frame.fun, i);
    let [until, count, max] = [0, 1, 2].map(param);
    let int = |v| ir.int(Type::I32, v);
    let done = ir.binary(Op::LLVMAdd, ir.load(i32_ty, count, 4), int(1));
    ir.store(done, count, 4);
    let running = ir.icmp(IntCmp::LLVMIntEQ, ir.load(i32_ty, until, 4), int(0));
    let more = ir.binary(Op::LLVMAnd, running, ir.icmp(IntCmp::LLVMIntSLT, done, max));
    if in_chunks {
        let ended = ir.select(more, int(0), int(1));
        ir.store(ended, ir.field_ptr(ir.struct_ty(&[i32_ty, i32_ty]), count, 1), 4);
    } else {
        let [turn, second, first] = [3, 4, 5].map(param);
        let more = ir.cast(Op::LLVMZExt, more, i32_ty);
        let again = ir.select(ir.icmp(IntCmp::LLVMIntNE, first, int(0)), more, int(0));
        let set = ir.add_function(nvptx::SET_CONDITION, ir.fn_ty(ir.void_ty(), &[i64_ty, i32_ty]));
        ir.call(set, &[turn, more]);
        ir.call(set, &[second, again]);
    }
    ir.ret(None);
    ir
}

/// The name of the kernel of [`emit_tick`].
pub(super) const TICK: &str = "tick";

impl<'f> StmtEmitter<'f> {
    /// A block loop: its variable is the block's coordinate.
    pub(super) fn gpu_block(&mut self, var: &'f Name, min: &'f Expr, body: &'f Stmt) -> Result<(), String> {
        let device = self.device.as_mut().ok_or("a block loop outside of a kernel")?;
        let here = device.blocks.pop().ok_or("more block loops than a grid has dimensions")?;
        self.coordinate(var, min, here, body)
    }

    /// A loop of threads: the first of a nest, or a further one.
    pub(super) fn gpu_thread(&mut self, s: &'f Stmt) -> Result<(), String> {
        let Stmt::For { var, min, body, .. } = s else { return Err("a thread nest is a loop".into()) };
        let device = self.device.as_mut().ok_or("a thread loop outside of a kernel")?;
        match &mut device.coordinates {
            Some(rest) => {
                let here = rest.pop().ok_or("more thread loops than were counted")?;
                self.coordinate(var, min, here, body)
            }
            None => self.nest(s),
        }
    }

    fn coordinate(&mut self, var: &'f Name, min: &'f Expr, here: Val, body: &'f Stmt) -> Result<(), String> {
        let ir = self.exprs.ir;
        let first = self.exprs.emit(min)?;
        let here = Arith(ir).cast(here, Type::I32, min.ty().scalar);
        self.scoped(|e| {
            e.exprs.scopes.bind(Symbol::Var(var.clone()), ir.add_nsw(first, here));
            e.stmt(body)
        })
    }

    /// A thread nest, and the barrier behind it.
    fn nest(&mut self, s: &'f Stmt) -> Result<(), String> {
        let ir = self.exprs.ir;
        let (sizes, warps) = (extents(s), is_warps(s));
        let device = self.device.as_mut().ok_or("a thread nest outside of a kernel")?;
        let iterations: i64 = sizes.iter().product();
        let (number, lane) = match warps {
            true => {
                let (bits, mask) = (WARP.trailing_zeros() as i64, WARP - 1);
                let i32s = |v| ir.int(Type::I32, v);
                let lane = ir.binary(Op::LLVMAnd, device.thread, i32s(mask));
                (ir.binary(Op::LLVMLShr, device.thread, i32s(bits)), Some(lane))
            }
            false => (device.thread, None),
        };
        let units = device.threads as i64 / if warps { WARP } else { 1 };
        // Innermost first; the outermost is what remains.
        let (mut rest, mut coordinates) = (number, vec![]);
        for (k, n) in sizes.iter().enumerate().rev() {
            let n = ir.int(Type::I32, *n);
            coordinates.push(if k > 0 { ir.binary(Op::LLVMURem, rest, n) } else { rest });
            if k > 0 {
                rest = ir.binary(Op::LLVMUDiv, rest, n);
            }
        }
        (device.coordinates, device.warps) = (Some(coordinates), warps);
        let end = (iterations < units).then(|| {
            let (inside, end) = (self.block("threads"), self.block("joined"));
            let some = ir.icmp(IntCmp::LLVMIntULT, number, ir.int(Type::I32, iterations));
            ir.cond_br(some, inside, end);
            ir.at_end(inside);
            end
        });
        self.scoped(|e| {
            if let Some(lane) = lane {
                e.exprs.scopes.bind(Symbol::Var(WARP_LANE.into()), lane);
            }
            e.gpu_thread(s)
        })?;
        if let Some(end) = end {
            ir.br(end);
            ir.at_end(end);
        }
        if let Some(device) = &mut self.device {
            (device.coordinates, device.warps) = (None, false);
        }
        self.barrier();
        Ok(())
    }

    /// True outside of thread nests.
    fn between_nests(&self) -> bool {
        self.device.as_ref().is_some_and(|d| d.coordinates.is_none())
    }

    /// All threads of the block wait for each other behind a nest or a store, unless nothing follows.
    fn barrier(&mut self) {
        if self.device.as_ref().is_some_and(|d| d.barriers) {
            self.wait();
        }
    }

    fn wait(&self) {
        let ir = self.exprs.ir;
        ir.intrinsic(nvptx::BARRIER, &[], &[ir.int(Type::I32, 0)]);
    }

    /// Evaluates expressions that decide for all threads; none goes on before all have read what the kernel may change.
    pub(super) fn agree(&mut self, exprs: &[&'f Expr]) -> Result<(), String> {
        if !self.between_nests() {
            return Ok(());
        }
        let mut reads = false;
        for e in exprs {
            let written = |b: &Flat| self.device.as_ref().is_some_and(|d| d.written.contains(b));
            visit(e, &mut |n| {
                reads |= matches!(n.kind(), ExprKind::Load { buffer, .. } if written(buffer));
                true
            });
            self.exprs.emit(e)?;
        }
        if reads {
            self.wait();
        }
        Ok(())
    }

    /// A store or update, by `store`: done by thread 0 outside of thread nests, else by every thread.
    pub(super) fn device_store(
        &mut self,
        buffer: &Flat,
        store: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let ir = self.exprs.ir;
        let Some(device) = &self.device else { return store(self) };
        if device.coordinates.is_some() {
            let waits = device.warps && device.read.contains(buffer);
            let wait = || {
                if waits {
                    ir.intrinsic(nvptx::WARP_BARRIER, &[], &[ir.int(Type::I32, -1)]);
                }
            };
            wait();
            store(self)?;
            wait();
            return Ok(());
        }
        let first = ir.icmp(IntCmp::LLVMIntEQ, device.thread, ir.int(Type::I32, 0));
        let (one, end) = (self.block("one"), self.block("stored"));
        ir.cond_br(first, one, end);
        ir.at_end(one);
        self.scoped(store)?;
        ir.br(end);
        ir.at_end(end);
        self.barrier();
        Ok(())
    }

    /// Memory that the threads of a block share.
    pub(super) fn shared(&self, buffer: &Flat, ty: ScalarType, n: i64) -> Val {
        let ir = self.exprs.ir;
        let ty = ir.array_ty(ir.memory_ty(Type::of(ty)), n as u64);
        ir.global_in(&format!("shared {buffer}"), ty, nvptx::SHARED, 16)
    }
}
