//! Operators and functions, scalarised: applied channel by channel, scalars broadcast.

use crate::budgets::Budget;
use crate::builder::Builder;
use crate::builder::value::{Scalar, Value};
use crate::dag::{At, Compare, Dag, ExprId, Function};
use crate::error::Fault;
use smallvec::SmallVec;

/// `+ - * / ^`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
}

/// The five comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    Eq,
    Less,
    LessEq,
    Greater,
    GreaterEq,
}

impl Builder {
    pub(crate) fn constant(&mut self, value: f64) -> Value {
        Value::scalar(self.energy.dag.constant(value))
    }

    /// The number that a scalar is, if it is one whatever the inputs.
    pub(crate) fn as_constant(&self, value: &Value) -> Option<f64> {
        match value.scalars() {
            [s] => self.energy.dag.as_constant(s.id),
            _ => None,
        }
    }

    pub(crate) fn arithmetic(&mut self, op: Arithmetic, a: &Value, b: &Value) -> Result<Value, Fault> {
        if op == Arithmetic::Pow {
            self.check_exponent(b)?;
        }
        self.zip(&[a, b], |dag, v| match op {
            Arithmetic::Add => dag.add(v[0], v[1]),
            Arithmetic::Sub => dag.sub(v[0], v[1]),
            Arithmetic::Mul => dag.mul(v[0], v[1]),
            Arithmetic::Div => dag.div(v[0], v[1]),
            Arithmetic::Pow => dag.pow(v[0], v[1]),
        })
    }

    pub(crate) fn negate(&mut self, a: &Value) -> Value {
        self.map(a, Dag::neg)
    }

    /// An elementwise function of as many operands as it has.
    pub(crate) fn call(&mut self, function: Function, operands: &[&Value]) -> Result<Value, Fault> {
        self.zip(operands, |dag, v| dag.call(function, v))
    }

    pub(crate) fn compare(&mut self, comparison: Comparison, a: &Value, b: &Value) -> Result<Value, Fault> {
        self.zip(&[a, b], |dag, v| match comparison {
            Comparison::Eq => dag.compare(Compare::Eq, v[0], v[1]),
            Comparison::Less => dag.compare(Compare::Less, v[0], v[1]),
            Comparison::LessEq => dag.compare(Compare::LessEq, v[0], v[1]),
            Comparison::Greater => dag.compare(Compare::Less, v[1], v[0]),
            Comparison::GreaterEq => dag.compare(Compare::LessEq, v[1], v[0]),
        })
    }

    pub(crate) fn and(&mut self, operands: &[&Value]) -> Result<Value, Fault> {
        self.zip(operands, |dag, v| {
            let truths = truths(dag, v);
            dag.and(&truths)
        })
    }

    pub(crate) fn or(&mut self, operands: &[&Value]) -> Result<Value, Fault> {
        self.zip(operands, |dag, v| {
            let truths = truths(dag, v);
            dag.or(&truths)
        })
    }

    pub(crate) fn not(&mut self, a: &Value) -> Value {
        self.map(a, |dag, a| {
            let truth = dag.truth(a);
            dag.not(truth)
        })
    }

    /// `Select(cond, a, b)`: a choice between values, never arithmetic.
    pub(crate) fn select(&mut self, cond: &Value, a: &Value, b: &Value) -> Result<Value, Fault> {
        self.zip(&[cond, a, b], |dag, v| {
            let cond = dag.truth(v[0]);
            dag.select(cond, v[1], v[2])
        })
    }

    /// The product of a Vector's entries.
    pub(crate) fn all(&mut self, v: &Value) -> Value {
        self.fold(v, |dag, ids| ids.iter().skip(1).fold(ids[0], |p, &x| dag.mul(p, x)))
    }

    /// Tells whether any entry is non-zero.
    pub(crate) fn any(&mut self, v: &Value) -> Value {
        self.fold(v, |dag, ids| {
            let truths = truths(dag, ids);
            dag.or(&truths)
        })
    }

