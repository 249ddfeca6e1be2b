//! Loop structure of each stage, and placement of each Func, from the directives.
//!
//! Before: a validated pipeline without inlined Funcs. After: a [`Plan`]: one [`FuncPlan`] per Func that is computed,
//! in realization order, including the intermediates that rfactor makes. Directives are applied in order; one
//! that is illegal by itself is refused here, one that depends on regions later.

use super::realization_order::realization_order;
use super::rfactor;
use super::substitute::nodes;
use super::validate::is_var;
use crate::error::Error;
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::func::{Func, Output, Pipeline, RDom, Update, Var};
use crate::schedule::{Directive, ForKind, LoopLevel, Memory, Schedule, StageId, Tail};
use crate::types::Type;
use indexmap::IndexMap;

/// `old = outer * factor + inner + min(old)`.
#[derive(Clone, Debug)]
pub struct Split {
    /// Variable that is no loop any more.
    pub old: Name,
    /// Counts blocks from 0.
    pub outer: Name,
    /// Counts within a block from 0.
    pub inner: Name,
    /// i32, constant or parameter, at least 1.
    pub factor: Expr,
    /// What the last block does.
    pub tail: Tail,
}

/// One loop of a stage.
#[derive(Clone, Debug)]
pub struct Dim {
    /// Local name.
    pub name: Name,
    /// How it runs.
    pub kind: ForKind,
    /// Is it (part of) a reduction variable?
    pub reduction: bool,
}

/// A reduction variable with inclusive bounds over pure variables, parameters and input calls.
#[derive(Clone, Debug)]
pub struct Bounded {
    /// Local name.
    pub name: Name,
    /// First value.
    pub min: Expr,
    /// Last value.
    pub max: Expr,
}

/// A definition of a Func with its loops. Names are local to the stage: pure variables, reduction variables,
/// products of splits. `args`, `values` and `predicate` use pure and reduction variables, whether or not these are
/// still loops.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Which definition.
    pub id: StageId,
    /// Left-hand side coordinates.
    pub args: Vec<Expr>,
    /// One per tuple element.
    pub values: Vec<Expr>,
    /// The stage does nothing where this is false.
    pub predicate: Option<Expr>,
    /// Reduction variables, fastest first.
    pub rvars: Vec<Bounded>,
    /// In the order of the directives.
    pub splits: Vec<Split>,
    /// Innermost first.
    pub dims: Vec<Dim>,
    /// `SkipUnless`: loop and condition over pure, reduction and loop variables.
    pub skips: Vec<(Name, Expr)>,
    /// Floats may be reassociated.
    pub relaxed: bool,
    /// Coordinates of the space that the stage iterates over (design B2, S1): pure variables, or for a
    /// reduction those of its domain.
    pub coords: Vec<Name>,
    /// The operators, if this is an associative update `f(args) = f(args) op e`.
    pub ops: Option<Vec<BinaryOp>>,
}

/// Where something happens.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Level {
    /// Outside all loops.
    Root,
    /// Inside this loop.
    At(LoopLevel),
}

/// A Func with its stages and its placement.
#[derive(Clone, Debug)]
pub struct FuncPlan {
    /// The definitions after inlining (for an rfactor intermediate: name, variables and initial values).
    pub func: Func,
    /// Pure definition first.
    pub stages: Vec<Stage>,
    /// Where it is computed.
    pub compute: Level,
    /// Where its storage lives.
    pub store: Level,
    /// Fold factor per dimension.
    pub fold: Vec<Option<u32>>,
    /// Alignment of the region per dimension.
    pub align: Vec<Option<u32>>,
    /// Where intermediate values are kept, if said.
    pub memory: Option<Memory>,
    /// The output that it is.
    pub output: Option<Output>,
    /// Output inside a nest.
    pub sink: bool,
    /// Run-time condition of cache-bypassing stores.
    pub non_temporal: Option<Expr>,
    /// Input that the output overwrites.
    pub in_place_of: Option<Name>,
    /// The Func whose update was factored, for an rfactor intermediate.
    pub partial_of: Option<Name>,
}

/// Everything that is computed, producers first.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pipeline after inlining.
    pub pipeline: Pipeline,
    /// By name, in realization order.
    pub funcs: IndexMap<Name, FuncPlan>,
}

/// An illegal directive.
pub fn illegal(stage: &StageId, directive: impl Into<String>, rule: impl Into<String>) -> Error {
    let func = match stage.stage {
        0 => stage.func.to_string(),
        k => format!("{}.update({})", stage.func, k - 1),
    };
    Error::Schedule { func, directive: directive.into(), rule: rule.into() }
}

