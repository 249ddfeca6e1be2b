//! Lesson 21: watching what is computed.
//!
//! Single loads and stores are not traced: it would be another program that runs. What an intermediate Func holds is seen by making it an output,
//! too, and how often a schedule computes it by counting in the loop nest; both leave the algorithm as it is.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_21_watching
//! ```

use std::error::Error;
use sumsq_codegen::{
    Buffer, BufferSpec, Compiled, Input, Pipeline, Pool, ScalarType, Schedule, Source, Target, Var, boundary,
};

const SIZE: [i32; 2] = [12, 9];

/// edges(x, y) = |across(x + 1, y) - across(x - 1, y)|, across a mean of three pixels below each other; the mean is an output, too, if it is to be
/// seen.
fn pipeline(is_seen: bool) -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("lesson_21");
    let picture = p.input(Input::new("picture", &[ScalarType::I32], 2));
    let around = p.func(boundary::repeat_edge("around", &picture, &picture.domain()));
    let tap = |dy: i32| around.of((x, y + dy));
    let mean = p.define("mean", [x, y], (tap(-1) + tap(0) + tap(1)) / 3);
    let edges = p.define("edges", [x, y], (mean.of((x + 1, y)) - mean.of((x - 1, y))).abs());
    p.output(&edges);
    if is_seen {
        let seen = p.define("seen", [x, y], mean.of((x, y)));
        p.output(&seen);
    }
    p
}

pub fn main() -> Result<(), Box<dyn Error>> {
    let [width, height] = SIZE;
    let pixels: Vec<i32> = (0..width * height).map(|i| i * i % 97).collect();
    let at = |x: i32, y: i32| pixels[(y.clamp(0, height - 1) * width + x.clamp(0, width - 1)) as usize];
    let mean = |x: i32, y: i32| (at(x, y - 1) + at(x, y) + at(x, y + 1)) / 3;
    let over = |f: &dyn Fn(i32, i32) -> i32| -> Vec<i32> {
        (0..height).flat_map(|y| (0..width).map(move |x| f(x, y))).collect()
    };
    let picture = Buffer::new(BufferSpec::new(ScalarType::I32, &SIZE))?;
    picture.copy_from(&pixels)?;
    let [edges, seen] = [(); 2].map(|()| Buffer::new(BufferSpec::new(ScalarType::I32, &SIZE)));
    let (edges, seen) = (edges?, seen?);

    // The values of the intermediate Func, beside those that the pipeline is for.
    let schedule = Schedule::parse("mean: compute_root")?;
    let compiled = Compiled::new(&pipeline(true), &schedule, &Target::host())?;
    let buffers = [("picture", &picture), ("edges", &edges), ("seen", &seen)];
    compiled.run(&Pool::new(1), &buffers, &[])?;
    assert_eq!(seen.to_vec::<i32>(), over(&mean));
    assert_eq!(edges.to_vec::<i32>(), over(&|x, y| (mean(x + 1, y) - mean(x - 1, y)).abs()));

    // Where it is computed: once for all, for each row, or in each pixel that reads it.
    for (text, loops_around) in [
        ("mean: compute_root", Some(0)),
        ("mean: compute_at(edges, y)", Some(1)),
        ("mean: compute_at(edges, x)", Some(2)),
        ("", None),
    ] {
        let nest = pipeline(false).print_loop_nest(&Schedule::parse(text)?)?;
        println!("{nest}");
        let produce = nest.lines().position(|line| line.trim() == "produce mean:");
        let deep = |line: &str| line.len() - line.trim_start().len();
        let around = produce.map(|n| {
            let lines: Vec<&str> = nest.lines().collect();
            let mut depth = deep(lines[n]);
            let mut loops = 0;
            for line in lines[..n].iter().rev().filter(|line| line.trim().ends_with(':')) {
                if deep(line) < depth {
                    depth = deep(line);
                    loops += usize::from(line.trim().starts_with("for "));
                }
            }
            loops
        });
        assert_eq!(around, loops_around, "{nest}");
    }
    Ok(())
}
