//! The table of robust losses: names and formulas.
//!
//! A loss rho of scale s > 0 is of a block's squared norm q, and adds rho(q) to E (Zach and Bourmaud, "Descending, lifting or
//! smoothing", 2018, list them). Near 0 every loss is q; s is where it starts to count a residual as an outlier. The
//! assembled path writes the same formulas out in numbers, as the oracle of these.

use crate::dag::{Dag, ExprId, Function};

/// A robust loss.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LossKind {
    /// q up to s^2, then 2 s sqrt(q) - s^2.
    Huber,
    /// s^2 log(1 + q/s^2).
    Cauchy,
    /// s^2/3 (1 - (1 - q/s^2)^3) up to s^2, then s^2/3.
    Tukey,
    /// 2 s^2 (sqrt(1 + q/s^2) - 1).
    SoftL1,
    /// s^2 atan(q/s^2).
    Arctan,
    /// q/(1 + q/s^2).
    GemanMcClure,
}

/// Point at which a loss is taken.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    /// The scale s, and its square.
    pub s: ExprId,
    pub s2: ExprId,
    /// The squared norm.
    pub q: ExprId,
}

/// rho'' against rho': -2 rho''/rho' = `share / base`, which is positive; but rho'' = 0 where `flat` holds.
pub(crate) struct Bend {
    pub share: f64,
    pub base: ExprId,
    pub flat: Option<ExprId>,
}

/// A row of the table.
pub(crate) struct Row {
    pub kind: LossKind,
    /// Name in energy files, with its scale as the only argument.
    pub name: &'static str,
    /// rho and rho'; rho' is 0 where it is not positive.
    pub value_and_slope: fn(&mut Dag, Point) -> (ExprId, ExprId),
    /// rho'', which losses of second order take into J^T J.
    pub bend: fn(&mut Dag, Point) -> Bend,
}

/// Every loss.
pub(crate) static LOSSES: &[Row] = &[
    Row {
        kind: LossKind::Huber,
        name: "Huber",
        value_and_slope: |dag, Point { s, s2, q }| {
            let norm = dag.call(Function::Sqrt, &[q]);
            let (inlier, one) = (dag.less_eq(q, s2), dag.constant(1.0));
            let product = dag.mul(s, norm);
            let linear = dag.sum(0.0, &[(2.0, product), (-1.0, s2)]);
            let slope = dag.div(s, norm);
            (dag.select(inlier, q, linear), dag.select(inlier, one, slope))
        },
        bend: |dag, Point { s2, q, .. }| Bend { share: 1.0, base: q, flat: Some(dag.less_eq(q, s2)) },
    },
    Row {
        kind: LossKind::Cauchy,
        name: "Cauchy",
        value_and_slope: |dag, Point { s2, q, .. }| {
            let base = one_and_ratio(dag, 1.0, q, s2);
            (cauchy(dag, q, s2), dag.powi(base, -1))
        },
        bend: |dag, Point { s2, q, .. }| Bend { share: 2.0, base: dag.add(s2, q), flat: None },
    },
    Row {
        kind: LossKind::Tukey,
        name: "Tukey",
        value_and_slope: |dag, Point { s2, q, .. }| {
            let rest = one_and_ratio(dag, -1.0, q, s2);
            // NaN is no outlier: it must not pass for one of finite energy.
            let (outlier, zero) = (dag.less(s2, q), dag.constant(0.0));
            let square = dag.powi(rest, 2);
            // s^2/3 (1 - (1 - t)^3) with t = q/s^2, without the difference that has no digits where t is small.
            let ratio = dag.div(q, s2);
            let third = dag.sum(1.0, &[(-1.0 / 3.0, ratio)]);
            let falls = dag.mul(ratio, third);
            let share = dag.sum(1.0, &[(-1.0, falls)]);
            let inner = dag.mul(q, share);
            let flat = dag.product(1.0 / 3.0, &[(s2, 1)]);
            (dag.select(outlier, flat, inner), dag.select(outlier, zero, square))
        },
        bend: |dag, Point { s2, q, .. }| Bend { share: 4.0, base: dag.sub(s2, q), flat: None },
    },
    Row {
        kind: LossKind::SoftL1,
        name: "SoftL1",
        value_and_slope: |dag, Point { s2, q, .. }| {
            let base = one_and_ratio(dag, 1.0, q, s2);
            let root = dag.call(Function::Sqrt, &[base]);
            // As a quotient it keeps its digits near q = 0.
            let below = dag.sum(1.0, &[(1.0, root)]);
            (dag.product(2.0, &[(q, 1), (below, -1)]), dag.powi(root, -1))
        },
        bend: |dag, Point { s2, q, .. }| Bend { share: 1.0, base: dag.add(s2, q), flat: None },
    },
    Row {
        kind: LossKind::Arctan,
        name: "Arctan",
        value_and_slope: |dag, Point { s2, q, .. }| {
            let ratio = dag.div(q, s2);
            let angle = dag.call(Function::Atan, &[ratio]);
            let square = dag.powi(ratio, 2);
            let base = dag.sum(1.0, &[(1.0, square)]);
            (dag.mul(s2, angle), dag.powi(base, -1))
        },
        bend: |dag, Point { s2, q, .. }| {
            // rho'' is 0 at q = 0, where the fraction would be of infinities.
            let least = dag.scale(ARCTAN_FLAT, s2);
            let over = dag.product(1.0, &[(s2, 2), (q, -1)]);
            Bend { share: 4.0, base: dag.add(q, over), flat: Some(dag.less_eq(q, least)) }
        },
    },
    Row {
        kind: LossKind::GemanMcClure,
        name: "GemanMcClure",
        value_and_slope: |dag, Point { s2, q, .. }| {
            let base = one_and_ratio(dag, 1.0, q, s2);
            (dag.div(q, base), dag.powi(base, -2))
        },
        bend: |dag, Point { s2, q, .. }| Bend { share: 4.0, base: dag.add(s2, q), flat: None },
    },
];

