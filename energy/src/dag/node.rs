//! The nodes of the symbolic DAG.

use crate::ids::{ArrayId, ComputedId, Domain, GraphId, Offset, ParamId, SpaceId, UnknownId};
use smallvec::SmallVec;
use sumsq_codegen::functions::Function;

/// Index of a node in its [`crate::dag::Dag`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ExprId(pub u32);

/// A finite or non-finite f64 constant, compared and hashed by its bits (-0 is stored as 0).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Const(u64);

impl Const {
    /// The constant `v`.
    pub fn new(v: f64) -> Const {
        Const(if v == 0.0 { 0 } else { v.to_bits() })
    }
    /// Its value.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Source of an access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Source {
    /// The unknown itself.
    Unknown(UnknownId),
    /// A given array.
    Array(ArrayId),
    /// A computed array.
    Computed(ComputedId),
    /// The stored partials of a computed array with respect to the unknowns that it reads: see [`crate::derive::Chain`].
    Partial(ComputedId),
    /// The vector that J is applied to: shaped like the unknown (`p` in J p).
    Direction(UnknownId),
    /// Value k of what is stored once per linearisation for every instance of a domain: hoisted parts of the routines, and
    /// partials that are materialised.
    Hoisted(Domain),
    /// Value k of the weighted residuals of a domain's instances that are stored for J^T r.
    Residual(Domain),
    /// Value k of the products J p of a domain's instances that are materialised: stored once per direction.
    Product(Domain),
}

/// Place of an access.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum At {
    /// At the element plus a constant offset; 0 outside the domain.
    Offset(Offset),
    /// At a slot of the hyperedge, a vertex or a neighbour of one; 0 outside the domain.
    Vertex(GraphId, u16),
    /// At the hyperedge itself: what is stored for it.
    Edge(GraphId),
    /// At the only element of the space of globals.
    Global,
}

/// One scalar read.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Access {
    /// From where.
    pub source: Source,
    /// The channel.
    pub channel: u16,
    /// At which element.
    pub at: At,
}

/// Comparisons; the others are these with swapped operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Compare {
    Eq,
    Less,
    LessEq,
}

/// A node. Boolean nodes (`InBounds`, `InBoundsAt`, `Free`, `Compare`, `NonZero`, `And`, `Or`, `Not`) are also the numbers 1 and 0.
///
/// A product never has a boolean factor: `b * x` is built as `Select(b, x, 0)`, which is a selection of *values* when
/// emitted (the guard rule: no masked multiplication, no non-finite factor out of its guard).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Node {
    /// A number.
    Const(Const),
    /// A scalar read.
    Access(Access),
    /// Channel of a parameter.
    Param(ParamId, u16),
    /// The element's coordinate along a dim (0 is fastest-varying).
    Index(u16),
    /// True if the whole box `[lo, hi]` (inclusive offsets) around the element lies in the domain.
    InBounds {
        /// Lower corner.
        lo: Offset,
        /// Upper corner.
        hi: Offset,
    },
    /// True if the element there is in the domain and not excluded.
    Free(SpaceId, At),
    /// `constant + sum coefficient * term`; terms sorted, distinct, coefficients non-zero, at least one term.
    Sum {
        /// Added constant.
        constant: Const,
        /// `(coefficient, term)`.
        terms: Box<[(Const, ExprId)]>,
    },
    /// `product factor^exponent`; factors sorted, distinct, non-boolean, exponents non-zero. A lone factor has an exponent
    /// other than 1 (a coefficient lives in the Sum above).
    Prod(Box<[(ExprId, i32)]>),
    /// A given array read at real coordinates, one per dim of its index space, by multilinear interpolation; pixel centres are at
    /// integers, a tap outside the array counts 0.
    Sample {
        /// The array and its channel.
        image: (ArrayId, u16),
        /// Arrays in which its derivative along each dim is sampled; empty if there is none (then `at` reads no unknown).
        partials: Box<[(ArrayId, u16)]>,
        /// The coordinates, fastest-varying dim first.
        at: Box<[ExprId]>,
    },
    /// A function of as many operands as it has. `Pow` is the real power; integer powers are exponents of `Prod`.
    Call(Function, SmallVec<[ExprId; 2]>),
    /// `a op b`.
    Compare(Compare, ExprId, ExprId),
    /// `x ~= 0` of a non-boolean (NaN is true).
    NonZero(ExprId),
    /// True if two slots of the hyperedge (in the same index space) are the same element.
    SameVertex(GraphId, u16, u16),
    /// True if the whole box `[lo, hi]` (inclusive offsets) around a slot of the hyperedge that is in the domain lies in it, too.
    InBoundsAt {
        /// The graph.
        graph: GraphId,
        /// The slot.
        slot: u16,
        /// Lower corner.
        lo: Offset,
        /// Upper corner.
        hi: Offset,
    },
    /// The coordinate of a slot of the hyperedge along a dim.
    IndexAt(GraphId, u16, u16),
    /// Conjunction; operands sorted, distinct, boolean, at least two.
    And(Box<[ExprId]>),
    /// Disjunction, likewise.
    Or(Box<[ExprId]>),
    /// Negation of a boolean.
    Not(ExprId),
    /// `cond ? a : b` with a boolean `cond`, on values.
    Select(ExprId, ExprId, ExprId),
}

impl Node {
    /// The operands, in order.
    pub(super) fn operands(&self) -> SmallVec<[ExprId; 4]> {
        match self {
            Node::Const(_) | Node::Access(_) | Node::Param(..) | Node::Index(_) => SmallVec::new(),
            Node::InBounds { .. } | Node::Free(..) | Node::SameVertex(..) => SmallVec::new(),
            Node::InBoundsAt { .. } | Node::IndexAt(..) => SmallVec::new(),
            Node::Sum { terms, .. } => terms.iter().map(|t| t.1).collect(),
            Node::Prod(factors) => factors.iter().map(|f| f.0).collect(),
            Node::Call(_, arguments) => arguments.iter().copied().collect(),
            Node::Sample { at, .. } => at.iter().copied().collect(),
            Node::Compare(_, a, b) => [*a, *b].into_iter().collect(),
            Node::NonZero(a) | Node::Not(a) => [*a].into_iter().collect(),
            Node::And(ops) | Node::Or(ops) => ops.iter().copied().collect(),
            Node::Select(c, a, b) => [*c, *a, *b].into_iter().collect(),
        }
    }
}
