//! Convolutions of Li et al. 2018: the slope of an image under the three schedules of section 4.3, which say where the convolved image is kept
//! until its slope needs it; and the slope of a layer of a network as a gather and as a scatter with atomics (section 4.2.1).

use super::THREADS;
use crate::harness::{compare_within, time};
use crate::report::Report;
use std::error::Error;
use std::time::{Duration, Instant};
use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::compile::Compiled;
use sumsq::codegen::gradient::propagate_adjoints;
use sumsq::codegen::runtime::{Buffer, BufferSpec, Pool};
use sumsq::codegen::{Expr, Func, Input, Pipeline, RDom, Schedule, Source, Target, Var};

/// Time for the pairs of one comparison.
const BUDGET: Duration = Duration::from_secs(20);
/// Runs of each schedule whose least time counts.
const RUNS: usize = 7;
/// Width and height of the convolved image.
const IMAGE: [i32; 2] = [2560, 1600];

/// The convolved image substituted, at root, and in strips of 32 rows of its slope.
const INLINE: &str = "convolved: inline
d_convolved: inline
d_image: relaxed vectorize(_0, 8) parallel(_1, 16)";
const ROOT: &str = "convolved: compute_root relaxed vectorize(x, 8) parallel(y, 16)
d_convolved: inline
d_image: relaxed vectorize(_0, 8) parallel(_1, 16)";
const AT: &str = "convolved: compute_at(d_image, strip) relaxed vectorize(x, 8)
d_convolved: inline
d_image: relaxed split(_1, strip, row, 32, auto) vectorize(_0, 8) parallel(strip)";

/// Width, height, channels on both sides, and images of the layer, which has 3 x 3 taps.
const LAYER: [i32; 4] = [256, 256, 16, 16];
const GATHER: &str = "d_layer: inline
d_sum: inline
slope: bound(c, 0, 16) split(x, xo, xi, 16, predicate) split(c, co, ci, 8, round_up) reorder(xi, ci, xo, y, co, n) vectorize(xi) unroll(ci) parallel(n)
d_image: compute_at(slope, xo) bound_extent(_2, 8) bound_extent(_0, 16) vectorize(_0, 16) unroll(_2)
d_image.update(0): relaxed reorder(_0, _2, sum_update0_i, sum_update0_j, sum_update0_c) vectorize(_0, 16) unroll(_2) unroll(sum_update0_i) unroll(sum_update0_j)";
const SCATTER: &str = "slope: vectorize(x, 16, predicate) parallel(n)
slope.update(0): relaxed atomic split(rx, xo, xi, 32, guard) reorder(xi, i, j, c, xo, ry, n) parallel(ry)
across: compute_at(slope.update(0), c) vectorize(rx, 16, predicate)
across.update(0): relaxed reorder(rx, i, j, k) vectorize(rx, 16, predicate) unroll(i) unroll(j)";

type Failed = Box<dyn Error>;

/// The slope by the image of the sum of (image * kernel - target)^2, the kernel wherever it fits.
fn of_image([width, height]: [i32; 2]) -> Result<Pipeline, Failed> {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("convolution");
    let [image, kernel, target] = ["image", "kernel", "target"].map(|n| p.input(Input::new(n, &[F32], 2)));
    let taps = (0..height).flat_map(|j| (0..width).map(move |i| (i, j)));
    let term = |(i, j): (i32, i32)| image.of((x + (width - 1 - i), y + (height - 1 - j))) * kernel.of((i, j));
    let sum = taps.map(term).reduce(|a, b| a + b).ok_or("a kernel without taps")?;
    let convolved = p.define("convolved", [x, y], sum);
    let r = RDom::new([("rx", 0, target.extent(0)), ("ry", 0, target.extent(1))]);
    let at = (r.var(0), r.var(1));
    let apart = convolved.of(at.clone()) - target.of(at);
    let energy = p.sum("energy", &r, &apart * &apart);
    let loss = p.define("loss", [], energy);
    p.output(&loss);
    let adjoints = propagate_adjoints(&mut p, &[], &["image"])?;
    p.outputs.clear();
    p.output(adjoints.of("image").ok_or("the image has no slope")?);
    Ok(p)
}

