//! Intervals of the variables of a stage, seen from a level.

use crate::analysis::algebra::build::{add, mul, offset};
use crate::analysis::algebra::{Interval, build};
use crate::analysis::intervals::Intervals;
use crate::error::Error;
use crate::expr::walk::variables;
use crate::expr::{Expr, Name};
use crate::nests::names::{base_expr, full_name, local_expr};
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::plan::extents::{block_origin, blocks, points};
use crate::plan::plans::{Bounded, Change, Level, Plan, Split, Stage};
use crate::plan::validate::error;
use rustc_hash::FxHashMap;

/// Intervals of the local variables of `s` while its loops at and around `level` are fixed, all others range over their own
/// bounds, and its pure variables over `pure`.
pub(super) fn ranges(
    scope: &Scope,
    regions: &Regions,
    s: &Stage,
    level: &Level,
    pure: &[Interval],
) -> Result<FxHashMap<Name, Interval>, Error> {
    let at = match level {
        Level::At(l) => scope.plan.loop_at(&s.id, l),
        Level::Root => None,
    };
    let place = |v: &str| s.dims.iter().position(|d| *d.name == *v).unwrap_or(0);
    let fixed_from = at.map_or(s.dims.len(), place);
    let mut r = Ranges { scope, regions, stage: s, fixed_from, pure, known: FxHashMap::default() };
    let vars = &scope.plan.funcs[&s.id.func].func.vars;
    let names = vars.iter().map(|v| v.name()).chain(s.rvars.iter().map(|v| &v.name));
    for n in names.chain(s.dims.iter().map(|d| &d.name)) {
        r.range(n)?;
    }
    Ok(r.known)
}

/// Grows `dims` by the coordinates of `calls` while variables have these `ranges`. Fails with a dimension that has no bounds,
/// and what makes it unbounded.
pub(super) fn cover(
    plan: &Plan,
    ranges: &FxHashMap<Name, Interval>,
    calls: &[Vec<Expr>],
    dims: &mut [Option<Interval>],
) -> Result<(), (usize, String)> {
    let mut intervals = Intervals::new(plan, ranges);
    for args in calls {
        for (d, a) in args.iter().enumerate() {
            let i = intervals.of(a).map_err(|why| (d, why))?;
            dims[d] = Some(dims[d].as_ref().map_or(i.clone(), |u| u.union(&i)));
        }
    }
    Ok(())
}

/// The variables of one stage.
struct Ranges<'a, 'p> {
    scope: &'a Scope<'p>,
    regions: &'a Regions,
    stage: &'a Stage,
    /// Loops at this position and further out are fixed.
    fixed_from: usize,
    /// Ranges of the pure variables.
    pure: &'a [Interval],
    /// Those asked for so far.
    known: FxHashMap<Name, Interval>,
}

impl Ranges<'_, '_> {
    /// The interval of a local name, recorded; true if it is fixed.
    fn range(&mut self, name: &Name) -> Result<bool, Error> {
        let s = self.stage;
        let (interval, fixed) = match s.replaced(name) {
            None => {
                let at = s.dims.iter().position(|d| d.name == *name);
                match at.is_some_and(|i| i >= self.fixed_from) {
                    true => (Interval::point(&Expr::var(full_name(s, name))), true),
                    false => (self.bounds(name)?, false),
                }
            }
            Some(Change::Split(t)) => {
                let outer_fixed = self.range(&t.outer)?;
                let inner_fixed = self.range(&t.inner)?;
                if outer_fixed && inner_fixed {
                    (Interval::point(&local_expr(s, name)), true)
                } else {
                    (self.composed(t, name, outer_fixed, inner_fixed)?, false)
                }
            }
            Some(Change::Fuse(t)) => match self.range(&t.fused)? {
                true => (Interval::point(&local_expr(s, name)), true),
                false => (self.bounds(name)?, false),
            },
            Some(Change::Rename { new, .. }) => {
                let fixed = self.range(new)?;
                (self.known[new].clone(), fixed)
            }
        };
        self.known.insert(name.clone(), interval);
        Ok(fixed)
    }

