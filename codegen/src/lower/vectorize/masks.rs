//! The lanes that run.

use super::lanes::reduce;
use super::spread::spread;
use crate::expr::{BinaryOp, Expr};
use crate::lower::simplify::simplify_expr;

/// Conditions that hold together, one for each number of lanes that conditions have, the fewest first.
#[derive(Clone, Default)]
pub(super) struct Masks(Vec<Expr>);

impl Masks {
    /// These and one more, if there is one.
    pub(super) fn with(&self, cond: Option<Expr>) -> Masks {
        let mut masks = self.clone();
        let Some(cond) = cond else { return masks };
        let lanes = cond.ty().lanes;
        let at = masks.0.partition_point(|m| m.ty().lanes < lanes);
        match masks.0.get_mut(at) {
            Some(same) if same.ty().lanes == lanes => *same = both(same.clone(), cond),
            _ => masks.0.insert(at, cond),
        }
        masks
    }

    /// The groups, `lanes` of them, in which some lane runs; none if all. Of a single group one does.
    pub(super) fn at(&self, lanes: u16) -> Option<Expr> {
        let finer = self.finer(lanes).filter(|_| lanes > 1);
        let finer = finer.map(|m| simplify_expr(&reduce(BinaryOp::Or, m, lanes)));
        let others = self.0.iter().filter(|m| m.ty().lanes <= lanes);
        others.map(|m| spread(m.clone(), lanes)).chain(finer).reduce(both)
    }

    /// Those that tell apart lanes within groups, `lanes` of them.
    pub(super) fn finer(&self, lanes: u16) -> Option<Expr> {
        let all = self.0.last()?.ty().lanes;
        let finer = self.0.iter().filter(|m| m.ty().lanes > lanes);
        finer.map(|m| spread(m.clone(), all)).reduce(both)
    }
}

fn both(a: Expr, b: Expr) -> Expr {
    simplify_expr(&a.and(b))
}
