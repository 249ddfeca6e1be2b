//! Every application under random schedules.

use crate::cases::{Case, cases};
use crate::parts::inside;
use std::collections::HashMap;
use sumsq::codegen::compile::Compiled;
use sumsq::codegen::func::calls;
use sumsq::codegen::{
    Directive, Error, Expr, ExprKind, ForKind, Func, LoopLevel, Name, Pipeline, Schedule, StageId, Tail,
};
use sumsq_codegen_testing::random::program;
use sumsq_codegen_testing::random::reads;
use sumsq_codegen_testing::random::refused::drop_refused;
use sumsq_codegen_testing::random::schedules::stages;
use sumsq_codegen_testing::rng::Rng;

/// Random schedules of each application.
const SCHEDULES: usize = 3;
/// Schedules that are drawn for an application, at most, those included that the engine refuses as a whole.
const DRAWN: u64 = 8;
/// Funcs in the loops of each other, or inlined into each other: each may multiply the work.
const DEEPEST: usize = 2;
/// Calls of a Func by its consumers, at most, where it is inlined.
const CALLS: usize = 9;

struct Drawer<'a> {
    rng: Rng,
    pipeline: &'a Pipeline,
    case: program::Case,
    /// The loops of each stage in which something may be computed, innermost first; none for inlined Funcs.
    loops: HashMap<StageId, Vec<Name>>,
    /// Funcs around each that are not at root.
    depth: HashMap<Name, usize>,
}

/// A pipeline under a random schedule. The generator of `codegen-testing` would put all stages of a chain into each other.
fn drawn(pipeline: &Pipeline, seed: u64) -> program::Case {
    let case = program::Case { pipeline: pipeline.clone(), ..program::Case::default() };
    let (loops, depth) = (HashMap::new(), HashMap::new());
    let mut drawer = Drawer { rng: Rng::new(seed), pipeline, case, loops, depth };
    // Consumers first.
    pipeline.funcs.values().rev().for_each(|f| drawer.func(f));
    drawer.case
}

