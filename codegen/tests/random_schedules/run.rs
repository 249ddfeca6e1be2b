//! Runs a case through the whole compiler and compares it with the reference.

use crate::common::try_check;
use crate::program::Case;
use std::panic::{AssertUnwindSafe, catch_unwind};
use sumsq_codegen::backend::HostTarget;
use sumsq_codegen::compile::{Compiled, Signature};
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::reference::{Realization, Value, evaluate};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_codegen::{Error, ScalarType};

/// What came of a case.
pub enum Outcome {
    /// The same as the reference.
    Same,
    /// The schedule was refused.
    Refused(Error),
    /// Anything else, in words.
    Wrong(String),
}

/// Relative error that is allowed on checked memory to sums that may be reordered; machine code keeps [`bounds`].
const LOOSE: f64 = 1e-4;

/// Runs a case on checked memory, where a stray access is found before it does harm, then as machine code on
/// pools of 1 and 3 threads. Panics are caught.
pub fn run(case: &Case) -> Outcome {
    let attempt = catch_unwind(AssertUnwindSafe(|| {
        let tolerance = if case.free_sums.is_empty() { 0.0 } else { LOOSE };
        try_check(&case.pipeline, &case.schedule, &case.bindings, &case.extents, tolerance)?;
        compare(case)
    }));
    match attempt {
        Ok(Ok(())) => Outcome::Same,
        Ok(Err(Failure::Error(e @ Error::Schedule { .. }))) => Outcome::Refused(e),
        Ok(Err(Failure::Error(e))) => Outcome::Wrong(e.to_string()),
        Ok(Err(Failure::Mismatch(m))) => Outcome::Wrong(m),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            Outcome::Wrong(format!("panic: {}", text.unwrap_or_default()))
        }
    }
}

enum Failure {
    Error(Error),
    Mismatch(String),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure::Error(e)
    }
}

fn compare(case: &Case) -> Result<(), Failure> {
    let p = &case.pipeline;
    let options = LowerOptions { verify: true, ..LowerOptions::default() };
    let lowered = lower(p, &case.schedule, &options)?;
    let compiled = Compiled::from_lowered(&lowered, Signature::of(p, &case.schedule)?, &HostTarget::host())?;
    let expected = evaluate(p, &case.bindings, &case.extents)?;
    let bounds = bounds(case)?;
    for threads in [1, 3] {
        let outputs = execute(case, &compiled, threads)?;
        for ((o, want), (got, bound)) in p.outputs.iter().zip(&expected).zip(outputs.iter().zip(&bounds)) {
            for (k, plane) in want.planes.iter().enumerate() {
                for (at, &w) in want.points().iter().zip(plane) {
                    let g = read(got, at, k, want.types[k]);
                    let near = bound.as_ref().is_some_and(|b| (g.as_f64() - w.as_f64()).abs() <= b[k]);
                    if !g.same(w) && !near {
                        return Err(Failure::Mismatch(format!(
                            "{}.{k}{at:?} is {g}, not {w} ({threads} threads)",
                            o.func
                        )));
                    }
                }
            }
        }
    }
    Ok(())
}

/// The largest error of each output's elements under reordering, or none where the order is fixed: two orders of n
/// additions each err by at most (n - 1) u sum|t| / (1 - (n - 1) u), u being half the spacing at 1 (Higham 2002, 4.2).
fn bounds(case: &Case) -> Result<Vec<Option<Vec<f64>>>, Failure> {
    let mut bounds = vec![];
    for o in &case.pipeline.outputs {
        let Some((magnitude, terms)) = case.free_sums.get(&o.func) else {
            bounds.push(None);
            continue;
        };
        let ty = case.pipeline.funcs[&o.func].types()[0];
        let mut p = case.pipeline.clone();
        p.outputs.clear();
        let magnitude = p.func(magnitude.clone());
        p.output(&magnitude);
        let sums = evaluate(&p, &case.bindings, &[vec![]])?;
        let unit = if ty == ScalarType::F32 { f32::EPSILON as f64 } else { f64::EPSILON } / 2.0;
        let n = *terms as f64 * unit;
        bounds.push(Some(sums[0].planes.iter().map(|v| 2.0 * n / (1.0 - n) * v[0].as_f64()).collect()));
    }
    Ok(bounds)
}

fn execute(case: &Case, compiled: &Compiled, threads: usize) -> Result<Vec<Buffer>, Failure> {
    let p = &case.pipeline;
    let new = |types: &[ScalarType], extents: &[usize]| {
        let extents: Vec<i32> = extents.iter().map(|&n| n as i32).collect();
        Buffer::new(BufferSpec::new(types[0], &extents).channels(types.len())).map_err(Failure::Mismatch)
    };
    let mut inputs = vec![];
    for (name, input) in &p.inputs {
        let r = &case.bindings.inputs[name];
        let buffer = new(&input.types, &r.extents)?;
        fill(&buffer, r);
        inputs.push((&**name, buffer));
    }
    let mut outputs = vec![];
    for (o, extents) in p.outputs.iter().zip(&case.extents) {
        outputs.push(new(&p.funcs[&o.func].types(), extents)?);
    }
    let names = p.outputs.iter().map(|o| &*o.func);
    let buffers: Vec<(&str, &Buffer)> =
        inputs.iter().map(|(n, b)| (*n, b)).chain(names.zip(&outputs)).collect();
    let params: Vec<(&str, Scalar)> = case
        .bindings
        .params
        .iter()
        .map(|(n, v)| (&**n, Scalar::I32(v.as_int().unwrap_or(0) as i32)))
        .collect();
    compiled.run(&Pool::new(threads), &buffers, &params)?;
    Ok(outputs)
}

fn fill(buffer: &Buffer, r: &Realization) {
    for at in r.points() {
        for k in 0..r.types.len() {
            match r.get(&at, k) {
                Some(Value::Int(v)) => buffer.set(&at, k, v),
                Some(Value::Float(v)) => buffer.set(&at, k, v),
                None => false,
            };
        }
    }
}

fn read(buffer: &Buffer, at: &[i32], k: usize, ty: ScalarType) -> Value {
    if ty.is_float() {
        Value::Float(buffer.get::<f64>(at, k).unwrap_or(f64::NAN))
    } else {
        Value::Int(buffer.get::<i64>(at, k).unwrap_or(i64::MIN))
    }
}
