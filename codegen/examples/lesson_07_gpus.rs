//! Lesson 7: GPUs. Blocks, threads, shared memory, indivisible updates, and a part that stays on the host.
//!
//! The algorithm says nothing of a GPU. A schedule does: `gpu_blocks` and `gpu_threads` are kinds of loops, as `parallel` and `vectorize` are, and a
//! pipeline becomes kernels where it has such loops and code of the host elsewhere. Buffers go to the device, and come back, when somebody
//! asks for their values there.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_07_gpus
//! ```

use std::error::Error;
use sumsq_codegen::compile::{self, Compiled};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, cuda};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Target, Var};

const SIZE: [i32; 2] = [150, 70];
const BINS: i32 = 16;

/// blurred(x, y) = mean of 3 x 3 pixels; histogram(b) = how many of the means are b; below(b) = how many are at most b.
fn statistics() -> Pipeline {
    let mut pipeline = Pipeline::new("lesson_07");
    let mut picture = Input::new("picture", &[ScalarType::U8], 2);
    picture.value_range = Some((Expr::from(0), Expr::from(BINS - 1)));
    let picture = pipeline.input(picture);
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());
    let inside = |v: Expr, d: usize| v.max(0).min(picture.extent(d) - 1);
    let pixel = |dx: i64| picture.at(&[inside(&x + dx, 0), inside(y.clone(), 1)], 0).cast(ScalarType::I32);
    let vars = [vx, vy];
    let rows = pipeline.func(Func::new("rows", &vars, vec![pixel(-1) + pixel(0) + pixel(1)]));
    let row = |dy: i64| rows.at(&[x.clone(), &y + dy], 0);
    let blurred = pipeline.func(Func::new("blurred", &vars, vec![(row(-1) + row(0) + row(1)) / 9]));

    let all = RDom::new([("rx", Expr::from(0), picture.extent(0)), ("ry", Expr::from(0), picture.extent(1))]);
    let bin = blurred.at(&[all.var(0), all.var(1)], 0).max(0).min(BINS - 1);
    let histogram = Func::new("histogram", &[Var::new("b")], vec![Expr::from(0)]);
    let one_more = histogram.at(std::slice::from_ref(&bin), 0) + 1;
    let histogram = pipeline.func(histogram.update(vec![bin], vec![one_more], all));

    // Each value needs the one before: nothing for a GPU.
    let b = Var::new("b");
    let below = Func::new("below", std::slice::from_ref(&b), vec![histogram.at(&[b.expr()], 0)]);
    let later = RDom::new([("r", Expr::from(1), Expr::from(BINS - 1))]);
    let r = later.var(0);
    let sum = below.at(&[&r - 1], 0) + below.at(std::slice::from_ref(&r), 0);
    let below = pipeline.func(below.update(vec![r], vec![sum], later));
    for f in [&blurred, &histogram, &below] {
        pipeline.output(f);
    }
    pipeline
}

/// `below` has no directive: it is code of the host.
const SCHEDULE: [&str; 3] = [
    // A block of threads for each tile of 32 x 8 pixels. Its sums of rows, with those around the tile, lie in memory that the block shares.
    "blurred: split(x, bx, tx, 32, predicate) split(y, by, ty, 8, predicate) reorder(tx, ty, bx, by)
         gpu_blocks(bx) gpu_blocks(by) gpu_threads(tx) gpu_threads(ty)
     rows: compute_at(blurred, bx) store_in(shared) split(x, xk, tx, 32, predicate) split(y, yk, ty, 8, predicate)
         reorder(xk, yk, tx, ty) gpu_threads(tx) gpu_threads(ty)",
    // The output begins as zeros.
    "histogram: bound(b, 0, 16) split(b, bo, bi, 16, guard) gpu_blocks(bo) gpu_threads(bi)",
    // A histogram for each 16 rows, in shared memory, and their sum in the output. What meets in a bin updates it one after the other.
    "histogram.update(0): split(ry, strip, row, 16, guard) rfactor(strip as s, into strips) atomic
         reorder(b, strip) gpu_blocks(strip) gpu_threads(b)
     strips: compute_at(histogram.update(0), strip) store_in(shared) gpu_threads(b)
     strips.update(0): atomic split(rx, ro, ri, 64, guard) reorder(ro, row, ri) gpu_threads(ri)",
];

pub fn main() -> Result<(), Box<dyn Error>> {
    let pipeline = statistics();
    let schedule = Schedule::parse(&SCHEDULE.join("\n"))?;
    println!("{}", pipeline.print_loop_nest(&schedule)?);

    // PTX needs no GPU; to run it does.
    let ptx = compile::ptx(&pipeline, &schedule, &Target::cuda(80))?;
    println!("{} kernels, {} lines of PTX", ptx.matches(".visible .entry").count(), ptx.lines().count());
    let target = match cuda::devices() {
        Ok(devices) => devices[0].target(),
        Err(reason) => {
            println!("not run: {reason}");
            return Ok(());
        }
    };

    let [width, height] = SIZE;
    let pixels: Vec<u8> = (0..width * height).map(|i| (i * i % 97 % BINS) as u8).collect();
    let picture = Buffer::new(BufferSpec::new(ScalarType::U8, &SIZE))?;
    picture.copy_from(&pixels)?;
    let blurred = Buffer::new(BufferSpec::new(ScalarType::I32, &SIZE))?;
    let [histogram, below] = [0; 2].map(|_| Buffer::new(BufferSpec::new(ScalarType::I32, &[BINS])));
    let (histogram, below) = (histogram?, below?);
    let compiled = Compiled::new(&pipeline, &schedule, &target)?;
    let buffers =
        [("picture", &picture), ("blurred", &blurred), ("histogram", &histogram), ("below", &below)];
    compiled.run(&Pool::new(2), &buffers, &[])?;

    let at =
        |x: i32, y: i32| i32::from(pixels[(y.clamp(0, height - 1) * width + x.clamp(0, width - 1)) as usize]);
    let mean = |x, y| {
        (-1..2).flat_map(|j| (-1..2).map(move |i| (i, j))).map(|(i, j)| at(x + i, y + j)).sum::<i32>() / 9
    };
    let means: Vec<i32> =
        (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| mean(x, y)).collect();
    assert_eq!(blurred.to_vec::<i32>(), means);
    let count = |test: &dyn Fn(i32) -> bool| means.iter().filter(|&&m| test(m)).count() as i32;
    assert_eq!(histogram.to_vec::<i32>(), (0..BINS).map(|b| count(&|m| m == b)).collect::<Vec<_>>());
    assert_eq!(below.to_vec::<i32>(), (0..BINS).map(|b| count(&|m| m <= b)).collect::<Vec<_>>());
    println!("below: {:?}", below.to_vec::<i32>());
    Ok(())
}
