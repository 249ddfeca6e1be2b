//! The schedule: where and in which order the stages of a pipeline run.
//!
//! A schedule is data apart from the algorithm: a list of directives per stage, applied in order by
//! [`crate::lower`]. It prints as text, one directive a line, and is read back from it:
//!
//! ```schedule
//! pq.update(0): split(y, yo, yi, 32, guard) rfactor(yo as strip, into pq_s)
//! pq_s.update(0): parallel(strip) split(x, xo, xi, 16, predicate) vectorize(xi)
//! p: store_at(pq_s.update(0), strip) compute_at(pq_s.update(0), yi) fold_storage(y, 4) sink
//! ```
//!
//! Stage 0 of a Func is its pure definition, stage k its k-th update (`f.update(k-1)` in text). Legality is
//! checked when the pipeline is lowered; an illegal directive is a [`crate::error::Error`] naming Func,
//! directive and rule.

mod print;
pub(crate) mod shorthands;
pub(crate) mod text;

use crate::expr::{Expr, Name};
use indexmap::IndexMap;

/// A stage of a Func: 0 is the pure definition, k >= 1 is update k - 1.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StageId {
    /// The Func.
    pub func: Name,
    /// The definition.
    pub stage: usize,
}

/// Treatment of the last iteration of a split whose factor does not divide the extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tail {
    /// `ShiftInwards` where that is legal, else `Predicate`. The default.
    #[default]
    Auto,
    /// The body runs under `if (v <= max)`. Always legal.
    GuardWithIf,
    /// Like `GuardWithIf`, but loads and stores of the vectorised body become masked ones. Always legal.
    Predicate,
    /// The extent is rounded up; the stage's region grows, but that of an output is its buffer, whose extent must be a multiple: each run
    /// tests that. Pure definitions only.
    RoundUp,
    /// The last block starts earlier, so that it ends with the region, and computes some points a second time. An extent
    /// below the factor is guarded: the region never grows. Pure definitions only, which do not overwrite their
    /// input (in_place_of), hold no sink, and do not run the blocks in parallel, since two of them overlap.
    ShiftInwards,
}

/// Ways to run the iterations of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForKind {
    /// One after the other.
    Serial,
    /// On the worker pool; iterations are independent.
    Parallel,
    /// As lanes of vectors; the extent must be constant.
    Vectorized,
    /// Copied; the extent must be constant.
    Unrolled,
    /// On the blocks of a GPU's grid, which run in any order and never wait for each other; iterations are independent.
    GpuBlock,
    /// On the threads of a block, inside of its loops; the extent must be constant. Iterations are independent, and what follows the loop
    /// waits for all of them.
    GpuThread,
    /// As vectors of 32 lanes, which a GPU runs as the threads of one warp; the extent must be 32.
    GpuLane,
}

impl Directive {
    /// Does it make a kernel of its stage?
    fn is_of_gpu(&self) -> bool {
        match self {
            Directive::Kind { kind, .. } => kind.is_gpu(),
            Directive::GpuSingle => true,
            Directive::Specialize { directives, .. } => directives.iter().any(Directive::is_of_gpu),
            _ => false,
        }
    }
}

impl ForKind {
    /// Do iterations run at the same time, in an order that nobody knows?
    pub fn is_parallel(self) -> bool {
        matches!(self, ForKind::Parallel | ForKind::GpuBlock | ForKind::GpuThread)
    }
    /// Are iterations the lanes of vectors?
    pub fn is_vector(self) -> bool {
        matches!(self, ForKind::Vectorized | ForKind::GpuLane)
    }
    /// Must the extent be a small constant?
    pub fn is_constant(self) -> bool {
        self.is_vector() || matches!(self, ForKind::Unrolled | ForKind::GpuThread)
    }
    /// Is it a loop that makes a kernel of what is inside?
    pub fn is_gpu(self) -> bool {
        matches!(self, ForKind::GpuBlock | ForKind::GpuThread)
    }
}

/// Policy for an interior body without a loop's conditions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Partition {
    /// An interior body where conditions can be tested up front. The default.
    #[default]
    Auto,
    /// Never: less code.
    Never,
    /// Everywhere: conditions of `select` and `where` on the loop's variable that read no memory count as `likely`. Refused where
    /// there is nothing to test.
    Always,
}

/// A loop of a stage: the place where a producer is computed or stored.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LoopLevel {
    /// Stage whose loop it is.
    pub stage: StageId,
    /// Loop variable of that stage.
    pub var: Name,
}

