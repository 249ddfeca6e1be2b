//! Multigrid against block Jacobi: PCG iterations of the first step, what the set-up costs, and what an iteration.
//!
//! Iterations are those to |r| <= 1e-6 |b| with R = 1e4. A set-up is the least of a few steps, in iterations of block Jacobi: all of D, M^-1 and
//! the hierarchy. An iteration of the one is timed against one of the other in alternation.

use super::{THREADS, pcg, root};
use crate::harness::{compare_timed, time};
use crate::report::Report;
use std::error::Error;
use sumsq::energy::Energy;
use sumsq::{
    ArrayData, CompileOptions, NamedArray, Precision, Preconditioner, Problem, ProblemData, SolveOptions,
    Solver,
};
use sumsq_examples::io::npz::Archive;

/// The kinds, that which the other is compared with first.
const KINDS: [(Preconditioner, &str); 2] =
    [(Preconditioner::BlockJacobi, "block_jacobi"), (Preconditioner::Multigrid, "multigrid")];

/// Sides of the grids of the Laplacian.
const SIDES: [usize; 6] = [128, 256, 512, 1024, 2048, 4096];

/// Cases, with the names of their energies.
const CASES: [(&str, &str); 5] = [
    ("image_warping", "image_warping"),
    ("poisson_image_editing_small", "poisson_image_editing"),
    ("shape_from_shading_small", "shape_from_shading"),
    ("optical_flow_flower", "optical_flow"),
    ("volumetric_mesh_deformation", "volumetric_mesh_deformation"),
];

/// Steps of which the least set-up counts.
const STEPS: usize = 4;

/// Iterations of a timed run.
const ITERATIONS: usize = 10;

/// Pairs of timed runs.
const PAIRS: usize = 15;

pub fn run() -> Result<Report, Box<dyn Error>> {
    let setting = format!("first step, |r| <= 1e-6 |b|, R = 1e4, mixed precision, {THREADS} threads");
    let mut report = Report::new("preconditioners", setting);
    for side in SIDES {
        let energy = pcg::energy();
        let field = |name: &str, value: &dyn Fn(usize) -> f32| NamedArray {
            name: name.into(),
            shape: vec![side, side],
            data: ArrayData::F32((0..side * side).map(value).collect()),
        };
        // Smooth and rough parts.
        let of = |i: usize| {
            ((i % side * 7 + i / side * 13) % 101) as f32 / 101.0 + (i / side) as f32 / side as f32
        };
        let arrays = [field("X", &|_| 0.0), field("A", &of)];
        let data = ProblemData::bind(&energy, &arrays)?;
        measure(&mut report, &format!("laplacian {side} x {side}"), &energy, &data)?;
    }
    for (case, energy) in CASES {
        let energy = Energy::from_file(root().join(format!("examples/energies/{energy}.t")))?;
        let archive = Archive::open(&root().join(format!("data/cases/{case}.npz")))?;
        let arrays = archive.read_all()?;
        let data = ProblemData::bind(&energy, &arrays)?;
        measure(&mut report, case, &energy, &data)?;
    }
    Ok(report)
}

/// The facts and the ratio of one problem.
fn measure(
    report: &mut Report,
    name: &str,
    energy: &Energy,
    data: &ProblemData,
) -> Result<(), Box<dyn Error>> {
    let mut setups = vec![];
    let mut problems: Vec<Problem> = vec![];
    for (kind, said) in KINDS {
        let options = CompileOptions {
            preconditioner: kind,
            precision: Precision::Mixed,
            threads: Some(THREADS),
            ..CompileOptions::default()
        };
        let mut problem = Solver::compile(energy.clone(), &options)?.plan(data)?;
        let first = SolveOptions {
            iterations: Some(1),
            linear_tolerance: Some(1e-6),
            radius: Some(1e4),
            ..SolveOptions::default()
        };
        let solved = problem.solve(&mut data.clone(), &first)?;
        report.fact(&format!("{name}, {said}: iterations"), solved.linear_iterations_total as f64, "");
        let few =
            SolveOptions { iterations: Some(STEPS), linear_iterations: Some(2), ..SolveOptions::default() };
        let solved = problem.solve(&mut data.clone(), &few)?;
        setups.push(solved.iterations.iter().map(|i| i.setup_seconds).fold(f64::INFINITY, f64::min));
        for grids in problem.hierarchies() {
            report.fact(&format!("{name}, {said}: bytes stored"), grids.bytes as f64, "B");
            report.fact(&format!("{name}, {said}: operator complexity"), grids.operator_complexity, "");
        }
        problems.push(problem);
    }
    let options = SolveOptions::default();
    let [jacobi, multigrid] = &mut problems[..] else { return Err("two kinds".into()) };
    // Every run starts PCG anew: once the system is solved an iteration ends the run.
    let run = |problem: &mut Problem| {
        let mut probe = problem.linear_probe(data, &options).expect("the system is finite");
        time(&mut || probe.iterate(ITERATIONS).expect("generated code runs"))
    };
    let ratio = compare_timed(
        &format!("{name}: an iteration of multigrid / of block Jacobi"),
        &mut || run(multigrid),
        &mut || run(jacobi),
        PAIRS,
    );
    let iteration = ratio.seconds.1 / ITERATIONS as f64;
    report.ratio(ratio);
    for ((_, said), setup) in KINDS.iter().zip(setups) {
        report.fact(&format!("{name}, {said}: set-up"), setup, "s");
        report.fact(&format!("{name}, {said}: set-up in iterations of block Jacobi"), setup / iteration, "");
    }
    Ok(())
}
