//! Lesson 20: how fast compiled code is called.
//!
//! Compiling takes milliseconds, a run microseconds: compile once. `Compiled::run` checks names, types and sizes of what it is given each time;
//! `Compiled::bind` does so once for many runs, between which parameters and the values of buffers may change. A schedule is text and may
//! come from a file: what was tuned needs no new program.
//!
//! ```sh
//! cargo run --release -p sumsq-codegen --example lesson_20_calls
//! ```

use std::error::Error;
use std::time::Instant;
use sumsq_codegen::runtime::Scalar;
use sumsq_codegen::{
    Buffer, BufferSpec, Compiled, Input, Pipeline, Pool, ScalarType, Schedule, Source, Target, Var,
};

const SIZE: i32 = 256;
const RUNS: u32 = 200;

/// scaled(x) = gain * signal(x)
fn pipeline() -> Pipeline {
    let [x] = Var::all(["x"]);
    let mut p = Pipeline::new("lesson_20");
    let signal = p.input(Input::new("signal", &[ScalarType::F32], 1));
    let gain = p.param("gain", ScalarType::F32);
    let scaled = p.define("scaled", [x], gain * signal.of(x));
    p.output(&scaled);
    p
}

pub fn main() -> Result<(), Box<dyn Error>> {
    // Text that is read, printed, and read again says the same.
    let schedule = Schedule::parse("scaled: vectorize(x, 8) // eight at a time")?;
    assert_eq!(Schedule::parse(&schedule.to_string())?.to_string(), schedule.to_string());

    let started = Instant::now();
    let compiled = Compiled::new(&pipeline(), &schedule, &Target::host())?;
    println!("compiled in {:?}, or found in the user's cache", started.elapsed());

    let signal = Buffer::new(BufferSpec::new(ScalarType::F32, &[SIZE]))?;
    let scaled = Buffer::new(BufferSpec::new(ScalarType::F32, &[SIZE]))?;
    let values: Vec<f32> = (0..SIZE).map(|x| x as f32).collect();
    signal.copy_from(&values)?;
    let (pool, buffers) = (Pool::new(1), [("signal", &signal), ("scaled", &scaled)]);
    let times = |factor: f32| values.iter().map(|v| factor * v).collect::<Vec<f32>>();

    let started = Instant::now();
    for _ in 0..RUNS {
        compiled.run(&pool, &buffers, &[("gain", Scalar::F32(2.0))])?;
    }
    println!("{:?} for a run that checks its arguments", started.elapsed() / RUNS);
    assert_eq!(scaled.to_vec::<f32>(), times(2.0));

    let mut bound = compiled.bind(&buffers, &[("gain", Scalar::F32(2.0))])?;
    let started = Instant::now();
    for _ in 0..RUNS {
        bound.run(&pool)?;
    }
    println!("{:?} for one of what is bound", started.elapsed() / RUNS);

    // What is bound sees new values of its buffers, and takes new parameters of the type that they have.
    signal.copy_from(&times(10.0))?;
    bound.set_param("gain", Scalar::F32(0.5))?;
    bound.run(&pool)?;
    assert_eq!(scaled.to_vec::<f32>(), times(5.0));
    let refused = bound.set_param("gain", Scalar::I32(1)).expect_err("it is of another type");
    println!("{refused}");
    let missing = compiled.bind(&buffers, &[]).err().expect("the gain is missing");
    println!("{missing}");
    Ok(())
}
