//! Statements: the lowered program.
//!
//! Two levels, told apart by node names. Before flattening: `Realize`, `Produce`, `Provide` and `Call` in
//! expressions, multi-dimensional. After: `Allocate`, `Store` and `Load` on flat buffers ([`Flat`]). That of tuple element k of a
//! planar Func or input `f` prints as `f.k`; a record is one buffer `f`. The output buffer of a sink or root output `f` is
//! `f.out.k` / `f.out` where it differs from its intermediate storage.
//!
//! Evaluation: statements of a block in order; `Let` binds a scalar for the body; a `Parallel` loop runs its
//! iterations in any order on any worker.

use crate::expr::{BinaryOp, Expr, Flat, Name};
use crate::ir::args::Arg;
use crate::schedule::{ForKind, Memory, StageId};
use crate::types::ScalarType;
use serde::{Deserialize, Serialize};

/// A statement.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the line above a variant says what its fields are")]
pub enum Stmt {
    /// In order.
    Block(Vec<Stmt>),
    /// `name = value` inside `body`; any scalar type.
    Let { name: Name, value: Expr, body: Box<Stmt> },
    /// `for var in [min, min + extent)`. `Vectorized` and `Unrolled` are gone after their passes.
    For { var: Name, min: Expr, extent: Expr, kind: ForKind, body: Box<Stmt> },
    /// Scalar condition, except between vectorising and flattening of masks.
    If { cond: Expr, then: Box<Stmt>, otherwise: Option<Box<Stmt>> },
    /// Fails the call with `message` (with `args`, i64, appended) unless the scalar `cond` holds.
    Assert { cond: Expr, message: String, args: Vec<Expr> },

    /// Before flattening: storage for `func` over `region` (`(min, extent)` per dimension) during `body`.
    Realize { func: Name, region: Vec<(Expr, Expr)>, body: Box<Stmt> },
    /// Marks the code that computes a stage (for passes and for readers; after flattening, for profiles).
    Produce { stage: StageId, body: Box<Stmt> },
    /// Before flattening: `func(args) = values`, all values computed before any store. Where they go is said by
    /// the [`Target`].
    Provide { func: Name, args: Vec<Expr>, values: Vec<Expr>, to: Target },

    /// After flattening: `extent` elements of `ty`, 64-byte aligned; zeroed if `zeroed`.
    Allocate { buffer: Flat, ty: ScalarType, extent: Expr, memory: Memory, zeroed: bool, body: Box<Stmt> },
    /// After flattening: `buffer[index] = value` in lanes whose predicate holds. Bool is stored as a byte.
    /// `aligned`: the first lane of a dense store is a multiple of the vector's size.
    Store {
        buffer: Flat,
        index: Expr,
        value: Expr,
        predicate: Option<Expr>,
        aligned: bool,
        non_temporal: bool,
    },
    /// Before flattening: fetches the element of Func or input `name` at coordinates `args` into the cache.
    Prefetch { name: Name, args: Vec<Expr> },
    /// After flattening: fetches a byte of a buffer into the cache.
    PrefetchByte { buffer: Flat, byte: Expr },
    /// After flattening: `buffer[index] = buffer[index] op value` in lanes whose predicate holds, each lane in one indivisible
    /// step, so that other iterations may update the same element meanwhile.
    Accumulate { buffer: Flat, op: BinaryOp, index: Expr, value: Expr, predicate: Option<Expr> },
}

impl Stmt {
    /// `buffer[index] = value` in all lanes, through the cache.
    pub(crate) fn store(buffer: impl Into<Flat>, index: Expr, value: Expr) -> Stmt {
        let buffer = buffer.into();
        Stmt::Store { buffer, index, value, predicate: None, aligned: false, non_temporal: false }
    }
}

/// Destination of a `Provide`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// The Func's intermediate storage.
    Intermediate,
    /// The output buffer.
    Output,
    /// Wherever the Func's values are: `f(args) = f(args) op value` with this operator per tuple element, in one indivisible
    /// step for each.
    Atomic(Vec<BinaryOp>),
}

/// A lowered pipeline, ready for a back end. Its ABI: `i32 f(const Context*, void *const *buffers, const u64 *scalars)`;
/// `buffers` holds the pointers of the buffers among `args` in their order, `scalars` the scalars
/// in their order, each in the low bytes of a 64-bit slot. Returns 0, or k + 1 where assertion k failed.
#[derive(Clone, PartialEq, Debug)]
pub struct LoweredFunction {
    /// Symbol name.
    pub name: String,
    /// Arguments.
    pub args: Vec<Arg>,
    /// Body, flat.
    pub body: Stmt,
    /// Float reassociation and contraction allowed everywhere in the body.
    pub relaxed: bool,
    /// Pairs of argument buffers that may be the same memory (an output in place of an input). All others are distinct.
    pub aliases: Vec<(Flat, Flat)>,
    /// Argument buffers that hold records, with their slots.
    pub records: Vec<(Flat, u8)>,
    /// Regions of the inputs that it reads.
    pub required: Required,
}

/// Regions of inputs, not yet evaluated: expressions over sizes of buffers, parameters and let-bound names.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Required {
    /// Let-bound names in the order of their definitions.
    pub lets: Vec<(Name, Expr)>,
    /// First and last coordinate per dimension, of each input that is read and not trusted to be read inside.
    pub inputs: Vec<(Name, Vec<(Expr, Expr)>)>,
}
