//! Interval arithmetic over coordinates.
//!
//! An interval has inclusive ends; it is empty where `min > max`. Sums are taken as linear forms first, so that
//! `x + r - x` is as exact as `r`. Ends are exact for affine, min, max, div and mod by constants, and a superset
//! elsewhere (a select is the union of its arms).

use super::linear::{self, Linear, add, offset};
use super::plans::Plan;
use super::rewrite::substitute;
use super::substitute::nodes;
use crate::expr::{BinaryOp, Expr, ExprKind, Name, UnaryOp};
use crate::types::{ScalarType, Type};
use rustc_hash::FxHashMap;

/// Inclusive bounds.
#[derive(Clone, PartialEq, Debug)]
pub struct Interval {
    /// First value.
    pub min: Expr,
    /// Last value.
    pub max: Expr,
}

impl Interval {
    /// A single value.
    pub fn point(e: &Expr) -> Interval {
        Interval { min: e.clone(), max: e.clone() }
    }
    /// The smallest interval that contains both.
    pub fn union(&self, o: &Interval) -> Interval {
        Interval { min: linear::min(&self.min, &o.min), max: linear::max(&self.max, &o.max) }
    }
    /// `max - min + 1`.
    pub fn extent(&self) -> Expr {
        offset(&linear::sub(&self.max, &self.min), 1)
    }
}

/// Ends that may be unknown.
#[derive(Clone, Debug, Default)]
struct Span {
    min: Option<Expr>,
    max: Option<Expr>,
}

impl Span {
    fn new(min: Expr, max: Expr) -> Span {
        Span { min: Some(min), max: Some(max) }
    }
    fn constant_min(&self) -> Option<i64> {
        self.min.as_ref()?.as_int()
    }
    fn constant_max(&self) -> Option<i64> {
        self.max.as_ref()?.as_int()
    }
    fn map(&self, f: impl Fn(&Expr) -> Expr) -> Span {
        Span { min: self.min.as_ref().map(&f), max: self.max.as_ref().map(&f) }
    }
}

/// Intervals of expressions while some variables range; others are fixed and stand for themselves.
pub struct Intervals<'a> {
    plan: &'a Plan,
    /// Variables that have one value; replaced before anything else.
    fixed: FxHashMap<Name, Expr>,
    scope: FxHashMap<Name, Span>,
    memo: FxHashMap<usize, (Expr, Span)>,
    /// The first thing found to be unbounded.
    culprit: Option<String>,
    depth: usize,
}

impl<'a> Intervals<'a> {
    /// `scope` gives the variables: those whose interval is a point are fixed, the others range.
    pub fn new(plan: &'a Plan, scope: &FxHashMap<Name, Interval>) -> Self {
        let span = |(n, i): (&Name, &Interval)| (n.clone(), Span::new(i.min.clone(), i.max.clone()));
        let fixed =
            scope.iter().filter(|s| s.1.min == s.1.max).map(|(n, i)| (n.clone(), i.min.clone())).collect();
        let scope = scope.iter().filter(|s| s.1.min != s.1.max).map(span).collect();
        Intervals { plan, fixed, scope, memo: FxHashMap::default(), culprit: None, depth: 0 }
    }

    /// The interval of `e`, or what makes it unbounded.
    pub fn of(&mut self, e: &Expr) -> Result<Interval, String> {
        match self.span(&substitute(e, &self.fixed)) {
            Span { min: Some(min), max: Some(max) } => Ok(Interval { min, max }),
            _ => Err(self.culprit.clone().unwrap_or_else(|| "an expression that is not affine".into())),
        }
    }

    fn span(&mut self, e: &Expr) -> Span {
        if let Some((_, s)) = self.memo.get(&e.id()) {
            return s.clone();
        }
        let s = self.compute(e);
        self.memo.insert(e.id(), (e.clone(), s.clone()));
        s
    }

    fn compute(&mut self, e: &Expr) -> Span {
        if self.is_fixed(e) {
            let e = if is_index(e.ty()) { Linear::of(e).to_expr() } else { e.clone() };
            return Span::new(e.clone(), e);
        }
        if is_index(e.ty()) {
            let l = Linear::of(e);
            let single = l.constant == 0 && l.terms.len() == 1 && l.terms[0].1 == 1;
            return if single { self.atom(&l.terms[0].0.clone()) } else { self.sum(&l, e.ty()) };
        }
        self.atom(e)
    }

    /// No ranging variable, and no value of a Func: evaluating it beforehand gives the one value it has.
    fn is_fixed(&self, e: &Expr) -> bool {
        nodes([e]).iter().all(|n| match n.kind() {
            ExprKind::Var(v) => !self.scope.contains_key(v),
            ExprKind::Call { name, .. } => self.plan.pipeline.inputs.contains_key(name),
            _ => true,
        })
    }

