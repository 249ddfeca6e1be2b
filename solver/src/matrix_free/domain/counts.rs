//! What the routines of an energy cost: operations per element or hyperedge, the measure that no machine's noise touches.

use std::fmt::Write;
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{OpCount, Routines, count_ops};
use sumsq_energy::emit::routine_pressure;
use sumsq_energy::model::{Domain, Energy};

/// The operations of one routine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutineCount {
    /// What it computes: `J^T J p`.
    pub routine: &'static str,
    /// For what, once: an element (`{W,H}`), a vertex of a hyperedge (`G.v0`), a hyperedge (`G`), a computed array (`B {W,H}`).
    pub per: String,
    /// Operations, parts that several values of the routine share counted once.
    pub count: OpCount,
    /// Values that live at once, at most, as the routine is emitted.
    pub live: u32,
}

/// What one PCG iteration spends in J^T J p.
pub const JTJP: &str = "J^T J p";

/// Counts every routine as it is emitted. What is stored per linearisation is a routine of its own; rows without operations
/// are left out.
pub fn operation_counts(energy: &Energy, r: &Routines) -> Vec<RoutineCount> {
    let mut out = Vec::new();
    let mut row = |routine: &'static str, domain: Domain, per: &str, roots: &[ExprId]| {
        let count = count_ops(&r.dag, roots);
        if count != OpCount::default() {
            let live = routine_pressure(energy, r, domain, roots).live;
            out.push(RoutineCount { routine, per: per.to_string(), count, live });
        }
    };
    let mut three = |domain, per: &str, gradient: &[ExprId], blocks: &[ExprId], jtjp: &[ExprId]| {
        row("J^T r", domain, per, gradient);
        row("blocks of J^T J", domain, per, blocks);
        row(JTJP, domain, per, jtjp);
    };
    for s in &r.spaces {
        three(Domain::Space(s.space), &energy.space_name(s.space), &s.gradient, &s.blocks, &s.jtjp);
    }
    for g in &r.graphs {
        let graph = &energy.graphs[g.graph.index()];
        for s in &g.slots {
            three(Domain::Graph(g.graph), &graph.slot_name(s.slot), &s.gradient, &s.blocks, &s.jtjp);
        }
    }
    for g in &r.globals {
        let per = format!("{}, to globals", energy.domain_name(g.domain));
        three(g.domain, &per, &g.gradient, &g.blocks, &g.jtjp);
    }
    for (domain, values) in &r.products {
        row("J p", *domain, &energy.domain_name(*domain), values);
    }
    for (domain, values) in &r.stored {
        row("stored for J^T J p", *domain, &energy.domain_name(*domain), values);
    }
    for s in &r.spaces {
        row("stored blocks of J^T J", Domain::Space(s.space), &energy.space_name(s.space), &s.stored_blocks);
    }
    for g in &r.graphs {
        let graph = &energy.graphs[g.graph.index()];
        for s in &g.slots {
            let per = graph.slot_name(s.slot);
            row("stored blocks of J^T J", Domain::Graph(g.graph), &per, &s.stored_blocks);
        }
    }
    for (k, c) in energy.computed.iter().enumerate() {
        let roots = [&r.computed[k][..], &r.partials[k]].concat();
        let per = format!("{} {}", c.name, energy.space_name(c.space));
        row("values and partials", Domain::Space(c.space), &per, &roots);
    }
    let mut domains: Vec<Domain> = r.costs.iter().map(|c| energy.residuals[c.residual].domain).collect();
    domains.sort_unstable();
    domains.dedup();
    for domain in domains {
        let own = || r.costs.iter().filter(|c| energy.residuals[c.residual].domain == domain);
        let per = energy.domain_name(domain);
        row("energy", domain, &per, &own().map(|c| c.cost).collect::<Vec<_>>());
        row("model", domain, &per, &own().map(|c| c.model).collect::<Vec<_>>());
    }
    out
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
            "| {routine} | {per} | {add} | {mul} | {div} | {transcendental} | {select} | {compare} | {loads} | {live} |"
        );
    }
    text
}
