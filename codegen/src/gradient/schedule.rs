//! A first schedule, from sizes alone.
//!
//! Made for gradients, where sums over a whole domain and sums over a few elements of each stand side by side, but right for any pipeline:
//!
//! | Func | gets |
//! |---|---|
//! | cheap with all that is substituted into it, or read at one place by one other | nothing: it is substituted where it is read |
//! | a sum of which one other Func reads each element once | that Func's loop over vectors |
//! | one of which slices are read one after the other ([`Pipeline::slices`]) | the loop over slices of the definition that reads it |
//! | others | loops of its own: vectors along the first dimension, threads along the last, along further ones while tasks are few |
//! | an update with pure dimensions | the same, its reductions inside of the vectors, few of them written out, the others row by row; no vectors where what lies before its first pure dimension moves |
//! | one whose updates go along some dimension to places that the first dimension and data choose | vectors along another dimension, which its storage begins with |
//! | a large sum at coordinates that are data, one of which stays near its loop | strips of that dimension, on threads, each gathered from the iterations that reach it |
//! | another large sum at coordinates that are data | strips along its last loop, each with its own copy of all elements, on threads |
//! | a large sum into few elements | strips along its last loop, on threads, each with its own sums in registers (`strips`) |
//!
//! Source: T.-M. Li et al., "Differentiable programming for image processing and deep learning in Halide", 2018, section 4.4.

use crate::analysis::algebra::Interval;
use crate::analysis::associative::Reduction;
use crate::analysis::evaluate::{Constants, Known, evaluate};
use crate::analysis::intervals::unfolded;
use crate::error::Error;
use crate::expr::walk::{nodes, substitute, variables};
use crate::expr::{Expr, ExprKind, Name};
use crate::func::{Func, Pipeline, RDom, RVar, Update};
use crate::gradient::seeds::domain;
use crate::gradient::space::{Space, interval};
use crate::gradient::strips::{ACCUMULATORS, ENOUGH, parts};
use crate::gradient::support::{Boxes, Stage, consumers_first, known, supports};
use crate::gradient::terms::FEW_ITERATIONS;
use crate::lower::check;
use crate::plan::validate::{error, is_var, validate};
use crate::schedule::{Directive, LoopLevel, Schedule, StageId, Tail};
use rustc_hash::{FxHashMap, FxHashSet};

/// Nodes up to which a definition is cheaper than a load.
const CHEAP: usize = 24;
/// Points from which on threads are worth their start.
const MANY: i64 = 1 << 14;
/// Terms from which on a few sums, many terms together, are worth their start, too.
pub(super) const LONG: i64 = 1 << 12;
/// Elements up to which each thread may have sums of its own.
const FEW: i64 = 1 << 12;
/// Tasks from which on no further loop is shared among threads.
const TASKS: i64 = 64;
/// Bytes of a vector.
const VECTOR: i32 = 32;
/// Bytes of a row whose elements may be half done while others are added to.
const ROW: i64 = 1 << 14;
/// Least length of a strip of what a sum adds to.
const SHORTEST: i64 = 16;
/// Lanes from which on vectors along another dimension than the first are worth it.
const LEAST_LANES: i32 = 4;

/// A schedule of `p`, as text and all. `estimates` are the extents of outputs, and of inputs where the algorithm mentions them; Funcs in
/// `keep` are stored, those in `recompute` are not.
///
/// # Errors
/// A pipeline that is refused anyway; a name that is no Func; a Func with updates in `recompute`.
pub fn schedule(
    p: &Pipeline,
    estimates: &[(&str, &[i32])],
    keep: &[&str],
    recompute: &[&str],
) -> Result<Schedule, Error> {
    Maker::over(p, estimates, keep, recompute, Maker::func)
}

