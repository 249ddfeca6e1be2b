//! Sizes of storage.
//!
//! Storage covers the region at the store level, which contains every region produced inside, roundings included.
//! Stack, register and shared storage needs a constant size: the smallest upper bound that [`crate::analysis::algebra`] proves, unless it is folded.
//! Memory that is allocated farther out has that, too, or the extent of the region there, if that is known to be as large.

use crate::analysis::algebra::Interval;
use crate::error::Error;
use crate::expr::Expr;
use crate::nests::found::Found;
use crate::nests::regions::Regions;
use crate::nests::scope::{Around, Scope, Surroundings};
use crate::nests::storage::Storage;
use crate::plan::plans::{FuncPlan, Level, Plan, illegal, own_var};
use crate::schedule::{Directive, Memory};

/// Elements that a sink of one vector may keep in registers without being told to.
const REGISTER_ELEMENTS: i64 = 64;

/// Bytes of a Func that lie in the frame without being told to, where they would be allocated in each iteration.
const STACK_BYTES: i64 = 16 << 10;

/// Has `f` so few elements, rows being padded, for all lanes around together?
fn is_small(scope: &Scope, f: &FuncPlan, elements: Option<i64>) -> bool {
    let bytes: i64 = f.func.types().iter().map(|ty| ty.bytes() as i64).sum();
    elements.is_some_and(|n| n.saturating_mul(bytes).saturating_mul(scope.lanes()) <= STACK_BYTES)
}

/// Decides region and memory of `f`, which has intermediate storage and this region at its store level.
pub(super) fn allocate(
    scope: &Scope,
    regions: &Regions,
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
            Surroundings::Host if f.store != Level::Root && is_small(scope, f, elements) => Memory::Stack,
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
    let hoisted = hoisted(scope, regions, f, (region, &sizes))?;
    let region = dims.collect();
    // Of several places where it is stored, the largest sizes.
    let sizes = match found.storage.get(&f.func.name) {
        Some(before) => before.sizes.iter().zip(sizes).map(|(a, b)| Some((*a)?.max(b?))).collect(),
        None => sizes,
    };
    found.storage.insert(
        f.func.name.clone(),
        Storage { region, hoisted, memory, sizes, fold: f.fold.clone(), window: None },
    );
    Ok(())
}

/// Region and extents of the memory of `f` where that is allocated farther out than it is stored.
fn hoisted(
    scope: &Scope,
    regions: &Regions,
    f: &FuncPlan,
    (region, sizes): (&[Interval], &[Option<i64>]),
) -> Result<Option<Vec<(Expr, Expr)>>, Error> {
    let Some(Level::At(out)) = f.hoist.as_ref().filter(|out| **out != f.store) else { return Ok(None) };
    let text = Directive::HoistStorage(out.clone()).to_string();
    let refuse = |rule: String| Err(illegal(&f.stages[0].id, text.clone(), rule));
    let is_around = |a: &Around| matches!(a, Around::Loop(l, ..) | Around::Once(l) if l == out);
    let outer = regions.at.get(&(f.func.name.clone(), Level::At(out.clone())));
    let Some(outer) = outer.filter(|_| scope.around.iter().any(is_around)) else {
        return refuse("is not at or outside of store_at".into());
    };
    let many = scope.since(out).iter().find_map(|a| match a {
        Around::Loop(l, _, kind) if kind.is_parallel() || kind.is_vector() => Some(own_var(l)),
        _ => None,
    });
    if let Some(v) = many {
        return refuse(format!("iterations of loop {v}, which run at the same time, would share the memory"));
    }
    let mut dims = vec![];
    for (d, ((inner, size), outer)) in region.iter().zip(sizes).zip(outer).enumerate() {
        let extent = match size {
            Some(n) => Expr::from((*n).clamp(0, i32::MAX as i64) as i32),
            None if f.fold[d].is_some() || scope.facts.proves_le(&inner.extent(), &outer.extent()) => {
                outer.extent()
            }
            None => {
                let var = f.func.vars[d].name();
                return refuse(format!("how large {var} is inside of that loop is not known outside"));
            }
        };
        dims.push((outer.min.clone(), extent));
    }
    Ok(Some(dims))
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
