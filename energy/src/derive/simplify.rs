//! The passes over assembled routines, in order: guards, factoring, sharing. Each keeps its result only where it needs no more
//! operations than before, and reports the counts.

use super::within::within;
use super::{OpCount, PassReport, Passes, Routines, count_ops, factor::factor, share_parts};
use crate::dag::{Dag, ExprId, Node};
use crate::error::EnergyError;
use crate::model::Energy;
use rustc_hash::FxHashMap;

/// Nodes that [`assume_guards`] may visit below guards, in all; a cap against quadratic work on deep nests.
const ASSUME_BUDGET: usize = 1 << 20;

/// Runs the wanted passes on one routine.
pub fn simplify(
    dag: &mut Dag,
    roots: &[ExprId],
    wanted: Passes,
) -> (Vec<ExprId>, Vec<(&'static str, OpCount)>) {
    type Pass = fn(&mut Dag, &[ExprId]) -> Vec<ExprId>;
    let passes: [(bool, &'static str, Pass); 3] = [
        (wanted.bounds, "guards", assume_guards),
        (wanted.polynomial, "factored", factor_sums),
        (wanted.sharing, "shared", share_parts),
    ];
    let mut current = roots.to_vec();
    let mut count = count_ops(dag, &current);
    let mut stages = vec![("assembled", count)];
    for (_, name, pass) in passes.into_iter().filter(|p| p.0) {
        if dag.is_spent() {
            break;
        }
        let next = pass(dag, &current);
        let next_count = count_ops(dag, &next);
        if next_count.weight() <= count.weight() {
            (current, count) = (next, next_count);
        }
        stages.push((name, count));
    }
    (current, stages)
}

impl Routines {
    /// Simplifies every routine in place; appends to [`Routines::passes`].
    ///
    /// # Errors
    /// A budget of the energy that is spent.
    pub fn simplify(&mut self, energy: &Energy, wanted: Passes) -> Result<(), EnergyError> {
        let Routines { dag, table, passes, .. } = self;
        for r in table.iter_mut().filter(|r| !r.kind.is_condition()) {
            let (after, stages) = simplify(dag, &r.roots, wanted);
            within(energy, dag, || format!("{} at {}", r.kind.formula(), r.site.name(energy)), None)?;
            r.roots = after;
            passes.push(PassReport { routine: format!("{} {}", r.kind, r.site), stages });
        }
        Ok(())
    }
}

/// Resolves conditions, however deep, under the guards that decide them: below `Select(c, a, b)`, a condition that c implies
/// is 1 in a, one that c excludes is 0, and the reverse in b.
pub fn assume_guards(dag: &mut Dag, roots: &[ExprId]) -> Vec<ExprId> {
    let mut done: FxHashMap<ExprId, ExprId> = FxHashMap::default();
    let mut conditional = Conditional::default();
    let mut budget = ASSUME_BUDGET;
    for n in dag.reachable(roots) {
        let mut r = dag.with_children(n, &mut |c| done[&c]);
        if let Node::Select(cond, a, b) = *dag.node(r) {
            let negated = dag.not(cond);
            let a = assume(dag, cond, a, &mut conditional, &mut budget);
            let b = assume(dag, negated, b, &mut conditional, &mut budget);
            r = dag.select(cond, a, b);
        }
        done.insert(n, r);
    }
    roots.iter().map(|r| done[r]).collect()
}

fn assume(
    dag: &mut Dag,
    cond: ExprId,
    e: ExprId,
    conditional: &mut Conditional,
    budget: &mut usize,
) -> ExprId {
    if *budget == 0 || dag.is_spent() || !conditional.get(dag, e) {
        return e;
    }
    dag.substitute_ids(&[e], &mut |dag, n| {
        *budget = budget.saturating_sub(1);
        if *budget == 0 || !conditional.get(dag, n) {
            return Some(n);
        }
        if !dag.is_boolean(n) {
            return None;
        }
        let known = match (dag.implies(cond, n), dag.excludes(cond, n)) {
            (true, _) => 1.0,
            (_, true) => 0.0,
            _ => return None,
        };
        Some(dag.constant(known))
    })[0]
}

/// Memory of which expressions hold a condition that could be resolved.
#[derive(Default)]
struct Conditional(FxHashMap<ExprId, bool>);

impl Conditional {
    fn get(&mut self, dag: &Dag, id: ExprId) -> bool {
        for n in dag.reachable_while(&[id], |n| !self.0.contains_key(&n)) {
            let own = dag.is_boolean(n) && dag.as_constant(n).is_none();
            let value = own || dag.children(n).iter().any(|c| self.0[c]);
            self.0.insert(n, value);
        }
        self.0[&id]
    }
}

/// Factors every sum (`factor`), operands first.
pub fn factor_sums(dag: &mut Dag, roots: &[ExprId]) -> Vec<ExprId> {
    let mut done: FxHashMap<ExprId, ExprId> = FxHashMap::default();
    for n in dag.reachable(roots) {
        let r = dag.with_children(n, &mut |c| done[&c]);
        let r = factor(dag, r);
        done.insert(n, r);
    }
    roots.iter().map(|r| done[r]).collect()
}
