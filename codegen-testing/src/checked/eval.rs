//! The checked machine: expressions.

use super::machine::{Fallible, Lanes, Machine};
use crate::reference::{Value, value};
use smallvec::smallvec;
use sumsq_codegen::expr::{BinaryOp, Expr, ExprKind, Flat};

impl Machine {
    /// The value of a scalar integer expression.
    pub(super) fn scalar(&mut self, e: &Expr) -> Fallible<i64> {
        self.eval(e)?[0].as_int().ok_or_else(|| format!("{e} is no integer"))
    }

    /// The value of an expression; a node that is shared inside of a statement is evaluated once.
    pub(super) fn eval(&mut self, e: &Expr) -> Fallible<Lanes> {
        let leaf =
            matches!(e.kind(), ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) | ExprKind::Param(_));
        if leaf || !e.is_shared() {
            return self.compute(e);
        }
        if let Some(v) = self.memo.get(&e.id()) {
            return Ok(v.clone());
        }
        let v = self.compute(e)?;
        self.memo.insert(e.id(), v.clone());
        Ok(v)
    }

    fn compute(&mut self, e: &Expr) -> Fallible<Lanes> {
        self.values += e.ty().lanes as usize;
        let ty = e.ty().scalar;
        let ill = |e: value::IllTyped| e.0;
        Ok(match e.operation() {
            ExprKind::Int(v) => smallvec![Value::Int(*v); e.ty().lanes as usize],
            ExprKind::Float(v) => smallvec![Value::Float(*v); e.ty().lanes as usize],
            ExprKind::Var(n) => self.names.get(n).cloned().ok_or_else(|| format!("{n} is not bound"))?,
            ExprKind::Param(p) => {
                smallvec![*self.params.get(p).ok_or_else(|| format!("{p} is not bound"))?]
            }
            ExprKind::Cast(a) => {
                let from = a.ty().scalar;
                self.eval(a)?.into_iter().map(|v| value::cast(from, ty, v)).collect()
            }
            ExprKind::Reinterpret(a) => {
                let from = a.ty().scalar;
                let cast = |v| value::reinterpret(from, ty, v).map_err(ill);
                self.eval(a)?.into_iter().map(cast).collect::<Fallible<_>>()?
            }
            ExprKind::Likely(a) => self.eval(a)?,
            ExprKind::Unary(op, a) => {
                let from = a.ty().scalar;
                self.eval(a)?
                    .into_iter()
                    .map(|v| value::unary(*op, from, v).map_err(ill))
                    .collect::<Fallible<_>>()?
            }
            ExprKind::Binary(op, a, b) => {
                let from = a.ty().scalar;
                let (x, y) = (self.eval(a)?, self.eval(b)?);
                if let ([x], [y]) = (&x[..], &y[..]) {
                    return Ok(smallvec![value::binary(*op, from, *x, *y).map_err(ill)?]);
                }
                (0..x.len().max(y.len()))
                    .map(|l| value::binary(*op, from, lane(&x, l), lane(&y, l)).map_err(ill))
                    .collect::<Fallible<_>>()?
            }
            ExprKind::Fma(a, b, c) => {
                let (x, y, z) = (self.eval(a)?, self.eval(b)?, self.eval(c)?);
                (0..x.len().max(y.len()).max(z.len()))
                    .map(|l| value::fma(ty, lane(&x, l), lane(&y, l), lane(&z, l)).map_err(ill))
                    .collect::<Fallible<_>>()?
            }
            ExprKind::Select(c, a, b) => {
                let (c, x, y) = (self.eval(c)?, self.eval(a)?, self.eval(b)?);
                let n = c.len().max(x.len()).max(y.len());
                (0..n).map(|l| value::select(lane(&c, l), lane(&x, l), lane(&y, l))).collect()
            }
            ExprKind::Call { name, args, value } => smallvec![self.call(name, args, *value)?],
            ExprKind::Ramp(base, step) => {
                let (b, s) = (self.scalar(base)?, self.scalar(step)?);
                (0..e.ty().lanes as i64).map(|l| Value::Int(b + l * s)).collect()
            }
            ExprKind::Broadcast(a) => smallvec![self.eval(a)?[0]; e.ty().lanes as usize],
            ExprKind::VectorReduce(op, a) => self.reduce(*op, a, e.ty().lanes.into())?,
            ExprKind::Interleave(parts) => {
                let parts: Vec<Lanes> = parts.iter().map(|p| self.eval(p)).collect::<Fallible<_>>()?;
                let of = parts.len();
                (0..e.ty().lanes as usize).map(|l| lane(&parts[l % of], l / of)).collect()
            }
            ExprKind::Concat(parts) => {
                let parts: Vec<Lanes> = parts.iter().map(|p| self.eval(p)).collect::<Fallible<_>>()?;
                parts.into_iter().flatten().collect()
            }
            ExprKind::Load { buffer, index, predicate } => self.load(buffer, index, predicate.as_ref(), e)?,
            ExprKind::Strict(_) => return Err(format!("marked twice: {e}")),
        })
    }

    fn load(&mut self, buffer: &Flat, index: &Expr, on: Option<&Expr>, e: &Expr) -> Fallible<Lanes> {
        let index = self.eval(index)?;
        let on = on.map(|p| self.eval(p)).transpose()?;
        let mut out = Lanes::new();
        let mut loads = 0;
        for (l, i) in index.iter().enumerate() {
            if on.as_ref().is_some_and(|p| lane(p, l) == Value::Int(0)) {
                out.push(Value::of(e.ty().scalar, 0.0));
                continue;
            }
            let i = i.as_int().unwrap_or(0);
            let (cell, positions) = self.flat_element(buffer, i)?;
            out.push(cell.read(positions).map_err(|e| format!("{buffer}[{i}] {e}"))?);
            loads += 1;
        }
        let f = self.counters.count(buffer);
        f.loads += loads;
        f.load_instructions += 1;
        Ok(out)
    }

    /// In each group the upper half of the lanes onto the lower, whose last is left over if they are odd.
    fn reduce(&mut self, op: BinaryOp, a: &Expr, groups: usize) -> Fallible<Lanes> {
        let ty = a.ty().scalar;
        let all = self.eval(a)?;
        let one = |group: &[Value]| {
            let mut v = Lanes::from(group);
            while v.len() > 1 {
                let half = v.len().div_ceil(2);
                for l in half..v.len() {
                    v[l - half] = value::binary(op, ty, v[l - half], v[l]).map_err(|e| e.0)?;
                }
                v.truncate(half);
            }
            Ok(v[0])
        };
        all.chunks(all.len() / groups).map(one).collect()
    }
}

/// A scalar stands for any number of lanes.
fn lane(v: &Lanes, l: usize) -> Value {
    v[l.min(v.len() - 1)]
}
