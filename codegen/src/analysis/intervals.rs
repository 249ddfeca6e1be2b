//! Intervals of coordinates, seen through the definitions of Funcs.
//!
//! Sums are brought to normal form first, so that `x + r - x` is as exact as `r`. Ends are exact for affine, abs, min, max, and
//! div and mod by what has one value, shifts and low-bit masks by constants, and a superset elsewhere, as where floats are added and
//! multiplied (a select is the union of its arms).

use crate::analysis::algebra::build;
use crate::analysis::algebra::build::{div, mul, normal};
use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::interval::{Interval, Span};
use crate::analysis::algebra::poly::{Poly, is_index};
use crate::analysis::algebra::rebuild::rebuild;
use crate::analysis::float_ends::{arithmetic, converted};
use crate::expr::walk::{Memo, nodes, postorder, rewrite, substitute};
use crate::expr::{BinaryOp, Expr, ExprKind, Name, Param, UnaryOp};
use crate::func::{Func, Input};
use crate::types::{ScalarType, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::Cell;
use std::rc::Rc;

/// Meaning of calls in coordinates.
pub(crate) trait Definitions {
    /// The input of this name.
    fn input(&self, name: &Name) -> Option<&Input>;
    /// The Func of this name, which is no input.
    fn func(&self, name: &Name) -> &Func;
    /// Inclusive bounds that a parameter is promised to keep.
    fn param_range(&self, name: &Name) -> Option<(i64, i64)>;
}

/// Intervals of expressions while some variables range; others are fixed and stand for themselves.
pub(crate) struct Intervals<'a> {
    definitions: &'a dyn Definitions,
    /// Variables that have one value; replaced before anything else.
    fixed: FxHashMap<Name, Expr>,
    scope: FxHashMap<Name, Span>,
    memo: FxHashMap<usize, (Expr, Span)>,
    polys: Polys,
    /// Forms of ends, in which products are multiplied out.
    ends: Polys,
    /// The first thing found to be unbounded.
    culprit: Option<String>,
    depth: usize,
    /// Is this the value of a Func of floats? Arithmetic on it is data: its ends would be larger than what they are worth.
    is_data: bool,
    /// Values of Funcs that may still be looked at, here and further in: stencils of stencils have too many.
    left: Rc<Cell<usize>>,
}

/// Values of Funcs that are looked at in a set of coordinates.
const MOST_CALLS: usize = 4096;

/// Nodes of definitions that take the places of values.
const SHORT: usize = 64;

/// `e` with short definitions in the places of the values of Funcs that have no updates, and of those that these read: bounds see what a coordinate has in
/// common with data that was computed from it.
pub(crate) fn unfolded(definitions: &dyn Definitions, e: &Expr) -> Expr {
    let once = |e: &Expr| {
        rewrite(e, &mut Memo::default(), &mut |_, n| {
            let ExprKind::Call { name, args, value } = n.kind() else { return n };
            if definitions.input(name).is_some() {
                return n;
            }
            let f = definitions.func(name);
            if !f.updates.is_empty() || nodes([&f.values[*value]]).len() > SHORT {
                return n;
            }
            let by = f.vars.iter().map(|v| v.name().clone()).zip(args.iter().cloned());
            substitute(&f.values[*value], &by.collect())
        })
    };
    once(&once(e))
}

impl<'a> Intervals<'a> {
    /// `scope` gives the variables: those whose interval is a point are fixed, the others range.
    pub(crate) fn new(definitions: &'a dyn Definitions, scope: &FxHashMap<Name, Interval>) -> Self {
        let span = |(n, i): (&Name, &Interval)| (n.clone(), Span::new(i.min.clone(), i.max.clone()));
        let fixed =
            scope.iter().filter(|s| s.1.min == s.1.max).map(|(n, i)| (n.clone(), i.min.clone())).collect();
        let scope = scope.iter().filter(|s| s.1.min != s.1.max).map(span).collect();
        Intervals { fixed, ..Intervals::of_spans(definitions, scope, Rc::new(Cell::new(MOST_CALLS))) }
    }

