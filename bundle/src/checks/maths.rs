//! Functions of floats: to the bits of the interpreter, and against float64 and values of many digits.

use super::Extent;
use super::records::Records;
use sumsq::codegen::functions::Function;
use sumsq::codegen::runtime::cuda::devices;
use sumsq::codegen::{Expr, Func, Input, Pipeline, ScalarType, Schedule, Var};
use sumsq_codegen_testing::maths::{bound, interval, known};
use sumsq_codegen_testing::native::{compile_for, execute};
use sumsq_codegen_testing::reference::{Bindings, Realization, Value, ulps};
use sumsq_codegen_testing::rng::Rng;

const KERNEL: &str = "out: split(x, xo, xi, 256, predicate) gpu_blocks(xo) gpu_threads(xi)";

/// A function of one or two lists as a kernel.
struct Kernel {
    function: Function,
    ty: ScalarType,
    compiled: sumsq::codegen::compile::Compiled,
    pipeline: Pipeline,
}

impl Kernel {
    fn new(function: Function, ty: ScalarType) -> Kernel {
        let x = Var::new("x");
        let mut pipeline = Pipeline::new(format!("{}_{}", function.name(), ty.name()));
        let lists = ["a", "b"].iter().take(function.arity());
        let operands: Vec<Expr> =
            lists.map(|name| pipeline.input(Input::new(*name, &[ty], 1)).at(&[x.expr()], 0)).collect();
        let out = pipeline.func(Func::new("out", &[x], vec![Expr::apply(function, &operands)]));
        pipeline.output(&out);
        let target = devices().unwrap_or_else(|e| panic!("{e}"))[0].target();
        let schedule = Schedule::parse(KERNEL).expect("a schedule");
        let compiled =
            compile_for(&pipeline, &schedule, &target).unwrap_or_else(|e| panic!("{}: {e}", pipeline.name));
        Kernel { function, ty, compiled, pipeline }
    }

    /// Its values, one per row of operands.
    fn values(&self, rows: &[Vec<f64>]) -> Vec<f64> {
        let list = |k: usize| {
            let values = rows.iter().map(|row| Value::Float(row[k])).collect();
            Realization { planes: vec![values], ..Realization::zeros(&[self.ty], &[rows.len()]) }
        };
        let names = ["a", "b"].iter().take(self.function.arity()).enumerate();
        let inputs = names.map(|(k, name)| (name.to_string().into(), list(k))).collect();
        let given = Bindings { inputs, params: Default::default() };
        let domains = [vec![(0, rows.len())]];
        let came = execute(&self.pipeline, &self.compiled, &given, &domains, 1);
        let came = came.unwrap_or_else(|e| panic!("{}: {e}", self.pipeline.name));
        came[0].planes[0].iter().map(|v| v.as_f64()).collect()
    }
}

/// Operands of f32: uniform in the function's interval, or small ones of all magnitudes.
fn operands(f: Function, n: usize) -> Vec<Vec<f64>> {
    let mut rng = Rng::new(0x5eed_0013 + f as u64);
    let mut uniform = |lo: f64, hi: f64| lo + (hi - lo) * (rng.bits() >> 11) as f64 / (1u64 << 53) as f64;
    let (lo, hi) = interval(f);
    let row = |k: usize| {
        let scale = if k.is_multiple_of(2) || f == Function::Acosh { 1.0 } else { uniform(-40.0, 0.0).exp() };
        let x = f64::from((uniform(lo, hi) * scale) as f32);
        let y = f64::from(uniform(-10.0, 10.0) as f32);
        let y = if f == Function::Pow && x < 0.0 { y.round() } else { y };
        [x, y][..f.arity()].to_vec()
    };
    (0..n).map(row).collect()
}

/// Zeros, infinities, NaN, denormal and great numbers.
fn special(f: Function) -> Vec<Vec<f64>> {
    let positive =
        [0.0, 1e-45, 1e-38, 0.5, 1.0, 1.5, 1e3, 16_777_217.0, 1e30, f64::from(f32::MAX), f64::INFINITY];
    let mut all: Vec<f64> = positive.iter().flat_map(|&v| [v, -v]).map(|v| f64::from(v as f32)).collect();
    all.push(f64::NAN);
    match f.arity() {
        1 => all.into_iter().map(|x| vec![x]).collect(),
        _ => all.iter().flat_map(|&x| all.iter().map(move |&y| vec![x, y])).collect(),
    }
}

pub fn bits(records: &mut Records, extent: Extent) {
    for &f in Function::ALL {
        for ty in [ScalarType::F32, ScalarType::F64] {
            let kernel = Kernel::new(f, ty);
            let name = kernel.pipeline.name.to_string();
            if !records.begin(&name, kernel.compiled.ptx().unwrap_or_default()) {
                continue;
            }
            let rows = [special(f), operands(f, extent.of(50_000, 500))].concat();
            // Any NaN is one of them.
            let words = kernel.values(&rows).into_iter().map(|v| if v.is_nan() { f64::NAN } else { v });
            records.add(&name, 8, &words.flat_map(f64::to_le_bytes).collect::<Vec<u8>>());
        }
    }
}

pub fn errors(extent: Extent) {
    let mut wrong = vec![];
    let mut judge = |f: Function, ty, row: &[f64], error: f64, most: f64, largest: &mut f64| {
        *largest = largest.max(error);
        if error.is_nan() || error > most {
            wrong
                .push(format!("{}({row:?}) in {ty:?} is off by {error} units, {most} are allowed", f.name()));
        }
    };
    println!("function: largest errors in units of the last place, in f32 and in f64");
    for &f in Function::ALL {
        let mut largest = [0.0f64; 2];
        let rows = operands(f, extent.of(200_000, 2000));
        for (row, came) in rows.iter().zip(Kernel::new(f, ScalarType::F32).values(&rows)) {
            let exact = f.value(row[0], row.get(1).copied().unwrap_or(0.0));
            if exact.is_nan() || exact.abs() > f64::from(f32::MAX) {
                continue;
            }
            let error = ulps(ScalarType::F32, came - exact, exact).abs();
            judge(f, ScalarType::F32, row, error, bound(f).0, &mut largest[0]);
        }
        let values: Vec<_> = known().filter(|k| k.function == f).collect();
        let rows: Vec<Vec<f64>> = values.iter().map(|k| k.operands.clone()).collect();
        if !rows.is_empty() {
            for (k, came) in values.iter().zip(Kernel::new(f, ScalarType::F64).values(&rows)) {
                // came - high is exact, being a difference of neighbours.
                let error = ulps(ScalarType::F64, (came - k.high) - k.low, k.high).abs();
                judge(f, ScalarType::F64, &k.operands, error, bound(f).1, &mut largest[1]);
            }
        }
        println!("{}: {:.3} {:.3}", f.name(), largest[0], largest[1]);
    }
    let shown = wrong[..wrong.len().min(20)].join("\n");
    assert!(wrong.is_empty(), "{} values are too far off:\n{shown}", wrong.len());
}
