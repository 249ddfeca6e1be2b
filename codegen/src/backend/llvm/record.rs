//! Reads of records: where the lanes of a load are slots of records anywhere in a buffer, every record is
//! loaded as a row and the rows are transposed, once for all slots that are read at the same elements. A gather of one slot costs about
//! as many memory accesses as all slots together do this way.
//!
//! The lanes of slot k are at `index = element * slots + k`: strides are multiples of 16 elements (see [`crate::lower::flatten`]), so that k is
//! the index modulo the slots, and `index - k` is where the row starts.
//! Lanes that lie a constant number of elements apart in a buffer of the function's own, as where a tile is read across its rows, read slots of records,
//! too: 16 elements at most, or as many as divide that number.
//!
//! So do the loads from anywhere of one statement, or of stores that follow each other, whose indices differ by 1, as of neighbouring channels or of an
//! unrolled sum: there the row is what they read together.
//!
//! Lanes that a predicate turns off read the record of element (0, 0, ...), which every buffer has.

use super::access::{Access, MAX_STRIDE};
use super::expr::ExprEmitter;
use super::ir::Val;
use super::runs::{run_key, split};
use super::scope::GroupSet;
use crate::expr::{BinaryOp, Expr, ExprKind, Flat, Param, Part};
use crate::types::{ScalarType, Type};

/// A load from records, as far as it is known without emitting anything.
pub(super) struct Slots {
    /// Slots of a record.
    slots: u16,
    /// The slot that is read.
    slot: u16,
    /// Equal for loads that read slots of the same records, as many of each, in every lane.
    key: String,
    /// Bytes of which every row's address is a multiple.
    align: u32,
}

impl<'f> ExprEmitter<'f> {
    /// Tells whether a load reads one slot of a record in each lane.
    pub(super) fn slots(
        &self,
        buffer: &Flat,
        access: &Access<'f>,
        predicate: Option<&'f Expr>,
        ty: Type,
    ) -> Option<Slots> {
        let (slots, first) = match (self.aliasing.record(buffer), access) {
            (Some(slots), Access::Gather(index)) => (u16::from(slots), index),
            (Some(slots), Access::Strided(first, stride)) if *stride == i64::from(slots) => {
                (u16::from(slots), first)
            }
            (None, Access::Strided(first, stride)) => (self.across(buffer, *stride, ty.lanes)?, first),
            (None, Access::Gather(index)) if predicate.is_none() => {
                return self.neighbours(buffer, index, ty);
            }
            _ => return None,
        };
        let whole = slots.is_power_of_two()
            && slots > 1
            && ty.lanes.is_multiple_of(slots)
            && (ty.lanes / slots).is_power_of_two();
        if !whole || ty.scalar == ScalarType::Bool {
            return None;
        }
        let slot = residue(first, i64::from(slots))?;
        let (rest, constant) = split(first);
        let mask = predicate.map(Expr::to_string).unwrap_or_default();
        let stride = if let Access::Strided(_, stride) = access { *stride } else { 0 };
        let key = format!("{buffer} {} {rest} {} by {stride} {mask}", ty.lanes, constant - slot);
        let align = (ty.scalar.bytes() as u32 * u32::from(slots)).min(64);
        Some(Slots { slots, slot: slot as u16, key, align })
    }

    /// The place of a load from anywhere among those of its statement that read beside it, if there are any.
    fn neighbours(&self, buffer: &Flat, index: &Expr, ty: Type) -> Option<Slots> {
        let (rest, constant) = split(index);
        let key = run_key(buffer, ty, &rest);
        let (start, slots) = self.runs.of(&key, constant)?;
        let (slot, align) = ((constant - start) as u16, ty.scalar.bytes() as u32);
        Some(Slots { slots, slot, key: format!("{key} from {start} {slots}"), align })
    }

    /// Slots of a record, if lanes `stride` elements apart of a buffer without records may read them.
    fn across(&self, buffer: &Flat, stride: i64, lanes: u16) -> Option<u16> {
        let most = lanes.min(16);
        let slots = 1 << stride.trailing_zeros().min(most.ilog2());
        let is_wide = stride > MAX_STRIDE && slots > 2;
        (is_wide && self.aliasing.has_rows_of(buffer, slots)).then_some(slots)
    }

    /// The value of such a load, whose operands are done; `depends` are the groups that they and the buffer were loaded from.
    pub(super) fn load_slot(
        &mut self,
        buffer: &Flat,
        access: &Access<'f>,
        mask: Option<Val>,
        what: Slots,
        depends: GroupSet,
        ty: Type,
    ) -> Result<Val, String> {
        let columns = match self.scopes.recall_record(&what.key) {
            Some(columns) => columns,
            None => {
                let rows = self.rows(buffer, access, mask, &what, ty)?;
                self.scopes.remember_record(what.key, self.transpose(rows, ty.lanes), depends)
            }
        };
        let value = columns[usize::from(what.slot)];
        let zero = || self.ir.zero(self.ir.memory_ty(ty));
        Ok(mask.map_or(value, |m| self.ir.select(m, value, zero())))
    }

