//! Facts about aggregation that follow from an energy and from which of its elements are strongly coupled: both paths have the
//! same.
//!
//! An unknown is *local* if no residual reads it at two elements (angles, rotations, weights), else *spread*. Near-null vectors
//! are what the energy hardly resists: see [`Candidate`].

use crate::problem::grids::{self, reads_of};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use sumsq_energy::dag::{Access, Source};
use sumsq_energy::emit::component_count;
use sumsq_energy::model::{Energy, NearNull, SpaceId, UnknownId};

/// Scalars of an element at most: the finest level is made of blocks of all of them.
pub const MOST_COMPONENTS: usize = 16;

/// Scalars of the coarsest level at most.
pub const COARSEST: usize = 300;

/// Levels at most, the finest included.
pub const LEVELS: usize = 12;

/// Steps of the power method for the largest eigenvalue of D^-1 A.
pub const POWER_STEPS: usize = 12;

/// The factor on what it finds, which is never more than the eigenvalue.
pub const SAFETY: f64 = 1.05;

/// A candidate's share that is left of it within an aggregate, relative to what it has there, below which it depends on those before it.
pub const DEPENDENT: f64 = 1e-6;

/// Share of an aggregate's diagonal below which what P^T A P has there is the rounding of a sum that is 0, in float64.
pub const NOISE: f64 = 1e-12;

/// Threshold of strength where elements are strongly coupled if they are coupled at all. Strength of two elements is |A_ij| in terms of
/// sqrt(m_i m_j), Frobenius norms of blocks, with m_i the largest coupling of element i. (With |A_ii| in place of m_i, data terms that leave
/// a smooth displacement free, such as one of reflectance against shading, make all couplings weak.)
pub const COUPLED: f64 = 1e-10;

/// Threshold of strength on grids.
const GRID_THRESHOLD: f64 = 0.08;

/// No aggregate.
pub const NONE: u32 = u32::MAX;

/// A vector that the energy hardly resists, before its local components are completed: by these the energy is minimised element by element
/// with the others held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Candidate {
    /// 1 in a component.
    Constant(usize),
    /// The turn of an unknown's values about their mean, in the plane of two of its components: -v\[b\] in a, v\[a\] in b.
    Turn(usize, usize),
    /// One that the energy gives: from a component on, so many channels of the given ones of its space from `channel` on.
    Given {
        /// The first component.
        component: usize,
        /// Its number of components.
        count: usize,
        /// The first channel.
        channel: usize,
    },
}

/// The given displacements of the unknowns of a space, in order of declaration, with the first component of each.
pub fn given(energy: &Energy, space: SpaceId) -> Vec<(usize, &NearNull)> {
    let first = |of: UnknownId| {
        let before = energy.unknowns[..of.index()].iter().filter(|u| u.space == space);
        before.map(|u| usize::from(u.channels)).sum::<usize>()
    };
    let own = energy.near_null.iter().filter(|n| energy.unknowns[n.unknown.index()].space == space);
    own.map(|n| (first(n.unknown), n)).collect()
}

/// The spaces that have a hierarchy: elements of the others that are [`spread`] have too many unknowns.
pub fn served(energy: &Energy) -> Vec<SpaceId> {
    let mut all = spread(energy);
    all.retain(|&s| component_count(energy, s) <= MOST_COMPONENTS);
    all
}

/// The spaces with a spread unknown.
pub fn spread(energy: &Energy) -> Vec<SpaceId> {
    let spaces = (0..energy.spaces.len() as u32).map(SpaceId);
    let spread = |&s: &SpaceId| !energy.is_global(s) && spread_components(energy, s).contains(&true);
    spaces.filter(spread).collect()
}

/// Per component of a space, unknowns in order of declaration: whether its unknown is spread.
pub fn spread_components(energy: &Energy, space: SpaceId) -> Vec<bool> {
    let unknowns = (0..energy.unknowns.len() as u32).map(UnknownId);
    let own = unknowns.filter(|u| energy.unknowns[u.index()].space == space);
    own.flat_map(|u| vec![is_spread(energy, u); usize::from(energy.unknowns[u.index()].channels)]).collect()
}

/// Tells whether a residual, or a block under a loss of second order, reads an unknown at two elements.
fn is_spread(energy: &Energy, unknown: UnknownId) -> bool {
    (0..energy.residuals.len()).any(|n| {
        let reads = reads_of(energy, n).into_iter().filter(|a| a.source == Source::Unknown(unknown));
        reads.map(|a| &a.at).collect::<BTreeSet<_>>().len() > 1
    })
}

/// Tells whether an unknown can turn into something else: a residual, or a block under a loss of second order, reads one channel of it at an
/// element, and at another element another component of its space. Where none does, elements are coupled channel by channel (smoothness of
/// colours, of a flow): constants are all that such an energy hardly resists.
fn turns(energy: &Energy, unknown: UnknownId) -> bool {
    let space = energy.unknowns[unknown.index()].space;
    (0..energy.residuals.len()).any(|n| {
        let reads = reads_of(energy, n);
        let of_space = reads.iter().filter(|a| energy.space_of(a.source) == space);
        let component = |a: &Access| (a.source, a.channel);
        of_space
            .clone()
            .filter(|a| a.source == Source::Unknown(unknown))
            .any(|a| of_space.clone().any(|b| a.at != b.at && component(a) != component(b)))
    })
}

