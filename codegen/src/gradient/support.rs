//! The box of each Func that is needed, outside of which its adjoint is 0.
//!
//! Begins with the domains of the seeds and goes against the data flow. Ends are expressions over sizes of buffers and parameters.

use crate::analysis::algebra::Interval;
use crate::analysis::evaluate::{Constants, Known};
use crate::error::Error;
use crate::expr::walk::nodes;
use crate::expr::{BinaryOp, Expr, ExprKind, Name, Param, Part};
use crate::func::{Func, Pipeline, RDom};
use crate::gradient::space::{Space, interval, is_short};
use crate::gradient::tidy::tidy;
use crate::plan::validate::{error, is_var};
use indexmap::IndexMap;
use rustc_hash::FxHashMap;

/// Boxes by name: one interval per dimension.
pub(super) type Boxes = FxHashMap<Name, Vec<Interval>>;

/// One definition of a Func: its coordinates (none of the pure one), values and domain.
pub(super) struct Stage<'f> {
    pub args: Option<&'f [Expr]>,
    pub values: &'f [Expr],
    pub rdom: RDom,
}

impl Stage<'_> {
    /// All definitions of `f`.
    pub(super) fn all(f: &Func) -> Vec<Stage<'_>> {
        let pure = Stage { args: None, values: &f.values, rdom: RDom::default() };
        let updates = f.updates.iter();
        let updates = updates.map(|u| Stage { args: Some(&u.args), values: &u.values, rdom: u.rdom.clone() });
        std::iter::once(pure).chain(updates).collect()
    }

    /// Does dimension `d` run over its pure variable?
    pub(super) fn is_pure(&self, f: &Func, d: usize) -> bool {
        self.args.is_none_or(|a| is_var(&a[d], f.vars[d].name()))
    }

    /// All that it evaluates, bounds of reduction variables included.
    pub(super) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let bounds = self.rdom.vars.iter().flat_map(|r| [&r.min, &r.extent]);
        self.args.into_iter().flatten().chain(self.values).chain(&self.rdom.predicate).chain(bounds)
    }
}

/// Funcs of `p` that `roots` need, consumers first.
pub(super) fn consumers_first(p: &Pipeline, roots: impl IntoIterator<Item = Name>) -> Vec<Name> {
    let mut order: Vec<Name> = vec![];
    let mut stack: Vec<(Name, bool)> = roots.into_iter().map(|n| (n, false)).collect();
    let mut seen = rustc_hash::FxHashSet::default();
    while let Some((name, done)) = stack.pop() {
        if done {
            order.push(name);
        } else if let Some(f) = p.funcs.get(&name)
            && seen.insert(name.clone())
        {
            stack.push((name, true));
            stack.extend(f.callees(p).into_iter().map(|c| (c, false)));
        }
    }
    order.reverse();
    order
}

/// The boxes of all that `seeds` need, these included. Ends whose parameters are all `known` are constants.
pub(super) fn supports(
    p: &Pipeline,
    seeds: &IndexMap<Name, Vec<Interval>>,
    known: &Known,
) -> Result<Boxes, Error> {
    let mut constants = Constants::new(known);
    let mut evaluated = |own: Vec<Interval>| -> Vec<Interval> {
        if known.params.is_empty() {
            return own;
        }
        let mut end = |e: Expr| constants.of(&e).unwrap_or(e);
        own.into_iter().map(|i| Interval { min: end(i.min), max: end(i.max) }).collect()
    };
    let mut boxes: Boxes = seeds.iter().map(|(n, b)| (n.clone(), b.clone())).collect();
    for name in consumers_first(p, seeds.keys().cloned()) {
        let f = &p.funcs[&name];
        let Some(own) = boxes.get(&name) else { continue };
        let asked = evaluated(own.clone());
        let own = evaluated(with_updates(p, f, asked)?);
        for s in Stage::all(f) {
            let ranges = ranges(p, f, &s, &own)?;
            for e in nodes(s.exprs()) {
                let ExprKind::Call { name: callee, args, .. } = e.kind() else { continue };
                if *callee == name {
                    continue;
                }
                let mut found = vec![];
                for (d, a) in args.iter().enumerate() {
                    found.push(
                        interval(p, &ranges, a).map_err(|why| unbounded(p, callee, d, (&name, a), &why))?,
                    );
                }
                match boxes.get_mut(callee) {
                    Some(known) => known.iter_mut().zip(&found).for_each(|(k, i)| *k = union(k, i)),
                    None => _ = boxes.insert(callee.clone(), found),
                }
            }
        }
        boxes.insert(name, own);
    }
    Ok(boxes)
}

