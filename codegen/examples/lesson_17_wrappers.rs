//! Lesson 17: wrappers and clones. One Func, scheduled in several ways.
//!
//! A Func has one schedule for all who read it. Where that is not enough, a schedule can make another Func of the same values: `in_` puts
//! a *wrapper* between a Func, or an input, and some of its consumers, which copies what they need; `clone_in` gives some consumers
//! a *clone*, which computes the values again. The algorithm stays as it is.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_17_wrappers
//! ```

use std::error::Error;
use sumsq_codegen::{
    Buffer, BufferSpec, Compiled, Input, Pipeline, Pool, ScalarType, Schedule, Source, Target, Var,
};

const SIZE: [i32; 2] = [50, 34];

/// squares(x, y) = picture(x, y)^2, read by two outputs: smooth(x, y), the sum of three in a row, and turned(x, y), which reads
/// columns as rows.
fn pipeline() -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("lesson_17");
    let picture = p.input(Input::new("picture", &[ScalarType::I32], 2));
    let squares = p.define("squares", [x, y], picture.of((x, y)) * picture.of((x, y)));
    let smooth =
        p.define("smooth", [x, y], squares.of((x, y)) + squares.of((x + 1, y)) + squares.of((x + 2, y)));
    let turned = p.define("turned", [x, y], squares.of((y, x)));
    p.output(&smooth);
    p.output(&turned);
    p
}

/// Schedules, and what their loop nests must show.
const SCHEDULES: [(&str, &str, &str); 4] = [
    ("one schedule for both", "squares: compute_root", "consume squares:"),
    // The squares are computed once for the picture. `turned` reads them through a copy of a tile, which it may then read column by column.
    (
        "a wrapper of a Func",
        "squares: compute_root in_(turned, as tile)
         turned: split(x, xo, xi, 8, guard) split(y, yo, yi, 8, guard) reorder(xi, yi, xo, yo) parallel(yo)
         tile: compute_at(turned, xo) reorder_storage(y, x)",
        "produce tile:",
    ),
    // An input has no loops and no storage of its own; its wrapper has. Each row is fetched before it is used.
    (
        "a wrapper of an input",
        "picture: in_(squares, as row)
         row: compute_at(squares, y)
         squares: compute_root parallel(y)",
        "produce row:",
    ),
    // `smooth` has squares of its own, a row at a time; `turned` computes each where it is read.
    (
        "a clone",
        "squares: inline clone_in(smooth, as of_rows)
         of_rows: compute_at(smooth, y) split(x, xo, xi, 8, predicate) vectorize(xi)
         smooth: parallel(y)",
        "produce of_rows:",
    ),
];

pub fn main() -> Result<(), Box<dyn Error>> {
    let [width, height] = SIZE;
    let pixels: Vec<i32> = (0..width * height).map(|i| i * i % 101).collect();
    let picture = Buffer::new(BufferSpec::new(ScalarType::I32, &SIZE))?;
    picture.copy_from(&pixels)?;
    let square = |x: i32, y: i32| pixels[(y * width + x) as usize].pow(2);
    let points = |w: i32, h: i32| (0..h).flat_map(move |y| (0..w).map(move |x| (x, y)));
    let sums: Vec<i32> =
        points(width - 2, height).map(|(x, y)| (0..3).map(|d| square(x + d, y)).sum()).collect();
    let columns: Vec<i32> = points(height, width).map(|(x, y)| square(y, x)).collect();

    for (name, text, shown) in SCHEDULES {
        let schedule = Schedule::parse(text)?;
        let nest = pipeline().print_loop_nest(&schedule)?;
        println!("{name}\n{nest}");
        assert!(nest.contains(shown), "{name}");
        let smooth = Buffer::new(BufferSpec::new(ScalarType::I32, &[width - 2, height]))?;
        let turned = Buffer::new(BufferSpec::new(ScalarType::I32, &[height, width]))?;
        let buffers = [("picture", &picture), ("smooth", &smooth), ("turned", &turned)];
        Compiled::new(&pipeline(), &schedule, &Target::host())?.run(&Pool::new(2), &buffers, &[])?;
        assert_eq!(smooth.to_vec::<i32>(), sums, "{name}");
        assert_eq!(turned.to_vec::<i32>(), columns, "{name}");
    }

    // Who reads what is part of the algorithm: a Func that does not read the squares cannot have a wrapper of them.
    let refused = pipeline().print_loop_nest(&Schedule::parse("squares: in_(picture, as copy)")?);
    println!("refused: {}", refused.expect_err("an input reads nothing"));
    Ok(())
}
