//! Bounds on how far two evaluations of sums and products of floats in any order may differ.
//!
//! Let M(e) be the value of `e` with every term replaced by its magnitude: M(a - b) = M(a) + M(b), M(a * b) = M(a) M(b).
//! However the operations of `e` are reordered, distributed or contracted, the result differs from the exact one by at most
//! g M(e) with g = r / (1 - r), r being the sum of the roundings of all operations, each half the spacing at 1 (Higham
//! 2002, section 3.4). Minima, maxima and choices by exact conditions keep such a bound; nothing is known of a minimum or maximum with NaN.
//!
//! Let P(e), the peak, be M(e) with every term at least 1, so that it is above every product of some of the terms of `e`. An order in which one
//! of these overflows or underflows may differ by more: nothing is known beyond a peak, and below it there is an error of its share of the
//! least float.

use crate::random::program::{Case, MOST_POINTS};
use crate::random::reads;
use crate::reference::{Value, evaluate_over};
use std::collections::HashMap;
use sumsq_codegen::func::Update;
use sumsq_codegen::{BinaryOp, Directive, Error, Expr, ExprKind, Func, Name, Pipeline, ScalarType, UnaryOp};

/// The greatest error per output, tuple element and point; infinite where nothing is known.
pub type Bounds = Vec<Vec<Vec<f64>>>;

/// Beyond it a float may overflow in one order and not in another.
const GREAT: f64 = 1e30;
/// Sums of roundings beyond it bound nothing.
const MOST_ROUNDING: f64 = 0.1;
/// The size of what underflows on the way, in f32.
const TINY: f64 = 1e-36;

/// The bounds of a case's outputs under its schedule: 0 for all but its free sums, unless the code is relaxed.
pub fn bounds(case: &Case) -> Result<Bounds, Error> {
    let relaxed = case.schedule.stages.values().flatten().any(|d| *d == Directive::Relaxed);
    // What a shrunk program may have become.
    let unknown = relaxed && !is_bounded(&case.pipeline);
    let magnitudes = if relaxed { Analysis::of(&case.pipeline).unwrap_or_default() } else { free_sums(case) };
    let rounding = |(name, m): (&Name, &Magnitude)| (name.clone(), m.rounding);
    let roundings: HashMap<Name, f64> = magnitudes.0.iter().map(rounding).collect();
    let mut p = case.pipeline.clone();
    let mut domains = case.domains.clone();
    // Behind the outputs, whose sizes definitions may name.
    for (o, domain) in case.pipeline.outputs.iter().zip(&case.domains) {
        if let Some(m) = magnitudes.0.get(&o.func) {
            p.output(&m.func);
            domains.push(domain.clone());
        }
    }
    p.funcs.extend(magnitudes.0.into_values().map(|m| (m.func.name.clone(), m.func)));
    let mut made = evaluate_over(&p, &case.bindings, &domains)?.into_iter().skip(case.domains.len());
    let mut out = vec![];
    for (o, domain) in case.pipeline.outputs.iter().zip(&case.domains) {
        let values = case.pipeline.funcs[&o.func].values.len();
        out.push(match roundings.get(&o.func).map(|r| (r, made.next())) {
            Some((r, Some(m))) => {
                let (magnitudes, peaks) = m.planes.split_at(values);
                // A sum has no product.
                let peaks = if peaks.is_empty() { magnitudes } else { peaks };
                let plane = |(m, p): (&Vec<Value>, &Vec<Value>)| {
                    m.iter().zip(p).map(|(m, p)| bound(*r, m.as_f64(), p.as_f64())).collect()
                };
                magnitudes.iter().zip(peaks).map(plane).collect()
            }
            _ => {
                let points = domain.iter().map(|d| d.1).product();
                let all = vec![if unknown { f64::INFINITY } else { 0.0 }; points];
                vec![all; values]
            }
        });
    }
    Ok(out)
}

/// Returns how far two values of that magnitude, peak and rounding may be apart.
fn bound(rounding: f64, magnitude: f64, peak: f64) -> f64 {
    let known = magnitude < GREAT && peak < GREAT && rounding < MOST_ROUNDING;
    if known { 2.0 * rounding / (1.0 - rounding) * magnitude + TINY * peak.max(1.0) } else { f64::INFINITY }
}

/// Are all outputs of `p` exact or bounded, whatever the order?
pub fn is_bounded(p: &Pipeline) -> bool {
    Analysis::of(p).is_some()
}