/// `asked`, and all that the updates of `f` write and read of it.
fn with_updates(p: &Pipeline, f: &Func, asked: Vec<Interval>) -> Result<Vec<Interval>, Error> {
    let mut before = asked.clone();
    for _ in 0..=asked.len() {
        let mut own = asked.clone();
        for s in Stage::all(f).iter().skip(1) {
            let ranges = ranges(p, f, s, &before)?;
            let reads = nodes(s.exprs()).into_iter().filter_map(|e| match e.kind() {
                ExprKind::Call { name, args, .. } if *name == f.name => Some(&args[..]),
                _ => None,
            });
            for args in reads.chain(s.args) {
                for (d, a) in args.iter().enumerate().filter(|(d, a)| !is_var(a, f.vars[*d].name())) {
                    let i = interval(p, &ranges, a)
                        .map_err(|why| unbounded(p, &f.name, d, (&f.name, a), &why))?;
                    own[d] = union(&own[d], &i);
                }
            }
        }
        if own == before {
            return Ok(own);
        }
        before = own;
    }
    let message =
        format!("{}: its updates make coordinates of each other's pure variables, which has no end", f.name);
    Err(error(p, message))
}

/// The ranges of all loops of a stage.
fn ranges(p: &Pipeline, f: &Func, s: &Stage, own: &[Interval]) -> Result<FxHashMap<Name, Interval>, Error> {
    let space = Space::new(&f.vars, own, |d| s.is_pure(f, d), &s.rdom);
    space.hull(p).map_err(|why| {
        error(p, format!("{}: the bounds of a reduction variable have no bounds: {why}", f.name))
    })
}

fn union(a: &Interval, b: &Interval) -> Interval {
    if [a, b].iter().all(|i| is_short(&i.min) && is_short(&i.max)) {
        let both = a.union(b);
        return Interval { min: tidy(&both.min), max: tidy(&both.max) };
    }
    let one = |op, x: &Expr, y: &Expr| if x == y { x.clone() } else { Expr::binary(op, x, y) };
    Interval { min: one(BinaryOp::Min, &a.min, &b.min), max: one(BinaryOp::Max, &a.max, &b.max) }
}

fn unbounded(p: &Pipeline, callee: &Name, d: usize, (by, at): (&Name, &Expr), why: &str) -> Error {
    error(
        p,
        format!(
            "dimension {d} of {callee}, which {by} reads at {at}, has no bounds: {why}; clamp the coordinate"
        ),
    )
}

/// Parameters of buffers, as estimated: from 0 on.
pub(super) fn known(p: &Pipeline, estimates: &[(&str, &[i32])]) -> Known {
    let mut known = Known::default();
    for (name, extents) in estimates {
        for (d, n) in extents.iter().enumerate() {
            known.params.insert(Param::Of((*name).into(), Part::Extent(d)), Expr::from(*n));
        }
    }
    let buffers = p.inputs.iter().map(|(n, i)| (n.clone(), i.dims));
    for (name, dims) in buffers.chain(p.outputs.iter().map(|o| (o.func.clone(), p.funcs[&o.func].vars.len())))
    {
        for d in 0..dims {
            known.params.insert(Param::Of(name.clone(), Part::Min(d)), Expr::from(0));
        }
    }
    known
}