impl<'p> Maker<'p> {
    /// The schedule of `p` in which `one` makes the directives of every Func that is stored. It is told of its home, as [`Maker::home`] has it.
    pub(super) fn over(
        p: &'p Pipeline,
        estimates: &[(&str, &[i32])],
        keep: &[&str],
        recompute: &[&str],
        one: impl Fn(&mut Maker<'p>, &Func, Option<Home>),
    ) -> Result<Schedule, Error> {
        validate(p)?;
        for name in keep.iter().chain(recompute) {
            let none = || error(p, format!("there is no Func {name} to keep or recompute"));
            let f = p.funcs.get(*name).ok_or_else(none)?;
            if recompute.contains(name) && !f.updates.is_empty() {
                let why = format!("{name} has updates and must be stored: it cannot be recomputed");
                return Err(error(p, why));
            }
        }
        let known = known(p, estimates);
        let known_or_large = |n: Option<i64>| n.unwrap_or(i64::from(i32::MAX));
        let sizes = sizes(&boxes(p, &known)?, &known).into_iter();
        let sizes = sizes.map(|(name, own)| (name, own.into_iter().map(known_or_large).collect())).collect();
        let (stored, substituted) = stored(p, keep, recompute);
        let mut m = Maker { p, sizes, known, substituted, schedule: Schedule::new() };
        for (name, f) in &p.funcs {
            if stored.contains(name) {
                let vectors = m.home(f, &stored, keep).map(|(reader, var)| Home::Vectors { reader, var });
                let slices = m.slices_home(f).filter(|_| !keep.contains(&&**name)).map(Home::Slices);
                one(&mut m, f, slices.or(vectors));
            } else if p.stored.contains(name) {
                _ = m.schedule.func(name).inline();
            }
        }
        legal(p, m.schedule)
    }
}

/// `s` without the directives that cannot be: each refusal takes those of its stage, loops first.
fn legal(p: &Pipeline, mut s: Schedule) -> Result<Schedule, Error> {
    loop {
        let refused = match check(p, &s) {
            Ok(()) => return Ok(s),
            Err(e) => e,
        };
        let Error::Schedule { func, .. } = &refused else { return Err(refused) };
        let stage = s.stages.iter().rposition(|(id, all)| {
            let is_loop = func.starts_with(&format!("{}.s{}.", id.func, id.stage));
            (id.to_string() == *func || is_loop) && all.iter().any(|d| *d != Directive::ComputeRoot)
        });
        let stage =
            stage.or_else(|| s.stages.keys().position(|id| func.starts_with(&*id.func) && id.stage > 0));
        let Some(stage) = stage else { return Err(refused) };
        let whole = whole_of(&s, &s.stages.keys()[stage]);
        if let Some(all) = s.stages.get_mut(&whole) {
            all.retain(|d| *d == Directive::ComputeRoot);
        }
        // The Funcs that a sum is cut into go with the sum.
        let parts = parts(&whole.func, whole.stage);
        s.stages.retain(|id, all| !parts.contains(&id.func) && !all.is_empty());
    }
}

/// The stage that was cut into the Func of `id`, if it is one that a sum was cut into; else `id`.
fn whole_of(s: &Schedule, id: &StageId) -> StageId {
    let is_whole = |whole: &&StageId| whole.stage > 0 && parts(&whole.func, whole.stage).contains(&id.func);
    s.stages.keys().find(is_whole).unwrap_or(id).clone()
}

/// Funcs that are not substituted, and of all others the nodes, those of what is substituted into them included. Invariant: one that is read
/// more than once and is substituted has no more than [`CHEAP`] of these; so chains of cheap Funcs do not grow without end.
fn stored(p: &Pipeline, keep: &[&str], recompute: &[&str]) -> (FxHashSet<Name>, FxHashMap<Name, usize>) {
    let mut stored = FxHashSet::default();
    let mut size: FxHashMap<Name, usize> = FxHashMap::default();
    for name in consumers_first(p, p.funcs.keys().cloned()).into_iter().rev() {
        let f = &p.funcs[&name];
        let below = calls(f).into_iter().filter_map(|(callee, _)| size.get(callee));
        let nodes = below.fold(nodes(&f.values).len(), |sum, n| sum.saturating_add(*n));
        let reads: usize =
            p.funcs.values().map(|g| calls(g).iter().filter(|(n, _)| **n == name).count()).sum();
        let is_output = p.outputs.iter().any(|o| o.func == name);
        let dear = reads > 1 && nodes > CHEAP && !recompute.contains(&&*name);
        if is_output || !f.updates.is_empty() || keep.contains(&&*name) || dear {
            stored.insert(name);
        } else {
            size.insert(name, nodes);
        }
    }
    (stored, size)
}

/// The boxes of all that the outputs need.
pub(super) fn boxes(p: &Pipeline, known: &Known) -> Result<Boxes, Error> {
    let domain = |name: &Name| domain(&p.shape(name), p.funcs[name].vars.len());
    let outputs = p.outputs.iter().map(|o| (o.func.clone(), domain(&o.func)));
    supports(p, &outputs.collect(), known)
}

/// Numbers of values along each dimension of boxes; none where it does not follow from what is known.
pub(super) fn sizes(boxes: &Boxes, known: &Known) -> FxHashMap<Name, Vec<Option<i64>>> {
    let mut constants = Constants::new(known);
    let mut size = |i: &Interval| Some(constants.of(&i.extent())?.as_int()?.max(0));
    boxes.iter().map(|(name, own)| (name.clone(), own.iter().map(&mut size).collect())).collect()
}

/// A loop of another Func in which one is computed.
pub(super) enum Home {
    /// Of its reader, over vectors along `var`.
    Vectors { reader: Name, var: Name },
    /// Over slices of it.
    Slices(LoopLevel),
}

/// A schedule in the making.
pub(super) struct Maker<'p> {
    p: &'p Pipeline,
    /// Numbers of values along each dimension of what is needed, as estimated.
    sizes: FxHashMap<Name, Vec<i64>>,
    /// Sizes, as estimated.
    pub known: Known,
    /// Funcs that are substituted, with their nodes.
    substituted: FxHashMap<Name, usize>,
    /// As far as it is made.
    pub schedule: Schedule,
}

