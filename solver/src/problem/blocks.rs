//! The blocks of block Jacobi, which follow from an energy alone: both paths have the same.

use std::iter::once;
use std::ops::Range;
use sumsq_energy::emit::component_count;
use sumsq_energy::model::{Energy, SpaceId};

/// Scalars of a block at most.
pub const LARGEST: usize = 16;

/// The runs of components of an element of a space that are a block of M each, in order and without gaps: all of an element's scalars where
/// they are at most [`LARGEST`]; else those of each unknown, and of an unknown that has more scalars each one. So an unknown that is large
/// costs no other its block.
pub fn of_space(energy: &Energy, space: SpaceId) -> Vec<Range<usize>> {
    let components = component_count(energy, space);
    if components <= LARGEST {
        return once(0..components).collect();
    }
    let (mut runs, mut first) = (vec![], 0);
    for unknown in energy.unknowns.iter().filter(|u| u.space == space) {
        let behind = first + usize::from(unknown.channels);
        match behind - first <= LARGEST {
            true => runs.push(first..behind),
            false => runs.extend((first..behind).map(|c| c..c + 1)),
        }
        first = behind;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_at_their_edge() {
        let blocks = |a: usize, b: usize| {
            let text = format!(
                "local N = Dim('N', 0)\nlocal A = Unknown('A', opt_float{a}, {{N}}, 0)\n\
                 local B = Unknown('B', opt_float{b}, {{N}}, 1)\nEnergy(A(0), B(0))"
            );
            of_space(&Energy::from_text("blocks.t", &text).unwrap(), SpaceId(0))
        };
        assert_eq!(blocks(9, 7), once(0..16).collect::<Vec<_>>());
        assert_eq!(blocks(14, 3), vec![0..14, 14..17]);
        assert_eq!(blocks(3, 16), vec![0..3, 3..19]);
        let singles = (2..19).map(|c| c..c + 1);
        assert_eq!(blocks(2, 17), once(0..2).chain(singles).collect::<Vec<_>>());
    }
}
