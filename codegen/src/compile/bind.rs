//! How the buffers and parameters of a call become the argument arrays of an entry point.

use super::signature::{BufferSlot, Signature};
use super::{Look, bind_error};
use crate::error::Error;
use crate::expr::walk::postorder;
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::func::Layout;
use crate::ir::stmt::{ArgKind, LoweredFunction};
use crate::runtime::{Buffer, Scalar};
use crate::types::ScalarType;
use rustc_hash::FxHashMap;
use std::ffi::c_void;

/// Where each entry of the argument arrays comes from.
pub(super) struct Plan {
    pipeline: String,
    signature: Signature,
    /// Per pointer: slot of the signature and plane.
    pointers: Vec<(usize, usize)>,
    scalars: Vec<Source>,
}

/// Where a scalar argument comes from.
pub(super) enum Source {
    /// Minimum of dimension `.1` of slot `.0`.
    Min(usize, usize, ScalarType),
    /// Extent of dimension `.1` of slot `.0`.
    Extent(usize, usize, ScalarType),
    /// Stride of dimension `.1` of slot `.0`.
    Stride(usize, usize, ScalarType),
    /// A parameter, by its index in the signature.
    Param(usize),
}

impl Plan {
    /// Matches the arguments of `f` with the signature, by the names of [`crate::ir::stmt`].
    pub fn new(f: &LoweredFunction, signature: &Signature) -> Result<Plan, Error> {
        let mut plan = Plan {
            pipeline: f.name.clone(),
            signature: signature.clone(),
            pointers: vec![],
            scalars: vec![],
        };
        for a in &f.args {
            let unknown =
                || plan.error(&a.name, "the code asks for it, but it is neither a buffer nor a parameter");
            match a.kind {
                ArgKind::Input | ArgKind::Output => {
                    let p = pointer_source(&a.name, signature).ok_or_else(unknown)?;
                    plan.pointers.push(p);
                }
                ArgKind::Scalar => {
                    let s = scalar_source(&a.name, a.ty, signature).ok_or_else(unknown)?;
                    plan.scalars.push(s);
                }
            }
        }
        Ok(plan)
    }

    fn error(&self, name: &str, message: impl Into<String>) -> Error {
        bind_error(&self.pipeline, name, message)
    }

    /// Slot and plane of each pointer.
    pub fn pointers(&self) -> &[(usize, usize)] {
        &self.pointers
    }

    /// Where each scalar comes from.
    pub fn scalars(&self) -> &[Source] {
        &self.scalars
    }

    /// Length of the array of pointers.
    pub fn pointer_count(&self) -> usize {
        self.pointers.len()
    }

    /// Length of the array of scalars.
    pub fn scalar_count(&self) -> usize {
        self.scalars.len()
    }