impl Drawer<'_> {
    fn push(&mut self, stage: &StageId, d: Directive) {
        self.case.schedule.stages.entry(stage.clone()).or_default().push(d);
    }

    fn func(&mut self, f: &Func) {
        let id = |stage: usize| StageId { func: f.name.clone(), stage };
        let is_output = self.pipeline.outputs.iter().any(|o| o.func == f.name);
        if !is_output && !self.place(f, &id(0)) {
            return;
        }
        let vars: Vec<Name> = f.vars.iter().map(|v| v.name().clone()).collect();
        let tails = [Tail::Auto, Tail::GuardWithIf, Tail::Predicate, Tail::ShiftInwards];
        self.stage(&id(0), vec![], vars.clone(), &tails);
        for (k, u) in f.updates.iter().enumerate() {
            let reduced = u.rdom.vars.iter().map(|r| r.name.clone()).collect();
            let is_pure = |v: &Name, a: &Expr| matches!(a.kind(), ExprKind::Var(n) if n == v);
            let pure = vars.iter().zip(&u.args).filter(|(v, a)| is_pure(v, a));
            let pure = pure.map(|(v, _)| v.clone()).collect();
            self.stage(&id(k + 1), reduced, pure, &tails[..3]);
        }
    }

    /// The stages of other Funcs that read one.
    fn consumers(&self, f: &Func) -> Vec<StageId> {
        let others = self.pipeline.funcs.values().filter(|g| g.name != f.name);
        let of = |g: &Func| {
            let all = stages(g).into_iter().enumerate();
            let read = all.filter(|(_, exprs)| exprs.iter().any(|e| reads(e, &f.name)));
            read.map(|(stage, _)| StageId { func: g.name.clone(), stage }).collect::<Vec<StageId>>()
        };
        others.flat_map(of).collect()
    }

    /// The number of different calls of a Func by others.
    fn calls(&self, f: &Func) -> usize {
        let all = self.pipeline.funcs.values().filter(|g| g.name != f.name).flat_map(stages).flatten();
        let of = |e: Expr| calls(&e).iter().filter(|c| reads(c, &f.name)).count();
        all.map(of).sum()
    }

    /// Chooses where a Func is computed; false if it is inlined.
    fn place(&mut self, f: &Func, pure: &StageId) -> bool {
        let consumers = self.consumers(f);
        let depth = 1 + consumers.iter().filter_map(|s| self.depth.get(&s.func)).max().copied().unwrap_or(0);
        let may_nest = depth <= DEEPEST;
        self.depth.insert(f.name.clone(), if may_nest { depth } else { 0 });
        if may_nest && f.updates.is_empty() && self.calls(f) <= CALLS && self.rng.percent(30) {
            return false;
        }
        let at = match &consumers[..] {
            [one] => self.loops.get(one).filter(|l| !l.is_empty()).cloned().map(|l| (one.clone(), l)),
            _ => None,
        };
        let Some((stage, loops)) = at.filter(|_| may_nest && self.rng.percent(60)) else {
            self.depth.insert(f.name.clone(), 0);
            self.push(pure, Directive::ComputeRoot);
            return true;
        };
        let inner = self.rng.below(loops.len());
        let outer = self.rng.range(inner as i64, loops.len() as i64 - 1) as usize;
        let level = |i: usize| LoopLevel { stage: stage.clone(), var: loops[i].clone() };
        self.push(pure, Directive::ComputeAt(level(inner)));
        if outer > inner && self.rng.percent(50) {
            self.push(pure, Directive::StoreAt(level(outer)));
        }
        true
    }

    /// Up to two splits of pure loops: the new inner loops with their kinds, and the outer ones whose blocks may overlap.
    fn splits(
        &mut self,
        stage: &StageId,
        pure: &mut Vec<Name>,
        tails: &[Tail],
    ) -> (Vec<(Name, ForKind)>, Vec<Name>) {
        let mut kinds: Vec<(Name, ForKind)> = vec![];
        let mut overlapping: Vec<Name> = vec![];
        for kind in [ForKind::Vectorized, ForKind::Unrolled] {
            if pure.is_empty() || self.rng.percent(40) {
                continue;
            }
            let at = self.rng.below(pure.len());
            let old = pure[at].clone();
            if kinds.iter().any(|(var, _)| *var == old) {
                continue;
            }
            let [outer, inner] = ["_out", "_in"].map(|end| Name::from(format!("{old}{end}")));
            let (tail, factor) = (self.rng.pick(tails), Expr::from(self.rng.pick(&[2, 3, 4, 8])));
            if overlapping.contains(&old) || matches!(tail, Tail::Auto | Tail::ShiftInwards) {
                overlapping.push(outer.clone());
            }
            pure[at] = outer.clone();
            pure.insert(at, inner.clone());
            kinds.push((inner.clone(), kind));
            self.push(stage, Directive::Split { old, outer, inner, factor, tail });
        }
        (kinds, overlapping)
    }

    /// Splits, an order, vectors, copies and threads of the loops over pure variables.
    fn stage(&mut self, stage: &StageId, reduced: Vec<Name>, mut pure: Vec<Name>, tails: &[Tail]) {
        let (mut kinds, overlapping) = self.splits(stage, &mut pure, tails);
        if reduced.is_empty() && pure.len() > 1 && self.rng.percent(60) {
            self.rng.shuffle(&mut pure);
            self.push(stage, Directive::Reorder(pure.clone()));
        }
        let mut loops = [reduced.clone(), pure].concat();
        // What is in a loop over lanes is part of a vector.
        let lanes = |v: &Name| kinds.iter().any(|(var, kind)| var == v && *kind == ForKind::Vectorized);
        loops.drain(..loops.iter().position(lanes).map_or(0, |at| at + 1));
        loops.retain(|v| kinds.iter().all(|(var, _)| var != v));
        // Threads would store what overlaps twice.
        let once = |v: &&Name| !overlapping.contains(v) && !reduced.contains(v);
        let threads: Vec<Name> = loops.iter().filter(once).cloned().collect();
        if !threads.is_empty() && self.rng.percent(50) {
            let var = self.rng.pick(&threads);
            loops.retain(|v| *v != var);
            kinds.push((var, ForKind::Parallel));
        }
        kinds.into_iter().for_each(|(var, kind)| self.push(stage, Directive::Kind { var, kind }));
        self.loops.insert(stage.clone(), loops);
    }
}

/// Code of a case under a random schedule, without what the engine refuses of it, as text; none where nothing is left.
fn compiled(case: &Case, seed: u64) -> Option<(Compiled, String)> {
    let mut random = drawn(&case.pipeline, seed);
    loop {
        match case.compiled(&random.schedule) {
            Ok(_) if random.schedule.stages.is_empty() => return None,
            Ok(compiled) => return Some((compiled, random.schedule.to_string())),
            Err(e @ Error::Schedule { .. }) => {
                println!("{}, seed {seed}: {e}", case.application.name);
                if !drop_refused(&mut random, &e) {
                    return None;
                }
            }
            Err(Error::Limit { .. }) => return None,
            Err(e) => panic!("{}, seed {seed}: {e}\n{}", case.application.name, random.schedule),
        }
    }
}

/// Whatever the schedule, the results are those of the plain loops, of all of the output and of a part from its inside.
#[test]
fn random_schedules() {
    let mut all = String::new();
    for case in cases() {
        let name = case.application.name;
        // A random schedule fixes no extent of the output.
        let (whole, part) = (case.whole(), inside(&case, &Schedule::new()));
        let mut ran = 0;
        for (seed, (compiled, text)) in (1..=DRAWN).filter_map(|seed| Some((seed, compiled(&case, seed)?))) {
            for (threads, domain) in [(1, &whole), (3, &whole), (3, &part)] {
                let what = format!("seed {seed}, {threads} threads, over {domain:?}\n{text}");
                let came = case.must(&what, case.run(&compiled, domain, threads));
                case.compare(&what, &came, &case.expected, domain, case.within);
            }
            all += &text;
            ran += 1;
            if ran == SCHEDULES {
                break;
            }
        }
        assert_eq!(ran, SCHEDULES, "{name}: schedules that ran");
    }
    for word in ["compute_at", "store_at", "compute_root", "vectorize", "unroll", "parallel", "reorder"] {
        assert!(all.contains(word), "no schedule has {word}");
    }
}
