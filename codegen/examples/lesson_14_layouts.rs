//! Lesson 14: colours in memory. Planar, interleaved, and the order of dimensions in storage.
//!
//! A picture of colours is planar (all red values, then all green ones) or interleaved (red, green, blue of a pixel next to each other).
//! The algorithm is the same: it has coordinates x, y and c. The strides of the buffer say where a coordinate lies. What the code
//! counts on is a *constraint*, which is checked before each run: without one for a dimension, any stride is taken.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_14_layouts
//! ```

use std::error::Error;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::{Dimension, Pool, View};
use sumsq_codegen::{Constraint, Input, Pipeline, ScalarType, Schedule, Source, Target, Var};

const WIDTH: i32 = 37;
const HEIGHT: i32 = 20;
const CHANNELS: i32 = 3;

/// lighter(x, y, c) = picture(x, y, c) + 1, at most 255; both buffers as `constraints` say.
fn lighter(constraints: &[Constraint]) -> Pipeline {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let mut p = Pipeline::new("lesson_14");
    let picture = Input::strided("picture", &[ScalarType::U8], 3);
    let picture = constraints.iter().enumerate().fold(picture, |i, (d, c)| i.constrain(d, c.clone()));
    let picture = p.input(picture);
    let lighter = p.define("lighter", [x, y, c], picture.of((x, y, c)).saturating_add(1));
    p.output_strided(&lighter, constraints.to_vec());
    p
}

/// The dimensions x, y and c of a buffer of either kind.
fn planar() -> [Dimension; 3] {
    let (w, h) = (i64::from(WIDTH), i64::from(HEIGHT));
    [Dimension::new(0, WIDTH, 1), Dimension::new(0, HEIGHT, w), Dimension::new(0, CHANNELS, w * h)]
}

fn interleaved() -> [Dimension; 3] {
    let (w, n) = (i64::from(WIDTH), i64::from(CHANNELS));
    [Dimension::new(0, WIDTH, n), Dimension::new(0, HEIGHT, n * w), Dimension::new(0, CHANNELS, 1)]
}

/// Runs it from one layout to another, and holds the values against plain loops.
fn run(compiled: &Compiled, from: &[Dimension; 3], to: &[Dimension; 3]) -> Result<(), Box<dyn Error>> {
    let size = (WIDTH * HEIGHT * CHANNELS) as usize;
    let values: Vec<u8> = (0..size).map(|i| (i * 7 % 256) as u8).collect();
    let mut memory = vec![0u8; size];
    let (picture, out) = (View::reading(&values, from)?, View::new(&mut memory, to)?);
    compiled.run(&Pool::new(2), &[("picture", &picture), ("lighter", &out)], &[])?;
    drop(out);
    let place = |dims: &[Dimension; 3], at: [i32; 3]| {
        dims.iter().zip(at).map(|(d, c)| d.stride * i64::from(c)).sum::<i64>() as usize
    };
    for at in (0..CHANNELS).flat_map(|c| (0..HEIGHT).flat_map(move |y| (0..WIDTH).map(move |x| [x, y, c]))) {
        assert_eq!(memory[place(to, at)], values[place(from, at)].saturating_add(1), "at {at:?}");
    }
    Ok(())
}

/// An intermediate Func lies as `reorder_storage` says: here the channels of a pixel next to each other.
fn storage() -> Result<(), Box<dyn Error>> {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let mut p = Pipeline::new("storage");
    let picture = p.input(Input::strided("picture", &[ScalarType::U8], 3));
    let wide = p.define("wide", [x, y, c], picture.of((x, y, c)).cast(ScalarType::U16) + 1);
    let lighter = p.define("lighter", [x, y, c], wide.of((x, y, c)).saturating_cast(ScalarType::U8));
    p.output_strided(&lighter, Constraint::defaults(3));
    let text = "wide: compute_root reorder_storage(c, x, y) reorder(c, x, y) bound(c, 0, 3) unroll(c)
        lighter: split(x, xo, xi, 8, predicate) vectorize(xi)";
    let schedule = Schedule::parse(text)?;
    println!("{}", p.print_loop_nest(&schedule)?);
    run(&Compiled::new(&p, &schedule, &Target::host())?, &planar(), &planar())
}

pub fn main() -> Result<(), Box<dyn Error>> {
    let target = Target::host();

    // Made for planar pictures: neighbours in x lie next to each other, so a row is read and written as vectors.
    let schedule = Schedule::parse("lighter: split(x, xo, xi, 8, predicate) vectorize(xi) parallel(y)")?;
    let of_planes = Compiled::new(&lighter(&Constraint::defaults(3)), &schedule, &target)?;
    run(&of_planes, &planar(), &planar())?;
    let refused = run(&of_planes, &interleaved(), &interleaved());
    println!("refused: {}", refused.expect_err("neighbours in x are three values apart"));

    // Made for interleaved ones: the three channels are innermost, and so many that the loop over them can be written out.
    let pixels = [
        Constraint::new().stride(CHANNELS),
        Constraint::new(),
        Constraint::new().min(0).extent(CHANNELS).stride(1),
    ];
    let text = "lighter: reorder(c, x, y) unroll(c) split(x, xo, xi, 8, predicate) reorder(c, xi, xo, y) vectorize(xi)";
    let of_pixels = Compiled::new(&lighter(&pixels), &Schedule::parse(text)?, &target)?;
    run(&of_pixels, &interleaved(), &interleaved())?;
    let refused = run(&of_pixels, &planar(), &planar());
    println!("refused: {}", refused.expect_err("neighbours in x are next to each other"));

    // Made for both, and so for the way from one to the other: nothing is counted on, and no load or store is of a whole vector.
    let anything = vec![Constraint::new(); 3];
    let of_both = Compiled::new(&lighter(&anything), &Schedule::new(), &target)?;
    for (from, to) in [(planar(), planar()), (interleaved(), planar()), (planar(), interleaved())] {
        run(&of_both, &from, &to)?;
    }
    storage()
}
