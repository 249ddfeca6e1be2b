//! The least that kernels move, and how they compute: what a profile holds against their time.

use crate::error::CudaError;
use crate::expr::walk::visit;
use crate::expr::{ExprKind, Flat};
use crate::func::Layout;
use crate::ir::args::Arg;
use crate::ir::rewrite::{own_exprs, visit_stmts};
use crate::ir::stmt::LoweredFunction;
use crate::runtime::Buffer;
use crate::runtime::cuda::Device;
use crate::types::ScalarType;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

/// Bytes of either block of a measured copy: more than any device's cache.
const COPIED: usize = 256 << 20;

/// Copies that are measured at once.
const COPIES: u32 = 8;

/// Passes of a kernel over each argument, and the share of float64 among its operations on floats.
#[derive(Serialize, Deserialize)]
pub(super) struct Traffic {
    /// Per argument: 1 where it is a buffer that is read or written, 2 where it is both, else 0.
    passes: Vec<u64>,
    /// Operations on float64 as a share of all on floats, each as often as it stands there.
    pub(super) doubles: f64,
}

impl Traffic {
    /// That of a kernel.
    pub(super) fn of(f: &LoweredFunction) -> Traffic {
        let (mut read, mut seen, mut all, mut doubles) =
            (FxHashSet::<&Flat>::default(), FxHashSet::default(), 0, 0);
        visit_stmts(&f.body, &mut |s| {
            own_exprs(s, &mut |e| {
                visit(e, &mut |n| {
                    match n.kind() {
                        ExprKind::Load { buffer, .. } => drop(read.insert(buffer)),
                        ExprKind::Float(_) | ExprKind::Var(_) | ExprKind::Param(_) => {}
                        _ if n.ty().scalar.is_float() && seen.insert(n.id()) => {
                            all += 1;
                            doubles += u32::from(n.ty().scalar == ScalarType::F64);
                        }
                        _ => {}
                    }
                    true
                });
            });
        });
        let passes = |a: &Arg| match a {
            Arg::Buffer { flat, written, .. } => u64::from(*written) + u64::from(read.contains(flat)),
            Arg::Scalar { .. } => 0,
        };
        Traffic {
            passes: f.args.iter().map(passes).collect(),
            doubles: f64::from(doubles) / f64::from(all.max(1)),
        }
    }

    /// Bytes that a launch moves at least, given its buffers, one per argument that is one.
    pub(super) fn bytes<'b>(&self, buffers: impl Iterator<Item = &'b Buffer>) -> u64 {
        let passes = self.passes.iter().filter(|n| **n > 0);
        let bytes = |b: &Buffer| {
            let spec = b.spec();
            let elements: u64 = spec.extents.iter().map(|&n| n.max(0) as u64).product();
            let slots = if spec.layout == Layout::Planar { 1 } else { spec.channels as u64 };
            elements * slots * spec.ty.bytes() as u64
        };
        passes.zip(buffers).map(|(n, b)| n * bytes(b)).sum()
    }
}

/// Bytes per second that a copy on a device reads and writes; `None` if that has no memory for it.
pub(super) fn copy_rate(device: &Device) -> Option<f64> {
    let measured = || -> Result<f64, CudaError> {
        let bytes = COPIED.min(device.memory()?.free as usize / 8);
        let (from, to) = (device.zeroed(bytes)?, device.zeroed(bytes)?);
        to.copy_from(&from)?;
        let start = device.mark()?;
        (0..COPIES).try_for_each(|_| to.copy_from(&from))?;
        let seconds = device.mark()?.since(&start)?.as_secs_f64();
        Ok(2.0 * bytes as f64 * f64::from(COPIES) / seconds)
    };
    measured().ok().filter(|rate| rate.is_finite())
}