/// The slope by its input of a layer, from the slope `w` of its output: derived.
fn gather() -> Result<Pipeline, Failed> {
    let [x, y, c, n] = Var::all(["x", "y", "c", "n"]);
    let mut p = Pipeline::new("gather");
    let [image, kernel, _] = ["image", "kernel", "w"].map(|name| p.input(Input::new(name, &[F32], 4)));
    let r = RDom::new([("i", 0, 3), ("j", 0, 3), ("k", 0, LAYER[2])]);
    let (i, j, k) = (r.var(0), r.var(1), r.var(2));
    let term = image.of((x + &i, y + &j, &k, n)) * kernel.of((&i, &j, &k, c));
    let sum = p.sum("sum", &r, term);
    let layer = p.define("layer", [x, y, c, n], sum);
    p.output(&layer);
    let adjoints = propagate_adjoints(&mut p, &[("layer", "w")], &["image"])?;
    let d_image = adjoints.of("image").ok_or("the image has no slope")?.of((x, y, c, n));
    p.outputs.clear();
    let slope = p.define("slope", [x, y, c, n], d_image);
    p.output(&slope);
    Ok(p)
}

/// The same as it would be without solving for the loops: each pixel of the output adds to nine of the input.
fn scatter() -> Pipeline {
    let [x, y, c, n] = Var::all(["x", "y", "c", "n"]);
    let mut p = Pipeline::new("scatter");
    let [kernel, w] = ["kernel", "w"].map(|name| p.input(Input::new(name, &[F32], 4)));
    let r = RDom::new([
        ("i", 0, Expr::from(3)),
        ("j", 0, Expr::from(3)),
        ("rx", 0, w.extent(0)),
        ("ry", 0, w.extent(1)),
    ]);
    let [i, j, rx, ry] = [0, 1, 2, 3].map(|v| r.var(v));
    let k = RDom::new([("k", 0, LAYER[2])]);
    let term = w.of((&rx, &ry, k.var(0), n)) * kernel.of((&i, &j, c, k.var(0)));
    let across = p.sum("across", &k, term);
    let slope = p.func(Func::new("slope", &[x, y, c, n], vec![0.0f32.into()]));
    let slope = p.add_to(&slope, (rx + i, ry + j, c, n), across, &r);
    p.output(&slope);
    p
}

