//! Lesson 13: one function, many pipelines.
//!
//! An algorithm that comes in variants is a Rust function that builds the pipeline. Its arguments are what is known when the code is
//! made: a radius, a type, the number of levels. They cost nothing when the code runs, and each variant has a schedule that fits it. What is
//! known later is a parameter of the pipeline (lesson 5).
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_13_variants
//! ```

use std::error::Error;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_codegen::{
    Expr, Func, Input, LoopLevel, Pipeline, ScalarType, Schedule, Source, Tail, Target, Var, boundary,
};

const SIZE: [i32; 2] = [60, 40];

/// Arguments of the variants: all of them are settled before code is made.
struct Smoother {
    /// Pixels on each side that are averaged.
    radius: i32,
    /// Type of the pixels.
    ty: ScalarType,
    /// Repetitions, each with Funcs of its own.
    passes: usize,
    /// The loops over rows run on several threads.
    parallel: bool,
}

impl Smoother {
    /// The mean over x and then over y, `passes` times; the amount of it that is taken is known when the code runs.
    fn pipeline(&self) -> Pipeline {
        let [x, y] = Var::all(["x", "y"]);
        let mut p = Pipeline::new("lesson_13");
        let picture = p.input(Input::new("picture", &[self.ty], 2));
        let amount = p.param("amount", ScalarType::F32);
        let around = p.func(boundary::repeat_edge("around", &picture, &picture.domain()));
        let start = p.define("start", [x, y], around.of((x, y)).cast(ScalarType::F32));
        let smooth = (0..self.passes).fold(start.clone(), |of, pass| self.pass(&mut p, &of, pass));
        let mixed = start.of((x, y)) + (smooth.of((x, y)) - start.of((x, y))) * amount;
        let out = p.define("out", [x, y], mixed);
        p.output(&out);
        p
    }

    /// Two Funcs with names of their own. The loop is one of Rust: the sum is written out.
    fn pass(&self, p: &mut Pipeline, of: &Func, pass: usize) -> Func {
        let [x, y] = Var::all(["x", "y"]);
        let taps = -self.radius..=self.radius;
        let width = (2 * self.radius + 1) as f32;
        let sum = |term: &dyn Fn(i32) -> Expr| {
            taps.clone().map(term).reduce(|a, b| a + b).unwrap_or(Expr::from(0f32))
        };
        let across = sum(&|dx| of.of((x + dx, y)));
        let across = p.define(format!("across{pass}"), [x, y], across / width);
        let down = sum(&|dy| across.of((x, y + dy)));
        p.define(format!("down{pass}"), [x, y], down / width)
    }

    /// The schedule follows the same arguments, and the machine: its vectors are as long as the processor's.
    fn schedule(&self, target: &Target) -> Schedule {
        let mut s = Schedule::new();
        let out = s.func("out").split("y", "strip", "row", 8, Tail::GuardWithIf);
        let out = out.vectorize("x", target.lanes, Tail::Predicate);
        if self.parallel {
            out.parallel("strip");
        }
        let strip = || LoopLevel::pure("out", "strip");
        for pass in 0..self.passes {
            for name in [format!("across{pass}"), format!("down{pass}")] {
                s.func(&name).compute_at(strip()).vectorize("x", target.lanes, Tail::RoundUp);
            }
        }
        s
    }

    /// The same by plain loops.
    fn plain(&self, picture: &[f32], amount: f32) -> Vec<f32> {
        let [w, h] = SIZE;
        // Each pass needs more of the plane than the one after: begin with all that the last one depends on.
        let far = self.radius * self.passes as i32;
        let (w2, h2) = (w + 2 * far, h + 2 * far);
        let inside = |i: i32| ((i / w2 - far).clamp(0, h - 1) * w + (i % w2 - far).clamp(0, w - 1)) as usize;
        let mut plane: Vec<f32> = (0..w2 * h2).map(|i| picture[inside(i)]).collect();
        for step in (0..self.passes).flat_map(|_| [1, w2]) {
            let at = |i: i32| plane[i.clamp(0, w2 * h2 - 1) as usize];
            let taps = |i: i32| (-self.radius..=self.radius).map(|d| at(i + d * step)).sum::<f32>();
            plane = (0..w2 * h2).map(|i| taps(i) / (2 * self.radius + 1) as f32).collect();
        }
        let smooth = |i: i32| plane[((i / w + far) * w2 + i % w + far) as usize];
        (0..w * h).map(|i| picture[i as usize] + (smooth(i) - picture[i as usize]) * amount).collect()
    }
}

pub fn main() -> Result<(), Box<dyn Error>> {
    let (target, pool) = (Target::host(), Pool::new(2));
    let pixels: Vec<u8> = (0..SIZE[0] * SIZE[1]).map(|i| (i * i % 251) as u8).collect();
    let floats: Vec<f32> = pixels.iter().map(|&v| v.into()).collect();
    for smoother in [
        Smoother { radius: 1, ty: ScalarType::U8, passes: 1, parallel: false },
        Smoother { radius: 2, ty: ScalarType::U16, passes: 1, parallel: true },
        Smoother { radius: 1, ty: ScalarType::F32, passes: 3, parallel: true },
    ] {
        let (pipeline, schedule) = (smoother.pipeline(), smoother.schedule(&target));
        println!("{schedule}\n{}", pipeline.print_loop_nest(&schedule)?);
        let compiled = Compiled::new(&pipeline, &schedule, &target)?;
        let picture = Buffer::new(BufferSpec::new(smoother.ty, &SIZE))?;
        picture.copy_from(&pixels)?;
        let out = Buffer::new(BufferSpec::new(ScalarType::F32, &SIZE))?;
        // The amount differs from run to run, and nothing is compiled again.
        for amount in [0.0, 0.75] {
            let buffers = [("picture", &picture), ("out", &out)];
            compiled.run(&pool, &buffers, &[("amount", Scalar::F32(amount))])?;
            assert_eq!(out.to_vec::<f32>(), smoother.plain(&floats, amount));
        }
    }
    Ok(())
}
