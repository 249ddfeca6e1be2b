//! Computes each value of a sliding region once.
//!
//! A Func stored outside of exactly one serial loop and computed inside it, whose region moves monotonically with that loop
//! in one dimension, computes only what the previous iteration did not leave: its first value becomes
//! `select(first iteration, min, previous max + 1)`. Needs the region (bounds inference), precedes the sizing of
//! storage, which is that of the whole loop.

use super::algebra::Interval;
use super::algebra::build::{max, offset};
use super::bounds_inference::round_up_unit;
use super::build_nests::{Around, Nests};
use super::plans::{FuncPlan, Level, illegal};
use super::rewrite::{substitute, variables};
use crate::error::Error;
use crate::expr::{Expr, Name};
use crate::schedule::ForKind;
use rustc_hash::FxHashMap;

impl Nests<'_> {
    /// Loops and gates between the store level and here, outermost first.
    fn since_store(&self, f: &FuncPlan) -> &[Around] {
        let Level::At(store) = &f.store else { return &self.around };
        let at = self.around.iter().position(|a| match a {
            Around::Loop(l, ..) | Around::Once(l) => l == store,
            Around::Gate => false,
        });
        &self.around[at.map_or(0, |i| i + 1)..]
    }

    /// Storage outside of a parallel loop must not be written inside it.
    pub fn check_store_races(&self, f: &FuncPlan) -> Result<(), Error> {
        let parallel = self.since_store(f).iter().find_map(|a| match a {
            Around::Loop(l, _, ForKind::Parallel) => Some(l.var.clone()),
            _ => None,
        });
        match parallel {
            Some(v) => {
                let rule = format!("iterations of the parallel loop {v} would share the storage");
                Err(illegal(&f.stages[0].id, "store_at", rule))
            }
            None => Ok(()),
        }
    }

    /// What the loops of `f` have to cover, given the region `required` at its compute level.
    pub fn slide(&mut self, f: &FuncPlan, required: &[Interval]) -> Result<Vec<Interval>, Error> {
        let mut produced = required.to_vec();
        let mut slid = false;
        if let Some((d, first, last_before)) = self.find_slide(f, required) {
            let name: Name = format!("{}.s0.{}.min", f.func.name, f.func.vars[d].0).into();
            let next = offset(&last_before, 1);
            // Where the region jumps, nothing before its start is needed.
            let next = match self.facts.proves_le(&required[d].min, &next) {
                true => next,
                false => max(&next, &required[d].min),
            };
            let min = self.name(name.to_string(), &Expr::select(first, &required[d].min, next));
            self.unslid.insert(name, required[d].min.clone());
            produced[d].min = min;
            slid = true;
        }
        self.note_once(f, slid);
        Ok(produced)
    }

    /// The dimension that slides, the condition of the first iteration, and the last value of the previous one.
    fn find_slide(&self, f: &FuncPlan, required: &[Interval]) -> Option<(usize, Expr, Expr)> {
        if f.store == f.compute || f.stages.len() > 1 {
            return None;
        }
        let mut loops = self.since_store(f).iter().filter(|a| !matches!(a, Around::Once(_)));
        let Some(Around::Loop(_, v, ForKind::Serial)) = loops.next() else { return None };
        if loops.next().is_some() {
            return None;
        }
        let raw = |e: &Expr| self.facts.expand(e, v, &self.unslid);
        let back: FxHashMap<Name, Expr> = [(v.clone(), Expr::var(v.clone()) - 1)].into_iter().collect();
        let mut found = None;
        for (d, i) in required.iter().enumerate() {
            let (min, max) = (raw(&i.min), raw(&i.max));
            if !variables(&min).contains(v) && !variables(&max).contains(v) {
                continue;
            }
            let (min_before, max_before) = (substitute(&min, &back), substitute(&max, &back));
            let monotone = self.facts.proves_le(&min_before, &min) && self.facts.proves_le(&max_before, &max);
            if found.is_some() || !monotone || round_up_unit(&f.stages[0], &f.func.vars[d].0).is_some() {
                return None;
            }
            found = Some((d, Expr::var(v.clone()).eq_(self.facts.first(v)?), max_before));
        }
        found
    }
}