/// A pipeline made ready.
pub(super) struct Ready {
    compiled: Compiled,
    buffers: Vec<(&'static str, Buffer)>,
    pool: Pool,
    /// Seconds that it took to compile.
    pub(super) seconds: f64,
}

impl Ready {
    fn new(p: &Pipeline, schedule: &str, sizes: &[(&'static str, &[i32])]) -> Result<Ready, Failed> {
        let schedule = Schedule::parse(schedule)?;
        let start = Instant::now();
        let compiled = Compiled::new(p, &schedule, &Target::host())?;
        let seconds = start.elapsed().as_secs_f64();
        let filled = |(name, size): &(&'static str, &[i32])| -> Result<(&'static str, Buffer), Failed> {
            let b = Buffer::new(BufferSpec::new(F32, size))?;
            let count = size.iter().product::<i32>();
            let value = |k: i32| ((k.wrapping_mul(0x9E37_79B1_u32 as i32) >> 8) as f32) / (1 << 23) as f32;
            b.copy_from(&(0..count).map(value).collect::<Vec<f32>>())?;
            Ok((*name, b))
        };
        let buffers = sizes.iter().map(filled).collect::<Result<_, _>>()?;
        Ok(Ready { compiled, buffers, pool: Pool::new(THREADS), seconds })
    }

    /// The buffer of a name.
    pub(super) fn buffer(&self, name: &str) -> Option<&Buffer> {
        self.buffers.iter().find(|(known, _)| *known == name).map(|(_, buffer)| buffer)
    }

    pub(super) fn run(&self) -> Result<(), Failed> {
        let named: Vec<(&str, &Buffer)> = self.buffers.iter().map(|(name, b)| (*name, b)).collect();
        Ok(self.compiled.run(&self.pool, &named, &[])?)
    }

    /// The last buffer's values.
    fn result(&self) -> Vec<f32> {
        self.buffers.last().map_or(vec![], |(_, b)| b.to_vec())
    }

    /// The least time of a few runs, in milliseconds.
    fn least(&self) -> f64 {
        let times = (0..RUNS).map(|_| time(&mut || drop(self.run())));
        1e3 * times.min().unwrap_or_default().as_secs_f64()
    }

    /// Runs it once, and says how far it is from others as a share of the greatest value.
    fn apart(&self, from: &Ready) -> Result<f64, Failed> {
        self.run()?;
        from.run()?;
        let (a, b) = (self.result(), from.result());
        let most = b.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        Ok(f64::from(apart / most))
    }
}

/// Largest difference between sums in other orders.
const TOLERANCE: f64 = 1e-5;

pub fn run() -> Result<Report, Failed> {
    let [width, height] = IMAGE;
    let setting = format!(
        "slopes by an image of {width} x {height} and by the input of a layer, {THREADS} threads; least time of {RUNS} runs"
    );
    let mut report = Report::new("convolution", setting);
    for taps in [[1, 5], [3, 5]] {
        schedules(&mut report, taps)?;
    }
    layer(&mut report)?;
    Ok(report)
}

/// The image with a kernel of these taps, under each pair of the three schedules.
fn schedules(report: &mut Report, [width, height]: [i32; 2]) -> Result<(), Failed> {
    let p = of_image([width, height])?;
    let whole = [IMAGE[0] + width - 1, IMAGE[1] + height - 1];
    let sizes: [(&'static str, &[i32]); 4] =
        [("image", &whole), ("kernel", &[width, height]), ("target", &IMAGE), ("d_image", &whole)];
    let all = [("compute_inline", INLINE), ("compute_root", ROOT), ("compute_at", AT)];
    let ready: Vec<Ready> =
        all.iter().map(|(_, text)| Ready::new(&p, text, &sizes)).collect::<Result<_, _>>()?;
    for ((name, _), ready) in all.iter().zip(&ready) {
        report.fact(&format!("{width} x {height}: {name}"), ready.least(), "ms");
    }
    for (a, b) in [(1, 0), (2, 0), (2, 1)] {
        let name = format!("{width} x {height}: {} / {}", all[a].0, all[b].0);
        compared(report, &name, &ready[a], &ready[b])?;
    }
    Ok(())
}

/// The slopes of the layer both ways.
pub(super) fn of_layer() -> Result<[(&'static str, Ready); 2], Failed> {
    let [width, height, channels, count] = LAYER;
    let inner = [width - 2, height - 2, channels, count];
    let kernel = [3, 3, channels, channels];
    let sizes: [(&'static str, &[i32]); 4] =
        [("image", &LAYER), ("kernel", &kernel), ("w", &inner), ("slope", &LAYER)];
    let gather = Ready::new(&gather()?, GATHER, &sizes)?;
    Ok([("gather", gather), ("atomic", Ready::new(&scatter(), SCATTER, &sizes[1..])?)])
}

/// The layer both ways.
fn layer(report: &mut Report) -> Result<(), Failed> {
    let [(_, gather), (_, scatter)] = of_layer()?;
    report.fact("16 x 16 x 256 x 256: gather", gather.least(), "ms");
    report.fact("16 x 16 x 256 x 256: scatter", scatter.least(), "ms");
    compared(report, "16 x 16 x 256 x 256: scatter with atomics / gather", &scatter, &gather)
}

/// The ratio of two that agree.
fn compared(report: &mut Report, name: &str, a: &Ready, b: &Ready) -> Result<(), Failed> {
    let apart = a.apart(b)?;
    if apart > TOLERANCE {
        return Err(format!("{name}: {apart} apart").into());
    }
    let timed = |r: &Ready| time(&mut || drop(r.run()));
    report.ratio(compare_within(name, &mut || timed(a), &mut || timed(b), BUDGET));
    Ok(())
}
