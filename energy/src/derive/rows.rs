//! Routines of the rows of J^T J: what the templates give an element's unknowns at one site.

use super::template::Template;
use super::within::within;
use super::{Kind, Routine, Site, components};
use crate::dag::{Dag, ExprId};
use crate::error::EnergyError;
use crate::model::{Energy, SpaceId};

/// Returns where row `c`, column `d <= c` of a packed lower triangle lies.
fn packed(c: usize, d: usize) -> usize {
    c * (c + 1) / 2 + d
}

/// Gradient, blocks, J^T J p, stored blocks and the diagonal to first order at a site, and which elements are excluded.
///
/// # Errors
/// A budget that is spent.
pub(super) fn rows_at(
    energy: &Energy,
    dag: &mut Dag,
    site: Site,
    templates: &[Template],
) -> Result<Vec<Routine>, EnergyError> {
    let space = site.row_space(energy).expect("a site of rows");
    let components = components(energy, space);
    let n = components.len();
    let (mut gradient, mut jtjp) = (vec![Vec::new(); n], vec![Vec::new(); n]);
    let (mut blocks, mut stored) = (vec![Vec::new(); packed(n, 0)], Vec::new());
    let mut first_order = if energy.bends() { vec![Vec::new(); n] } else { Vec::new() };
    for t in templates.iter().filter(|t| site.is_read_by(t)) {
        let stores = t.applied.blocks && site.stores_blocks();
        if stores {
            stored.resize(blocks.len(), Vec::new());
        }
        for u in &site.uses(energy, dag, t, &components) {
            within(energy, dag, || format!("J^T J at {}", site.name(energy)), Some(t.residual))?;
            gradient[u.component].push(if t.stores.residual {
                site.gathered_stored(dag, t.boundary, [u.partial, t.weighted_value], u)
            } else {
                let jr = dag.mul(u.partial, t.weighted_value);
                site.gathered(dag, t.boundary, jr, u)
            });
            jtjp[u.component].push(if t.stores.product {
                site.gathered_stored(dag, t.boundary, [u.applied, t.applied.jp], u)
            } else {
                let jjp = t.applied.product(dag, u.applied, &mut |dag, a| site.is_own(energy, dag, u, a));
                site.gathered(dag, t.boundary, jjp, u)
            });
            if let Some(diagonal) = first_order.get_mut(u.component) {
                let jj = dag.mul(u.partial, u.own);
                let jj = t.weigh(dag, jj);
                diagonal.push(site.gathered(dag, t.boundary, jj, u));
            }
            for &(d, other) in &u.beside {
                let jj = dag.mul(u.row, other);
                let jj = t.weigh(dag, jj);
                let jj = site.gathered(dag, t.boundary, jj, u);
                blocks[packed(u.component, d)].push(jj);
                if stores {
                    stored[packed(u.component, d)].push(jj);
                }
            }
        }
    }
    let lists = [
        (Kind::Gradient, gradient),
        (Kind::Blocks, blocks),
        (Kind::JtJp, jtjp),
        (Kind::StoredBlocks, stored),
        (Kind::FirstOrder, first_order),
    ];
    let mut routines: Vec<Routine> = lists
        .into_iter()
        .map(|(kind, lists)| Routine { kind, site, roots: lists.iter().map(|l| sum_of(dag, l)).collect() })
        .collect();
    if let Site::Element(space) = site {
        let roots = excluded(energy, dag, space).into_iter().collect();
        routines.push(Routine { kind: Kind::Excluded, site, roots });
    }
    within(energy, dag, || format!("J^T J at {}", site.name(energy)), None)?;
    Ok(routines)
}

fn sum_of(dag: &mut Dag, terms: &[ExprId]) -> ExprId {
    let terms: Vec<(f64, ExprId)> = terms.iter().map(|&t| (1.0, t)).collect();
    dag.sum(0.0, &terms)
}

/// The or of the space's Exclude expressions.
fn excluded(energy: &Energy, dag: &mut Dag, space: SpaceId) -> Option<ExprId> {
    let all: Vec<ExprId> = energy.excludes.iter().filter(|(s, _)| *s == space).map(|&(_, e)| e).collect();
    (!all.is_empty()).then(|| dag.or(&all))
}
