//! Schedules as text, which [`crate::schedule::text`] reads back.

use crate::expr::Expr;
use crate::expr::print::whole;
use crate::expr::walk::interned;
use crate::schedule::{Directive, ForKind, LoopLevel, Memory, Partition, Schedule, StageId, Tail};
use std::fmt::{self, Display, Formatter};

impl ForKind {
    /// Returns what stands before `for`.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            ForKind::Serial => "",
            ForKind::Parallel => "parallel ",
            ForKind::Vectorized => "vectorized ",
            ForKind::Unrolled => "unrolled ",
            ForKind::GpuBlock => "gpu_blocks ",
            ForKind::GpuThread => "gpu_threads ",
            ForKind::GpuLane => "gpu_lanes ",
        }
    }
}

/// An expression of a directive: whatever it shares, equal ones print alike. Every part that occurs again is named, so that reading
/// the text, which may not tell the types of small parts, finds as many.
struct InDirective(Expr);

impl Display for InDirective {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        whole(f, &self.0, 1)
    }
}

impl Display for StageId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.stage {
            0 => f.write_str(&self.func),
            k => write!(f, "{}.update({})", self.func, k - 1),
        }
    }
}

impl Display for LoopLevel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.stage, self.var)
    }
}

impl Display for Tail {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tail::Auto => "auto",
            Tail::GuardWithIf => "guard",
            Tail::Predicate => "predicate",
            Tail::RoundUp => "round_up",
            Tail::ShiftInwards => "shift_inwards",
        })
    }
}

impl Display for Memory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Memory::Heap => "heap",
            Memory::Stack => "stack",
            Memory::Register => "register",
            Memory::Shared => "shared",
        })
    }
}

impl Display for Directive {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let e = |e: &Expr| InDirective(interned(e));
        match self {
            Directive::Split { old, outer, inner, factor, tail } => {
                let factor = e(factor);
                write!(f, "split({old}, {outer}, {inner}, {factor}, {tail})")
            }
            Directive::Fuse { inner, outer, fused } => write!(f, "fuse({inner}, {outer}, {fused})"),
            Directive::Rename { old, new } => write!(f, "rename({old}, {new})"),
            Directive::Reorder(vars) => write!(f, "reorder({})", vars.join(", ")),
            Directive::Kind { var, kind } => {
                let kind = match kind {
                    ForKind::Serial => "serial",
                    ForKind::Parallel => "parallel",
                    ForKind::Vectorized => "vectorize",
                    ForKind::Unrolled => "unroll",
                    ForKind::GpuBlock => "gpu_blocks",
                    ForKind::GpuThread => "gpu_threads",
                    ForKind::GpuLane => "gpu_lanes",
                };
                write!(f, "{kind}({var})")
            }
            Directive::Rfactor { keep, into } => {
                f.write_str("rfactor(")?;
                keep.iter().try_for_each(|(r, v)| write!(f, "{r} as {v}, "))?;
                write!(f, "into {into})")
            }
            Directive::SkipUnless { var, cond } => write!(f, "skip_unless({var}, {})", e(cond)),
            Directive::Gather(var) => write!(f, "gather({var})"),
            Directive::GpuSingle => f.write_str("gpu_single"),
            Directive::Atomic => f.write_str("atomic"),
            Directive::Relaxed => f.write_str("relaxed"),
            Directive::Reciprocals => f.write_str("reciprocals"),
            Directive::Specialize { cond, directives } => {
                write!(f, "specialize({}) {{", e(cond))?;
                directives.iter().try_for_each(|d| write!(f, " {d}"))?;
                f.write_str(" }")
            }
            Directive::Partition { var, policy } => {
                let policy = match policy {
                    Partition::Auto => "auto",
                    Partition::Never => "never",
                    Partition::Always => "always",
                };
                write!(f, "partition({var}, {policy})")
            }
            Directive::Prefetch { name, var, ahead } => write!(f, "prefetch({name}, {var}, {ahead})"),
            Directive::In { consumers, wrapper: new } => {
                f.write_str("in_(")?;
                consumers.iter().try_for_each(|c| write!(f, "{c}, "))?;
                write!(f, "as {new})")
            }
            Directive::CloneIn { consumers, clone: new } => {
                f.write_str("clone_in(")?;
                consumers.iter().try_for_each(|c| write!(f, "{c}, "))?;
                write!(f, "as {new})")
            }
            Directive::Inline => f.write_str("inline"),
            Directive::ComputeRoot => f.write_str("compute_root"),
            Directive::ComputeAt(l) => write!(f, "compute_at({l})"),
            Directive::ComputeWith(l) => write!(f, "compute_with({l})"),
            Directive::StoreAt(l) => write!(f, "store_at({l})"),
            Directive::HoistStorage(l) => write!(f, "hoist_storage({l})"),
            Directive::StoreWhole => write!(f, "store_whole"),
            Directive::FoldStorage { var, factor } => write!(f, "fold_storage({var}, {factor})"),
            Directive::AlignBounds { var, modulus } => write!(f, "align_bounds({var}, {modulus})"),
            Directive::Bound { var, min: Some(min), extent } => {
                write!(f, "bound({var}, {}, {})", e(min), e(extent))
            }
            Directive::Bound { var, min: None, extent } => {
                write!(f, "bound_extent({var}, {})", e(extent))
            }
            Directive::Estimate { var, min, extent } => write!(f, "set_estimate({var}, {min}, {extent})"),
            Directive::AlignStorage { var, modulus } => write!(f, "align_storage({var}, {modulus})"),
            Directive::ReorderStorage(vars) => write!(f, "reorder_storage({})", vars.join(", ")),
            Directive::StoreIn(memory) => write!(f, "store_in({memory})"),
            Directive::Sink => f.write_str("sink"),
            Directive::NonTemporal(when) => write!(f, "non_temporal({})", e(when)),
            Directive::InPlaceOf(n) => write!(f, "in_place_of({n})"),
        }
    }
}

/// One line a stage: `p: store_at(q, yo) compute_at(q, yi)`.
impl Display for Schedule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (stage, directives) in &self.stages {
            write!(f, "{stage}:")?;
            directives.iter().try_for_each(|d| write!(f, " {d}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}
