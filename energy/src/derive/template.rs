//! Residual templates with their partials, and the scalars that these are with respect to.

use crate::dag::{Access, Dag, ExprId, Source};
use crate::model::{Domain, Energy, SpaceId, UnknownId};

/// One scalar per element of an index space: a channel of an unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Component {
    /// The unknown.
    pub unknown: UnknownId,
    /// Its channel.
    pub channel: u16,
}

/// The scalars per element of a space: every channel of every unknown, in order of declaration.
pub fn components(energy: &Energy, space: SpaceId) -> Vec<Component> {
    let unknowns = energy.unknowns.iter().enumerate().filter(|(_, u)| u.space == space);
    unknowns
        .flat_map(|(i, u)| {
            (0..u.channels).map(move |channel| Component { unknown: UnknownId(i as u32), channel })
        })
        .collect()
}

/// The quantities that a residual group stores.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupStores {
    /// Its residuals, times the weight of their loss, for J^T r.
    pub residual: bool,
    /// Its partials that are not constants.
    pub jacobian: bool,
    /// Its products J p.
    pub product: bool,
    /// Its share of the diagonal blocks of J^T J. Not together with `product`, which holds the elements' own share already.
    pub blocks: bool,
}

/// A residual template with its partials.
pub(super) struct Template {
    /// Index among the energy's residuals.
    pub(super) residual: usize,
    pub(super) domain: Domain,
    /// The residual as written.
    pub(super) value: ExprId,
    /// The boundary rule's condition, 1 where it is lifted.
    pub(super) boundary: ExprId,
    /// Partials by unknown access; not 0, unless `rows` are not.
    pub(super) partials: Vec<(Access, ExprId)>,
    /// Rows that J^T J is made of, by the same accesses: the partials, bent under a loss of second order.
    pub(super) rows: Vec<(Access, ExprId)>,
    /// J p: the sum of partial times direction.
    pub(super) jp: ExprId,
    /// Some unknown read is in the domain at a free element.
    pub(super) counts: ExprId,
    /// Its part of E where it counts: the square, or the loss of its block at the block's first residual and 0 at the others.
    pub(super) energy: ExprId,
    /// rho' of its block, if it is under a loss.
    pub(super) weight: Option<ExprId>,
    /// The value times that weight.
    pub(super) weighted_value: ExprId,
    /// Parts that J^T J p is made of.
    pub(super) applied: Applied,
    /// Those of these that its group stores.
    pub(super) stores: GroupStores,
}

/// J as J^T J p applies it: as derived, or read from where it is stored.
pub(super) struct Applied {
    /// In the order of the template's partials.
    pub(super) partials: Vec<(Access, ExprId)>,
    /// rho' where the partials do not hold its root.
    pub(super) weight: Option<ExprId>,
    /// J p times the weight.
    pub(super) jp: ExprId,
    /// True if the elements' own share is left to their stored blocks.
    pub(super) blocks: bool,
}

impl Applied {
    /// J^T's part of one access: `partial` times the weighted J p, without the share of accesses that are `own` where the elements' blocks
    /// are stored. `own` gives the condition under which an access reads the element itself.
    pub(super) fn product(
        &self,
        dag: &mut Dag,
        partial: ExprId,
        own: &mut dyn FnMut(&mut Dag, &Access) -> Option<ExprId>,
    ) -> ExprId {
        if !self.blocks {
            return dag.mul(partial, self.jp);
        }
        let zero = dag.constant(0.0);
        let mut others = Vec::new();
        for (access, partial) in &self.partials {
            let other = match own(dag, access) {
                None => *partial,
                Some(own) => dag.select(own, zero, *partial),
            };
            others.push((access.clone(), other));
        }
        let jp = directional(dag, &others);
        let jp = self.weight.map_or(jp, |w| dag.mul(w, jp));
        dag.mul(partial, jp)
    }
}

impl Template {
    /// `e` times the weight.
    pub(super) fn weigh(&self, dag: &mut Dag, e: ExprId) -> ExprId {
        self.weight.map_or(e, |w| dag.mul(w, e))
    }
}

/// `sum partial * direction`.
pub(super) fn directional(dag: &mut Dag, partials: &[(Access, ExprId)]) -> ExprId {
    let mut terms = Vec::with_capacity(partials.len());
    for (access, partial) in partials {
        let p = direction(dag, access);
        terms.push((1.0, dag.mul(*partial, p)));
    }
    dag.sum(0.0, &terms)
}

/// The direction's read beside an unknown's.
pub(super) fn direction(dag: &mut Dag, access: &Access) -> ExprId {
    let Source::Unknown(u) = access.source else { unreachable!("partials are with respect to unknowns") };
    dag.access(Access { source: Source::Direction(u), ..access.clone() })
}

/// The component that an access reads, if it reads an unknown.
pub(super) fn component_of(access: &Access) -> Option<Component> {
    match access.source {
        Source::Unknown(unknown) => Some(Component { unknown, channel: access.channel }),
        _ => None,
    }
}
