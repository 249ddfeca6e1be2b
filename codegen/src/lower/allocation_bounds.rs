//! Sizes of storage.
//!
//! Storage covers the region at the store level, which contains every region produced inside, roundings included.
//! Stack and register storage needs a constant size: the smallest upper bound that [`super::algebra`] proves.

use super::build_nests::{Nests, Storage};
use super::plans::{FuncPlan, illegal};
use crate::error::Error;
use crate::expr::Expr;
use crate::schedule::{Directive, Memory};

/// Elements that a sink of one vector may keep in registers without being told to.
const REGISTER_ELEMENTS: i64 = 64;

impl Nests<'_> {
    /// Decides region and memory of `f` at its store level, if it has intermediate storage.
    pub fn allocate(&mut self, f: &FuncPlan) -> Result<(), Error> {
        if !self.has_storage(f)? {
            return Ok(());
        }
        let region = self.region(&f.func.name, &f.store)?;
        let sizes: Vec<Option<i64>> = region.iter().map(|i| self.facts.upper(&i.extent())).collect();
        let small =
            sizes.iter().copied().try_fold(1i64, |a, n| Some(a * n?)).is_some_and(|n| n <= REGISTER_ELEMENTS);
        let memory = match f.memory {
            Some(m) => m,
            None if f.sink && f.compute == f.store && small => Memory::Register,
            None => Memory::Heap,
        };
        let mut dims = vec![];
        for (d, i) in region.iter().enumerate() {
            let extent = match (f.fold[d], memory, sizes[d]) {
                (Some(n), ..) => {
                    dims.push((Expr::from(0), Expr::from(n as i32)));
                    continue;
                }
                (None, Memory::Heap, _) => i.extent(),
                (None, _, Some(n)) => Expr::from(n.clamp(0, i32::MAX as i64) as i32),
                (None, m, None) => {
                    let rule = format!("the extent of {} has no constant bound", f.func.vars[d].0);
                    return Err(illegal(&f.stages[0].id, Directive::StoreIn(m).to_string(), rule));
                }
            };
            dims.push((i.min.clone(), extent));
        }
        self.storage.insert(f.func.name.clone(), Storage { region: dims, memory });
        Ok(())
    }
}
