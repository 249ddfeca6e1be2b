//! The plan: what is computed, and the loops of each stage; the result of [`crate::plan::apply_schedule`].

use crate::analysis::associative::Reduction;
use crate::analysis::intervals::Definitions;
use crate::error::Error;
use crate::expr::{Expr, Name};
use crate::func::{Func, Input, Output, Pipeline};
use crate::schedule::{Directive, ForKind, LoopLevel, Memory, Partition, StageId, Tail};
use indexmap::IndexMap;
use std::fmt::{self, Display, Formatter};

/// Largest factor of a split: that of 32 strips of all that an i32 counts, and far from where the extent of a buffer plus a
/// factor would leave i32.
pub(crate) const MAX_FACTOR: i64 = 1 << 26;

/// `old = outer * factor + inner + min(old)`.
#[derive(Clone, Debug)]
pub struct Split {
    /// Variable that is no loop any more.
    pub old: Name,
    /// Counts blocks from 0.
    pub outer: Name,
    /// Counts within a block from 0.
    pub inner: Name,
    /// i32, constant or parameter, from 1 to [`MAX_FACTOR`]; checked at run time for a parameter.
    pub factor: Expr,
    /// Treatment of the last block.
    pub tail: Tail,
}

/// Two loops as one: `inner = fused mod n + min(inner)`, `outer = fused / n + min(outer)`, n the extent of the inner loop.
#[derive(Clone, Debug)]
pub struct Fuse {
    /// The faster of the two that are no loops any more.
    pub inner: Name,
    /// The slower.
    pub outer: Name,
    /// Counts the points of both from 0.
    pub fused: Name,
}

/// A directive that replaces loops by others.
#[derive(Clone, Debug)]
pub enum Change {
    /// One loop by two.
    Split(Split),
    /// Two loops by one.
    Fuse(Fuse),
    /// One loop by one of the same bounds.
    Rename {
        /// Variable that is no loop any more.
        old: Name,
        /// The loop in its place.
        new: Name,
    },
}

impl Change {
    /// Variables that are no loops any more.
    pub fn before(&self) -> Vec<&Name> {
        match self {
            Change::Split(t) => vec![&t.old],
            Change::Fuse(t) => vec![&t.inner, &t.outer],
            Change::Rename { old, .. } => vec![old],
        }
    }
    /// The loops in their place.
    pub fn after(&self) -> Vec<&Name> {
        match self {
            Change::Split(t) => vec![&t.inner, &t.outer],
            Change::Fuse(t) => vec![&t.fused],
            Change::Rename { new, .. } => vec![new],
        }
    }
    /// The same change of variables of other names.
    pub fn renamed(&self, name: &dyn Fn(&Name) -> Name) -> Change {
        match self {
            Change::Split(t) => Change::Split(Split {
                old: name(&t.old),
                outer: name(&t.outer),
                inner: name(&t.inner),
                ..t.clone()
            }),
            Change::Fuse(t) => {
                Change::Fuse(Fuse { inner: name(&t.inner), outer: name(&t.outer), fused: name(&t.fused) })
            }
            Change::Rename { old, new } => Change::Rename { old: name(old), new: name(new) },
        }
    }
}

/// One loop of a stage.
#[derive(Clone, Debug)]
pub struct Dim {
    /// Local name.
    pub name: Name,
    /// The way it runs.
    pub kind: ForKind,
    /// Is it (part of) a reduction variable?
    pub reduction: bool,
}

impl Dim {
    /// A serial loop over a pure variable.
    pub fn pure(name: &Name) -> Dim {
        Dim { name: name.clone(), kind: ForKind::Serial, reduction: false }
    }

    /// The directive that says how it runs, as text.
    pub fn directive(&self) -> String {
        Directive::Kind { var: self.name.clone(), kind: self.kind }.to_string()
    }

    /// A serial loop over a reduction variable.
    pub fn reduction(name: &Name) -> Dim {
        Dim { name: name.clone(), kind: ForKind::Serial, reduction: true }
    }
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
    /// The definition.
    pub id: StageId,
    /// Left-hand side coordinates.
    pub args: Vec<Expr>,
    /// One per tuple element.
    pub values: Vec<Expr>,
    /// The stage does nothing where this is false.
    pub predicate: Option<Expr>,
    /// Reduction variables, fastest first.
    pub rvars: Vec<Bounded>,
    /// Changes of the loops, in the order of the directives.
    pub changes: Vec<Change>,
    /// Innermost first.
    pub dims: Vec<Dim>,
    /// `SkipUnless`: loop and condition over pure, reduction and loop variables.
    pub skips: Vec<(Name, Expr)>,
    /// Floats may be reassociated.
    pub relaxed: bool,
    /// Quotients may be products with reciprocals.
    pub reciprocals: bool,
    /// Coordinates of the space that the stage iterates over: pure variables, or for a
    /// reduction those of its domain.
    pub coords: Vec<Name>,
    /// Its form, if this is an associative update.
    pub reduction: Option<Reduction>,
    /// The directive that changed the order of its reduction variables, if one did.
    pub reordered: Option<String>,
    /// Loops whose conditions are tested in place, or all up front.
    pub partition: Vec<(Name, Partition)>,
    /// Prefetches: Func or input, loop, iterations.
    pub prefetches: Vec<(Name, Name, u32)>,
    /// Versions for conditions that are tried in order before this one.
    pub special: Vec<(Expr, Stage)>,
    /// Number of this version; 0 is what remains.
    pub version: usize,
    /// Each element is updated in one indivisible step.
    pub atomic: bool,
    /// The stage, and the loop down to which, it runs together with.
    pub with: Option<LoopLevel>,
    /// It is one thread of a GPU.
    pub single: bool,
    /// Names that loops took over from those that they replaced, with what the loops are called here.
    pub taken: IndexMap<Name, Name>,
}

