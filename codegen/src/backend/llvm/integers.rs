//! Integers for which processors have instructions that LLVM does not find by itself: products of fractions of 16 bits, `((a * b >> 14) + 1) >> 1` of
//! i32 cut to i16, and sums of neighbouring lanes that are products or distances. Each gives all bits that the expression has, whatever the operands.

use super::arith::Arith;
use super::expr::ExprEmitter;
use super::ir::Val;
use crate::backend::x86::Instruction;
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::{ScalarType, Type};

impl ExprEmitter<'_> {
    /// The conversion of `e`, whose operands are done, to `ty`, if it is a product of fractions.
    pub(super) fn fraction(&self, e: &Expr, ty: Type) -> Option<Val> {
        use BinaryOp::{Add, Mul, Shr};
        if ty.scalar != ScalarType::I16 || e.ty().scalar != ScalarType::I32 {
            return None;
        }
        let twice = with_constant(Add, with_constant(Shr, e, 1)?, 1)?;
        let ExprKind::Binary(Mul, a, b) = with_constant(Shr, twice, 14)?.kind() else { return None };
        self.whole(
            Instruction::Fractions,
            None,
            [self.narrow(a, ScalarType::I16)?, self.narrow(b, ScalarType::I16)?],
        )
    }

    /// The sums of neighbouring lanes of `e`, whose operands are done, as `ty`, if an instruction adds some of them.
    pub(super) fn sums(&self, e: &Expr, ty: Type) -> Option<Val> {
        let each = e.ty().lanes / ty.lanes;
        let by = |n: u16, sums: &dyn Fn() -> Option<Val>| {
            each.is_multiple_of(n).then(sums).flatten().map(|v| (v, n))
        };
        let (sums, of) = by(8, &|| self.distances(e))
            .or_else(|| by(4, &|| self.fours(e, None)))
            .or_else(|| by(2, &|| self.pairs(e)))?;
        let part = ty.with_lanes(e.ty().lanes / of);
        Arith(self.ir).reduce(BinaryOp::Add, sums, part, ty.lanes).ok()
    }

    /// `more` and sums of neighbouring lanes at once, if an instruction adds both.
    pub(super) fn added_sums(&self, more: &Expr, sums: &Expr) -> Option<Val> {
        let ExprKind::VectorReduce(BinaryOp::Add, e) = sums.kind() else { return None };
        let more = self.scopes.recall(more)?.value;
        (e.ty().lanes == 4 * sums.ty().lanes).then(|| self.fours(e, Some(more)))?
    }

    /// Each eight distances added.
    fn distances(&self, e: &Expr) -> Option<Val> {
        let (a, b) = distance(e)?;
        let operands = [self.narrow(a, ScalarType::U8)?, self.narrow(b, ScalarType::U8)?];
        let sums = self.whole(Instruction::Distances, None, operands)?;
        let from = Type::of(ScalarType::I64).with_lanes(e.ty().lanes / 8);
        Some(Arith(self.ir).cast(sums, from, e.ty().scalar))
    }

    /// Each four products of bytes added, and `more` if there is any.
    fn fours(&self, e: &Expr, more: Option<Val>) -> Option<Val> {
        let (a, b) = product(e)?;
        let of = |a, b| Some([self.narrow(a, ScalarType::U8)?, self.narrow(b, ScalarType::I8)?]);
        let operands = of(a, b).or_else(|| of(b, a))?;
        let ty = Type::I32.with_lanes(e.ty().lanes / 4);
        self.whole(Instruction::Fours, Some(more.unwrap_or_else(|| self.ir.zero(self.ir.ty(ty)))), operands)
    }

    /// Each two products of 16 bits added.
    fn pairs(&self, e: &Expr) -> Option<Val> {
        let (a, b) = product(e)?;
        self.whole(
            Instruction::Pairs,
            None,
            [self.narrow(a, ScalarType::I16)?, self.narrow(b, ScalarType::I16)?],
        )
    }

    /// An instruction on vectors as long as they are, in as many pieces as it takes; `sums` are what it adds to.
    fn whole(&self, instruction: Instruction, sums: Option<Val>, operands: [Val; 2]) -> Option<Val> {
        let ir = self.ir;
        let all = ir.lanes(operands[0]);
        let (lanes, intrinsic) = ir.instructions.borrow().find(instruction, all)?;
        if !(all / lanes).is_power_of_two() {
            return None;
        }
        let part = |v: Val, i: u16| {
            let n = ir.lanes(v) / (all / lanes);
            if all == lanes { v } else { ir.pick(v, &(i * n..(i + 1) * n).collect::<Vec<_>>()) }
        };
        let one = |i| {
            let parts: Vec<Val> = sums.into_iter().chain(operands).map(|v| part(v, i)).collect();
            ir.intrinsic(intrinsic, &[], &parts)
        };
        Some(self.side_by_side((0..all / lanes).map(one).collect()))
    }

    /// A factor as the narrow vector that it was, in `scalar`, if that has all that it may be.
    fn narrow(&self, e: &Expr, scalar: ScalarType) -> Option<Val> {
        let (ir, ty) = (self.ir, e.ty().of_element(scalar));
        if let Some(c) = e.as_int() {
            return scalar.has(c).then(|| ir.int(ty, c));
        }
        let (narrow, shared) = match e.kind() {
            _ if e.ty() == ty => (e, false),
            ExprKind::Cast(a) => (a, false),
            ExprKind::Broadcast(a) => match a.kind() {
                ExprKind::Cast(a) => (a, true),
                _ => return None,
            },
            _ => return None,
        };
        let own = narrow.ty().scalar;
        if !(own.is_int() && own != ScalarType::Bool && scalar.has(own.least()) && scalar.has(own.greatest()))
        {
            return None;
        }
        let v = Arith(ir).cast(self.scopes.recall(narrow)?.value, narrow.ty(), scalar);
        Some(if shared { ir.splat(v, ty.lanes) } else { v })
    }
}

