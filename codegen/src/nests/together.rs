//! The loops of several stages as one nest (compute_with).
//!
//! ```text
//! for f.y.joint in the iterations of all {
//!   let f.y = f.y.joint, g.y = f.y.joint
//!   what several of the stages read
//!   produce f { if f.y is one of f's { what f alone needs, its further loops } }
//!   produce g { if g.y is one of g's { ... } }
//! }
//! ```
//! Where a further loop is joint, what its stages do outside of it (lets, storage, producers) is all done before it, and their
//! conditions move into it: loops are pure control, for no stage reads what another one computes.
//!
//! Each stage is emitted in a scope of its own, as if its nest stood by itself ([`Member`]). What several of them read is
//! computed in the scope of the joint loops, where nothing is known of a stage's own range.

use crate::analysis::algebra::build::{add, offset};
use crate::analysis::algebra::{Facts, build};
use crate::error::Error;
use crate::expr::Expr;
use crate::ir::rewrite::{block, under};
use crate::ir::stmt::Stmt;
use crate::nests::emit::{Entered, MAX_COPIES, enter_loop};
use crate::nests::in_place::keeps;
use crate::nests::members::{Member, Opened, check_lets, not_joint};
use crate::nests::place::place;
use crate::nests::policies::with_policy;
use crate::nests::prefetch::prefetches;
use crate::nests::scope::Around;
use crate::nests::walk::Walk;
use crate::plan::plans::{FuncPlan, JointLoop, Level, Stage, joint_name};
use crate::schedule::{ForKind, LoopLevel, StageId};

/// Versions of a joint nest, each of which is emitted.
const MAX_VERSIONS: usize = 64;

impl<'p> Walk<'p> {
    /// The nest of stages that run together.
    pub(super) fn joint_nest(&mut self, ids: &[StageId]) -> Result<Stmt, Error> {
        let plan = self.scope.plan;
        let all = ids.iter().map(|id| (&plan.funcs[&id.func], &plan.funcs[&id.func].stages[id.stage]));
        let stages: Vec<_> = all.filter(|(f, s)| !keeps(&self.found, f, s)).collect();
        match stages[..] {
            [] => Ok(Stmt::Block(vec![])),
            [(f, s)] if ids.len() == 1 && s.single => Ok(produce(s, self.single(f, s)?)),
            [(f, s)] if ids.len() == 1 => Ok(produce(s, self.stage(f, s)?)),
            [(_, first), ..] => {
                if let Some((_, s)) = stages.iter().find(|(_, s)| s.single) {
                    return Err(not_joint(plan, s, "it is a single thread of a GPU"));
                }
                let versions = stages.iter().map(|(_, s)| s.versions().len());
                let all = versions.clone().fold(1usize, |all, n| all.saturating_mul(n));
                if all > MAX_VERSIONS {
                    let each: Vec<String> = versions.map(|n| n.to_string()).collect();
                    let what = format!("{} are {all} versions of the joint nest", each.join(" times "));
                    let rule = format!("{what}, more than {MAX_VERSIONS}; specialize fewer of the stages");
                    return Err(not_joint(plan, first, rule));
                }
                self.joint_versions(&stages, &[])
            }
        }
    }

    /// Every choice of versions: those that are `chosen`, with each of the stages that are left.
    fn joint_versions(
        &mut self,
        left: &[(&'p FuncPlan, &'p Stage)],
        chosen: &[(&'p FuncPlan, &'p Stage)],
    ) -> Result<Stmt, Error> {
        let Some(((f, s), left)) = left.split_first() else {
            return self.at(self.scope.clone(), |walk| walk.joint(chosen));
        };
        self.versions(s, &mut |walk, version| walk.joint_versions(left, &[chosen, &[(*f, version)]].concat()))
    }

    /// The nest of one version of each stage.
    fn joint(&mut self, stages: &[(&'p FuncPlan, &'p Stage)]) -> Result<Stmt, Error> {
        let outside = self.scope.clone();
        let (mut group, mut opened) = (vec![], Opened::default());
        for (f, s) in stages {
            let cx = place(outside.plan, &self.regions, &self.found, f, s)?;
            let mut m = Member::new(cx, outside.clone());
            let zeros = m.enter_slot(&mut self.regions, 0, Some((&mut self.scope, &mut opened)))?;
            group.push(m);
            group.extend(zeros);
        }
        Ok(opened.around(self.parts(&group, 0)?))
    }