impl Stage {
    /// A definition without loops, and without any directive.
    pub fn new(id: StageId, args: Vec<Expr>, values: Vec<Expr>) -> Stage {
        Stage {
            id,
            args,
            values,
            predicate: None,
            rvars: vec![],
            changes: vec![],
            dims: vec![],
            skips: vec![],
            relaxed: false,
            reciprocals: false,
            coords: vec![],
            reduction: None,
            reordered: None,
            partition: vec![],
            prefetches: vec![],
            special: vec![],
            version: 0,
            atomic: false,
            with: None,
            single: false,
            taken: IndexMap::new(),
        }
    }
}

/// Level at which something happens.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Level {
    /// Outside all loops.
    Root,
    /// Inside this loop.
    At(LoopLevel),
}

/// `root` or `f.update(k), var`.
impl Display for Level {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Level::Root => f.write_str("root"),
            Level::At(l) => write!(f, "{}, {}", l.stage, own_var(l)),
        }
    }
}

/// A Func with its stages and its placement.
#[derive(Clone, Debug)]
pub struct FuncPlan {
    /// The definitions after inlining (for an rfactor intermediate: name, variables and initial values).
    pub func: Func,
    /// Pure definition first.
    pub stages: Vec<Stage>,
    /// Level at which it is computed.
    pub compute: Level,
    /// Level at which its storage lives.
    pub store: Level,
    /// Level at which the memory of that is allocated, if it is another one.
    pub hoist: Option<Level>,
    /// Fold factor per dimension, where the schedule says it.
    pub fold: Vec<Option<u32>>,
    /// No other dimension is folded.
    pub whole: bool,
    /// Alignment of the region per dimension.
    pub align: Vec<Option<u32>>,
    /// The region per dimension, where the schedule says it.
    pub bound: Vec<Option<Bound>>,
    /// The storage's extent is a multiple of this, per dimension.
    pub pad: Vec<Option<u32>>,
    /// Dimensions of the storage, fastest first.
    pub storage_order: Vec<usize>,
    /// Estimates of the region, per dimension: `(min, extent)`.
    pub estimates: Vec<Option<(i32, i32)>>,
    /// Memory for intermediate values, if said.
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

/// A region that the schedule says.
#[derive(Clone, Debug)]
pub struct Bound {
    /// First coordinate, or that which is required.
    pub min: Option<Expr>,
    /// Number of coordinates.
    pub extent: Expr,
}

impl FuncPlan {
    /// A Func without directives: computed and stored at root.
    pub fn new(func: Func, stages: Vec<Stage>) -> FuncPlan {
        let n = func.vars.len();
        FuncPlan {
            func,
            stages,
            compute: Level::Root,
            store: Level::Root,
            hoist: None,
            fold: vec![None; n],
            whole: false,
            align: vec![None; n],
            bound: vec![None; n],
            pad: vec![None; n],
            storage_order: (0..n).collect(),
            estimates: vec![None; n],
            memory: None,
            output: None,
            sink: false,
            non_temporal: None,
            in_place_of: None,
            partial_of: None,
        }
    }
}

/// Everything that is computed, producers first.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The pipeline after inlining.
    pub pipeline: Pipeline,
    /// By name, in realization order.
    pub funcs: IndexMap<Name, FuncPlan>,
    /// Funcs of which some stages run together.
    pub together: Vec<Together>,
}

impl Plan {
    /// The joint loop of stage `id` inside of `depth` others.
    pub fn joint_loop(&self, id: &StageId, depth: usize) -> Option<&JointLoop> {
        let mut all = self.together.iter().flat_map(|t| &t.loops);
        all.find(|l| l.depth == depth && l.members.contains(id))
    }
    /// The stages that have the loop at `level`.
    pub fn stages_at<'a>(&'a self, level: &'a LoopLevel) -> &'a [StageId] {
        let mut all = self.together.iter().flat_map(|t| &t.loops);
        match is_joint(level).then(|| all.find(|l| l.level() == *level)).flatten() {
            Some(joint) => &joint.members,
            None => std::slice::from_ref(&level.stage),
        }
    }
    /// The local name of the loop at `level` in stage `id`, if that has it.
    pub fn loop_at<'a>(&self, id: &StageId, level: &'a LoopLevel) -> Option<&'a str> {
        self.stages_at(level).contains(id).then(|| own_var(level))
    }
}

