//! Updates that destroy what their own derivatives need: products, recurrences in place, histograms with a factor.
//!
//! Such an update is run again by a Func with one more dimension, the step: element (u, t) is that of u behind t iterations. Dimensions that
//! every access leaves to their own pure variables do not interact; of the others each step copies all that it does not write.
//! The adjoint of that Func goes back step by step.

use crate::analysis::algebra::Interval;
use crate::analysis::algebra::build::{max, mul, offset};
use crate::analysis::evaluate::evaluate;
use crate::error::Error;
use crate::expr::walk::substitute;
use crate::expr::{Expr, Name};
use crate::func::{Func, RDom, RVar, Var};
use crate::gradient::adjoints::{Reverse, reread};
use crate::gradient::reverse::selected;
use crate::gradient::terms::{Adjoint, fresh};
use crate::gradient::tidy::tidy;
use crate::gradient::updates::Site;
use crate::plan::validate::{error, is_var};
use crate::types::ScalarType;
use rustc_hash::FxHashMap;

/// The iterations of an update as one sequence.
struct Steps {
    /// Dimensions of the Func, and the step.
    vars: Vec<Var>,
    /// Coordinates of an element that a step is asked about: pure variables, and loops over the other dimensions.
    element: Vec<Expr>,
    /// Those loops, then the iterations.
    loops: Vec<RVar>,
    /// Number of the iteration, from 0.
    number: Expr,
    /// Number of iterations.
    count: Expr,
    /// Iterations that count.
    counts: Option<Expr>,
}

