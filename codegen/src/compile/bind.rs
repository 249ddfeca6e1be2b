//! Argument arrays of an entry point, made of the buffers and parameters of a call.

use super::signature::{BufferSlot, Signature};
use crate::backend::abi::{Arguments, Failure, OUT_OF_MEMORY};
use crate::backend::llvm::Kernel;
use crate::error::{CudaError, Error, bind_error};
use crate::expr::walk::postorder;
use crate::expr::{BinaryOp, Expr, ExprKind, Param, Part};
use crate::ir::args::Arg;
use crate::ir::stmt::LoweredFunction;
use crate::runtime::{Buffer, BufferSpec, Scalar};
use crate::types::ScalarType;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The words of an assertion that failed, with the values of its arguments.
pub(super) fn failed(message: &str, args: &[i64]) -> String {
    if args.is_empty() {
        return message.to_string();
    }
    let args: Vec<String> = args.iter().map(i64::to_string).collect();
    format!("{message}: {}", args.join(", "))
}

/// The failure of a call in words: the assertion's message with its values.
pub(super) fn failed_call(kernel: &Kernel, f: Failure) -> Error {
    let args = f.args.iter().map(|a| a.to_string()).collect::<Vec<_>>().join(", ");
    let message = if f.code == OUT_OF_MEMORY {
        format!("out of memory: cannot allocate {args} bytes")
    } else {
        let text = kernel.assertions.get(f.code as usize - 1).map_or("an assertion failed", |s| s);
        failed(text, &f.args)
    };
    Error::Run { pipeline: kernel.name.clone(), message }
}

/// The source of each entry of the argument arrays.
#[derive(Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) pipeline: String,
    pub(super) signature: Signature,
    /// Per pointer: slot of the signature and plane.
    pub(super) pointers: Vec<(usize, usize)>,
    pub(super) scalars: Vec<Source>,
}

/// The source of a scalar argument.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) enum Source {
    /// A part of what the buffer of slot `.0` looks like, as a number of this type.
    Part(usize, Part, ScalarType),
    /// A parameter, by its index in the signature.
    Param(usize),
}

impl Plan {
    /// Matches the arguments of `f` with the signature.
    ///
    /// # Errors
    /// An argument that is neither a buffer nor a parameter of the signature.
    pub(super) fn new(f: &LoweredFunction, signature: Signature) -> Result<Plan, Error> {
        let (mut pointers, mut scalars) = (vec![], vec![]);
        let unknown = |name: String| {
            bind_error(&f.name, name, "the code asks for it, but it is neither a buffer nor a parameter")
        };
        for a in &f.args {
            match a {
                Arg::Buffer { flat, .. } => {
                    pointers.push(signature.plane(flat).ok_or_else(|| unknown(flat.to_string()))?)
                }
                Arg::Scalar { param, ty } => {
                    let source = Source::of(param, *ty, &signature);
                    scalars.push(source.ok_or_else(|| unknown(param.to_string()))?);
                }
            }
        }
        Ok(Plan { pipeline: f.name.clone(), signature, pointers, scalars })
    }

    fn error(&self, name: &str, message: impl Into<String>) -> Error {
        bind_error(&self.pipeline, name, message)
    }

    /// The failure of a device that the pipeline, or a buffer of it, is on.
    pub(super) fn device_error(&self, error: CudaError) -> Error {
        Error::Device { pipeline: self.pipeline.clone(), error }
    }

    /// Length of the array of pointers.
    pub(super) fn pointer_count(&self) -> usize {
        self.pointers.len()
    }

    /// Length of the array of scalars.
    pub(super) fn scalar_count(&self) -> usize {
        self.scalars.len()
    }

