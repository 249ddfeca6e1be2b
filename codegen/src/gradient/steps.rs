//! Updates that destroy what their own derivatives need: products, recurrences in place, histograms with a factor.
//!
//! Such an update is run again by a Func with one more dimension, the step: element (u, t) is that of u behind t iterations. Dimensions that
//! every access leaves to their own pure variables do not interact; of the others each step copies all that it does not write.
//! The adjoint of that Func goes back step by step. Where a memory is given, only every k-th state may be kept (`checkpoints`).

use crate::analysis::algebra::Interval;
use crate::analysis::algebra::build::{max, mul, offset};
use crate::error::Error;
use crate::expr::walk::substitute;
use crate::expr::{Expr, Name};
use crate::func::{Func, RDom, RVar, Var};
use crate::gradient::adjoints::{Reverse, reread};
use crate::gradient::reverse::selected;
use crate::gradient::space::Space;
use crate::gradient::terms::{Adjoint, fresh};
use crate::gradient::tidy::tidy;
use crate::gradient::updates::Site;
use crate::plan::validate::is_var;
use crate::types::ScalarType;
use rustc_hash::FxHashMap;

/// The iterations of an update as one sequence.
pub(super) struct Steps {
    /// Coordinates of an element that a step is asked about: pure variables, and loops over the other dimensions.
    element: Vec<Expr>,
    /// Those loops.
    over: Vec<RVar>,
    /// The iterations' own, without variables in their bounds.
    pub loops: Vec<RVar>,
    /// Number of the iteration, from 0.
    number: Expr,
    /// Number of iterations.
    pub count: Expr,
    /// Iterations that count.
    pub counts: Option<Expr>,
}

/// A Func's way of telling which state of an update, or adjoint of one, an element belongs to: coordinates behind those of the element.
#[derive(Clone)]
pub(super) struct Track {
    /// The latter's variables.
    pub times: Vec<Var>,
    /// Their values.
    pub support: Vec<Interval>,
    /// Loops over the iterations, from the innermost out.
    pub loops: Vec<RVar>,
    /// The iteration: the update's own loops, in terms of those. They are their own where they are not here.
    pub point: FxHashMap<Name, Expr>,
    /// Iterations that count, in terms of the update's own loops or of these.
    pub counts: Option<Expr>,
    /// Times before and behind an iteration.
    pub before: Vec<Expr>,
    pub behind: Vec<Expr>,
}

/// An iteration with the states that it finds.
pub(super) struct Moment<'a> {
    pub track: &'a Track,
    pub states: Func,
    /// The time before the iteration, as `states` tells it.
    pub at: Vec<Expr>,
}

/// The way back through all iterations.
pub(super) struct Backwards {
    /// The adjoints of the states, by which values are seeded.
    pub adjoints: Adjoint,
    /// The adjoints of the first state, and the time there.
    pub first: (Adjoint, Vec<Expr>),
    /// The loops over the iterations.
    pub space: Space,
}

impl Moment<'_> {
    /// `e`, of the update's own loops and its Func `f`, as it is in the iteration.
    fn now(&self, e: &Expr, f: &Name) -> Expr {
        reread(&substitute(e, &self.track.point), f, &mut |mut args, k, ty| {
            args.extend(self.at.iter().cloned());
            Expr::call(self.states.name.clone(), ty, args, k)
        })
    }

    /// The condition that the iteration writes the element asked about; none if it always does.
    fn hit(&self, site: &Site, s: &Steps) -> Option<Expr> {
        let now = |e: &Expr| self.now(e, &site.f.name);
        let same = site.u.args.iter().zip(&s.element).filter(|(a, e)| a != e).map(|(a, e)| e.eq_(now(a)));
        same.chain(self.track.counts.as_ref().map(now)).reduce(|a, b| a.and(b))
    }
}

