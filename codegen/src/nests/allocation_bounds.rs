//! Sizes of storage.
//!
//! Storage covers the region at the store level, which contains every region produced inside, roundings included.
//! Stack, register and shared storage needs a constant size: the smallest upper bound that [`crate::analysis::algebra`] proves, unless it is folded.

use crate::analysis::algebra::Interval;
use crate::error::Error;
use crate::expr::Expr;
use crate::nests::found::Found;
use crate::nests::scope::{Scope, Surroundings};
use crate::nests::storage::Storage;
use crate::plan::plans::{FuncPlan, Level, Plan, illegal};
use crate::schedule::{Directive, Memory};

/// Elements that a sink of one vector may keep in registers without being told to.
const REGISTER_ELEMENTS: i64 = 64;

/// Bytes of a Func that lie in the frame without being told to, where they would be allocated in each iteration.
const STACK_BYTES: i64 = 16 << 10;

/// Has `f` so few elements, rows being padded?
fn is_small(f: &FuncPlan, elements: Option<i64>) -> bool {
    let bytes: i64 = f.func.types().iter().map(|ty| ty.bytes() as i64).sum();
    elements.is_some_and(|n| n.saturating_mul(bytes) <= STACK_BYTES)
}

/// Decides region and memory of `f`, which has intermediate storage and this region at its store level.
pub(super) fn allocate(
    scope: &Scope,
    found: &mut Found,
    f: &FuncPlan,
    region: &[Interval],
) -> Result<(), Error> {
    let facts = &scope.facts;
    let sizes: Vec<Option<i64>> = region.iter().map(|i| facts.upper(&i.extent())).collect();
    let elements = sizes.iter().try_fold(1i64, |all, n| Some(all * (*n)?));
    let memory = match f.memory {
        Some(m) => m,
        None if f.sink && f.compute == f.store && elements.is_some_and(|n| n <= REGISTER_ELEMENTS) => {
            Memory::Register
        }
        None => match scope.surroundings() {
            Surroundings::Host if f.store != Level::Root && is_small(f, elements) => Memory::Stack,
            Surroundings::Host => Memory::Heap,
            Surroundings::Block => Memory::Shared,
            Surroundings::Thread => Memory::Stack,
        },
    };
    if let Some(rule) = misplaced(memory, scope.surroundings()) {
        return Err(illegal(&f.stages[0].id, Directive::StoreIn(memory).to_string(), rule));
    }
    let constant = |n: i64| Expr::from(n.clamp(0, i32::MAX as i64) as i32);
    let dims = region.iter().zip(&sizes).map(|(i, size)| match (memory, size) {
        (Memory::Stack | Memory::Register | Memory::Shared, Some(n)) => (i.min.clone(), constant(*n)),
        _ => (i.min.clone(), i.extent()),
    });
    let region = dims.collect();
    // Of several places where it is stored, the largest sizes.
    let sizes = match found.storage.get(&f.func.name) {
        Some(before) => before.sizes.iter().zip(sizes).map(|(a, b)| Some((*a)?.max(b?))).collect(),
        None => sizes,
    };
    found.storage.insert(f.func.name.clone(), Storage { region, memory, sizes, fold: f.fold.clone() });
    Ok(())
}

/// The rule that memory breaks in these surroundings.
fn misplaced(memory: Memory, place: Surroundings) -> Option<&'static str> {
    match (memory, place) {
        (Memory::Heap, Surroundings::Block | Surroundings::Thread) => {
            Some("a GPU's kernel allocates nothing; store it in shared memory, or at root")
        }
        (Memory::Stack | Memory::Register, Surroundings::Block) => Some(
            "each thread of the block would have its own; store it in shared memory, or inside of the thread loops",
        ),
        (Memory::Shared, Surroundings::Host) => Some("only the threads of a GPU's block share memory"),
        (Memory::Shared, Surroundings::Thread) => {
            Some("every thread would need memory of its own; store it on the stack")
        }
        _ => None,
    }
}

/// Checks that what is not on the heap has constant sizes, as folded.
pub(super) fn check_sizes(plan: &Plan, found: &Found) -> Result<(), Error> {
    for (f, s) in plan.funcs.values().filter_map(|f| Some((f, found.storage.get(&f.func.name)?))) {
        let open = (0..s.sizes.len()).find(|&d| s.sizes[d].is_none() && s.fold[d].is_none());
        if let (Some(d), Memory::Stack | Memory::Register | Memory::Shared) = (open, s.memory) {
            let rule = format!("the extent of {} has no constant bound", f.func.vars[d].name());
            return Err(illegal(&f.stages[0].id, Directive::StoreIn(s.memory).to_string(), rule));
        }
    }
    Ok(())
}
