//! The kernel of a GPU that is being filled.

use super::ir::{Ir, Val};
use crate::backend::nvptx;
use crate::expr::walk::visit;
use crate::expr::{ExprKind, Flat};
use crate::ir::rewrite::{for_each_child, own_exprs, visit_stmts};
use crate::ir::segments::Kernel;
use crate::ir::stmt::Stmt;
use crate::schedule::ForKind;
use rustc_hash::FxHashSet;

/// Facts that the emitter knows of the kernel that it fills.
pub(super) struct Device {
    /// Threads of a block.
    pub threads: u32,
    /// The thread's number.
    pub thread: Val,
    /// Coordinates of the block loops that are still to be entered, outermost last.
    pub blocks: Vec<Val>,
    /// Coordinates of the thread loops that are still to be entered, outermost last; none outside of thread nests.
    pub coordinates: Option<Vec<Val>>,
    /// True in a nest whose iterations are warps.
    pub warps: bool,
    /// Buffers whose memory the kernel reads, and those whose memory it writes.
    pub read: FxHashSet<Flat>,
    pub written: FxHashSet<Flat>,
    /// False if nothing that follows a thread nest could notice that a thread is still in it.
    pub barriers: bool,
}

impl Device {
    /// At the start of a kernel.
    pub(super) fn new(ir: &Ir, kernel: &Kernel) -> Device {
        let body = &kernel.function.body;
        let (mut read, mut written) = (FxHashSet::default(), FxHashSet::default());
        let (mut loops, mut nests) = (0, 0);
        visit_stmts(body, &mut |s| {
            match s {
                Stmt::Store { buffer, .. } => {
                    written.insert(buffer.clone());
                }
                Stmt::Accumulate { buffer, .. } => {
                    written.insert(buffer.clone());
                    read.insert(buffer.clone());
                }
                Stmt::For { kind: ForKind::GpuBlock, .. } => loops += 1,
                _ => {}
            }
            own_exprs(s, &mut |e| {
                visit(e, &mut |n| {
                    if let ExprKind::Load { buffer, .. } = n.kind() {
                        read.insert(buffer.clone());
                    }
                    true
                });
            });
        });
        for (a, b) in &kernel.function.aliases {
            for of in [&mut read, &mut written].into_iter().filter(|of| of.contains(a) || of.contains(b)) {
                of.extend([a.clone(), b.clone()]);
            }
        }
        count_steps(body, false, &mut nests);
        let special = |name: &str| ir.intrinsic(name, &[], &[]);
        Device {
            threads: kernel.threads,
            thread: special(nvptx::THREAD),
            blocks: nvptx::BLOCK[..loops.min(3)].iter().map(|name| special(name)).collect(),
            coordinates: None,
            warps: false,
            read,
            written,
            barriers: nests > 1,
        }
    }
}

/// Counts what threads wait behind, twice in loops.
fn count_steps(s: &Stmt, inside: bool, n: &mut usize) {
    let once = if inside { 2 } else { 1 };
    match s {
        Stmt::For { kind: ForKind::GpuThread, .. } | Stmt::Store { .. } | Stmt::Accumulate { .. } => {
            *n += once
        }
        Stmt::For { kind: ForKind::Serial, body, .. } => count_steps(body, true, n),
        s => for_each_child(s, &mut |s| count_steps(s, inside, n)),
    }
}
