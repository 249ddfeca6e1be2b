//! Derives couplings: the entries of J^T J between different elements of an index space that its stencils make.
//!
//! The block stencil of a space is {o: A(e, e + o)\[c, d\]}, with A = J^T J. [`Kind::Blocks`] has its part at o = 0; this file has
//! the rest, as one routine per space. A is symmetric, so half of the offsets are enough: those that lead to elements that are
//! stored behind e. Pairs of components whose entry is 0 everywhere are left out.
//!
//! Graphs couple elements whose distance no routine can know: `pairs.rs` has these.

use super::simplify::simplify;
use super::within::within;
use super::{
    Chain, Coupling, Couplings, Kind, Passes, Routine, Routines, Site, components, leads_on, templates,
};
use crate::dag::{Access, At, ExprId, Offset};
use crate::error::EnergyError;
use crate::model::{Domain, Energy, SpaceId};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use std::collections::BTreeSet;

impl Routines {
    /// Derives the couplings, of every residual as it was differentiated: what groups store does not count.
    ///
    /// # Errors
    /// A budget of the energy that is spent.
    pub fn add_couplings(&mut self, energy: &Energy, passes: Passes) -> Result<(), EnergyError> {
        let dag = &mut self.dag;
        let chain = Chain::new(energy, dag);
        let templates = templates(energy, dag, &chain)?;
        let mut couplings =
            Couplings { graphs: std::mem::take(&mut self.couplings.graphs), ..Couplings::default() };
        for t in &templates {
            let places: BTreeSet<_> = t.rows.iter().map(|(access, _)| place(energy, access)).collect();
            couplings.elements = couplings.elements.max(places.len());
        }
        for space in (0..energy.spaces.len() as u32).map(SpaceId) {
            let (site, components) = (Site::Element(space), components(energy, space));
            if components.is_empty() || energy.is_global(space) {
                continue;
            }
            let mut terms: IndexMap<Coupling, Vec<(f64, ExprId)>, FxBuildHasher> = IndexMap::default();
            for t in templates.iter().filter(|t| t.domain == Domain::Space(space)) {
                let uses = site.uses(energy, dag, t, &components);
                for (u, v) in uses.iter().flat_map(|u| uses.iter().map(move |v| (u, v))) {
                    let offset: Offset = v.offset.iter().zip(&u.offset).map(|(v, u)| v - u).collect();
                    if !leads_on(&offset) {
                        continue;
                    }
                    within(energy, dag, || format!("couplings at {}", site.name(energy)), Some(t.residual))?;
                    let product = dag.mul(u.row, v.row);
                    let product = t.weigh(dag, product);
                    let term = site.gathered(dag, t.boundary, product, u);
                    let coupling = Coupling { offset, row: u.component, column: v.component };
                    terms.entry(coupling).or_default().push((1.0, term));
                }
            }
            let (all, sums): (Vec<Coupling>, Vec<Vec<_>>) = terms.into_iter().unzip();
            let sums: Vec<ExprId> = sums.iter().map(|terms| dag.sum(0.0, terms)).collect();
            let (roots, _) = simplify(dag, &sums, passes);
            within(energy, dag, || format!("couplings at {}", site.name(energy)), None)?;
            let kept = all.into_iter().zip(roots).filter(|(_, root)| !dag.is_constant(*root, 0.0));
            let (list, roots): (Vec<Coupling>, Vec<ExprId>) = kept.unzip();
            if !list.is_empty() {
                couplings.spaces.insert(space, list);
                self.table.push(Routine { kind: Kind::Couplings, site, roots });
            }
        }
        self.couplings = couplings;
        Ok(())
    }
}

/// The element that a row reads by an access.
fn place(energy: &Energy, access: &Access) -> (SpaceId, Option<At>) {
    let at = (access.at != At::Global).then(|| access.at.clone());
    (energy.space_of(access.source), at)
}
