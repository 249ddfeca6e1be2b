//! Placement and storage of Funcs.

use super::{Scheduler, stages};
use crate::random::program::BINS;
use crate::random::reads;
use sumsq_codegen::{Directive, Expr, ExprKind, ForKind, Func, LoopLevel, Memory, Name, StageId, Tail};

impl Scheduler<'_> {
    /// Chooses where an intermediate Func is computed; false if it is inlined.
    pub(super) fn place(&mut self, f: &Func, pure: &StageId) -> bool {
        let ring = self.case.rings.contains(&f.name) && self.rng.percent(80);
        if !ring && f.updates.is_empty() && self.rng.percent(25) {
            if self.rng.percent(30) {
                self.push(pure, Directive::Inline);
            }
            return false;
        }
        if !ring && !f.vars.is_empty() && self.rng.percent(8) {
            self.wrap(&f.name, f.vars[0].name().clone());
            self.push(pure, Directive::ComputeRoot);
            return true;
        }
        let inside = (ring || self.rng.percent(70)) && self.inside_consumer(f, pure);
        if !inside {
            self.push(pure, Directive::ComputeRoot);
        }
        if self.rng.percent(10) && !f.vars.is_empty() {
            let var = self.rng.pick(&f.vars).name().clone();
            self.push(pure, Directive::AlignBounds { var, modulus: 8 });
        }
        self.memory(pure);
        if !f.vars.is_empty() && self.rng.percent(12) {
            self.wide(f, pure, inside);
        }
        true
    }

    /// The memory of a Func: mostly one that it may have, but also one that a GPU or a CPU refuses.
    fn memory(&mut self, pure: &StageId) {
        let level = self.level(pure).map(|l| (l.stage.clone(), l.var.clone()));
        let in_block = level.is_some_and(|l| self.in_blocks.contains(&l));
        if !self.rng.percent(if in_block { 30 } else { 12 }) {
            return;
        }
        let other = [Memory::Heap, Memory::Stack, Memory::Register, Memory::Register];
        let shared = if in_block { 70 } else { 4 };
        let memory = if self.rng.percent(shared) { Memory::Shared } else { self.rng.pick(&other) };
        self.push(pure, Directive::StoreIn(memory));
    }

    /// Computes `f` inside of its only consumer, if it has one with loops.
    fn inside_consumer(&mut self, f: &Func, pure: &StageId) -> bool {
        let Some(stage) = self.consumer(&f.name) else { return false };
        let Some(loops) = self.loops.get(&stage).filter(|l| !l.is_empty()).cloned() else { return false };
        // Some slide along a loop, or along several.
        let often = if self.case.rings.contains(&f.name) { 90 } else { 45 };
        let window = loops.len() > 1 && self.rng.percent(often);
        let at = self.rng.below(loops.len() - window as usize);
        let level = |i: usize| LoopLevel { stage: stage.clone(), var: loops[i].clone() };
        self.push(pure, Directive::ComputeAt(level(at)));
        if window || self.rng.percent(50) {
            let outer = self.rng.range((at + window as usize) as i64, loops.len() as i64 - 1) as usize;
            self.push(pure, Directive::StoreAt(level(outer)));
            if self.rng.percent(25) {
                let hoisted = self.rng.range(outer as i64, loops.len() as i64 - 1) as usize;
                self.push(pure, Directive::HoistStorage(level(hoisted)));
            }
            if outer > at && !f.vars.is_empty() && self.rng.percent(30) {
                let var = self.rng.pick(&f.vars).name().clone();
                let factor = self.rng.pick(&[4, 8, 16, 32]);
                self.push(pure, Directive::FoldStorage { var, factor });
            } else if outer > at && self.rng.percent(20) {
                self.push(pure, Directive::StoreWhole);
            } else if outer > at && self.rng.percent(30) {
                self.push(pure, Directive::StoreIn(Memory::Register));
            }
        }
        true
    }

    /// A region that is larger than what is needed, as far as that can be known here.
    fn wide(&mut self, f: &Func, pure: &StageId, inside: bool) {
        let blocks = self.blocks(f);
        if inside && !blocks.is_empty() && self.rng.percent(50) {
            let (var, extent) = self.rng.pick(&blocks);
            return self.push(pure, Directive::Bound { var, min: None, extent });
        }
        let var = self.rng.pick(&f.vars).name().clone();
        let (min, extent) = match f.vars.len() {
            1 => (Some(Expr::from(0)), BINS as i32),
            _ if inside && self.rng.percent(80) => (None, self.rng.pick(&[8, 16, 32, 64])),
            _ => (Some(Expr::from(-50)), 150),
        };
        self.push(pure, Directive::Bound { var, min, extent: Expr::from(extent) });
    }

    /// The blocks that the consumer of `f` splits variables into which are named as those of `f`.
    fn blocks(&self, f: &Func) -> Vec<(Name, Expr)> {
        let stage = self.consumer(&f.name);
        let directives = stage.and_then(|stage| self.case.schedule.stages.get(&stage)).into_iter().flatten();
        let mut parts: Vec<(Name, Name)> =
            f.vars.iter().map(|v| (v.name().clone(), v.name().clone())).collect();
        let mut blocks = vec![];
        for d in directives {
            let Directive::Split { old, inner, factor, .. } = d else { continue };
            let Some((_, of)) = parts.iter().find(|(part, _)| part == old).cloned() else { continue };
            blocks.push((of.clone(), factor.clone()));
            parts.push((inner.clone(), of));
        }
        blocks
    }

    /// An output inside of its consumer, or in place of an input; how it is stored.
    pub(super) fn output(&mut self, f: &Func, pure: &StageId) {
        let sink = if self.case.sinks.contains(&f.name) { 75 } else { 10 };
        if self.rng.percent(sink) && self.inside_consumer(f, pure) {
            self.push(pure, Directive::Sink);
        }
        if let Some(input) = self.case.in_place.get(&f.name).cloned()
            && self.rng.percent(85)
        {
            self.push(pure, Directive::InPlaceOf(input));
        }
        if self.rng.percent(6) {
            let when = self.scale().gt(0);
            self.push(pure, Directive::NonTemporal(when));
        }
    }

    /// Regions that are what is needed anyway, estimates, and the layout of storage.
    pub(super) fn region(&mut self, f: &Func, pure: &StageId, output: bool) {
        for (d, v) in f.vars.iter().enumerate() {
            let var = v.name().clone();
            if self.rng.percent(5) {
                self.push(pure, Directive::Estimate { var: var.clone(), min: 0, extent: 100 });
            }
            let at = self.pipeline.outputs.iter().position(|o| o.func == f.name);
            let read =
                self.pipeline.funcs.values().any(|g| stages(g).iter().flatten().any(|e| reads(e, &f.name)));
            // A scatter or a scan may reach beyond the domain.
            let kept = f.updates.iter().all(|u| matches!(u.args[d].kind(), ExprKind::Var(n) if *n == var));
            let (first, extent) = match at {
                Some(k) if !read && kept => self.case.domains[k][d],
                _ => continue,
            };
            let extent = extent as i32;
            if self.rng.percent(10) {
                let min = self.rng.percent(50).then(|| Expr::from(first));
                self.push(pure, Directive::Bound { var, min, extent: Expr::from(extent) });
            }
        }
        if !output && f.vars.len() > 1 && self.rng.percent(15) {
            let names = f.vars.iter().rev().map(|v| v.name().clone()).collect();
            self.push(pure, Directive::ReorderStorage(names));
        }
        if !output && !f.vars.is_empty() && self.rng.percent(10) {
            let (var, modulus) = (self.rng.pick(&f.vars).name().clone(), self.rng.pick(&[3, 8, 64]));
            self.push(pure, Directive::AlignStorage { var, modulus });
        }
    }

    /// A wrapper of a Func or input, or a clone of a Func, at root or in the innermost loop of the only consumer.
    pub(super) fn wrap(&mut self, name: &Name, var: Name) {
        let wrapper: Name = format!("{name}_w").into();
        let id = |func: Name| StageId { func, stage: 0 };
        let clones = self.pipeline.funcs.contains_key(name) && self.rng.percent(30);
        let callers = self
            .pipeline
            .funcs
            .values()
            .filter(|g| g.name != *name && stages(g).iter().flatten().any(|e| reads(e, name)));
        let callers: Vec<Name> = callers.map(|g| g.name.clone()).collect();
        // None stands for all.
        let consumers = match !callers.is_empty() && self.rng.percent(40) {
            true => vec![self.rng.pick(&callers)],
            false => vec![],
        };
        let d = match clones {
            true => Directive::CloneIn { consumers, clone: wrapper.clone() },
            false => Directive::In { consumers, wrapper: wrapper.clone() },
        };
        self.push(&id(name.clone()), d);
        let loops = |s: StageId| self.loops.get(&s).and_then(|l| l.first()).map(|v| (s, v.clone()));
        let level = match self.consumer(name).and_then(loops) {
            Some((stage, var)) if self.rng.percent(50) => Directive::ComputeAt(LoopLevel { stage, var }),
            _ => Directive::ComputeRoot,
        };
        self.push(&id(wrapper.clone()), level);
        if self.rng.percent(50) {
            let (outer, inner, tail) = ("wo".into(), "wi".into(), Tail::Auto);
            let d = Directive::Split { old: var, outer, inner, factor: Expr::from(4), tail };
            self.push(&id(wrapper.clone()), d);
            self.push(&id(wrapper), Directive::Kind { var: "wi".into(), kind: ForKind::Vectorized });
        }
    }
}
