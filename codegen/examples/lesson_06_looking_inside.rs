//! Lesson 6: looking inside, and code ahead of time.
//!
//! What a schedule does is best read off the loop nest; where time goes is in the profile; and what was tuned may be compiled
//! once, to an object file with a C header, for programs that carry no compiler.
//!
//! ```sh
//! SUMSQ_PROFILE=1 cargo run -p sumsq-codegen --example lesson_06_looking_inside
//! SUMSQ_DUMP=/tmp/dump cargo run -p sumsq-codegen --example lesson_06_looking_inside   # every pass, and the assembly
//! ```

use std::error::Error;
use sumsq_codegen::compile::aot::compile_to_object;
use sumsq_codegen::runtime::profile;
use sumsq_codegen::{
    Buffer, BufferSpec, Compiled, Expr, Func, Pipeline, Pool, ScalarType, Schedule, Target, Var,
};

/// out(x) = waves(x) + waves(x + 1), waves(x) = sin(x / 10)
fn waves() -> Pipeline {
    let v = Var::new("x");
    let x = v.expr();
    let mut pipeline = Pipeline::new("lesson_06");
    let value = (x.cast(ScalarType::F32) / 10.0).sin();
    let waves = pipeline.func(Func::new("waves", std::slice::from_ref(&v), vec![value]));
    let at = |dx: i64| -> Expr { waves.at(&[&x + dx], 0) };
    let out = pipeline.func(Func::new("out", &[v], vec![at(0) + at(1)]));
    pipeline.output(&out);
    pipeline
}

const SCHEDULE: &str = "
    waves: compute_root split(x, xo, xi, 8, round_up) vectorize(xi)
    out: split(x, xo, xi, 8, predicate) vectorize(xi)
";

pub fn main() -> Result<(), Box<dyn Error>> {
    let (pipeline, schedule) = (waves(), Schedule::parse(SCHEDULE)?);

    // The loops, without guards and bounds.
    let nest = pipeline.print_loop_nest(&schedule)?;
    println!("{nest}");
    assert!(nest.contains("produce waves:"));

    // With SUMSQ_PROFILE=1 in the environment the code tells which Func it computes: time and memory per Func.
    const LENGTH: i32 = 1000;
    let out = Buffer::new(BufferSpec::new(ScalarType::F32, &[LENGTH]))?;
    Compiled::new(&pipeline, &schedule, &Target::host())?.run(&Pool::new(1), &[("out", &out)], &[])?;
    if profile::enabled() {
        println!("{}", profile::report());
    }
    for (i, value) in out.to_vec::<f32>().into_iter().enumerate() {
        let want = (i as f32 / 10.0).sin() + ((i + 1) as f32 / 10.0).sin();
        assert!((value - want).abs() < 1e-5, "{i}: {value} and {want}");
    }

    // The same pipeline as an object file and a header. `Library::write` and `write_runtime` put them and the C runtime that they
    // need (two files) into a folder; `cc program.c lesson_06.o sumsq_runtime.c -lm -lpthread` makes a program of them.
    let library = compile_to_object(&pipeline, &schedule, &Target::host())?;
    println!("{}", library.header);
    assert!(library.header.contains("int lesson_06(") && !library.object.is_empty());
    Ok(())
}
