//! Windows in registers.
//!
//! A Func in registers that slides over one loop is stored as what one iteration reads of it, and no more: coordinate `c` of the dimension that
//! slides lies in slot `c - first`, where `first` is the first coordinate that the iteration reads. Behind the consumer each iteration moves
//! the values that the next one reads, too, to their slots there. So every place is a constant, and machine code renames registers where a
//! ring in memory would be read and written.
//!
//! Such a loop begins early ([`crate::nests::run_up`]), so that its first iteration, as all others, computes only what is new. Values before the first
//! that is needed do not exist, and are not moved.

use crate::analysis::algebra::Interval;
use crate::analysis::algebra::build::{constant, offset, sub};
use crate::expr::walk::substitute;
use crate::expr::{Expr, Name};
use crate::ir::rewrite::{block, branch};
use crate::ir::stmt::{Stmt, Target};
use crate::nests::found::Found;
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::nests::sliding_window::{Slide, start};
use crate::nests::storage::{Storage, Window};
use crate::plan::plans::FuncPlan;
use crate::schedule::{ForKind, Memory};
use rustc_hash::FxHashMap;

/// Bytes that are moved at once.
const VECTOR: i64 = 64;

/// Most vectors that an iteration moves: about as many registers as there are.
const MOST: i64 = 32;

/// Is `f` to be a window, if it slides?
pub(super) fn is_wanted(f: &FuncPlan) -> bool {
    f.memory == Some(Memory::Register) && f.store != f.compute && f.hoist.is_none() && !f.whole
}

/// Makes the storage of `f` a window, if it can be: given its region at the compute level and how that slides.
pub(super) fn note(
    scope: &Scope,
    regions: &Regions,
    found: &mut Found,
    f: &FuncPlan,
    (required, slides): (&[Interval], &[Slide]),
) {
    let Some(store) = found.storage.get_mut(&f.func.name) else { return };
    let Some(window) = window(scope, regions, f, store, (required, slides)) else { return };
    store.region[window.dim] = (Expr::from(0), Expr::from(window.extent as i32));
    store.sizes[window.dim] = Some(window.extent);
    store.window = Some(window);
}

fn window(
    scope: &Scope,
    regions: &Regions,
    f: &FuncPlan,
    store: &Storage,
    (required, slides): (&[Interval], &[Slide]),
) -> Option<Window> {
    let loops: Vec<&Name> = scope.loops_since_store(f).collect();
    let ([slide], [var]) = (slides, &loops[..]) else { return None };
    let d = slide.dim;
    let once = f.stages.iter().all(|s| s.special.is_empty()) && scope.versions.is_empty();
    if !is_wanted(f) || !once || !slide.up || f.fold.iter().any(Option::is_some) {
        return None;
    }
    let extent = scope.facts.upper(&required[d].extent())?;
    let first = scope.facts.expand(&required[d].min, var, &regions.steady);
    let next = FxHashMap::from_iter([((*var).clone(), Expr::var((*var).clone()) + 1)]);
    let step = constant(&sub(&substitute(&first, &next), &first)).filter(|&n| n >= 1)?;
    let others = || (0..required.len()).filter(|&other| other != d);
    let elements = others().try_fold(1i64, |n, other| n.checked_mul(store.sizes[other]?))?;
    let moved = (extent - step).checked_mul(elements)?.checked_mul(f.func.types().len() as i64)?;
    if extent > i64::from(i32::MAX) || moved > MOST * lanes(f) {
        return None;
    }
    // Where rows may be shorter than their storage, nothing lies behind their ends.
    let last = |other: usize| {
        let whole = offset(&store.region[other].0, store.sizes[other]? - 1);
        (!scope.facts.proves_le(&whole, &required[other].max)).then(|| required[other].max.clone())
    };
    let last = (0..required.len()).map(|other| if other == d { None } else { last(other) }).collect();
    let start = start(scope, regions, f, &required[d].min)?;
    Some(Window { dim: d, extent, first, step, start, last })
}

/// Values of each element of `f` that are moved at once.
fn lanes(f: &FuncPlan) -> i64 {
    let widest = f.func.types().iter().map(|ty| ty.bytes() as i64).max();
    VECTOR / widest.unwrap_or(1).max(1)
}

impl Window {
    /// The region of an iteration.
    pub(super) fn region(&self, store: &Storage) -> Vec<(Expr, Expr)> {
        let mut region = store.region.clone();
        region[self.dim].0 = self.first.clone();
        region
    }
}

/// The values that an iteration moves in the window of `f`, behind its consumer.
pub(super) fn moved(f: &FuncPlan, store: &Storage) -> Option<Stmt> {
    let window = store.window.as_ref()?;
    let kept = (0..window.extent - window.step).map(|slot| {
        let from = offset(&window.first, slot + window.step);
        let body = row(f, store, window, [offset(&window.first, slot), from.clone()]);
        branch(window.start.le(&from).likely(), body, None)
    });
    Some(block(kept.collect()))
}

/// `f(.., to, ..) = f(.., from, ..)` for everything along the other dimensions.
fn row(f: &FuncPlan, store: &Storage, window: &Window, [to, from]: [Expr; 2]) -> Stmt {
    let dims: Vec<usize> = f.storage_order.iter().copied().filter(|&d| d != window.dim).collect();
    let name = |d: usize| -> Name { format!("{}.s0.{}.moved", f.func.name, f.func.vars[d].name()).into() };
    let at = |moving: &Expr| -> Vec<Expr> {
        let along = |d: usize| if d == window.dim { moving.clone() } else { Expr::var(name(d)) };
        (0..f.func.vars.len()).map(along).collect()
    };
    let source = at(&from);
    let values = (0..f.func.types().len()).map(|k| f.func.at(&source, k)).collect();
    let mut body =
        Stmt::Provide { func: f.func.name.clone(), args: at(&to), values, to: Target::Intermediate };
    for (i, &d) in dims.iter().enumerate() {
        if let Some(last) = &window.last[d] {
            body = branch(Expr::var(name(d)).le(last).likely(), body, None);
        }
        let (min, n) = (&store.region[d].0, store.sizes[d].unwrap_or(1));
        let along = |min: Expr, n: i64, kind: ForKind| match n {
            1 => Stmt::Let { name: name(d), value: min, body: Box::new(body.clone()) },
            n => {
                let extent = Expr::from(n as i32);
                Stmt::For { var: name(d), min, extent, kind, body: Box::new(body.clone()) }
            }
        };
        body = match i {
            // The last vector of several ends with the row: no value is moved twice before all are read.
            0 => {
                let lanes = n.min(lanes(f));
                let begins = (0..(n + lanes - 1) / lanes).map(|k| (k * lanes).min(n - lanes));
                block(begins.map(|k| along(offset(min, k), lanes, ForKind::Vectorized)).collect())
            }
            _ => along(min.clone(), n, ForKind::Unrolled),
        };
    }
    body
}