/// Funcs that are substituted into their consumers: those that say so, and by default intermediates without updates.
pub fn inlined(p: &Pipeline, schedule: &Schedule, name: &Name) -> Result<bool, Error> {
    let id = StageId { func: name.clone(), stage: 0 };
    let f = &p.funcs[name];
    let given: &[Directive] = schedule.stages.get(&id).map_or(&[], |d| d);
    let placed = given
        .iter()
        .rfind(|d| matches!(d, Directive::Inline | Directive::ComputeRoot | Directive::ComputeAt(_)));
    let output = p.outputs.iter().any(|o| o.func == *name);
    match placed {
        Some(Directive::Inline) if output => Err(illegal(&id, "inline", "an output must be computed")),
        Some(Directive::Inline) if !f.updates.is_empty() => {
            Err(illegal(&id, "inline", "a Func with update definitions cannot be substituted"))
        }
        Some(Directive::Inline) => Ok(true),
        Some(_) => Ok(false),
        None => Ok(!output && f.updates.is_empty()),
    }
}

/// Applies `schedule` to `p`, from which inlined Funcs are gone (`gone` names them, for error messages).
pub fn apply_schedule(
    p: &Pipeline,
    schedule: &Schedule,
    gone: &dyn Fn(&Name) -> bool,
) -> Result<Plan, Error> {
    let mut work: Vec<FuncPlan> = p.funcs.values().rev().map(|f| plan_func(p, f)).collect();
    let mut done: IndexMap<Name, FuncPlan> = IndexMap::new();
    while let Some(mut plan) = work.pop() {
        let mut made = vec![];
        for k in 0..plan.stages.len() {
            let id = StageId { func: plan.func.name.clone(), stage: k };
            for d in schedule.stages.get(&id).into_iter().flatten() {
                made.extend(apply(&mut plan, k, d)?);
            }
            check_loops(&plan.stages[k])?;
        }
        default_placement(&mut plan)?;
        for m in &made {
            let name = &m.func.name;
            let taken =
                |n: &Name| p.funcs.contains_key(n) || p.inputs.contains_key(n) || done.contains_key(n);
            if taken(name) || work.iter().any(|w| w.func.name == *name) {
                let id = StageId { func: plan.func.name.clone(), stage: 0 };
                return Err(illegal(&id, format!("rfactor into {name}"), "the name is taken"));
            }
        }
        done.insert(plan.func.name.clone(), plan);
        work.extend(made);
    }
    for id in schedule.stages.keys().filter(|id| !schedule.stages[*id].is_empty()) {
        let rule = match done.get(&id.func) {
            Some(f) if id.stage < f.stages.len() => continue,
            Some(_) => "there is no such update definition",
            None if gone(&id.func) => continue,
            None => "there is no such Func",
        };
        return Err(illegal(id, "directives", rule));
    }
    check_levels(&done)?;
    reorder(p, done)
}

/// Realization order including the intermediates of rfactor.
fn reorder(p: &Pipeline, mut plans: IndexMap<Name, FuncPlan>) -> Result<Plan, Error> {
    let mut all = p.clone();
    all.funcs = plans.iter().map(|(n, f)| (n.clone(), as_func(f))).collect();
    let order = realization_order(&all)?;
    let funcs = order.iter().filter_map(|n| plans.swap_remove_entry(n)).collect();
    Ok(Plan { pipeline: p.clone(), funcs })
}

/// The definitions of a plan as a Func, for finding who calls whom.
fn as_func(f: &FuncPlan) -> Func {
    let update = |s: &Stage| Update {
        args: s.args.clone(),
        values: s.values.clone(),
        rdom: RDom {
            vars: s
                .rvars
                .iter()
                .map(|r| crate::func::RVar {
                    name: r.name.clone(),
                    min: r.min.clone(),
                    extent: r.max.clone(),
                })
                .collect(),
            predicate: s.predicate.clone(),
        },
    };
    Func { updates: f.stages[1..].iter().map(update).collect(), ..f.func.clone() }
}

/// The loops that a Func has without directives.
fn plan_func(p: &Pipeline, f: &Func) -> FuncPlan {
    let n = f.vars.len();
    let mut stages = vec![pure_stage(f)];
    stages.extend(f.updates.iter().enumerate().map(|(k, u)| update_stage(f, k + 1, u)));
    FuncPlan {
        func: f.clone(),
        stages,
        compute: Level::Root,
        store: Level::Root,
        fold: vec![None; n],
        align: vec![None; n],
        memory: None,
        output: p.outputs.iter().find(|o| o.func == f.name).cloned(),
        sink: false,
        non_temporal: None,
        in_place_of: None,
        partial_of: None,
    }
}

