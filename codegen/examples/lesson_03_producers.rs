//! Lesson 3: producers and consumers. Where a Func is computed, where it is stored, and what that costs.
//!
//! `blur` reads three neighbouring rows of `wide`. Each row of `wide` may be computed once and kept for long, again and again
//! whenever it is needed, or once and kept for just as long as it is needed: `compute_at` and `store_at` decide.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_03_producers
//! ```

use std::error::Error;
use sumsq_codegen::{
    Buffer, BufferSpec, Compiled, Expr, Func, Pipeline, Pool, ScalarType, Schedule, Target, Var,
};

const SIZE: [i32; 2] = [64, 48];

/// Returns what stands for costly work: wide(x, y) = x^2 + 3 y.
fn wide(x: i32, y: i32) -> i32 {
    x * x + 3 * y
}

/// blur(x, y) = wide(x, y - 1) + wide(x, y) + wide(x, y + 1)
fn two_stages() -> Pipeline {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());
    let mut pipeline = Pipeline::new("lesson_03");
    let wide = pipeline.func(Func::new("wide", &[vx, vy], vec![&x * &x + &y * 3]));
    let row = |dy: i64| -> Expr { wide.at(&[x.clone(), &y + dy], 0) };
    let sum = row(-1) + row(0) + row(1);
    let blur = pipeline.func(Func::new("blur", &[vx, vy], vec![sum]));
    pipeline.output(&blur);
    pipeline
}

/// Schedules, and what their loop nests must show.
const SCHEDULES: [(&str, &str, &str); 4] = [
    // The default for a Func without updates: its definition is copied to where it is read, so nothing is stored and every value
    // is computed three times.
    ("inlined", "wide: inline", "blur(...) = ..."),
    // All of it before the first value of blur: computed once, and as large as the picture.
    ("at root", "wide: compute_root", "consume wide:"),
    // In each strip of 8 rows, the 10 rows that the strip reads: a quarter more work, storage for ten rows, parallel strips.
    (
        "in strips",
        "blur: split(y, yo, yi, 8, guard) parallel(yo)\nwide: compute_at(blur, yo)",
        "parallel for yo:",
    ),
    // Computed row by row, but stored outside of the loop over the rows of a strip: each iteration finds two of its three rows in
    // storage and adds one. Four rows are enough, used in turn. This is a sliding window.
    (
        "sliding",
        "blur: split(y, yo, yi, 16, guard)\nwide: store_at(blur, yo) compute_at(blur, yi)",
        "store wide, y modulo 4 (slides along y over yi):",
    ),
];

fn computed(pipeline: &Pipeline, schedule: &Schedule) -> Result<Vec<i32>, Box<dyn Error>> {
    let out = Buffer::new(BufferSpec::new(ScalarType::I32, &SIZE))?;
    let compiled = Compiled::new(pipeline, schedule, &Target::host())?;
    compiled.run(&Pool::new(2), &[("blur", &out)], &[])?;
    Ok(out.to_vec())
}

pub fn main() -> Result<(), Box<dyn Error>> {
    let pipeline = two_stages();
    let at = |x, y| wide(x, y - 1) + wide(x, y) + wide(x, y + 1);
    let want: Vec<i32> = (0..SIZE[1]).flat_map(|y| (0..SIZE[0]).map(move |x| at(x, y))).collect();
    for (name, text, shown) in SCHEDULES {
        let schedule = Schedule::parse(text)?;
        let nest = pipeline.print_loop_nest(&schedule)?;
        println!("{name}\n{text}\n\n{nest}");
        assert!(nest.contains(shown), "{name}");
        assert_eq!(computed(&pipeline, &schedule)?, want, "{name}");
    }
    Ok(())
}
