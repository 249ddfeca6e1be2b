//! A filter learns its parameters: `docs/gradients.md`, "From a filter to trained parameters", explains it and shows what it prints.
//!
//! ```sh
//! cargo run --release -p sumsq --example trained_filter
//! ```

use std::error::Error;
use sumsq::codegen::runtime::{Buffer, BufferSpec, Scalar};
use sumsq::codegen::{Input, Pipeline, RDom, ScalarType::F32, Source, Var, boundary};
use sumsq::pipeline_energy::{Descent, Loss, PipelineEnergy, PipelineSolver};
use sumsq::{CompileOptions, SolveOptions};

const SIZE: i32 = 128;

/// Sharpening with coring: what 25 taps see is added where it is more than `limit`, the size of noise.
fn energy() -> PipelineEnergy {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("sharpened");
    let [picture, wanted, taps] =
        ["picture", "wanted", "taps"].map(|name| p.input(Input::new(name, &[F32], 2)));
    let limit = p.param("limit", F32);
    let near = p.func(boundary::repeat_edge("near", &picture, &picture.domain()));
    let r = RDom::new([("i", 0, 5), ("j", 0, 5)]);
    let (i, j) = (r.var(0), r.var(1));
    let seen = near.of((x + &i - 2, y + &j - 2)) * taps.of((i, j));
    let sum = p.sum("sum", &r, seen);
    let detail = p.define("detail", [x, y], sum).of((x, y));
    let square = &detail * &detail;
    let cored = detail * &square / (square + &limit * &limit);
    let sharp = p.define("sharp", [x, y], near.of((x, y)) + cored);
    p.define("apart", [x, y], sharp.of((x, y)) - wanted.of((x, y)));
    let domain = [(0.into(), picture.extent(0)), (0.into(), picture.extent(1))];
    PipelineEnergy::new(p).unknown("taps").unknown_in("limit", 1e-3, 1.0).residual_over(
        "apart",
        &domain,
        Loss::Squares,
    )
}

/// Discs and stripes, and the same out of focus with noise.
fn scene(seed: u32) -> Result<[Buffer; 2], Box<dyn Error>> {
    let mut state = seed;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    let shapes: Vec<[f32; 5]> = (0..40).map(|_| [(); 5].map(|()| random())).collect();
    let size = SIZE as f32;
    let at = |x: i32, y: i32| {
        let (x, y) = (x.clamp(0, SIZE - 1) as f32, y.clamp(0, SIZE - 1) as f32);
        shapes.iter().fold(0.5, |under, [cx, cy, radius, bright, turn]| {
            let (dx, dy) = (x - cx * size, y - cy * size);
            let inside = dx.hypot(dy) < 4.0 + 16.0 * radius;
            let stripe = ((dx * turn.cos() + dy * turn.sin()) * 0.7).sin() > 0.0 || *radius < 0.5;
            if inside && stripe { *bright } else { under }
        })
    };
    let pixels = || (0..SIZE * SIZE).map(|i| (i % SIZE, i / SIZE));
    let sharp: Vec<f32> = pixels().map(|(x, y)| at(x, y)).collect();
    let blurred = |x: i32, y: i32| {
        let weight = |d: i32| [0.25, 0.5, 0.25][(d + 1) as usize];
        let row = |dy: i32| (-1..2).map(|dx| weight(dx) * weight(dy) * at(x + dx, y + dy)).sum::<f32>();
        (-1..2).map(row).sum::<f32>()
    };
    let soft: Vec<f32> = pixels().map(|(x, y)| blurred(x, y) + 0.04 * (random() - 0.5)).collect();
    let filled = |values: &[f32]| {
        let b = Buffer::new(BufferSpec::new(F32, &[SIZE, SIZE]))?;
        b.copy_from(values)?;
        Ok::<Buffer, Box<dyn Error>>(b)
    };
    Ok([filled(&soft)?, filled(&sharp)?])
}

/// Parameters, as they are before: a pixel less the mean of nine.
struct Filter {
    taps: Buffer,
    limit: Scalar,
}

impl Filter {
    fn untrained() -> Result<Filter, Box<dyn Error>> {
        let taps = Buffer::new(BufferSpec::new(F32, &[5, 5]))?;
        let near = |k: usize| (1..4).contains(&(k % 5)) && (1..4).contains(&(k / 5));
        let tap = |k: usize| f32::from(k == 12) - if near(k) { 1.0 / 9.0 } else { 0.0 };
        taps.copy_from(&(0..25).map(tap).collect::<Vec<f32>>())?;
        Ok(Filter { taps, limit: 0.05f32.into() })
    }

    /// Peak signal to noise on a scene, in dB.
    fn psnr(&self, solver: &PipelineSolver, [soft, sharp]: &[Buffer; 2]) -> Result<f64, Box<dyn Error>> {
        let none = Descent { iterations: 0, ..Descent::default() };
        let buffers = [("picture", soft), ("wanted", sharp), ("taps", &self.taps)];
        let course = solver.descend(&buffers, &mut [("limit", self.limit)], &none)?;
        Ok(-10.0 * (course.energies[0] / f64::from(SIZE * SIZE)).log10())
    }
}

pub fn main() -> Result<(), Box<dyn Error>> {
    let size: &[i32] = &[SIZE, SIZE];
    let sizes = [("picture", size), ("wanted", size), ("taps", &[5, 5]), ("apart", size)];
    let solver = energy().compile(&CompileOptions::default(), &sizes)?;
    let (known, other) = (scene(1)?, scene(2)?);
    let show = |name: &str, filter: &Filter| -> Result<f64, Box<dyn Error>> {
        let (own, held_out) = (filter.psnr(&solver, &known)?, filter.psnr(&solver, &other)?);
        println!("{name:<32} {own:>6.2} dB {held_out:>6.2} dB held out");
        Ok(held_out)
    };
    let before = show("untrained", &Filter::untrained()?)?;

    let mut slow = Filter::untrained()?;
    let mut params = [("limit", slow.limit)];
    let buffers = [("picture", &known[0]), ("wanted", &known[1]), ("taps", &slow.taps)];
    let course = solver.descend(&buffers, &mut params, &Descent::default())?;
    slow.limit = params[0].1;
    let adam = show(&format!("{} steps of Adam", course.energies.len() - 1), &slow)?;

    let mut trained = Filter::untrained()?;
    let mut params = [("limit", trained.limit)];
    let buffers = [("picture", &known[0]), ("wanted", &known[1]), ("taps", &trained.taps)];
    let options = SolveOptions { iterations: Some(20), ..SolveOptions::default() };
    let report = solver.solve(&buffers, &mut params, &options)?;
    trained.limit = params[0].1;
    let steps = report.iterations.len();
    let lm = show(&format!("{steps} steps, {} products of LM", report.linear_iterations_total), &trained)?;
    assert!(lm > before + 0.5 && lm > adam - 0.1, "{before}, {adam}, {lm}");
    Ok(())
}
