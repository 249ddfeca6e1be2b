//! Lesson 11: tuples. Several values at each point of one Func.
//!
//! A Func may have a tuple of values per point. They are defined together and stored together, and an update computes all of them before
//! it stores the first. Elements of one type go to one buffer of several channels; elements of different types go to a buffer each.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_11_tuples
//! ```

use std::error::Error;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Dimension, Pool, View};
use sumsq_codegen::{
    Constraint, Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Source, Target, Var,
};

const SIZE: [i32; 2] = [30, 20];

fn pixels() -> Vec<i32> {
    (0..SIZE[0] * SIZE[1]).map(|i| i * i % 97).collect()
}

/// slopes(x, y) = the differences to the right and to the lower neighbour. Element k of a tuple is read with `at(.., k)`.
fn slopes() -> Result<(), Box<dyn Error>> {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("slopes");
    let input = p.input(Input::new("picture", &[ScalarType::I32], 2));
    let here = input.of((x, y));
    let slopes = vec![input.of((x + 1, y)) - &here, input.of((x, y + 1)) - &here];
    let slopes = p.define_tuple("slopes", [x, y], slopes);
    let [dx, dy] = [0, 1].map(|k| slopes.at(&[x.expr(), y.expr()], k));
    let steep = p.define("steep", [x, y], &dx * &dx + &dy * &dy);
    p.output(&slopes);
    p.output(&steep);

    let picture = Buffer::new(BufferSpec::new(ScalarType::I32, &SIZE))?;
    picture.copy_from(&pixels())?;
    let smaller = [SIZE[0] - 1, SIZE[1] - 1];
    let pairs = Buffer::new(BufferSpec::new(ScalarType::I32, &smaller).channels(2))?;
    let steep = Buffer::new(BufferSpec::new(ScalarType::I32, &smaller))?;
    let compiled = Compiled::new(&p, &Schedule::new(), &Target::host())?;
    compiled.run(&Pool::new(1), &[("picture", &picture), ("slopes", &pairs), ("steep", &steep)], &[])?;
    let values = pixels();
    let pixel = |x: i32, y: i32| values[(y * SIZE[0] + x) as usize];
    for (y, x) in (0..smaller[1]).flat_map(|y| (0..smaller[0]).map(move |x| (y, x))) {
        let (dx, dy) = (pixel(x + 1, y) - pixel(x, y), pixel(x, y + 1) - pixel(x, y));
        assert_eq!([0, 1].map(|k| pairs.get::<i32>(&[x, y], k)), [Some(dx), Some(dy)]);
        assert_eq!(steep.get::<i32>(&[x, y], 0), Some(dx * dx + dy * dy));
    }
    Ok(())
}

/// fibonacci() = (0, 1), then ten times (a, b) becomes (b, a + b). Both elements are computed before either is stored: no third one is
/// needed to keep the old a.
fn together() -> Result<(), Box<dyn Error>> {
    let mut p = Pipeline::new("together");
    let f = Func::new("fibonacci", &[], vec![Expr::from(0), Expr::from(1)]);
    let [a, b] = [0, 1].map(|k| f.at(&[], k));
    let f = p.func(f.update(vec![], vec![b.clone(), a + b], RDom::new([("step", 0, 10)])));
    p.output(&f);
    let out = Buffer::new(BufferSpec::new(ScalarType::I32, &[]).channels(2))?;
    Compiled::new(&p, &Schedule::new(), &Target::host())?.run(&Pool::new(1), &[("fibonacci", &out)], &[])?;
    assert_eq!(out.to_vec::<i32>(), [55, 89]);
    Ok(())
}

/// darkest(y) = (where the least pixel of row y is, its value, its share of 97): two integers and a float, in three buffers.
fn darkest() -> Result<(), Box<dyn Error>> {
    let [y] = Var::all(["y"]);
    let mut p = Pipeline::new("lesson_11");
    let input = p.input(Input::new("picture", &[ScalarType::I32], 2));
    let row = RDom::new([("rx", Expr::from(0), input.extent(0))]);
    // The place, one number per dimension of the domain, and then the value. Of equal ones the first counts.
    let least = p.argmin("least", &row, input.of((row.var(0), y)));
    let share = least[1].cast(ScalarType::F32) / 97.0;
    let darkest = p.define_tuple("darkest", [y], vec![least[0].clone(), least[1].clone(), share]);
    p.output_strided(&darkest, Constraint::defaults(1));

    let picture = Buffer::new(BufferSpec::new(ScalarType::I32, &SIZE))?;
    picture.copy_from(&pixels())?;
    let rows = SIZE[1];
    let (mut place, mut value, mut share) = (vec![0i32; 20], vec![0i32; 20], vec![0f32; 20]);
    let dims = Dimension::dense(&[rows]);
    let views = [View::new(&mut place, &dims)?, View::new(&mut value, &dims)?, View::new(&mut share, &dims)?];
    let buffers = [
        ("picture", &picture),
        ("darkest.0", &*views[0]),
        ("darkest.1", &*views[1]),
        ("darkest.2", &*views[2]),
    ];
    Compiled::new(&p, &Schedule::new(), &Target::host())?.run(&Pool::new(1), &buffers, &[])?;
    drop(views);
    println!("the least pixels are at {place:?}");
    for (y, row) in pixels().chunks(SIZE[0] as usize).enumerate() {
        let least = row.iter().copied().min().unwrap_or(0);
        let first = row.iter().position(|v| *v == least).unwrap_or(0);
        assert_eq!((place[y], value[y], share[y]), (first as i32, least, least as f32 / 97.0));
    }
    Ok(())
}

pub fn main() -> Result<(), Box<dyn Error>> {
    slopes()?;
    together()?;
    darkest()
}
