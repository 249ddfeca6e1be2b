//! Runs a case through the whole compiler and compares it with the reference.

use crate::refusals::{at_run_time, check};
use std::panic::{AssertUnwindSafe, catch_unwind};
use sumsq_codegen::limits::Effort;
use sumsq_codegen::lower::expand_math::expand_math_expr;
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::stack::on_large_stack;
use sumsq_codegen::{Error, Expr, Pipeline, Schedule};
use sumsq_codegen_testing::checked::{
    TOO_LARGE, TOO_LONG, run_function_over, run_lowered_over, run_nests_over,
};
use sumsq_codegen_testing::random::approximate::bounds;
use sumsq_codegen_testing::random::program::Case;
use sumsq_codegen_testing::reference::{Realization, evaluate_over};

/// Outcome of a case.
pub enum Outcome {
    /// The same as the reference.
    Same,
    /// The schedule was refused.
    Refused(Error),
    /// It was refused by a run; true if its reason was seen.
    RefusedByRun(Error, bool),
    /// It needs more memory or time than a test should.
    TooLarge,
    /// Anything else, in words.
    Wrong(String),
}

/// Results of the reference: they are those of the program, whatever its schedule.
pub struct Expected {
    plain: Vec<Realization>,
    /// With functions as the arithmetic that lowering makes of them.
    expanded: Vec<Realization>,
}

/// Runs a case on checked memory, lowered and if it says so as nests, where a stray access or a race is found before it does harm, then
/// as machine code on pools of 1 and 3 threads, and if it has kernels on a stand-in for a GPU. Panics are caught. `expected` is kept for the
/// same program under another schedule.
pub fn run(case: &Case, expected: &mut Option<Expected>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| compare(case, expected))) {
        Ok(Ok(())) => Outcome::Same,
        Ok(Err(Failure::Error(e @ Error::Schedule { .. }))) => Outcome::Refused(e),
        // Before refusals: what follows its first line is the statement, which may hold any text.
        Ok(Err(Failure::Error(e))) if [TOO_LARGE, TOO_LONG].iter().any(|t| e.to_string().contains(t)) => {
            Outcome::TooLarge
        }
        Ok(Err(Failure::Error(e))) if at_run_time(&e) => match check(case, &e) {
            Ok(seen) => Outcome::RefusedByRun(e, seen),
            Err(why) => Outcome::Wrong(why),
        },
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

fn compare(case: &Case, expected: &mut Option<Expected>) -> Result<(), Failure> {
    let (p, b) = (&case.pipeline, &case.bindings);
    let text = case.schedule.to_string();
    // As it is read back: which names of an expression are variables is decided where it is applied.
    let s = &Schedule::parse(&text).map_err(|e| Failure::Mismatch(format!("is not read back: {e}")))?;
    if s.to_string() != text {
        return Err(Failure::Mismatch(format!("read back, the schedule is another:\n{s}")));
    }
    let empty_input = b.inputs.values().any(|r| r.extents.contains(&0));
    if empty_input || case.domains.iter().flatten().any(|d| d.1 == 0) {
        return refused_as_empty(case, s);
    }
    let code = on_large_stack(|| lower(p, s, &LowerOptions { verify: true, ..LowerOptions::default() }))?;
    let Expected { plain, expanded } = match expected {
        Some(known) => known,
        None => expected.insert(Expected {
            plain: evaluate_over(p, b, &case.domains)?,
            expanded: evaluate_over(&expanded(p), b, &case.domains)?,
        }),
    };
    let bounds = bounds(case)?;
    let same = |got: &[Realization], expected: &[Realization], by: &str| -> Result<(), Failure> {
        let outputs = p.outputs.iter().zip(expected);
        for ((o, want), (got, bounds)) in outputs.zip(got.iter().zip(&bounds)) {
            let difference = |m| Failure::Mismatch(format!("{by}: {}{m}", o.func));
            near(want, got, bounds).map_err(difference)?;
        }
        Ok(())
    };
    if case.by.nests {
        let nests = run_nests_over(p, s, b, &case.domains)?;
        same(&nests.outputs, plain, "nests")?;
    }
    let lowered = run_function_over(&code, p, s, b, &case.domains)?;
    same(&lowered.outputs, expanded, "lowered")?;
    let effort = if case.by.optimised { Effort::Full } else { Effort::Least };
    let compiled = sumsq_codegen_testing::native::compile_lowered(&code, p, s, effort)?;
    for threads in [1, 3] {
        let outputs = sumsq_codegen_testing::native::execute(p, &compiled, b, &case.domains, threads)?;
        same(&outputs, expanded, &format!("{threads} threads"))?;
    }
    if case.has_kernels() {
        let compiled = sumsq_codegen_testing::native::compile_for_gpu(p, s)?;
        let outputs = sumsq_codegen_testing::native::execute(p, &compiled, b, &case.domains, 1)?;
        same(&outputs, expanded, "on a GPU")?;
    }
    if case.by.ahead
        && let Some(outputs) = crate::ahead::run(case, s)?
    {
        same(&outputs, expanded, "ahead of time")?;
    }
    Ok(())
}

/// Buffers without elements are refused by a run, whatever the schedule.
fn refused_as_empty(case: &Case, s: &Schedule) -> Result<(), Failure> {
    let (p, b) = (&case.pipeline, &case.bindings);
    let compiled = sumsq_codegen_testing::native::compile(p, s)?;
    let runs = [
        run_lowered_over(p, s, b, &case.domains).err(),
        sumsq_codegen_testing::native::execute(p, &compiled, b, &case.domains, 2).err(),
    ];
    for refused in runs {
        let text = refused.map_or("it runs".to_string(), |e| e.to_string());
        if !text.contains("must be at least 1, it is") {
            return Err(Failure::Mismatch(format!("an empty buffer: {text}")));
        }
    }
    Ok(())
}

/// The pipeline with sin, cos, exp and log as the arithmetic that lowering makes of them, whose results are the same to the bit.
fn expanded(p: &Pipeline) -> Pipeline {
    let mut p = p.clone();
    let expand = |all: &mut Vec<Expr>| all.iter_mut().for_each(|e| *e = expand_math_expr(e));
    for f in p.funcs.values_mut() {
        expand(&mut f.values);
        for u in &mut f.updates {
            expand(&mut u.args);
            expand(&mut u.values);
            u.rdom.predicate.iter_mut().for_each(|e| *e = expand_math_expr(e));
        }
    }
    p
}

/// Says where `got` is further from `want` than the bounds allow; 0 allows no other bits.
fn near(want: &Realization, got: &Realization, bounds: &[Vec<f64>]) -> Result<(), String> {
    for (k, (plane, bounds)) in want.planes.iter().zip(bounds).enumerate() {
        for ((at, &w), &bound) in want.points().iter().zip(plane).zip(bounds) {
            let Some(g) = got.get(at, k) else { return Err(format!(".{k}{at:?} is missing")) };
            let near = bound > 0.0 && ((g.as_f64() - w.as_f64()).abs() <= bound || bound == f64::INFINITY);
            if !g.same(w) && !near {
                return Err(format!(".{k}{at:?} is {g}, not {w} within {bound}"));
            }
        }
    }
    Ok(())
}
