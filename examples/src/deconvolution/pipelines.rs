//! The two pipelines of a stage: the residuals of its least squares, and the targets of the next stage's priors.

use sumsq::codegen::ScalarType::{F32, I32};
use sumsq::codegen::{
    Constraint, Expr, Func, Input, Pipeline, RDom, ScalarType, Source, Var, boundary, in_floats,
};
use sumsq::pipeline_energy::{Loss, PipelineEnergy};

/// Half the root of 2.
const HALF: f64 = std::f64::consts::FRAC_1_SQRT_2;
/// Width and height of a cell of the bilateral grid, in pixels.
const CELL: i32 = 8;
/// Ranges of brightness from black to white at most.
const RANGES: i32 = 64;
/// The least share of a cell's pixels that counts, against a division by 0.
const LEAST: f64 = 1e-6;

/// A discrete derivative: each tap has an offset and a factor.
pub(super) struct Filter {
    /// The residual of its prior, the picture of its targets, and its adjoint.
    pub prior: &'static str,
    pub target: &'static str,
    pub adjoint: &'static str,
    taps: &'static [(i32, i32, f64)],
    /// Its place among weights and thresholds: 0 for first derivatives, 1 for second ones, 2 for the mixed one.
    pub kind: i32,
}

/// The filters of Fortunato and Oliveira, 2014.
pub(super) const FILTERS: [Filter; 5] = [
    Filter {
        prior: "prior_x",
        target: "target_x",
        adjoint: "w_x",
        taps: &[(-1, 0, -0.5), (1, 0, 0.5)],
        kind: 0,
    },
    Filter {
        prior: "prior_y",
        target: "target_y",
        adjoint: "w_y",
        taps: &[(0, -1, -0.5), (0, 1, 0.5)],
        kind: 0,
    },
    Filter {
        prior: "prior_xx",
        target: "target_xx",
        adjoint: "w_xx",
        taps: &[(-1, 0, -HALF), (0, 0, 2.0 * HALF), (1, 0, -HALF)],
        kind: 1,
    },
    Filter {
        prior: "prior_yy",
        target: "target_yy",
        adjoint: "w_yy",
        taps: &[(0, -1, -HALF), (0, 0, 2.0 * HALF), (0, 1, -HALF)],
        kind: 1,
    },
    Filter {
        prior: "prior_xy",
        target: "target_xy",
        adjoint: "w_xy",
        taps: &[(-1, -1, -2.0 * HALF), (0, -1, 2.0 * HALF), (-1, 0, 2.0 * HALF), (0, 0, -2.0 * HALF)],
        kind: 2,
    },
];

impl Filter {
    pub(super) fn of(&self, f: &impl Source, [x, y]: [Var; 2]) -> Expr {
        let tap = |&(i, j, factor): &(i32, i32, f64)| f.of((x + i, y + j)) * factor;
        self.taps.iter().map(tap).reduce(|a, b| a + b).unwrap_or_else(|| Expr::from(0))
    }

    /// The pixels of an image all of whose taps lie inside: of each dimension the first one, and by how much they are fewer.
    pub(super) fn inside(&self) -> [(i32, i32); 2] {
        let along = |of: fn(&(i32, i32, f64)) -> i32| {
            let (low, high) = self.taps.iter().map(of).fold((0, 0), |(l, h), i| (l.min(i), h.max(i)));
            (-low, high - low)
        };
        [along(|tap| tap.0), along(|tap| tap.1)]
    }
}

