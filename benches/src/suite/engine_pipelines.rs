//! The pipelines of the engine's own benchmark. `peers/halide/compile.py` says the same in Halide.

use sumsq::codegen::expr::UnaryOp;
use sumsq::codegen::{Expr, Func, Input, LoopLevel, Pipeline, ScalarType, Schedule, Tail, Var};

const F32: ScalarType = ScalarType::F32;
const I32: ScalarType = ScalarType::I32;
/// Stencils of a chain.
const STAGES: usize = 32;
/// Levels of the pyramid.
const LEVELS: usize = 8;
/// Width of the vectors, also Halide's.
const LANES: i32 = 8;
/// Rows of a strip.
const STRIP: i32 = 32;

/// A name, what it is, and how to build it.
pub type Job = (&'static str, &'static str, fn() -> (Pipeline, Schedule));

/// The jobs, by the names that the peer knows them by.
pub const JOBS: [Job; 3] = [
    ("chain_roots", "32 stencils of 5 x 5, each at root", || chain(false)),
    ("chain_strips", "32 stencils of 5 x 5, all in the strips of the last", || chain(true)),
    ("pyramid", "a local Laplacian of 99 stages", pyramid),
];

fn var(name: &str) -> (Var, Expr) {
    let v = Var::new(name);
    let e = v.expr();
    (v, e)
}

fn float(v: f64) -> Expr {
    Expr::float(F32, v)
}

/// The input at the nearest point of its domain.
fn clamped(p: &mut Pipeline, name: &str) -> Func {
    let ((vx, x), (vy, y)) = (var("x"), var("y"));
    let image = p.input(Input::new("image", &[F32], 2));
    let inside = |e: Expr, d: usize| e.max(0).min(image.extent(d) - 1);
    p.func(Func::new(name, &[vx, vy], vec![image.at(&[inside(x, 0), inside(y, 1)], 0)]))
}

fn chain(strips: bool) -> (Pipeline, Schedule) {
    let ((vx, x), (vy, y)) = (var("x"), var("y"));
    let mut p = Pipeline::new("chain");
    let mut f = clamped(&mut p, "clamped");
    let mut s = Schedule::new();
    for i in 0..STAGES {
        let taps = (-2i64..=2).flat_map(|dy| (-2i64..=2).map(move |dx| (dx, dy)));
        let term = |(dx, dy): (i64, i64)| {
            let weight = 1.0 / (1 + dx.abs() + 2 * dy.abs()) as f64;
            f.at(&[&x + dx, &y + dy], 0) * float(weight)
        };
        let sum = taps.map(term).reduce(|a, b| a + b).unwrap_or_else(|| float(0.0));
        let name = format!("stage{i}");
        f = p.func(Func::new(name.as_str(), &[vx, vy], vec![sum]));
        let last = format!("stage{}", STAGES - 1);
        match (strips, i + 1 == STAGES) {
            (false, _) => s.func(&name).vectorize("x", LANES, Tail::Predicate).parallel("y").compute_root(),
            (true, false) => {
                let level = LoopLevel::pure(&last, "strip");
                s.func(&name).compute_at(level).vectorize("x", LANES, Tail::Predicate)
            }
            (true, true) => {
                let h = s.func(&name).split("y", "strip", "row", STRIP, Tail::Predicate);
                h.vectorize("x", LANES, Tail::Predicate).parallel("strip")
            }
        };
    }
    s.func("stage0").relaxed();
    p.output(&f);
    (p, s)
}

/// Funcs over x, y and, at three dimensions, k.
struct Pyramid {
    p: Pipeline,
    dims: usize,
}

impl Pyramid {
    fn vars(&self) -> Vec<Var> {
        ["x", "y", "k"][..self.dims].iter().map(|v| Var::new(*v)).collect()
    }

    /// `f` at (x, y) and its own k.
    fn at(&self, f: &Func, x: Expr, y: Expr) -> Expr {
        let k = Expr::var("k");
        f.at(&[x, y, k][..self.dims], 0)
    }

    fn define(&mut self, name: String, value: Expr) -> Func {
        let vars = self.vars();
        self.p.func(Func::new(name, &vars, vec![value]))
    }

    /// Half the size, smoothed by 1 3 3 1.
    fn downsample(&mut self, f: &Func, name: &str) -> Func {
        let (x, y) = (Expr::var("x"), Expr::var("y"));
        let smooth = |tap: &dyn Fn(i64) -> Expr| (tap(-1) + (tap(0) + tap(1)) * 3.0 + tap(2)) / 8.0;
        let along_x = smooth(&|dx| self.at(f, &x * 2 + dx, y.clone()));
        let downx = self.define(format!("{name}_downx"), along_x);
        let along_y = smooth(&|dy| self.at(&downx, x.clone(), &y * 2 + dy));
        self.define(format!("{name}_downy"), along_y)
    }

