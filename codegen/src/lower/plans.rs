//! What is computed, and the loops of each stage: the result of [`super::apply_schedule`].

use crate::error::Error;
use crate::expr::{BinaryOp, Expr, Name};
use crate::func::{Func, Output, Pipeline};
use crate::schedule::{ForKind, LoopLevel, Memory, StageId, Tail};
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

/// Is `name` equal to `of`, or made from it by splits?
pub fn descends(s: &Stage, name: &Name, of: &Name) -> bool {
    name == of
        || s.splits.iter().filter(|t| t.outer == *name || t.inner == *name).any(|t| descends(s, &t.old, of))
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
