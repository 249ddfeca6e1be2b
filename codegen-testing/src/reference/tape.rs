//! Expressions as straight-line code: nodes that are equal once, operands first.
//!
//! A tape makes deep and heavily shared expressions cheap to evaluate, without recursion. Vector nodes are
//! taken apart into lanes, so that every register holds one scalar. What follows from constants and parameters alone is
//! computed once, when the tape is made: bounds of adjoints are long expressions of the extents of buffers.

use super::number::{self, Number, constant};
use super::value::{self, IllTyped, Value};
use rustc_hash::FxHashMap;
use sumsq_codegen::error::Error;
use sumsq_codegen::expr::{BinaryOp, Expr, ExprKind, Name, Param, UnaryOp};
use sumsq_codegen::types::ScalarType;

/// Index of a register: the instruction that writes it.
type Reg = usize;

/// One instruction. The types are those of the operands unless said otherwise.
enum Op<N> {
    Const(N),
    /// Variable number `.0` of the tape.
    Var(usize),
    Cast(ScalarType, ScalarType, Reg),
    Reinterpret(ScalarType, ScalarType, Reg),
    Unary(UnaryOp, ScalarType, Reg),
    Binary(BinaryOp, ScalarType, Reg, Reg),
    Fma(ScalarType, Reg, Reg, Reg),
    Select(Reg, Reg, Reg),
    Call {
        name: Name,
        args: Vec<Reg>,
        value: usize,
    },
}

impl<N> Op<N> {
    /// The registers that it reads.
    fn operands(&mut self) -> Vec<&mut Reg> {
        match self {
            Op::Const(_) | Op::Var(_) => vec![],
            Op::Cast(_, _, a) | Op::Reinterpret(_, _, a) | Op::Unary(_, _, a) => vec![a],
            Op::Binary(_, _, a, b) => vec![a, b],
            Op::Fma(_, a, b, c) | Op::Select(a, b, c) => vec![a, b, c],
            Op::Call { args, .. } => args.iter_mut().collect(),
        }
    }
}

/// Straight-line code for some expressions over numbered variables.
pub struct Tape<N> {
    ops: Vec<Op<N>>,
    /// The registers that each instruction reads.
    reads: Vec<Vec<Reg>>,
    /// Lanes of the compiled expressions, one after the other.
    results: Vec<Reg>,
    /// For error messages.
    pipeline: String,
}

/// Surroundings of a tape.
pub trait Calls<N> {
    /// Value `value` of Func or input `name` at `coords`.
    fn call(&mut self, name: &Name, coords: &[i32], value: usize) -> Result<N, Error>;
}

/// Compiles expressions; `params` are already known, `vars` are numbered in their order.
pub fn compile<N: Number>(
    exprs: &[Expr],
    vars: &[Name],
    params: &FxHashMap<Param, N>,
    pipeline: &str,
) -> Result<Tape<N>, Error> {
    let mut builder = Builder { vars, params, regs: FxHashMap::default(), ops: vec![], values: vec![] };
    let mut results = vec![];
    for e in exprs {
        for lane in 0..e.ty().lanes {
            let reg = builder
                .reg(e, lane)
                .map_err(|message| Error::Pipeline { pipeline: pipeline.to_string(), message })?;
            results.push(reg);
        }
    }
    let mut ops = without_unread(builder.ops, &mut results);
    let reads = ops.iter_mut().map(|op| op.operands().into_iter().map(|r| *r).collect()).collect();
    Ok(Tape { ops, reads, results, pipeline: pipeline.to_string() })
}

/// The code without what neither a result nor a call needs. Calls stay: they may fail.
fn without_unread<N>(mut ops: Vec<Op<N>>, results: &mut [Reg]) -> Vec<Op<N>> {
    let mut is_read = vec![false; ops.len()];
    results.iter().for_each(|&r| is_read[r] = true);
    for (i, op) in ops.iter_mut().enumerate().rev() {
        is_read[i] |= matches!(op, Op::Call { .. });
        if is_read[i] {
            op.operands().into_iter().for_each(|r| is_read[*r] = true);
        }
    }
    let (mut kept, mut place) = (vec![], vec![0; ops.len()]);
    for (i, mut op) in ops.into_iter().enumerate().filter(|(i, _)| is_read[*i]) {
        op.operands().into_iter().for_each(|r| *r = place[*r]);
        place[i] = kept.len();
        kept.push(op);
    }
    results.iter_mut().for_each(|r| *r = place[*r]);
    kept
}

