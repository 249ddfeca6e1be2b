//! Regions of what several stages read at a loop that they run together in.
//!
//! In each iteration it is the union of what each stage reads there, with its loops where the joint ones are. Where an iteration
//! may be none of some stage, that stage's part lies anywhere: the union is cut down to what the whole nest needs, and to what
//! is stored. Follows and precedes what [`crate::nests::bounds_inference`] does.

use crate::analysis::algebra::{Interval, build};
use crate::error::Error;
use crate::expr::Name;
use crate::nests::Nests;
use crate::plan::plans::Level;

impl Nests<'_> {
    /// Binds what all nests at `level`, which is being opened, need of `func`, which is computed in joint loops there.
    pub fn need_of_all(&mut self, func: &Name, level: &Level) -> Result<(), Error> {
        let mut dims = self.required(func, level)?;
        self.cover_updates(func, level, &mut dims)?;
        for (d, v) in dims.iter_mut().zip(&self.plan.funcs[func].func.vars) {
            d.min = self.name(format!("{func}.all.{}.min", v.0), &d.min);
            d.max = self.name(format!("{func}.all.{}.max", v.0), &d.max);
        }
        self.all.insert(func.clone(), dims);
        Ok(())
    }

    /// Cuts the region of `func` at `level`, not rounded yet, down to what some iteration of the whole nest reads.
    pub fn keep_within(&mut self, func: &Name, level: &Level, dims: &mut [Interval]) {
        let Some(all) = self.all.get(func) else { return };
        let stored = (func.clone(), self.plan.funcs[func].store.clone());
        if let Level::At(l) = level
            && self.differing.contains(l)
        {
            let limits = if stored.1 == *level { None } else { self.needed.get(&stored) };
            for (d, limit) in dims.iter_mut().zip(limits.unwrap_or(all)) {
                if !self.facts.proves_le(&limit.min, &d.min) {
                    d.min = build::max(&d.min, &limit.min);
                }
                if !self.facts.proves_le(&d.max, &limit.max) {
                    d.max = build::min(&d.max, &limit.max);
                }
            }
        }
        if stored.1 == *level {
            self.needed.insert(stored, dims.to_vec());
        }
    }
}
