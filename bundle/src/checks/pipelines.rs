//! Random pipelines whose schedules have kernels.

use super::Extent;
use super::records::Records;
use std::panic::{AssertUnwindSafe, catch_unwind};
use sumsq::codegen::compile::Compiled;
use sumsq::codegen::runtime::cuda::devices;
use sumsq::codegen::{Directive, Error, ScalarType, Target};
use sumsq_codegen_testing::checked::run_lowered_over;
use sumsq_codegen_testing::native::{compile_for, execute};
use sumsq_codegen_testing::random::program::{Case, program};
use sumsq_codegen_testing::random::refused::drop_refused;
use sumsq_codegen_testing::random::schedules::schedule;
use sumsq_codegen_testing::reference::{Realization, Value};
use sumsq_codegen_testing::rng::Rng;

/// Cases of a run, and of a quick one.
const CASES: (usize, usize) = (150, 8);

/// Seeds that are looked at together, on all cores: what costs time is not the device.
const BATCH: u64 = 64;

/// A case, ready to run.
struct Ready {
    seed: u64,
    case: Case,
    compiled: Result<Compiled, Error>,
}

pub fn pipelines(records: &mut Records, extent: Extent) {
    let target = devices().unwrap_or_else(|e| panic!("{e}"))[0].target();
    let (mut left, mut failures) = (extent.of(CASES.0, CASES.1), vec![]);
    for first in (1..).step_by(BATCH as usize) {
        for ready in batch(first, &target).into_iter().take(left) {
            left -= 1;
            let seed = ready.seed;
            if let Err(e) = run(records, ready) {
                let lost = matches!(e, Error::Device { .. });
                failures.push(format!("seed {seed}: {e}"));
                assert!(!lost, "{}", failures.join("\n"));
            }
        }
        if left == 0 {
            break;
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The cases among a batch of seeds, in their order.
fn batch(first: u64, target: &Target) -> Vec<Ready> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let share = |k: u64| {
        move || -> Vec<Ready> {
            let seeds = (first..first + BATCH).filter(|seed| seed % threads == k);
            seeds.filter_map(|seed| ready(seed, target)).collect()
        }
    };
    let mut all: Vec<Ready> = std::thread::scope(|scope| {
        let shares: Vec<_> = (0..threads).map(|k| scope.spawn(share(k))).collect();
        shares.into_iter().flat_map(|s| s.join().expect("panics are caught")).collect()
    });
    all.sort_by_key(|r| r.seed);
    all
}

fn ready(seed: u64, target: &Target) -> Option<Ready> {
    let mut case = case(seed)?;
    // A vector inside of a warp is refused by the pass that makes warps, which only a GPU's code has.
    loop {
        match compile_for(&case.pipeline, &case.schedule, target) {
            Err(e @ Error::Schedule { .. }) if drop_refused(&mut case, &e) && case.has_kernels() => {}
            Err(Error::Schedule { .. }) => return None,
            compiled => return Some(Ready { seed, case, compiled }),
        }
    }
}

/// The case of a seed, if it has kernels and runs on memory that notices races and stray accesses.
fn case(seed: u64) -> Option<Case> {
    let mut rng = Rng::new(seed);
    let mut case = program(&mut rng);
    schedule(&mut rng, &mut case);
    let empty = case.bindings.inputs.values().any(|r| r.extents.contains(&0))
        || case.domains.iter().flatten().any(|d| d.1 == 0);
    // The order of atomic sums of floats is nobody's; those of bytes and halves exchange the words around them, which the interpreter may
    // take for a stray access.
    let atomic = case.schedule.stages.values().flatten().any(|d| matches!(d, Directive::Atomic));
    let types: Vec<ScalarType> = case.pipeline.funcs.values().flat_map(|f| f.types()).collect();
    let apart = types.iter().any(|t| t.is_float() || t.bytes() < 4);
    while case.has_kernels() && !empty && !(atomic && apart) {
        let lowered = || run_lowered_over(&case.pipeline, &case.schedule, &case.bindings, &case.domains);
        match catch_unwind(AssertUnwindSafe(lowered)) {
            Ok(Ok(_)) => return Some(case),
            Ok(Err(e)) if drop_refused(&mut case, &e) => {}
            _ => return None,
        }
    }
    None
}

fn run(records: &mut Records, Ready { seed, case, compiled }: Ready) -> Result<(), Error> {
    let (p, s) = (&case.pipeline, &case.schedule);
    let compiled = compiled?;
    let name = format!("seed_{seed}");
    let text = s.to_string().lines().map(|l| format!("// {l}\n")).collect::<String>();
    if !records.begin(&name, &format!("{text}{}", compiled.ptx().unwrap_or_default())) {
        return Ok(());
    }
    for (k, output) in execute(p, &compiled, &case.bindings, &case.domains, 1)?.iter().enumerate() {
        records.add(&format!("{name}/{k}"), 8, &bytes(output));
    }
    Ok(())
}

/// All values of an output, eight bytes each. Any NaN is one of them.
fn bytes(r: &Realization) -> Vec<u8> {
    let word = |(v, ty): (&Value, ScalarType)| match v {
        Value::Int(v) => *v as u64,
        Value::Float(v) if v.is_nan() => f64::NAN.to_bits(),
        Value::Float(v) => (if ty == ScalarType::F32 { f64::from(*v as f32) } else { *v }).to_bits(),
    };
    let planes = r.planes.iter().zip(&r.types);
    planes
        .flat_map(|(plane, ty)| plane.iter().map(|v| (v, *ty)))
        .flat_map(|v| word(v).to_le_bytes())
        .collect()
}
