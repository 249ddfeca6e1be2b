//! Runs a case through the whole compiler and compares it with the reference.

use crate::common::try_check_over;
use crate::native;
use crate::program::Case;
use std::panic::{AssertUnwindSafe, catch_unwind};
use sumsq_codegen::checked::TOO_LARGE;
use sumsq_codegen::reference::{evaluate, evaluate_over};
use sumsq_codegen::{Error, ScalarType};

/// What came of a case.
pub enum Outcome {
    /// The same as the reference.
    Same,
    /// The schedule was refused.
    Refused(Error),
    /// It needs more memory than a test should.
    TooLarge,
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
        try_check_over(&case.pipeline, &case.schedule, &case.bindings, &case.domains, tolerance)?;
        compare(case)
    }));
    match attempt {
        Ok(Ok(())) => Outcome::Same,
        Ok(Err(Failure::Error(e @ Error::Schedule { .. }))) => Outcome::Refused(e),
        Ok(Err(Failure::Error(e))) if e.to_string().contains(TOO_LARGE) => Outcome::TooLarge,
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
    let compiled = native::compile(p, &case.schedule)?;
    let expected = evaluate_over(p, &case.bindings, &case.domains)?;
    let bounds = bounds(case)?;
    for threads in [1, 3] {
        let outputs = native::execute(p, &compiled, &case.bindings, &case.domains, threads)?;
        for ((o, want), (got, bound)) in p.outputs.iter().zip(&expected).zip(outputs.iter().zip(&bounds)) {
            for (k, plane) in want.planes.iter().enumerate() {
                for (at, &w) in want.points().iter().zip(plane) {
                    let Some(g) = got.get(at, k) else { continue };
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
