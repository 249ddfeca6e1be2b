//! The parameters of generated pipelines, by id. As with vectors, their names are symbols and nothing more.

use serde::{Deserialize, Serialize};
use std::fmt;
use sumsq_codegen::{Expr, ScalarType};
use sumsq_energy::emit::names;
use sumsq_energy::model::{Domain, GraphId, ParamId, SpaceId};

/// A whole number (i32) that follows from the sizes of a problem and the machine: fixed once a problem is planned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Size {
    /// Extent of a dim of a space.
    Extent(SpaceId, usize),
    /// Height of a strip of a domain.
    Strip(Domain),
    /// Extent of a dim of a coarser level of a space.
    LevelExtent(SpaceId, u8, usize),
    /// Height of a strip of such a level.
    LevelStrip(SpaceId, u8),
    /// Hyperedges of a graph.
    Edges(GraphId),
    /// Rows of a vertex, padding included.
    Rows(GraphId, u16),
    /// Those of them that are summed on their own: in whole blocks, at least one.
    Summed(GraphId, u16),
    /// Entries of the rows of a vertex.
    Entries(GraphId, u16),
    /// Not 0 where vectors had better bypass the cache.
    Streaming,
}

/// A number that may change between runs, in the precisions in which pipelines take it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Number {
    /// A channel of a parameter of the energy.
    Energy(ParamId, u16),
    /// The largest entry that diag(J^T J) has had for a component of a space before it was linearised last.
    LargestBefore(SpaceId, u16),
    /// Least diagonal entry of J^T J that D is made of, as a multiple of the largest.
    LeastDiagonal,
    /// Largest one.
    MostDiagonal,
    /// 1 if the running maximum of the diagonal takes its place.
    Running,
    /// 1/R, 0 for Gauss-Newton.
    InvRadius,
    /// D over what it was when it was linearised.
    DampingScale,
    /// t of the trial, see [`crate::matrix_free::pipelines::trial`].
    Descent,
    /// tau^2 of the stop rule.
    Tolerance,
    /// zeta of the stop rule.
    Zeta,
    /// eta^2 of the stop rule of r.z.
    Eta,
    /// PCG iterations at most.
    Limit,
}

/// A parameter of a pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Param {
    /// Fixed by sizes.
    Size(Size),
    /// Free to change.
    Number(Number),
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Extent(s, d) => f.write_str(&names::extent_name(*s, *d)),
            Size::Strip(Domain::Space(s)) => write!(f, "strip.s{}", s.0),
            Size::Strip(Domain::Graph(g)) => write!(f, "strip.g{}", g.0),
            Size::LevelExtent(s, level, d) => write!(f, "{}@{level}", names::extent_name(*s, *d)),
            Size::LevelStrip(s, level) => write!(f, "strip.s{}@{level}", s.0),
            Size::Edges(g) => write!(f, "edges{}", g.0),
            Size::Rows(g, v) => write!(f, "r{}s{v}.rows", g.0),
            Size::Summed(g, v) => write!(f, "r{}s{v}.summed", g.0),
            Size::Entries(g, v) => write!(f, "r{}s{v}.entries", g.0),
            Size::Streaming => f.write_str("streaming"),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Number::Energy(p, channel) => return f.write_str(&names::param(*p, *channel)),
            Number::LargestBefore(s, c) => return write!(f, "largest{}c{c}_before", s.0),
            Number::LeastDiagonal => "min_diagonal",
            Number::MostDiagonal => "max_diagonal",
            Number::Running => "running",
            Number::InvRadius => "inv_radius",
            Number::DampingScale => "damping_scale",
            Number::Descent => "descent",
            Number::Tolerance => "tolerance",
            Number::Zeta => "zeta",
            Number::Eta => "eta",
            Number::Limit => "limit",
        })
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Param::Size(size) => size.fmt(f),
            Param::Number(number) => number.fmt(f),
        }
    }
}

impl Size {
    /// The same of a level that lies so many behind its own; a size of no coarser level stays as it is.
    pub fn shifted(self, by: u8) -> Size {
        match self {
            Size::LevelExtent(s, level, d) => Size::LevelExtent(s, level + by, d),
            Size::LevelStrip(s, level) => Size::LevelStrip(s, level + by),
            other => other,
        }
    }

    /// As generated code reads it.
    pub fn expr(self) -> Expr {
        Expr::param(self.to_string(), ScalarType::I32)
    }
}

impl Number {
    /// As generated code reads it.
    pub fn expr(self, ty: ScalarType) -> Expr {
        Expr::param(self.to_string(), ty)
    }
}

/// Number of hyperedges of a graph.
pub fn edge_count(g: GraphId) -> Expr {
    Size::Edges(g).expr()
}

/// Height of a strip of a domain.
pub fn strip(domain: Domain) -> Expr {
    Size::Strip(domain).expr()
}