/// Sums whose terms everybody computes in the same way.
fn free_sums(case: &Case) -> Analysis {
    let sum = |(name, (func, terms)): (&Name, &(Func, usize))| {
        let rounding = *terms as f64 * unit(case.pipeline.funcs[name].types()[0])?;
        Some((name.clone(), Magnitude { func: func.clone(), rounding }))
    };
    Analysis(case.free_sums.iter().filter_map(sum).collect())
}

/// Half the spacing at 1 of the floats that may be reordered.
fn unit(ty: ScalarType) -> Option<f64> {
    match ty {
        ScalarType::F32 => Some(f32::EPSILON as f64 / 2.0),
        ScalarType::F64 => Some(f64::EPSILON / 2.0),
        _ => None,
    }
}

/// The magnitude of a Func that is not exact.
struct Magnitude {
    /// M of its values and then P of them, in f64; of a free sum M alone.
    func: Func,
    /// The sum of the roundings behind each of them, at most.
    rounding: f64,
}

/// The Funcs that are not exact.
#[derive(Default)]
struct Analysis(HashMap<Name, Magnitude>);

/// Knowledge of an expression.
struct Term {
    magnitude: Expr,
    peak: Expr,
    rounding: f64,
}

impl Term {
    /// A term of that magnitude.
    fn exact(magnitude: Expr) -> Term {
        Term { peak: magnitude.max(1.0), magnitude, rounding: 0.0 }
    }
}

/// The Func whose magnitude is made, and what is known of the values it has so far.
struct Own<'a> {
    func: &'a Func,
    name: Name,
    rounding: f64,
}

impl Analysis {
    /// Of all Funcs of `p`, producers first; none if one of them has no bound.
    fn of(p: &Pipeline) -> Option<Analysis> {
        let mut a = Analysis::default();
        for f in p.funcs.values() {
            let updates =
                f.updates.iter().flat_map(|u| u.values.iter().chain(&u.args).chain(&u.rdom.predicate));
            if !f.values.iter().chain(updates).all(|e| a.is_exact(e, &f.name)) {
                let m = a.func(f)?;
                a.0.insert(f.name.clone(), m);
            }
        }
        Some(a)
    }

    /// Does every order of operations give the same value, what is read of `own` being exact?
    fn is_exact(&self, e: &Expr, own: &Name) -> bool {
        let float = e.ty().scalar.is_float();
        let here = match e.operation() {
            // Relaxed, either operand where one is NaN, and either zero.
            ExprKind::Binary(BinaryOp::Min | BinaryOp::Max, a, b) => !float || is_number(a) || is_number(b),
            ExprKind::Binary(..) => !float,
            ExprKind::Unary(op, _) => !float || matches!(op, UnaryOp::Neg | UnaryOp::Abs),
            ExprKind::Fma(..) => false,
            ExprKind::Call { name, .. } => name == own || !self.0.contains_key(name),
            _ => true,
        };
        let mut all = here;
        e.for_each_child(|c| all = all && self.is_exact(c, own));
        all
    }

    fn func(&self, f: &Func) -> Option<Magnitude> {
        let mut own = Own { func: f, name: format!("{}_magnitude", f.name).into(), rounding: 0.0 };
        let (values, mut rounding) = self.tuple(&f.values, &own)?;
        let mut func = Func::new(own.name.clone(), &f.vars, values);
        for u in &f.updates {
            let mut exact = u.args.iter().chain(&u.rdom.predicate);
            if !exact.all(|e| !reads(e, &f.name) && self.is_exact(e, &f.name)) {
                return None;
            }
            // Of r before a step, a step makes at most c + m r after it: a convex function of r, below its chord.
            own.rounding = 0.0;
            let (values, c) = self.tuple(&u.values, &own)?;
            own.rounding = MOST_ROUNDING;
            let m = (self.tuple(&u.values, &own)?.1 - c) / MOST_ROUNDING;
            own.rounding = (0..steps(u)).fold(rounding, |r, _| r.max(c + m * r));
            rounding = own.rounding;
            func = func.update(u.args.clone(), values, u.rdom.clone());
        }
        Some(Magnitude { func, rounding })
    }

    /// The magnitudes of a tuple and then the peaks, and the greatest rounding.
    fn tuple(&self, values: &[Expr], own: &Own) -> Option<(Vec<Expr>, f64)> {
        let terms: Vec<Term> = values.iter().map(|v| self.term(v, own)).collect::<Option<_>>()?;
        let rounding = terms.iter().map(|t| t.rounding).fold(0.0, f64::max);
        let (magnitudes, peaks): (Vec<Expr>, Vec<Expr>) =
            terms.into_iter().map(|t| (t.magnitude, t.peak)).unzip();
        Some(([magnitudes, peaks].concat(), rounding))
    }