struct Builder<'a, N> {
    vars: &'a [Name],
    params: &'a FxHashMap<Param, N>,
    /// Register of a lane of a node: the same of equal nodes.
    regs: FxHashMap<(Expr, u16), Reg>,
    ops: Vec<Op<N>>,
    /// Values of registers that are constants.
    values: Vec<N>,
}

impl<N: Number> Builder<'_, N> {
    /// The register of one lane of an expression: a post-order walk with an explicit stack.
    fn reg(&mut self, root: &Expr, lane: u16) -> Result<Reg, String> {
        let mut stack = vec![(root.clone(), lane)];
        while let Some(of) = stack.last().cloned() {
            if self.regs.contains_key(&of) {
                stack.pop();
                continue;
            }
            let operands = operands(&of.0, of.1);
            let missing: Vec<_> = operands.iter().filter(|o| !self.regs.contains_key(*o)).cloned().collect();
            if !missing.is_empty() {
                stack.extend(missing);
                continue;
            }
            let regs: Vec<Reg> = operands.iter().map(|o| self.regs[o]).collect();
            let reg = self.emit(&of.0, of.1, &regs)?;
            self.regs.insert(of, reg);
            stack.pop();
        }
        Ok(self.regs[&(root.clone(), lane)])
    }

    /// A register for an instruction, as a constant with its value if all its operands are. What is ill-typed is told when it runs.
    fn push(&mut self, mut op: Op<N>) -> Reg {
        let is_constant = |r: &mut Reg| matches!(self.ops[*r], Op::Const(_));
        let is_known = !matches!(op, Op::Var(_)) && op.operands().into_iter().all(is_constant);
        let value = if is_known { step(&op, &self.values, &[]).ok() } else { None };
        self.values.push(value.unwrap_or(constant(Value::Int(0))));
        self.ops.push(value.map_or(op, Op::Const));
        self.ops.len() - 1
    }

    /// Code for one lane of a node whose operands are in `regs` (in the order of [`operands`]).
    fn emit(&mut self, e: &Expr, lane: u16, regs: &[Reg]) -> Result<Reg, String> {
        let ty = e.ty().scalar;
        let op = match e.operation() {
            ExprKind::Int(v) => Op::Const(constant(Value::Int(ty.wrap(*v)))),
            ExprKind::Float(v) => Op::Const(constant(Value::Float(value::round_to(ty, *v)))),
            ExprKind::Var(n) => match self.vars.iter().position(|v| v == n) {
                Some(i) => Op::Var(i),
                None => return Err(format!("variable `{n}` is not defined here")),
            },
            ExprKind::Param(n) => match self.params.get(n) {
                Some(v) => Op::Const(*v),
                None => return Err(format!("parameter `{n}` has no value")),
            },
            ExprKind::Cast(a) => Op::Cast(a.ty().scalar, ty, regs[0]),
            ExprKind::Reinterpret(a) => Op::Reinterpret(a.ty().scalar, ty, regs[0]),
            ExprKind::Unary(op, a) => Op::Unary(*op, a.ty().scalar, regs[0]),
            ExprKind::Binary(op, a, _) => Op::Binary(*op, a.ty().scalar, regs[0], regs[1]),
            ExprKind::Fma(..) => Op::Fma(ty, regs[0], regs[1], regs[2]),
            ExprKind::Select(..) => Op::Select(regs[0], regs[1], regs[2]),
            ExprKind::Call { name, value, .. } => {
                Op::Call { name: name.clone(), args: regs.to_vec(), value: *value }
            }
            ExprKind::Likely(_) | ExprKind::Broadcast(_) | ExprKind::Interleave(_) | ExprKind::Concat(_) => {
                return Ok(regs[0]);
            }
            ExprKind::Ramp(base, _) => {
                let step = self.push(Op::Const(constant(Value::Int((lane / base.ty().lanes) as i64))));
                let offset = self.push(Op::Binary(BinaryOp::Mul, ty, regs[1], step));
                Op::Binary(BinaryOp::Add, ty, regs[0], offset)
            }
            ExprKind::VectorReduce(op, _) => return Ok(self.tree(*op, ty, regs)),
            ExprKind::Load { buffer, .. } => {
                return Err(format!("a load from `{buffer}` outside lowered code"));
            }
            ExprKind::Strict(_) => return Err(format!("marked twice: {e}")),
        };
        Ok(self.push(op))
    }

    /// The fixed tree of a vector reduction: the upper half of a group's lanes is folded onto the lower half.
    fn tree(&mut self, op: BinaryOp, ty: ScalarType, lanes: &[Reg]) -> Reg {
        let mut lanes = lanes.to_vec();
        while lanes.len() > 1 {
            let half = lanes.len().div_ceil(2);
            for i in half..lanes.len() {
                lanes[i - half] = self.push(Op::Binary(op, ty, lanes[i - half], lanes[i]));
            }
            lanes.truncate(half);
        }
        lanes[0]
    }
}

