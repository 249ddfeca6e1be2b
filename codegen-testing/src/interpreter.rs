//! Runs flat statements on plain vectors of f64: the oracle of the passes after flattening, for tests only.
//!
//! Any access outside a buffer in a lane whose predicate holds panics, so that guards are tested too. Floats are f64
//! whatever their type; tests use small integers as values, for which all sums are exact.

use std::collections::HashMap;
use sumsq_codegen::analysis::evaluate::fold;
use sumsq_codegen::expr::{BinaryOp, Expr, ExprKind, Flat, Name, UnaryOp};
use sumsq_codegen::ir::stmt::Stmt;

/// Lanes of a value; bool and integers are whole numbers.
type Value = Vec<f64>;

/// Memory and bindings.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Machine {
    /// Flat buffers.
    pub buffers: HashMap<Flat, Vec<f64>>,
    /// Variables.
    pub names: HashMap<Name, Value>,
}

impl Machine {
    fn whole(&self, e: &Expr) -> i64 {
        self.eval(e)[0] as i64
    }

    /// Runs a statement; every loop is serial.
    pub fn run(&mut self, s: &Stmt) {
        match s {
            Stmt::Block(v) => v.iter().for_each(|s| self.run(s)),
            Stmt::Let { name, value, body } => {
                let value = self.eval(value);
                self.bound(name, value, body);
            }
            Stmt::For { var, min, extent, body, .. } => {
                let (min, extent) = (self.whole(min), self.whole(extent));
                (min..min + extent).for_each(|i| self.bound(var, vec![i as f64], body));
            }
            Stmt::If { cond, then, otherwise } => {
                if self.whole(cond) != 0 {
                    self.run(then);
                } else if let Some(o) = otherwise {
                    self.run(o);
                }
            }
            Stmt::Allocate { buffer, extent, body, .. } => {
                let size = self.whole(extent) as usize;
                let outer = self.buffers.insert(buffer.clone(), vec![0.0; size]);
                self.run(body);
                self.buffers.remove(buffer);
                self.buffers.extend(outer.map(|o| (buffer.clone(), o)));
            }
            Stmt::Store { buffer, index, value, predicate, .. } => {
                let (index, value) = (self.eval(index), self.eval(value));
                let on = predicate.as_ref().map(|p| self.eval(p));
                assert_eq!(index.len(), value.len());
                for l in (0..index.len()).filter(|&l| on.as_ref().is_none_or(|p| p[l] != 0.0)) {
                    self.buffers.get_mut(buffer).unwrap()[index[l] as usize] = value[l];
                }
            }
            s => panic!("not flat: {s}"),
        }
    }

    fn bound(&mut self, name: &Name, value: Value, body: &Stmt) {
        let outer = self.names.insert(name.clone(), value);
        self.run(body);
        self.names.remove(name);
        self.names.extend(outer.map(|o| (name.clone(), o)));
    }

    fn eval(&self, e: &Expr) -> Value {
        let whole = !e.ty().scalar.is_float();
        match e.operation() {
            ExprKind::Int(v) => vec![*v as f64; e.ty().lanes as usize],
            ExprKind::Float(v) => vec![*v; e.ty().lanes as usize],
            ExprKind::Var(n) => self.names[n].clone(),
            ExprKind::Cast(a) if whole => self.eval(a).iter().map(|v| v.trunc()).collect(),
            ExprKind::Cast(a) | ExprKind::Likely(a) => self.eval(a),
            ExprKind::Unary(UnaryOp::Neg, a) => self.eval(a).iter().map(|v| -v).collect(),
            ExprKind::Unary(UnaryOp::Not, a) => self.eval(a).iter().map(|v| 1.0 - v).collect(),
            ExprKind::Binary(op, a, b) => {
                let int = !a.ty().scalar.is_float();
                let (x, y) = (self.eval(a), self.eval(b));
                assert_eq!(x.len(), y.len(), "{e}");
                x.iter().zip(&y).map(|(x, y)| apply(*op, a, int, *x, *y)).collect()
            }
            ExprKind::Select(c, a, b) => {
                let (c, a, b) = (self.eval(c), self.eval(a), self.eval(b));
                (0..a.len()).map(|l| if c[l] != 0.0 { a[l] } else { b[l] }).collect()
            }
            ExprKind::Ramp(a, b) => {
                let (a, b) = (self.eval(a)[0], self.eval(b)[0]);
                (0..e.ty().lanes).map(|l| a + b * l as f64).collect()
            }
            ExprKind::Broadcast(a) => vec![self.eval(a)[0]; e.ty().lanes as usize],
            ExprKind::Interleave(parts) => {
                let parts: Vec<Value> = parts.iter().map(|p| self.eval(p)).collect();
                (0..parts[0].len()).flat_map(|l| parts.iter().map(move |p| p[l])).collect()
            }
            ExprKind::Concat(parts) => parts.iter().flat_map(|p| self.eval(p)).collect(),
            ExprKind::VectorReduce(op, a) => {
                let int = !a.ty().scalar.is_float();
                let all = self.eval(a);
                let groups = all.chunks(all.len() / usize::from(e.ty().lanes));
                groups.map(|g| g.iter().copied().reduce(|x, y| apply(*op, a, int, x, y)).unwrap()).collect()
            }
            ExprKind::Load { buffer, index, predicate } => {
                let on = predicate.as_ref().map(|p| self.eval(p));
                let load = |(l, i): (usize, &f64)| match &on {
                    Some(p) if p[l] == 0.0 => 0.0,
                    _ => *self.buffers[buffer]
                        .get(*i as usize)
                        .unwrap_or_else(|| panic!("{buffer}[{i}] in {e}")),
                };
                self.eval(index).iter().enumerate().map(load).collect()
            }
            k => panic!("not interpreted: {k:?}"),
        }
    }
}

fn apply(op: BinaryOp, operand: &Expr, int: bool, x: f64, y: f64) -> f64 {
    if int {
        return {
            let ty = operand.ty().scalar;
            let e = Expr::binary(op, Expr::int(ty, x as i64), Expr::int(ty, y as i64));
            fold(&e).and_then(|v| v.as_int()).unwrap() as f64
        };
    }
    match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Min => x.min(y),
        BinaryOp::Max => x.max(y),
        BinaryOp::Lt => (x < y) as i64 as f64,
        op => panic!("not interpreted: {op:?}"),
    }
}
