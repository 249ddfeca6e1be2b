//! Regions that the schedule says ([`crate::Directive::Bound`]).
//!
//! The region takes the place of the required one, which must lie inside: asserted at run time at root, where all that
//! the pipeline needs of the Func is known; proved at the compute level for an extent without a minimum.

use crate::analysis::algebra::build::{add, offset, sub};
use crate::analysis::algebra::{Interval, build};
use crate::error::Error;
use crate::expr::{Expr, Name};
use crate::ir::stmt::Stmt;
use crate::nests::Nests;
use crate::nests::bounds_inference::level_text;
use crate::plan::plans::{Level, illegal};
use crate::schedule::Directive;

impl Nests<'_> {
    /// Replaces the interval that `func` needs in dimension `d` at `level` by the one that the schedule says, if it says one.
    pub fn bound(
        &mut self,
        func: &Name,
        level: &Level,
        d: usize,
        i: &mut Interval,
        prefix: &str,
    ) -> Result<(), Error> {
        let f = &self.plan.funcs[func];
        let Some(b) = f.bound[d].clone() else { return Ok(()) };
        let var = f.func.vars[d].0.clone();
        let text = Directive::Bound { var, min: b.min.clone(), extent: b.extent.clone() }.to_string();
        let min = match &b.min {
            Some(min) => min.clone(),
            None if *level == f.compute => self.name(format!("{prefix}.min"), &i.min),
            None => {
                // Inner regions start anywhere in this one.
                i.max = offset(&add(&i.max, &b.extent), -1);
                return Ok(());
            }
        };
        let given = Interval { max: offset(&add(&min, &b.extent), -1), min };
        if *level == Level::Root {
            self.require_inside(format!("{func}: {text}: needed from, to, given from, to"), i, &given);
            self.require_domain(func, d, i, &given, &text);
        } else if b.min.is_none() && !self.facts.proves_le(&i.max, &given.max) {
            let most = self.facts.upper(&i.extent()).map_or("any number of".into(), |n| n.to_string());
            let rule = format!("{most} coordinates may be needed at {}", level_text(level));
            return Err(illegal(&f.stages[0].id, text, rule));
        }
        *i = given;
        Ok(())
    }

    fn require_inside(&mut self, message: String, needed: &Interval, given: &Interval) {
        let conds = [build::le(&given.min, &needed.min), build::le(&needed.max, &given.max)];
        let args = [&needed.min, &needed.max, &given.min, &given.max].map(Expr::clone);
        let check = self.check(&conds, message, &args);
        self.bound_checks.extend(check);
    }

    /// An output's region is its buffer, neither more nor less: known from here on.
    fn require_domain(&mut self, func: &Name, d: usize, domain: &Interval, given: &Interval, text: &str) {
        if self.plan.funcs[func].output.is_none() {
            return;
        }
        let equal = [build::le(&given.max, &domain.max), build::le(&domain.min, &given.min)];
        let message = format!("{func}: {text}: the extent of dimension {d} of the output differs, it is");
        let extent = offset(&sub(&domain.max, &domain.min), 1);
        let check = self.check(&equal, message, &[extent]);
        self.bound_checks.extend(check);
        self.facts.assume(&domain.max.le(&given.max));
        self.facts.assume(&given.max.le(&domain.max));
    }

    /// What was required so far, and of Funcs computed further in.
    pub fn take_bound_checks(&mut self) -> Result<Vec<Stmt>, Error> {
        let plan = self.plan;
        for f in plan.funcs.values() {
            if f.compute != Level::Root && f.bound.iter().flatten().any(|b| b.min.is_some()) {
                self.region(&f.func.name, &Level::Root)?;
            }
        }
        Ok(std::mem::take(&mut self.bound_checks))
    }
}