impl Maker<'_> {
    /// Numbers of values along each dimension, as estimated; none of what nothing needs.
    pub(super) fn sizes(&self, f: &Func) -> Option<Vec<i64>> {
        self.sizes.get(&f.name).cloned()
    }

    /// The number of iterations of a loop, 1 where it is not known.
    pub(super) fn extent(&self, r: &RVar) -> i64 {
        evaluate(&r.extent, &self.known).unwrap_or(1).max(1)
    }

    pub(super) fn is_output(&self, f: &Func) -> bool {
        self.p.outputs.iter().any(|o| o.func == f.name)
    }

    fn func(&mut self, f: &Func, home: Option<Home>) {
        let Some(sizes) = self.sizes(f) else { return };
        let is_root = home.is_none();
        let level = home.map(|home| match home {
            Home::Vectors { reader, var } => LoopLevel::pure(&reader, &format!("{var}o")),
            Home::Slices(level) => level,
        });
        if let Some(level) = level {
            _ = self.schedule.func(&f.name).compute_at(level);
        } else if !self.is_output(f) {
            _ = self.schedule.func(&f.name).compute_root();
        }
        for (k, stage) in Stage::all(f).iter().enumerate() {
            let pure: Vec<usize> = (0..sizes.len()).filter(|&d| stage.is_pure(f, d)).collect();
            let update = k.checked_sub(1).map(|k| &f.updates[k]);
            match update.filter(|u| self.over_slices(u).is_none()) {
                Some(u) if self.is_large_sum(f, u, &sizes) => self.strips(f, k, u, &pure, &sizes),
                Some(u) => match self.reach(f, u, &sizes, &pure).filter(|_| is_root) {
                    Some((d, length)) => self.gathers(f, k, u, d, length),
                    None if self.is_large_scatter(f, u, &sizes, &pure) => self.copies(f, k, u),
                    None => self.loops(f, k, &pure, &sizes, is_root),
                },
                None => self.loops(f, k, &pure, &sizes, is_root),
            }
        }
    }

    /// The number of terms of an update that is a sum over a rectangle, in any order.
    fn terms(&self, f: &Func, u: &Update) -> Option<i64> {
        let reduction = Reduction::of(&f.name, &u.args, &u.values, u.rdom.predicate.as_ref());
        let terms = u.rdom.vars.iter().fold(1i64, |n, r| n.saturating_mul(self.extent(r)));
        let is_fixed = |r: &RVar| [&r.min, &r.extent].iter().all(|e| variables(e).is_empty());
        let is_rectangle = u.rdom.vars.iter().all(is_fixed);
        (reduction.is_some_and(|r| r.commutes()) && is_rectangle).then_some(terms)
    }

    /// Nodes of what an update computes, with all that is substituted into it.
    pub(super) fn nodes(&self, f: &Func, k: usize) -> usize {
        let u = &f.updates[k - 1];
        let own = nodes(u.args.iter().chain(&u.values)).len();
        let reads = calls_in(u.args.iter().chain(&u.values).chain(&u.rdom.predicate));
        let below = reads.into_iter().filter_map(|(name, _)| self.substituted.get(name));
        below.fold(own, |sum, n| sum.saturating_add(*n))
    }

    /// Bytes of so many elements.
    fn row(&self, f: &Func, elements: i64) -> i64 {
        f.types().iter().map(|t| t.bytes() as i64).sum::<i64>().saturating_mul(elements)
    }

    fn is_large_sum(&self, f: &Func, u: &Update, sizes: &[i64]) -> bool {
        let own = f.vars.iter().zip(&u.args).map(|(v, a)| is_var(a, v.name()));
        let sums = own.zip(sizes).filter(|(own, _)| *own).fold(1i64, |n, (_, &size)| n.saturating_mul(size));
        let large = |terms: i64| {
            terms >= MANY || terms >= LONG && sums <= ACCUMULATORS && terms.saturating_mul(sums) >= MANY
        };
        elements(sizes) <= FEW && self.terms(f, u).is_some_and(large)
    }

    /// Sums at coordinates that are data, so many that copies of all elements cost little beside them.
    fn is_large_scatter(&self, f: &Func, u: &Update, sizes: &[i64], pure: &[usize]) -> bool {
        let enough = |terms: i64| terms >= MANY && terms >= elements(sizes).saturating_mul(2);
        pure.is_empty() && self.terms(f, u).is_some_and(enough)
    }

    /// A dimension of a large sum at coordinates that are data, and the length of strips of it that few iterations of the last loop reach: bounds of
    /// its coordinate lie close together in each of these, and move along with it. None where other loops are tasks enough, or vectors.
    fn reach(&self, f: &Func, u: &Update, sizes: &[i64], pure: &[usize]) -> Option<(usize, i32)> {
        let tasks = pure.iter().fold(1i64, |n, &d| n.saturating_mul(sizes[d]));
        let terms = self.terms(f, u).map(|n| n.saturating_mul(tasks));
        let (last, others) = u.rdom.vars.split_last()?;
        let has_tasks = tasks >= ENOUGH || self.across(f, sizes).is_some();
        if has_tasks || others.is_empty() || terms.is_none_or(|n| n < MANY) {
            return None;
        }
        let (first, extent) = (evaluate(&last.min, &self.known)?, self.extent(last));
        let domain = RDom { vars: others.to_vec(), predicate: None };
        let ranges = Space::new(&[], &[], |_| false, &domain).hull(self.p).ok()?;
        let moving = (0..sizes.len()).filter(|d| !pure.contains(d) && sizes[*d] < i64::from(i32::MAX));
        let mut strips = moving.filter_map(|d| {
            let bounds = interval(self.p, &ranges, &unfolded(self.p, &u.args[d])).ok()?;
            let at = |row: i64, end: &Expr| {
                let by = [(last.name.clone(), Expr::from(i32::try_from(row).ok()?))].into_iter().collect();
                evaluate(&substitute(end, &by), &self.known)
            };
            let rows = [first, first + extent / 2, first + extent - 1];
            let ends = rows.map(|row| Some((at(row, &bounds.min)?, at(row, &bounds.max)?)));
            let [a, b, c] = ends.map(|end| end.map(|(min, max)| (min, max - min + 1)));
            let (a, b, c) = (a?, b?, c?);
            let reach = a.1.max(b.1).max(c.1);
            let is_enough = (c.0 - a.0).abs() >= sizes[d] / 2 && reach * 2 * ENOUGH <= sizes[d];
            let length = (reach * 8).min(sizes[d] / ENOUGH).max(SHORTEST);
            is_enough.then_some((d, length as i32))
        });
        strips.next()
    }

    fn loops(&mut self, f: &Func, k: usize, pure: &[usize], sizes: &[i64], is_root: bool) {
        let update = k.checked_sub(1).map(|k| &f.updates[k]);
        let reductions = update.map_or(&[][..], |u| &u.rdom.vars);
        let name = |d: usize| &**f.vars[d].name();
        // Elements of a vector lie beside each other, or at one distance.
        let is_fixed = |d: usize| update.is_none_or(|u| variables(&u.args[d]).is_empty());
        let first = pure.first().copied().filter(|&d| (0..d).all(is_fixed));
        let vector = first.filter(|&d| sizes[d] >= i64::from(lanes(f)));
        let across = self.across(f, sizes);
        let (vector, lanes) = across.map_or((vector, lanes(f)), |(d, lanes)| (Some(d), lanes));
        // Elements that lie beside each other in such a Func are read soon after each other.
        let beside = |(name, args): (&Name, &[Expr])| {
            let g = self.p.funcs.get(name)?;
            Some(variables(&args[self.across(g, &self.sizes(g)?)?.0]))
        };
        let reads = update.into_iter().flat_map(|u| calls_in(&u.values));
        let beside: FxHashSet<Name> = reads.filter_map(beside).flatten().collect();
        let others = pure.iter().filter(|d| vector != Some(**d));
        let (soon, late): (Vec<usize>, Vec<usize>) = others.partition(|d| beside.contains(name(**d)));
        let work = pure.iter().map(|&d| sizes[d]).chain(reductions.iter().map(|r| self.extent(r)));
        let work = work.fold(1i64, i64::saturating_mul);
        let slices = update.and_then(|u| self.over_slices(u));
        // Vectors at one place of the data share it; and no vector need wait until the long sum of another is complete, where all of them
        // wait in the first level of the cache.
        let waits = |d: usize| is_root && self.row(f, sizes[d]) <= ROW;
        let apart = across.is_some() || vector.is_some_and(waits);
        let mut handle = match k {
            0 => self.schedule.func(&f.name),
            k => self.schedule.update(&f.name, k - 1),
        };
        if let Some((d, _)) = across.filter(|_| k == 0) {
            let others = (0..sizes.len()).filter(|e| *e != d);
            handle = handle.reorder_storage(&[d].into_iter().chain(others).map(name).collect::<Vec<_>>());
        }
        if let Some(d) = vector {
            handle = handle.vectorize(name(d), lanes, if k == 0 { Tail::Auto } else { Tail::Predicate });
        }
        if !reductions.is_empty() && !pure.is_empty() {
            let [outer, inner] = ["o", "i"].map(|end| vector.map(|d| format!("{}{end}", name(d))));
            let near =
                if apart { update.into_iter().flat_map(written_out).count() } else { reductions.len() };
            let inside = reductions.len() - usize::from(slices.is_some());
            let near = near.min(inside);
            let mut order: Vec<&str> = reductions[..inside].iter().map(|r| &*r.name).collect();
            order.splice(near..near, soon.iter().map(|&d| name(d)).chain(outer.as_deref()));
            order.extend(late.iter().map(|&d| name(d)).chain(slices));
            let order: Vec<&str> = inner.as_deref().into_iter().chain(order).collect();
            handle = handle.reorder(&order);
        }
        handle = update.into_iter().flat_map(written_out).fold(handle, |handle, r| handle.unroll(&r.name));
        if is_root && work >= MANY {
            let mut tasks = 1;
            for &d in late.iter().rev() {
                if tasks >= TASKS {
                    break;
                }
                tasks = sizes[d].saturating_mul(tasks);
                handle = handle.parallel(name(d));
            }
        }
    }

    /// Another dimension than the first along which vectors of `f` lie, and their lanes: one by which no update moves, while each element of a vector
    /// along the first would go to a place of its own.
    fn across(&self, f: &Func, sizes: &[i64]) -> Option<(usize, i32)> {
        let moved = f.updates.iter().flat_map(|u| &u.args).filter(|a| !matches!(a.kind(), ExprKind::Var(_)));
        let moving: FxHashSet<Name> = moved.flat_map(variables).collect();
        let is_own = |d: usize| f.updates.iter().all(|u| is_var(&u.args[d], f.vars[d].name()));
        // The storage of an output is its caller's.
        let goes_apart =
            moving.contains(f.vars.first()?.name()) && self.p.outputs.iter().all(|o| o.func != f.name);
        let lanes = |d: usize| 1 << sizes[d].trailing_zeros().min(lanes(f).trailing_zeros());
        let mut others = (1..sizes.len()).filter(|&d| goes_apart && is_own(d) && lanes(d) >= LEAST_LANES);
        others.find(|&d| !moving.contains(f.vars[d].name())).map(|d| (d, lanes(d)))
    }

    /// The only Func that needs `f`, a sum, and every element of it once, and its first dimension, along which it has vectors.
    fn home(&self, f: &Func, stored: &FxHashSet<Name>, kept: &[&str]) -> Option<(Name, Name)> {
        let p = self.p;
        let own = self.sizes(f)?;
        let is_pure = |s: &Stage| (0..f.vars.len()).all(|d| s.is_pure(f, d));
        if f.updates.is_empty()
            || kept.contains(&&*f.name)
            || self.is_output(f)
            || !Stage::all(f).iter().all(is_pure)
            || f.updates.iter().any(|u| self.is_large_sum(f, u, &own))
        {
            return None;
        }
        let reads = |g: &Func| calls(g).into_iter().filter(|(name, _)| **name == f.name).count();
        let mut readers = p.funcs.values().filter(|g| g.name != f.name && reads(g) > 0);
        let (Some(g), None) = (readers.next(), readers.next()) else { return None };
        let first = g.vars.first().filter(|_| self.sizes(g).is_some_and(|s| s[0] >= i64::from(lanes(g))))?;
        let (_, args) = calls(g).into_iter().find(|(name, _)| **name == f.name).filter(|_| reads(g) == 1)?;
        let is_once = args.len() == g.vars.len()
            && g.vars.iter().all(|v| args.iter().filter(|a| is_var(a, v.name())).count() == 1);
        let is_loops = g.updates.is_empty() && stored.contains(&g.name);
        (is_once && is_loops && is_var(&args[0], first.name()))
            .then(|| (g.name.clone(), first.name().clone()))
    }
}

