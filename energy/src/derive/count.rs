//! Operation counts: the noise-free measure of what simplification gains.

use crate::dag::{Dag, ExprId, Function, Node};
use std::fmt;

/// Operations of one evaluation of some roots, shared nodes counted once.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OpCount {
    /// Additions and subtractions.
    pub add: u32,
    /// Multiplications, those of integer powers included.
    pub mul: u32,
    /// Divisions.
    pub div: u32,
    /// Square roots and other functions, `abs` excepted.
    pub transcendental: u32,
    /// Selections of numbers.
    pub select: u32,
    /// Comparisons, box tests and logic.
    pub compare: u32,
    /// Distinct scalar reads.
    pub loads: u32,
}

impl OpCount {
    /// One number to minimise: a division as 8 and a function as 20 simple operations.
    pub fn weight(&self) -> u32 {
        self.add + self.mul + 8 * self.div + 20 * self.transcendental + self.select + self.compare
    }
}

impl fmt::Display for OpCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpCount { add, mul, div, transcendental, select, compare, loads } = self;
        write!(
            f,
            "{add} add, {mul} mul, {div} div, {transcendental} functions, {select} select, {compare} compare, {loads} loads"
        )
    }
}

/// Counts the operations that the roots need together.
pub fn count_ops(dag: &Dag, roots: &[ExprId]) -> OpCount {
    let mut n = OpCount::default();
    for id in dag.reachable(roots) {
        match dag.node(id) {
            Node::Const(_) | Node::Param(..) | Node::Index(_) | Node::IndexAt(..) => {}
            Node::Access(_) => n.loads += 1,
            Node::Sum { constant, terms } => {
                let summands = terms.len() + usize::from(constant.get() != 0.0);
                n.mul += terms.iter().filter(|(c, _)| c.get().abs() != 1.0).count() as u32;
                n.add += (summands - 1) as u32;
                // Subtraction is free unless nothing is added.
                n.add += u32::from(summands == 1 && terms[0].0.get() == -1.0);
            }
            Node::Prod(factors) => count_product(factors, &mut n),
            Node::Call(Function::Abs, _) => n.add += 1,
            Node::Call(..) => n.transcendental += 1,
            // Per corner a load and a weighted sum; floor and weights per dim.
            Node::Sample { at, .. } => {
                let corners = 1 << at.len();
                n.loads += corners;
                n.mul += corners;
                n.add += corners - 1 + 2 * at.len() as u32;
            }
            Node::Select(..) => n.select += 1,
            Node::And(ops) | Node::Or(ops) => n.compare += ops.len() as u32 - 1,
            Node::InBounds { .. } | Node::Free(..) | Node::SameVertex(..) | Node::InBoundsAt { .. } => {
                n.compare += 1
            }
            Node::Compare(..) => n.compare += 1,
            Node::NonZero(_) | Node::Not(_) => n.compare += 1,
        }
    }
    n
}

fn count_product(factors: &[(ExprId, i32)], n: &mut OpCount) {
    let mut parts = [0u32; 2];
    for &(_, e) in factors {
        let e_abs = e.unsigned_abs();
        n.mul += e_abs.ilog2() + e_abs.count_ones() - 1;
        parts[usize::from(e < 0)] += 1;
    }
    n.mul += parts[0].saturating_sub(1) + parts[1].saturating_sub(1);
    n.div += u32::from(parts[1] > 0);
}
