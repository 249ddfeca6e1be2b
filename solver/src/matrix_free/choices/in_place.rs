//! The operations of J^T r and J^T (J p) where they are computed in place, against those with r and J p stored.
//!
//! In place, each of the n elements that an instance reads evaluates the whole residual (or J p) of that instance again: n times its
//! operations, and code as long. Stored, it is evaluated once and read n times. For the few reads of most energies in place is
//! faster: it moves less memory, and what the n copies share is simplified. A convolution of 15 x 15 has 225 reads of 450 operations.

use rustc_hash::FxHashSet;
use sumsq_energy::dag::At;
use sumsq_energy::derive::count_ops;
use sumsq_energy::model::{Energy, GroupId, Residual};

/// Operations from which on residuals are not computed in place. The largest of the energies in `examples/energies` has 1,644, and is
/// fastest in place.
const OPERATIONS: u64 = 2000;

/// Elements from which on a residual is not computed in place, be it ever so short: a convolution of 3 x 3 takes half the time where J p
/// is stored, one of 5 x 5 a thirteenth. The energies in `examples/energies` read at most 5.
const ELEMENTS: usize = 9;

/// Tells whether J^T r and J^T (J p) of a residual group had better read what is stored.
pub fn explodes(energy: &Energy, group: GroupId) -> bool {
    let mut own = energy.residuals.iter().filter(|r| r.group == group);
    own.any(|r| elements(r) >= ELEMENTS) || operations(energy, group) > OPERATIONS
}

/// Elements whose unknowns a residual reads.
fn elements(residual: &Residual) -> usize {
    residual.unknown_reads.iter().map(|read| &read.at).collect::<FxHashSet<&At>>().len()
}

/// Operations of J^T r of a residual group per instance, computed in place.
fn operations(energy: &Energy, group: GroupId) -> u64 {
    let own = energy.residuals.iter().filter(|r| r.group == group);
    own.map(|r| elements(r) as u64 * (u64::from(count_ops(&energy.dag, &[r.value]).weight()) + 1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_example_energies_are_computed_in_place() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/energies");
        let mut most = 0;
        for file in folder.read_dir().unwrap() {
            let energy = Energy::from_file(file.unwrap().path()).unwrap();
            let groups = (0..energy.groups.len() as u32).map(GroupId);
            assert!(groups.clone().all(|g| !explodes(&energy, g)));
            most = groups.map(|g| operations(&energy, g)).fold(most, u64::max);
        }
        assert!((1..OPERATIONS).contains(&most), "{most}");
    }

    #[test]
    fn a_wide_stencil_is_stored() {
        let stencil = |half: i32| {
            let reads = (-half..=half).flat_map(|y| (-half..=half).map(move |x| format!("0.1*X({x},{y})")));
            let sum: Vec<String> = reads.collect();
            let text = format!(
                "local W, H = Dim('W', 0), Dim('H', 1)\nlocal X = Unknown('X', float, {{W,H}}, 0)\nEnergy({} - 1)",
                sum.join(" + ")
            );
            explodes(&Energy::from_text("stencil.t", &text).unwrap(), GroupId(0))
        };
        assert!(!stencil(0) && stencil(1) && stencil(2) && stencil(3));
    }
}
