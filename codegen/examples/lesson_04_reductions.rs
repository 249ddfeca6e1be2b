//! Lesson 4: reductions. Updates over a reduction domain, and how they are made parallel.
//!
//! An *update* changes values that a Func has already, for every point of a *reduction domain* (RDom), in order: the first
//! variable of the domain runs fastest. A sum starts at 0 and adds; a histogram adds 1 at a place that the data says.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_04_reductions
//! ```

use std::error::Error;
use sumsq_codegen::{
    Buffer, BufferSpec, Compiled, Expr, Func, Input, Pipeline, Pool, RDom, ScalarType, Schedule, Target, Var,
};

const SIZE: [i32; 2] = [50, 37];
const BINS: i32 = 16;

/// histogram(b) = how many pixels hold b; squares() = the sum of their squares.
fn statistics() -> Pipeline {
    let mut pipeline = Pipeline::new("lesson_04");
    let mut picture = Input::new("picture", &[ScalarType::U8], 2);
    // A promise about the values, checked when a buffer is bound: it bounds the places that the histogram writes.
    picture.value_range = Some((Expr::from(0), Expr::from(BINS - 1)));
    let picture = pipeline.input(picture);
    let (width, height) = (picture.extent(0), picture.extent(1));
    let domain = RDom::new([("rx", Expr::from(0), width), ("ry", Expr::from(0), height)]);
    let pixel = picture.at(&[domain.var(0), domain.var(1)], 0);

    let bin = pixel.cast(ScalarType::I32);
    let histogram = Func::new("histogram", &[Var::new("b")], vec![Expr::from(0)]);
    let one_more = histogram.at(std::slice::from_ref(&bin), 0) + 1;
    let histogram = pipeline.func(histogram.update(vec![bin.clone()], vec![one_more], domain.clone()));

    let squares = pipeline.func(Func::sum("squares", &[], domain, vec![&bin * &bin]));
    pipeline.output(&histogram);
    pipeline.output(&squares);
    pipeline
}

const SCHEDULES: [(&str, &str); 3] = [
    ("as written", ""),
    // `rfactor` cuts the sum in two: strips(s) sums the rows of strip s, and squares() adds up the strips. Strips do not depend
    // on each other, so they may run on several threads.
    (
        "strips",
        "squares.update(0): split(ry, strip, row, 8, guard) rfactor(strip as s, into strips)
         strips.update(0): parallel(s)",
    ),
    // Once more, within a strip: lanes(l) sums every eighth column, as the lanes of a vector.
    (
        "strips and lanes",
        "squares.update(0): split(ry, strip, row, 8, guard) split(rx, column, lane, 8, predicate) rfactor(strip as s, into strips)
         strips.update(0): parallel(s) rfactor(lane as l, into lanes)
         lanes: compute_at(strips.update(0), s) vectorize(l)
         lanes.update(0): reorder(l, column, row) vectorize(l)",
    ),
];

pub fn main() -> Result<(), Box<dyn Error>> {
    let pipeline = statistics();
    let pixels: Vec<u8> = (0..SIZE[0] * SIZE[1]).map(|i| (i * i % 97 % BINS) as u8).collect();
    let picture = Buffer::new(BufferSpec::new(ScalarType::U8, &SIZE))?;
    picture.copy_from(&pixels)?;
    let counted = |bin: i32| pixels.iter().filter(|&&p| i32::from(p) == bin).count() as i32;

    for (name, text) in SCHEDULES {
        let schedule = Schedule::parse(text)?;
        println!("{name}\n{}", pipeline.print_loop_nest(&schedule)?);
        let histogram = Buffer::new(BufferSpec::new(ScalarType::I32, &[BINS]))?;
        let squares = Buffer::new(BufferSpec::new(ScalarType::I32, &[]))?;
        let compiled = Compiled::new(&pipeline, &schedule, &Target::host())?;
        let buffers = [("picture", &picture), ("histogram", &histogram), ("squares", &squares)];
        compiled.run(&Pool::new(3), &buffers, &[])?;
        assert_eq!(histogram.to_vec::<i32>(), (0..BINS).map(counted).collect::<Vec<_>>());
        let want: i32 = pixels.iter().map(|&p| i32::from(p).pow(2)).sum();
        assert_eq!(squares.get::<i32>(&[], 0), Some(want));
    }

    // Updates that may meet in one bin do not run at the same time, unless each is made indivisible.
    let race = pipeline.print_loop_nest(&Schedule::parse("histogram.update(0): parallel(ry)")?);
    println!("refused: {}", race.expect_err("a race"));
    pipeline.print_loop_nest(&Schedule::parse("histogram.update(0): atomic parallel(ry)")?)?;
    Ok(())
}