/// The factors of a product of 32 bits, or of one of bytes in 16 bits that has them all.
fn product(e: &Expr) -> Option<(&Expr, &Expr)> {
    use ScalarType::*;
    match e.kind() {
        ExprKind::Binary(BinaryOp::Mul, a, b) if matches!(e.ty().scalar, I32 | U32) => Some((a, b)),
        ExprKind::Cast(p) if matches!(e.ty().scalar, I32 | U32) => {
            let ExprKind::Binary(BinaryOp::Mul, a, b) = p.kind() else { return None };
            let unsigned = [a, b].map(|f| matches!(f.kind(), ExprKind::Cast(f) if f.ty().scalar == U8));
            let signed = [a, b].map(|f| matches!(f.kind(), ExprKind::Cast(f) if f.ty().scalar == I8));
            let fits = match p.ty().scalar {
                I16 => signed != [false; 2] && [0, 1].iter().all(|&i| signed[i] || unsigned[i]),
                U16 => unsigned == [true; 2],
                _ => false,
            };
            fits.then_some((a, b))
        }
        _ => None,
    }
}

/// The bytes of which `e` is the distance.
fn distance(e: &Expr) -> Option<(&Expr, &Expr)> {
    let wide = |e: &Expr| matches!(e.ty().scalar, ScalarType::I16 | ScalarType::I32 | ScalarType::I64);
    let has_all = e.ty().scalar.has(ScalarType::U8.greatest());
    match e.kind() {
        _ if !has_all => None,
        ExprKind::Cast(d) => distance(d),
        ExprKind::Unary(UnaryOp::Abs, d) if wide(d) => match d.kind() {
            ExprKind::Binary(BinaryOp::Sub, a, b) => Some((a, b)),
            _ => None,
        },
        ExprKind::Binary(BinaryOp::Sub, high, low) if e.ty().scalar == ScalarType::U8 => {
            match (high.kind(), low.kind()) {
                (ExprKind::Binary(BinaryOp::Max, a, b), ExprKind::Binary(BinaryOp::Min, c, d))
                    if (a, b) == (c, d) || (a, b) == (d, c) =>
                {
                    Some((a, b))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// `x` of `x op c`.
fn with_constant(op: BinaryOp, e: &Expr, c: i64) -> Option<&Expr> {
    let ExprKind::Binary(of, x, y) = e.kind() else { return None };
    (*of == op && y.as_int() == Some(c)).then_some(x)
}