    /// Returns what the stages do inside of their first `j` loops, all of them joint: further joint loops, and what each does alone.
    fn parts(&mut self, group: &[Member<'p>], j: usize) -> Result<Stmt, Error> {
        let plan = self.scope.plan;
        let (mut parts, mut done) = (vec![], vec![]);
        for m in group {
            let id = &m.cx.s.id;
            match plan.joint_loop(id, j) {
                Some(_) if done.contains(&id) => {}
                Some(joint) => {
                    let inside = |m: &&Member| joint.members.contains(&m.cx.s.id);
                    let inner: Vec<Member> = group.iter().filter(inside).cloned().collect();
                    done.extend(&joint.members);
                    parts.push(self.around_joint(&inner, 0, joint)?);
                }
                None => {
                    let body = self.at(m.scope.clone(), |walk| walk.inside(&m.cx, j, m.mode.clone()))?;
                    parts.push(produce(m.cx.s, under(&m.conds, body)));
                }
            }
        }
        Ok(block(parts))
    }

    /// Returns what the stages from the `i`th on do by themselves before `joint`, and that loop.
    fn around_joint(&mut self, group: &[Member<'p>], i: usize, joint: &'p JointLoop) -> Result<Stmt, Error> {
        let Some(m) = group.get(i).filter(|_| joint.depth > 0) else { return self.joint_loop(group, joint) };
        if m.is_zero() {
            return self.around_joint(group, i + 1, joint);
        }
        let s = m.cx.s;
        let var = s.dims[s.dims.len() - joint.depth].name.clone();
        let fetches = prefetches(&m.scope, &self.regions, s, &var)?;
        let level = Level::At(LoopLevel { stage: s.id.clone(), var });
        let outside = self.scope.clone();
        let mut rest = |walk: &mut Self| {
            let mut group = group.to_vec();
            group[i].scope = walk.scope.clone();
            walk.at(outside.clone(), |walk| walk.around_joint(&group, i + 1, joint))
        };
        let body = self.at(m.scope.clone(), |walk| walk.level(&level, &m.conds, &mut rest))?;
        if !m.conds.is_empty() {
            check_lets(outside.plan, &self.regions, s, &level)?;
        }
        let fetches = fetches.into_iter().map(|f| under(&m.conds, f));
        Ok(block(fetches.chain([body]).collect()))
    }

    /// A joint loop, over the iterations of all its stages.
    fn joint_loop(&mut self, group: &[Member<'p>], joint: &'p JointLoop) -> Result<Stmt, Error> {
        let (mut group, mut loops) = (group.to_vec(), vec![]);
        for m in &mut group {
            loops.push(enter_loop(&mut m.scope, &mut m.cx, joint.depth)?);
        }
        let range @ (min, last) = &joint_range(&self.scope.facts, &loops);
        let extent = offset(&build::sub(last, min), 1);
        let kind = loops.iter().find(|l| l.once.is_none()).map_or(ForKind::Serial, |l| l.kind);
        let copies = kind.is_constant();
        if copies && extent.as_int().is_none_or(|n| n > MAX_COPIES) {
            let rule = format!("the ranges of {}{} differ by no constant", kind.prefix(), joint.var);
            return Err(not_joint(self.scope.plan, group[0].cx.s, rule));
        }
        let var = joint_name(&loops[0].var);
        let mut body = self.at(self.scope.clone(), |walk| {
            walk.scope.facts.enter_for(&var, min, &extent);
            walk.scope.around.push(Around::Loop(joint.level(), var.clone(), kind));
            walk.joint_iteration(&group, &loops, range, joint)
        })?;
        for (m, l) in group.iter().zip(&loops).filter(|(m, _)| !m.is_zero()) {
            body = with_policy(m.cx.s, joint.depth, &l.var, body)?;
        }
        Ok(Stmt::For { var, min: min.clone(), extent, kind, body: Box::new(body) })
    }

    /// The body of a joint loop over `range`, in which those of the `group` have their own `loops`.
    fn joint_iteration(
        &mut self,
        group: &[Member<'p>],
        loops: &[Entered],
        range: &(Expr, Expr),
        joint: &'p JointLoop,
    ) -> Result<Stmt, Error> {
        let inside = joint.depth + 1;
        let here = Expr::var(joint_name(&loops[0].var));
        let (mut opened, mut members) = (Opened::default(), vec![]);
        for (mut m, l) in group.iter().cloned().zip(loops) {
            own_iterations(&self.scope.facts, &mut m, l, range);
            if m.is_zero() {
                m.enter_slot(&mut self.regions, inside, None)?;
                members.push(m);
                continue;
            }
            // A stage's own loop is where the joint loop is.
            self.scope.facts.enter_let(&l.var, &here);
            opened.lets.push((l.var.clone(), here.clone()));
            let zeros = m.enter_slot(&mut self.regions, inside, Some((&mut self.scope, &mut opened)))?;
            members.push(m);
            members.extend(zeros);
        }
        Ok(opened.around(self.joint_body(&members, joint)?))
    }

    /// Returns what several of the stages read in an iteration of a joint loop, then all of them.
    fn joint_body(&mut self, group: &[Member<'p>], joint: &'p JointLoop) -> Result<Stmt, Error> {
        let level = Level::At(joint.level());
        let differ = group.iter().any(|m| !m.conds.is_empty());
        if differ {
            self.regions.differing.insert(joint.level());
        }
        let body = self.level(&level, &[], &mut |walk| walk.parts(group, joint.depth + 1))?;
        if differ {
            check_lets(self.scope.plan, &self.regions, group[0].cx.s, &level)?;
        }
        Ok(body)
    }
}

/// The body of a stage runs in iterations of its own, of those of a joint loop over a range.
fn own_iterations(facts: &Facts, m: &mut Member, l: &Entered, (min, last): &(Expr, Expr)) {
    let own = Expr::var(l.var.clone());
    if !same(facts, &l.min, min) {
        m.conds.push(l.min.le(&own).likely());
    }
    if !same(facts, &last_of(l), last) {
        m.conds.push(own.le(last_of(l)).likely());
    }
}

/// First and last value of a joint loop.
fn joint_range(facts: &Facts, loops: &[Entered]) -> (Expr, Expr) {
    let (mut min, mut last) = (loops[0].min.clone(), last_of(&loops[0]));
    for l in &loops[1..] {
        if !same(facts, &l.min, &min) {
            min = build::min(&min, &l.min);
        }
        if !same(facts, &last_of(l), &last) {
            last = build::max(&last, &last_of(l));
        }
    }
    (min, last)
}

fn same(facts: &Facts, a: &Expr, b: &Expr) -> bool {
    a == b || facts.proves_le(a, b) && facts.proves_le(b, a)
}

/// Last iteration.
fn last_of(l: &Entered) -> Expr {
    offset(&add(&l.min, &l.extent), -1)
}

fn produce(s: &Stage, body: Stmt) -> Stmt {
    Stmt::Produce { stage: s.id.clone(), body: Box::new(body) }
}
