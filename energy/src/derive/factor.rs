//! Factoring of sums: the greedy multivariate Horner scheme (DeVito et al., "Opt", 2017, section 6; Ceberio and
//! Kreinovich, "Greedy algorithms for optimizing multivariate Horner schemes", 2004).
//!
//! The factor that most terms share is pulled out of them, again and again, in the inner sum and in the rest. A common
//! magnitude of coefficients counts as a factor. Guard rule: a factor leaves the branch of `Select(c, a, 0)` only if it is
//! finite by construction (made of constants, parameters and coordinates without division).

use crate::dag::{Dag, ExprId, Node};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Sums longer than this are left alone: the greedy choice is quadratic.
const LONGEST: usize = 4096;
/// Depth to which inner sums are factored again.
const DEEPEST: u32 = 40;
/// Steps that the look at a term counts for.
const STEPS: usize = 16;
/// Worth of a saved division in multiplications.
const DIVISION: usize = 8;

/// The factored form of a sum; other nodes are returned as they are.
pub(super) fn factor(dag: &mut Dag, id: ExprId) -> ExprId {
    let Node::Sum { constant, terms } = dag.node(id) else { return id };
    if terms.len() < 2 || terms.len() > LONGEST {
        return id;
    }
    let constant = constant.get();
    let terms: Vec<(f64, ExprId)> = terms.iter().map(|&(c, t)| (c.get(), t)).collect();
    horner(dag, constant, terms, 0)
}

/// Factors that can be pulled out of several terms.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Common {
    /// A factor with a positive (true) or negative exponent.
    Factor(ExprId, bool),
    /// A magnitude of coefficients, by its bits.
    Coefficient(u64),
}

fn horner(dag: &mut Dag, constant: f64, mut terms: Vec<(f64, ExprId)>, depth: u32) -> ExprId {
    let mut finite = FxHashMap::default();
    while depth < DEEPEST && terms.len() > 1 && !dag.is_spent() {
        dag.spend(STEPS * terms.len());
        let Some(common) = most_common(dag, &terms, &mut finite) else { break };
        let (inner, mut rest): (Vec<_>, Vec<_>) =
            terms.iter().copied().partition(|&t| holds(dag, t, common, &mut finite));
        match common {
            Common::Coefficient(bits) => {
                let magnitude = f64::from_bits(bits);
                let inner = inner.iter().map(|&(c, t)| (c.signum(), t)).collect();
                rest.push((magnitude, horner(dag, 0.0, inner, depth + 1)));
            }
            Common::Factor(f, positive) => {
                let exponents = inner.iter().map(|&(_, t)| exponent(dag, t, f).unsigned_abs());
                let shared = exponents.min().unwrap_or(1).min(i32::MAX as u32) as i32;
                let power = if positive { shared } else { -shared };
                let inner: Vec<_> = inner.iter().map(|&(c, t)| divide(dag, c, t, f, power)).collect();
                // Constants may appear (f + f*x = f*(1 + x)), and like terms.
                let collected = dag.sum(0.0, &inner);
                let inner = match dag.node(collected) {
                    Node::Sum { constant, terms } => {
                        let (k, terms) = (constant.get(), terms.iter().map(|&(c, t)| (c.get(), t)).collect());
                        horner(dag, k, terms, depth + 1)
                    }
                    _ => collected,
                };
                let product = dag.product(1.0, &[(f, power), (inner, 1)]);
                match dag.node(product) {
                    Node::Sum { constant, terms } if constant.get() == 0.0 && terms.len() == 1 => {
                        rest.push((terms[0].0.get(), terms[0].1));
                    }
                    _ => rest.push((1.0, product)),
                }
            }
        }
        terms = rest;
    }
    dag.sum_unexpanded(constant, &terms)
}

