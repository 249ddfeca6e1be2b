//! Schedules of update definitions.

use super::Scheduler;
use sumsq_codegen::expr::walk::any;
use sumsq_codegen::func::Update;
use sumsq_codegen::{Directive, Expr, ExprKind, ForKind, Func, LoopLevel, Name, StageId, Tail, Var};

impl Scheduler<'_> {
    pub(super) fn update(&mut self, f: &Func, u: &Update, stage: &StageId) {
        let reduced: Vec<Name> = u.rdom.vars.iter().map(|r| r.name.clone()).collect();
        let pure = f.vars.iter().zip(&u.args);
        let pure = pure.filter(|(v, a)| matches!(a.kind(), ExprKind::Var(n) if *n == *v.name()));
        let mut pure: Vec<Name> = pure.map(|(v, _)| v.name().clone()).collect();
        if let Some(v) = self.gathered(f, u) {
            self.push(stage, Directive::Gather(v.clone()));
            pure.push(v);
        }
        let exact = u.values.iter().all(|v| !v.ty().scalar.is_float());
        let relaxed = self.relaxed && self.rng.percent(if exact { 20 } else { 80 });
        if relaxed {
            self.push(stage, Directive::Relaxed);
        }
        // Another order of a sum in floats gives another sum.
        let free = exact || relaxed || self.case.free_sums.contains_key(&f.name);
        let factored = if f.vars.is_empty() { 60 } else { 20 };
        if free && !reduced.is_empty() && self.rng.percent(factored) {
            return self.rfactor(f, stage, reduced, pure);
        }
        let sum = u.values.iter().all(|v| matches!(v.kind(), ExprKind::Binary(..)));
        if free && sum && f.vars.len() < 2 && self.rng.percent(50) {
            self.push(stage, Directive::Atomic);
        }
        let ordered = if free { vec![] } else { reduced.clone() };
        self.stage(stage, [reduced, pure].concat(), &ordered, false);
    }

    /// Now and then a computed coordinate of an update that reads no other element than its own.
    fn gathered(&mut self, f: &Func, u: &Update) -> Option<Name> {
        let elsewhere = |e: &Expr| matches!(e.kind(), ExprKind::Call { name, args, .. } if *name == f.name && *args != u.args);
        let mut all = u.args.iter().chain(&u.values).chain(&u.rdom.predicate);
        let own = |(v, a): &(&Var, &Expr)| matches!(a.kind(), ExprKind::Var(n) if *n == *v.name());
        let computed = f.vars.iter().zip(&u.args).filter(|place| !own(place));
        let computed: Vec<Name> = computed.map(|(v, _)| v.name().clone()).collect();
        let may = !computed.is_empty() && !all.any(|e| any(e, elsewhere));
        (may && self.rng.percent(40)).then(|| self.rng.pick(&computed))
    }

    /// Partial results of a reduction over `reduced`, one for each value, or strip of values, of one or two of them.
    fn rfactor(&mut self, f: &Func, stage: &StageId, mut reduced: Vec<Name>, pure: Vec<Name>) {
        let partial: Name = format!("{}_partial", f.name).into();
        let mut keep = vec![];
        for v in ["v", "w"] {
            if reduced.is_empty() || v == "w" && self.rng.percent(75) {
                break;
            }
            // Of an argmin the outermost are kept.
            let at = if self.rng.percent(70) { reduced.len() - 1 } else { self.rng.below(reduced.len()) };
            let mut kept = reduced.remove(at);
            if self.rng.percent(60) {
                let [outer, inner] = ["strip", "row"].map(|end| Name::from(format!("{kept}_{end}")));
                let (factor, _) = self.factor();
                let tail = self.rng.pick(&[Tail::Auto, Tail::GuardWithIf, Tail::Predicate]);
                reduced.insert(at, inner.clone());
                let old = std::mem::replace(&mut kept, outer.clone());
                self.push(stage, Directive::Split { old, outer, inner, factor, tail });
            }
            keep.push((kept, Name::from(v)));
        }
        keep.reverse();
        self.push(stage, Directive::Rfactor { keep: keep.clone(), into: partial.clone() });
        let id = |stage: usize| StageId { func: partial.clone(), stage };
        let made: Vec<Name> = keep.iter().map(|k| k.1.clone()).collect();
        let all = f.vars.iter().map(|v| v.name().clone()).chain(made.clone()).collect();
        let kept: Vec<Name> = keep.into_iter().map(|k| k.0).collect();
        let merge: Vec<Name> = kept.iter().cloned().chain(f.vars.iter().map(|v| v.name().clone())).collect();
        if self.rng.percent(40) {
            self.stage(stage, merge, &kept, false);
        } else {
            self.loops.insert(stage.clone(), merge);
        }
        match self.loops.get(stage).filter(|l| !l.is_empty()).cloned() {
            Some(loops) if self.rng.percent(40) => {
                let level = LoopLevel { stage: stage.clone(), var: self.rng.pick(&loops) };
                self.push(&id(0), Directive::ComputeAt(level));
            }
            _ if self.rng.percent(50) => self.push(&id(0), Directive::ComputeRoot),
            _ => {}
        }
        if self.rng.percent(30) {
            self.stage(&id(0), all, &[], true);
        }
        if self.rng.percent(50) {
            let var = self.rng.pick(&made);
            self.push(&id(1), Directive::Kind { var, kind: ForKind::Parallel });
        } else {
            self.stage(&id(1), [reduced, pure, made].concat(), &[], false);
        }
        // They run with no other Func.
        self.nests.retain(|s, _| s.func != partial);
        self.plain.retain(|p| p.0.func != partial);
    }
}
