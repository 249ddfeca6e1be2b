//! Random schedules. Most are legal; those that are not must be refused with a typed error.

mod gpu;
mod placement;
mod reductions;

use crate::random::approximate::is_bounded;
use crate::random::program::Case;
use crate::random::reads;
use crate::rng::Rng;
use indexmap::IndexMap;
use std::collections::{HashMap, HashSet};
use sumsq_codegen::func::Update;
use sumsq_codegen::{
    Directive, Expr, ForKind, Func, LoopLevel, Name, Partition, Pipeline, ScalarType, StageId, Tail,
};

/// Gives every stage of a case random directives, consumers first.
pub fn schedule(rng: &mut Rng, case: &mut Case) {
    // No float is relaxed where nothing bounds its error, and none may be where they are strict.
    let floats = case.pipeline.funcs.values().any(|f| f.types().iter().any(|t| t.is_float()));
    let relaxed = is_bounded(&case.pipeline) && rng.percent(if floats { 60 } else { 4 });
    if !relaxed && rng.percent(6) {
        case.pipeline.strict_float();
        case.free_sums.clear();
    }
    let pipeline = case.pipeline.clone();
    let kernels = if rng.percent(25) { 60 } else { 0 };
    let mut s = Scheduler {
        rng,
        case,
        pipeline: &pipeline,
        relaxed,
        kernels,
        loops: HashMap::new(),
        nests: IndexMap::new(),
        plain: vec![],
        in_blocks: HashSet::new(),
    };
    for f in pipeline.funcs.values().rev() {
        s.func(f);
    }
    s.together();
    for i in pipeline.inputs.values() {
        if s.rng.percent(8) {
            s.wrap(&i.name, "_0".into());
        }
    }
}

struct Scheduler<'a> {
    rng: &'a mut Rng,
    case: &'a mut Case,
    pipeline: &'a Pipeline,
    /// May stages be relaxed?
    relaxed: bool,
    /// Stages in a hundred that become kernels of a GPU.
    kernels: usize,
    /// Block loops of kernels at which something may be computed.
    in_blocks: HashSet<(StageId, Name)>,
    /// Loops of the stages done, innermost first; none for inlined Funcs.
    loops: HashMap<StageId, Vec<Name>>,
    /// All loops of the stages done, outermost first.
    nests: IndexMap<StageId, Vec<(Name, ForKind)>>,
    /// Stages with the loops they start with, whether they are pure definitions, and where their loop directives begin.
    plain: Vec<(StageId, Vec<Name>, bool, usize)>,
}

