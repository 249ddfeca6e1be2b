//! Sizes of storage.
//!
//! Storage covers the region at the store level, which contains every region produced inside, roundings included.
//! Stack and register storage needs a constant size: the smallest upper bound that [`crate::analysis::algebra`] proves, unless it is folded.

use crate::error::Error;
use crate::expr::Expr;
use crate::nests::{Nests, Storage};
use crate::plan::plans::{FuncPlan, illegal};
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
        let constant = |n: i64| Expr::from(n.clamp(0, i32::MAX as i64) as i32);
        let dims = region.iter().zip(&sizes).map(|(i, size)| match (memory, size) {
            (Memory::Stack | Memory::Register, Some(n)) => (i.min.clone(), constant(*n)),
            _ => (i.min.clone(), i.extent()),
        });
        let region = dims.collect();
        // Of several places where it is stored, the largest sizes.
        let sizes = match self.storage.get(&f.func.name) {
            Some(before) => before.sizes.iter().zip(sizes).map(|(a, b)| Some((*a)?.max(b?))).collect(),
            None => sizes,
        };
        self.storage.insert(f.func.name.clone(), Storage { region, memory, sizes, fold: f.fold.clone() });
        Ok(())
    }

    /// What is not on the heap has constant sizes, as folded.
    pub fn check_sizes(&self) -> Result<(), Error> {
        for (f, s) in self.plan.funcs.values().filter_map(|f| Some((f, self.storage.get(&f.func.name)?))) {
            let open = (0..s.sizes.len()).find(|&d| s.sizes[d].is_none() && s.fold[d].is_none());
            if let (Some(d), Memory::Stack | Memory::Register) = (open, s.memory) {
                let rule = format!("the extent of {} has no constant bound", f.func.vars[d].0);
                return Err(illegal(&f.stages[0].id, Directive::StoreIn(s.memory).to_string(), rule));
            }
        }
        Ok(())
    }
}