/// Memory for the values of an intermediate Func. One that says nothing lies on the heap, but `Shared` inside of the blocks of a GPU and
/// on the `Stack` inside of its threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Memory {
    /// From the allocator, 64-byte aligned. Not inside of a GPU's blocks.
    #[default]
    Heap,
    /// In the frame; the size must be a constant.
    Stack,
    /// In registers: constant size and constant indices after unrolling and vectorising.
    Register,
    /// In the memory that the threads of a GPU's block share; the size must be a constant. Between `gpu_blocks` and `gpu_threads`.
    Shared,
}

/// One directive on a stage (loop structure) or on a Func (placement, storage).
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the line above a variant says what its fields are")]
pub enum Directive {
    /// `old = outer * factor + inner` (+ min); `factor` is a constant or a parameter in 1..=2^26. One of the new loops may have the name of
    /// the old one, as those that fuse and rename make may: from here on the name is the new loop's.
    Split { old: Name, outer: Name, inner: Name, factor: Expr, tail: Tail },
    /// `fused` counts all points of both loops, `inner` the faster, and runs in the place of `inner`. Both are reduction
    /// variables or neither is; the number of points fits an i32.
    Fuse { inner: Name, outer: Name, fused: Name },
    /// Loop `old` is called `new` from here on.
    Rename { old: Name, new: Name },
    /// The given loops, innermost first, in the places they occupied; others keep theirs.
    Reorder(Vec<Name>),
    /// Loop `var` runs in this way. Vectors, copies and a GPU's threads and lanes need a constant extent: split first.
    ///
    /// The loops of a GPU: one to three block loops, inside of each other, each directly in the one before; in the innermost any loops, which all threads
    /// run alike; in those one to three thread loops, again each directly in the one before, and in them the work of a thread, which may
    /// hold a lane loop. What has a lane loop in it runs as a warp per iteration of its thread loops.
    Kind { var: Name, kind: ForKind },
    /// The stage, whose loops are serial, runs as one block of one thread of a GPU. Its Func is computed at root.
    GpuSingle,
    /// Moves the reduction over the kept variables `(rvar, pure name)` to an intermediate Func `into`, whose
    /// pure dimensions they become; this stage then reduces over them. On an update whose operator is
    /// associative. Splits of reduction variables made before are taken along. (Suriana et al. 2017)
    Rfactor { keep: Vec<(Name, Name)>, into: Name },
    /// The stage is skipped where `cond` (an i32/bool expression over its loop variables, uniform over vector lanes) is false.
    /// A variable of which `var` counts the blocks stands for its first value in the block, and, where blocks may begin anywhere, for its last, too:
    /// one that holds is enough. So the condition must not change twice within as many values as a block has.
    /// The author promises that the value there is 0 (maps: 0 is stored if the storage is intermediate) or the
    /// identity (reductions).
    SkipUnless { var: Name, cond: Expr },
    /// Coordinate `var` of this update, which is computed, is a loop from here on, outside of all others: a term counts in the iteration that
    /// equals its coordinate. So no two iterations of `var` write the same element, and the terms of each keep their order. Split, and the inner loop
    /// inside of all others, it takes one sweep over the domain per block, less what bounds of the coordinate rule out. On
    /// updates that read the Func at the element that they write.
    Gather(Name),
    /// Every element of this update changes in one indivisible step, so that iterations that meet at an element may run in
    /// parallel or as lanes. On updates `f(a) = f(a) op e`, op in `+ * min max & | ^`; float sums and products must be
    /// relaxed, too, since their order is then that of the run.
    Atomic,
    /// Float reassociation, contraction and signed-zero freedom in all code of the pipeline, so that every body of a loop rounds
    /// alike. Of two operands that may both be NaN, the minimum and maximum are either one where one is NaN. What a schedule may do to
    /// the order of a reduction, it may do to the stages that say so themselves.
    Relaxed,
    /// In all code of the pipeline a quotient of floats by a constant, or in a vector by what all lanes share, is a product with the
    /// reciprocal, which is rounded once more: `49 / 49` need not be 1.
    Reciprocals,

