//! Checks the loops of a GPU's kernels.
//!
//! Takes the statements of [`crate::nests`] and changes nothing. Afterwards, and for all passes that follow:
//! - a kernel is one to three `gpu_blocks` loops, each directly in the one before, outside of which there is no parallel loop;
//! - inside of them all threads run alike, down to *thread nests*: one to three `gpu_threads` loops of constant extents, each directly in the
//!   one before, of at most [`MAX_THREADS`] iterations in all (32 times those that hold lanes);
//! - thread nests are not inside of each other, hence a barrier behind each is met by all threads of the block;
//! - lanes lie in kernels, and no assertion does.
//!
//! *Directly* means that between two loops are lets, conditions (that decide on nothing else) and storage only. Where a condition stands between two thread loops, the
//! threads for which it does not hold do nothing.

use crate::error::Error;
use crate::expr::Name;
use crate::ir::rewrite::{for_each_child, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::lower::loop_nest::loop_name;
use crate::schedule::{Directive, ForKind};

/// Most threads of a block.
pub(crate) const MAX_THREADS: i64 = 1024;
/// Lanes of a warp.
pub(crate) const WARP: i64 = 32;
/// Most block loops, and most thread loops, inside of each other.
const MAX_DEPTH: usize = 3;

/// A place among the loops of a kernel.
#[derive(Clone, Copy)]
enum Place {
    /// Outside of all kernels; inside of a parallel loop or not.
    Host { parallel: bool },
    /// Directly inside of so many block loops.
    Blocks(usize),
    /// Further inside of a block.
    Block,
    /// Directly inside of so many thread loops, of so many iterations in all.
    Threads(usize, i64),
    /// Further inside of a thread, of so many of them.
    Thread(i64),
}

impl Place {
    /// The place inside of a loop, a sequence or anything else that is neither a let, nor a condition, nor storage.
    fn further(self) -> Place {
        match self {
            Place::Blocks(_) => Place::Block,
            Place::Threads(_, n) => Place::Thread(n),
            place => place,
        }
    }
}

/// True if there is a kernel in `s`.
pub(crate) fn has_kernel(s: &Stmt) -> bool {
    let mut found = false;
    visit_stmts(s, &mut |s| found |= matches!(s, Stmt::For { kind: ForKind::GpuBlock, .. }));
    found
}

/// See the module's description.
///
/// # Errors
/// The first loop that is out of place, with the rule that it breaks.
pub(crate) fn check_kernels(s: &Stmt) -> Result<(), Error> {
    check(s, Place::Host { parallel: false })
}

fn check(s: &Stmt, place: Place) -> Result<(), Error> {
    let inside = match s {
        Stmt::For { var, extent, kind, .. } => {
            enter(place, *kind, extent.as_int()).map_err(|rule| refuse(var, *kind, rule))?
        }
        Stmt::Assert { message, .. } if !matches!(place, Place::Host { .. }) => {
            let rule = "a kernel checks nothing; compute it at root, or with sizes that need no check";
            let (func, directive) = ("kernel".to_string(), format!("assertion: {message}"));
            return Err(Error::Schedule { func, directive, rule: rule.into() });
        }
        Stmt::Block(_) | Stmt::If { otherwise: Some(_), .. } => place.further(),
        _ => place,
    };
    let mut done = Ok(());
    for_each_child(s, &mut |child| {
        if done.is_ok() {
            done = check(child, inside);
        }
    });
    done
}

/// The place inside of a loop of this kind, or the rule that the loop breaks.
fn enter(place: Place, kind: ForKind, extent: Option<i64>) -> Result<Place, String> {
    let fits = |threads: i64| match threads <= MAX_THREADS {
        true => Ok(threads),
        false => Err(format!("{threads} threads; a block has at most {MAX_THREADS}")),
    };
    match (kind, place) {
        (ForKind::GpuBlock, Place::Host { parallel: false }) => Ok(Place::Blocks(1)),
        (ForKind::GpuBlock, Place::Host { .. }) => Err("a parallel loop of the host is around it".into()),
        (ForKind::GpuBlock, Place::Blocks(n)) if n < MAX_DEPTH => Ok(Place::Blocks(n + 1)),
        (ForKind::GpuBlock, Place::Blocks(_)) => Err(format!("a grid has at most {MAX_DEPTH} dimensions")),
        (ForKind::GpuBlock, _) => Err("something stands between it and the block loop around it".into()),

        (ForKind::GpuThread, Place::Host { .. }) => Err("no gpu_blocks loop is around it".into()),
        (ForKind::GpuThread, Place::Blocks(_) | Place::Block) => {
            Ok(Place::Threads(1, fits(extent.unwrap_or(i64::MAX))?))
        }
        (ForKind::GpuThread, Place::Threads(n, all)) if n < MAX_DEPTH => {
            Ok(Place::Threads(n + 1, fits(all.saturating_mul(extent.unwrap_or(i64::MAX)))?))
        }
        (ForKind::GpuThread, Place::Threads(..)) => {
            Err(format!("a block has at most {MAX_DEPTH} dimensions"))
        }
        (ForKind::GpuThread, Place::Thread(_)) => {
            Err("something stands between it and the thread loop around it".into())
        }

        (ForKind::GpuLane, Place::Host { .. }) => Err("no gpu_blocks loop is around it".into()),
        (ForKind::GpuLane, Place::Threads(_, n) | Place::Thread(n)) => {
            Ok(Place::Thread(fits(n.saturating_mul(WARP))?))
        }
        (ForKind::GpuLane, _) => Ok(Place::Block),

        (ForKind::Parallel, Place::Host { .. }) => Ok(Place::Host { parallel: true }),
        (ForKind::Parallel, _) => Err("it is inside of a kernel: use gpu_threads".into()),
        (ForKind::Serial | ForKind::Vectorized | ForKind::Unrolled, place) => Ok(place.further()),
    }
}

fn refuse(var: &Name, kind: ForKind, rule: String) -> Error {
    let directive = Directive::Kind { var: loop_name(var).into(), kind }.to_string();
    Error::Schedule { func: var.to_string(), directive, rule }
}