    /// One record per lane.
    fn rows(
        &self,
        buffer: &Flat,
        access: &Access<'f>,
        mask: Option<Val>,
        what: &Slots,
        ty: Type,
    ) -> Result<Vec<Val>, String> {
        let ir = self.ir;
        let (base, group) = (self.buffer(buffer)?, self.group(buffer)?);
        let element = ir.memory_ty(Type::of(ty.scalar));
        let row_ty = ir.vector_of(element, what.slots);
        let operand = access.operand();
        let index = self.index(self.done(operand)?, operand.ty());
        let wide = Type::I64.with_lanes(ty.lanes);
        let (index, slot) = match access {
            Access::Strided(_, stride) => {
                let steps: Vec<Val> =
                    (0..ty.lanes).map(|i| ir.int(Type::I64, i64::from(i) * stride)).collect();
                let first = ir.splat(index, ty.lanes);
                (ir.add_nsw(first, ir.const_vector(&steps)), ir.int(wide, what.slot.into()))
            }
            _ => (index, ir.int(wide, what.slot.into())),
        };
        let index = mask.map_or(index, |m| ir.select(m, index, slot));
        let row = |lane: u16| {
            let at = ir.add_nsw(ir.extract(index, lane), ir.int(Type::I64, -i64::from(what.slot)));
            let v = ir.load(row_ty, ir.element_ptr(element, base, at), what.align);
            self.mark_load(v, group);
            v
        };
        Ok((0..ty.lanes).map(row).collect())
    }

    /// Columns of the matrix whose rows are given: column k has a lane per row. As many rows as `lanes`, their length times a power
    /// of two.
    ///
    /// Rows i, i + n, i + 2n, ... of n slots are put side by side; then blocks off the diagonal change places, of half the length first.
    fn transpose(&self, rows: Vec<Val>, lanes: u16) -> Vec<Val> {
        let ir = self.ir;
        let slots = ir.lanes(rows[0]);
        let mut columns: Vec<Val> = (0..slots)
            .map(|i| {
                self.side_by_side((i..lanes).step_by(slots.into()).map(|r| rows[usize::from(r)]).collect())
            })
            .collect();
        let mut d = slots / 2;
        while d > 0 {
            let low: Vec<u16> = (0..lanes).map(|j| if j & d == 0 { j } else { lanes + j - d }).collect();
            let high: Vec<u16> = (0..lanes).map(|j| if j & d == 0 { j + d } else { lanes + j }).collect();
            for i in (0..slots).filter(|i| i & d == 0) {
                let (a, b) = (columns[usize::from(i)], columns[usize::from(i + d)]);
                columns[usize::from(i)] = ir.shuffle(a, b, &low);
                columns[usize::from(i + d)] = ir.shuffle(a, b, &high);
            }
            d /= 2;
        }
        columns
    }

    /// Vectors one after the other; a power of two of them.
    pub(super) fn side_by_side(&self, mut parts: Vec<Val>) -> Val {
        while parts.len() > 1 {
            let n = self.ir.lanes(parts[0]);
            let all: Vec<u16> = (0..2 * n).collect();
            parts = parts.chunks(2).map(|p| self.ir.shuffle(p[0], p[1], &all)).collect();
        }
        parts[0]
    }
}

/// An index modulo `n` (16 at most), where it is the same in all lanes and follows from constants and strides.
fn residue(e: &Expr, n: i64) -> Option<i64> {
    let both = |a, b| Some((residue(a, n)?, residue(b, n)?));
    match e.kind() {
        ExprKind::Int(c) => Some(c.rem_euclid(n)),
        ExprKind::Broadcast(a) | ExprKind::Cast(a) => residue(a, n),
        ExprKind::Ramp(base, stride) if residue(stride, n)? == 0 => residue(base, n),
        ExprKind::Param(Param::Of(_, Part::Stride(_))) => Some(0),
        ExprKind::Binary(BinaryOp::Add, a, b) => both(a, b).map(|(a, b)| (a + b).rem_euclid(n)),
        ExprKind::Binary(BinaryOp::Sub, a, b) => both(a, b).map(|(a, b)| (a - b).rem_euclid(n)),
        ExprKind::Binary(BinaryOp::Mul, a, b) => match (residue(a, n), residue(b, n)) {
            (Some(0), _) | (_, Some(0)) => Some(0),
            (a, b) => Some((a? * b?).rem_euclid(n)),
        },
        _ => None,
    }
}