    /// Twice the size, interpolated linearly.
    fn upsample(&mut self, f: &Func, name: &str) -> Func {
        let (x, y) = (Expr::var("x"), Expr::var("y"));
        let other = |e: &Expr| e.clone() / 2 - 1 + e.modulo(2) * 2;
        let along_x = self.at(f, other(&x), y.clone()) * 0.25 + self.at(f, x.clone() / 2, y.clone()) * 0.75;
        let upx = self.define(format!("{name}_upx"), along_x);
        let along_y =
            self.at(&upx, x.clone(), other(&y)) * 0.25 + self.at(&upx, x.clone(), y.clone() / 2) * 0.75;
        self.define(format!("{name}_upy"), along_y)
    }

    /// `f`, and so many smaller ones.
    fn gaussian(&mut self, f: Func, name: &str) -> Vec<Func> {
        let mut all = vec![f];
        for j in 1..LEVELS {
            let name = format!("{name}{j}");
            let down = self.downsample(&all[j - 1].clone(), &name);
            let value = self.at(&down, Expr::var("x"), Expr::var("y"));
            all.push(self.define(name, value));
        }
        all
    }
}

/// Paris et al. 2011 as in the Halide paper: a pyramid per level of brightness, and one of the image, which chooses.
fn pyramid() -> (Pipeline, Schedule) {
    let (x, y, k) = (Expr::var("x"), Expr::var("y"), Expr::var("k"));
    let here = [x.clone(), y.clone()];
    let top = LEVELS - 1;
    let mut b = Pyramid { p: Pipeline::new("pyramid"), dims: 2 };
    let gray = clamped(&mut b.p, "gray");
    let fx = x.cast(F32) / 256.0;
    let bump = &fx * &(-(&fx * &fx) / 2.0).unary(UnaryOp::Exp);
    let remap = b.p.func(Func::new("remap", &[Var::new("x")], vec![bump]));
    b.dims = 3;
    let level = k.cast(F32) * float(1.0 / top as f64);
    let last = (top * 256) as i32;
    let index = (gray.at(&here, 0) * last as f64).cast(I32).max(0).min(last);
    let curve = remap.at(&[index - &k * 256], 0);
    let first = b.define("g0".into(), (gray.at(&here, 0) - &level) * 0.9 + &level + curve);
    let g = b.gaussian(first, "g");
    let mut laplacian = vec![b.define(format!("l{top}"), g[top].at(&[x.clone(), y.clone(), k.clone()], 0))];
    for j in (0..top).rev() {
        let up = b.upsample(&g[j + 1], &format!("l{j}"));
        let value = b.at(&g[j], x.clone(), y.clone()) - b.at(&up, x.clone(), y.clone());
        laplacian.insert(0, b.define(format!("l{j}"), value));
    }
    b.dims = 2;
    let first = b.define("in0".into(), gray.at(&here, 0));
    let own = b.gaussian(first, "in");
    let mut mixed = vec![];
    for j in 0..LEVELS {
        let at = own[j].at(&here, 0) * top as f64;
        let low = at.cast(I32).max(0).min(top as i32 - 1);
        let part = at - low.cast(F32);
        let of = |level: Expr| laplacian[j].at(&[x.clone(), y.clone(), level], 0);
        let value = (float(1.0) - &part) * of(low.clone()) + part * of(low + 1);
        mixed.push(b.define(format!("mixed{j}"), value));
    }
    let mut out = b.define(format!("out{top}"), mixed[top].at(&here, 0));
    for j in (0..top).rev() {
        let up = b.upsample(&out, &format!("out{j}"));
        out = b.define(format!("out{j}"), up.at(&here, 0) + mixed[j].at(&here, 0));
    }
    let result = b.define("result".into(), out.at(&here, 0).max(float(0.0)).min(float(1.0)));
    b.p.output(&result);
    let mut s = Schedule::new();
    s.func("remap").compute_root().relaxed();
    let levels = (1..LEVELS).flat_map(|j| ["g", "in", "out"].map(|f| format!("{f}{j}")));
    for f in std::iter::once("gray".to_string()).chain(levels) {
        s.func(&f).compute_root().vectorize("x", LANES, Tail::Predicate).parallel("y");
    }
    s.func("result").vectorize("x", LANES, Tail::Predicate).parallel("y");
    (b.p, s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jobs_are_what_they_say() {
        let stages = |job: &Job| job.2().0.funcs.len();
        // The chain's input is clamped in a Func of its own.
        assert_eq!(JOBS.iter().map(stages).collect::<Vec<_>>(), [STAGES + 1, STAGES + 1, 99]);
        for (name, _, build) in JOBS {
            let (p, s) = build();
            sumsq::codegen::plan::plan(&p, &s).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}
