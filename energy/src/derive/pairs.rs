//! Derives what hyperedges add to the entries of J^T J between different elements of an index space: a block for every pair of slots
//! that point into the same space.
//!
//! The routine of a graph stands at its hyperedges. Where two slots are the same element, the entry is not one between different
//! elements: there [`Kind::Blocks`] has it already.

use super::simplify::simplify;
use super::within::within;
use super::{Chain, Kind, PairCoupling, Passes, Routine, Routines, Site, components, templates};
use crate::dag::ExprId;
use crate::error::EnergyError;
use crate::model::{Domain, Energy, GraphId};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

impl Routines {
    /// Derives the couplings that hyperedges make, of every residual as it was differentiated.
    ///
    /// # Errors
    /// A budget of the energy that is spent.
    pub fn add_pair_couplings(&mut self, energy: &Energy, passes: Passes) -> Result<(), EnergyError> {
        let dag = &mut self.dag;
        let chain = Chain::new(energy, dag);
        let templates = templates(energy, dag, &chain)?;
        for (g, graph) in (0..).map(GraphId).zip(&energy.graphs) {
            let mut terms: IndexMap<PairCoupling, Vec<(f64, ExprId)>, FxBuildHasher> = IndexMap::default();
            let pairs = graph.slots().flat_map(|s| (s + 1..graph.slots().end).map(move |t| (s, t)));
            let pairs: Vec<(u16, u16)> =
                pairs.filter(|&(s, t)| graph.space_of(s) == graph.space_of(t)).collect();
            for t in templates.iter().filter(|t| t.domain == Domain::Graph(g)) {
                for &(first, second) in &pairs {
                    let components = components(energy, graph.space_of(first));
                    let [rows, columns] =
                        [first, second].map(|slot| Site::Slot(g, slot).uses(energy, dag, t, &components));
                    for (u, v) in rows.iter().flat_map(|u| columns.iter().map(move |v| (u, v))) {
                        within(energy, dag, || format!("couplings at {}", graph.name), Some(t.residual))?;
                        let product = dag.mul(u.row, v.row);
                        let product = t.weigh(dag, product);
                        let coupling =
                            PairCoupling { slots: (first, second), row: u.component, column: v.component };
                        terms.entry(coupling).or_default().push((1.0, product));
                    }
                }
            }
            let (all, sums): (Vec<PairCoupling>, Vec<Vec<_>>) = terms.into_iter().unzip();
            let sums: Vec<ExprId> = sums.iter().map(|terms| dag.sum(0.0, terms)).collect();
            let (roots, _) = simplify(dag, &sums, passes);
            within(energy, dag, || format!("couplings at {}", graph.name), None)?;
            let kept = all.into_iter().zip(roots).filter(|(_, root)| !dag.is_constant(*root, 0.0));
            let (list, roots): (Vec<PairCoupling>, Vec<ExprId>) = kept.unzip();
            if !list.is_empty() {
                self.couplings.graphs.insert(g, list);
                self.table.push(Routine {
                    kind: Kind::Couplings,
                    site: Site::Instance(Domain::Graph(g)),
                    roots,
                });
            }
        }
        Ok(())
    }
}
