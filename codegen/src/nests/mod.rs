//! Loop nests, with producers injected at their levels.
//!
//! Takes a plan; gives statements over coordinates (`Realize`, `Produce`, `Provide`), what each Func is stored in, and the regions
//! of the inputs that they read.
//!
//! One walk from outside in (`walk.rs`). At every level (root, or the body of a loop) the Funcs that are stored or computed there are
//! opened, consumers first: their regions are inferred and let-bound (`bounds_inference.rs`), a sliding region is
//! narrowed (`sliding_window.rs`, `run_up.rs`), folds are checked (`storage_folding.rs`), storage is sized
//! (`allocation_bounds.rs`). Then the storage is realised and the nests follow, producers first (`emit.rs`, `together.rs`). Behind the
//! walk, what storage needs no more of its region than a ring is folded.
//!
//! What the walk knows has three lifetimes. A pass is a function over those that it needs, so its signature says what it may change:
//! - `Scope`: what holds at the place where the walk is; put back where the place is left.
//! - `Regions`: what was inferred of the levels that are open; put back behind each special version of a stage.
//! - `Found`: what comes out; only grows.
//!
//! Names: loop `v` of stage k of `f` is `f.s<k>.<v>`; the origin of a block of split variable `x` is let-bound
//! as `f.s<k>.<x>.base` and stays opaque, so that it cancels; likewise a variable that was fused. Lets, guards and conditions
//! are placed as far out as the variables they use allow (`slots.rs`); what concerns rows is thus decided outside of the vector loop.

mod allocation_bounds;
mod bound;
mod bounds_inference;
pub mod bounds_query;
mod checks;
mod emit;
mod float_checks;
mod found;
mod in_place;
mod joint_regions;
mod members;
mod names;
mod outputs;
mod param_ranges;
mod place;
mod policies;
mod prefetch;
mod ranges;
mod reach;
mod regions;
mod root_checks;
mod run_up;
mod scope;
mod sinks;
mod sliding_window;
mod slots;
mod storage;
mod storage_folding;
mod table;
mod together;
mod walk;
mod windows;

pub use sliding_window::{Sliding, Still};
pub use storage::{Storage, Window};
pub use table::RegionTable;

use crate::error::Error;
use crate::expr::Name;
use crate::ir::stmt::{Required, Stmt};
use crate::plan::plans::{Level, Plan};
use crate::plan::uses::uses;
use found::Found;
use regions::Regions;
use rustc_hash::FxHashMap;
use scope::Scope;
use walk::Walk;

/// Results of the walk for later passes.
pub struct Built {
    /// The whole body.
    pub body: Stmt,
    /// Storage by Func.
    pub storage: FxHashMap<Name, Storage>,
    /// Regions of the inputs that are read.
    pub required: Required,
    /// Of Funcs stored outside of the loops in which they are computed: over which of these they slide, or why they do not.
    pub sliding: FxHashMap<Name, Sliding>,
    /// Every Func at every place.
    pub regions: RegionTable,
}

/// Builds the statement of `plan`. After: every name is bound; no region is symbolic.
pub fn build_nests(plan: &Plan) -> Result<Built, Error> {
    let uses = uses(plan.funcs.values().flat_map(|f| &f.stages));
    let mut scope = Scope::new(plan, &uses);
    param_ranges::enter_param_ranges(&mut scope.facts, &plan.pipeline);
    sinks::check_sinks(plan)?;
    let mut walk = Walk { scope, regions: Regions::default(), found: Found::default() };
    let body = walk.level(&Level::Root, &[], &mut |_| Ok(Stmt::Block(vec![])))?;
    let Walk { scope, mut regions, mut found } = walk;
    in_place::check_in_place(&scope, &found)?;
    storage_folding::decide_folds(plan, &mut found);
    allocation_bounds::check_sizes(plan, &found)?;
    found.table.note_folds(&found.storage);
    let body = storage_folding::fold_storage(&body, &found.storage);
    let lets = regions.opened.remove(&Level::Root).unwrap_or_default();
    let required = Required { lets, inputs: found.inputs };
    Ok(Built { body, storage: found.storage, required, sliding: found.sliding, regions: found.table })
}
