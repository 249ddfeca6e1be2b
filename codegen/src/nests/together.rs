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
//! Each stage is emitted with what is known of it alone, as if its nest stood by itself: a [`View`]. What several of them read is
//! computed in the view of the joint loops, where nothing is known of a stage's own range.
//!
//! A pure definition with storage that is skipped where a condition fails stores zeros there: a member of its own, behind the
//! other one, with the opposite condition. It is in the same loops under the same names and computes no producers.

use crate::analysis::algebra::build::{add, offset};
use crate::analysis::algebra::{Facts, build};
use crate::error::Error;
use crate::expr::walk::any;
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::rewrite::block;
use crate::ir::stmt::Stmt;
use crate::nests::emit::{Entered, MAX_COPIES};
use crate::nests::slots::{Emit, Item, Mode};
use crate::nests::{Around, Nests, bind, guarded};
use crate::plan::plans::{FuncPlan, JointLoop, Level, Stage, illegal, joint_name};
use crate::schedule::{Directive, ForKind, LoopLevel, StageId};

/// What is known at a place, and what is around it.
#[derive(Clone)]
struct View {
    facts: Facts,
    around: Vec<Around>,
}

/// One of the stages of a joint nest.
#[derive(Clone)]
struct Member<'p> {
    cx: Emit<'p>,
    mode: Mode,
    /// What its body runs under, the outermost condition first.
    conds: Vec<Expr>,
    view: View,
}

impl Member<'_> {
    /// Does it store the zeros of what another member skips?
    fn is_zero(&self) -> bool {
        matches!(self.mode, Mode::Zero)
    }
}

/// What a level of a joint nest starts with.
#[derive(Default)]
struct Opened {
    /// They hold in every view, the outermost first.
    lets: Vec<(Name, Expr)>,
    /// Each under the conditions of its stage.
    checks: Vec<Stmt>,
}

impl Opened {
    fn around(self, body: Stmt) -> Stmt {
        let body = block(self.checks.into_iter().chain([body]).collect());
        self.lets.into_iter().rev().fold(body, |body, (n, v)| bind(n, v, body))
    }
}