impl Reverse<'_> {
    /// See the module's description; as [`Reverse::update`].
    pub(super) fn steps(&mut self, site: &Site, d: Adjoint) -> Result<Adjoint, Error> {
        let s = self.sequence(site)?;
        self.fits(site, &s)?;
        let states = self.states(site, &s);
        let now = |e: &Expr| at_step(e, &site.f.name, &states, &s.number);
        let back = self.backwards(site, &s, &d, &states)?;
        let behind = offset(&s.number, 1);
        let written: Vec<Expr> = site.u.args.iter().map(now).collect();
        let seeds = site.floats().filter_map(|(j, v)| {
            let at: Vec<Expr> = written.iter().cloned().chain([behind.clone()]).collect();
            Some((now(v), back.at(&at, j)?))
        });
        let mut space = site.space.clone();
        space.predicate = space.predicate.as_ref().map(now);
        self.spread(&Name::from(&*site.name), &space, seeds.collect())?;
        let name = fresh(self.p, &format!("d_{}_before{}", site.f.name, site.k));
        let own: Vec<Expr> = site.f.vars.iter().map(Var::expr).chain([Expr::from(0)]).collect();
        let next = d.map(name, |k, old| back.at(&own, k).unwrap_or(old));
        Ok(self.keep(next))
    }

    fn sequence(&self, site: &Site) -> Result<Steps, Error> {
        let hull = self.hull(&site.f.name, &site.space)?;
        let taken = |name: &str| {
            site.space.axes.iter().any(|a| *a.name == *name)
                || site.f.vars.iter().any(|v| **v.name() == *name)
        };
        let unused = |mut name: String| {
            while taken(&name) {
                name.push('_');
            }
            name
        };
        let step = Var::new(unused("step".into()));
        let (mut element, mut loops) = (vec![], vec![]);
        for ((v, a), i) in site.f.vars.iter().zip(&site.u.args).zip(&self.support[&site.f.name]) {
            if is_var(a, v.name()) {
                element.push(v.expr());
                continue;
            }
            let name: Name = unused(format!("{}_at", v.name())).into();
            element.push(Expr::var(name.clone()));
            loops.push(RVar { name, min: i.min.clone(), extent: i.extent() });
        }
        let mut counts = site.u.rdom.predicate.clone();
        for r in &site.u.rdom.vars {
            let range = &hull[&r.name];
            let v = Expr::var(r.name.clone());
            if (&range.min, &range.extent()) != (&r.min, &r.extent) {
                let own = r.min.le(&v).and(v.lt(&r.min + &r.extent));
                counts = Some(counts.map_or(own.clone(), |c| c.and(own)));
            }
            loops.push(RVar { name: r.name.clone(), min: range.min.clone(), extent: range.extent() });
        }
        let vars = site.f.vars.iter().copied().chain([step]).collect();
        // A length below zero is no iteration.
        let extents = site.u.rdom.vars.iter().map(|r| max(&hull[&r.name].extent(), &Expr::from(0)));
        let count = extents.fold(Expr::from(1), |n, e| mul(&n, &e));
        let number = self.number(site, ScalarType::I32)?;
        Ok(Steps { vars, element, loops, number, count, counts })
    }

    /// Refuses states, and the adjoints of all of them, beyond the memory that is allowed.
    fn fits(&self, site: &Site, s: &Steps) -> Result<(), Error> {
        let Some((allowed, known)) = &self.memory else { return Ok(()) };
        let mut extents = self.support[&site.f.name].iter().map(|i| evaluate(&i.extent(), known));
        let types = site.f.types();
        let bytes = types.iter().map(|t| t.bytes() * if t.is_float() { 2 } else { 1 }).sum::<usize>() as u64;
        let a_step = extents.try_fold(bytes, |n, e| Some(n.saturating_mul(e?.max(0) as u64)));
        let Some((a_step, n)) = a_step.zip(evaluate(&s.count, known)) else { return Ok(()) };
        let all = a_step.saturating_mul(n.max(0) as u64 + 1);
        if all <= *allowed {
            return Ok(());
        }
        let fit = (allowed / a_step.max(1)).saturating_sub(1);
        let message = format!(
            "{}: the states of {n} iterations and their adjoints take {all} bytes, {allowed} are allowed: {fit} iterations fit",
            self.reader
        );
        Err(error(self.p, message))
    }

    /// The Func of all states.
    fn states(&mut self, site: &Site, s: &Steps) -> Func {
        let before = self.before(site.f, site.k);
        let name = fresh(self.p, &format!("{}_steps", site.name));
        let own: Vec<Expr> = site.f.vars.iter().map(Var::expr).collect();
        let start = (0..site.f.values.len()).map(|k| before.at(&own, k)).collect();
        let f = Func::new(name, &s.vars, start);
        let hit = self.hit(site, s, &f, &s.number);
        let old: Vec<Expr> = s.element.iter().cloned().chain([s.number.clone()]).collect();
        let values = site.u.values.iter().enumerate().map(|(k, v)| {
            let new = at_step(v, &site.f.name, &f, &s.number);
            hit.as_ref().map_or(new.clone(), |hit| Expr::select(hit, &new, f.at(&old, k)))
        });
        let args = s.element.iter().cloned().chain([offset(&s.number, 1)]).collect();
        let rdom = RDom { vars: s.loops.clone(), predicate: None };
        let f = f.clone().update(args, values.collect(), rdom);
        let mut support = self.support[&site.f.name].clone();
        support.push(Interval { min: Expr::from(0), max: s.count.clone() });
        self.support.insert(f.name.clone(), support);
        self.p.func(f)
    }

    /// The condition that iteration `number` writes the element asked about; none if it always does.
    fn hit(&self, site: &Site, s: &Steps, states: &Func, number: &Expr) -> Option<Expr> {
        let now = |e: &Expr| at_step(e, &site.f.name, states, number);
        let same = site.u.args.iter().zip(&s.element).filter(|(a, e)| a != e).map(|(a, e)| e.eq_(now(a)));
        same.chain(s.counts.as_ref().map(now)).reduce(|a, b| a.and(b))
    }

    /// The adjoint of all states.
    fn backwards(&mut self, site: &Site, s: &Steps, d: &Adjoint, states: &Func) -> Result<Adjoint, Error> {
        let name = fresh(self.p, &format!("d_{}", states.name));
        let own: Vec<Expr> = site.f.vars.iter().map(Var::expr).collect();
        let step = s.vars[s.vars.len() - 1].expr();
        let is_last = step.eq_(&s.count);
        let start = d.func.values.iter().enumerate().map(|(k, v)| {
            let zero = Expr::constant(v.ty(), 0.0);
            Expr::select(&is_last, d.func.at(&own, k), zero)
        });
        let g = Adjoint::new(Func::new(name, &s.vars, start.collect()), &site.f.types());
        let now = |e: &Expr| at_step(e, &site.f.name, states, &s.number);
        let behind =
            |at: &[Expr]| -> Vec<Expr> { at.iter().cloned().chain([offset(&s.number, 1)]).collect() };
        let written: Vec<Expr> = site.u.args.iter().map(now).collect();
        let seeds = site.floats().filter_map(|(j, v)| Some((v.clone(), g.at(&behind(&written), j)?)));
        let seeds: Vec<(Expr, Expr)> = seeds.collect();
        let own_reads = self.reads(&seeds, &[site.f.name.clone()].into_iter().collect());
        let hit = self.hit(site, s, states, &s.number);
        let mut values = vec![];
        for (k, v) in site.f.values.iter().enumerate() {
            let Some(old) = g.at(&behind(&s.element), k) else { continue };
            let zero = Expr::constant(v.ty(), 0.0);
            // Elements that the iteration leaves alone keep their adjoint.
            let kept = hit.as_ref().map(|hit| Expr::select(hit, &zero, old));
            let added = own_reads.iter().filter(|r| r.value == k).map(|r| {
                let here = r.args.iter().zip(&s.element).filter(|(a, e)| a != e).map(|(a, e)| e.eq_(now(a)));
                let cond = here.chain(r.cond.as_ref().map(now)).chain(s.counts.as_ref().map(now));
                selected(&cond.reduce(|a, b| a.and(b)), now(&r.adjoint))
            });
            values.push(kept.into_iter().chain(added).reduce(|a, b| a + b).unwrap_or(zero));
        }
        let args: Vec<Expr> = s.element.iter().cloned().chain([s.number.clone()]).collect();
        // Last iteration first.
        let mut last_first: FxHashMap<Name, Expr> = FxHashMap::default();
        for r in s.loops.iter().filter(|r| site.u.rdom.vars.iter().any(|own| own.name == r.name)) {
            let v = Expr::var(r.name.clone());
            last_first.insert(r.name.clone(), tidy(&(&r.min * 2 + &r.extent - 1 - v)));
        }
        let turn = |e: &Expr| tidy(&substitute(e, &last_first));
        let args = args.iter().map(turn).collect();
        let values = values.iter().map(turn).collect();
        let rdom = RDom { vars: s.loops.clone(), predicate: None };
        let g = Adjoint::new(g.func.clone().update(args, values, rdom), &site.f.types());
        Ok(self.keep(g))
    }
}

/// `e` with the Func `f` as it is behind `number` iterations, innermost reads first.
fn at_step(e: &Expr, f: &Name, states: &Func, number: &Expr) -> Expr {
    reread(e, f, &mut |mut args, k, ty| {
        args.push(number.clone());
        Expr::call(states.name.clone(), ty, args, k)
    })
}
