//! Derived quantities that are stored; others are computed wherever they are needed.
//!
//! Nothing stored is Opt's in-place method. A residual group may store its partials (once per linearisation), its products J p (once
//! per direction: the two passes of J^T (J p)), its share of the diagonal blocks of J^T J, so that only what couples elements
//! is computed in place, or its residuals (for J^T r). Results differ by rounding alone; what is fastest depends on how costly the
//! partials are against the memory they take (DeVito et al., "Opt", 2017, section 7, figure 14).

use super::chain::narrow;
use super::template::{GroupStores, Template};
use super::{Kind, Routine, Site, robust};
use crate::dag::{Access, At, Dag, ExprId, Source};
use crate::model::{Domain, Energy};

/// The channel of what is stored over `domain` that holds `value`, added if it is new. `kind` is [`Kind::Residual`],
/// [`Kind::Stored`] or [`Kind::Product`].
pub(super) fn channel(
    dag: &mut Dag,
    table: &mut Vec<Routine>,
    kind: Kind,
    domain: Domain,
    value: ExprId,
) -> u16 {
    let site = Site::Instance(domain);
    let at = table.iter().position(|r| (r.kind, r.site) == (kind, site)).unwrap_or_else(|| {
        table.push(Routine { kind, site, roots: Vec::new() });
        table.len() - 1
    });
    let roots = &mut table[at].roots;
    let channel = roots.iter().position(|&v| v == value).unwrap_or_else(|| {
        roots.push(value);
        roots.len() - 1
    });
    narrow(dag, channel)
}

/// The routines of what the groups of `templates` store, `groups` by their number: first per linearisation, then per direction. Puts its
/// reads into what their J^T r and J^T J p are made of. A group that is not in `groups` stores nothing.
pub(super) fn materialize(
    energy: &Energy,
    dag: &mut Dag,
    templates: &mut [Template],
    groups: &[GroupStores],
) -> Vec<Routine> {
    let mut table = Vec::new();
    for t in templates {
        let group = energy.residuals[t.residual].group;
        let choice = groups.get(group.index()).copied().unwrap_or_default();
        if choice.residual {
            let zero = dag.constant(0.0);
            let value = dag.select(t.boundary, t.weighted_value, zero);
            let channel = channel(dag, &mut table, Kind::Residual, t.domain, value);
            t.weighted_value = read(energy, dag, Source::Residual(t.domain), t.domain, channel);
        }
        if choice.jacobian {
            store_partials(energy, dag, t, &mut table);
        }
        if choice.product {
            let zero = dag.constant(0.0);
            let value = dag.select(t.boundary, t.applied.jp, zero);
            let channel = channel(dag, &mut table, Kind::Product, t.domain, value);
            t.applied.jp = read(energy, dag, Source::Product(t.domain), t.domain, channel);
        }
        t.applied.blocks = choice.blocks;
        t.stores = choice;
    }
    table.sort_by_key(|r| r.kind);
    table
}

/// Replaces the partials of a template by what is stored: sqrt(rho') J under a loss.
fn store_partials(energy: &Energy, dag: &mut Dag, t: &mut Template, table: &mut Vec<Routine>) {
    let root = t.weight.map(|w| robust::root(dag, w));
    for (_, partial) in &mut t.applied.partials {
        let value = root.map_or(*partial, |root| dag.mul(root, *partial));
        if dag.is_uniform(value) {
            continue;
        }
        let channel = channel(dag, table, Kind::Stored, t.domain, value);
        *partial = read(energy, dag, Source::Hoisted(t.domain), t.domain, channel);
    }
    t.applied.jp = super::template::directional(dag, &t.applied.partials);
    t.applied.weight = None;
}

/// Returns what is stored for the instance itself.
fn read(energy: &Energy, dag: &mut Dag, source: Source, domain: Domain, channel: u16) -> ExprId {
    let at = match domain {
        Domain::Space(s) if energy.is_global(s) => At::Global,
        Domain::Space(s) => At::Offset(energy.spaces[s.index()].iter().map(|_| 0).collect()),
        Domain::Graph(g) => At::Edge(g),
    };
    dag.access(Access { source, channel, at })
}