impl<'p> Nests<'p> {
    /// The nest of stages that run together.
    pub(super) fn joint_nest(&mut self, ids: &[StageId]) -> Result<Stmt, Error> {
        let plan = self.plan;
        let all = ids.iter().map(|id| (&plan.funcs[&id.func], &plan.funcs[&id.func].stages[id.stage]));
        let stages: Vec<_> = all.filter(|(f, s)| !self.keeps(f, s)).collect();
        match stages[..] {
            [] => Ok(Stmt::Block(vec![])),
            [(f, s)] if ids.len() == 1 => Ok(produce(s, self.stage(f, s)?)),
            [(_, first), ..] => {
                let versions = stages.iter().map(|(_, s)| s.versions().len());
                let all = versions.clone().fold(1usize, |all, n| all.saturating_mul(n));
                if all > MAX_VERSIONS {
                    let each: Vec<String> = versions.map(|n| n.to_string()).collect();
                    let what = format!("{} are {all} versions of the joint nest", each.join(" times "));
                    let rule = format!("{what}, more than {MAX_VERSIONS}; specialize fewer of the stages");
                    return Err(self.not_joint(first, rule));
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
        let Some(((f, s), left)) = left.split_first() else { return self.joint(chosen) };
        self.versions(s, &mut |nests, version| {
            nests.joint_versions(left, &[chosen, &[(*f, version)]].concat())
        })
    }

    /// The nest of one version of each stage.
    fn joint(&mut self, stages: &[(&'p FuncPlan, &'p Stage)]) -> Result<Stmt, Error> {
        let outside = self.view();
        let (mut group, mut opened) = (vec![], Opened::default());
        for (f, s) in stages {
            let (cx, mode, view) = (self.emit(f, s)?, Mode::Store(vec![]), outside.clone());
            let mut m = Member { cx, mode, conds: vec![], view };
            let zeros = self.joint_items(&mut m, 0, Some(&mut opened))?;
            group.push(m);
            group.extend(zeros);
        }
        let body = self.parts(&group, 0)?;
        self.replace_view(outside);
        Ok(opened.around(body))
    }

    /// What the stages do inside of their first `j` loops, all of them joint: further joint loops, and what each does alone.
    fn parts(&mut self, group: &[Member<'p>], j: usize) -> Result<Stmt, Error> {
        let plan = self.plan;
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
                    let outside = self.replace_view(m.view.clone());
                    let body = self.inside(&m.cx, j, m.mode.clone())?;
                    self.replace_view(outside);
                    parts.push(produce(m.cx.s, guarded(&m.conds, body)));
                }
            }
        }
        Ok(block(parts))
    }

    /// What the stages from the `i`th on do by themselves before `joint`, and that loop.
    fn around_joint(&mut self, group: &[Member<'p>], i: usize, joint: &'p JointLoop) -> Result<Stmt, Error> {
        let Some(m) = group.get(i).filter(|_| joint.depth > 0) else { return self.joint_loop(group, joint) };
        if m.is_zero() {
            return self.around_joint(group, i + 1, joint);
        }
        let s = m.cx.s;
        let var = s.dims[s.dims.len() - joint.depth].name.clone();
        let outside = self.replace_view(m.view.clone());
        let fetches = self.prefetches(s, &var)?;
        let level = Level::At(LoopLevel { stage: s.id.clone(), var });
        let body = self.level(&level, &m.conds, &mut |nests| {
            let own = nests.replace_view(outside.clone());
            let mut group = group.to_vec();
            group[i].view = own.clone();
            let body = nests.around_joint(&group, i + 1, joint);
            nests.replace_view(own);
            body
        })?;
        self.replace_view(outside);
        if !m.conds.is_empty() {
            self.check_lets(s, &level)?;
        }
        let fetches = fetches.into_iter().map(|f| guarded(&m.conds, f));
        Ok(block(fetches.chain([body]).collect()))
    }

    /// A joint loop, over the iterations of all its stages.
    fn joint_loop(&mut self, group: &[Member<'p>], joint: &'p JointLoop) -> Result<Stmt, Error> {
        let j = joint.depth;
        let mut group = group.to_vec();
        let mut loops = vec![];
        for m in &mut group {
            let outside = self.replace_view(m.view.clone());
            loops.push(self.enter_loop(&mut m.cx, j)?);
            m.view = self.replace_view(outside);
        }
        let range @ (min, last) = &self.joint_range(&loops);
        let extent = offset(&build::sub(last, min), 1);
        let kind = loops.iter().find(|l| l.once.is_none()).map_or(ForKind::Serial, |l| l.kind);
        let copies = matches!(kind, ForKind::Vectorized | ForKind::Unrolled);
        if copies && extent.as_int().is_none_or(|n| n > MAX_COPIES) {
            let rule = format!("the ranges of {}{} differ by no constant", kind.prefix(), joint.var);
            return Err(self.not_joint(group[0].cx.s, rule));
        }
        let var = joint_name(&loops[0].var);
        let outside = self.view();
        self.facts.enter_for(&var, min, &extent);
        self.around.push(Around::Loop(joint.level(), var.clone(), kind));
        let (mut opened, mut members) = (Opened::default(), vec![]);
        for (mut m, l) in group.iter().cloned().zip(&loops) {
            self.own_iterations(&mut m, l, range);
            if m.is_zero() {
                self.joint_items(&mut m, j + 1, None)?;
                members.push(m);
                continue;
            }
            opened.lets.push(self.enter_own(l, &var));
            let zeros = self.joint_items(&mut m, j + 1, Some(&mut opened))?;
            members.push(m);
            members.extend(zeros);
        }
        let body = self.joint_body(&members, joint)?;
        self.replace_view(outside);
        let mut body = opened.around(body);
        for (m, l) in group.iter().zip(&loops).filter(|(m, _)| !m.is_zero()) {
            body = self.with_policy(m.cx.s, j, &l.var, body)?;
        }
        Ok(Stmt::For { var, min: min.clone(), extent, kind, body: Box::new(body) })
    }

    /// What several of the stages read in an iteration of a joint loop, then all of them.
    fn joint_body(&mut self, group: &[Member<'p>], joint: &'p JointLoop) -> Result<Stmt, Error> {
        let level = Level::At(joint.level());
        let differ = group.iter().any(|m| !m.conds.is_empty());
        if differ {
            self.differing.insert(joint.level());
        }
        let body = self.level(&level, &[], &mut |nests| nests.parts(group, joint.depth + 1))?;
        if differ {
            self.check_lets(group[0].cx.s, &level)?;
        }
        Ok(body)
    }

    /// The body of a stage runs in iterations of its own, of those of a joint loop over a range.
    fn own_iterations(&self, m: &mut Member<'p>, l: &Entered, (min, last): &(Expr, Expr)) {
        let own = Expr::var(l.var.clone());
        if !self.same(&l.min, min) {
            m.conds.push(l.min.le(&own).likely());
        }
        if !self.same(&l.last(), last) {
            m.conds.push(own.le(l.last()).likely());
        }
    }

    /// A stage's own loop is where the joint loop is.
    fn enter_own(&mut self, l: &Entered, joint: &Name) -> (Name, Expr) {
        let here = Expr::var(joint.clone());
        self.facts.enter_let(&l.var, &here);
        (l.var.clone(), here)
    }

    /// First and last value of a joint loop.
    fn joint_range(&self, loops: &[Entered]) -> (Expr, Expr) {
        let (mut min, mut last) = (loops[0].min.clone(), loops[0].last());
        for l in &loops[1..] {
            if !self.same(&l.min, &min) {
                min = build::min(&min, &l.min);
            }
            if !self.same(&l.last(), &last) {
                last = build::max(&last, &l.last());
            }
        }
        (min, last)
    }

    fn same(&self, a: &Expr, b: &Expr) -> bool {
        a == b || self.facts.proves_le(a, b) && self.facts.proves_le(b, a)
    }

    /// Slot `j` of a stage: what it opens for all, unless another member does, and more conditions. Returns the members that store the
    /// zeros of what it skips.
    fn joint_items(
        &mut self,
        m: &mut Member<'p>,
        j: usize,
        opened: Option<&mut Opened>,
    ) -> Result<Vec<Member<'p>>, Error> {
        let outside = self.replace_view(m.view.clone());
        let (mut lets, mut checks, mut zeros) = (vec![], vec![], vec![]);
        for (i, item) in m.cx.slots[j].clone().into_iter().enumerate() {
            if let Item::Skip(cond) = &item
                && m.cx.destination.intermediate
                && m.cx.s.id.stage == 0
                && !m.is_zero()
            {
                zeros.push(self.zeros(m, j, i, cond));
            }
            match item {
                Item::Let(name, value) => {
                    self.facts.enter_let(&name, &value);
                    lets.push((name, value));
                }
                Item::Bounds(_, min, max) if !m.conds.is_empty() && (reads(&min) || reads(&max)) => {
                    return Err(self.not_joint(m.cx.s, BEHIND_A_CONDITION));
                }
                Item::Bounds(r, min, max) => lets.extend(self.bounds_of(&m.cx, &r, &min, &max)),
                Item::Known(fact) => self.facts.assume(&fact),
                Item::Points(extents, fused) => {
                    let check = self.points_check(&m.cx.s.id, &extents, &fused);
                    checks.extend(check.map(|c| guarded(&m.conds, c)));
                }
                Item::Tail(value, max) if self.facts.proves_le(&value, &max) => {}
                Item::Tail(value, max) => {
                    let cond = value.le(max).likely();
                    self.facts.assume(&cond);
                    m.conds.push(cond);
                }
                Item::Skip(_) if m.is_zero() => {}
                Item::Predicate(cond) | Item::Skip(cond) => {
                    self.facts.assume(&cond);
                    self.around.push(Around::Gate);
                    m.conds.push(cond);
                }
                Item::Own(x, own) => {
                    if let (Mode::Store(conds), Some(cond)) = (&mut m.mode, self.in_own_tile(&x, &own)) {
                        conds.push(cond);
                    }
                }
            }
        }
        m.view = self.replace_view(outside);
        if let Some(opened) = opened {
            lets.iter().for_each(|(n, v)| self.facts.enter_let(n, v));
            opened.lets.extend(lets);
            opened.checks.extend(checks);
        }
        for z in &mut zeros {
            self.joint_items(z, j, None)?;
        }
        Ok(zeros)
    }

    /// What follows item `i` of slot `j` where `cond` fails.
    fn zeros(&self, m: &Member<'p>, j: usize, i: usize, cond: &Expr) -> Member<'p> {
        let mut z = Member { mode: Mode::Zero, view: self.view(), ..m.clone() };
        z.cx.slots[j].drain(..=i);
        z.view.facts.assume_not(cond);
        z.conds.push(cond.not_());
        z
    }

    /// The lets of a level hold whether or not some stage runs: none reads memory, where it might not be.
    fn check_lets(&self, s: &Stage, level: &Level) -> Result<(), Error> {
        match self.opened.get(level).into_iter().flatten().any(|(_, v)| reads(v)) {
            true => Err(self.not_joint(s, BEHIND_A_CONDITION)),
            false => Ok(()),
        }
    }

    /// Stage `s` breaks `rule` by running together with others.
    fn not_joint(&self, s: &Stage, rule: impl Into<String>) -> Error {
        let mut steps = self.plan.together.iter().flat_map(|t| &t.steps);
        let others = steps.find(|step| step.contains(&s.id)).into_iter().flatten();
        let joined = std::iter::once(&s.id).chain(others);
        let mut named =
            joined.filter_map(|id| Some((id, self.plan.funcs[&id.func].stages[id.stage].with.clone()?)));
        let (id, text) = match named.next() {
            Some((id, level)) => (id, Directive::ComputeWith(level).to_string()),
            None => (&s.id, String::new()),
        };
        illegal(id, text, rule)
    }

    fn view(&self) -> View {
        View { facts: self.facts.clone(), around: self.around.clone() }
    }

    /// Goes on in another view; returns the present one.
    fn replace_view(&mut self, view: View) -> View {
        View {
            facts: std::mem::replace(&mut self.facts, view.facts),
            around: std::mem::replace(&mut self.around, view.around),
        }
    }
}

/// Versions of a joint nest, each of which is emitted.
const MAX_VERSIONS: usize = 64;

const BEHIND_A_CONDITION: &str = "a bound that reads memory lies behind a condition between the loops";

impl Entered {
    /// Last iteration.
    fn last(&self) -> Expr {
        offset(&add(&self.min, &self.extent), -1)
    }
}

fn reads(e: &Expr) -> bool {
    any(e, |n| matches!(n.kind(), ExprKind::Call { .. }))
}

fn produce(s: &Stage, body: Stmt) -> Stmt {
    Stmt::Produce { stage: s.id.clone(), body: Box::new(body) }
}