    /// From the origin of the first block that runs to the end of the last one, at most the maximum of the split variable:
    /// what lies beyond is guarded.
    fn composed(
        &mut self,
        t: &Split,
        name: &Name,
        outer_fixed: bool,
        inner_fixed: bool,
    ) -> Result<Interval, Error> {
        let bounds = self.bounds(name)?;
        let own = |n: &Name| self.pure_dim(n).is_none();
        if !outer_fixed && !inner_fixed && own(&t.outer) && own(&t.inner) {
            return Ok(bounds);
        }
        let (outer, inner) = (&self.known[&t.outer], &self.known[&t.inner]);
        let (first, last) = match outer_fixed {
            true => (base_expr(self.stage, t), base_expr(self.stage, t)),
            // The first of these blocks may be the one that moves back; nothing ends behind where the last one would have.
            false => (
                block_origin(self.stage, t, &outer.min, &bounds),
                add(&mul(&outer.max, &t.factor), &bounds.min),
            ),
        };
        let (min, max) = (add(&first, &inner.min), add(&last, &inner.max));
        let facts = &self.scope.facts;
        let max = match (facts.proves_le(&bounds.max, &max), facts.proves_le(&max, &bounds.max)) {
            (true, _) => bounds.max,
            (_, true) => max,
            _ => build::min(&max, &bounds.max),
        };
        Ok(Interval { min, max })
    }

    fn pure_dim(&self, name: &Name) -> Option<usize> {
        self.scope.plan.funcs[&self.stage.id.func].func.vars.iter().position(|v| *v.name() == *name)
    }

    /// The bounds of a name, loop or not.
    fn bounds(&mut self, name: &Name) -> Result<Interval, Error> {
        let s = self.stage;
        if let Some(d) = self.pure_dim(name) {
            return Ok(self.pure[d].clone());
        }
        if let Some(r) = s.rvars.iter().find(|r| r.name == *name) {
            return self.reduction_bounds(r);
        }
        let zero = Expr::from(0);
        match s.made(name) {
            Some(Change::Split(t)) if t.inner == *name => {
                Ok(Interval { min: zero, max: offset(&t.factor, -1) })
            }
            Some(Change::Split(t)) => {
                let old = self.bounds(&t.old)?;
                Ok(Interval { min: zero, max: offset(&blocks(&old.min, &old.max, &t.factor), -1) })
            }
            Some(Change::Fuse(t)) => {
                let (inner, outer) = (self.bounds(&t.inner)?, self.bounds(&t.outer)?);
                Ok(Interval { min: zero, max: offset(&points(&inner, &outer), -1) })
            }
            Some(Change::Rename { old, .. }) => self.bounds(old),
            None => unreachable!("bounds: {name} is no variable of {}", s.id),
        }
    }

    /// The bounds of a reduction variable: their names where what they depend on is fixed, the interval of their values elsewhere.
    fn reduction_bounds(&mut self, r: &Bounded) -> Result<Interval, Error> {
        let s = self.stage;
        let mut pure = FxHashMap::default();
        for v in variables(&r.min).into_iter().chain(variables(&r.max)) {
            if !self.known.contains_key(&v) {
                self.range(&v)?;
            }
            pure.insert(v.clone(), self.known[&v].clone());
        }
        if let Some((min, max)) = self.regions.rvars.get(&(s.id.clone(), r.name.clone()))
            && pure.values().all(|i| i.min == i.max)
            && self.fixed_from < s.dims.len()
        {
            return Ok(Interval { min: min.clone(), max: max.clone() });
        }
        let plan = self.scope.plan;
        let mut intervals = Intervals::new(plan, &pure);
        let fail = |why: String| {
            let message = format!("{}: the bounds of {} have no bounds because of {why}", s.id, r.name);
            error(&plan.pipeline, message)
        };
        let min = intervals.of(&r.min).map_err(fail)?.min;
        Ok(Interval { min, max: intervals.of(&r.max).map_err(fail)?.max })
    }
}
