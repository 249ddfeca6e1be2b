//! Updates in one step, which race with plain accesses only, and prefetches, which must name elements that exist.

use super::machine::{Fallible, Machine};
use super::memory::Cell;
use super::races::Positions;
use crate::reference::Value;
use crate::reference::value::binary;
use sumsq_codegen::expr::{BinaryOp, Expr, Flat, Name};
use sumsq_codegen::types::ScalarType;

impl Cell {
    /// `value op operand` in one step.
    fn update(
        &mut self,
        (op, ty): (BinaryOp, ScalarType),
        operand: Value,
        positions: &Positions,
    ) -> Result<(), String> {
        let old = self.value.ok_or("is read before it is written")?;
        self.value = Some(binary(op, ty, old, operand).map_err(|e| e.0)?);
        match self.accesses.update(positions) {
            true => Ok(()),
            false => {
                Err("races: an iteration of a parallel loop updates what another one reads or writes".into())
            }
        }
    }
}

impl Machine {
    /// `buffer[index] = buffer[index] op value`.
    pub(super) fn accumulate(
        &mut self,
        buffer: &Flat,
        op: BinaryOp,
        (index, value): (&Expr, &Expr),
        on: Option<&Expr>,
    ) -> Fallible<()> {
        let update = (op, value.ty().scalar);
        self.store_lanes(buffer, (index, value), on, |cell, v, positions| cell.update(update, v, positions))
    }

    /// `func(args) = func(args) op value`, per tuple element.
    pub(super) fn provide_atomic(
        &mut self,
        func: &Name,
        args: &[Expr],
        values: &[Expr],
        ops: &[BinaryOp],
    ) -> Fallible<()> {
        let at: Vec<i64> = args.iter().map(|a| self.scalar(a)).collect::<Fallible<_>>()?;
        let results: Vec<Value> = values.iter().map(|v| Ok(self.eval(v)?[0])).collect::<Fallible<_>>()?;
        let intermediate = self.is_realized(func);
        for (k, ((v, op), e)) in results.into_iter().zip(ops).zip(values).enumerate() {
            let (cell, positions) = match intermediate {
                true => self.slot_cell(func, &at, k)?,
                false => self.output_cell(func, &at, k)?,
            };
            cell.update((*op, e.ty().scalar), v, positions).map_err(|e| format!("{func}{at:?} {e}"))?;
        }
        let f = self.counters.count(func);
        *(if intermediate { &mut f.stores } else { &mut f.output_stores }) += 1;
        Ok(())
    }

    /// Evaluates where: the point must exist.
    pub(super) fn prefetch(&mut self, name: &Name, args: &[Expr]) -> Fallible<()> {
        let at: Vec<i64> = args.iter().map(|a| self.scalar(a)).collect::<Fallible<_>>()?;
        match self.is_realized(name) {
            true => self.slot_cell(name, &at, 0).map(|_| ()),
            false => self.output_cell(name, &at, 0).map(|_| ()),
        }
    }

    /// Evaluates where: any byte may be asked for.
    pub(super) fn prefetch_byte(&mut self, byte: &Expr) -> Fallible<()> {
        self.scalar(byte).map(|_| ())
    }
}