/// Pure definition: the first variable is innermost.
pub fn pure_stage(f: &Func) -> Stage {
    let dim = |v: &Var| Dim { name: v.0.clone(), kind: ForKind::Serial, reduction: false };
    Stage {
        id: StageId { func: f.name.clone(), stage: 0 },
        args: f.vars.iter().map(Var::expr).collect(),
        values: f.values.clone(),
        predicate: None,
        rvars: vec![],
        splits: vec![],
        dims: f.vars.iter().map(dim).collect(),
        skips: vec![],
        relaxed: false,
        coords: f.vars.iter().map(|v| v.0.clone()).collect(),
        ops: None,
    }
}

/// Update: reduction variables innermost, first fastest, then the pure variables that stand for themselves.
fn update_stage(f: &Func, stage: usize, u: &Update) -> Stage {
    let rdim = |r: &Bounded| Dim { name: r.name.clone(), kind: ForKind::Serial, reduction: true };
    let pure = |(v, a): (&Var, &Expr)| {
        is_var(a, &v.0).then(|| Dim { name: v.0.clone(), kind: ForKind::Serial, reduction: false })
    };
    let rvars: Vec<Bounded> = u.rdom.vars.iter().map(bounded).collect();
    let pure_dims: Vec<Dim> = f.vars.iter().zip(&u.args).filter_map(pure).collect();
    let coords = match rvars.is_empty() {
        true => pure_dims.iter().map(|d| d.name.clone()).collect(),
        false => rvars.iter().map(|r| r.name.clone()).collect(),
    };
    Stage {
        id: StageId { func: f.name.clone(), stage },
        args: u.args.clone(),
        values: u.values.clone(),
        predicate: u.rdom.predicate.clone(),
        dims: rvars.iter().map(rdim).chain(pure_dims).collect(),
        rvars,
        splits: vec![],
        skips: vec![],
        relaxed: false,
        coords,
        ops: rfactor::associative_ops(&f.name, &u.args, &u.values),
    }
}

fn bounded(r: &crate::func::RVar) -> Bounded {
    let max = super::linear::offset(&super::linear::add(&r.min, &r.extent), -1);
    Bounded { name: r.name.clone(), min: r.min.clone(), max }
}

/// Applies one directive to stage `k`; returns the intermediate if it is an rfactor.
fn apply(plan: &mut FuncPlan, k: usize, d: &Directive) -> Result<Option<FuncPlan>, Error> {
    let id = plan.stages[k].id.clone();
    match d {
        Directive::Split { old, outer, inner, factor, tail } => {
            let s = Split {
                old: old.clone(),
                outer: outer.clone(),
                inner: inner.clone(),
                factor: factor.clone(),
                tail: *tail,
            };
            split(plan, k, s)?;
        }
        Directive::Reorder(names) => reorder_dims(&mut plan.stages[k], names)?,
        Directive::Kind { var, kind } => {
            let i = find_dim(&plan.stages[k], var, &format!("{kind:?}({var})"))?;
            plan.stages[k].dims[i].kind = *kind;
        }
        Directive::Rfactor { keep, into } => return rfactor::rfactor(plan, k, keep, into).map(Some),
        Directive::SkipUnless { var, cond } => {
            find_dim(&plan.stages[k], var, "skip_unless")?;
            let zero = Expr::int(cond.ty(), 0);
            let cond = if cond.ty() == Type::BOOL { cond.clone() } else { cond.ne_(zero) };
            plan.stages[k].skips.push((var.clone(), cond));
        }
        Directive::Relaxed => plan.stages[k].relaxed = true,
        _ if k > 0 => {
            return Err(illegal(
                &id,
                format!("{d:?}"),
                "placement and storage are directives of the pure definition",
            ));
        }
        d => place(plan, d, &id)?,
    }
    Ok(None)
}

