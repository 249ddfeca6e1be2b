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
    /// Registers that hold what one iteration reads, and move.
    pub window: Option<Window>,
}

/// A window in registers (`windows.rs`), in names that are bound where its Func is computed.
#[derive(Clone, Debug)]
pub struct Window {
    /// The dimension that slides.
    pub dim: usize,
    /// Its number of slots.
    pub extent: i64,
    /// The coordinate of the first slot.
    pub(super) first: Expr,
    /// The coordinates that an iteration goes on.
    pub(super) step: i64,
    /// The first coordinate that is computed.
    pub(super) start: Expr,
    /// Along other dimensions the last coordinate, where it may be less than that of the storage.
    pub(super) last: Vec<Option<Expr>>,
}

/// Coordinates that are in use at once, per dimension; none where no constant bounds them, or where folding does not pay.
pub(super) type Live = Vec<Option<i64>>;
