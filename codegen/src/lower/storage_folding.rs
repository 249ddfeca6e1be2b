//! Circular storage.
//!
//! A folded dimension keeps its coordinates modulo the fold factor. Legal iff everything that one iteration of the compute
//! level may read, its region there, has at most that many coordinates: with a sliding region a slot is then
//! overwritten only by a value that comes after its last read.

use super::algebra::Interval;
use super::build_nests::Nests;
use super::plans::{FuncPlan, illegal};
use crate::error::Error;

impl Nests<'_> {
    /// Checks the fold factors of `f` against its region at the compute level.
    pub fn check_folds(&self, f: &FuncPlan, required: &[Interval]) -> Result<(), Error> {
        for (d, factor) in f.fold.iter().enumerate().filter_map(|(d, n)| n.map(|n| (d, n))) {
            let live = self.facts.upper(&required[d].extent());
            if live.is_none_or(|n| n > factor as i64) {
                let live = live.map_or("an unbounded number of".to_string(), |n| n.to_string());
                let directive = format!("fold_storage({}, {factor})", f.func.vars[d].0);
                let rule = format!(
                    "{live} coordinates are live at once, in [{}, {}]",
                    required[d].min, required[d].max
                );
                return Err(illegal(&f.stages[0].id, directive, rule));
            }
        }
        Ok(())
    }
}
