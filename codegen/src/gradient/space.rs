//! The points at which a definition is evaluated.

use crate::analysis::algebra::{Facts, Interval};
use crate::analysis::intervals::{Definitions, Intervals};
use crate::expr::walk::{any, nodes, substitute};
use crate::expr::{Expr, ExprKind, Name, Param, Part};
use crate::func::{Func, Input, Pipeline, RDom, Var};
use crate::gradient::tidy::tidy;
use rustc_hash::FxHashMap;

/// A loop of a definition.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Its variable.
    pub name: Name,
    /// Its values. Those of a pure variable use none; of a reduction variable they may use pure ones (a ragged domain).
    pub range: Interval,
    /// Is it a loop of every adjoint that comes of the definition, outside of all others? Nothing is solved for it then.
    pub is_held: bool,
}

/// All loops of a definition, pure ones first; points where the predicate is false do not count.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    /// Loops.
    pub axes: Vec<Axis>,
    /// Bool over their variables.
    pub predicate: Option<Expr>,
}

impl Space {
    /// Pure variables over `support`, of those that are `used`, and the domain `r`.
    pub(super) fn new(vars: &[Var], support: &[Interval], used: impl Fn(usize) -> bool, r: &RDom) -> Space {
        let pure = vars.iter().zip(support).enumerate().filter(|(d, _)| used(*d));
        let pure = pure.map(|(_, (v, i))| Axis { name: v.name().clone(), range: i.clone(), is_held: false });
        let reduction = r.vars.iter().map(|v| {
            let range = Interval { min: v.min.clone(), max: tidy(&(&v.min + &v.extent - 1)) };
            Axis { name: v.name.clone(), range, is_held: false }
        });
        Space { axes: pure.chain(reduction).collect(), predicate: r.predicate.clone() }
    }

    /// The ranges of all axes without variables: those of ragged ones over all pure points. Fails with what has no bounds.
    pub(super) fn hull(&self, p: &Pipeline) -> Result<FxHashMap<Name, Interval>, String> {
        let mut known: FxHashMap<Name, Interval> = FxHashMap::default();
        for a in &self.axes {
            let [lo, hi] = [interval(p, &known, &a.range.min)?, interval(p, &known, &a.range.max)?];
            known.insert(a.name.clone(), Interval { min: lo.min, max: hi.max });
        }
        Ok(known)
    }
}

/// The interval of `e` while variables range as said; those of which nothing is said stay. Fails with what has no bounds.
///
/// The ends of ranges are kept as names until the end: what they stand for could cancel against something else than themselves.
pub(super) fn interval(
    p: &Pipeline,
    ranges: &FxHashMap<Name, Interval>,
    e: &Expr,
) -> Result<Interval, String> {
    let moves = |n: &Expr| match n.kind() {
        ExprKind::Var(v) => ranges.contains_key(v),
        ExprKind::Call { name, .. } => p.funcs.contains_key(name),
        _ => false,
    };
    if !any(e, moves) {
        return Ok(Interval::point(e));
    }
    let (mut scope, mut stands_for) = (FxHashMap::default(), FxHashMap::default());
    for (name, range) in ranges {
        if range.min == range.max {
            scope.insert(name.clone(), range.clone());
            continue;
        }
        let mut end = |which: &str, e: &Expr| {
            if e.as_int().is_some() {
                return e.clone();
            }
            let end: Name = format!("{name}.{which}").into();
            stands_for.insert(end.clone(), e.clone());
            Expr::var(end)
        };
        let range = Interval { min: end("min", &range.min), max: end("max", &range.max) };
        scope.insert(name.clone(), range);
    }
    let found = Intervals::new(p, &scope).of(e)?;
    let back = |e: &Expr| {
        let whole = substitute(&tidy(e), &stands_for);
        if is_short(&whole) { tidy(&whole) } else { whole }
    };
    Ok(Interval { min: back(&found.min), max: back(&found.max) })
}

/// Is an expression short enough to be worth looking for a better form? Ends of the boxes of long chains of Funcs share all that they are
/// made of, which other forms may not.
pub(super) fn is_short(e: &Expr) -> bool {
    const SHORT: usize = 64;
    let (mut n, mut stack) = (0, vec![e]);
    while let Some(e) = stack.pop() {
        n += 1;
        if n > SHORT {
            return false;
        }
        e.for_each_child(|c| stack.push(c));
    }
    true
}

/// Knowledge of the place where an adjoint is computed: facts, and the values that variables range over. A variable without a range may be
/// anything.
#[derive(Clone, Default)]
pub(super) struct Place {
    pub facts: Facts,
    ranges: FxHashMap<Name, Interval>,
}

impl Place {
    /// Coordinates `vars` lie within `support`; sizes of buffers are no less than 0.
    pub(super) fn within(vars: &[Var], support: &[Interval]) -> Place {
        let mut place = Place::default();
        for e in nodes(support.iter().flat_map(|i| [&i.min, &i.max])) {
            if let ExprKind::Param(part @ Param::Of(_, Part::Extent(_))) = e.kind() {
                place.facts.param_interval(part.clone(), Some(Expr::from(0)), None);
            }
        }
        for (v, i) in vars.iter().zip(support) {
            place.enter(v.name(), i);
            place.facts.assume(&i.min.le(&i.max));
        }
        place
    }

    /// Variable `name` has these values.
    pub(super) fn enter(&mut self, name: &Name, range: &Interval) {
        self.facts.interval(name.clone(), Some(range.min.clone()), Some(range.max.clone()));
        self.ranges.insert(name.clone(), range.clone());
    }

    /// The values of `e`. Fails with what has no bounds.
    pub(super) fn interval(&self, p: &Pipeline, e: &Expr) -> Result<Interval, String> {
        interval(p, &self.ranges, e)
    }

    /// `e`, or the end of `to` that it may lie beyond, with the conditions that it does not. Bounds inference decides what may be: it will
    /// look at the same expression, and does not know of facts that tie variables to each other.
    pub(super) fn clamped(&self, p: &Pipeline, e: &Expr, to: &Interval) -> (Expr, Vec<Expr>) {
        let seen = self.interval(p, e).unwrap_or_else(|_| Interval::point(e));
        let (mut clamped, mut conds) = (e.clone(), vec![]);
        if !self.facts.proves_le(&to.min, &seen.min) {
            clamped = clamped.max(&to.min);
            conds.push(to.min.le(e));
        }
        if !self.facts.proves_le(&seen.max, &to.max) {
            clamped = clamped.min(&to.max);
            conds.push(e.le(&to.max));
        }
        (clamped, conds)
    }
}

impl Definitions for Pipeline {
    fn input(&self, name: &Name) -> Option<&Input> {
        self.inputs.get(name)
    }
    fn func(&self, name: &Name) -> &Func {
        &self.funcs[name]
    }
    fn param_range(&self, name: &Name) -> Option<(i64, i64)> {
        self.param_ranges.get(name).copied()
    }
}
