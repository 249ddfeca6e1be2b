//! The chain rule through computed arrays: each keeps its partials with respect to the unknowns that it reads beside its
//! values (DeVito et al., "Opt", 2017, section 4.3), and what reads the array reads those.

use crate::budgets::Budget;
use crate::builder::composed;
use crate::dag::{Access, At, Dag, ExprId, Source};
use crate::model::{ComputedId, Energy};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// The partials of all computed arrays.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// Per computed array: what channel k of its [`Source::Partial`] holds, written at offset 0. Like its values they are 0
    /// outside the domain.
    pub stored: Vec<Vec<ExprId>>,
    /// Per computed array and channel: the unknowns it reads, relative to the element.
    slopes: Vec<Vec<Vec<(Access, Slope)>>>,
}

/// One partial of a computed array.
#[derive(Clone, Debug)]
enum Slope {
    /// Stored in this channel.
    Stored(u16),
    /// The same number at every element: constants and params only.
    Uniform(ExprId),
}

impl Chain {
    /// Differentiates the computed arrays of an energy, each after those that it reads.
    pub fn new(energy: &Energy, dag: &mut Dag) -> Chain {
        let mut chain = Chain::default();
        for computed in &energy.computed {
            let mut stored: Vec<ExprId> = Vec::new();
            let mut slopes = Vec::new();
            for &value in &computed.values {
                let partials = chain.partials(energy, dag, value);
                let slope = |(access, partial): (Access, ExprId)| {
                    if dag.is_uniform(partial) {
                        return (access, Slope::Uniform(partial));
                    }
                    let known = stored.iter().position(|&s| s == partial);
                    let channel = known.unwrap_or_else(|| {
                        stored.push(partial);
                        stored.len() - 1
                    });
                    (access, Slope::Stored(narrow(dag, channel)))
                };
                slopes.push(partials.into_iter().map(slope).collect());
            }
            chain.stored.push(stored);
            chain.slopes.push(slopes);
        }
        chain
    }

    /// The non-zero partials of an expression by unknown access, direct and through computed arrays.
    pub fn partials(&self, energy: &Energy, dag: &mut Dag, value: ExprId) -> Vec<(Access, ExprId)> {
        let mut terms: IndexMap<Access, Vec<(f64, ExprId)>, FxBuildHasher> = IndexMap::default();
        for access in dag.accesses(value) {
            let computed = match access.source {
                Source::Unknown(_) => None,
                Source::Computed(c) => Some(c),
                _ => continue,
            };
            let outer = dag.derivative(value, &access);
            if dag.is_constant(outer, 0.0) {
                continue;
            }
            let Some(c) = computed else {
                terms.entry(access).or_default().push((1.0, outer));
                continue;
            };
            for (inner, slope) in &self.slopes[c.index()][usize::from(access.channel)] {
                let Some(read) = composed(&energy.graphs, inner, &access.at) else { continue };
                let inner = read_slope(energy, dag, c, slope, &access.at);
                terms.entry(read).or_default().push((1.0, dag.mul(outer, inner)));
            }
        }
        let sums = terms.into_iter().map(|(access, terms)| (access, dag.sum(0.0, &terms)));
        let sums: Vec<_> = sums.collect();
        sums.into_iter().filter(|(_, d)| !dag.is_constant(*d, 0.0)).collect()
    }
}

/// The number of what is stored; where there are more than can be told apart, the budget of nodes counts as spent.
pub(super) fn narrow(dag: &mut Dag, channel: usize) -> u16 {
    u16::try_from(channel).unwrap_or_else(|_| {
        dag.exhaust(Budget::Nodes);
        0
    })
}

/// A partial of computed array `c` where it is read; 0 outside the domain, where the array is 0 whatever the unknowns.
fn read_slope(energy: &Energy, dag: &mut Dag, c: ComputedId, slope: &Slope, at: &At) -> ExprId {
    let value = match slope {
        Slope::Stored(channel) => {
            return dag.access(Access { source: Source::Partial(c), channel: *channel, at: at.clone() });
        }
        Slope::Uniform(value) => *value,
    };
    let inside = dag.inside(&energy.graphs, at);
    let zero = dag.constant(0.0);
    dag.select(inside, value, zero)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_told_apart_up_to_its_limit() {
        let mut dag = Dag::default();
        assert_eq!((narrow(&mut dag, 65535), dag.overrun()), (65535, None));
        narrow(&mut dag, 65536);
        assert_eq!(dag.overrun(), Some(Budget::Nodes));
    }
}
