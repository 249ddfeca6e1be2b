//! Lesson 2: schedules. The same Func in several loop orders, as vectors, on several threads.
//!
//! A *schedule* is a list of directives per Func. It decides the order of the loops and how each one runs, and can never change
//! a value: the worst that a schedule can do is to be slow, or to be refused. It is data: made by method calls or read from text.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_02_schedules
//! ```

use std::error::Error;
use sumsq_codegen::{
    Buffer, BufferSpec, Compiled, Func, Pipeline, Pool, ScalarType, Schedule, Tail, Target, Var,
};

/// Neither is a multiple of the split factors below.
const WIDTH: i32 = 100;
const HEIGHT: i32 = 30;

/// ramp(x, y) = x y + 1
fn ramp() -> Pipeline {
    let (x, y) = (Var::new("x"), Var::new("y"));
    let value = x.expr() * y.expr() + 1;
    let mut pipeline = Pipeline::new("lesson_02");
    let ramp = pipeline.func(Func::new("ramp", &[x, y], vec![value]));
    pipeline.output(&ramp);
    pipeline
}

/// The schedules, as text. A line names a Func; its directives apply one after the other.
const SCHEDULES: [(&str, &str); 5] = [
    ("columns first", "ramp: reorder(y, x)"),
    // x = 8 xo + xi. The last 4 of the 100 columns do not fill a block: `guard` runs the body only where x < 100.
    ("split", "ramp: split(x, xo, xi, 8, guard)"),
    // The loop over xi becomes the 8 lanes of a vector; in the last block `predicate` turns lanes off.
    ("vectors", "ramp: split(x, xo, xi, 8, predicate) vectorize(xi)"),
    ("unrolled", "ramp: split(y, yo, yi, 2, guard) unroll(yi)"),
    // Strips of 4 rows go to the threads of the pool; within a strip rows are computed as vectors.
    ("threads", "ramp: split(y, yo, yi, 4, guard) parallel(yo) split(x, xo, xi, 8, predicate) vectorize(xi)"),
];

fn computed(pipeline: &Pipeline, schedule: &Schedule) -> Result<Vec<i32>, Box<dyn Error>> {
    let out = Buffer::new(BufferSpec::new(ScalarType::I32, &[WIDTH, HEIGHT]))?;
    let compiled = Compiled::new(pipeline, schedule, &Target::host())?;
    compiled.run(&Pool::new(3), &[("ramp", &out)], &[])?;
    Ok(out.to_vec())
}

pub fn main() -> Result<(), Box<dyn Error>> {
    let pipeline = ramp();
    let want: Vec<i32> = (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| x * y + 1)).collect();
    assert_eq!(computed(&pipeline, &Schedule::new())?, want);

    for (name, text) in SCHEDULES {
        let schedule = Schedule::parse(text)?;
        println!("{name}: {text}\n{}", pipeline.print_loop_nest(&schedule)?);
        assert_eq!(computed(&pipeline, &schedule)?, want);
    }

    // The same as "vectors", by method calls; printing gives the text.
    let mut by_calls = Schedule::new();
    by_calls.func("ramp").split("x", "xo", "xi", 8, Tail::Predicate).vectorize_loop("xi");
    assert_eq!(by_calls.to_string().trim_end(), SCHEDULES[2].1);

    // What cannot be done is refused in words, before anything runs.
    let refused = pipeline.print_loop_nest(&Schedule::parse("ramp: parallel(z)")?);
    println!("refused: {}", refused.expect_err("there is no loop z"));
    Ok(())
}
