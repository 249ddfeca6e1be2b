//! States of an update of which every k-th is kept: the k iterations from one to the next are a *block*, and are run again when it is
//! gone back through.
//!
//! | Func | has | of |
//! |---|---|---|
//! | `f_kept` | the state in front of each block; while one is run, the last two states of it | update |
//! | `f_steps` | all states of a block, from that in front of it | update |
//! | `d_f_kept` | the adjoint in front of each block, last block first; two while one is gone through | reads `f_steps` |
//! | `d_f_steps` | all adjoints of a block, from that behind it | reads `f_steps` |
//!
//! Invariant: every definition that reads `f_steps` or `d_f_steps` has the block as its outermost loop, reads no other block in an iteration of
//! it, and has these Funcs for itself. So a schedule may hold one block of them at a time ([`Pipeline::slices`](crate::func::Pipeline::slices)), which
//! [`schedule`](crate::gradient::schedule) does; without directives they are stored as a whole.

use crate::analysis::algebra::Interval;
use crate::analysis::algebra::build::{add, min, mul, offset, sub};
use crate::analysis::evaluate::evaluate;
use crate::error::Error;
use crate::expr::{Expr, Name};
use crate::func::{Func, RVar, Update, Var};
use crate::gradient::adjoints::{Reverse, reads_func, renamed, reread};
use crate::gradient::space::{Axis, Space};
use crate::gradient::steps::{Backwards, Moment, Steps, Track, start_of, unused};
use crate::gradient::support::Stage;
use crate::gradient::terms::{Adjoint, fresh};
use crate::gradient::tidy::tidy;
use crate::gradient::updates::Site;
use crate::plan::validate::error;
use rustc_hash::FxHashMap;

/// Iterations of a block at most, so that a multiple of them behind the last iteration is an i32, too; longer blocks would save next to nothing.
const LONGEST_BLOCK: u32 = 1 << 24;

/// Memory of the states of an update and of their adjoints.
struct Bytes {
    /// Of one state.
    a_step: u64,
    /// Number of iterations.
    steps: u64,
}

impl Bytes {
    fn of_all(&self) -> u64 {
        self.a_step.saturating_mul(self.steps + 1)
    }

    fn of_every(&self, k: u64) -> u64 {
        self.a_step.saturating_mul(2 * (self.steps.div_ceil(k) + 1) + k + 1)
    }

    /// Words on what takes more than `allowed`: all states, or every k-th with those of a block. None if it does not.
    fn why_beyond(&self, allowed: u64, every: Option<u64>) -> Option<String> {
        let (steps, best) = (self.steps, (2 * self.steps).isqrt().max(1));
        let taken = every.map_or(self.of_all(), |k| self.of_every(k));
        if taken <= allowed {
            return None;
        }
        let fit = (allowed / self.a_step.max(1)).saturating_sub(1);
        let blocks = self.of_every(best);
        let instead =
            if blocks <= allowed { format!(", or all with every {} kept", nth(best)) } else { String::new() };
        Some(match every {
            None => format!(
                "the states of {steps} iterations and their adjoints take {taken} bytes, {allowed} are allowed: {fit} iterations fit{instead}"
            ),
            Some(k) => format!(
                "every {} state of {steps} iterations, those between two of them, and their adjoints take {taken} bytes, {allowed} are allowed: every {} takes {blocks}",
                nth(k),
                nth(best)
            ),
        })
    }
}

/// A number as an ordinal: 1st, 2nd, 3rd, 4th.
fn nth(n: u64) -> String {
    let end = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{end}")
}

/// The iterations of a Func in blocks.
struct Blocks {
    /// Iterations of a block.
    k: Expr,
    /// Number of blocks; the last one may be shorter.
    count: Expr,
    step: Name,
    block: Name,
}

