//! Lesson 9: several stages, and the border of a picture.
//!
//! Each stage of a stencil reads beyond what it writes. Where the last stage has W x H pixels, the stages before have more, and the
//! input has the most. There are three ways to deal with that: compute a smaller output, bring a larger input, or say what lies
//! around the picture with a boundary condition.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_09_borders
//! ```

use std::error::Error;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::func::Domain;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Dimension, Pool, View};
use sumsq_codegen::{
    Constraint, Expr, Func, Input, Pipeline, ScalarType, Schedule, Source, Target, Var, boundary,
};

const SIZE: [i32; 2] = [40, 25];

/// blurred: the sum of 3 x 3 pixels, in two stages.
fn blurred(p: &mut Pipeline, of: &impl Source) {
    let [x, y] = Var::all(["x", "y"]);
    let pixel = |dx: i32| of.of((x + dx, y)).cast(ScalarType::U16);
    let across = p.define("across", [x, y], pixel(-1) + pixel(0) + pixel(1));
    let row = |dy: i32| across.of((x, y + dy));
    let blurred = p.define("blurred", [x, y], row(-1) + row(0) + row(1));
    p.output_strided(&blurred, Constraint::defaults(2));
}

fn picture(p: &mut Pipeline) -> Input {
    p.input(Input::strided("picture", &[ScalarType::U8], 2))
}

/// A value for every coordinate.
fn value([x, y]: [i32; 2]) -> u8 {
    (x * 7 + y * 31).rem_euclid(251) as u8
}

/// The sum of 3 x 3 pixels, where `at` says what a pixel is.
fn sum(at: &dyn Fn([i32; 2]) -> u16, [x, y]: [i32; 2]) -> u16 {
    (-1..2).flat_map(|dy| (-1..2).map(move |dx| (dx, dy))).map(|(dx, dy)| at([x + dx, y + dy])).sum()
}

/// Holds all values of `out` against plain loops.
fn check(out: &Buffer, at: &dyn Fn([i32; 2]) -> u16) {
    let (min, n) = (&out.spec().min, &out.spec().extents);
    for (y, x) in (min[1]..min[1] + n[1]).flat_map(|y| (min[0]..min[0] + n[0]).map(move |x| (y, x))) {
        assert_eq!(out.get::<u16>(&[x, y], 0), Some(sum(at, [x, y])), "at {x}, {y}");
    }
}

const SCHEDULE: &str = "blurred: parallel(y) split(x, xo, xi, 8, predicate) vectorize(xi)
    across: compute_at(blurred, y) split(x, xo, xi, 8, round_up) vectorize(xi)";

/// The conditions, and for each the coordinate inside of `0 .. n` whose value lies at `i`; none: the value is 50.
type Condition = (&'static str, fn(&Input, &Domain) -> Func, fn(i32, i32) -> Option<i32>);
const CONDITIONS: [Condition; 5] = [
    (
        "50 everywhere",
        |i, d| boundary::constant_exterior("around", i, d, &[Expr::int(ScalarType::U8, 50)]),
        |i, n| (0..n).contains(&i).then_some(i),
    ),
    ("the nearest pixel", |i, d| boundary::repeat_edge("around", i, d), |i, n| Some(i.clamp(0, n - 1))),
    ("the picture again", |i, d| boundary::repeat_image("around", i, d), |i, n| Some(i.rem_euclid(n))),
    (
        "a mirror, edges twice",
        |i, d| boundary::mirror_image("around", i, d),
        |i, n| Some(i.rem_euclid(2 * n).min(2 * n - 1 - i.rem_euclid(2 * n))),
    ),
    (
        "a mirror, edges once",
        |i, d| boundary::mirror_interior("around", i, d),
        |i, n| {
            let period = 2 * (n - 1);
            Some(i.rem_euclid(period).min(period - i.rem_euclid(period)))
        },
    ),
];

pub fn main() -> Result<(), Box<dyn Error>> {
    let (schedule, target, pool) = (Schedule::parse(SCHEDULE)?, Target::host(), Pool::new(2));
    let [width, height] = SIZE;
    let points = (0..height).flat_map(|y| (0..width).map(move |x| [x, y]));
    let values: Vec<u8> = points.map(value).collect();

    // The first way: of an input of W x H pixels, the output has those whose neighbours all exist.
    let mut p = Pipeline::new("smaller");
    let input = picture(&mut p);
    blurred(&mut p, &input);
    let compiled = Compiled::new(&p, &Schedule::new(), &target)?;
    let whole = View::reading(&values, &Dimension::dense(&SIZE))?;
    let spec = BufferSpec::new(ScalarType::U16, &[width - 2, height - 2]).starting_at(&[1, 1]);
    let out = Buffer::new(spec)?;
    compiled.run(&pool, &[("picture", &whole), ("blurred", &out)], &[])?;
    check(&out, &|at| value(at).into());

    // The second way: the whole output, and an input with a pixel more on each side. Less is refused.
    let out = Buffer::new(BufferSpec::new(ScalarType::U16, &SIZE))?;
    let refused = compiled.run(&pool, &[("picture", &whole), ("blurred", &out)], &[]);
    println!("refused: {}", refused.expect_err("the picture is too small"));
    let domain = SIZE.map(|n| (0, n));
    let needed = compiled.required_regions_over(&[("blurred", &domain)], &[])?;
    println!("needed: {needed:?}");
    let larger = [Dimension::new(-1, width + 2, 1), Dimension::new(-1, height + 2, (width + 2).into())];
    let points = (-1..=height).flat_map(|y| (-1..=width).map(move |x| [x, y]));
    let more: Vec<u8> = points.map(value).collect();
    let padded = View::reading(&more, &larger)?;
    compiled.run(&pool, &[("picture", &padded), ("blurred", &out)], &[])?;
    check(&out, &|at| value(at).into());

    // The third way: a Func that has a value everywhere. What it costs is paid at the border alone: inside, the loops run without it.
    for (name, around, inside) in CONDITIONS {
        let mut p = Pipeline::new("lesson_09");
        let input = picture(&mut p);
        let around = p.func(around(&input, &input.domain()));
        blurred(&mut p, &around);
        let compiled = Compiled::new(&p, &schedule, &target)?;
        compiled.run(&pool, &[("picture", &whole), ("blurred", &out)], &[])?;
        let pixel = |[x, y]: [i32; 2]| match (inside(x, width), inside(y, height)) {
            (Some(x), Some(y)) => u16::from(value([x, y])),
            _ => 50,
        };
        check(&out, &pixel);
        println!("{name}: {:?} at the corner", out.get::<u16>(&[0, 0], 0));
    }
    Ok(())
}
