//! Costs of the routines of an energy: operations per element or hyperedge, the measure that no machine's noise touches.

use indexmap::IndexMap;
use std::fmt::Write;
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{Kind, OpCount, Routines, Site, count_ops};
use sumsq_energy::emit::routine_pressure;
use sumsq_energy::model::{Domain, Energy};

/// The operations of one routine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutineCount {
    /// The kind.
    pub routine: Kind,
    /// For what, once: an element (`{W,H}`), a vertex of a hyperedge (`G.v0`), a hyperedge (`G`), a computed array (`B {W,H}`).
    pub per: String,
    /// Operations, parts that several values of the routine share counted once.
    pub count: OpCount,
    /// Values that live at once, at most, as the routine is emitted.
    pub live: u32,
}

/// Counts every routine as it is emitted. What is stored per linearisation is a routine of its own; rows without operations
/// are left out.
pub fn operation_counts(energy: &Energy, r: &Routines) -> Vec<RoutineCount> {
    // Residuals over one domain are evaluated together.
    let mut rows: IndexMap<(Kind, Domain, String), Vec<ExprId>> = IndexMap::new();
    for routine in r.table.iter().filter(|r| !r.kind.is_condition()) {
        let domain = routine.site.domain(energy);
        let per = match routine.site {
            Site::Residual(_) => energy.domain_name(domain),
            site => site.name(energy),
        };
        rows.entry((routine.kind, domain, per)).or_default().extend(&routine.roots);
    }
    let counts = rows.into_iter().map(|((routine, domain, per), roots)| {
        let (count, live) = (count_ops(&r.dag, &roots), routine_pressure(energy, r, domain, &roots).live);
        RoutineCount { routine, per, count, live }
    });
    counts.filter(|c| c.count != OpCount::default()).collect()
}

/// The counts as a Markdown table.
pub fn table(counts: &[RoutineCount]) -> String {
    let mut text = String::from(
        "| routine | per | add | mul | div | functions | select | compare | loads | live |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for RoutineCount { routine, per, count, live } in counts {
        let OpCount { add, mul, div, transcendental, select, compare, loads } = count;
        let _ = writeln!(
            text,
            "| {} | {per} | {add} | {mul} | {div} | {transcendental} | {select} | {compare} | {loads} | {live} |",
            routine.formula()
        );
    }
    text
}
