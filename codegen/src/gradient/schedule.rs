//! A first schedule, from sizes alone.
//!
//! Made for gradients, where sums over a whole domain and sums over a few elements of each stand side by side, but right for any pipeline:
//!
//! | Func | gets |
//! |---|---|
//! | cheap with all that is substituted into it, or read at one place by one other | nothing: it is substituted where it is read |
//! | others | loops of its own: vectors along the first dimension, threads along the last |
//! | an update with pure dimensions | the same, its reductions inside of the vectors, few of them written out |
//! | a large sum at coordinates that are data | strips along its last loop, each with its own copy of all elements, on threads |
//! | a large sum into few elements | strips along its last loop, on threads, each with its own sums in registers (`strips`) |
//!
//! Source: T.-M. Li et al., "Differentiable programming for image processing and deep learning in Halide", 2018, section 4.4.

use crate::analysis::algebra::Interval;
use crate::analysis::associative::Reduction;
use crate::analysis::evaluate::{Known, evaluate};
use crate::error::Error;
use crate::expr::walk::nodes;
use crate::expr::{Expr, ExprKind, Name};
use crate::func::{Func, Pipeline, RVar, Update};
use crate::gradient::seeds::domain;
use crate::gradient::strips::parts;
use crate::gradient::support::{Boxes, Stage, consumers_first, known, supports};
use crate::lower::{LowerOptions, lower};
use crate::plan::validate::{error, validate};
use crate::schedule::{Directive, Schedule, StageId, Tail};
use rustc_hash::{FxHashMap, FxHashSet};

/// Nodes up to which a definition is cheaper than a load.
const CHEAP: usize = 24;
/// Points from which on threads are worth their start.
const MANY: i64 = 1 << 14;
/// Elements up to which each thread may have sums of its own.
const FEW: i64 = 1 << 12;
/// Iterations of reductions up to which they are written out.
const FEW_ITERATIONS: i64 = 25;
/// Bytes of a vector.
const VECTOR: i32 = 32;

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
    validate(p)?;
    for name in keep.iter().chain(recompute) {
        let f = p
            .funcs
            .get(*name)
            .ok_or_else(|| error(p, format!("there is no Func {name} to keep or recompute")))?;
        if recompute.contains(name) && !f.updates.is_empty() {
            return Err(error(p, format!("{name} has updates and must be stored: it cannot be recomputed")));
        }
    }
    let known = known(p, estimates);
    let outputs =
        p.outputs.iter().map(|o| (o.func.clone(), domain(&p.shape(&o.func), p.funcs[&o.func].vars.len())));
    let boxes = supports(p, &outputs.collect(), &known)?;
    let stored = stored(p, keep, recompute);
    let mut m = Maker { p, boxes, known, schedule: Schedule::new() };
    for (name, f) in &p.funcs {
        if stored.contains(name) {
            m.func(f);
        } else if p.stored.contains(name) {
            _ = m.schedule.func(name).inline();
        }
    }
    legal(p, m.schedule)
}

