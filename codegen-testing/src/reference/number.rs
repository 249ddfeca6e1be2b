//! The scalars that the evaluator computes with: values alone, or values with slopes.
//!
//! One evaluator serves both, and takes every value from [`value`]: those beside slopes are the same bits as those alone.

use super::slope;
use super::value::{self, IllTyped, Value};
use sumsq_codegen::expr::{BinaryOp, UnaryOp};
use sumsq_codegen::types::ScalarType;

/// A value, and what it changes by along a direction if that is asked for.
pub trait Number: Copy + Send {
    /// A number of this value. Its slope is computed if the number has one and the value is a float.
    fn new(value: Value, slope: impl FnOnce() -> f64) -> Self;
    /// The value.
    fn value(self) -> Value;
    /// The slope: 0 of integers, and of numbers without slopes.
    fn slope(self) -> f64;
}

impl Number for Value {
    fn new(value: Value, _: impl FnOnce() -> f64) -> Value {
        value
    }
    fn value(self) -> Value {
        self
    }
    fn slope(self) -> f64 {
        0.0
    }
}

/// A number that depends on no direction.
pub fn constant<N: Number>(value: Value) -> N {
    N::new(value, || 0.0)
}

/// The value as f64, and the slope: an operand of [`slope`]'s functions.
fn moving<N: Number>(a: N) -> (f64, f64) {
    (a.value().as_f64(), a.slope())
}

/// [`value::cast`]: a conversion between floats keeps the slope.
pub fn cast<N: Number>(from: ScalarType, to: ScalarType, a: N) -> N {
    N::new(value::cast(from, to, a.value()), || a.slope())
}

/// [`value::reinterpret`]: bits have no slope.
pub fn reinterpret<N: Number>(from: ScalarType, to: ScalarType, a: N) -> Result<N, IllTyped> {
    value::reinterpret(from, to, a.value()).map(constant)
}

/// [`value::unary`] with its slope.
pub fn unary<N: Number>(op: UnaryOp, ty: ScalarType, a: N) -> Result<N, IllTyped> {
    Ok(N::new(value::unary(op, ty, a.value())?, || slope::unary(op, moving(a))))
}

/// [`value::binary`] with its slope.
pub fn binary<N: Number>(op: BinaryOp, ty: ScalarType, a: N, b: N) -> Result<N, IllTyped> {
    let value = value::binary(op, ty, a.value(), b.value())?;
    Ok(N::new(value, || slope::binary(op, ty, moving(a), moving(b))))
}

/// [`value::fma`] with its slope.
pub fn fma<N: Number>(ty: ScalarType, a: N, b: N, c: N) -> Result<N, IllTyped> {
    let value = value::fma(ty, a.value(), b.value(), c.value())?;
    Ok(N::new(value, || slope::fma(moving(a), moving(b), c.slope())))
}