impl Reverse<'_> {
    /// The k of which every k-th state is kept; none: all are. Refuses states, and the adjoints of all of them, beyond the memory that is allowed.
    pub(super) fn kept_every(&self, site: &Site, s: &Steps) -> Result<Option<i32>, Error> {
        let Some(allowed) = &self.memory else { return Ok(None) };
        let every = allowed.every.map(|k| k.min(LONGEST_BLOCK) as i32);
        let every = every.filter(|k| s.count.as_int().is_none_or(|n| n > i64::from(*k)));
        let known = |e: &Expr| evaluate(e, &allowed.known);
        let mut extents = self.support[&site.f.name].iter().map(|i| known(&i.extent()));
        let types = site.f.types();
        let bytes = types.iter().map(|t| t.bytes() * if t.is_float() { 2 } else { 1 }).sum::<usize>() as u64;
        let a_step = extents.try_fold(bytes, |n, e| Some(n.saturating_mul(e?.max(0) as u64)));
        let Some((a_step, steps)) = a_step.zip(known(&s.count)) else { return Ok(every) };
        let bytes = Bytes { a_step, steps: steps.max(0) as u64 };
        match bytes.why_beyond(allowed.bytes, every.map(|k| k as u64)) {
            None => Ok(every),
            Some(why) => Err(error(self.p, format!("{}: {why}", self.reader))),
        }
    }

    /// Every k-th state and adjoint, and those of one block after the other.
    pub(super) fn by_slices<'t>(
        &mut self,
        site: &Site,
        s: &Steps,
        (track, k): (&'t Track, i32),
        before: &Func,
        d: &Adjoint,
    ) -> Result<(Moment<'t>, Backwards), Error> {
        let blocks = s.blocks(site, k);
        let [kept, kept_back] = blocks.kept(site, track);
        let own: Vec<Expr> = site.f.vars.iter().map(Var::expr).collect();
        let at = |time: [Expr; 2]| -> Vec<Expr> { own.iter().cloned().chain(time).collect() };
        let elements = 0..site.f.values.len();
        let start = elements.clone().map(|k| before.at(&own, k)).collect();
        let name = format!("{}_kept", site.name);
        let ends = self.states(site, s, &kept, &name, start);
        let [state, block] = [0, 1].map(|i| track.times[i].expr());
        let zero = Expr::from(0);
        let in_front = at([block.clone(), zero.clone()]);
        let start = elements.map(|k| ends.at(&in_front, k)).collect();
        let states = self.states(site, s, track, &format!("{}_steps", site.name), start);
        let moment = Moment { track, states, at: track.before.clone() };
        let [last, plane] = [0, 1].map(|i| kept.times[i].expr());
        let is_end = last.eq_(&blocks.count).and(plane.eq_(0));
        let start = start_of(&is_end, d, &own);
        let first = self.backwards(site, s, &moment, &kept_back, &format!("d_{name}"), start)?;
        let is_end = state.eq_(&blocks.k);
        let behind = at([offset(&block, 1), zero.clone()]);
        let start = start_of(&is_end, &first, &behind);
        let name = format!("d_{}", moment.states.name);
        let adjoints = self.backwards(site, s, &moment, track, &name, start)?;
        self.p.slices.extend([moment.states.name.clone(), adjoints.func.name.clone()]);
        self.blocks.push([moment.states.name.clone(), adjoints.func.name.clone()]);
        let space = blocks.space(site, track);
        Ok((moment, Backwards { adjoints, first: (first, vec![zero.clone(), zero]), space }))
    }

    /// Gives each definition behind the first that reads the states or adjoints of blocks Funcs for these of its own.
    pub(super) fn unshare(&mut self) {
        let blocks = std::mem::take(&mut self.blocks);
        if blocks.is_empty() {
            return;
        }
        for [states, adjoints] in blocks {
            let mut used = false;
            for name in self.p.funcs.keys().cloned().collect::<Vec<_>>() {
                for stage in 0..=self.p.funcs[&name].updates.len() {
                    let f = &self.p.funcs[&name];
                    let reads =
                        |of: &Name| *of != name && Stage::all(f)[stage].exprs().any(|e| reads_func(e, of));
                    let reads_adjoints = reads(&adjoints);
                    if name == states || name == adjoints || !reads_adjoints && !reads(&states) {
                        continue;
                    }
                    if std::mem::replace(&mut used, true) {
                        let changed =
                            self.with_own(f.clone(), stage, &states, reads_adjoints.then_some(&adjoints));
                        self.p.funcs.insert(name.clone(), changed);
                    }
                }
            }
        }
        let funcs = &self.p.funcs;
        let (of, stages) = (self.adjoints.of.values_mut(), self.adjoints.stages.values_mut());
        of.chain(stages).for_each(|f| f.clone_from(&funcs[&f.name]));
    }

    /// `f`, of which definition `stage` reads copies of these.
    fn with_own(&mut self, f: Func, stage: usize, states: &Name, adjoints: Option<&Name>) -> Func {
        let mut own: Vec<(Name, Name)> = vec![];
        for name in [Some(states), adjoints].into_iter().flatten() {
            let new = fresh(self.p, name);
            let mut copy = renamed(&self.p.funcs[name], &new);
            for (old, new) in &own {
                for stage in 0..=copy.updates.len() {
                    copy = reading(copy, stage, old, new);
                }
            }
            self.p.func(copy);
            self.p.slices.insert(new.clone());
            if self.p.stored.contains(name) {
                self.p.stored.insert(new.clone());
                self.adjoints.made.insert(new.clone());
            }
            own.push((name.clone(), new));
        }
        own.iter().fold(f, |f, (old, new)| reading(f, stage, old, new))
    }
}

