//! Expressions: from nodes to values.
//!
//! Nodes are emitted operands first, each shared node once per scope (see [`super::scope`]), with a work list instead of
//! recursion.

use super::access::Access;
use super::alias::Aliasing;
use super::arith::Arith;
use super::ir::{Ir, Val};
use super::runs::Runs;
use super::scope::{GroupSet, Scopes, Symbol};
use super::warp::warp_reduce;
use crate::analysis::float_range::FloatRange;
use crate::expr::{BinaryOp, Expr, ExprKind, Flat, UnaryOp};
use crate::types::{ScalarType, Type};
use inkwell::llvm_sys::LLVMOpcode;

/// Emits expressions at the builder's position. Expressions live for `'f`, as long as the memo that knows them by
/// their address.
pub(super) struct ExprEmitter<'f> {
    /// Module and builder.
    pub ir: &'f Ir,
    /// Buffers that may share memory.
    pub aliasing: &'f Aliasing,
    /// Names and memo of the LLVM function being emitted.
    pub scopes: Scopes,
    /// Of the statement that is being emitted.
    pub runs: Runs,
    /// Are operations that are not marked strict relaxed?
    relaxed: bool,
}

impl<'f> ExprEmitter<'f> {
    pub(super) fn new(ir: &'f Ir, aliasing: &'f Aliasing, scopes: Scopes) -> ExprEmitter<'f> {
        ExprEmitter { ir, aliasing, scopes, runs: Runs::default(), relaxed: ir.fast_flags.get() != 0 }
    }

    /// The value of `e` here.
    pub(super) fn emit(&mut self, e: &'f Expr) -> Result<Val, String> {
        let mut work = vec![(e, false)];
        while let Some((node, operands_done)) = work.pop() {
            if self.scopes.recall(node).is_some() {
                continue;
            }
            if operands_done {
                let (value, loads) = self.node(node)?;
                self.scopes.remember(node, value, loads);
            } else {
                work.push((node, true));
                let first = work.len();
                for_each_operand(node, |c| work.push((c, false)));
                work[first..].reverse();
            }
        }
        self.done(e)
    }

    /// The value of an expression that was emitted before.
    pub(super) fn done(&self, e: &Expr) -> Result<Val, String> {
        self.scopes.recall(e).map(|m| m.value).ok_or_else(|| "an operand was not emitted".into())
    }

    /// Emits a node whose operands are done; also gives the groups that its value was loaded from.
    fn node(&mut self, e: &'f Expr) -> Result<(Val, GroupSet), String> {
        let mut loads = GroupSet::default();
        for_each_operand(e, |c| {
            if let Some(m) = self.scopes.recall(c) {
                loads = loads.union(m.loads);
            }
        });
        let (ir, ty) = (self.ir, e.ty());
        let value = match e.kind() {
            ExprKind::Int(v) if ty.scalar.is_float() => ir.float(ty, *v as f64),
            ExprKind::Int(v) => ir.int(ty, *v),
            ExprKind::Float(v) => ir.float(ty, *v),
            ExprKind::Var(n) => self.value(Symbol::Var(n.clone()))?,
            ExprKind::Param(p) => self.value(Symbol::Param(p.clone()))?,
            ExprKind::Cast(a) if a.ty().scalar.is_float() && ty.scalar.is_int() => {
                Arith(ir).to_integer(self.done(a)?, a.ty(), ty.scalar, self.range(a))
            }
            ExprKind::Cast(a) => match self.fraction(a, ty) {
                Some(product) => product,
                None => Arith(ir).cast(self.done(a)?, a.ty(), ty.scalar),
            },
            ExprKind::Reinterpret(a) => ir.cast(LLVMOpcode::LLVMBitCast, self.done(a)?, ir.ty(ty)),
            kind @ (ExprKind::Unary(..) | ExprKind::Binary(..) | ExprKind::Fma(..)) => {
                self.operation(kind, ty)?
            }
            ExprKind::Strict(kind) => ir.strict(ty, || self.operation(kind, ty))?,
            ExprKind::Select(c, a, b) if is_function(b) && self.scopes.recall(b).is_none() => {
                self.select_or_call(c, a, b)?
            }
            ExprKind::Select(c, a, b) => ir.select(self.done(c)?, self.done(a)?, self.done(b)?),
            ExprKind::Likely(a) => self.done(a)?,
            ExprKind::Ramp(base, stride) => self.ramp(self.done(base)?, self.done(stride)?, ty),
            ExprKind::Broadcast(a) => ir.splat(self.done(a)?, ty.lanes),
            ExprKind::Interleave(parts) => {
                let shared = |p: &Expr| match p.kind() {
                    ExprKind::Broadcast(a) => self.done(a).ok(),
                    _ => None,
                };
                match parts.iter().map(shared).collect::<Option<Vec<Val>>>() {
                    Some(shared) => self.in_turns(&shared, ty.lanes),
                    None => {
                        let parts: Vec<Val> = parts.iter().map(|p| self.done(p)).collect::<Result<_, _>>()?;
                        self.interleave(&parts, ty.lanes)
                    }
                }
            }
            ExprKind::Concat(parts) => {
                let all = parts.iter().map(|p| self.done(p)).collect::<Result<Vec<Val>, _>>()?;
                match all.windows(2).all(|p| p[0] == p[1]) {
                    true => ir.pick(all[0], &(0..ty.lanes).map(|i| i % ir.lanes(all[0])).collect::<Vec<_>>()),
                    false => self.one_after_the_other(all, ty.lanes),
                }
            }
            // In a nest of warps each lane is a thread.
            ExprKind::VectorReduce(op, a) if a.ty().lanes == 1 => {
                warp_reduce(ir, *op, self.done(a)?, a.ty())?
            }
            ExprKind::VectorReduce(op, a) => match self.sums(a, ty).filter(|_| *op == BinaryOp::Add) {
                Some(sums) => sums,
                None => Arith(ir).reduce(*op, self.done(a)?, a.ty(), ty.lanes)?,
            },
            ExprKind::Load { buffer, index, predicate } => {
                let (value, group) = self.load(buffer, index, predicate.as_ref(), loads, ty)?;
                loads = loads.union(GroupSet::of(group));
                value
            }
            ExprKind::Call { name, .. } => return Err(format!("a call of {name} was left by lowering")),
        };
        Ok((value, loads))
    }

    /// An operation of type `ty` whose operands are done.
    fn operation(&self, kind: &ExprKind, ty: Type) -> Result<Val, String> {
        let arith = Arith(self.ir);
        match kind {
            ExprKind::Unary(op, a) => arith.unary(*op, self.done(a)?, a.ty()),
            ExprKind::Binary(op, a, b) => {
                let sum = || self.added_sums(a, b).or_else(|| self.added_sums(b, a));
                let (x, y) = (self.done(a)?, self.done(b)?);
                match (op, b.as_int()) {
                    (BinaryOp::Div, Some(c)) if a.ty().scalar.is_int() => Ok(arith.div_by(x, c, a.ty())),
                    (BinaryOp::Mod, Some(c)) if a.ty().scalar.is_int() => Ok(arith.mod_by(x, c, a.ty())),
                    (BinaryOp::Min | BinaryOp::Max, _) if a.ty().scalar.is_float() => {
                        Ok(self.float_min_max(*op == BinaryOp::Min, (a, x), (b, y)))
                    }
                    (BinaryOp::Add, _) => sum().map_or_else(|| arith.binary(*op, x, y, a.ty()), Ok),
                    _ => arith.binary(*op, x, y, a.ty()),
                }
            }
            ExprKind::Fma(a, b, c) => Ok(arith.fma(self.done(a)?, self.done(b)?, self.done(c)?, ty)),
            _ => Err("strict of what is no operation".into()),
        }
    }

    /// `a` where the condition holds, else a call, which is made if any lane needs it, and thought to be rare.
    fn select_or_call(&mut self, c: &'f Expr, a: &'f Expr, b: &'f Expr) -> Result<Val, String> {
        let (ir, holds, first) = (self.ir, self.done(c)?, self.done(a)?);
        let all = Arith(ir).reduce(BinaryOp::And, holds, c.ty(), 1)?;
        let (rare, end) = (ir.sibling_block("rare"), ir.sibling_block("chosen"));
        let before = ir.current_block();
        ir.cond_br(all, end, rare);
        ir.at_end(rare);
        let call = self.node(b)?.0;
        ir.call_flag(call, "cold");
        let chosen = ir.select(holds, first, call);
        let behind = ir.current_block();
        ir.br(end);
        ir.at_end(end);
        let value = ir.phi(ir.type_of(first));
        ir.add_incoming(value, first, before);
        ir.add_incoming(value, chosen, behind);
        Ok(value)
    }

    /// `base, base + stride, ...`
    fn ramp(&self, base: Val, stride: Val, ty: Type) -> Val {
        let ir = self.ir;
        let (base, stride) = (ir.splat(base, ty.lanes), ir.splat(stride, ty.lanes));
        let element = Type::of(ty.scalar);
        let constant = |i: u16| {
            if ty.scalar.is_float() { ir.float(element, i as f64) } else { ir.int(element, i as i64) }
        };
        let steps: Vec<Val> = (0..ty.lanes).map(constant).collect();
        let steps = if ty.lanes == 1 { constant(0) } else { ir.const_vector(&steps) };
        let a = Arith(ir);
        a.add(base, a.mul(steps, stride, ty), ty)
    }

    /// Any number of vectors of the same length.
    fn one_after_the_other(&self, mut parts: Vec<Val>, lanes: u16) -> Val {
        let (ir, n) = (self.ir, parts.len().next_power_of_two());
        if parts.len() == n {
            return self.side_by_side(parts);
        }
        parts.resize(n, ir.poison(ir.type_of(parts[0])));
        ir.pick(self.side_by_side(parts), &(0..lanes).collect::<Vec<_>>())
    }

    /// Scalars in turns.
    fn in_turns(&self, scalars: &[Val], lanes: u16) -> Val {
        let (ir, n) = (self.ir, scalars.len() as u16);
        let none = ir.poison(ir.vector_of(ir.type_of(scalars[0]), n));
        let once = (0..n).zip(scalars).fold(none, |all, (i, v)| ir.insert(all, *v, i));
        ir.pick(once, &(0..lanes).map(|i| i % n).collect::<Vec<_>>())
    }

    /// Lanes of vectors of the same length in turns: all of them side by side, then one shuffle.
    fn interleave(&self, parts: &[Val], lanes: u16) -> Val {
        let ir = self.ir;
        let (of, each) = (parts.len() as u16, lanes / parts.len() as u16);
        if parts.windows(2).all(|p| p[0] == p[1]) {
            return ir.pick(parts[0], &(0..lanes).map(|i| i / of).collect::<Vec<_>>());
        }
        let mut all: Vec<Val> = parts.to_vec();
        while all.len() > 2 {
            if all.len() % 2 == 1 {
                all.push(ir.poison(ir.type_of(all[0])));
            }
            let side_by_side = |p: &[Val]| {
                let mask: Vec<u16> = (0..2 * ir.lanes(p[0])).collect();
                ir.shuffle(p[0], p[1], &mask)
            };
            all = all.chunks(2).map(side_by_side).collect();
        }
        let mask: Vec<u16> = (0..lanes).map(|i| i % of * each + i / of).collect();
        match all[..] {
            [a, b] => ir.shuffle(a, b, &mask),
            _ => ir.pick(all[0], &mask),
        }
    }

    /// The pointer bound to a buffer.
    pub(super) fn buffer(&self, buffer: &Flat) -> Result<Val, String> {
        self.value(Symbol::Buffer(buffer.clone()))
    }

    fn value(&self, symbol: Symbol) -> Result<Val, String> {
        self.scopes.value(&symbol).ok_or_else(|| format!("{symbol} is not defined here"))
    }

    /// Minimum or maximum of expressions with their values: one comparison where an operand is known to be a number.
    fn float_min_max(&self, min: bool, (a, x): (&Expr, Val), (b, y): (&Expr, Val)) -> Val {
        let arith = Arith(self.ir);
        let (left, right) = (self.range(a), self.range(b));
        let relaxed = self.ir.fast_flags.get() != 0;
        match right.nan && (left.is_nonzero() || relaxed && !left.nan) {
            // Neither zeros nor NaN of the other operand tell the order.
            true => arith.float_min_max(min, y, x, true),
            false => arith.float_min_max(min, x, y, !right.nan),
        }
    }

    /// Values that a float may have, as this function computes it.
    fn range(&self, e: &Expr) -> FloatRange {
        FloatRange::of(e, !self.relaxed)
    }

    /// An i32 or i64 index as i64.
    pub(super) fn index(&self, v: Val, ty: Type) -> Val {
        Arith(self.ir).cast(v, ty, ScalarType::I64)
    }
}

/// Is it a call of one of the module's functions of one operand?
fn is_function(e: &Expr) -> bool {
    let plain = |op: UnaryOp| matches!(op, UnaryOp::Abs | UnaryOp::Sqrt);
    let wide = matches!(e.ty().scalar, ScalarType::F32 | ScalarType::F64);
    matches!(e.operation(), ExprKind::Unary(op, _) if wide && op.function().is_some() && !plain(*op))
}

/// Operands whose values a node needs. They are its children, except that the index of a dense or strided access is
/// represented by its first lane, and that a function which a selection may not need is represented by its operand.
fn for_each_operand<'f>(e: &'f Expr, mut f: impl FnMut(&'f Expr)) {
    match e.kind() {
        ExprKind::Load { index, predicate, .. } => {
            f(Access::of(index).operand());
            predicate.iter().for_each(f);
        }
        ExprKind::Select(c, a, b) if is_function(b) => {
            f(c);
            f(a);
            b.for_each_child(f);
        }
        _ => e.for_each_child(f),
    }
}