impl Scheduler<'_> {
    fn push(&mut self, stage: &StageId, d: Directive) {
        self.case.schedule.stages.entry(stage.clone()).or_default().push(d);
    }

    fn func(&mut self, f: &Func) {
        let pure = StageId { func: f.name.clone(), stage: 0 };
        let output = self.is_output(&f.name);
        if output {
            self.output(f, &pure);
        } else if !self.place(f, &pure) {
            return;
        }
        if self.relaxed && self.rng.percent(30) {
            self.push(&pure, Directive::Relaxed);
            if self.rng.percent(50) {
                self.push(&pure, Directive::Reciprocals);
            }
        }
        self.region(f, &pure, output);
        let vars: Vec<Name> = f.vars.iter().map(|v| v.name().clone()).collect();
        if self.rng.percent(8) && !vars.is_empty() {
            self.special(&pure, vars[0].clone());
            self.stage(&pure, vars.clone(), &[], true);
            // What is computed inside needs a loop of that name in every version.
            if let Some(loops) = self.loops.get_mut(&pure) {
                loops.retain(|v| vars[1..].contains(v));
            }
        } else {
            self.stage(&pure, vars, &[], true);
        }
        for (k, u) in f.updates.iter().enumerate() {
            let stage = StageId { func: f.name.clone(), stage: k + 1 };
            self.update(f, u, &stage);
        }
    }

    /// The only stage that calls a Func or input, if there is one.
    fn consumer(&self, name: &Name) -> Option<StageId> {
        let mut found = vec![];
        for g in self.pipeline.funcs.values().filter(|g| g.name != *name) {
            for (stage, exprs) in stages(g).into_iter().enumerate() {
                if exprs.iter().any(|e| reads(e, name)) {
                    found.push(StageId { func: g.name.clone(), stage });
                }
            }
        }
        (found.len() == 1).then(|| found.remove(0))
    }

    /// Splits, an order and kinds for the loops of a stage; records the loops. Those in `ordered`, and what they are split
    /// into, keep their order.
    fn stage(&mut self, stage: &StageId, mut loops: Vec<Name>, ordered: &[Name], pure: bool) {
        let level = self.level(stage).map(|l| (l.stage.clone(), l.var.clone()));
        if level.as_ref().is_some_and(|l| self.in_blocks.contains(l)) && self.rng.percent(80) {
            return self.threads(stage, &loops);
        }
        if ordered.is_empty() && level.is_none() && self.kernels > 0 && self.rng.percent(self.kernels) {
            return self.kernel(stage, loops, pure);
        }
        if pure && !loops.is_empty() && self.rng.percent(8) {
            return self.columns(stage, loops);
        }
        if let Some((var, cond)) = self.case.gates.get(&stage.func).cloned()
            && stage.stage == 0
            && !self.is_output(&stage.func)
            && loops.contains(&var)
            && self.rng.percent(70)
        {
            self.push(stage, Directive::SkipUnless { var, cond });
        }
        if ordered.is_empty() && self.rng.percent(50) && self.twin(stage, &loops, pure) {
            return;
        }
        let start = loops.clone();
        let before = self.case.schedule.stages.get(stage).map_or(0, Vec::len);
        let mut ordered = ordered.to_vec();
        let mut constant: Vec<Name> = vec![];
        self.splits(stage, &mut loops, &mut ordered, &mut constant, pure);
        if self.rng.percent(25) {
            self.fuse_or_rename(stage, &mut loops, &mut ordered, &mut constant);
        }
        if loops.len() > 1 && self.rng.percent(60) {
            self.rng.shuffle(&mut loops);
            let mut in_order = ordered.iter();
            for v in loops.iter_mut().filter(|v| ordered.contains(v)) {
                *v = in_order.next().expect("as many as there are").clone();
            }
            self.push(stage, Directive::Reorder(loops.clone()));
        }
        let (nest, left) = self.kinds(stage, &loops, &ordered, &constant);
        if !left.is_empty() && self.rng.percent(6) {
            let (name, ahead) = (self.pipeline.inputs[0].name.clone(), self.rng.range(0, 3) as u32);
            let var = self.rng.pick(&left);
            self.push(stage, Directive::Prefetch { name, var, ahead });
        }
        if !loops.is_empty() && self.rng.percent(8) {
            let policy = self.rng.pick(&[Partition::Auto, Partition::Never, Partition::Always]);
            let var = self.rng.pick(&loops);
            self.push(stage, Directive::Partition { var, policy });
        }
        self.loops.insert(stage.clone(), left);
        self.nests.insert(stage.clone(), nest);
        self.plain.push((stage.clone(), start, pure, before));
    }

    /// Up to two splits. Of the new loops, those of constant extent are added to `constant`.
    fn splits(
        &mut self,
        stage: &StageId,
        loops: &mut Vec<Name>,
        ordered: &mut Vec<Name>,
        constant: &mut Vec<Name>,
        pure: bool,
    ) {
        for _ in 0..self.rng.below(3).min(loops.len()) {
            let at = self.rng.below(loops.len());
            let old = loops[at].clone();
            if old.len() > 12 {
                continue;
            }
            let outer = if self.rng.percent(30) { old.clone() } else { format!("{old}o").into() };
            let inner: Name = format!("{old}i").into();
            if loops.contains(&inner) {
                continue;
            }
            let (factor, known) = self.factor();
            // A sink is stored once: nothing that surrounds it may be computed twice.
            let sink: Name = format!("{}_sink", stage.func).into();
            let tails = if pure && !self.case.sinks.contains(&sink) {
                &[Tail::Auto, Tail::GuardWithIf, Tail::Predicate, Tail::RoundUp, Tail::ShiftInwards][..]
            } else {
                &[Tail::Auto, Tail::GuardWithIf, Tail::Predicate]
            };
            let tail = self.rng.pick(tails);
            constant.retain(|v| *v != old);
            if known {
                constant.push(inner.clone());
            }
            if let Some(i) = ordered.iter().position(|v| *v == old) {
                ordered[i] = outer.clone();
                ordered.insert(i, inner.clone());
            }
            self.push(
                stage,
                Directive::Split { old, outer: outer.clone(), inner: inner.clone(), factor, tail },
            );
            loops[at] = outer;
            loops.insert(at, inner);
        }
    }

    /// Vectors, copies and threads: all loops with their kinds, outermost first, and those that are neither vectorised nor unrolled nor
    /// parallel.
    fn kinds(
        &mut self,
        stage: &StageId,
        loops: &[Name],
        ordered: &[Name],
        constant: &[Name],
    ) -> (Vec<(Name, ForKind)>, Vec<Name>) {
        let mut nest: Vec<(Name, ForKind)> =
            loops.iter().rev().map(|v| (v.clone(), ForKind::Serial)).collect();
        let mut left = loops.to_vec();
        use ForKind::{Parallel, Unrolled, Vectorized};
        for (kind, percent) in [(Vectorized, 55), (Vectorized, 60), (Unrolled, 55), (Parallel, 55)] {
            let candidates: Vec<Name> = match kind {
                Parallel => left.clone(),
                Vectorized => {
                    left.iter().filter(|v| constant.contains(v) && !ordered.contains(v)).cloned().collect()
                }
                _ => left.iter().filter(|v| constant.contains(v)).cloned().collect(),
            };
            if !candidates.is_empty() && self.rng.percent(percent) {
                let var = self.rng.pick(&candidates);
                left.retain(|v| *v != var);
                nest.iter_mut().filter(|l| l.0 == var).for_each(|l| l.1 = kind);
                self.push(stage, Directive::Kind { var, kind });
            }
        }
        if !left.is_empty() && self.rng.percent(5) {
            // It may be parallel; what follows holds for any kind of loop.
            let var = self.rng.pick(&left);
            nest.iter_mut().filter(|l| l.0 == var).for_each(|l| l.1 = ForKind::Serial);
            self.push(stage, Directive::Kind { var, kind: ForKind::Serial });
        }
        (nest, left)
    }

    fn is_output(&self, func: &Name) -> bool {
        self.pipeline.outputs.iter().any(|o| o.func == *func)
    }

    /// A factor of a split, and whether it is a constant.
    fn factor(&mut self) -> (Expr, bool) {
        let run_time = self.pipeline.params.keys().find(|p| p.starts_with("factor"));
        match run_time {
            Some(name) if self.rng.percent(25) => (Expr::param(name.clone(), ScalarType::I32), false),
            _ => (Expr::from(self.rng.pick(&[2, 3, 4, 5, 8, 16])), true),
        }
    }

    /// The first parameter of every program, an integer.
    fn scale(&self) -> Expr {
        let (name, ty) = self.pipeline.params.first().expect("every program has it");
        Expr::param(name.clone(), *ty)
    }

    /// The loops of an earlier stage over the same variables, with which this one may then run.
    fn twin(&mut self, stage: &StageId, loops: &[Name], pure: bool) -> bool {
        let same = self.plain.iter().filter(|(_, l, p, _)| l == loops && *p == pure).cloned();
        let same: Vec<_> = same.collect();
        if same.is_empty() {
            return false;
        }
        let (other, _, _, before) = self.rng.pick(&same);
        let given = self.case.schedule.stages.get(&other).map_or(vec![], |d| d[before..].to_vec());
        given.into_iter().for_each(|d| self.push(stage, d));
        self.loops.insert(stage.clone(), self.loops[&other].clone());
        self.nests.insert(stage.clone(), self.nests[&other].clone());
        true
    }

    /// Lets some stages with the same outer loops at the same place run together, and computes there what they read.
    fn together(&mut self) {
        let nests: Vec<_> = std::mem::take(&mut self.nests).into_iter().collect();
        let mut joints: Vec<(StageId, LoopLevel)> = vec![];
        for (i, (a, a_loops)) in nests.iter().enumerate() {
            for (b, b_loops) in &nests[..i] {
                let same = a_loops.iter().zip(b_loops).take_while(|(a, b)| a == b).count();
                let apart = a.func != b.func && self.level(a) == self.level(b);
                let named = joints.iter().any(|j| j.0 == *a);
                if same == 0 || !apart || named || self.needs(a, b) || !self.rng.percent(75) {
                    continue;
                }
                let (var, _) = self.rng.pick(&a_loops[..same]);
                let level = LoopLevel { stage: b.clone(), var };
                self.push(a, Directive::ComputeWith(level.clone()));
                joints.push((a.clone(), level));
            }
        }
        for (a, level) in joints {
            let (b, var) = (&level.stage, &level.var);
            let reads = |s: &StageId, f: &Func| {
                stages(&self.pipeline.funcs[&s.func])[s.stage].iter().any(|e| reads(e, &f.name))
            };
            for f in self.pipeline.funcs.values().filter(|f| reads(&a, f) && reads(b, f)) {
                let stage = self.rng.pick(&[&a, b]).clone();
                let given = self.case.schedule.stages.get_mut(&StageId { func: f.name.clone(), stage: 0 });
                let root = given.into_iter().flatten().find(|d| matches!(d, Directive::ComputeRoot));
                if let Some(d) = root.filter(|_| self.rng.percent(70)) {
                    *d = Directive::ComputeAt(LoopLevel { stage, var: var.clone() });
                }
            }
        }
    }

    /// The loop at which the Func of a stage is computed.
    fn level(&self, stage: &StageId) -> Option<&LoopLevel> {
        let pure = StageId { func: stage.func.clone(), stage: 0 };
        let given = self.case.schedule.stages.get(&pure)?;
        given.iter().find_map(|d| if let Directive::ComputeAt(l) = d { Some(l) } else { None })
    }

    /// Is one Func computed from the other?
    fn needs(&self, a: &StageId, b: &StageId) -> bool {
        let below = |top: &Name| {
            let mut found = vec![top.clone()];
            let mut i = 0;
            while i < found.len() {
                let f = &self.pipeline.funcs[&found[i]];
                let all = stages(f);
                let callees =
                    self.pipeline.funcs.keys().filter(|n| all.iter().flatten().any(|e| reads(e, n)));
                let new: Vec<Name> = callees.filter(|n| !found.contains(n)).cloned().collect();
                found.extend(new);
                i += 1;
            }
            found
        };
        below(&a.func).contains(&b.func) || below(&b.func).contains(&a.func)
    }
}