    /// The loops of this stage, as far as scheduled before, once more with these loop directives, for run-time conditions (of
    /// constants and parameters) in which they pay: `if cond { this } else { what follows }`. Several are tried in order, and a
    /// version may have versions of its own. A Func computed or stored at a loop of the stage is so in every version, so each
    /// has a loop of that name; a sink is not.
    Specialize { cond: Expr, directives: Vec<Directive> },
    /// Conditions on loop `var` (tails, `likely` ones) are tested in place, or once per body of the innermost loop, which then
    /// exists twice, or in place.
    Partition { var: Name, policy: Partition },

    /// The loops of this stage down to the named loop of another Func's stage, of the same names and kinds and in the same
    /// order, run together with those of that stage: in each iteration first its body, then this one's. Where the ranges differ,
    /// each body runs in the iterations of its own; as vectors or unrolled, the joint range must be constant. That stage may run
    /// with another one in turn, down to this loop or to another; loops that more stages have stand around those that fewer
    /// have. The Funcs are computed at the same level, and none needs another's values. Versions for conditions must have the
    /// joint loops, too: each runs with each version of the others, at most 64 in all. What is computed at a joint loop of one stage may be read by
    /// the others: it is computed once per joint iteration, over all that they need there, before their bodies.
    ComputeWith(LoopLevel),
    /// In each iteration of loop `var`, what this stage reads of Func or input `name` in the iteration `ahead` of it is
    /// fetched into the cache. Changes no value.
    Prefetch { name: Name, var: Name, ahead: u32 },

    /// A Func `wrapper` of the same values stands between this Func or input and these consumers (all others if none are
    /// named). The dimensions of an input's wrapper are called `_0`, `_1`, ... Bounds of reduction variables still read the input.
    In { consumers: Vec<Name>, wrapper: Name },
    /// A Func `clone` of the same definitions takes the place of this one in these consumers (all others if none are named).
    CloneIn { consumers: Vec<Name>, clone: Name },
    /// Substituted into its consumers (the default for intermediate Funcs without updates).
    Inline,
    /// Its own loop nest before all consumers.
    ComputeRoot,
    /// Computed inside this loop of a consumer, over the region the consumer needs there.
    ComputeAt(LoopLevel),
    /// Storage allocated (and reused by sliding) at this loop, at or outside `ComputeAt`.
    StoreAt(LoopLevel),
    /// Memory allocated once for all iterations of the loops inside of this one, at or outside `StoreAt`: values live no longer than there.
    HoistStorage(LoopLevel),
    /// Circular storage in dimension `var`: coordinate modulo `factor`, a constant power of two.
    FoldStorage { var: Name, factor: u32 },
    /// The storage holds the whole region at its level: only dimensions that [`Directive::FoldStorage`] names are folded. Without
    /// it, storage outside of the loops in which it is computed is folded by itself where a ring is enough.
    StoreWhole,
    /// The required minimum is rounded down and the extent up to a multiple of this constant in dimension `var`.
    AlignBounds { var: Name, modulus: u32 },
    /// The region in dimension `var` is exactly `extent` coordinates from `min`, or from the required minimum if none is given:
    /// constants or parameters, which make loop bounds constant. What is required must lie inside; that is checked at run
    /// time at root, and must be provable further in. For an output the buffer must have that extent.
    Bound { var: Name, min: Option<Expr>, extent: Expr },
    /// An assumption for automatic schedulers about the region in dimension `var`. Changes no code.
    Estimate { var: Name, min: i32, extent: i32 },
    /// The storage of an intermediate in dimension `var` is rounded up to a multiple of this constant.
    AlignStorage { var: Name, modulus: u32 },
    /// The dimensions of an intermediate's storage, fastest first; all of them.
    ReorderStorage(Vec<Name>),
    /// Memory for the intermediate values.
    StoreIn(Memory),
    /// An output that is computed inside a consumer's nest: every point of the domain is also stored to the output
    /// buffer, once, by the iteration of the store level whose own tile holds it. The consumer is the stage in whose loops it is computed, or
    /// the innermost partial result of that which is computed in the same loops. Legal iff the consumer iterates over the same space, dimension by dimension; its loops visit each point once (no tail that shifts or
    /// rounds up); what it reads covers its own tile; and every other reader runs in a later nest, which reads the output buffer.
    Sink,
    /// Stores to the output buffer (of a root output or a sink) bypass the cache where the run-time parameter is non-zero.
    NonTemporal(Expr),
    /// The output overwrites input `input`: legal iff every read of it is in this Func's definition at its own
    /// coordinates, every point is computed once, and layouts agree. If the pure definition is the input itself,
    /// only the updates run.
    InPlaceOf(Name),
}