/// The choice that saves most, if any saves something; ties go to the first in order of construction.
fn most_common(dag: &Dag, terms: &[(f64, ExprId)], finite: &mut FxHashMap<ExprId, bool>) -> Option<Common> {
    let mut counts: BTreeMap<Common, usize> = BTreeMap::new();
    for &(c, t) in terms {
        for (f, e) in factors_of(dag, t, finite) {
            *counts.entry(Common::Factor(f, e > 0)).or_default() += 1;
        }
        if c.abs() != 1.0 && c.is_finite() {
            *counts.entry(Common::Coefficient(c.abs().to_bits())).or_default() += 1;
        }
    }
    let gain = |common: &Common, n: usize| {
        (n - 1) * if matches!(common, Common::Factor(_, false)) { DIVISION } else { 1 }
    };
    let mut best: Option<(usize, Common)> = None;
    for (common, &n) in &counts {
        let g = gain(common, n);
        if g > best.map_or(0, |b| b.0) {
            best = Some((g, *common));
        }
    }
    best.map(|b| b.1)
}

fn holds(dag: &Dag, (c, t): (f64, ExprId), common: Common, finite: &mut FxHashMap<ExprId, bool>) -> bool {
    match common {
        Common::Coefficient(bits) => c.abs().to_bits() == bits,
        Common::Factor(f, positive) => {
            factors_of(dag, t, finite).iter().any(|&(g, e)| g == f && (e > 0) == positive)
        }
    }
}

/// The factors that may be pulled out of a term: all of a product's, and the finite ones of a guarded product.
fn factors_of(dag: &Dag, t: ExprId, finite: &mut FxHashMap<ExprId, bool>) -> Vec<(ExprId, i32)> {
    match dag.as_guarded(t) {
        Some((_, a)) => {
            let mut factors = product_factors(dag, a);
            factors.retain(|&(f, e)| e > 0 && is_finite(dag, f, finite));
            factors
        }
        None => product_factors(dag, t),
    }
}

/// `(factor, exponent)` of a product, through a numeric coefficient.
fn product_factors(dag: &Dag, t: ExprId) -> Vec<(ExprId, i32)> {
    match dag.node(t) {
        Node::Prod(factors) => factors.to_vec(),
        Node::Sum { constant, terms } if constant.get() == 0.0 && terms.len() == 1 => {
            match dag.node(terms[0].1) {
                Node::Prod(factors) => factors.to_vec(),
                _ => vec![(terms[0].1, 1)],
            }
        }
        Node::Const(_) => Vec::new(),
        _ => vec![(t, 1)],
    }
}

/// The exponent of `f` in a term, inside its guard if it has one.
fn exponent(dag: &Dag, t: ExprId, f: ExprId) -> i32 {
    let inner = dag.as_guarded(t).map_or(t, |(_, a)| a);
    let own = |factors: Vec<(ExprId, i32)>| factors.iter().find(|g| g.0 == f).map(|g| g.1);
    own(product_factors(dag, inner)).unwrap_or(1)
}

/// `c * t / f^power` as a term.
fn divide(dag: &mut Dag, c: f64, t: ExprId, f: ExprId, power: i32) -> (f64, ExprId) {
    let quotient = match dag.as_guarded(t) {
        // Inside the guard: outside, f^-1 would join the guarded product with the same result.
        Some((cond, a)) => {
            let a = dag.product(1.0, &[(a, 1), (f, -power)]);
            let zero = dag.constant(0.0);
            dag.select(cond, a, zero)
        }
        None => dag.product(1.0, &[(t, 1), (f, -power)]),
    };
    (c, quotient)
}

/// Tells whether an expression is finite whatever it reads: constants, parameters and coordinates, their sums, products and
/// bounded functions.
fn is_finite(dag: &Dag, id: ExprId, memo: &mut FxHashMap<ExprId, bool>) -> bool {
    for n in dag.reachable_while(&[id], |n| !memo.contains_key(&n)) {
        let operands = dag.children(n).iter().all(|c| memo[c]);
        let finite = match dag.node(n) {
            Node::Const(c) => c.get().is_finite(),
            Node::Param(..) | Node::Index(_) | Node::IndexAt(..) => true,
            Node::Access(_) => false,
            Node::Sum { constant, terms } => {
                operands && constant.get().is_finite() && terms.iter().all(|(c, _)| c.get().is_finite())
            }
            Node::Prod(factors) => operands && factors.iter().all(|f| f.1 > 0),
            Node::Call(f, _) => operands && f.is_finite(),
            Node::Select(_, a, b) => memo[a] && memo[b],
            _ => true,
        };
        memo.insert(n, finite);
    }
    memo[&id]
}
