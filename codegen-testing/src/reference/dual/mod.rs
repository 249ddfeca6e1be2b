//! Gradients of whole pipelines by dual numbers: the reference evaluator, over values that know their slopes along one direction.

use super::evaluate::{Planes, realizations, run};
use super::number::Number;
use super::{Bindings, Realization, Value};
use sumsq_codegen::error::Error;
use sumsq_codegen::func::Pipeline;
use sumsq_codegen::types::ScalarType;

/// A value and what it changes by along the direction.
#[derive(Clone, Copy)]
struct Dual {
    value: Value,
    /// In f64, not rounded to the type of the value.
    slope: f64,
}

impl Number for Dual {
    fn new(value: Value, slope: impl FnOnce() -> f64) -> Dual {
        let slope = match value {
            Value::Int(_) => 0.0,
            Value::Float(_) => slope(),
        };
        Dual { value, slope }
    }
    fn value(self) -> Value {
        self.value
    }
    fn slope(self) -> f64 {
        self.slope
    }
}

/// Every output of `p` over its domain, as [`evaluate_over`](super::evaluate_over) has it bit for bit, and its slope along a direction:
/// `J v`, in f64, 0 for integers.
///
/// `directions` holds v: of float inputs (over the same domain; in f64, for nothing to be rounded) and of float parameters. What is absent
/// does not move, and integers never do.
pub fn evaluate_dual(
    p: &Pipeline,
    bindings: &Bindings,
    directions: &Bindings,
    domains: &[Vec<(i32, usize)>],
) -> Result<(Vec<Realization>, Vec<Realization>), Error> {
    let outputs = run::<Dual>(p, bindings, directions, domains)?;
    let part = |of: fn(&Dual) -> Value| -> Vec<Planes<Value>> {
        let plane = |plane: &Vec<Dual>| plane.iter().map(of).collect();
        outputs.iter().map(|planes| planes.iter().map(plane).collect()).collect()
    };
    let values = realizations(p, domains, part(|n| n.value));
    let mut slopes = realizations(p, domains, part(|n| Value::Float(n.slope)));
    for r in &mut slopes {
        r.types.fill(ScalarType::F64);
    }
    Ok((values, slopes))
}

#[cfg(test)]
mod tests;