/// Directives per stage, in order.
///
/// ```
/// use sumsq_codegen::{Schedule, Tail};
///
/// let mut s = Schedule::new();
/// s.func("blur").split("y", "strip", "row", 8, Tail::GuardWithIf).parallel("strip");
/// let text = "blur: split(y, strip, row, 8, guard) parallel(strip)";
/// assert_eq!(Schedule::parse(text)?, s);
/// assert_eq!(s.to_string().trim_end(), text);
/// # Ok::<(), sumsq_codegen::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Schedule {
    /// In order of first mention.
    pub stages: IndexMap<StageId, Vec<Directive>>,
}

/// Fluent access to the directives of one stage. Directives about placement and storage go on stage 0.
pub struct StageHandle<'a>(&'a mut Vec<Directive>);

impl Schedule {
    /// No directives: outputs at root, everything else inlined or, with updates, at root.
    pub fn new() -> Schedule {
        Schedule::default()
    }
    /// The pure definition of `func`, and its placement and storage.
    pub fn func(&mut self, func: &str) -> StageHandle<'_> {
        self.stage(func, 0)
    }
    /// Update `k` of `func`.
    pub fn update(&mut self, func: &str, k: usize) -> StageHandle<'_> {
        self.stage(func, k + 1)
    }
    fn stage(&mut self, func: &str, stage: usize) -> StageHandle<'_> {
        StageHandle(self.stages.entry(StageId { func: func.into(), stage }).or_default())
    }
    /// Is it one for a GPU?
    pub fn has_kernels(&self) -> bool {
        self.stages.values().flatten().any(Directive::is_of_gpu)
    }
}

impl LoopLevel {
    /// Loop `var` of the pure definition of `func`.
    pub fn pure(func: &str, var: &str) -> LoopLevel {
        LoopLevel { stage: StageId { func: func.into(), stage: 0 }, var: var.into() }
    }
    /// Loop `var` of update `k` of `func`.
    pub fn update(func: &str, k: usize, var: &str) -> LoopLevel {
        LoopLevel { stage: StageId { func: func.into(), stage: k + 1 }, var: var.into() }
    }
}

