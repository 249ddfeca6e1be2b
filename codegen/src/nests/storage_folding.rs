//! Circular storage.
//!
//! A folded dimension keeps its coordinates modulo the fold factor. Legal iff everything that one iteration of the compute
//! level may read, its region there, has at most that many coordinates: with a sliding region a slot is then
//! overwritten only by a value that comes after its last read, and without one an iteration computes itself all that it reads.
//! Nothing is read outside of that level, which bounds inference refuses.
//!
//! A schedule names dimensions and factors (`fold_storage`). Of a Func that is stored outside of the loops in which it is computed, every
//! other dimension that moves with those loops is folded by itself, unless the schedule says `store_whole`: where the number of
//! coordinates in use has a constant bound, by the next power of two, and only if the storage may have more than that. A power
//! of two, as `fold_storage` takes, makes an address of a mask; the exact number would save less than half of what is left after
//! folding, a few rows, for a division by a constant in every address. A dimension along which a stage runs as lanes stays
//! as it is: its vectors would not be dense any more. So do registers, whose indices are constants.
//!
//! Follows sliding: what an iteration needs counts, not what it computes. Decided behind the walk of [`crate::nests`], when all
//! versions of the nests around have been seen: storage is folded alike in all of them.

use crate::analysis::algebra::{Facts, Interval};
use crate::error::Error;
use crate::expr::walk::variables;
use crate::expr::{Expr, Name};
use crate::func::PITCH;
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use crate::nests::found::Found;
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::nests::sliding_window::Slide;
use crate::nests::storage::{Live, Storage};
use crate::plan::plans::{FuncPlan, Plan, illegal};
use crate::schedule::Memory;
use rustc_hash::FxHashMap;

/// Checks the fold factors of `f` against its region at the compute level.
pub(super) fn check_folds(facts: &Facts, f: &FuncPlan, required: &[Interval]) -> Result<(), Error> {
    for (d, factor) in f.fold.iter().enumerate().filter_map(|(d, n)| n.map(|n| (d, n))) {
        let live = facts.upper(&required[d].extent());
        if live.is_none_or(|n| n > factor as i64) {
            let live = live.map_or("an unbounded number of".to_string(), |n| n.to_string());
            let directive = format!("fold_storage({}, {factor})", f.func.vars[d].name());
            let rule =
                format!("{live} coordinates are live at once, in [{}, {}]", required[d].min, required[d].max);
            return Err(illegal(&f.stages[0].id, directive, rule));
        }
    }
    Ok(())
}

/// Notes how much of `f` is in use at once, given its region at the compute level: the most of all places where it is computed.
pub(super) fn note_live(
    scope: &Scope,
    regions: &Regions,
    found: &mut Found,
    f: &FuncPlan,
    (required, slides): (&[Interval], &[Slide]),
) {
    if f.whole || f.store == f.compute {
        return;
    }
    let here: Live =
        required.iter().enumerate().map(|(d, i)| live(scope, regions, f, d, (i, slides))).collect();
    let live = match found.live.remove(&f.func.name) {
        Some(before) => before.into_iter().zip(here).map(|(a, b)| Some(a?.max(b?))).collect(),
        None => here,
    };
    found.live.insert(f.func.name.clone(), live);
}

/// Coordinates of dimension `d` in the region `i`, if that moves with the loops inside of the storage. None of these lies inside of one over
/// which another dimension slides: the next iteration of that needs all of them again.
fn live(
    scope: &Scope,
    regions: &Regions,
    f: &FuncPlan,
    d: usize,
    (i, slides): (&Interval, &[Slide]),
) -> Option<i64> {
    let loops: Vec<&Name> = scope.loops_since_store(f).collect();
    let outermost = loops.first()?;
    let moved = [&i.min, &i.max].into_iter().filter_map(|end| {
        let end = variables(&scope.facts.expand(end, outermost, &regions.unslid));
        loops.iter().rposition(|&v| end.contains(v))
    });
    let innermost = moved.max()?;
    let is_needed_again = slides.iter().any(|s| s.dim != d && s.depth < innermost);
    if f.fold[d].is_some() || is_needed_again || has_lanes(scope, f, d) {
        return None;
    }
    scope.facts.upper(&i.extent())
}

/// Does a stage that reads or writes `f` run as lanes along dimension `d`?
fn has_lanes(scope: &Scope, f: &FuncPlan, d: usize) -> bool {
    let own = f.stages.iter().map(|s| (s, vec![&s.args[d]]));
    let readers = scope.callers(&f.func.name).iter();
    let readers = readers.map(|(id, calls)| {
        let s = &scope.plan.funcs[&id.func].stages[id.stage];
        (s, calls.iter().map(|args| &args[d]).collect())
    });
    own.chain(readers).any(|(s, coordinates): (_, Vec<&Expr>)| {
        s.versions().into_iter().any(|s| {
            let lanes = s.dims.iter().filter(|dim| dim.kind.is_vector());
            let lanes: Vec<Name> = lanes.flat_map(|dim| s.origins(&dim.name)).collect();
            coordinates.iter().any(|e| variables(e).iter().any(|v| lanes.contains(v)))
        })
    })
}

/// Decides which dimensions are folded, of all storage.
pub(super) fn decide_folds(plan: &Plan, found: &mut Found) {
    for (func, live) in &found.live {
        let f = &plan.funcs[func];
        let Some(store) = found.storage.get_mut(func).filter(|s| s.memory != Memory::Register) else {
            continue;
        };
        for (d, live) in live.iter().enumerate() {
            let factor = live.and_then(|n| u32::try_from(n.max(1)).ok()).map(u32::next_power_of_two);
            let Some(factor) = factor.filter(|&n| n <= i32::MAX as u32) else { continue };
            if store.sizes[d].is_none_or(|all| padded(f, d, factor as i64) < padded(f, d, all)) {
                store.fold[d] = Some(factor);
            }
        }
    }
}

/// Coordinates of dimension `d` in storage for `n`.
fn padded(f: &FuncPlan, d: usize, n: i64) -> i64 {
    let dense = f.storage_order[0] == d && f.func.vars.len() > 1 && n >= PITCH;
    let unit = f.pad[d].map_or(if dense { PITCH } else { 1 }, i64::from);
    (n - 1).max(0) / unit * unit + unit
}

/// Folded dimensions of realised storage have the coordinates 0 to the factor less one.
pub(super) fn fold_storage(s: &Stmt, storage: &FxHashMap<Name, Storage>) -> Stmt {
    let s = map_children(s, &mut Expr::clone, &mut |s| fold_storage(s, storage));
    match s {
        Stmt::Realize { func, mut region, body } => {
            for (dim, fold) in region.iter_mut().zip(storage.get(&func).into_iter().flat_map(|s| &s.fold)) {
                if let Some(n) = fold {
                    *dim = (Expr::from(0), Expr::from(*n as i32));
                }
            }
            Stmt::Realize { func, region, body }
        }
        s => s,
    }
}