impl Scheduler<'_> {
    /// Vectors of every k-th column, all columns unrolled.
    fn columns(&mut self, stage: &StageId, mut loops: Vec<Name>) {
        let old = loops[0].clone();
        let name = |end: &str| Name::from(format!("{old}{end}"));
        let (group, column, outer, lanes) = (name("g"), name("c"), name("o"), name("l"));
        let mut split = |old: &Name, outer: &Name, inner: &Name, factors: &[i32]| {
            let factor = Expr::from(self.rng.pick(factors));
            let tail = self.rng.pick(&[Tail::Auto, Tail::GuardWithIf, Tail::Predicate, Tail::ShiftInwards]);
            let (old, outer, inner) = (old.clone(), outer.clone(), inner.clone());
            self.case.schedule.stages.entry(stage.clone()).or_default().push(Directive::Split {
                old,
                outer,
                inner,
                factor,
                tail,
            });
        };
        split(&old, &group, &column, &[2, 3, 4]);
        split(&group, &outer, &lanes, &[2, 4, 8]);
        self.push(stage, Directive::Kind { var: column, kind: ForKind::Unrolled });
        self.push(stage, Directive::Kind { var: lanes, kind: ForKind::Vectorized });
        loops[0] = outer;
        self.loops.insert(stage.clone(), loops);
    }

    /// A version of a stage for positive `scale`, or for one value of it.
    fn special(&mut self, stage: &StageId, old: Name) {
        let cond = match self.rng.percent(40) {
            true => self.scale().eq_(self.rng.range(-2, 3)),
            false => self.scale().gt(0),
        };
        let outer = if self.rng.percent(30) { old.clone() } else { "so".into() };
        let inner: Name = "si".into();
        let tail = self.rng.pick(&[Tail::Auto, Tail::GuardWithIf, Tail::ShiftInwards]);
        let kind = self.rng.pick(&[ForKind::Vectorized, ForKind::Unrolled, ForKind::Serial]);
        let var = inner.clone();
        let split = Directive::Split { old, outer, inner, factor: Expr::from(4), tail };
        let mut directives = vec![split, Directive::Kind { var, kind }];
        if self.rng.percent(30) {
            let cond = self.scale().gt(1);
            let unroll = Directive::Kind { var: "si".into(), kind: ForKind::Unrolled };
            directives.insert(1, Directive::Specialize { cond, directives: vec![unroll] });
        }
        self.push(stage, Directive::Specialize { cond, directives });
    }

    /// Fuses two neighbours, or renames a loop. What is made from a loop in `ordered` or `constant` takes its place there.
    fn fuse_or_rename(
        &mut self,
        stage: &StageId,
        loops: &mut Vec<Name>,
        ordered: &mut Vec<Name>,
        constant: &mut Vec<Name>,
    ) {
        let Some(i) = (!loops.is_empty()).then(|| self.rng.below(loops.len())) else { return };
        let inner = loops[i].clone();
        let Some(outer) = loops.get(i + 1).cloned().filter(|_| self.rng.percent(70)) else {
            let new: Name = format!("{inner}_n").into();
            for list in [loops, ordered, constant] {
                list.iter_mut().filter(|v| **v == inner).for_each(|v| *v = new.clone());
            }
            return self.push(stage, Directive::Rename { old: inner, new });
        };
        let fused: Name = format!("{inner}_{outer}").into();
        let both = constant.contains(&inner) && constant.contains(&outer);
        constant.retain(|v| *v != inner && *v != outer);
        if both {
            constant.push(fused.clone());
        }
        if let Some(at) = ordered.iter().position(|v| *v == inner || *v == outer) {
            ordered.retain(|v| *v != inner && *v != outer);
            ordered.insert(at, fused.clone());
        }
        loops[i] = fused.clone();
        loops.remove(i + 1);
        self.push(stage, Directive::Fuse { inner, outer, fused });
    }
}

/// The expressions of every stage.
pub fn stages(f: &Func) -> Vec<Vec<Expr>> {
    let update = |u: &Update| {
        let bounds = u.rdom.vars.iter().flat_map(|r| [r.min.clone(), r.extent.clone()]);
        u.args.iter().chain(&u.values).chain(&u.rdom.predicate).cloned().chain(bounds).collect()
    };
    std::iter::once(f.values.clone()).chain(f.updates.iter().map(update)).collect()
}
