//! Fetching ahead.
//!
//! At the start of the body of loop v: what the stage reads of a Func or input while v has a later value, as one prefetch per
//! row and cache line. Coordinates are kept inside of what the stage reads in this run of its nest, which is known to exist.

use crate::analysis::algebra::build::{add, offset};
use crate::analysis::algebra::{Interval, build};
use crate::analysis::intervals::Intervals;
use crate::error::Error;
use crate::expr::walk::{substitute, variables};
use crate::expr::{Expr, Name};
use crate::ir::stmt::Stmt;
use crate::nests::Nests;
use crate::plan::plans::{Level, Stage, illegal};
use crate::schedule::{Directive, ForKind, LoopLevel};
use crate::types::ScalarType;
use rustc_hash::FxHashMap;

/// Bytes of a cache line.
const LINE: i64 = 64;

impl Nests<'_> {
    /// The prefetches at loop `var` of `s`.
    pub fn prefetches(&mut self, s: &Stage, var: &Name) -> Result<Vec<Stmt>, Error> {
        let mut out = vec![];
        for (name, _, ahead) in s.prefetches.iter().filter(|p| p.1 == *var) {
            let d = Directive::Prefetch { name: name.clone(), var: var.clone(), ahead: *ahead };
            let refuse = |rule: String| Err(illegal(&s.id, d.to_string(), rule));
            let at = s.dims.iter().position(|d| d.name == *var).unwrap_or(0);
            if s.dims[at..].iter().any(|d| d.kind == ForKind::Vectorized) {
                return refuse("the loop is vectorised".into());
            }
            let Some(ty) = self.element(name) else {
                return refuse(format!("{name} is inlined, or there is no such Func or input"));
            };
            let level = Level::At(LoopLevel { stage: s.id.clone(), var: var.clone() });
            let nest = self.plan.funcs[&s.id.func].compute.clone();
            let (now, all) = match (self.reads(s, name, &level)?, self.reads(s, name, &nest)?) {
                (Ok(now), Ok(all)) if !now.is_empty() => (now, all),
                (Err(why), _) | (_, Err(why)) => {
                    return refuse(format!("what it reads has no bounds because of {why}"));
                }
                _ => return refuse(format!("it does not read {name}")),
            };
            let v = self.full_name(s, var);
            let later = FxHashMap::from_iter([(v.clone(), Expr::var(v.clone()) + *ahead as i64)]);
            let raw = |e: &Expr| self.facts.expand(e, &v, &self.unslid);
            let shift = |e: &Expr| substitute(&raw(e), &later);
            let depends = |e: &Expr| variables(&raw(e)).contains(&v);
            let region = now.iter().zip(&all).map(|(now, all)| {
                let inside = |e: &Expr| build::min(&build::max(e, &all.min), &all.max);
                let later = |e: &Expr| if depends(e) { inside(&shift(e)) } else { e.clone() };
                Interval { min: later(&now.min), max: later(&now.max) }
            });
            out.push(fetch(name, &format!("{v}.{name}"), &region.collect::<Vec<_>>(), ty));
        }
        Ok(out)
    }

    /// Element type of something that lies in memory.
    fn element(&self, name: &Name) -> Option<ScalarType> {
        let input = self.plan.pipeline.inputs.get(name).map(|i| i.types[0]);
        input.or_else(|| self.plan.funcs.get(name).map(|f| f.func.types()[0]))
    }

    /// The region of `name` that `s` reads while the loops around `level` are fixed; empty if it reads nothing there. The inner
    /// error says why there is none.
    #[allow(clippy::type_complexity)]
    fn reads(
        &mut self,
        s: &Stage,
        name: &Name,
        level: &Level,
    ) -> Result<Result<Vec<Interval>, String>, Error> {
        let uses = self.uses.get(name).into_iter().flatten();
        let calls: Vec<Vec<Expr>> = uses.filter(|u| u.0 == s.id).flat_map(|u| u.1.clone()).collect();
        let scope = self.ranges_inside(s, level)?;
        let mut intervals = Intervals::new(self.plan, &scope);
        let mut dims: Vec<Option<Interval>> = vec![None; calls.first().map_or(0, Vec::len)];
        for args in &calls {
            for (d, a) in args.iter().enumerate() {
                let i = match intervals.of(a) {
                    Ok(i) => i,
                    Err(why) => return Ok(Err(why)),
                };
                dims[d] = Some(dims[d].as_ref().map_or(i.clone(), |u| u.union(&i)));
            }
        }
        Ok(Ok(dims.into_iter().flatten().collect()))
    }
}

/// Loops over the rows of a region, and over the lines of each.
fn fetch(name: &Name, prefix: &str, region: &[Interval], ty: ScalarType) -> Stmt {
    let var = |d: usize| -> Name { format!("{prefix}.{d}").into() };
    let per_line = LINE / ty.bytes() as i64;
    let place = |(d, i): (usize, &Interval)| match d {
        0 => build::min(&add(&i.min, &(Expr::var(var(0)) * per_line)), &i.max),
        _ => Expr::var(var(d)),
    };
    let args = region.iter().enumerate().map(place).collect();
    let mut body = Stmt::Prefetch { name: name.clone(), args };
    for (d, i) in region.iter().enumerate() {
        let (min, extent) = match d {
            // A row that starts inside of a line reaches into one more.
            0 => (
                Expr::from(0),
                offset(&build::div(&offset(&i.extent(), -1), &Expr::from(per_line as i32)), 2),
            ),
            _ => (i.min.clone(), i.extent()),
        };
        body = Stmt::For { var: var(d), min, extent, kind: ForKind::Serial, body: Box::new(body) };
    }
    body
}
