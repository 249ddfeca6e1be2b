//! Storage of intermediates.

use crate::expr::Expr;
use crate::schedule::Memory;

/// Storage of one Func.
#[derive(Clone, Debug)]
pub struct Storage {
    /// `(min, extent)` per dimension.
    pub region: Vec<(Expr, Expr)>,
    /// The same where its memory is allocated, if that is farther out: no extent is smaller.
    pub hoisted: Option<Vec<(Expr, Expr)>>,
    /// Memory in which it is kept.
    pub memory: Memory,
    /// Constants that the extents do not exceed, where there are some.
    pub sizes: Vec<Option<i64>>,
    /// Circular storage per dimension: coordinates modulo this.
    pub fold: Vec<Option<u32>>,
}

/// Coordinates that are in use at once, per dimension; none where no constant bounds them, or where folding does not pay.
pub(super) type Live = Vec<Option<i64>>;
