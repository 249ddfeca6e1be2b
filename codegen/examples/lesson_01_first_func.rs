//! Lesson 1: a first Func, compiled and run.
//!
//! A *Func* says what its value is at every point of an infinite grid, and nothing about when or where that is computed. A
//! *pipeline* names the Funcs whose values go to memory: its outputs. Compiling it gives machine code for every size; the size
//! is that of the buffer which is bound when the code runs.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_01_first_func
//! ```

use std::error::Error;
use sumsq_codegen::{Buffer, BufferSpec, Compiled, Func, Pipeline, Pool, ScalarType, Schedule, Target, Var};

pub fn main() -> Result<(), Box<dyn Error>> {
    // Two variables name the dimensions of the grid, the fastest in memory first. As expressions they are 32-bit integers.
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());

    // gradient(x, y) = x + 10 y. A Func may have several values per point, hence the vector.
    let mut pipeline = Pipeline::new("lesson_01");
    let gradient = pipeline.func(Func::new("gradient", &[vx, vy], vec![&x + &y * 10]));
    pipeline.output(&gradient);

    // The empty schedule: a loop over y around a loop over x.
    let schedule = Schedule::new();
    println!("{}", pipeline.print_loop_nest(&schedule)?);

    // Machine code for this processor, and threads to run it on.
    let compiled = Compiled::new(&pipeline, &schedule, &Target::host())?;
    let pool = Pool::new(2);

    // The same code fills buffers of any size.
    for [width, height] in [[8, 4], [3, 5]] {
        let out = Buffer::new(BufferSpec::new(ScalarType::I32, &[width, height]))?;
        compiled.run(&pool, &[("gradient", &out)], &[])?;
        for row in out.to_vec::<i32>().chunks(width as usize) {
            println!("{row:2?}");
        }
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            assert_eq!(out.get::<i32>(&[x, y], 0), Some(x + 10 * y));
        }
        println!();
    }
    Ok(())
}
