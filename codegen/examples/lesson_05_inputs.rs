//! Lesson 5: inputs, parameters and boundary conditions.
//!
//! An *input* is memory that the caller brings; it has a domain, and reading beyond it is an error that is found before the code
//! runs. A *boundary condition* makes a Func over the whole grid of it. A *parameter* is a number that may differ from run to
//! run.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_05_inputs
//! ```

use std::error::Error;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Dimension, Pool, Scalar, View};
use sumsq_codegen::{Constraint, Func, Input, Pipeline, ScalarType, Schedule, Source, Target, Var, boundary};

/// sharp(x) = c(x) + amount (2 c(x) - c(x - 1) - c(x + 1)), where c is `of`.
fn sharpened(pipeline: &mut Pipeline, of: &impl Source) {
    let v = Var::new("x");
    let x = v.expr();
    let amount = pipeline.param("amount", ScalarType::F32);
    let at = |dx: i64| of.at(&[&x + dx], 0);
    let bend = at(0) * 2.0 - at(-1) - at(1);
    let sharp = pipeline.func(Func::new("sharp", &[v], vec![at(0) + amount * bend]));
    pipeline.output(&sharp);
}

pub fn main() -> Result<(), Box<dyn Error>> {
    let (target, pool) = (Target::host(), Pool::new(1));
    let row = [1.0f32, 1.0, 1.0, 5.0, 5.0, 5.0];
    let sharp = Buffer::new(BufferSpec::new(ScalarType::F32, &[row.len() as i32]))?;
    let amount = [("amount", Scalar::F32(0.5))];

    // Without a boundary condition the ends of the row read what is not there: refused when the code is run.
    let mut bare = Pipeline::new("bare");
    let input = bare.input(Input::new("row", &[ScalarType::F32], 1));
    sharpened(&mut bare, &input);
    let compiled = Compiled::new(&bare, &Schedule::new(), &target)?;
    let input = Buffer::new(BufferSpec::new(ScalarType::F32, &[row.len() as i32]))?;
    input.copy_from(&row)?;
    let refused = compiled.run(&pool, &[("row", &input), ("sharp", &sharp)], &amount);
    println!("refused: {}", refused.expect_err("x = -1 is read"));
    // How much is needed can be asked for: coordinates -1 to 6 here.
    let required = compiled.required_regions(&[("sharp", &[row.len() as i32])], &[])?;
    println!("needed: {required:?}");

    // With one, the edge is repeated: ..., 1, 1 | 1 1 1 5 5 5 | 5, 5, ... The input is strided, and nothing
    // is fixed of its one dimension: it takes memory as it lies.
    let mut pipeline = Pipeline::new("lesson_05");
    let input = Input::strided("row", &[ScalarType::F32], 1).constrain(0, Constraint::new());
    let input = pipeline.input(input);
    let clamped = boundary::repeat_edge("clamped", &input, &input.domain());
    let clamped = pipeline.func(clamped);
    sharpened(&mut pipeline, &clamped);
    let compiled = Compiled::new(&pipeline, &Schedule::new(), &target)?;

    // A view reads borrowed memory without a copy.
    let view = View::reading(&row, &Dimension::dense(&[row.len() as i32]))?;
    compiled.run(&pool, &[("row", &view), ("sharp", &sharp)], &amount)?;
    println!("{row:?} -> {:?}", sharp.to_vec::<f32>());
    assert_eq!(sharp.to_vec::<f32>(), [1.0, 1.0, -1.0, 7.0, 5.0, 5.0]);

    // The same memory backwards, and another amount: nothing is compiled again.
    let last = row.len() as i32 - 1;
    let reversed = View::reading(&row, &[Dimension::new(0, last + 1, -1)])?;
    compiled.run(&pool, &[("row", &reversed), ("sharp", &sharp)], &[("amount", Scalar::F32(0.0))])?;
    assert_eq!(sharp.to_vec::<f32>(), [5.0, 5.0, 5.0, 1.0, 1.0, 1.0]);
    Ok(())
}