/// `s` without the directives that cannot be: each refusal takes those of its stage, loops first.
fn legal(p: &Pipeline, mut s: Schedule) -> Result<Schedule, Error> {
    loop {
        let refused = match lower(p, &s, &LowerOptions::default()).map(|_| ()) {
            Ok(()) => return Ok(s),
            Err(e) => e,
        };
        let Error::Schedule { func, .. } = &refused else { return Err(refused) };
        let stage = s.stages.iter().rposition(|(id, all)| {
            let name = if id.stage == 0 {
                id.func.to_string()
            } else {
                format!("{}.update({})", id.func, id.stage - 1)
            };
            let is_loop = func.starts_with(&format!("{}.s{}.", id.func, id.stage));
            (name == *func || is_loop) && all.iter().any(|d| *d != Directive::ComputeRoot)
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

/// Funcs that are not substituted. Invariant: one that is read more than once and is substituted has no more than [`CHEAP`] nodes, those of what is
/// substituted into it included; so chains of cheap Funcs do not grow without end.
fn stored(p: &Pipeline, keep: &[&str], recompute: &[&str]) -> FxHashSet<Name> {
    let mut stored = FxHashSet::default();
    // Nodes of those that are substituted.
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
    stored
}

/// A schedule in the making.
pub(super) struct Maker<'p> {
    p: &'p Pipeline,
    boxes: Boxes,
    /// Sizes, as estimated.
    pub known: Known,
    /// As far as it is made.
    pub schedule: Schedule,
}

impl Maker<'_> {
    /// Number of values, as estimated.
    fn size(&self, i: &Interval) -> i64 {
        evaluate(&i.extent(), &self.known).unwrap_or(i64::from(i32::MAX)).max(0)
    }

    fn func(&mut self, f: &Func) {
        let Some(own) = self.boxes.get(&f.name).cloned() else { return };
        if !self.p.outputs.iter().any(|o| o.func == f.name) {
            _ = self.schedule.func(&f.name).compute_root();
        }
        let sizes: Vec<i64> = own.iter().map(|i| self.size(i)).collect();
        for (k, stage) in Stage::all(f).iter().enumerate() {
            let pure: Vec<usize> = (0..sizes.len()).filter(|&d| stage.is_pure(f, d)).collect();
            let update = k.checked_sub(1).map(|k| &f.updates[k]);
            match update {
                Some(u) if self.is_large_sum(f, u, &sizes) => self.strips(f, k, u, &pure, &sizes),
                Some(u) if self.is_large_scatter(f, u, &sizes, &pure) => self.copies(f, k, u),
                _ => self.loops(f, k, &pure, &sizes, update),
            }
        }
    }

    /// The number of terms of an update that is a sum over a rectangle, in any order.
    fn terms(&self, f: &Func, u: &Update) -> Option<i64> {
        let reduction = Reduction::of(&f.name, &u.args, &u.values, u.rdom.predicate.as_ref());
        let extents = u.rdom.vars.iter().map(|r| evaluate(&r.extent, &self.known).unwrap_or(1));
        let terms = extents.fold(1i64, |a, b| a.saturating_mul(b.max(1)));
        let is_rectangle = u
            .rdom
            .vars
            .iter()
            .all(|r| !nodes([&r.min, &r.extent]).iter().any(|e| matches!(e.kind(), ExprKind::Var(_))));
        (reduction.is_some_and(|r| r.commutes()) && is_rectangle).then_some(terms)
    }

    fn is_large_sum(&self, f: &Func, u: &Update, sizes: &[i64]) -> bool {
        self.terms(f, u).is_some_and(|terms| terms >= MANY && elements(sizes) <= FEW)
    }

    /// Sums at coordinates that are data, so many that copies of all elements cost little beside them.
    fn is_large_scatter(&self, f: &Func, u: &Update, sizes: &[i64], pure: &[usize]) -> bool {
        let enough = |terms: i64| terms >= MANY && terms >= 2 * elements(sizes);
        pure.is_empty() && self.terms(f, u).is_some_and(enough)
    }

    fn loops(&mut self, f: &Func, k: usize, pure: &[usize], sizes: &[i64], update: Option<&Update>) {
        let Some((&first, &last)) = pure.first().zip(pure.last()) else {
            for (k, u) in k.checked_sub(1).zip(update) {
                written_out(u).for_each(|r| _ = self.schedule.update(&f.name, k).unroll(&r.name));
            }
            return;
        };
        let lanes = lanes(f);
        let points = pure.iter().fold(1i64, |a, d| a.saturating_mul(sizes[*d]));
        let name = |d: usize| &**f.vars[d].name();
        let mut handle = match k {
            0 => self.schedule.func(&f.name),
            k => self.schedule.update(&f.name, k - 1),
        };
        if sizes[first] >= i64::from(lanes) {
            handle = handle.vectorize(name(first), lanes, if k == 0 { Tail::Auto } else { Tail::Predicate });
            let inner = format!("{}i", name(first));
            let loops: Vec<&str> = update.iter().flat_map(|u| u.rdom.vars.iter().map(|r| &*r.name)).collect();
            if !loops.is_empty() {
                let outer = format!("{}o", name(first));
                let mut order = vec![&*inner];
                order.extend(loops);
                order.push(&outer);
                order.extend(pure[1..].iter().map(|d| name(*d)));
                handle = handle.reorder(&order);
                for r in update.into_iter().flat_map(written_out) {
                    handle = handle.unroll(&r.name);
                }
            }
        }
        if points >= MANY && last != first {
            _ = handle.parallel(name(last));
        }
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

/// Distinct reads in `f`: names and coordinates.
fn calls(f: &Func) -> Vec<(&Name, &[Expr])> {
    let updates = f.updates.iter().flat_map(|u| u.args.iter().chain(&u.values).chain(&u.rdom.predicate));
    let mut found = FxHashSet::default();
    for e in nodes(f.values.iter().chain(updates)) {
        if let ExprKind::Call { name, args, .. } = e.kind() {
            found.insert((name, &args[..]));
        }
    }
    found.into_iter().collect()
}