    fn term(&self, e: &Expr, own: &Own) -> Option<Term> {
        if !reads(e, &own.func.name) && self.is_exact(e, &own.func.name) {
            return Some(Term::exact(e.cast(ScalarType::F64).abs()));
        }
        let rounding = unit(e.ty().scalar)?;
        let of = |a: &Expr| self.term(a, own);
        // The same of magnitudes and of peaks.
        let with = |of: &dyn Fn(&[&Expr]) -> Expr, terms: &[&Term], rounding: f64| {
            let magnitudes: Vec<&Expr> = terms.iter().map(|t| &t.magnitude).collect();
            let peaks: Vec<&Expr> = terms.iter().map(|t| &t.peak).collect();
            let all = terms.iter().map(|t| t.rounding).sum::<f64>();
            Some(Term { magnitude: of(&magnitudes), peak: of(&peaks), rounding: all + rounding })
        };
        match e.operation() {
            ExprKind::Cast(a) => with(&|x| x[0].clone(), &[&of(a)?], rounding),
            ExprKind::Unary(UnaryOp::Neg | UnaryOp::Abs, a) => of(a),
            ExprKind::Binary(op, a, b) => {
                let (a, b) = match op {
                    // An exact divisor.
                    BinaryOp::Div if !reads(b, &own.func.name) && self.is_exact(b, &own.func.name) => (
                        of(a)?,
                        Term::exact(Expr::constant(ScalarType::F64, 1.0) / b.cast(ScalarType::F64).abs()),
                    ),
                    _ => (of(a)?, of(b)?),
                };
                let greatest = |x: &[&Expr]| {
                    let any = Expr::constant(ScalarType::F64, f64::INFINITY);
                    let nan = x[0].unary(UnaryOp::IsNan).or(x[1].unary(UnaryOp::IsNan));
                    Expr::select(nan, any, x[0].max(x[1]))
                };
                match op {
                    BinaryOp::Add | BinaryOp::Sub => with(&|x| x[0] + x[1], &[&a, &b], rounding),
                    BinaryOp::Mul => with(&|x| x[0] * x[1], &[&a, &b], rounding),
                    BinaryOp::Div if b.rounding == 0.0 => with(&|x| x[0] * x[1], &[&a, &b], 2.0 * rounding),
                    BinaryOp::Min | BinaryOp::Max => with(&greatest, &[&a, &b], 0.0),
                    _ => None,
                }
            }
            ExprKind::Fma(a, b, c) => {
                let (a, b, c) = (of(a)?, of(b)?, of(c)?);
                with(&|x| x[0] * x[1] + x[2], &[&a, &b, &c], 2.0 * rounding)
            }
            ExprKind::Select(cond, a, b)
                if !reads(cond, &own.func.name) && self.is_exact(cond, &own.func.name) =>
            {
                let (a, b) = (of(a)?, of(b)?);
                with(&|x| Expr::select(cond, x[0], x[1]), &[&a, &b], 0.0)
            }
            ExprKind::Call { name, args, value } if args.iter().all(|a| self.is_exact(a, &own.func.name)) => {
                let (into, values, rounding) = match self.0.get(name) {
                    Some(m) => (&m.func.name, m.func.values.len() / 2, m.rounding),
                    None if *name == own.func.name => (&own.name, own.func.values.len(), own.rounding),
                    None => return None,
                };
                let part = |k: usize| Expr::call(into.clone(), ScalarType::F64, args.clone(), k);
                Some(Term { magnitude: part(*value), peak: part(values + value), rounding })
            }
            _ => None,
        }
    }
}

/// Is it no NaN, whatever the program is run on, and no zero?
fn is_number(e: &Expr) -> bool {
    e.as_float().is_some_and(|v| v.abs() > 0.0)
}

/// Points of an update's domain, at most: how often it may change one element.
fn steps(u: &Update) -> usize {
    let known = u.rdom.vars.iter().filter_map(|r| r.extent.as_int());
    // The extents of an input are together those of its points.
    let all = if known.clone().count() == u.rdom.vars.len() { 1 } else { MOST_POINTS };
    known.map(|n| n.max(0) as usize).product::<usize>() * all
}
