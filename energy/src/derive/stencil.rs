//! Routines over an index space: what the stencil templates give each element.
//!
//! Element e is read at offset o by the instance at i = e - o. So each use of the space's unknowns contributes the template
//! shifted by -o, guarded by "i lies in the domain and the boundary rule holds at i".

use super::{Component, Template, component_of, components};
use crate::dag::{At, Dag, ExprId, Offset};
use crate::model::{Domain, Energy, SpaceId};

/// The stencil routines of one index space, each list in the order of `components`.
#[derive(Clone, Debug)]
pub struct SpaceRoutines {
    /// The space.
    pub space: SpaceId,
    /// Its scalars per element.
    pub components: Vec<Component>,
    /// Whether the element is excluded, if the energy excludes any of this space.
    pub excluded: Option<ExprId>,
    /// (J^T r)_c, one per component.
    pub gradient: Vec<ExprId>,
    /// Diagonal block of J^T J, packed lower triangle.
    pub blocks: Vec<ExprId>,
    /// (J^T J p)_c, one per component, without what the stored blocks give.
    pub jtjp: Vec<ExprId>,
    /// The share of the groups whose diagonal blocks of J^T J are stored, packed lower triangle; empty if there are none.
    pub stored_blocks: Vec<ExprId>,
}

/// Where a template reads a component of the space.
struct Use<'a> {
    component: usize,
    offset: &'a Offset,
    /// Of the template, by this read.
    partial: ExprId,
    /// The entries of its rows in J^T J, and in J^T J p.
    row: ExprId,
    applied: ExprId,
}

/// Where row `c`, column `d <= c` of a packed lower triangle lies.
pub(super) fn packed(c: usize, d: usize) -> usize {
    c * (c + 1) / 2 + d
}

pub(super) fn space_routines(
    energy: &Energy,
    dag: &mut Dag,
    space: SpaceId,
    templates: &[Template],
) -> SpaceRoutines {
    let components = components(energy, space);
    let n = components.len();
    let mut gradient = vec![Vec::new(); n];
    let mut blocks = vec![Vec::new(); packed(n, 0)];
    let (mut jtjp, mut stored) = (vec![Vec::new(); n], Vec::new());
    for t in templates.iter().filter(|t| t.domain == Domain::Space(space)) {
        let uses: Vec<Use> = (0..t.partials.len())
            .filter_map(|i| {
                let (access, partial) = &t.partials[i];
                let At::Offset(offset) = &access.at else { return None };
                let component = component_of(access)?;
                let component = components.iter().position(|&k| k == component)?;
                let (row, applied) = (t.rows[i].1, t.applied.partials[i].1);
                Some(Use { component, offset, partial: *partial, row, applied })
            })
            .collect();
        if t.applied.blocks {
            stored.resize(blocks.len(), Vec::new());
        }
        for &Use { component: c, offset: o, partial, row, applied } in &uses {
            let jr = dag.mul(partial, t.weighted_value);
            let jjp = t.applied.product(dag, applied, &mut |dag, a| {
                let here =
                    a.at == At::Offset(o.clone()) && component_of(a).is_some_and(|c| components.contains(&c));
                here.then(|| dag.constant(1.0))
            });
            gradient[c].push(gathered(dag, t.boundary, jr, o));
            jtjp[c].push(gathered(dag, t.boundary, jjp, o));
            for &Use { component: d, offset: same, row: other, .. } in &uses {
                if d <= c && same == o {
                    let jj = dag.mul(row, other);
                    let jj = t.weigh(dag, jj);
                    let jj = gathered(dag, t.boundary, jj, o);
                    blocks[packed(c, d)].push(jj);
                    if t.applied.blocks {
                        stored[packed(c, d)].push(jj);
                    }
                }
            }
        }
    }
    let mut total =
        |lists: Vec<Vec<ExprId>>| -> Vec<ExprId> { lists.iter().map(|l| sum_of(dag, l)).collect() };
    let (gradient, blocks, jtjp, stored_blocks) =
        (total(gradient), total(blocks), total(jtjp), total(stored));
    let excluded = excluded(energy, dag, space);
    SpaceRoutines { space, components, excluded, gradient, blocks, jtjp, stored_blocks }
}

/// What the instance at e - o gives element e.
fn gathered(dag: &mut Dag, boundary: ExprId, value: ExprId, o: &Offset) -> ExprId {
    let back: Offset = o.iter().map(|&v| -v).collect();
    let shifted = dag.shift_all(&[boundary, value], &back);
    let exists = dag.in_bounds(&back, &back);
    let guard = dag.and(&[exists, shifted[0]]);
    let zero = dag.constant(0.0);
    dag.select(guard, shifted[1], zero)
}

pub(super) fn sum_of(dag: &mut Dag, terms: &[ExprId]) -> ExprId {
    let terms: Vec<(f64, ExprId)> = terms.iter().map(|&t| (1.0, t)).collect();
    dag.sum(0.0, &terms)
}

/// The or of the space's Exclude expressions.
fn excluded(energy: &Energy, dag: &mut Dag, space: SpaceId) -> Option<ExprId> {
    let all: Vec<ExprId> = energy.excludes.iter().filter(|(s, _)| *s == space).map(|&(_, e)| e).collect();
    (!all.is_empty()).then(|| dag.or(&all))
}
