//! Extents of the loops that splits and fuses make, and the places where blocks start.

use crate::analysis::algebra::build::{add, mul, offset, sub};
use crate::analysis::algebra::{Interval, build};
use crate::expr::{Expr, Name};
use crate::plan::plans::{Change, FuncPlan, Split, Stage};
use crate::schedule::Tail;

/// Number of blocks of `factor` that cover `[min, max]`: `ceil((max - min + 1) / factor)`.
pub(crate) fn blocks(min: &Expr, max: &Expr, factor: &Expr) -> Expr {
    let extent = offset(&sub(max, min), 1);
    build::div(&offset(&add(&extent, factor), -1), factor)
}

/// Number of points of two fused loops; 0 if either has none.
pub(crate) fn points(inner: &Interval, outer: &Interval) -> Expr {
    let zero = Expr::from(0);
    mul(&build::max(&inner.extent(), &zero), &build::max(&outer.extent(), &zero))
}

/// Start of block `outer` of a split of `bounds`. Never falls as `outer` rises: the origins of several blocks lie
/// between those of the first and of the last one.
pub(crate) fn block_origin(s: &Stage, t: &Split, outer: &Expr, bounds: &Interval) -> Expr {
    let Interval { min, max } = bounds;
    let origin = add(&mul(outer, &t.factor), min);
    if t.tail != Tail::ShiftInwards || origin == *min || divides(s, t, bounds) {
        return origin;
    }
    let last = offset(&sub(max, &t.factor), 1);
    build::max(&build::min(&origin, &last), min)
}

/// Is the extent known to be a multiple of the factor?
fn divides(s: &Stage, t: &Split, bounds: &Interval) -> bool {
    let extent = bounds.extent();
    let rounded = rounds_region(s, t) || extent == t.factor;
    rounded || extent.as_int().zip(t.factor.as_int()).is_some_and(|(n, f)| n % f == 0)
}

/// Does the split need no guard, because the region is rounded up to whole blocks of it or a split around it has one? A
/// RoundUp of a block's inside does not grow the region: it is guarded, unless the factors divide.
pub(crate) fn rounds_region(s: &Stage, t: &Split) -> bool {
    let mut name = &t.old;
    while let Some(c) = s.made(name) {
        match c {
            Change::Split(u) if u.outer == *name => name = &u.old,
            Change::Rename { old, .. } => name = old,
            Change::Split(_) | Change::Fuse(_) => return false,
        }
    }
    t.tail == Tail::RoundUp
}

/// The multiple to which RoundUp splits round the extent of `var`.
pub(crate) fn round_up_unit(s: &Stage, var: &Name) -> Option<Expr> {
    match s.replaced(var)? {
        Change::Split(t) if t.tail == Tail::RoundUp => Some(match round_up_unit(s, &t.outer) {
            Some(u) => mul(&u, &t.factor),
            None => t.factor.clone(),
        }),
        Change::Rename { new, .. } => round_up_unit(s, new),
        _ => None,
    }
}

/// Is the region of `f` rounded in dimension `d`, to a multiple or to whole blocks?
pub(crate) fn is_rounded(f: &FuncPlan, d: usize) -> bool {
    f.align[d].is_some() || round_up_unit(&f.stages[0], f.func.vars[d].name()).is_some()
}