impl StageHandle<'_> {
    /// Appends any directive.
    pub fn push(self, d: Directive) -> Self {
        self.0.push(d);
        self
    }
    /// See [`Directive::Split`].
    pub fn split(self, old: &str, outer: &str, inner: &str, factor: impl Into<Expr>, tail: Tail) -> Self {
        let (old, outer, inner) = (old.into(), outer.into(), inner.into());
        self.push(Directive::Split { old, outer, inner, factor: factor.into(), tail })
    }
    /// See [`Directive::Fuse`].
    pub fn fuse(self, inner: &str, outer: &str, fused: &str) -> Self {
        let (inner, outer, fused) = (inner.into(), outer.into(), fused.into());
        self.push(Directive::Fuse { inner, outer, fused })
    }
    /// See [`Directive::Rename`].
    pub fn rename(self, old: &str, new: &str) -> Self {
        self.push(Directive::Rename { old: old.into(), new: new.into() })
    }
    /// Loops, innermost first.
    pub fn reorder(self, vars: &[&str]) -> Self {
        self.push(Directive::Reorder(vars.iter().map(|&v| v.into()).collect()))
    }
    /// Splits both dimensions and makes the inner ones innermost: `x y -> xi yi xo yo`.
    #[allow(clippy::too_many_arguments)]
    pub fn tile(
        self,
        x: &str,
        y: &str,
        xo: &str,
        yo: &str,
        xi: &str,
        yi: &str,
        fx: i32,
        fy: i32,
        tail: Tail,
    ) -> Self {
        self.split(x, xo, xi, fx, tail).split(y, yo, yi, fy, tail).reorder(&[xi, yi, xo, yo])
    }
    fn kind(self, var: &str, kind: ForKind) -> Self {
        self.push(Directive::Kind { var: var.into(), kind })
    }
    /// Runs loop `var` one iteration after the other, as without a directive.
    pub fn serial(self, var: &str) -> Self {
        self.kind(var, ForKind::Serial)
    }
    /// Runs loop `var` on the worker pool.
    pub fn parallel(self, var: &str) -> Self {
        self.kind(var, ForKind::Parallel)
    }
    /// Splits `var` by `n`, and runs the outer loop, which keeps the name, on the worker pool: tasks of `n` iterations. The inner loop is `<var>i`.
    pub fn parallel_by(self, var: &str, n: impl Into<Expr>) -> Self {
        shorthands::parallel(var, n.into(), Tail::Auto).into_iter().fold(self, StageHandle::push)
    }
    /// Splits `var` by `lanes`; the outer loop keeps the name, the inner one, `<var>i`, becomes the lanes of a vector.
    pub fn vectorize_by(self, var: &str, lanes: impl Into<Expr>) -> Self {
        shorthands::vectorize(var, lanes.into(), Tail::Auto).into_iter().fold(self, StageHandle::push)
    }
    /// Splits `var` by `n`; the outer loop keeps the name, the body of the inner one, `<var>u`, is copied.
    pub fn unroll_by(self, var: &str, n: impl Into<Expr>) -> Self {
        shorthands::unroll(var, n.into(), Tail::Auto).into_iter().fold(self, StageHandle::push)
    }
    /// Makes loop `var`, of constant extent, the lanes of a vector.
    pub fn vectorize_loop(self, var: &str) -> Self {
        self.kind(var, ForKind::Vectorized)
    }
    /// Splits `var` by `lanes` (into `<var>o`, `<var>i`) and vectorises the inner loop.
    pub fn vectorize(self, var: &str, lanes: i32, tail: Tail) -> Self {
        let (o, i) = (format!("{var}o"), format!("{var}i"));
        self.split(var, &o, &i, lanes, tail).vectorize_loop(&i)
    }
    /// Runs loops `vars`, innermost first, on the blocks of a GPU's grid.
    pub fn gpu_blocks(self, vars: &[&str]) -> Self {
        vars.iter().fold(self, |stage, var| stage.kind(var, ForKind::GpuBlock))
    }
    /// Runs loops `vars`, of constant extents, innermost first, on the threads of a GPU's block.
    pub fn gpu_threads(self, vars: &[&str]) -> Self {
        vars.iter().fold(self, |stage, var| stage.kind(var, ForKind::GpuThread))
    }
    /// Runs loop `var`, of extent 32, on the lanes of a GPU's warp.
    pub fn gpu_lanes(self, var: &str) -> Self {
        self.kind(var, ForKind::GpuLane)
    }
    /// Splits both dimensions as [`StageHandle::tile`] does; blocks run over the tiles, threads inside of them.
    #[allow(clippy::too_many_arguments)]
    pub fn gpu_tile(
        self,
        x: &str,
        y: &str,
        xo: &str,
        yo: &str,
        xi: &str,
        yi: &str,
        fx: i32,
        fy: i32,
        tail: Tail,
    ) -> Self {
        self.tile(x, y, xo, yo, xi, yi, fx, fy, tail).gpu_blocks(&[xo, yo]).gpu_threads(&[xi, yi])
    }
    /// See [`Directive::GpuSingle`].
    pub fn gpu_single(self) -> Self {
        self.push(Directive::GpuSingle)
    }
    /// Copies the body of loop `var`, of constant extent.
    pub fn unroll(self, var: &str) -> Self {
        self.kind(var, ForKind::Unrolled)
    }
    /// See [`Directive::Rfactor`].
    pub fn rfactor(self, keep: &[(&str, &str)], into: &str) -> Self {
        let keep = keep.iter().map(|&(r, v)| (r.into(), v.into())).collect();
        self.push(Directive::Rfactor { keep, into: into.into() })
    }
    /// See [`Directive::SkipUnless`].
    pub fn skip_unless(self, var: &str, cond: Expr) -> Self {
        self.push(Directive::SkipUnless { var: var.into(), cond })
    }
    /// See [`Directive::Gather`].
    pub fn gather(self, var: &str) -> Self {
        self.push(Directive::Gather(var.into()))
    }
    /// See [`Directive::Atomic`].
    pub fn atomic(self) -> Self {
        self.push(Directive::Atomic)
    }
    /// See [`Directive::Relaxed`].
    pub fn relaxed(self) -> Self {
        self.push(Directive::Relaxed)
    }
    /// See [`Directive::Reciprocals`].
    pub fn reciprocals(self) -> Self {
        self.push(Directive::Reciprocals)
    }
    /// See [`Directive::Specialize`]; `schedule` gives the directives of the special version.
    pub fn specialize(self, cond: Expr, schedule: impl FnOnce(StageHandle<'_>)) -> Self {
        let mut directives = vec![];
        schedule(StageHandle(&mut directives));
        self.push(Directive::Specialize { cond, directives })
    }
    /// See [`Directive::Partition`].
    pub fn partition(self, var: &str, policy: Partition) -> Self {
        self.push(Directive::Partition { var: var.into(), policy })
    }
    /// See [`Directive::Prefetch`].
    pub fn prefetch(self, name: &str, var: &str, ahead: u32) -> Self {
        self.push(Directive::Prefetch { name: name.into(), var: var.into(), ahead })
    }
    /// See [`Directive::In`].
    pub fn in_(self, consumers: &[&str], wrapper: &str) -> Self {
        let consumers = consumers.iter().map(|&c| c.into()).collect();
        self.push(Directive::In { consumers, wrapper: wrapper.into() })
    }
    /// See [`Directive::CloneIn`].
    pub fn clone_in(self, consumers: &[&str], clone: &str) -> Self {
        let consumers = consumers.iter().map(|&c| c.into()).collect();
        self.push(Directive::CloneIn { consumers, clone: clone.into() })
    }
    /// See [`Directive::Inline`].
    pub fn inline(self) -> Self {
        self.push(Directive::Inline)
    }
    /// See [`Directive::ComputeRoot`].
    pub fn compute_root(self) -> Self {
        self.push(Directive::ComputeRoot)
    }
    /// See [`Directive::ComputeWith`].
    pub fn compute_with(self, level: LoopLevel) -> Self {
        self.push(Directive::ComputeWith(level))
    }
    /// See [`Directive::ComputeAt`].
    pub fn compute_at(self, level: LoopLevel) -> Self {
        self.push(Directive::ComputeAt(level))
    }
    /// See [`Directive::StoreAt`].
    pub fn store_at(self, level: LoopLevel) -> Self {
        self.push(Directive::StoreAt(level))
    }
    /// See [`Directive::HoistStorage`].
    pub fn hoist_storage(self, level: LoopLevel) -> Self {
        self.push(Directive::HoistStorage(level))
    }
    /// See [`Directive::FoldStorage`].
    pub fn fold_storage(self, var: &str, factor: u32) -> Self {
        self.push(Directive::FoldStorage { var: var.into(), factor })
    }
    /// See [`Directive::AlignBounds`].
    pub fn align_bounds(self, var: &str, modulus: u32) -> Self {
        self.push(Directive::AlignBounds { var: var.into(), modulus })
    }
    /// See [`Directive::Bound`].
    pub fn bound(self, var: &str, min: impl Into<Expr>, extent: impl Into<Expr>) -> Self {
        self.push(Directive::Bound { var: var.into(), min: Some(min.into()), extent: extent.into() })
    }
    /// See [`Directive::Bound`].
    pub fn bound_extent(self, var: &str, extent: impl Into<Expr>) -> Self {
        self.push(Directive::Bound { var: var.into(), min: None, extent: extent.into() })
    }
    /// See [`Directive::Estimate`].
    pub fn set_estimate(self, var: &str, min: i32, extent: i32) -> Self {
        self.push(Directive::Estimate { var: var.into(), min, extent })
    }
    /// See [`Directive::StoreWhole`].
    pub fn store_whole(self) -> Self {
        self.push(Directive::StoreWhole)
    }
    /// See [`Directive::AlignStorage`].
    pub fn align_storage(self, var: &str, modulus: u32) -> Self {
        self.push(Directive::AlignStorage { var: var.into(), modulus })
    }
    /// See [`Directive::ReorderStorage`].
    pub fn reorder_storage(self, vars: &[&str]) -> Self {
        self.push(Directive::ReorderStorage(vars.iter().map(|&v| v.into()).collect()))
    }
    /// See [`Directive::StoreIn`].
    pub fn store_in(self, memory: Memory) -> Self {
        self.push(Directive::StoreIn(memory))
    }
    /// See [`Directive::Sink`].
    pub fn sink(self) -> Self {
        self.push(Directive::Sink)
    }
    /// See [`Directive::NonTemporal`].
    pub fn non_temporal(self, when: Expr) -> Self {
        self.push(Directive::NonTemporal(when))
    }
    /// See [`Directive::InPlaceOf`].
    pub fn in_place_of(self, input: &str) -> Self {
        self.push(Directive::InPlaceOf(input.into()))
    }
}