/// The operand lanes that lane `lane` of a node reads.
fn operands(e: &Expr, lane: u16) -> Vec<(Expr, u16)> {
    match e.kind() {
        ExprKind::Broadcast(a) => vec![(a.clone(), lane % a.ty().lanes)],
        ExprKind::Ramp(base, stride) => {
            let m = base.ty().lanes;
            vec![(base.clone(), lane % m), (stride.clone(), lane % stride.ty().lanes)]
        }
        ExprKind::Interleave(parts) => {
            let of = parts.len() as u16;
            vec![(parts[(lane % of) as usize].clone(), lane / of)]
        }
        ExprKind::Concat(parts) => {
            let each = e.ty().lanes / parts.len() as u16;
            vec![(parts[usize::from(lane / each)].clone(), lane % each)]
        }
        ExprKind::VectorReduce(_, a) => {
            let each = a.ty().lanes / e.ty().lanes;
            (lane * each..(lane + 1) * each).map(|l| (a.clone(), l)).collect()
        }
        _ => {
            let mut children = vec![];
            e.for_each_child(|c| children.push((c.clone(), lane % c.ty().lanes)));
            children
        }
    }
}

/// The value of a call, by name, coordinates and component, if it is known.
pub type Known<'a, N> = dyn FnMut(&Name, &[i32], usize) -> Option<N> + 'a;

impl<N: Number> Tape<N> {
    /// Runs the tape; the result has the lanes of the compiled expressions, in order.
    pub fn run(&self, vars: &[i64], calls: &mut dyn Calls<N>) -> Result<Vec<N>, Error> {
        let mut regs: Vec<N> = Vec::with_capacity(self.ops.len());
        for op in &self.ops {
            let number = match op {
                Op::Call { name, args, value } => calls.call(name, &coordinates(args, &regs), *value)?,
                _ => step(op, &regs, vars).map_err(|IllTyped(message)| Error::Pipeline {
                    pipeline: self.pipeline.clone(),
                    message: format!("ill-typed expression: {message}"),
                })?,
            };
            regs.push(number);
        }
        Ok(self.results.iter().map(|&r| regs[r]).collect())
    }

    /// As [`Tape::run`], but for what needs a value that `call` does not have: that is left out, calls included. The result, if none of it is.
    pub fn run_without(&self, vars: &[i64], call: &mut Known<'_, N>) -> Option<Vec<N>> {
        let mut regs: Vec<N> = Vec::with_capacity(self.ops.len());
        let mut known = Vec::with_capacity(self.ops.len());
        for (op, reads) in self.ops.iter().zip(&self.reads) {
            let number = match op {
                _ if !reads.iter().all(|&r| known[r]) => None,
                Op::Call { name, args, value } => call(name, &coordinates(args, &regs), *value),
                _ => step(op, &regs, vars).ok(),
            };
            known.push(number.is_some());
            regs.push(number.unwrap_or(constant(Value::Int(0))));
        }
        self.results.iter().map(|&r| known[r].then_some(regs[r])).collect()
    }
}

/// The coordinates in registers.
fn coordinates<N: Number>(args: &[Reg], regs: &[N]) -> Vec<i32> {
    args.iter().map(|&r| regs[r].value().as_int().unwrap_or_default() as i32).collect()
}

/// One instruction other than a call.
fn step<N: Number>(op: &Op<N>, regs: &[N], vars: &[i64]) -> Result<N, IllTyped> {
    match op {
        Op::Const(v) => Ok(*v),
        Op::Var(i) => Ok(constant(Value::Int(vars[*i]))),
        Op::Cast(from, to, a) => Ok(number::cast(*from, *to, regs[*a])),
        Op::Reinterpret(from, to, a) => number::reinterpret(*from, *to, regs[*a]),
        Op::Unary(op, ty, a) => number::unary(*op, *ty, regs[*a]),
        Op::Binary(op, ty, a, b) => number::binary(*op, *ty, regs[*a], regs[*b]),
        Op::Fma(ty, a, b, c) => number::fma(*ty, regs[*a], regs[*b], regs[*c]),
        Op::Select(c, a, b) => Ok(value::select(regs[*c].value(), regs[*a], regs[*b])),
        Op::Call { .. } => Err(IllTyped("a call outside a pipeline".into())),
    }
}
