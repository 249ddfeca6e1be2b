//! Lesson 10: updates. Several of them, scans, and schedules of their own.
//!
//! A Func may have any number of updates. They run in the order in which they were added, each over all that it writes before the
//! next begins. An update may read its own Func: that is how a running sum is said. Each one is a stage with loops and directives of
//! its own: `f` is the pure definition, `f.update(0)` the first update.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_10_updates
//! ```

use std::error::Error;
use sumsq_codegen::{
    Buffer, BufferSpec, Compiled, Expr, Input, Pipeline, Pool, RDom, ScalarType, Schedule, Source, Target,
    Var,
};

const SIZE: [i32; 2] = [45, 28];
/// Width and height of the boxes that are summed.
const BOX: i32 = 4;

/// frame(x, y) = x + y; then row 0 is 100; then column 2 is doubled.
fn frame() -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("frame");
    let frame = p.define("frame", [x, y], x + y);
    // No reduction domain: the update is for every x, in row 0.
    let frame = p.update(&frame, (x, 0), 100, &RDom::default());
    // It finds what the first update did: column 2 of row 0 becomes 200. A variable that an update keeps, here y, stands in its own place
    // wherever the update reads or writes the Func.
    let frame = p.update(&frame, (2, y), frame.of((2, y)) * 2, &RDom::default());
    p.output(&frame);
    p
}

/// table(x, y) = the sum of all pixels left of and above (x, y), these included; boxes(x, y) = the sum of a box of pixels, from
/// four values of the table.
fn boxes() -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("lesson_10");
    let picture = p.input(Input::new("picture", &[ScalarType::U8], 2));
    let table = p.define("table", [x, y], picture.of((x, y)).cast(ScalarType::I32));
    // Along each row from its second pixel on: what is there, and what the sum was before.
    let along = RDom::new([("rx", Expr::from(1), picture.extent(0) - 1)]);
    let table = p.add_to(&table, (along.var(0), y), table.of((along.var(0) - 1, y)), &along);
    // Then down each column.
    let down = RDom::new([("ry", Expr::from(1), picture.extent(1) - 1)]);
    let table = p.add_to(&table, (x, down.var(0)), table.of((x, down.var(0) - 1)), &down);
    let corner = |dx: i32, dy: i32| table.of((x + dx, y + dy));
    let sum = corner(BOX, BOX) - corner(0, BOX) - corner(BOX, 0) + corner(0, 0);
    let boxes = p.define("boxes", [x, y], sum);
    p.output(&boxes);
    p
}

const SCHEDULES: [(&str, &str); 2] = [
    ("as written", ""),
    // The sums along a row depend on each other, those of different rows do not; down the columns it is the other way round. So rows are
    // parallel first, and vectors of columns later: each stage has its own loops.
    (
        "each stage its own",
        "table: split(x, xo, xi, 8, predicate) vectorize(xi) parallel(y)
         table.update(0): reorder(rx, y) parallel(y)
         table.update(1): split(x, xo, xi, 8, predicate) reorder(xi, ry, xo) vectorize(xi) parallel(xo)
         boxes: split(x, xo, xi, 8, predicate) vectorize(xi) parallel(y)",
    ),
];

pub fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::new(2);
    let frame_out = Buffer::new(BufferSpec::new(ScalarType::I32, &[5, 3]))?;
    Compiled::new(&frame(), &Schedule::new(), &Target::host())?.run(&pool, &[("frame", &frame_out)], &[])?;
    let want = [100, 100, 200, 100, 100, 1, 2, 6, 4, 5, 2, 3, 8, 5, 6];
    println!("{:?}", frame_out.to_vec::<i32>());
    assert_eq!(frame_out.to_vec::<i32>(), want);

    let [width, height] = SIZE;
    let pixels: Vec<u8> = (0..width * height).map(|i| (i * i % 253) as u8).collect();
    let picture = Buffer::new(BufferSpec::new(ScalarType::U8, &SIZE))?;
    picture.copy_from(&pixels)?;
    let out = Buffer::new(BufferSpec::new(ScalarType::I32, &[width - BOX, height - BOX]))?;
    let pixel = |x: i32, y: i32| i32::from(pixels[(y * width + x) as usize]);
    let sum = |x: i32, y: i32| -> i32 {
        (1..=BOX).flat_map(|dy| (1..=BOX).map(move |dx| (dx, dy))).map(|(dx, dy)| pixel(x + dx, y + dy)).sum()
    };
    let want: Vec<i32> = (0..height - BOX)
        .flat_map(|y| (0..width - BOX).map(move |x| (x, y)))
        .map(|(x, y)| sum(x, y))
        .collect();
    for (name, text) in SCHEDULES {
        let schedule = Schedule::parse(text)?;
        println!("{name}\n{}", boxes().print_loop_nest(&schedule)?);
        Compiled::new(&boxes(), &schedule, &Target::host())?.run(
            &pool,
            &[("picture", &picture), ("boxes", &out)],
            &[],
        )?;
        assert_eq!(out.to_vec::<i32>(), want, "{name}");
    }

    // A running sum in any order would be another one.
    let refused = boxes().print_loop_nest(&Schedule::parse("table.update(0): parallel(rx)")?);
    println!("refused: {}", refused.expect_err("each sum needs the one before"));
    Ok(())
}
