//! Blocks, threads and lanes of a GPU.

use super::Scheduler;
use sumsq_codegen::{Directive, Expr, ForKind, Name, StageId, Tail};

const TAILS: [Tail; 3] = [Tail::Auto, Tail::GuardWithIf, Tail::Predicate];

impl Scheduler<'_> {
    /// The loops of a stage as a kernel. What is computed inside may be so at its innermost block loop, at a loop inside of that,
    /// or in a thread.
    pub(super) fn kernel(&mut self, stage: &StageId, loops: Vec<Name>, pure: bool) {
        if loops.is_empty() {
            self.loops.insert(stage.clone(), vec![]);
            return self.push(stage, Directive::GpuSingle);
        }
        let start = loops.clone();
        let before = self.case.schedule.stages.get(stage).map_or(0, Vec::len);
        let (mut threads, mut blocks) = (vec![], vec![]);
        for (d, old) in loops.into_iter().enumerate() {
            if d > 0 && (old.len() > 12 || self.rng.percent(50)) {
                blocks.push(old);
                continue;
            }
            let factor = self.rng.pick(if d == 0 { &[2, 4, 32, 32][..] } else { &[2, 3, 4][..] });
            let (outer, inner): (Name, Name) = (format!("{old}g").into(), format!("{old}t").into());
            let (factor, tail) = (Expr::from(factor), self.rng.pick(&TAILS));
            let split = Directive::Split {
                old,
                outer: outer.clone(),
                inner: inner.clone(),
                factor: factor.clone(),
                tail,
            };
            self.push(stage, split);
            let lanes = d == 0 && factor.as_int() == Some(32) && self.rng.percent(50);
            threads.push((inner, if lanes { ForKind::GpuLane } else { ForKind::GpuThread }));
            blocks.push(outer);
        }
        // Some of what could be blocks is a loop between, or of each thread.
        let spare = if blocks.len() > 3 { blocks.len() - 3 } else { self.rng.below(blocks.len()) };
        let between: Vec<Name> = blocks.drain(..spare).collect();
        let inside = self.rng.percent(50);
        let names = threads.iter().map(|t| t.0.clone());
        let order: Vec<Name> = match inside {
            // Lanes hold loops of their own, threads hold lanes.
            true => between.iter().cloned().chain(names).chain(blocks.clone()).collect(),
            false => names.chain(between.clone()).chain(blocks.clone()).collect(),
        };
        if order.len() > 1 {
            self.push(stage, Directive::Reorder(order.clone()));
        }
        let kind = |v: &Name| match threads.iter().find(|t| t.0 == *v) {
            Some((_, kind)) => *kind,
            None if blocks.contains(v) => ForKind::GpuBlock,
            None => ForKind::Serial,
        };
        let nest: Vec<(Name, ForKind)> = order.iter().rev().map(|v| (v.clone(), kind(v))).collect();
        for (var, kind) in nest.iter().filter(|l| l.1 != ForKind::Serial) {
            self.push(stage, Directive::Kind { var: var.clone(), kind: *kind });
        }
        let lanes = threads.iter().any(|t| t.1 == ForKind::GpuLane);
        let mut levels = if inside && lanes { vec![] } else { between };
        match threads.get(1) {
            _ if !lanes => levels.insert(if inside { levels.len() } else { 0 }, threads[0].0.clone()),
            // A thread that holds lanes.
            Some(warp) => levels.insert(0, warp.0.clone()),
            None => (),
        }
        levels.push(blocks[0].clone());
        self.in_blocks.insert((stage.clone(), blocks[0].clone()));
        self.loops.insert(stage.clone(), levels);
        self.nests.insert(stage.clone(), nest);
        self.plain.push((stage.clone(), start, pure, before));
    }

    /// The loops of a stage that is computed inside of a block as threads of that.
    pub(super) fn threads(&mut self, stage: &StageId, loops: &[Name]) {
        let mut order = vec![];
        for (d, old) in loops.iter().enumerate() {
            if self.rng.percent(40) {
                order.push((old.clone(), d < 3 && self.rng.percent(70)));
                continue;
            }
            let (outer, inner): (Name, Name) = (format!("{old}s").into(), format!("{old}t").into());
            let (factor, tail) = (Expr::from(self.rng.pick(&[2, 4, 8])), self.rng.pick(&TAILS));
            let split = Directive::Split {
                old: old.clone(),
                outer: outer.clone(),
                inner: inner.clone(),
                factor,
                tail,
            };
            self.push(stage, split);
            order.push((inner, true));
            order.push((outer, false));
        }
        // Threads inside of what is not.
        order.sort_by_key(|l| !l.1);
        if order.len() > 1 {
            self.push(stage, Directive::Reorder(order.iter().map(|l| l.0.clone()).collect()));
        }
        for (var, _) in order.iter().filter(|l| l.1) {
            self.push(stage, Directive::Kind { var: var.clone(), kind: ForKind::GpuThread });
        }
        self.loops.insert(stage.clone(), order.into_iter().filter(|l| !l.1).map(|l| l.0).collect());
    }
}