impl Reverse<'_> {
    /// See the module's description; as [`Reverse::update`].
    pub(super) fn steps(&mut self, site: &Site, d: Adjoint) -> Result<Adjoint, Error> {
        let s = self.sequence(site)?;
        let every = self.kept_every(site, &s)?;
        let before = self.before(site.f, site.k);
        let track = every.map_or_else(|| s.all(site), |k| s.slice(site, k));
        let (moment, back) = match every {
            None => self.by_all(site, &s, &track, &before, &d)?,
            Some(k) => self.by_slices(site, &s, (&track, k), &before, &d)?,
        };
        let now = |e: &Expr| moment.now(e, &site.f.name);
        let written: Vec<Expr> = site.u.args.iter().map(now).chain(track.behind.iter().cloned()).collect();
        let seeds = site.floats().filter_map(|(j, v)| Some((now(v), back.adjoints.at(&written, j)?)));
        let mut space = back.space;
        space.predicate = space.predicate.as_ref().map(now);
        self.spread(&Name::from(&*site.name), &space, seeds.collect())?;
        let name = fresh(self.p, &format!("d_{}_before{}", site.f.name, site.k));
        let (first, start) = back.first;
        let own: Vec<Expr> = site.f.vars.iter().map(Var::expr).chain(start).collect();
        let next = d.map(name, |k, old| first.at(&own, k).unwrap_or(old));
        Ok(self.keep(next))
    }

    fn sequence(&self, site: &Site) -> Result<Steps, Error> {
        let hull = self.hull(&site.f.name, &site.space)?;
        let (mut element, mut over) = (vec![], vec![]);
        for ((v, a), i) in site.f.vars.iter().zip(&site.u.args).zip(&self.support[&site.f.name]) {
            if is_var(a, v.name()) {
                element.push(v.expr());
                continue;
            }
            let name: Name = unused(site, format!("{}_at", v.name())).into();
            element.push(Expr::var(name.clone()));
            over.push(RVar { name, min: i.min.clone(), extent: i.extent() });
        }
        let mut counts = site.u.rdom.predicate.clone();
        let mut loops = vec![];
        for r in &site.u.rdom.vars {
            let range = &hull[&r.name];
            let v = Expr::var(r.name.clone());
            if (&range.min, &range.extent()) != (&r.min, &r.extent) {
                let own = r.min.le(&v).and(v.lt(&r.min + &r.extent));
                counts = Some(counts.map_or(own.clone(), |c| c.and(own)));
            }
            loops.push(RVar { name: r.name.clone(), min: range.min.clone(), extent: range.extent() });
        }
        // A length below zero is no iteration.
        let extents = loops.iter().map(|r| max(&r.extent, &Expr::from(0)));
        let count = extents.fold(Expr::from(1), |n, e| mul(&n, &e));
        let number = self.number(site, ScalarType::I32)?;
        Ok(Steps { element, over, loops, number, count, counts })
    }

    /// All states and all adjoints, each in one Func.
    fn by_all<'t>(
        &mut self,
        site: &Site,
        s: &Steps,
        track: &'t Track,
        before: &Func,
        d: &Adjoint,
    ) -> Result<(Moment<'t>, Backwards), Error> {
        let own: Vec<Expr> = site.f.vars.iter().map(Var::expr).collect();
        let start = (0..site.f.values.len()).map(|k| before.at(&own, k)).collect();
        let states = self.states(site, s, track, &format!("{}_steps", site.name), start);
        let moment = Moment { track, states, at: track.before.clone() };
        let name = format!("d_{}", moment.states.name);
        let is_last = track.times[0].expr().eq_(&s.count);
        let adjoints = self.backwards(site, s, &moment, track, &name, start_of(&is_last, d, &own))?;
        let first = (adjoints.clone(), vec![Expr::from(0)]);
        Ok((moment, Backwards { adjoints, first, space: site.space.clone() }))
    }

    /// The Func of the states along `track`, from `start` on.
    pub(super) fn states(
        &mut self,
        site: &Site,
        s: &Steps,
        track: &Track,
        name: &str,
        start: Vec<Expr>,
    ) -> Func {
        let vars: Vec<Var> = site.f.vars.iter().chain(&track.times).copied().collect();
        let f = Func::new(fresh(self.p, name), &vars, start);
        let moment = Moment { track, states: f.clone(), at: track.before.clone() };
        let hit = moment.hit(site, s);
        let old: Vec<Expr> = s.element.iter().chain(&track.before).cloned().collect();
        let values = site.u.values.iter().enumerate().map(|(k, v)| {
            let new = moment.now(v, &site.f.name);
            hit.as_ref().map_or(new.clone(), |hit| Expr::select(hit, &new, f.at(&old, k)))
        });
        let values = values.collect();
        let args = s.element.iter().chain(&track.behind).cloned().collect();
        let loops = s.over.iter().chain(&track.loops).cloned().collect();
        let f = f.update(args, values, RDom { vars: loops, predicate: None });
        let support = self.support[&site.f.name].iter().chain(&track.support).cloned().collect();
        self.support.insert(f.name.clone(), support);
        self.p.func(f)
    }

    /// The Func of the adjoints along `track`, from `start` at its end on; iterations find the states of `moment`.
    pub(super) fn backwards(
        &mut self,
        site: &Site,
        s: &Steps,
        moment: &Moment,
        track: &Track,
        name: &str,
        start: Vec<Expr>,
    ) -> Result<Adjoint, Error> {
        let vars: Vec<Var> = site.f.vars.iter().chain(&track.times).copied().collect();
        let g = Adjoint::new(Func::new(fresh(self.p, name), &vars, start), &site.f.types());
        let now = |e: &Expr| moment.now(e, &site.f.name);
        let behind = |at: &[Expr]| -> Vec<Expr> { at.iter().chain(&track.behind).cloned().collect() };
        let written: Vec<Expr> = site.u.args.iter().map(now).collect();
        let seeds = site.floats().filter_map(|(j, v)| Some((v.clone(), g.at(&behind(&written), j)?)));
        let seeds: Vec<(Expr, Expr)> = seeds.collect();
        let own_reads = self.reads(&seeds, &[site.f.name.clone()].into_iter().collect());
        let hit = moment.hit(site, s);
        let mut values = vec![];
        for (k, v) in site.f.values.iter().enumerate() {
            let Some(old) = g.at(&behind(&s.element), k) else { continue };
            let zero = Expr::constant(v.ty(), 0.0);
            // Elements that the iteration leaves alone keep their adjoint.
            let kept = hit.as_ref().map(|hit| Expr::select(hit, &zero, old));
            let added = own_reads.iter().filter(|r| r.value == k).map(|r| {
                let here = r.args.iter().zip(&s.element).filter(|(a, e)| a != e).map(|(a, e)| e.eq_(now(a)));
                let cond = here.chain(r.cond.as_ref().map(now)).chain(track.counts.as_ref().map(now));
                selected(&cond.reduce(|a, b| a.and(b)), now(&r.adjoint))
            });
            values.push(kept.into_iter().chain(added).reduce(|a, b| a + b).unwrap_or(zero));
        }
        let args: Vec<Expr> = s.element.iter().chain(&track.before).cloned().collect();
        // Last iteration first.
        let mut last_first: FxHashMap<Name, Expr> = FxHashMap::default();
        for r in &track.loops {
            let v = Expr::var(r.name.clone());
            last_first.insert(r.name.clone(), tidy(&(&r.min * 2 + &r.extent - 1 - v)));
        }
        let turn = |e: &Expr| tidy(&substitute(e, &last_first));
        let args = args.iter().map(turn).collect();
        let values = values.iter().map(turn).collect();
        let vars = s.over.iter().chain(&track.loops).cloned().collect();
        let g = g.func.clone().update(args, values, RDom { vars, predicate: None });
        Ok(self.keep(Adjoint::new(g, &site.f.types())))
    }
}

impl Steps {
    /// All states, by the number of iterations behind which they are.
    fn all(&self, site: &Site) -> Track {
        Track {
            times: vec![Var::new(unused(site, "step".into()))],
            support: vec![Interval { min: Expr::from(0), max: self.count.clone() }],
            loops: self.loops.clone(),
            point: FxHashMap::default(),
            counts: self.counts.clone(),
            before: vec![self.number.clone()],
            behind: vec![offset(&self.number, 1)],
        }
    }
}

/// The adjoints `d` where `is_last`, elsewhere 0.
pub(super) fn start_of(is_last: &Expr, d: &Adjoint, own: &[Expr]) -> Vec<Expr> {
    let at = |(k, v): (usize, &Expr)| Expr::select(is_last, d.func.at(own, k), Expr::constant(v.ty(), 0.0));
    d.func.values.iter().enumerate().map(at).collect()
}

/// `name`, or that with as many underscores as it takes to be none of the update's.
pub(super) fn unused(site: &Site, mut name: String) -> String {
    let taken = |name: &str| {
        site.space.axes.iter().any(|a| *a.name == *name) || site.f.vars.iter().any(|v| **v.name() == *name)
    };
    while taken(&name) {
        name.push('_');
    }
    name
}
