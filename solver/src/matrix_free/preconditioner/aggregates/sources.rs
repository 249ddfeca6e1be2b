//! Sources of the entries of A between elements of a space, but for sizes.

use crate::problem::aggregates::{self, Candidate};
use serde::{Deserialize, Serialize};
use sumsq_energy::derive::{Couplings, PairCoupling};
use sumsq_energy::model::{Energy, GraphId, SpaceId};

/// Everything that the hierarchy of a space follows from, but for sizes and numbers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sources {
    /// Per component: whether its unknown is spread.
    pub spread: Vec<bool>,
    /// Near-null candidates.
    pub candidates: Vec<Candidate>,
    /// Elements that one row of J reads at most: a bound of the largest eigenvalue of D^-1 A on level 0, D the blocks of A by elements.
    pub elements: usize,
    /// Elements are strongly coupled from here on.
    pub threshold: f64,
    /// The entries that stencils make: channel by channel of the space's couplings.
    pub stencil: Vec<Entry>,
    /// The entries that hyperedges make.
    pub pairs: Vec<Pairs>,
}

/// An entry A(e, e + offset)\[row, column\].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The way from the row's element to the column's.
    pub offset: Vec<i32>,
    /// Component of the row.
    pub row: usize,
    /// Component of the column.
    pub column: usize,
}

/// Entries of A that the hyperedges of a graph make.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pairs {
    /// The graph.
    pub graph: GraphId,
    /// Channels of its couplings, those of other spaces included.
    pub channels: usize,
    /// The entries of this space, with their channels.
    pub entries: Vec<(usize, PairCoupling)>,
}

impl Sources {
    /// Those of a space; `None` if no unknown of it is spread.
    pub fn of(energy: &Energy, couplings: &Couplings, space: SpaceId) -> Option<Sources> {
        if !aggregates::served(energy).contains(&space) {
            return None;
        }
        let stencil = couplings.spaces.get(&space).into_iter().flatten();
        let stencil =
            stencil.map(|c| Entry { offset: c.offset.to_vec(), row: c.row, column: c.column }).collect();
        let pairs = couplings.graphs.iter().map(|(&g, all)| {
            let graph = &energy.graphs[g.index()];
            let own = all.iter().cloned().enumerate().filter(|(_, c)| graph.space_of(c.slots.0) == space);
            Pairs { graph: g, channels: all.len(), entries: own.collect() }
        });
        Some(Sources {
            spread: aggregates::spread_components(energy, space),
            candidates: aggregates::candidates(energy, space),
            elements: couplings.elements,
            threshold: aggregates::threshold(energy, space),
            stencil,
            pairs: pairs.filter(|own| !own.entries.is_empty()).collect(),
        })
    }

    /// Scalars of an element.
    pub fn components(&self) -> usize {
        self.spread.len()
    }
}
