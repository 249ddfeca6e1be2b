//! Spending: the count of work and nodes against the budgets of a DAG.

use super::meter::DEEPER;
use super::{Dag, ExprId};
use crate::budgets::{Budget, Budgets};
use std::sync::atomic::Ordering::Relaxed;

impl Dag {
    /// Sets the budgets.
    pub fn set_budgets(&mut self, budgets: Budgets) {
        self.meter.budgets = budgets;
    }

    /// The budgets.
    pub fn budgets(&self) -> &Budgets {
        &self.meter.budgets
    }

    /// The budget that is spent, if one is: expressions built since are wrong.
    pub fn overrun(&self) -> Option<Budget> {
        let steps = self.meter.steps.load(Relaxed) > self.meter.budgets.steps;
        self.meter.spent.or(steps.then_some(Budget::Steps))
    }

    /// Says that a budget is spent.
    pub(crate) fn exhaust(&mut self, budget: Budget) {
        self.meter.spent.get_or_insert(budget);
    }

    /// Counts `n` steps.
    pub(crate) fn spend(&self, n: usize) {
        // Another thread's count may be lost; a DAG is built by one.
        self.meter.steps.store(self.meter.steps.load(Relaxed) + n as u64, Relaxed);
    }

    /// Tells whether a budget is spent.
    pub(crate) fn is_spent(&self) -> bool {
        self.overrun().is_some()
    }

    /// Lets expressions be as deep as derivatives of allowed ones.
    pub fn allow_derivatives(&mut self) {
        self.meter.budgets.depth = self.meter.budgets.depth.saturating_mul(DEEPER);
    }

    /// Counts a node that is about to be made over `operands`. Returns its depth.
    pub(super) fn count(&mut self, operands: &[ExprId]) -> u32 {
        let depth = operands.iter().map(|o| self.depths[o.0 as usize]).max().map_or(0, |d| d + 1);
        self.meter.nodes += 1 + operands.len() as u64;
        if self.meter.nodes > self.meter.budgets.nodes {
            self.exhaust(Budget::Nodes);
        }
        if depth > self.meter.budgets.depth {
            self.exhaust(Budget::Depth);
        }
        depth
    }

    /// Nodes and operands, and steps, so far.
    pub fn taken(&self) -> (u64, u64) {
        (self.meter.nodes, self.meter.steps.load(Relaxed))
    }
}