    /// One buffer per slot, from named buffers.
    pub(super) fn match_buffers<'b>(&self, given: &[(&str, &'b Buffer)]) -> Result<Vec<&'b Buffer>, Error> {
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
    pub(super) fn check_slots(&self, slots: &[&Buffer]) -> Result<(), Error> {
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
    pub(super) fn fill_sizes(&self, scalars: &mut [u64], slots: &[&Buffer]) {
        for (to, source) in scalars.iter_mut().zip(&self.scalars) {
            if let Source::Part(slot, part, ty) = *source {
                *to = integer_slot(part_of(slots[slot].spec(), slots[slot].strides(), part), ty);
            }
        }
    }

    /// Fills in all parameters.
    pub(super) fn fill_params(&self, scalars: &mut [u64], given: &[(&str, Scalar)]) -> Result<(), Error> {
        for (name, value) in given {
            self.set_param(scalars, name, *value)?;
        }
        match self.signature.params.keys().find(|p| !given.iter().any(|g| *g.0 == ***p)) {
            Some(missing) => Err(self.error(missing, "no value is given for this parameter")),
            None => Ok(()),
        }
    }

    /// Fills in one parameter.
    pub(super) fn set_param(&self, scalars: &mut [u64], name: &str, value: Scalar) -> Result<(), Error> {
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

    /// Fills in addresses of the host's memory, once that holds the buffers' values.
    pub(super) fn fill_pointers<'b>(
        &self,
        arguments: &mut Arguments,
        slot: impl Fn(usize) -> &'b Buffer,
    ) -> Result<(), Error> {
        let there = |i| slot(i).sync_host().map_err(|e| self.device_error(e));
        (0..self.signature.buffers.len()).try_for_each(there)?;
        arguments.set_pointers(self.pointers.iter().map(|&(s, plane)| slot(s).plane_ptr(plane)));
        Ok(())
    }

    /// Checks what is fixed of strided buffers.
    pub(super) fn check_constraints(&self, looks: &[Look], scalars: &[u64]) -> Result<(), Error> {
        for (slot, look) in self.signature.buffers.iter().zip(looks) {
            for (d, c) in slot.constraints.iter().enumerate() {
                for (part, e) in c.parts(d) {
                    let what = part.noun();
                    let v = self.evaluate(e, looks, scalars).ok_or_else(|| {
                        self.error(&slot.name, format!("the {what} {e} cannot be computed before the run"))
                    })?;
                    let found = look.part(part);
                    // Nobody steps along a dimension of one element.
                    if found != v && !(matches!(part, Part::Step(_)) && look.spec.extents[d] <= 1) {
                        let message = format!("the {what} of dimension {d} must be {v}, it is {found}");
                        return Err(self.error(&slot.name, message));
                    }
                }
            }
        }
        Ok(())
    }

    /// Slots whose values keep a promised range, with that range for buffers of the given sizes.
    pub(super) fn ranges(&self, looks: &[Look], scalars: &[u64]) -> Result<Vec<(usize, i64, i64)>, Error> {
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
    pub(super) fn check_range(&self, slot: usize, b: &Buffer, low: i64, high: i64) -> Result<(), Error> {
        match b.value_outside(low, high).map_err(|e| self.device_error(e))? {
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

    fn param_value(&self, param: &Param, ty: ScalarType, looks: &[Look], scalars: &[u64]) -> Option<i64> {
        match Source::of(param, ty, &self.signature)? {
            Source::Part(slot, part, _) => Some(looks[slot].part(part)),
            Source::Param(_) if !ty.is_int() => None,
            Source::Param(p) => {
                let i = self.scalars.iter().position(|s| matches!(s, Source::Param(q) if *q == p))?;
                Some(ty.wrap(scalars[i] as i64))
            }
        }
    }
}

/// Properties of a buffer that sizes depend on.
#[derive(Clone, PartialEq)]
pub(super) struct Look {
    spec: BufferSpec,
    strides: Vec<i64>,
}

impl Look {
    pub(super) fn of(b: &Buffer) -> Look {
        Look { spec: b.spec().clone(), strides: b.strides().to_vec() }
    }

    pub(super) fn is_of(&self, b: &Buffer) -> bool {
        self.spec == *b.spec() && self.strides == b.strides()
    }

    fn part(&self, part: Part) -> i64 {
        part_of(&self.spec, &self.strides, part)
    }
}

/// A number that describes a buffer.
fn part_of(spec: &BufferSpec, strides: &[i64], part: Part) -> i64 {
    match part {
        Part::Min(d) => spec.min[d].into(),
        Part::Extent(d) => spec.extents[d].into(),
        Part::Stride(d) | Part::Step(d) => strides[d],
        // Nobody asks for it: see `Source::of`.
        Part::Phase => 0,
    }
}

/// An integer in the low bytes of a scalar slot.
fn integer_slot(v: i64, ty: ScalarType) -> u64 {
    if ty.bytes() == 4 { v as u32 as u64 } else { v as u64 }
}

impl Source {
    /// That of `param` as a `ty`; none if the signature has no such thing.
    pub(super) fn of(param: &Param, ty: ScalarType, signature: &Signature) -> Option<Source> {
        match param {
            Param::Named(name) => {
                let (i, _, declared) = signature.params.get_full(name)?;
                (*declared == ty).then_some(Source::Param(i))
            }
            Param::Of(_, Part::Phase) => None,
            Param::Of(of, part) => {
                let slot = signature.first_slot(of)?;
                (part.dimension() < signature.buffers[slot].dims).then_some(Source::Part(slot, *part, ty))
            }
        }
    }
}
