//! Lesson 19: gradients.
//!
//! The derivative of a pipeline is a pipeline. Here the three taps of a filter are found from what it made: the sum of squares of
//! the differences is a scalar output, its *adjoints* lead from there back to the taps, and steps down the gradient do the rest.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_19_gradients
//! ```

use std::error::Error;
use sumsq_codegen::gradient::{propagate_adjoints, schedule};
use sumsq_codegen::{
    Buffer, BufferSpec, Compiled, Input, Pipeline, Pool, RDom, ScalarType, Source, Target, Var, boundary,
};

const WIDTH: i32 = 256;

pub fn main() -> Result<(), Box<dyn Error>> {
    let x = Var::new("x");
    let mut p = Pipeline::new("lesson_19");
    let row = p.input(Input::new("row", &[ScalarType::F32], 1));
    let taps = p.input(Input::new("taps", &[ScalarType::F32], 1));
    let wanted = p.input(Input::new("wanted", &[ScalarType::F32], 1));
    let near = p.func(boundary::repeat_edge("near", &row, &row.domain()));
    let r = RDom::new([("r", 0, 3)]);
    let filtered = p.sum("filtered", &r, near.of(x + r.var(0) - 1) * taps.of(r.var(0)));
    let made = p.define("made", [x], filtered);
    let all = RDom::new([("all", 0, WIDTH)]);
    let apart = made.of(all.var(0)) - wanted.of(all.var(0));
    let energy = p.sum("energy", &all, &apart * &apart);
    let loss = p.define("loss", [], energy);
    p.output(&loss);

    // Of the scalar output `loss`, which needs no seed, with respect to the taps.
    let adjoints = propagate_adjoints(&mut p, &[], &["taps"])?;
    let d_taps = adjoints.of("taps").ok_or("the taps have an adjoint")?;
    p.output(d_taps);
    println!("on the way: {:?}", adjoints.names().map(|n| n.to_string()).collect::<Vec<_>>());

    // A schedule from sizes; `d_taps` is the sum over the row of what each tap met there.
    let s = schedule(&p, &[("row", &[WIDTH]), ("d_taps", &[3])], &[], &[])?;
    print!("{s}");
    let (compiled, pool) = (Compiled::new(&p, &s, &Target::host())?, Pool::new(1));

    let picture: Vec<f32> = (0..WIDTH).map(|i| ((i * i) as f32 * 0.1).sin()).collect();
    let at = |i: i32| picture[i.clamp(0, WIDTH - 1) as usize];
    let seen: Vec<f32> = (0..WIDTH).map(|i| 0.25 * at(i - 1) + 0.5 * at(i) - 0.125 * at(i + 1)).collect();
    let buffer = |n: i32| Buffer::new(BufferSpec::new(ScalarType::F32, &[n]));
    let (row, wanted, taps, slope) = (buffer(WIDTH)?, buffer(WIDTH)?, buffer(3)?, buffer(3)?);
    let loss = Buffer::new(BufferSpec::new(ScalarType::F32, &[]))?;
    row.copy_from(&picture)?;
    wanted.copy_from(&seen)?;
    let mut now = [0.0f32; 3];
    for step in 0..=15 {
        taps.copy_from(&now)?;
        let buffers =
            [("row", &row), ("taps", &taps), ("wanted", &wanted), ("loss", &loss), ("d_taps", &slope)];
        compiled.run(&pool, &buffers, &[])?;
        if step % 5 == 0 {
            println!("step {step}: loss {:.2e}, taps {now:.4?}", loss.to_vec::<f32>()[0]);
        }
        let slope = slope.to_vec::<f32>();
        now.iter_mut().zip(slope).for_each(|(t, d)| *t -= 0.003 * d);
    }
    assert!(now.iter().zip([0.25, 0.5, -0.125]).all(|(t, w)| (t - w).abs() < 1e-3), "{now:?}");
    Ok(())
}