/// Funcs that follow each other in the plan, and in which order their stages run.
#[derive(Clone, Debug)]
pub struct Together {
    /// In the order of the plan.
    pub funcs: Vec<Name>,
    /// Stages that run together, one after the other: each after the one that it names.
    pub steps: Vec<Vec<StageId>>,
    /// The loops that several of them have.
    pub loops: Vec<JointLoop>,
    /// Funcs computed at such a loop for several of them.
    pub shared: Vec<Name>,
}

/// A loop that several stages have.
#[derive(Clone, Debug)]
pub struct JointLoop {
    /// The stages, in the order of their bodies.
    pub members: Vec<StageId>,
    /// Its name in each of them.
    pub var: Name,
    /// Number of loops around it in the nest.
    pub depth: usize,
}

/// Suffix of the name of a loop where all its stages are meant. No variable is called so.
const JOINT: &str = ".joint";

impl JointLoop {
    /// Inside of the loop, but outside of what each of the stages does there by itself.
    pub fn level(&self) -> LoopLevel {
        LoopLevel { stage: self.members[0].clone(), var: joint_name(&self.var) }
    }
}

/// The name of the joint loop of which `var` is one.
pub(crate) fn joint_name(var: &str) -> Name {
    format!("{var}{JOINT}").into()
}

/// Is it the level of a [`JointLoop`]?
pub(crate) fn is_joint(level: &LoopLevel) -> bool {
    level.var.ends_with(JOINT)
}

/// Returns what the stages call the loop at `level`.
pub(crate) fn own_var(level: &LoopLevel) -> &str {
    level.var.strip_suffix(JOINT).unwrap_or(&level.var)
}

/// Ends the name of a loop that took over that of the one which it replaced ([`crate::plan::apply_schedule`]). No schedule text has it.
const TAKEN: char = '~';

/// Returns what the schedule calls a loop.
pub(crate) fn shown(name: &str) -> &str {
    name.trim_end_matches(TAKEN)
}

/// An illegal directive.
pub(crate) fn illegal(stage: &StageId, directive: impl Into<String>, rule: impl Into<String>) -> Error {
    Error::Schedule {
        func: stage.to_string(),
        directive: directive.into().replace(TAKEN, ""),
        rule: rule.into().replace(TAKEN, ""),
    }
}

impl Stage {
    /// The splits, in order.
    pub fn splits(&self) -> impl DoubleEndedIterator<Item = &Split> {
        self.changes.iter().filter_map(|c| if let Change::Split(t) = c { Some(t) } else { None })
    }
    /// This stage and its special versions, and those of each.
    pub fn versions(&self) -> Vec<&Stage> {
        std::iter::once(self).chain(self.special.iter().flat_map(|(_, s)| s.versions())).collect()
    }
    /// Numbers the versions, this one first, from `n`; returns the next number.
    pub fn number_versions(&mut self, n: usize) -> usize {
        self.version = n;
        self.special.iter_mut().fold(n + 1, |n, (_, s)| s.number_versions(n))
    }
    /// The change that replaced `name`, which is therefore no loop.
    pub fn replaced(&self, name: &Name) -> Option<&Change> {
        self.changes.iter().find(|c| c.before().contains(&name))
    }
    /// The change that made `name`, which is no variable of the definition.
    pub fn made(&self, name: &Name) -> Option<&Change> {
        self.changes.iter().find(|c| c.after().contains(&name))
    }
    /// The pure and reduction variables that a loop is made from.
    pub fn origins(&self, name: &Name) -> Vec<Name> {
        match self.made(name) {
            Some(c) => c.before().into_iter().flat_map(|n| self.origins(n)).collect(),
            None => vec![name.clone()],
        }
    }
    /// Calls loop `old` by the name `new`, also where directives have said something about it.
    pub fn call(&mut self, old: &Name, new: &Name) {
        let dims = self.dims.iter_mut().map(|d| &mut d.name);
        let skips = self.skips.iter_mut().map(|s| &mut s.0);
        let partition = self.partition.iter_mut().map(|p| &mut p.0);
        let prefetches = self.prefetches.iter_mut().map(|p| &mut p.1);
        let all = dims.chain(skips).chain(partition).chain(prefetches);
        all.filter(|n| **n == *old).for_each(|n| *n = new.clone());
    }
    /// Is `name` equal to `of`, or made from it?
    pub fn descends(&self, name: &Name, of: &Name) -> bool {
        name == of || self.made(name).is_some_and(|c| c.before().into_iter().any(|n| self.descends(n, of)))
    }
}

impl Definitions for Plan {
    fn input(&self, name: &Name) -> Option<&Input> {
        self.pipeline.inputs.get(name)
    }
    fn func(&self, name: &Name) -> &Func {
        &self.funcs[name].func
    }
    fn param_range(&self, name: &Name) -> Option<(i64, i64)> {
        self.pipeline.param_ranges.get(name).copied()
    }
}