/// Residuals by name: of each dimension the first coordinate and the extent.
type Domains = Vec<(&'static str, Vec<(Expr, Expr)>)>;

/// First coordinate and extent of each dimension of an input.
fn domain(of: &Input) -> Vec<(Expr, Expr)> {
    (0..of.dims).map(|d| (Expr::from(0), of.extent(d))).collect()
}

/// Residuals over `image`, with a kernel of `side` x `side`: `apart`, what the blurred image is from `blurred`, and five priors, what the derivatives
/// of `image` are from their targets, by `weight`. The image is larger than `blurred` by `side - 1`, so that nothing is said of what
/// no blurred pixel sees. A second value is the domain of each residual. All floats are of one type.
pub(super) fn residuals(side: i32, ty: ScalarType) -> (Pipeline, Domains) {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("deconvolution");
    let [image, blurred, kernel] =
        ["image", "blurred", "kernel"].map(|name| p.input(Input::strided(name, &[F32], 2)));
    let weight = p.input(Input::strided("weight", &[F32], 1));
    let r = RDom::new([("i", 0, side), ("j", 0, side)]);
    let seen = kernel.of((r.var(0), r.var(1))) * image.of((x + r.var(0), y + r.var(1)));
    let sum = p.sum("sum", &r, seen);
    p.define("apart", [x, y], sum - blurred.of((x, y)));
    let mut domains = vec![("apart", domain(&blurred))];
    for f in &FILTERS {
        let target = p.input(Input::strided(f.target, &[F32], 2));
        p.define(f.prior, [x, y], (f.of(&image, [x, y]) - target.of((x, y))) * weight.of(f.kind));
        let [along_x, along_y] = f.inside();
        let part = |d: usize, (first, fewer): (i32, i32)| (Expr::from(first), image.extent(d) - fewer);
        domains.push((f.prior, vec![part(0, along_x), part(1, along_y)]));
    }
    let inputs: Vec<String> = p.inputs.keys().map(|name| name.to_string()).collect();
    (in_floats(&p, ty, &inputs.iter().map(String::as_str).collect::<Vec<_>>()), domains)
}

/// The least squares of a stage.
pub(super) fn energy(side: i32, ty: ScalarType) -> PipelineEnergy {
    let (p, domains) = residuals(side, ty);
    let energy = PipelineEnergy::new(p).unknown("image");
    domains.iter().fold(energy, |energy, (name, domain)| energy.residual_over(*name, domain, Loss::Squares))
}

/// The pipeline of [`add_targets`], over inputs of their names.
pub(super) fn targets() -> Pipeline {
    let mut p = Pipeline::new("targets");
    let image = p.input(Input::strided("image", &[F32], 2));
    let [smooth, threshold] = ["smooth", "threshold"].map(|name| p.input(Input::strided(name, &[F32], 1)));
    for target in add_targets(&mut p, &image, &smooth, &threshold) {
        p.output_strided(&target, Constraint::defaults(2));
    }
    p
}

/// Smooths `image` by a bilateral grid, `smooth` = (the range of brightness of a cell, the blur in cells), and gives the derivatives d of the result
/// as targets: d q / (1 + q), where q = (d / threshold)^4, so that small ones count as 0.
pub(super) fn add_targets(p: &mut Pipeline, image: &Input, smooth: &Input, threshold: &Input) -> Vec<Func> {
    let [x, y, z, c] = Var::all(["x", "y", "z", "c"]);
    let near = p.func(boundary::repeat_edge("near", image, &image.domain()));

    // A pixel counts in the two ranges about its brightness.
    let per_range = p.define("per_range", [], (1.0f32 / smooth.of(0)).min(RANGES as f32));
    let depth = |v: &Expr| v.clamp(0.0, 1.0) * per_range.of(());
    let range = |depth: &Expr| depth.floor().cast(I32).clamp(0, RANGES);
    let cell = RDom::new([("i", 0, CELL), ("j", 0, CELL)]);
    let at = |v: Var, r: Expr| v * CELL + r - CELL / 2;
    let value = near.of((at(x, cell.var(0)), at(y, cell.var(1))));
    let (bin, share) = (range(&depth(&value)), depth(&value) - depth(&value).floor());
    let counted = Expr::select(Expr::from(c).eq_(0), &value, 1.0f32);
    let grid = p.define("grid", [x, y, z, c], 0.0f32);
    let grid = p.add_to(&grid, (x, y, bin.clone(), c), &counted * (1.0f32 - &share), &cell);
    let grid = p.add_to(&grid, (x, y, bin + 1, c), counted * share, &cell);

    let k = Var::new("k");
    let far = k.expr().cast(F32) / smooth.of(1);
    let bell = p.define("bell", [k], (&far * &far * -0.5f32).exp());
    let blur = |p: &mut Pipeline, name: &str, of: &Func, d: usize, reach: i32| {
        let tap = |k: i32| {
            let mut at = [x, y, z, c].map(Expr::from);
            at[d] = &at[d] + k;
            let factor = if d == 2 { Expr::float(F32, f64::from(2 - k.abs())) } else { bell.of(k) };
            of.at(&at, 0) * factor
        };
        let sum = (-reach..=reach).map(tap).reduce(|a, b| a + b);
        p.define(name, [x, y, z, c], sum.unwrap_or_else(|| Expr::from(0)))
    };
    let along_z = blur(p, "along_z", &grid, 2, 1);
    let along_x = blur(p, "along_x", &along_z, 0, 2);
    let along_y = blur(p, "along_y", &along_x, 1, 2);

    let own = near.of((x, y));
    let (depth, bin) = (depth(&own), range(&depth(&own)));
    let share = |v: Var| (v % CELL).cast(F32) / CELL as f32;
    let weights = [share(x), share(y), &depth - depth.floor()];
    let (left, top) = (x / CELL, y / CELL);
    let sampled = |c: i32| {
        let corner = |dx: i32, dy: i32, dz: i32| along_y.of((&left + dx, &top + dy, &bin + dz, c));
        let along_x = |dy: i32, dz: i32| Expr::lerp(corner(0, dy, dz), corner(1, dy, dz), &weights[0]);
        let along_y = |dz: i32| Expr::lerp(along_x(0, dz), along_x(1, dz), &weights[1]);
        Expr::lerp(along_y(0), along_y(1), &weights[2])
    };
    let clean = p.define("clean", [x, y], (sampled(0) + own * LEAST) / (sampled(1) + LEAST));
    let target = |f: &Filter| {
        let d = p.define(format!("d_{}", f.target), [x, y], f.of(&clean, [x, y]));
        let ratio = d.of((x, y)) / threshold.of(f.kind);
        let q = &ratio * &ratio * &ratio * &ratio;
        p.define(f.target, [x, y], d.of((x, y)) * (&q / (&q + 1.0)))
    };
    FILTERS.iter().map(target).collect()
}