    /// The sum of a Vector's entries.
    pub(crate) fn sum(&mut self, v: &Value) -> Value {
        self.fold(v, |dag, ids| {
            let terms: Vec<(f64, ExprId)> = ids.iter().map(|&id| (1.0, id)).collect();
            dag.sum(0.0, &terms)
        })
    }

    /// `Vector(a, b, ...)` of scalars.
    pub(crate) fn vector(&mut self, entries: &[&Value]) -> Result<Value, Fault> {
        if entries.len() as u64 > self.energy.dag.budgets().of(Budget::Entries) {
            return Err(self.spent(Budget::Entries));
        }
        let entry = |(i, v): (usize, &&Value)| match v.scalars() {
            [s] => Ok(*s),
            more => Err(Fault::NotScalar { function: "Vector".into(), position: i + 1, got: more.len() }),
        };
        entries.iter().enumerate().map(entry).collect::<Result<Value, Fault>>()
    }

    pub(crate) fn dot(&mut self, a: &Value, b: &Value) -> Result<Value, Fault> {
        let products = self.arithmetic(Arithmetic::Mul, a, b)?;
        Ok(self.sum(&products))
    }

    /// `sqrt(v . v)`.
    pub(crate) fn norm(&mut self, v: &Value) -> Result<Value, Fault> {
        let square = self.dot(v, v)?;
        self.call(Function::Sqrt, &[&square])
    }

    /// `v / sqrt(v . v)`.
    pub(crate) fn normalize(&mut self, v: &Value) -> Result<Value, Fault> {
        let norm = self.norm(v)?;
        self.arithmetic(Arithmetic::Div, v, &norm)
    }

    /// `|v - w|`.
    pub(crate) fn length(&mut self, v: &Value, w: &Value) -> Result<Value, Fault> {
        let difference = self.arithmetic(Arithmetic::Sub, v, w)?;
        self.norm(&difference)
    }

    /// A row-major 3x3 matrix times a 3-vector.
    pub(crate) fn matrix3_mul(&mut self, m: &Value, v: &Value) -> Result<Value, Fault> {
        const NAME: &str = "Matrix3x3Mul";
        let m = entries::<9>(NAME, m)?;
        let v = entries::<3>(NAME, v)?;
        let row = |dag: &mut Dag, r: usize| {
            let products = [0, 1, 2].map(|c| (1.0, dag.mul(m[3 * r + c].id, v[c].id)));
            dag.sum(0.0, &products)
        };
        let uses_bounds = m.iter().chain(&v).any(|s| s.uses_bounds);
        let dag = &mut self.energy.dag;
        Ok((0..3).map(|r| Scalar { id: row(dag, r), uses_bounds }).collect())
    }

    /// `v` turned counter-clockwise by `angle`.
    pub(crate) fn rotate_2d(&mut self, angle: &Value, v: &Value) -> Result<Value, Fault> {
        const NAME: &str = "Rotate2D";
        let [angle] = entries::<1>(NAME, angle)?;
        let v = entries::<2>(NAME, v)?;
        let uses_bounds = [angle, v[0], v[1]].iter().any(|s| s.uses_bounds);
        let turned = rotate_pair(&mut self.energy.dag, angle.id, v[0].id, v[1].id);
        Ok(turned.into_iter().map(|id| Scalar { id, uses_bounds }).collect())
    }

    /// `Rz(a2) * Ry(a1) * Rx(a0) * v`, as three plane rotations: of (y,z), then (z,x), then (x,y).
    pub(crate) fn rotate_3d(&mut self, angles: &Value, v: &Value) -> Result<Value, Fault> {
        const NAME: &str = "Rotate3D";
        let a = entries::<3>(NAME, angles)?;
        let v = entries::<3>(NAME, v)?;
        let uses_bounds = a.iter().chain(&v).any(|s| s.uses_bounds);
        let dag = &mut self.energy.dag;
        let [y, z] = rotate_pair(dag, a[0].id, v[1].id, v[2].id);
        let [z, x] = rotate_pair(dag, a[1].id, z, v[0].id);
        let [x, y] = rotate_pair(dag, a[2].id, x, y);
        Ok([x, y, z].into_iter().map(|id| Scalar { id, uses_bounds }).collect())
    }