    fn of_spans(
        definitions: &'a dyn Definitions,
        scope: FxHashMap<Name, Span>,
        left: Rc<Cell<usize>>,
    ) -> Self {
        let (fixed, memo) = (FxHashMap::default(), FxHashMap::default());
        let (polys, ends) = (Polys::affine(), Polys::default());
        let culprit = None;
        Intervals { definitions, fixed, scope, memo, polys, ends, culprit, depth: 0, is_data: false, left }
    }

    /// The interval of `e`, or what makes it unbounded.
    pub(crate) fn of(&mut self, e: &Expr) -> Result<Interval, String> {
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
            return Span::new(normal(e), normal(e));
        }
        if !is_index(e.ty()) {
            return self.atom(e);
        }
        let p = self.polys.of(e);
        self.sum(&p, e.ty())
    }

    /// Of a sum, whose terms have one factor each.
    fn sum(&mut self, p: &Poly, ty: Type) -> Span {
        let mut ends = [Some(Poly::constant(p.constant)), Some(Poly::constant(p.constant))];
        for (m, c) in &p.terms {
            let t = self.term(&m[0]);
            let (lo, hi) = if *c > 0 { (t.min, t.max) } else { (t.max, t.min) };
            for (sum, e) in ends.iter_mut().zip([lo, hi]) {
                *sum = sum.take().zip(e).and_then(|(s, e)| s.plus(&self.ends.of(&e), *c));
            }
        }
        let [min, max] = ends.map(|p| p.map(|p| rebuild(&p, ty)));
        Span { min, max }
    }

    fn term(&mut self, atom: &Expr) -> Span {
        if let Some((_, s)) = self.memo.get(&atom.id()) {
            return s.clone();
        }
        let s = match self.is_fixed(atom) {
            true => Span::new(atom.clone(), atom.clone()),
            false => self.atom(atom),
        };
        self.memo.insert(atom.id(), (atom.clone(), s.clone()));
        s
    }

    /// No ranging variable, and no value of a Func: evaluating it beforehand gives the one value it has.
    fn is_fixed(&self, e: &Expr) -> bool {
        nodes([e]).iter().all(|n| match n.kind() {
            ExprKind::Var(v) => !self.scope.contains_key(v),
            ExprKind::Call { name, .. } => self.definitions.input(name).is_some(),
            _ => true,
        })
    }

    fn atom(&mut self, e: &Expr) -> Span {
        use BinaryOp::*;
        let ty = e.ty().scalar;
        match e.operation() {
            ExprKind::Var(v) => self.scope.get(v).cloned().unwrap_or_default(),
            ExprKind::Likely(a) => self.span(a),
            ExprKind::Cast(a) => self.cast(a, ty),
            ExprKind::Select(_, a, b) => self.span(a).union(self.span(b)),
            ExprKind::Binary(op @ (Min | Max), a, b) => self.span(a).extremum(*op, self.span(b)),
            ExprKind::Binary(op @ (Add | Sub | Mul | Div), a, b) if ty.is_float() && !self.is_data => {
                match arithmetic(*op, &self.span(a), &self.span(b), ty) {
                    Some(s) => s,
                    None => self.unknown(ty, || format!("a {} expression", ty.name())),
                }
            }
            ExprKind::Binary(Div | Mod | Shl | Shr | And, a, b) => match b.as_int().or(a.as_int()) {
                Some(_) if ty == ScalarType::Bool => self.unknown(ty, String::new),
                Some(c) => self.by_constant(e, c),
                // A split by a parameter, for one.
                None if is_index(e.ty()) && self.is_fixed(b) => self.by_fixed(e),
                None => self.unknown(ty, || format!("a {} expression", ty.name())),
            },
            ExprKind::Binary(Mul, a, b) if is_index(e.ty()) => self.span(a).product(&self.span(b)),
            ExprKind::Unary(UnaryOp::Abs, a) if is_index(e.ty()) => self.span(a).magnitude(),
            ExprKind::Unary(op @ (UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc), a) => {
                self.span(a).map(|x| x.unary(*op))
            }
            ExprKind::Call { name, args, value } => self.call(name, args, *value, ty),
            _ => self.unknown(ty, || format!("a {} expression", ty.name())),
        }
    }

    /// Quotients, remainders, shifts and masks, where one operand is the constant `c`. Division is Euclidean: a quotient by `-c` is
    /// the negative of that by `c`, the remainders are the same.
    fn by_constant(&mut self, e: &Expr, c: i64) -> Span {
        use BinaryOp::*;
        let ty = e.ty().scalar;
        let int = |v: i64| Expr::int(ty, v);
        let ExprKind::Binary(op, a, b) = e.kind() else { return Span::default() };
        let (right, index) = (b.as_int().is_some(), is_index(e.ty()));
        match op {
            Div if index && right && c > 0 => self.span(a).map(|x| div(x, b)),
            Div if index && right && c < 0 && c > i64::MIN => {
                self.span(a).map(|x| div(x, &int(-c))).negative()
            }
            Mod if index && right && c != 0 && c > i64::MIN => self.span(a).modulo(&int(c.abs())),
            Mod if right && c > 0 => Span::new(int(0), int(c - 1)),
            Shl if index && right && (0..31).contains(&c) => self.span(a).map(|x| mul(x, &int(1 << c))),
            Shr if index && right && (0..31).contains(&c) => self.span(a).map(|x| div(x, &int(1 << c))),
            And if index && (0..i64::MAX).contains(&c) && (c + 1) & c == 0 => {
                self.span(if right { a } else { b }).modulo(&int(c + 1))
            }
            And if c >= 0 => Span::new(int(0), int(c)),
            _ => self.unknown(ty, || format!("a {} expression", ty.name())),
        }
    }

    /// Quotients and remainders, where the divisor has one value, of any sign. Division is Euclidean and by 0 gives 0, so the remainders
    /// are those by `max(|d|, 1)`.
    fn by_fixed(&mut self, e: &Expr) -> Span {
        match e.kind() {
            ExprKind::Binary(BinaryOp::Div, a, d) => self.span(a).quotient(d),
            ExprKind::Binary(BinaryOp::Mod, a, d) if self.is_positive(d) => self.span(a).modulo(d),
            ExprKind::Binary(BinaryOp::Mod, a, d) => {
                let (zero, one) = (Expr::int(d.ty(), 0), Expr::int(d.ty(), 1));
                self.span(a).modulo(&build::max(&build::max(d, &build::sub(&zero, d)), &one))
            }
            _ => {
                let ty = e.ty().scalar;
                self.unknown(ty, || format!("a {} expression", ty.name()))
            }
        }
    }

    /// Is `d` a parameter that is promised to be positive?
    fn is_positive(&self, d: &Expr) -> bool {
        let range = |name| self.definitions.param_range(name);
        matches!(d.kind(), ExprKind::Param(Param::Named(name)) if range(name).is_some_and(|(low, _)| low >= 1))
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
        if from.is_float() && !to.is_float() {
            return converted(&s, to);
        }
        s.map(|e| match e.as_int() {
            Some(v) if !to.is_float() => Expr::int(to, v),
            _ => e.cast(to),
        })
    }

    fn call(&mut self, name: &Name, args: &[Expr], value: usize, ty: ScalarType) -> Span {
        if let Some(i) = self.definitions.input(name) {
            return match &i.value_range {
                Some((lo, hi)) => Span::new(lo.cast(ty), hi.cast(ty)),
                None => self
                    .unknown(ty, || format!("the value of input {name} (clamp it, or give its value range)")),
            };
        }
        let f = self.definitions.func(name);
        let no_bound = || format!("the value of {name} (clamp it)");
        let left = self.left.get();
        if self.depth > 32 || left == 0 {
            return self.unknown(ty, no_bound);
        }
        self.left.set(left - 1);
        // The value over the interval of the arguments.
        let scope = f.vars.iter().map(|v| v.name().clone()).zip(args.iter().map(|a| self.span(a))).collect();
        let mut inner = Intervals::of_spans(self.definitions, scope, self.left.clone());
        inner.depth = self.depth + 1;
        inner.is_data = self.is_data || ty.is_float();
        let s = inner.span(&f.values[value]);
        if f.updates.is_empty() {
            self.culprit = self.culprit.take().or(inner.culprit);
            return s;
        }
        match inner.updated(f, value, s) {
            s @ Span { min: Some(_), max: Some(_) } => s,
            _ => self.unknown(ty, no_bound),
        }
    }

    /// Returns what element `value` of `f` may be after its updates, if it lay in `start` before: an update keeps an element, or picks one
    /// of some coordinates, such as the place of the least value so far.
    fn updated(&mut self, f: &Func, value: usize, start: Span) -> Span {
        let mut s = start;
        for u in &f.updates {
            for r in &u.rdom.vars {
                let (min, last) = (self.span(&r.min), &r.min + &r.extent - 1);
                let range = Span { min: min.min, max: self.span(&last).max };
                self.scope.insert(r.name.clone(), range);
            }
            self.memo.clear();
            let own = |e: &Expr| match e.kind() {
                ExprKind::Call { name, args, value: k } => *name == f.name && *k == value && *args == u.args,
                _ => false,
            };
            let e = &u.values[value];
            s = match self.picked(e, &mut Picks::of(e, own)) {
                Some(more) => s.union(more),
                // Nothing but itself.
                None => s,
            };
        }
        s
    }

    /// The span of what `e` picks by selects, minima and maxima, its own former value apart; none if it picks nothing else.
    /// Arithmetic on values of Funcs is data, which may wrap: without bounds.
    fn picked(&mut self, e: &Expr, picks: &mut Picks) -> Option<Span> {
        if let Some(s) = picks.found.get(&e.id()) {
            return s.clone();
        }
        let s = match e.kind() {
            _ if picks.own.contains(&e.id()) => None,
            ExprKind::Likely(a) => self.picked(a, picks),
            ExprKind::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b)
                if !picks.above_own.contains(&e.id()) =>
            {
                match (self.picked(a, picks), self.picked(b, picks)) {
                    (Some(a), Some(b)) => Some(a.extremum(*op, b)),
                    _ => None,
                }
            }
            ExprKind::Select(_, a, b) | ExprKind::Binary(BinaryOp::Min | BinaryOp::Max, a, b) => {
                match (self.picked(a, picks), self.picked(b, picks)) {
                    (Some(a), Some(b)) => Some(a.union(b)),
                    (a, b) => a.or(b),
                }
            }
            _ if picks.above_calls.contains(&e.id()) => Some(Span::default()),
            _ => Some(self.span(e)),
        };
        picks.found.insert(e.id(), s.clone());
        s
    }
}

/// The value of an update, which picks one of several: each node is looked at once.
#[derive(Default)]
struct Picks {
    /// The former value that the update replaces.
    own: FxHashSet<usize>,
    /// Nodes with such a value in them.
    above_own: FxHashSet<usize>,
    /// Nodes with calls in them.
    above_calls: FxHashSet<usize>,
    /// Results by node.
    found: FxHashMap<usize, Option<Span>>,
}

impl Picks {
    fn of(e: &Expr, own: impl Fn(&Expr) -> bool) -> Picks {
        let mut p = Picks::default();
        for n in postorder(&[e]) {
            let (is_own, is_call) = (own(n), matches!(n.kind(), ExprKind::Call { .. }));
            let (mut above_own, mut above_calls) = (is_own, is_call);
            n.for_each_child(|c| {
                above_own |= p.above_own.contains(&c.id());
                above_calls |= p.above_calls.contains(&c.id());
            });
            for (is, set) in
                [(is_own, &mut p.own), (above_own, &mut p.above_own), (above_calls, &mut p.above_calls)]
            {
                if is {
                    set.insert(n.id());
                }
            }
        }
        p
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
