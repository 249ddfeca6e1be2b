//! A first schedule, from sizes alone.
//!
//! Made for gradients, where sums over a whole domain and sums over a few elements of each stand side by side, but right for any pipeline:
//!
//! | Func | gets |
//! |---|---|
//! | cheap with all that is substituted into it, or read at one place by one other | nothing: it is substituted where it is read |
//! | others | loops of its own: vectors along the first dimension, threads along the last |
//! | an update with pure dimensions | the same, its reductions inside of the vectors |
//! | a large sum into few elements | strips along its last loop, each with its own partial sums (`rfactor`), on threads |
//!
//! Source: T.-M. Li et al., "Differentiable programming for image processing and deep learning in Halide", 2018, section 4.4.

use crate::analysis::algebra::Interval;
use crate::analysis::associative::Reduction;
use crate::analysis::evaluate::{Known, evaluate};
use crate::error::Error;
use crate::expr::walk::nodes;
use crate::expr::{Expr, ExprKind, Name, Param, Part};
use crate::func::{Func, Pipeline, Update};
use crate::gradient::adjoints::domain;
use crate::gradient::support::{Boxes, Stage, consumers_first, supports};
use crate::lower::{LowerOptions, lower};
use crate::plan::validate::{error, validate};
use crate::schedule::{Directive, Schedule, Tail};
use rustc_hash::{FxHashMap, FxHashSet};

/// Nodes up to which a definition is cheaper than a load.
const CHEAP: usize = 24;
/// Points from which on threads are worth their start.
const MANY: i64 = 1 << 14;
/// Elements up to which each thread may have sums of its own.
const FEW: i64 = 1 << 12;
/// Bytes of a vector.
const VECTOR: i32 = 32;
/// Iterations from which on a loop is worth vectors of partial sums.
const WIDE: i64 = 64;
/// Values of the last loop in a strip.
const STRIP: i32 = 16;

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
        // The Func that a sum is cut into goes with the sum.
        let stage =
            stage.or_else(|| s.stages.keys().position(|id| func.starts_with(&*id.func) && id.stage > 0));
        let Some(stage) = stage else { return Err(refused) };
        let (id, all) =
            s.stages.get_index_mut(stage).unwrap_or_else(|| unreachable!("legal: a stage of the schedule"));
        all.retain(|d| *d == Directive::ComputeRoot);
        let partial: Name = format!("{}_partial{}", id.func, id.stage).into();
        s.stages.retain(|id, all| id.func != partial && !all.is_empty());
    }
}

/// Parameters of buffers, as estimated: from 0 on.
fn known(p: &Pipeline, estimates: &[(&str, &[i32])]) -> Known {
    let mut known = Known::default();
    for (name, extents) in estimates {
        for (d, n) in extents.iter().enumerate() {
            known.params.insert(Param::Of((*name).into(), Part::Extent(d)), Expr::from(*n));
        }
    }
    let buffers = p.inputs.iter().map(|(n, i)| (n.clone(), i.dims));
    for (name, dims) in buffers.chain(p.outputs.iter().map(|o| (o.func.clone(), p.funcs[&o.func].vars.len())))
    {
        for d in 0..dims {
            known.params.insert(Param::Of(name.clone(), Part::Min(d)), Expr::from(0));
        }
    }
    known
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

struct Maker<'p> {
    p: &'p Pipeline,
    boxes: Boxes,
    known: Known,
    schedule: Schedule,
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
                Some(u) if self.is_large_sum(f, u, &sizes) => self.strips(f, k, u),
                _ => self.loops(f, k, &pure, &sizes, update),
            }
        }
    }

    fn is_large_sum(&self, f: &Func, u: &Update, sizes: &[i64]) -> bool {
        let reduction = Reduction::of(&f.name, &u.args, &u.values, u.rdom.predicate.as_ref());
        let extents = u.rdom.vars.iter().map(|r| evaluate(&r.extent, &self.known).unwrap_or(1));
        let terms = extents.fold(1i64, |a, b| a.saturating_mul(b.max(1)));
        let is_rectangle = u
            .rdom
            .vars
            .iter()
            .all(|r| !nodes([&r.min, &r.extent]).iter().any(|e| matches!(e.kind(), ExprKind::Var(_))));
        let elements = sizes.iter().fold(1i64, |a, b| a.saturating_mul(*b));
        reduction.is_some_and(|r| r.commutes()) && is_rectangle && terms >= MANY && elements <= FEW
    }

    /// Strips of the last loop, each with its own sums.
    fn strips(&mut self, f: &Func, k: usize, u: &Update) {
        let Some(last) = u.rdom.vars.last() else { return };
        let partial = format!("{}_partial{k}", f.name);
        let (strip, row) = (format!("{}_strip", last.name), format!("{}_row", last.name));
        let first = &u.rdom.vars[0];
        let wide = evaluate(&first.extent, &self.known).is_none_or(|n| n >= WIDE);
        let update = self.schedule.update(&f.name, k - 1);
        let update = update.split(&last.name, &strip, &row, STRIP, Tail::GuardWithIf);
        // Loops of the partial sums, innermost first: what is summed, then each element of the whole.
        let rest = u.rdom.vars.iter().rev().skip(1).rev().skip(1).map(|r| &*r.name);
        let elements = f.vars.iter().map(|v| &**v.name());
        if u.rdom.vars.len() > 1 && wide {
            let (vector, lane) = (format!("{}_vector", first.name), format!("{}_lane", first.name));
            let update = update.split(&first.name, &vector, &lane, lanes(f), Tail::Predicate);
            _ = update.rfactor(&[(&strip, "strip"), (&lane, "lane")], &partial);
            let order =
                ["lane", &vector].into_iter().chain(rest).chain([&*row]).chain(elements).chain(["strip"]);
            let order: Vec<&str> = order.collect();
            _ = self.schedule.update(&partial, 0).reorder(&order).vectorize_loop("lane").parallel("strip");
        } else {
            _ = update.rfactor(&[(&strip, "strip")], &partial);
            let all = u.rdom.vars.iter().rev().skip(1).rev().map(|r| &*r.name);
            let order: Vec<&str> = all.chain([&*row]).chain(elements).chain(["strip"]).collect();
            _ = self.schedule.update(&partial, 0).reorder(&order).parallel("strip");
        }
        _ = self.schedule.func(&partial).compute_root();
    }

    fn loops(&mut self, f: &Func, k: usize, pure: &[usize], sizes: &[i64], update: Option<&Update>) {
        let Some((&first, &last)) = pure.first().zip(pure.last()) else { return };
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
            }
        }
        if points >= MANY && last != first {
            _ = handle.parallel(name(last));
        }
    }
}

/// Lanes of a vector of the widest elements of `f`.
fn lanes(f: &Func) -> i32 {
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