    /// The exponent of `^` may not depend on what is solved for.
    fn check_exponent(&self, exponent: &Value) -> Result<(), Fault> {
        for s in exponent.scalars() {
            let accesses = self.energy.dag.accesses(s.id);
            if let Some(a) = self.unknown_reads(&accesses).first() {
                return Err(Fault::UnknownExponent(self.source_name(a.source).into()));
            }
        }
        Ok(())
    }

    fn map(&mut self, v: &Value, mut f: impl FnMut(&mut Dag, ExprId) -> ExprId) -> Value {
        let dag = &mut self.energy.dag;
        v.scalars().iter().map(|s| Scalar { id: f(dag, s.id), ..*s }).collect()
    }

    /// `f` of the entries of each channel in turn.
    pub(super) fn zip(
        &mut self,
        operands: &[&Value],
        mut f: impl FnMut(&mut Dag, &[ExprId]) -> ExprId,
    ) -> Result<Value, Fault> {
        let channels = common_channels(operands)?;
        let dag = &mut self.energy.dag;
        let channel = |c: usize| {
            let scalars: SmallVec<[Scalar; 4]> = operands.iter().map(|v| v.broadcast(c)).collect();
            let ids: SmallVec<[ExprId; 4]> = scalars.iter().map(|s| s.id).collect();
            Scalar { id: f(dag, &ids), uses_bounds: scalars.iter().any(|s| s.uses_bounds) }
        };
        Ok((0..channels).map(channel).collect())
    }

    /// One scalar from all entries.
    fn fold(&mut self, v: &Value, f: impl FnOnce(&mut Dag, &[ExprId]) -> ExprId) -> Value {
        let ids: SmallVec<[ExprId; 4]> = v.scalars().iter().map(|s| s.id).collect();
        let uses_bounds = v.scalars().iter().any(|s| s.uses_bounds);
        let id = f(&mut self.energy.dag, &ids);
        std::iter::once(Scalar { id, uses_bounds }).collect()
    }
}

/// The graph of a vertex read.
pub(super) fn is_vertex(at: &At) -> bool {
    matches!(at, At::Vertex(..))
}

fn truths(dag: &mut Dag, ids: &[ExprId]) -> SmallVec<[ExprId; 4]> {
    ids.iter().map(|&id| dag.truth(id)).collect()
}

/// `(x, y)` turned by `angle` from x towards y.
fn rotate_pair(dag: &mut Dag, angle: ExprId, x: ExprId, y: ExprId) -> [ExprId; 2] {
    let (cos, sin) = (dag.call(Function::Cos, &[angle]), dag.call(Function::Sin, &[angle]));
    let (cos_x, sin_y) = (dag.mul(cos, x), dag.mul(sin, y));
    let (sin_x, cos_y) = (dag.mul(sin, x), dag.mul(cos, y));
    [dag.sub(cos_x, sin_y), dag.add(sin_x, cos_y)]
}

/// The entries of a Vector of a given size.
fn entries<const N: usize>(function: &str, v: &Value) -> Result<[Scalar; N], Fault> {
    let wrong = || Fault::VectorSize { function: function.into(), expected: N, got: v.len() };
    v.scalars().try_into().map_err(|_| wrong())
}

/// The number of channels of operands that fit together.
fn common_channels(operands: &[&Value]) -> Result<usize, Fault> {
    let widest = operands.iter().map(|v| v.len()).max().unwrap_or(1);
    let at = |n: usize| operands.iter().position(|v| v.len() == n).map_or(0, |i| i + 1);
    match operands.iter().position(|v| v.len() != 1 && v.len() != widest) {
        None => Ok(widest),
        Some(odd) => {
            let (a, b) = (at(widest), odd + 1);
            let operand = |i: usize| (i, operands[i - 1].len());
            Err(Fault::Channels { first: operand(a.min(b)), second: operand(a.max(b)) })
        }
    }
}
