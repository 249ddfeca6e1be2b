//! Lesson 8: domains that begin anywhere.
//!
//! A Func has a value at every point of the grid. The domain of the buffer that is bound to an output says which of them are computed.
//! A *strided* output takes buffers of any first coordinate and any strides: a window far from the origin, or one tile of a larger
//! picture. The coordinates in the code are those of the buffer; nothing is shifted to 0.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_08_domains
//! ```

use std::error::Error;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Dimension, Pool, View};
use sumsq_codegen::{Constraint, Input, Pipeline, ScalarType, Schedule, Source, Target, Var};

/// squares(x, y) = x^2 + y^2
fn squares(strided: bool) -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("lesson_08");
    let squares = p.define("squares", [x, y], x * x + y * y);
    match strided {
        // Neighbours in x lie next to each other; everything else comes with the buffer.
        true => p.output_strided(&squares, Constraint::defaults(2)),
        false => p.output(&squares),
    }
    p
}

const SCHEDULE: &str = "squares: split(x, xo, xi, 8, predicate) vectorize(xi) parallel(y)";

/// Computes the window of 6 x 4 points that begins at (-3, 100).
fn a_window() -> Result<(), Box<dyn Error>> {
    let (schedule, pool) = (Schedule::parse(SCHEDULE)?, Pool::new(2));
    let [first_x, first_y] = [-3, 100];
    let out = Buffer::new(BufferSpec::new(ScalarType::I32, &[6, 4]).starting_at(&[first_x, first_y]))?;
    let compiled = Compiled::new(&squares(true), &schedule, &Target::host())?;
    compiled.run(&pool, &[("squares", &out)], &[])?;
    for (y, x) in (first_y..first_y + 4).flat_map(|y| (first_x..first_x + 6).map(move |x| (y, x))) {
        assert_eq!(out.get::<i32>(&[x, y], 0), Some(x * x + y * y));
    }
    println!(
        "the value at (-3, 100) is {:?}, at (0, 0) {:?}",
        out.get::<i32>(&[-3, 100], 0),
        out.get::<i32>(&[0, 0], 0)
    );

    // A planar output begins at 0, and says so.
    let planar = Compiled::new(&squares(false), &schedule, &Target::host())?;
    let refused = planar.run(&pool, &[("squares", &out)], &[]);
    println!("refused: {}", refused.expect_err("the window does not begin at 0"));
    Ok(())
}

/// Computes a picture tile by tile, each in its place: the memory of a tile begins where its first value lies.
fn tiles() -> Result<(), Box<dyn Error>> {
    const SIZE: [i32; 2] = [50, 30];
    const TILE: [i32; 2] = [32, 16];
    let compiled = Compiled::new(&squares(true), &Schedule::parse(SCHEDULE)?, &Target::host())?;
    let pool = Pool::new(2);
    let mut picture = vec![0i32; (SIZE[0] * SIZE[1]) as usize];
    for (y, x) in [(0, 0), (0, TILE[0]), (TILE[1], 0), (TILE[1], TILE[0])] {
        // The last tiles are smaller: nothing is compiled again.
        let [width, height] = [TILE[0].min(SIZE[0] - x), TILE[1].min(SIZE[1] - y)];
        let dims = [Dimension::new(x, width, 1), Dimension::new(y, height, SIZE[0].into())];
        let tile = View::new(&mut picture[(y * SIZE[0] + x) as usize..], &dims)?;
        compiled.run(&pool, &[("squares", &tile)], &[])?;
    }
    let want = (0..SIZE[1]).flat_map(|y| (0..SIZE[0]).map(move |x| x * x + y * y));
    assert!(picture.into_iter().eq(want));
    Ok(())
}

/// An input has a domain, too. Which part of it a window needs can be asked for before there is any buffer.
fn an_input() -> Result<(), Box<dyn Error>> {
    let [x] = Var::all(["x"]);
    let mut p = Pipeline::new("steps");
    let input = p.input(Input::strided("samples", &[ScalarType::F32], 1));
    let steps = p.define("steps", [x], input.of(x + 2) - input.of(x - 1));
    p.output_strided(&steps, Constraint::defaults(1));
    let compiled = Compiled::new(&p, &Schedule::new(), &Target::host())?;

    let needed = compiled.required_regions_over(&[("steps", &[(10, 5)])], &[])?;
    println!("steps over 10 .. 15 need {needed:?}");
    let values: Vec<f32> = (9..17).map(|i| (i * i) as f32).collect();
    let samples = View::reading(&values, &[Dimension::new(9, 8, 1)])?;
    let out = Buffer::new(BufferSpec::new(ScalarType::F32, &[5]).starting_at(&[10]))?;
    compiled.run(&Pool::new(1), &[("samples", &samples), ("steps", &out)], &[])?;
    let want: Vec<f32> = (10..15).map(|i| ((i + 2) * (i + 2) - (i - 1) * (i - 1)) as f32).collect();
    assert_eq!(out.to_vec::<f32>(), want);
    Ok(())
}

pub fn main() -> Result<(), Box<dyn Error>> {
    a_window()?;
    tiles()?;
    an_input()
}
