//! Lesson 16: reductions in parallel, by partial results.
//!
//! The iterations of a reduction meet in the element that they change, so they cannot run at the same time. `rfactor` makes a Func with
//! an element for each part of the domain: the parts are independent, and a short reduction at the end combines them. It is for
//! updates whose order does not matter, such as sums, and for an argmin, where the first of equal ones counts.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_16_partial_results
//! ```

use std::error::Error;
use sumsq_codegen::{
    Buffer, BufferSpec, Compiled, Expr, Input, Pipeline, Pool, RDom, ScalarType, Schedule, Source, Target,
    Var,
};

const SIZE: [i32; 2] = [70, 45];
const BINS: i32 = 16;

/// The number of pixels of each value, the place of the least pixel, and the mean.
fn statistics() -> Pipeline {
    let [b] = Var::all(["b"]);
    let mut p = Pipeline::new("lesson_16");
    let mut picture = Input::new("picture", &[ScalarType::U8], 2);
    picture.value_range = Some((Expr::from(0), Expr::from(BINS - 1)));
    let picture = p.input(picture);
    let r = RDom::new([("rx", Expr::from(0), picture.extent(0)), ("ry", Expr::from(0), picture.extent(1))]);
    let pixel = picture.of((r.var(0), r.var(1)));

    let histogram = p.define("histogram", [b], 0);
    let histogram = p.add_to(&histogram, pixel.cast(ScalarType::I32), 1, &r);
    let least = p.argmin("least", &r, pixel.clone());
    let least = p.define_tuple("darkest", [], least[..2].to_vec());
    let share = (pixel.cast(ScalarType::F32) + 1.0) / (BINS as f32);
    let sum = p.sum("sum", &r, share);
    let mean = p.define("mean", [], sum / (picture.extent(0) * picture.extent(1)).cast(ScalarType::F32));
    for f in [&histogram, &least, &mean] {
        p.output(f);
    }
    p
}

const SCHEDULES: [(&str, &str); 3] = [
    ("one after the other", ""),
    // Each thread fills the histogram of one strip, each finds the least of one strip. Of partial results that are equal the first strip's
    // counts, so that the result is the same.
    (
        "strips",
        "histogram.update(0): split(ry, strip, row, 8, guard) rfactor(strip as s, into histograms)
         histograms: compute_root parallel(s)  histograms.update(0): parallel(s)
         least.update(0): split(ry, strip, row, 8, guard) rfactor(strip as s, into leasts)
         leasts: compute_root parallel(s)  leasts.update(0): parallel(s)",
    ),
    // Eight lanes sum every eighth column. A sum of floats in another order rounds otherwise.
    (
        "lanes",
        "sum.update(0): split(rx, column, lane, 8, predicate) rfactor(lane as l, into sums)
         sums: compute_root vectorize(l)  sums.update(0): reorder(l, column, ry) vectorize(l)",
    ),
];

pub fn main() -> Result<(), Box<dyn Error>> {
    let pixels: Vec<u8> =
        (0..SIZE[0] * SIZE[1]).map(|i| (i * i % 97 % BINS + 1).min(BINS - 1) as u8).collect();
    let picture = Buffer::new(BufferSpec::new(ScalarType::U8, &SIZE))?;
    picture.copy_from(&pixels)?;
    let counted = |bin: i32| pixels.iter().filter(|&&v| i32::from(v) == bin).count() as i32;
    let least = pixels.iter().copied().min().unwrap_or(0);
    let first = pixels.iter().position(|&v| v == least).unwrap_or(0) as i32;
    let exact =
        pixels.iter().map(|&v| (f64::from(v) + 1.0) / f64::from(BINS)).sum::<f64>() / pixels.len() as f64;

    for (name, text) in SCHEDULES {
        let schedule = Schedule::parse(text)?;
        println!("{name}\n{}", statistics().print_loop_nest(&schedule)?);
        let histogram = Buffer::new(BufferSpec::new(ScalarType::I32, &[BINS]))?;
        let darkest = Buffer::new(BufferSpec::new(ScalarType::I32, &[]).channels(2))?;
        let mean = Buffer::new(BufferSpec::new(ScalarType::F32, &[]))?;
        let buffers =
            [("picture", &picture), ("histogram", &histogram), ("darkest", &darkest), ("mean", &mean)];
        Compiled::new(&statistics(), &schedule, &Target::host())?.run(&Pool::new(3), &buffers, &[])?;
        assert_eq!(histogram.to_vec::<i32>(), (0..BINS).map(counted).collect::<Vec<_>>(), "{name}");
        assert_eq!(darkest.to_vec::<i32>(), [first % SIZE[0], first / SIZE[0]], "{name}");
        let mean = mean.get::<f64>(&[], 0).unwrap_or(f64::NAN);
        assert!((mean - exact).abs() < 1e-4, "{name}: {mean} and {exact}");
    }

    // Of an argmin the order counts. That of float sums does, too, in a pipeline that says so.
    let mut strict = statistics();
    strict.strict_float();
    for (pipeline, text) in [(&statistics(), "least.update(0): reorder(ry, rx)"), (&strict, SCHEDULES[2].1)] {
        let refused = pipeline.print_loop_nest(&Schedule::parse(text)?);
        println!("refused: {}", refused.expect_err("the result would be another one"));
    }
    Ok(())
}