fn place(plan: &mut FuncPlan, d: &Directive, id: &StageId) -> Result<(), Error> {
    let dim = |plan: &FuncPlan, var: &Name, what: &str| {
        let i = plan.func.vars.iter().position(|v| v.0 == *var);
        i.ok_or_else(|| illegal(id, format!("{what}({var})"), "the Func has no such dimension"))
    };
    match d {
        Directive::Inline => {}
        Directive::ComputeRoot => plan.compute = Level::Root,
        Directive::ComputeAt(l) => {
            if plan.store == plan.compute {
                plan.store = Level::At(l.clone());
            }
            plan.compute = Level::At(l.clone());
        }
        Directive::StoreAt(l) => plan.store = Level::At(l.clone()),
        Directive::FoldStorage { var, factor } => {
            let i = dim(plan, var, "fold_storage")?;
            if !factor.is_power_of_two() {
                return Err(illegal(
                    id,
                    format!("fold_storage({var}, {factor})"),
                    "the factor is not a power of two",
                ));
            }
            plan.fold[i] = Some(*factor);
        }
        Directive::AlignBounds { var, modulus } => {
            let i = dim(plan, var, "align_bounds")?;
            if *modulus == 0 || *modulus > 1 << 20 {
                return Err(illegal(
                    id,
                    format!("align_bounds({var}, {modulus})"),
                    "the modulus must be in 1..=2^20",
                ));
            }
            plan.align[i] = Some(*modulus);
        }
        Directive::StoreIn(m) => plan.memory = Some(*m),
        Directive::Sink | Directive::NonTemporal(_) | Directive::InPlaceOf(_) if plan.output.is_none() => {
            return Err(illegal(id, format!("{d:?}"), "only an output has an output buffer"));
        }
        Directive::Sink => plan.sink = true,
        Directive::NonTemporal(when) => plan.non_temporal = Some(when.clone()),
        Directive::InPlaceOf(input) => plan.in_place_of = Some(input.clone()),
        _ => unreachable!("place: loop directives are handled by the caller"),
    }
    Ok(())
}

fn default_placement(plan: &mut FuncPlan) -> Result<(), Error> {
    let id = &plan.stages[0].id;
    if plan.compute == Level::Root && plan.store != Level::Root {
        return Err(illegal(id, "store_at", "needs a compute_at inside it"));
    }
    if plan.compute != Level::Root && plan.output.is_some() && !plan.sink {
        return Err(illegal(id, "compute_at", "an output computed in a consumer's nest needs `sink`"));
    }
    if plan.sink && plan.compute == Level::Root {
        return Err(illegal(id, "sink", "needs compute_at; an output at root is stored anyway"));
    }
    Ok(())
}

fn find_dim(s: &Stage, var: &Name, directive: &str) -> Result<usize, Error> {
    s.dims.iter().position(|d| d.name == *var).ok_or_else(|| {
        let loops: Vec<&str> = s.dims.iter().map(|d| &*d.name).collect();
        illegal(&s.id, directive, format!("{var} is not a loop here; the loops are {}", loops.join(" ")))
    })
}

fn split(plan: &mut FuncPlan, k: usize, s: Split) -> Result<(), Error> {
    let is_output = plan.output.is_some() && !plan.sink;
    let stage = &mut plan.stages[k];
    let text = format!("split({}, {}, {})", s.old, s.outer, s.inner);
    let i = find_dim(stage, &s.old, &text)?;
    let used = |n: &Name| {
        stage.dims.iter().any(|d| d.name == *n)
            || stage.splits.iter().any(|t| t.old == *n)
            || plan.func.vars.iter().any(|v| v.0 == *n)
    };
    if s.outer == s.inner || used(&s.outer) || used(&s.inner) {
        return Err(illegal(&stage.id, text, "the new names must be new"));
    }
    if s.factor.ty() != Type::I32 || s.factor.as_int().is_some_and(|f| f < 1) {
        return Err(illegal(&stage.id, text, "the factor must be an i32 of at least 1"));
    }
    if nodes([&s.factor]).iter().any(|e| matches!(e.kind(), ExprKind::Var(_) | ExprKind::Call { .. })) {
        return Err(illegal(&stage.id, text, "the factor must be a constant or made of parameters"));
    }
    if s.tail == Tail::RoundUp && (k > 0 || is_output) {
        let rule = "RoundUp writes beyond the region: pure definitions of intermediates only; use Predicate";
        return Err(illegal(&stage.id, text, rule));
    }
    if let (Tail::RoundUp, Some(extent)) = (s.tail, inner_extent(stage, &s.old))
        && extent.zip(s.factor.as_int()).is_none_or(|(n, factor)| n % factor != 0)
    {
        let rule = "RoundUp of an inner loop needs a factor that divides its extent; use Predicate";
        return Err(illegal(&stage.id, text, rule));
    }
    let d = stage.dims[i].clone();
    stage.dims[i].name = s.inner.clone();
    stage.dims.insert(i + 1, Dim { name: s.outer.clone(), ..d });
    stage.splits.push(s);
    Ok(())
}

