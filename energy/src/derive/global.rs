//! Routines of the globals: what an instance of a domain gives them. Their routine is the sum over all instances.

use super::stencil::{packed, sum_of};
use super::{Component, Template, component_of, components};
use crate::dag::{Access, At, Dag, ExprId};
use crate::model::{Domain, Energy, SpaceId};

/// What every instance of a domain gives the globals.
#[derive(Clone, Debug)]
pub struct GlobalRoutines {
    /// The space of the globals.
    pub space: SpaceId,
    /// Whose instances.
    pub domain: Domain,
    /// (J^T r)_c, one per component of the space.
    pub gradient: Vec<ExprId>,
    /// Its part of the block of J^T J, packed lower triangle.
    pub blocks: Vec<ExprId>,
    /// (J^T J p)_c, one per component of the space.
    pub jtjp: Vec<ExprId>,
}

pub(super) fn global_routines(energy: &Energy, dag: &mut Dag, templates: &[Template]) -> Vec<GlobalRoutines> {
    let mut out: Vec<GlobalRoutines> = Vec::new();
    let spaces = (0..energy.spaces.len() as u32).map(SpaceId);
    for space in spaces.filter(|&s| energy.is_global(s)) {
        let components = components(energy, space);
        let mut domains: Vec<Domain> =
            templates.iter().filter(|t| reads_global(t)).map(|t| t.domain).collect();
        domains.sort_unstable();
        domains.dedup();
        for domain in domains {
            let own: Vec<&Template> =
                templates.iter().filter(|t| t.domain == domain && reads_global(t)).collect();
            out.push(routines_of(dag, space, domain, &components, &own));
        }
    }
    out
}

fn reads_global(t: &Template) -> bool {
    t.partials.iter().any(|(a, _)| a.at == At::Global)
}

fn routines_of(
    dag: &mut Dag,
    space: SpaceId,
    domain: Domain,
    components: &[Component],
    templates: &[&Template],
) -> GlobalRoutines {
    let n = components.len();
    let (mut gradient, mut jtjp) = (vec![Vec::new(); n], vec![Vec::new(); n]);
    let mut blocks = vec![Vec::new(); packed(n, 0)];
    let zero = dag.constant(0.0);
    for t in templates {
        let of_components = |partials: &[(Access, ExprId)]| -> Vec<ExprId> {
            let of = |c: &Component| partials.iter().find(|(a, _)| matches_component(a, c));
            components.iter().map(|c| of(c).map_or(zero, |(_, p)| *p)).collect()
        };
        let (partials, applied) = (of_components(&t.partials), of_components(&t.applied.partials));
        let rows = of_components(&t.rows);
        for c in (0..n).filter(|&c| rows[c] != zero) {
            let (g, j) = (dag.mul(partials[c], t.weighted_value), dag.mul(applied[c], t.applied.jp));
            gradient[c].push(dag.select(t.boundary, g, zero));
            jtjp[c].push(dag.select(t.boundary, j, zero));
            for d in 0..=c {
                let jj = dag.mul(rows[c], rows[d]);
                let jj = t.weigh(dag, jj);
                blocks[packed(c, d)].push(dag.select(t.boundary, jj, zero));
            }
        }
    }
    let mut total =
        |lists: Vec<Vec<ExprId>>| -> Vec<ExprId> { lists.iter().map(|l| sum_of(dag, l)).collect() };
    GlobalRoutines { space, domain, gradient: total(gradient), blocks: total(blocks), jtjp: total(jtjp) }
}

fn matches_component(a: &Access, c: &Component) -> bool {
    a.at == At::Global && component_of(a) == Some(*c)
}