    fn sum(&mut self, l: &Linear, ty: Type) -> Span {
        let zero = Expr::int(ty, l.constant);
        let mut s = Span::new(zero.clone(), zero);
        for (a, c) in &l.terms {
            let t = self.span(a);
            let (lo, hi) = if *c > 0 { (t.min, t.max) } else { (t.max, t.min) };
            let scaled = |e: Option<Expr>| e.map(|e| linear::mul(&e, &Expr::int(ty, *c)));
            s.min = s.min.zip(scaled(lo)).map(|(a, b)| add(&a, &b));
            s.max = s.max.zip(scaled(hi)).map(|(a, b)| add(&a, &b));
        }
        s
    }

    fn atom(&mut self, e: &Expr) -> Span {
        use BinaryOp::*;
        let ty = e.ty().scalar;
        match e.kind() {
            ExprKind::Var(v) => self.scope.get(v).cloned().unwrap_or_default(),
            ExprKind::Likely(a) => self.span(a),
            ExprKind::Cast(a) => self.cast(a, ty),
            ExprKind::Select(_, a, b) => {
                let (a, b) = (self.span(a), self.span(b));
                Span {
                    min: a.min.zip(b.min).map(|(a, b)| linear::min(&a, &b)),
                    max: a.max.zip(b.max).map(|(a, b)| linear::max(&a, &b)),
                }
            }
            ExprKind::Binary(op @ (Min | Max), a, b) => {
                let (a, b) = (self.span(a), self.span(b));
                extremum(*op, a, b)
            }
            ExprKind::Binary(Div, a, b) if is_index(e.ty()) && b.as_int().is_some_and(|d| d > 0) => {
                self.span(a).map(|x| linear::div(x, b))
            }
            ExprKind::Binary(Mod, a, b) if is_index(e.ty()) && b.as_int().is_some_and(|d| d > 0) => {
                let a = self.span(a);
                modulo(&a, b)
            }
            ExprKind::Binary(Mod, _, b) if ty.is_int() && b.as_int().is_some_and(|d| d > 0) => {
                Span::new(Expr::int(ty, 0), Expr::int(ty, b.as_int().unwrap_or(1) - 1))
            }
            ExprKind::Binary(Mul, a, b) if is_index(e.ty()) => {
                let (a, b) = (self.span(a), self.span(b));
                product(&a, &b)
            }
            ExprKind::Unary(UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc, a) => {
                let ExprKind::Unary(op, _) = e.kind() else { return Span::default() };
                self.span(a).map(|x| x.unary(*op))
            }
            ExprKind::Call { name, args, value } => self.call(name, args, *value, ty),
            _ => self.unknown(ty, || format!("a {} expression", ty.name())),
        }
    }

    /// The interval of the type, where that is a bound worth having.
    fn unknown(&mut self, ty: ScalarType, what: impl FnOnce() -> String) -> Span {
        let constant = |v: i64| Some(Expr::int(ty, v));
        match ty {
            ScalarType::Bool => Span { min: constant(0), max: constant(1) },
            ScalarType::U8 | ScalarType::U16 => Span { min: constant(0), max: constant(ty.wrap(-1)) },
            ScalarType::I8 => Span { min: constant(-128), max: constant(127) },
            ScalarType::I16 => Span { min: constant(-32768), max: constant(32767) },
            _ => {
                self.culprit.get_or_insert_with(what);
                Span::default()
            }
        }
    }

    /// Conversions are monotone as long as nothing wraps.
    fn cast(&mut self, a: &Expr, to: ScalarType) -> Span {
        let s = self.span(a);
        let from = a.ty().scalar;
        let safe = match (from, to) {
            (_, ScalarType::Bool) => false,
            (f, t) if f.is_float() => t == ScalarType::I32 || t == ScalarType::I64 || t.is_float(),
            (f, t) if f.is_int() && t.is_int() => match (s.constant_min(), s.constant_max()) {
                (Some(lo), Some(hi)) => [lo, hi].into_iter().all(|v| keeps(f, t, v)),
                // Coordinates do not overflow; all else may.
                _ => {
                    t.bytes() > f.bytes() && (t.is_signed() || !f.is_signed())
                        || (f, t) == (ScalarType::I64, ScalarType::I32)
                }
            },
            (_, ScalarType::I32 | ScalarType::I64) => true,
            (f, t) => t.is_float() || (t.bytes() > f.bytes() && !f.is_signed()),
        };
        if !safe {
            if s.min.is_some() && s.max.is_some() {
                // What was unbounded further in is bounded here.
                self.culprit = None;
            }
            return self.unknown(to, || format!("a conversion from {} to {}", from.name(), to.name()));
        }
        s.map(|e| match e.as_int() {
            Some(v) if !to.is_float() => Expr::int(to, v),
            _ => e.cast(to),
        })
    }

