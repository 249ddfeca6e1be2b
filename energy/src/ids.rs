//! Ids of what an energy declares, and offsets: the words that the DAG, graphs and the model share.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

macro_rules! ids {
    ($($(#[$m:meta])* $name:ident),* $(,)?) => { $(
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
        pub struct $name(pub u32);
        impl $name {
            /// As an index into the model's table.
            pub fn index(self) -> usize { self.0 as usize }
        }
    )* };
}
ids!(
    /// A run-time extent.
    DimId,
    /// An index space: a list of dims.
    SpaceId,
    /// An unknown.
    UnknownId,
    /// A given array.
    ArrayId,
    /// A computed array.
    ComputedId,
    /// A parameter.
    ParamId,
    /// A graph.
    GraphId,
    /// A named group of residuals.
    GroupId,
    /// Residuals under one robust loss.
    BlockId,
);

/// A stencil offset or box corner, one entry per dim of the index space, fastest-varying first.
pub type Offset = SmallVec<[i32; 3]>;

/// Componentwise sum.
pub(crate) fn moved(o: &Offset, by: &Offset) -> Offset {
    assert_eq!(o.len(), by.len(), "dims of offsets");
    o.iter().zip(by).map(|(a, b)| a + b).collect()
}

/// The set a residual template is instantiated over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Domain {
    /// Every element of an index space.
    Space(SpaceId),
    /// Every hyperedge of a graph.
    Graph(GraphId),
}