impl<'p> Maker<'p> {
    /// The outermost loop of `u`, if it goes along slices.
    fn over_slices<'u>(&self, u: &'u Update) -> Option<&'u str> {
        let reads = calls_in(u.args.iter().chain(&u.values).chain(&u.rdom.predicate));
        let over = u.rdom.vars.last()?;
        let slices = reads.iter().any(|(name, _)| self.p.slices.contains(*name));
        slices.then_some(&*over.name)
    }

    /// The loop over slices of the only definition that reads `f`, next to such that are computed there, too.
    fn slices_home(&self, f: &Func) -> Option<LoopLevel> {
        if !self.p.slices.contains(&f.name) || self.is_output(f) {
            return None;
        }
        let mut home = None;
        for g in self.p.funcs.values().filter(|g| g.name != f.name) {
            for (k, s) in Stage::all(g).iter().enumerate() {
                let reads = calls_in(s.exprs()).into_iter().filter(|(name, _)| **name == f.name);
                let along: FxHashSet<&Expr> = reads.filter_map(|(_, args)| args.last()).collect();
                let level = match along.iter().next() {
                    None => continue,
                    Some(e) if self.p.slices.contains(&g.name) => {
                        is_var(e, g.vars.last()?.name()).then(|| self.slices_home(g))??
                    }
                    Some(e) => {
                        let over = s.rdom.vars.last()?;
                        let alone = variables(e).iter().all(|v| *v == over.name);
                        alone.then(|| LoopLevel::update(&g.name, k - 1, &over.name))?
                    }
                };
                if along.len() != 1 || home.as_ref().is_some_and(|known| *known != level) {
                    return None;
                }
                home = Some(level);
            }
        }
        home
    }
}

