//! One PCG iteration of the Laplacian energy: generated sweeps against the same two sweeps by hand, and against STREAM triad.
//!
//! The energy is w_fit (X - A), w_fit = 0.1, and differences of neighbours. At X = 0 with A = B/w, w = w_fit^2, its Gauss-Newton
//! system is (w + L) d = w A = B: that of the yardstick, right-hand side included, so that r.z agrees without a scale.
//!
//! It agrees to 5e-5 only, because the yardstick's centre 4 + w, rounded to float32, is that of a w larger by 2e-5 (w + 4 = 4.01 is
//! 4.0100002); the generated code sums differences of neighbours, and stays within 1e-8 of its float64 self.

use super::THREADS;
use crate::harness::{compare, noise};
use crate::report::Report;
use crate::yardstick::pcg::{Pcg, right_hand_side};
use crate::yardstick::stream::{Store, Stream};
use sumsq::energy::model::Energy;
use sumsq::energy::rust::EnergyBuilder;
use sumsq::{
    ArrayData, CompileOptions, LinearProbe, Method, NamedArray, Options, Precision, Preconditioner,
    ProblemData, SolveOptions, Solver,
};

/// Points in each direction.
const N: usize = 4096;
/// Weight of the fit term in the energy; its square in the system.
const W_FIT: f64 = 0.1;
/// Iterations after which both sides must agree.
const CHECKED: usize = 20;
/// Distance that r.z of the two sides may have: float32 vectors, summed in different orders.
const AGREEMENT: f64 = 1e-3;
/// Arrays that the two sweeps move, and that triad does.
const MOVED: (f64, f64) = (8.0, 3.0);
const PAIRS: usize = 25;

pub fn run() -> Report {
    let setting = format!("w + Laplacian, w = 0.01, {N} x {N} float32, {THREADS} threads");
    let mut report = Report::new("pcg", setting);
    let data = data(&energy());
    let exact = with_probe(&data, Precision::F64, |probe| {
        probe.iterate(CHECKED).expect("generated code runs");
        probe.rz()
    });
    report.fact(&format!("r.z after {CHECKED} iterations, generated, float64"), exact, "");
    with_probe(&data, Precision::F32, |probe| measure(&mut report, probe, exact));
    report
}

/// Calls `f` at the start of PCG.
fn with_probe<R>(data: &ProblemData, precision: Precision, f: impl FnOnce(&mut LinearProbe) -> R) -> R {
    let options = Options {
        compile: CompileOptions {
            precision,
            preconditioner: Preconditioner::Jacobi,
            threads: Some(THREADS),
            ..CompileOptions::default()
        },
        solve: SolveOptions { method: Method::GaussNewton, ..SolveOptions::default() },
    };
    let solver = Solver::compile(energy(), &options.compile).expect("the energy compiles");
    let mut problem = solver.plan(data).expect("the plan fits into memory");
    f(&mut problem.linear_probe(data, &options.solve).expect("the system is finite"))
}

fn measure(report: &mut Report, probe: &mut LinearProbe, exact: f64) {
    let mut yardstick = Pcg::new(N, (W_FIT * W_FIT) as f32, THREADS);
    probe.iterate(CHECKED).expect("generated code runs");
    (0..CHECKED).for_each(|_| yardstick.iterate());
    for (side, rz) in [("hand-written", yardstick.rz()), ("generated", probe.rz())] {
        report.fact(&format!("r.z after {CHECKED} iterations, {side}"), rz, "");
        let apart = (rz / exact - 1.0).abs();
        assert!(apart <= AGREEMENT, "{side}: not the same system, r.z is {apart:e} apart");
    }

    let mut generated = || probe.iterate(1).expect("generated code runs");
    report.ratio(compare("generated / hand-written", &mut generated, &mut || yardstick.iterate(), PAIRS));
    report.ratio(noise("generated / generated", &mut generated, PAIRS));
    report.ratio(noise("hand-written / hand-written", &mut || yardstick.iterate(), PAIRS));
    let mut arrays = Stream::new(N * N, THREADS);
    let mut triad = || {
        arrays.triad(Store::NonTemporal);
    };
    for (name, run) in
        [("generated", &mut generated as &mut dyn FnMut()), ("hand-written", &mut || yardstick.iterate())]
    {
        let ratio = compare(&format!("{name} / triad"), run, &mut triad, PAIRS);
        let per_byte = ratio.median / (MOVED.0 / MOVED.1);
        report.ratio(ratio);
        report.fact(&format!("{name} / triad, per byte"), per_byte, "");
    }
}

pub fn energy() -> Energy {
    let e = EnergyBuilder::new();
    let dims = [e.dim("W"), e.dim("H")];
    let x = e.unknown("X", 1, &dims);
    let a = e.array("A", 1, &dims);
    e.energy(W_FIT * (x.at([0, 0]) - a.at([0, 0])));
    for neighbour in [[1, 0], [0, 1]] {
        e.energy(x.at([0, 0]) - x.at(neighbour));
    }
    e.finish().expect("the energy is well formed")
}

fn data(energy: &Energy) -> ProblemData<'static> {
    let w = (W_FIT * W_FIT) as f32;
    let field = |name: &str, values| NamedArray {
        name: name.into(),
        shape: vec![N, N],
        data: ArrayData::F32(values),
    };
    let a = right_hand_side(N).into_iter().map(|b| b / w).collect();
    let arrays = [field("X", vec![0.0; N * N]), field("A", a)];
    ProblemData::bind(energy, &arrays).expect("the arrays fit the energy").into_owned()
}