/// The candidates of a space: a constant per spread component, the turns of spread unknowns of two or three channels that [`turns`] tells of,
/// those that are given.
pub fn candidates(energy: &Energy, space: SpaceId) -> Vec<Candidate> {
    let spread = spread_components(energy, space);
    let constants = (0..spread.len()).filter(|&c| spread[c]).map(Candidate::Constant);
    let mut all: Vec<Candidate> = constants.collect();
    let mut first = 0;
    for id in (0..energy.unknowns.len() as u32).map(UnknownId) {
        let unknown = &energy.unknowns[id.index()];
        if unknown.space != space {
            continue;
        }
        let channels = usize::from(unknown.channels);
        if spread[first] && (2..=3).contains(&channels) && turns(energy, id) {
            let pairs = (0..channels).flat_map(|b| (0..b).map(move |a| (a, b)));
            all.extend(pairs.map(|(a, b)| Candidate::Turn(first + a, first + b)));
        }
        first += channels;
    }
    let mut channel = 0;
    for (component, of) in given(energy, space) {
        let count = of.values.len();
        all.push(Candidate::Given { component, count, channel });
        channel += count;
    }
    all
}

/// The threshold of strength on the finest level of a space; coarser levels have [`COUPLED`].
pub fn threshold(energy: &Energy, space: SpaceId) -> f64 {
    if grids::coupled(energy).contains(&space) { GRID_THRESHOLD } else { COUPLED }
}

/// The aggregate of every element, and their number.
///
/// `neighbours` are those that an element is strongly coupled with, list by list, not itself. In order of their numbers, elements whose
/// neighbours are all free found an aggregate with them. What is left joins the aggregate that most of its neighbours were in after
/// that, of several the first; or founds one with what is free around it. Elements without neighbours are in none.
pub fn aggregates(starts: &[usize], neighbours: &[u32]) -> (Vec<u32>, usize) {
    let of = |e: usize| &neighbours[starts[e]..starts[e + 1]];
    let n = starts.len() - 1;
    let (mut own, mut count) = (vec![NONE; n], 0u32);
    for e in 0..n {
        let free = own[e] == NONE && of(e).iter().all(|&f| own[f as usize] == NONE);
        if free && !of(e).is_empty() {
            own[e] = count;
            of(e).iter().for_each(|&f| own[f as usize] = count);
            count += 1;
        }
    }
    let founded = own.clone();
    let mut around = vec![];
    for e in (0..n).filter(|&e| founded[e] == NONE) {
        around.clear();
        around.extend(of(e).iter().map(|&f| founded[f as usize]).filter(|a| *a != NONE));
        around.sort_unstable();
        let runs = around.chunk_by(|a, b| a == b);
        // Of several that are as long the first.
        let longest = runs.fold(None, |best: Option<&[u32]>, run| match best {
            Some(best) if best.len() >= run.len() => Some(best),
            _ => Some(run),
        });
        own[e] = longest.map_or(NONE, |run| run[0]);
    }
    for e in (0..n).filter(|&e| !of(e).is_empty()) {
        if own[e] == NONE {
            own[e] = count;
            for &f in of(e) {
                if own[f as usize] == NONE {
                    own[f as usize] = count;
                }
            }
            count += 1;
        }
    }
    (own, count as usize)
}

/// Number i of the fixed vector that the power method begins with, in [-1/2, 1/2).
pub fn start(i: usize) -> f64 {
    f64::from((i as u32).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519))
        / 4_294_967_296.0
        - 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_coupled_channel_by_channel_does_not_turn() {
        let of = |residuals: &str| {
            let text = format!(
                r#"
                local W, H = Dim("W", 0), Dim("H", 1)
                local X = Unknown("X", opt_float2, {{W,H}}, 0)
                local T = Unknown("T", opt_float, {{W,H}}, 1)
                Energy(X(0,0) + T(0,0), {residuals})
                "#
            );
            let energy = Energy::from_text("energy.t", &text).unwrap();
            candidates(&energy, energy.unknowns[0].space)
        };
        let constants = [0, 1].map(Candidate::Constant).to_vec();
        let turns = [constants.clone(), vec![Candidate::Turn(0, 1)]].concat();
        assert_eq!(of("X(0,0) - X(1,0)"), constants);
        assert_eq!(of("X(0,0,0) - X(1,0,1)"), turns);
        // By way of an angle.
        assert_eq!(of("X(0,0) - X(1,0) - T(0,0)"), turns);
        // A loss of second order couples all of its block.
        assert_eq!(of("0)\nResidual{loss=SecondOrder(Cauchy(0.1)), X(0,0) - X(1,0)}\nEnergy(0"), turns);
    }
}