/// Share of s^2 up to which Arctan counts as flat: it bends by twice the square of it there.
const ARCTAN_FLAT: f64 = 1e-8;

/// 1 +- q/s^2.
fn one_and_ratio(dag: &mut Dag, sign: f64, q: ExprId, s2: ExprId) -> ExprId {
    let ratio = dag.div(q, s2);
    dag.sum(1.0, &[(sign, ratio)])
}

/// s^2 log(1 + t) with t = q/s^2 >= 0, to the last digits also where 1 + t has few of those of t: 2 s^2 atanh(z) with z = t/(2 + t), which is
/// q 2/(2 + t) (1 + z^2/3 + z^4/5 ..), up to t = 1/8, where the next term is below 1e-17. z may lose digits; its square is beside 1.
fn cauchy(dag: &mut Dag, q: ExprId, s2: ExprId) -> ExprId {
    let ratio = dag.div(q, s2);
    let base = dag.sum(1.0, &[(1.0, ratio)]);
    let log = dag.call(Function::Log, &[base]);
    let below = dag.sum(2.0, &[(1.0, ratio)]);
    let inverse = dag.powi(below, -1);
    let z = dag.sum(1.0, &[(-2.0, inverse)]);
    let square = dag.powi(z, 2);
    let mut series = dag.constant(1.0 / 15.0);
    for odd in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        let higher = dag.mul(series, square);
        series = dag.sum(1.0 / odd, &[(1.0, higher)]);
    }
    let near = dag.product(2.0, &[(q, 1), (inverse, 1), (series, 1)]);
    let (eighth, far) = (dag.constant(0.125), dag.mul(s2, log));
    let is_near = dag.less(ratio, eighth);
    dag.select(is_near, near, far)
}

impl LossKind {
    /// Every loss with its name in energy files.
    pub fn all() -> impl Iterator<Item = (LossKind, &'static str)> {
        LOSSES.iter().map(|row| (row.kind, row.name))
    }

    pub(crate) fn row(self) -> &'static Row {
        LOSSES.iter().find(|row| row.kind == self).expect("every loss has a row")
    }
}
