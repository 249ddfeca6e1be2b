//! The rules that end PCG.

use crate::matrix_free::params::Number;
use crate::problem::report::LinearStop;
use sumsq_codegen::{Expr, ScalarType};

/// The scalars behind an iteration, float64.
pub struct Progress {
    /// p.q.
    pub pq: Expr,
    /// 1 if p.q is positive and finite, else 0.
    pub positive: Expr,
    /// r.z.
    pub rz: Expr,
    /// r0.z0.
    pub first_rz: Expr,
    /// |r|^2.
    pub rr: Expr,
    /// |b|^2.
    pub bb: Expr,
    /// Q = d.(b + r)/2, the decrease of the quadratic model so far.
    pub q: Expr,
    /// The growth of Q by the iteration.
    pub gain: Expr,
    /// Iterations done, this one too.
    pub count: Expr,
}

/// A rule that ends PCG.
pub struct Rule {
    /// True if it does.
    pub holds: Expr,
    /// The code of the reason, float64.
    pub code: Expr,
}

impl Rule {
    /// Ends PCG for one reason.
    pub fn new(holds: Expr, stop: LinearStop) -> Rule {
        Rule { holds, code: number(stop.code()) }
    }
}

/// A breakdown; |r| <= tau |b|, or nothing left; a model that stalls, `k gain <= zeta Q` after two iterations; the limit.
pub fn rules(of: &Progress) -> Vec<Rule> {
    let Progress { q, gain, count, .. } = of;
    let enough = (count * gain).le(option(Number::Zeta) * q.clone()).and(count.ge(number(2.0)));
    rules_with(of, Rule::new(enough, LinearStop::Model))
}

/// As [`rules`], with sqrt(r.z) <= eta sqrt(r0.z0) after two iterations in place of the model.
pub fn rules_by_norm(of: &Progress) -> Vec<Rule> {
    let Progress { rz, first_rz, count, .. } = of;
    let small = rz.le(option(Number::Eta) * first_rz.clone()).and(count.ge(number(2.0)));
    rules_with(of, Rule::new(small, LinearStop::PreconditionedNorm))
}

/// The rules that all kinds have in common, and one that says what is enough.
fn rules_with(of: &Progress, enough: Rule) -> Vec<Rule> {
    let Progress { pq, positive, rz, rr, bb, count, .. } = of;
    let code = |stop: LinearStop| number(stop.code());
    let breakdown = Rule {
        holds: positive.eq_(number(0.0)),
        code: Expr::select(is_finite(pq), code(LinearStop::Indefinite), code(LinearStop::NotFinite)),
    };
    vec![
        breakdown,
        Rule::new(is_finite(rz).and(is_finite(rr)).not_(), LinearStop::NotFinite),
        Rule::new(rr.le(option(Number::Tolerance) * bb.clone()), LinearStop::Tolerance),
        Rule::new(rr.eq_(number(0.0)).or(rz.eq_(number(0.0))), LinearStop::Tolerance),
        enough,
        Rule::new(count.ge(option(Number::Limit)), LinearStop::Limit),
    ]
}

/// A number that an option sets.
fn option(n: Number) -> Expr {
    n.expr(ScalarType::F64)
}

/// The code of the first rule that holds, 0 if none does.
pub fn code(rules: Vec<Rule>) -> Expr {
    rules.into_iter().rev().fold(number(0.0), |code, rule| Expr::select(rule.holds, rule.code, code))
}

/// A constant.
pub fn number(v: f64) -> Expr {
    Expr::float(ScalarType::F64, v)
}

/// Tells whether a number is finite.
pub fn is_finite(e: &Expr) -> Expr {
    e.abs().lt(number(f64::INFINITY))
}