/// Number of elements of a box of these sizes.
fn elements(sizes: &[i64]) -> i64 {
    sizes.iter().fold(1i64, |a, b| a.saturating_mul(*b))
}

/// The loops of an update, from the innermost out, whose iterations are few and known: written out, they share loads, one element
/// in a register and one test of the border.
pub(super) fn written_out(u: &Update) -> impl Iterator<Item = &RVar> {
    let mut n = 1;
    u.rdom.vars.iter().take_while(move |r| {
        let extent = r.extent.as_int().filter(|n| (1..=FEW_ITERATIONS).contains(n));
        n = extent.map_or(i64::MAX, |e| e.saturating_mul(n));
        n <= FEW_ITERATIONS
    })
}

/// Lanes of a vector of the widest elements of `f`.
pub(super) fn lanes(f: &Func) -> i32 {
    VECTOR / f.types().iter().map(|t| t.bytes() as i32).max().unwrap_or(4)
}

/// Distinct reads in each stage of `f`, whose loops are its own: names and coordinates.
fn calls(f: &Func) -> Vec<(&Name, &[Expr])> {
    let updates = f.updates.iter().map(|u| calls_in(u.args.iter().chain(&u.values).chain(&u.rdom.predicate)));
    std::iter::once(calls_in(&f.values)).chain(updates).flatten().collect()
}

/// Distinct reads in expressions.
pub(super) fn calls_in<'e>(all: impl IntoIterator<Item = &'e Expr>) -> FxHashSet<(&'e Name, &'e [Expr])> {
    let call = |e: &'e Expr| match e.kind() {
        ExprKind::Call { name, args, .. } => Some((name, &args[..])),
        _ => None,
    };
    nodes(all).into_iter().filter_map(call).collect()
}