    /// One buffer per slot, from named buffers.
    pub fn match_buffers<'b>(&self, given: &[(&str, &'b Buffer)]) -> Result<Vec<&'b Buffer>, Error> {
        let mut slots: Vec<Option<&Buffer>> = vec![None; self.signature.buffers.len()];
        for (name, b) in given {
            let i = self
                .signature
                .slot(name)
                .ok_or_else(|| self.error(name, "the pipeline has no such buffer"))?;
            if slots[i].replace(b).is_some() {
                return Err(self.error(name, "bound twice"));
            }
        }
        let slots: Vec<&Buffer> = slots
            .into_iter()
            .zip(&self.signature.buffers)
            .map(|(b, slot)| b.ok_or_else(|| self.error(&slot.name, "no buffer is bound to it")))
            .collect::<Result<_, _>>()?;
        self.check_slots(&slots)?;
        Ok(slots)
    }

    /// Checks that each buffer fits its slot, and that what is written is not also something else.
    pub fn check_slots(&self, slots: &[&Buffer]) -> Result<(), Error> {
        for (slot, b) in self.signature.buffers.iter().zip(slots) {
            slot.check(b).map_err(|m| self.error(&slot.name, m))?;
        }
        for (i, a) in self.signature.buffers.iter().enumerate().filter(|(_, a)| a.written) {
            for (j, b) in self.signature.buffers.iter().enumerate() {
                let allowed = i == j || a.in_place_of.as_ref() == Some(&b.name) || (b.written && j < i);
                if !allowed && std::ptr::eq(slots[i], slots[j]) {
                    return Err(self.error(
                        &a.name,
                        format!("shares its buffer with {}, but is not in place of it", b.name),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Fills in extents and strides.
    pub fn fill_sizes(&self, scalars: &mut [u64], slots: &[&Buffer]) {
        for (to, source) in scalars.iter_mut().zip(&self.scalars) {
            match *source {
                Source::Min(slot, d, ty) => *to = integer_slot(slots[slot].spec().min[d] as i64, ty),
                Source::Extent(slot, d, ty) => *to = integer_slot(slots[slot].spec().extents[d] as i64, ty),
                Source::Stride(slot, d, ty) => *to = integer_slot(slots[slot].strides()[d], ty),
                Source::Param(_) => {}
            }
        }
    }

    /// Fills in all parameters.
    pub fn fill_params(&self, scalars: &mut [u64], given: &[(&str, Scalar)]) -> Result<(), Error> {
        for (name, value) in given {
            self.set_param(scalars, name, *value)?;
        }
        match self.signature.params.keys().find(|p| !given.iter().any(|g| *g.0 == ***p)) {
            Some(missing) => Err(self.error(missing, "no value is given for this parameter")),
            None => Ok(()),
        }
    }

    /// Fills in one parameter.
    pub fn set_param(&self, scalars: &mut [u64], name: &str, value: Scalar) -> Result<(), Error> {
        let Some((i, _, ty)) = self.signature.params.get_full(name) else {
            return Err(self.error(name, "the pipeline has no such parameter"));
        };
        if value.ty() != *ty {
            return Err(self.error(name, format!("expected a {}, got a {}", ty.name(), value.ty().name())));
        }
        if let (Some((low, high)), Some(v)) = (self.signature.param_ranges.get(name), value.as_int())
            && !(*low..=*high).contains(&v)
        {
            return Err(self.error(name, format!("{v} is not in [{low}, {high}]")));
        }
        for (to, source) in scalars.iter_mut().zip(&self.scalars) {
            if matches!(source, Source::Param(p) if *p == i) {
                *to = value.slot();
            }
        }
        Ok(())
    }

    /// Fills in addresses.
    pub fn fill_pointers<'b>(&self, pointers: &mut [*mut c_void], slot: impl Fn(usize) -> &'b Buffer) {
        for (to, &(s, plane)) in pointers.iter_mut().zip(&self.pointers) {
            *to = slot(s).plane_ptr(plane);
        }
    }

    /// Checks what is fixed of strided buffers.
    pub fn check_constraints(&self, looks: &[Look], scalars: &[u64]) -> Result<(), Error> {
        for (slot, look) in self.signature.buffers.iter().zip(looks) {
            for (d, c) in slot.constraints.iter().enumerate() {
                let found = [look.spec.min[d] as i64, look.spec.extents[d] as i64, look.strides[d]];
                for ((what, fixed), found) in c.parts().into_iter().zip(found) {
                    let Some(e) = fixed else { continue };
                    let v = self.evaluate(e, looks, scalars).ok_or_else(|| {
                        self.error(&slot.name, format!("the {what} {e} cannot be computed before the run"))
                    })?;
                    // Nobody steps along a dimension of one element.
                    if found != v && !(what == "stride" && look.spec.extents[d] <= 1) {
                        let message = format!("the {what} of dimension {d} must be {v}, it is {found}");
                        return Err(self.error(&slot.name, message));
                    }
                }
            }
        }
        Ok(())
    }

    /// Slots whose values keep a promised range, with that range for buffers of the given sizes.
    pub fn ranges(&self, looks: &[Look], scalars: &[u64]) -> Result<Vec<(usize, i64, i64)>, Error> {
        let one = |(i, s): (usize, &BufferSlot)| {
            let (low, high) = s.value_range.as_ref()?;
            let ends = (self.evaluate(low, looks, scalars), self.evaluate(high, looks, scalars));
            let (Some(low), Some(high)) = ends else {
                let message = "the bounds of its values cannot be computed before the run";
                return Some(Err(self.error(&s.name, message)));
            };
            Some(Ok((i, low, high)))
        };
        self.signature.buffers.iter().enumerate().filter_map(one).collect()
    }

    /// Checks the values of a slot's buffer.
    pub fn check_range(&self, slot: usize, b: &Buffer, low: i64, high: i64) -> Result<(), Error> {
        match b.value_outside(low, high) {
            None => Ok(()),
            Some(v) => {
                let name = &self.signature.buffers[slot].name;
                Err(self.error(name, format!("value {v} is not in [{low}, {high}]")))
            }
        }
    }

    /// The value of an integer expression over parameters and extents; none if some part of it has none.
    fn evaluate(&self, e: &Expr, looks: &[Look], scalars: &[u64]) -> Option<i64> {
        let mut values: FxHashMap<usize, i64> = FxHashMap::default();
        for e in postorder(&[e]) {
            let v = self.evaluate_node(e, &|a| values[&a.id()], looks, scalars)?;
            values.insert(e.id(), v);
        }
        values.get(&e.id()).copied()
    }

    fn evaluate_node(
        &self,
        e: &Expr,
        of: &dyn Fn(&Expr) -> i64,
        looks: &[Look],
        scalars: &[u64],
    ) -> Option<i64> {
        Some(match e.kind() {
            ExprKind::Int(v) => *v,
            ExprKind::Cast(a) if e.ty().scalar.is_int() => e.ty().scalar.wrap(of(a)),
            ExprKind::Param(n) => self.param_value(n, e.ty().scalar, looks, scalars)?,
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (of(a), of(b));
                match op {
                    BinaryOp::Add => a.checked_add(b)?,
                    BinaryOp::Sub => a.checked_sub(b)?,
                    BinaryOp::Mul => a.checked_mul(b)?,
                    BinaryOp::Min => a.min(b),
                    BinaryOp::Max => a.max(b),
                    BinaryOp::Div => a.checked_div_euclid(b).unwrap_or(0),
                    BinaryOp::Mod => a.checked_rem_euclid(b).unwrap_or(0),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    fn param_value(&self, name: &Name, ty: ScalarType, looks: &[Look], scalars: &[u64]) -> Option<i64> {
        match scalar_source(name, ty, &self.signature)? {
            Source::Min(slot, d, _) => Some(looks[slot].spec.min[d] as i64),
            Source::Extent(slot, d, _) => Some(looks[slot].spec.extents[d] as i64),
            Source::Stride(slot, d, _) => Some(looks[slot].strides[d]),
            Source::Param(_) if !ty.is_int() => None,
            Source::Param(p) => {
                let i = self.scalars.iter().position(|s| matches!(s, Source::Param(q) if *q == p))?;
                Some(ty.wrap(scalars[i] as i64))
            }
        }
    }
}

/// An integer in the low bytes of a scalar slot.
fn integer_slot(v: i64, ty: ScalarType) -> u64 {
    if ty.bytes() == 4 { v as u32 as u64 } else { v as u64 }
}

/// `f`, `f.k`, `f.out` or `f.out.k`: slot of `f` and plane `k`, or the slot of tuple element `k`.
fn pointer_source(name: &str, signature: &Signature) -> Option<(usize, usize)> {
    let find = |name: &str| signature.slot(name).or_else(|| signature.slot(name.strip_suffix(".out")?));
    if let Some(slot) = find(name) {
        // Records are one buffer; so is a planar one that is asked for as a whole.
        return Some((slot, 0));
    }
    let (base, k) = name.rsplit_once('.')?;
    if let Some(slot) = base.strip_suffix(".out").and_then(|base| signature.slot(&format!("{base}.{k}"))) {
        return Some((slot, 0));
    }
    let (slot, plane) = (find(base)?, k.parse().ok()?);
    let b = &signature.buffers[slot];
    (!matches!(b.layout, Layout::Record(_)) && plane < b.channels).then_some((slot, plane))
}

/// A parameter, `f.min.d`, `f.extent.d`, `f.stride.d` or `f.step.d`.
pub(super) fn scalar_source(name: &str, ty: ScalarType, signature: &Signature) -> Option<Source> {
    if let Some((i, _, declared)) = signature.params.get_full(name) {
        return (*declared == ty).then_some(Source::Param(i));
    }
    let (rest, d) = name.rsplit_once('.')?;
    let (base, what) = rest.rsplit_once('.')?;
    let base = base.strip_suffix(".out").filter(|_| signature.slot(base).is_none()).unwrap_or(base);
    let slot = signature.slot(base).or_else(|| signature.slot(&format!("{base}.0")))?;
    let d: usize = d.parse().ok().filter(|&d| d < signature.buffers[slot].dims)?;
    match what {
        "min" => Some(Source::Min(slot, d, ty)),
        "extent" => Some(Source::Extent(slot, d, ty)),
        "stride" | "step" => Some(Source::Stride(slot, d, ty)),
        _ => None,
    }
}
