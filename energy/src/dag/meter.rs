//! The count of what a DAG has taken of its budgets.
//!
//! Constructors cannot fail: once a budget is spent, each gives the constant 0, so that whatever goes on ends soon. What was built is worth
//! nothing from then on; whoever builds asks `Dag::overrun` before the result is used.

use crate::budgets::{Budget, Budgets};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts, and what they are held against.
#[derive(Debug, Default)]
pub(super) struct Meter {
    pub(super) budgets: Budgets,
    /// Nodes and their operands.
    pub(super) nodes: u64,
    /// Visits, counted also where the DAG is only read.
    pub(super) steps: AtomicU64,
    /// The first budget that was spent, steps aside.
    pub(super) spent: Option<Budget>,
}

impl Clone for Meter {
    fn clone(&self) -> Meter {
        Meter { steps: AtomicU64::new(self.steps.load(Relaxed)), ..*self }
    }
}

/// Derivatives nest deeper than what they are of.
pub(super) const DEEPER: u32 = 4;
