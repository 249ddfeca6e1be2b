//! Lesson 15: reductions over a part of a box.
//!
//! A reduction domain is a box, and `filter` leaves out those of its points where a condition is false: a triangle, a disc, or what the data
//! says. The loops become shorter where the condition bounds a loop, and test it where it does not.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_15_predicates
//! ```

use std::error::Error;
use sumsq_codegen::{
    Buffer, BufferSpec, Compiled, Expr, Input, Pipeline, Pool, RDom, ScalarType, Schedule, Source, Target,
    Var, boundary,
};

const SIZE: [i32; 2] = [24, 18];
const RADIUS: i32 = 3;
/// Pixels below are dark.
const DARK: i32 = 40;

/// Three Funcs of one picture, each a reduction over a part of a box.
fn pipeline() -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("lesson_15");
    let picture = p.input(Input::new("picture", &[ScalarType::I32], 2));
    let [width, height] = [0, 1].map(|d| picture.extent(d));

    // triangle() = the sum below the diagonal. Two conditions: both must hold.
    let whole = || RDom::new([("rx", Expr::from(0), width.clone()), ("ry", Expr::from(0), height.clone())]);
    let r = whole();
    let (rx, ry) = (r.var(0), r.var(1));
    let below = whole().filter(rx.lt(&ry)).filter((&rx + &ry).lt(&width));
    let triangle = p.define("triangle", [], 0);
    let triangle = p.add_to(&triangle, (), picture.of((rx, ry)), &below);

    // disc(x, y) = the greatest pixel within RADIUS.
    let around = p.func(boundary::repeat_edge("around", &picture, &picture.domain()));
    let n = 2 * RADIUS + 1;
    let r = RDom::new([("dx", -RADIUS, n), ("dy", -RADIUS, n)]);
    let (dx, dy) = (r.var(0), r.var(1));
    let r = r.filter((&dx * &dx + &dy * &dy).le(RADIUS * RADIUS));
    let greatest = p.maximum("greatest", &r, around.of((x + dx, y + dy)));
    let disc = p.define("disc", [x, y], greatest);

    // dark(x) = how many pixels of column x are dark: the condition is in the data.
    let column = RDom::new([("ry", Expr::from(0), height)]);
    let row = column.var(0);
    let column = column.filter(picture.of((x, row)).lt(DARK));
    let dark = p.define("dark", [x], 0);
    let dark = p.add_to(&dark, x, 1, &column);
    for f in [&triangle, &disc, &dark] {
        p.output(f);
    }
    p
}

const SCHEDULES: [&str; 2] = [
    "",
    // The domain does not depend on x, so that discs are computed as vectors; in each the points of the box are tested, once for all
    // lanes. In `dark` each lane has a test of its own.
    "disc: split(x, xo, xi, 8, predicate) vectorize(xi) parallel(y)
     greatest: compute_at(disc, xo) vectorize(x)
     greatest.update(0): reorder(x, dx, dy) vectorize(x)
     dark.update(0): split(x, xo, xi, 8, predicate) reorder(xi, ry, xo) vectorize(xi)",
];

pub fn main() -> Result<(), Box<dyn Error>> {
    let [width, height] = SIZE;
    let pixels: Vec<i32> = (0..width * height).map(|i| i * i % 101).collect();
    let at = |x: i32, y: i32| pixels[(y.clamp(0, height - 1) * width + x.clamp(0, width - 1)) as usize];
    let points = || (0..height).flat_map(move |y| (0..width).map(move |x| (x, y)));
    let offsets = || (-RADIUS..=RADIUS).flat_map(|dy| (-RADIUS..=RADIUS).map(move |dx| (dx, dy)));

    let below: i32 = points().filter(|(x, y)| x < y && x + y < width).map(|(x, y)| at(x, y)).sum();
    let near = || offsets().filter(|(dx, dy)| dx * dx + dy * dy <= RADIUS * RADIUS);
    let discs = points().map(|(x, y)| near().map(|(dx, dy)| at(x + dx, y + dy)).max().unwrap_or(0));
    let discs: Vec<i32> = discs.collect();
    let dark = |x: i32| (0..height).filter(|&y| at(x, y) < DARK).count() as i32;

    let picture = Buffer::new(BufferSpec::new(ScalarType::I32, &SIZE))?;
    picture.copy_from(&pixels)?;
    let [triangle, disc, counts] =
        [vec![], SIZE.to_vec(), vec![width]].map(|n| Buffer::new(BufferSpec::new(ScalarType::I32, &n)));
    let (triangle, disc, counts) = (triangle?, disc?, counts?);
    for text in SCHEDULES {
        let schedule = Schedule::parse(text)?;
        println!("{}", pipeline().print_loop_nest(&schedule)?);
        let compiled = Compiled::new(&pipeline(), &schedule, &Target::host())?;
        let buffers = [("picture", &picture), ("triangle", &triangle), ("disc", &disc), ("dark", &counts)];
        compiled.run(&Pool::new(2), &buffers, &[])?;
        assert_eq!(triangle.get::<i32>(&[], 0), Some(below));
        assert_eq!(disc.to_vec::<i32>(), discs);
        assert_eq!(counts.to_vec::<i32>(), (0..width).map(dark).collect::<Vec<_>>());
    }
    Ok(())
}
