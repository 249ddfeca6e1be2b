//! A lowered pipeline in two parts: what the host of a GPU does, and the kernels that it launches.
//!
//! The host's part is a tree of [`Segment`]s that a runtime walks: scalars, allocations and control flow as they stood at root, with
//! a [`Segment::Launch`] for each nest of block loops and a [`Segment::Host`] for what else computes. Scalars of both parts are evaluated by
//! the walk, so a kernel or host function takes every scalar that is bound outside of it as an argument ([`outer`]); but kernels read the
//! pipeline's parameters that are floats from memory ([`parameters`]).

use crate::expr::{Expr, Flat, Name, Param};
use crate::ir::stmt::LoweredFunction;
use crate::types::ScalarType;
use serde::{Deserialize, Serialize};

/// A lowered pipeline in two parts. What each function reads and writes are buffers among `args` of the whole, or allocations
/// around its segment.
#[derive(Clone, PartialEq, Debug)]
pub struct Segmented {
    /// The host's part.
    pub root: Segment,
    /// Kernels, in the order of their launches.
    pub kernels: Vec<Kernel>,
    /// Functions of the host, in the order of their calls.
    pub hosts: Vec<LoweredFunction>,
}

/// A kernel: every block runs the body of the block loops, with the coordinates of the block for their variables.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Name, arguments and body, block loops included. Nothing in it fails.
    pub function: LoweredFunction,
    /// Threads of a block: a multiple of 32, from 32 to 1024.
    pub threads: u32,
}

/// Part of what the host does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the line above a variant says what its fields are")]
pub enum Segment {
    /// In order.
    Block(Vec<Segment>),
    /// `name = value` inside of `body`.
    Let { name: Name, value: Expr, body: Box<Segment> },
    /// For each value of `var`, one after the other.
    For { var: Name, min: Expr, extent: Expr, body: Box<Segment> },
    /// One of two parts.
    If { cond: Expr, then: Box<Segment>, otherwise: Option<Box<Segment>> },
    /// Fails the call with `message` and the values of `args` unless `cond` holds.
    Assert { cond: Expr, message: String, args: Vec<Expr> },
    /// `extent` elements of `ty` during `body`, on whichever side they are touched; zeroed if `zeroed`.
    Allocate { buffer: Flat, ty: ScalarType, extent: Expr, zeroed: bool, body: Box<Segment> },
    /// Runs a kernel on a grid of so many blocks, innermost dimension first; not at all where one of them is 0.
    Launch { kernel: usize, grid: Vec<Expr> },
    /// Runs a function of the host.
    Host { function: usize },
}

impl Segment {
    /// Calls `f` on every expression in it, outermost first.
    pub fn visit_exprs(&self, f: &mut dyn FnMut(&Expr)) {
        match self {
            Segment::Block(list) => list.iter().for_each(|s| s.visit_exprs(f)),
            Segment::Let { value: e, body, .. } | Segment::Allocate { extent: e, body, .. } => {
                f(e);
                body.visit_exprs(f);
            }
            Segment::For { min, extent, body, .. } => {
                [min, extent].into_iter().for_each(&mut *f);
                body.visit_exprs(f);
            }
            Segment::If { cond, then, otherwise } => {
                f(cond);
                [Some(then), otherwise.as_ref()].into_iter().flatten().for_each(|s| s.visit_exprs(f));
            }
            Segment::Assert { cond, args, .. } => std::iter::once(cond).chain(args).for_each(f),
            Segment::Launch { grid, .. } => grid.iter().for_each(f),
            Segment::Host { .. } => {}
        }
    }
}

/// The parameter by which a function takes the value of a name that is bound outside of it.
pub fn outer(name: &Name) -> Param {
    Param::Named(format!("{PREFIX}{name}").into())
}

/// The name whose value a parameter stands for, if it was made by [`outer`].
pub fn outer_name(param: &Param) -> Option<&str> {
    param.name()?.strip_prefix(PREFIX)
}

/// The memory from which kernels read the parameters of a float type, each at its place among the scalar arguments of the whole: who launches
/// them again and again, as a graph does, changes nothing but that.
pub fn parameters(ty: ScalarType) -> Flat {
    Flat::records(format!("{PREFIX}{}", ty.name()))
}

/// No parameter that a pipeline declares begins so: its name is one word.
const PREFIX: &str = "let ";