/// The extent of a loop inside of a split, as far as it is constant; none for a whole dimension or the outer loops of one.
fn inner_extent(s: &Stage, name: &Name) -> Option<Option<i64>> {
    if let Some(t) = s.splits.iter().find(|t| t.inner == *name) {
        return Some(t.factor.as_int());
    }
    let t = s.splits.iter().find(|t| t.outer == *name)?;
    let old = inner_extent(s, &t.old)?;
    Some(old.zip(t.factor.as_int()).map(|(n, factor)| (n + factor - 1) / factor))
}

/// Puts the named loops, innermost first, in the places they occupied.
fn reorder_dims(s: &mut Stage, names: &[Name]) -> Result<(), Error> {
    let text = format!("reorder({})", names.join(", "));
    let mut at = vec![];
    for n in names {
        let i = find_dim(s, n, &text)?;
        if at.contains(&i) {
            return Err(illegal(&s.id, text, format!("{n} is named twice")));
        }
        at.push(i);
    }
    let reductions =
        |dims: &[Dim]| -> Vec<Name> { dims.iter().filter(|d| d.reduction).map(|d| d.name.clone()).collect() };
    let before = reductions(&s.dims);
    let moved: Vec<Dim> = at.iter().map(|&i| s.dims[i].clone()).collect();
    at.sort_unstable();
    for (i, d) in at.into_iter().zip(moved) {
        s.dims[i] = d;
    }
    if reductions(&s.dims) != before && s.ops.is_none() && !distinct_points(s) {
        let rule =
            "changes the order of reduction variables of an update that is not an associative reduction";
        return Err(illegal(&s.id, text, rule));
    }
    Ok(())
}

/// Does every iteration write, and read of the Func, a point of its own? True if each reduction variable stands alone in
/// some coordinate, the same in every access.
fn distinct_points(s: &Stage) -> bool {
    s.rvars.iter().all(|r| independent(s, &r.name))
}

/// Do distinct values of reduction variable `r` touch distinct elements of the Func?
fn independent(s: &Stage, r: &Name) -> bool {
    let Some(place) = s.args.iter().position(|a| is_var(a, r)) else { return false };
    nodes(s.args.iter().chain(&s.values).chain(&s.predicate)).iter().all(|e| match e.kind() {
        ExprKind::Call { name, args, .. } if *name == s.id.func => is_var(&args[place], r),
        _ => true,
    })
}

/// The reduction variable that a loop is part of.
pub fn origin(s: &Stage, dim: &Name) -> Name {
    let mut name = dim.clone();
    // Splits are in creation order: the parent of a product comes before the splits of the product.
    for t in s.splits.iter().rev() {
        if t.outer == name || t.inner == name {
            name = t.old.clone();
        }
    }
    name
}

/// Parallel and vector loops over reduction variables must not race.
fn check_loops(s: &Stage) -> Result<(), Error> {
    for d in s.dims.iter().filter(|d| d.reduction) {
        let r = origin(s, &d.name);
        let free = independent(s, &r);
        let unused = !s.args.iter().any(|a| super::substitute::variables(a).contains(&r));
        match d.kind {
            ForKind::Parallel if !free => {
                let rule = "iterations of this reduction variable may write the same element; use rfactor";
                return Err(illegal(&s.id, format!("parallel({})", d.name), rule));
            }
            ForKind::Vectorized if !free && (s.ops.is_none() || !unused) => {
                let rule =
                    "the update is neither an associative reduction over this variable nor independent in it";
                return Err(illegal(&s.id, format!("vectorize({})", d.name), rule));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Every level names an existing loop of a computed Func.
fn check_levels(plans: &IndexMap<Name, FuncPlan>) -> Result<(), Error> {
    for f in plans.values() {
        for (what, level) in [("compute_at", &f.compute), ("store_at", &f.store)] {
            let Level::At(l) = level else { continue };
            let id = &f.stages[0].id;
            let text = format!("{what}({}, {})", l.stage.func, l.var);
            let stage = plans.get(&l.stage.func).and_then(|g| g.stages.get(l.stage.stage));
            let Some(stage) = stage else {
                return Err(illegal(id, text, "there is no such stage, or it is inlined"));
            };
            let i = find_dim(stage, &l.var, &text).map_err(|e| match e {
                Error::Schedule { rule, .. } => illegal(id, text.clone(), rule),
                e => e,
            })?;
            if stage.dims[i..].iter().any(|d| d.kind == ForKind::Vectorized) {
                return Err(illegal(id, text, "the level is inside a vectorised loop"));
            }
        }
    }
    Ok(())
}