/// `f`, of which definition `stage` reads `new` instead of `old`.
fn reading(mut f: Func, stage: usize, old: &Name, new: &Name) -> Func {
    let call = |e: &Expr| reread(e, old, &mut |args, k, ty| Expr::call(new.clone(), ty, args, k));
    match stage.checked_sub(1).map(|k| &mut f.updates[k]) {
        None => f.values.iter_mut().for_each(|v| *v = call(v)),
        Some(Update { args, values, rdom }) => {
            args.iter_mut().chain(values).chain(&mut rdom.predicate).for_each(|e| *e = call(e));
        }
    }
    f
}

impl Steps {
    fn blocks(&self, site: &Site, k: i32) -> Blocks {
        let [step, block] = ["step", "block"].map(|name| Name::from(unused(site, name.into())));
        let count = (offset(&self.count, i64::from(k - 1))) / k;
        Blocks { k: Expr::from(k), count: tidy(&count), step, block }
    }

    /// All states of one block, by number within it and number of the block.
    pub(super) fn slice(&self, site: &Site, k: i32) -> Track {
        let blocks = self.blocks(site, k);
        let (step, block) = (Expr::var(blocks.step.clone()), Expr::var(blocks.block.clone()));
        let number = add(&mul(&block, &blocks.k), &step);
        let is_whole = sub(&mul(&blocks.count, &blocks.k), &self.count).as_int() == Some(0);
        // Behind the end nothing counts, and the last iteration is looked at.
        let inside = if is_whole { number.clone() } else { min(&number, &offset(&self.count, -1)) };
        let counts = (!is_whole).then(|| number.lt(&self.count));
        let counts = self.counts.iter().cloned().chain(counts).reduce(|a, b| a.and(b));
        let (mut point, mut rest) = (FxHashMap::default(), inside);
        for (i, r) in self.loops.iter().enumerate() {
            let is_last = i + 1 == self.loops.len();
            let own = if is_last { rest.clone() } else { rest.modulo(&r.extent) };
            point.insert(r.name.clone(), add(&r.min, &own));
            rest = &rest / &r.extent;
        }
        let zero = Expr::from(0);
        let range = |max: Expr| Interval { min: zero.clone(), max };
        Track {
            times: vec![Var::new(unused(site, "state".into())), Var::new(&*blocks.block)],
            support: vec![range(blocks.k.clone()), range(offset(&blocks.count, -1))],
            loops: vec![RVar { name: blocks.step, min: zero.clone(), extent: blocks.k }],
            point,
            counts,
            before: vec![step.clone(), block.clone()],
            behind: vec![offset(&step, 1), block],
        }
    }
}

impl Blocks {
    /// The states in front of blocks, and their adjoints. Inside of a block states go by turns into the two planes of the next one, up
    /// to that in front of it; adjoints into the two of the block itself.
    fn kept(&self, site: &Site, slice: &Track) -> [Track; 2] {
        let [step, block] = [&self.step, &self.block].map(|name| Expr::var(name.clone()));
        let next = offset(&step, 1);
        let left = sub(&self.k, &step);
        let is_inside = &block + offset(&add(&step, &self.k), -1) / &self.k;
        let zero = Expr::from(0);
        let over = RVar { name: self.block.clone(), min: zero.clone(), extent: self.count.clone() };
        let forward = Track {
            times: ["kept", "plane"].map(|name| Var::new(unused(site, name.into()))).to_vec(),
            support: vec![
                Interval { min: zero.clone(), max: self.count.clone() },
                Interval { min: zero, max: Expr::from(1) },
            ],
            loops: slice.loops.iter().cloned().chain([over]).collect(),
            point: slice.point.clone(),
            counts: slice.counts.clone(),
            before: vec![is_inside, min(&step, &left.modulo(2))],
            behind: vec![offset(&block, 1), offset(&left, -1).modulo(2)],
        };
        let back = Track {
            before: vec![block.clone(), step.modulo(2)],
            behind: vec![&block + &next / &self.k, next.modulo(&self.k).modulo(2)],
            ..forward.clone()
        };
        [forward, back]
    }

    /// The update's pure loops, inside of those over the iterations.
    fn space(&self, site: &Site, slice: &Track) -> Space {
        let is_pure = |a: &&Axis| !site.u.rdom.vars.iter().any(|r| r.name == a.name);
        let zero = Expr::from(0);
        let [steps, blocks] =
            [&self.k, &self.count].map(|n| Interval { min: zero.clone(), max: offset(n, -1) });
        let held = [(&self.step, steps), (&self.block, blocks)].map(|(name, range)| Axis {
            name: name.clone(),
            range,
            is_held: true,
        });
        let axes = site.space.axes.iter().filter(is_pure).cloned().chain(held).collect();
        Space { axes, predicate: slice.counts.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::nth;

    #[test]
    fn ordinals() {
        let all = [1, 2, 3, 4, 11, 12, 13, 22, 44, 101, 112].map(nth);
        let expected = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "22nd", "44th", "101st", "112th"];
        assert_eq!(all, expected);
    }
}
