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
    /// (J^T J p)_c, one per component.
    pub jtjp: Vec<ExprId>,
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
    let mut jtjp = vec![Vec::new(); n];
    for t in templates.iter().filter(|t| t.domain == Domain::Space(space)) {
        let uses: Vec<(usize, &Offset, ExprId)> = t
            .partials
            .iter()
            .filter_map(|(access, partial)| {
                let At::Offset(o) = &access.at else { return None };
                let c = component_of(access)?;
                Some((components.iter().position(|&k| k == c)?, o, *partial))
            })
            .collect();
        for &(c, o, partial) in &uses {
            let (jr, jjp) = (dag.mul(partial, t.weighted_value), dag.mul(partial, t.weighted_jp));
            gradient[c].push(gathered(dag, t.boundary, jr, o));
            jtjp[c].push(gathered(dag, t.boundary, jjp, o));
            for &(d, same, other) in &uses {
                if d <= c && same == o {
                    let jj = dag.mul(partial, other);
                    let jj = t.weigh(dag, jj);
                    blocks[packed(c, d)].push(gathered(dag, t.boundary, jj, o));
                }
            }
        }
    }
    let mut total =
        |lists: Vec<Vec<ExprId>>| -> Vec<ExprId> { lists.iter().map(|l| sum_of(dag, l)).collect() };
    let (gradient, blocks, jtjp) = (total(gradient), total(blocks), total(jtjp));
    let excluded = excluded(energy, dag, space);
    SpaceRoutines { space, components, excluded, gradient, blocks, jtjp }
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