    fn call(&mut self, name: &Name, args: &[Expr], value: usize, ty: ScalarType) -> Span {
        if let Some(i) = self.plan.pipeline.inputs.get(name) {
            return match &i.value_range {
                Some((lo, hi)) => Span::new(lo.cast(ty), hi.cast(ty)),
                None => self
                    .unknown(ty, || format!("the value of input {name} (clamp it, or give its value range)")),
            };
        }
        let f = &self.plan.funcs[name];
        if f.stages.len() > 1 || self.depth > 32 {
            return self.unknown(ty, || format!("the value of {name} (clamp it)"));
        }
        // A pure definition: its value over the interval of the arguments.
        let scope = f.func.vars.iter().map(|v| v.0.clone()).zip(args.iter().map(|a| self.span(a))).collect();
        let (plan, depth) = (self.plan, self.depth + 1);
        let (fixed, memo) = (FxHashMap::default(), FxHashMap::default());
        let mut inner = Intervals { plan, fixed, scope, memo, culprit: None, depth };
        let s = inner.span(&f.func.values[value]);
        self.culprit = self.culprit.take().or(inner.culprit);
        s
    }
}

/// Is `v`, a value of type `from`, the same number in type `to`?
fn keeps(from: ScalarType, to: ScalarType, v: i64) -> bool {
    let negative = v < 0 && from != ScalarType::U64;
    let beyond = v < 0 && from == ScalarType::U64;
    match to {
        ScalarType::U64 => !negative,
        to => !beyond && to.wrap(v) == v,
    }
}

fn is_index(t: Type) -> bool {
    matches!(t.scalar, ScalarType::I32 | ScalarType::I64)
}

/// `min` is bounded above by either operand, `max` below.
fn extremum(op: BinaryOp, a: Span, b: Span) -> Span {
    let f: fn(&Expr, &Expr) -> Expr = if op == BinaryOp::Min { linear::min } else { linear::max };
    let both = |x: Option<Expr>, y: Option<Expr>| x.zip(y).map(|(x, y)| f(&x, &y));
    let either = |x: Option<Expr>, y: Option<Expr>| match (x, y) {
        (Some(x), Some(y)) => Some(f(&x, &y)),
        (x, y) => x.or(y),
    };
    match op {
        BinaryOp::Min => Span { min: both(a.min, b.min), max: either(a.max, b.max) },
        _ => Span { min: either(a.min, b.min), max: both(a.max, b.max) },
    }
}

/// Exact: within one period `[min mod d, max mod d]`, else `[0, d - 1]`.
fn modulo(a: &Span, d: &Expr) -> Span {
    let zero = Expr::int(d.ty(), 0);
    let last = offset(d, -1);
    let Span { min: Some(lo), max: Some(hi) } = a else { return Span::new(zero, last) };
    let (qlo, qhi) = (linear::div(lo, d), linear::div(hi, d));
    match Linear::of(&linear::sub(&qhi, &qlo)).as_constant() {
        Some(0) => Span::new(tidy_mod(lo, d), tidy_mod(hi, d)),
        Some(_) => Span::new(zero, last),
        None => {
            let one_period = qlo.eq_(&qhi);
            Span::new(
                Expr::select(&one_period, tidy_mod(lo, d), zero),
                Expr::select(&one_period, tidy_mod(hi, d), last),
            )
        }
    }
}

fn tidy_mod(e: &Expr, d: &Expr) -> Expr {
    match (e.as_int(), d.as_int()) {
        (Some(a), Some(b)) => Expr::int(e.ty(), a.rem_euclid(b)),
        _ => e.modulo(d),
    }
}

/// Extremes lie at the corners.
fn product(a: &Span, b: &Span) -> Span {
    let (Some(a0), Some(a1), Some(b0), Some(b1)) = (&a.min, &a.max, &b.min, &b.max) else {
        return Span::default();
    };
    let corners = [linear::mul(a0, b0), linear::mul(a0, b1), linear::mul(a1, b0), linear::mul(a1, b1)];
    let fold = |f: fn(&Expr, &Expr) -> Expr| corners[1..].iter().fold(corners[0].clone(), |x, y| f(&x, y));
    Span::new(fold(linear::min), fold(linear::max))
}
