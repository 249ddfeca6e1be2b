//! Every kind against block Jacobi: PCG iterations of the first step and its seconds, what the set-up costs, and what an iteration.
//!
//! Iterations are those to |r| <= 1e-6 |b| with R = 1e4. A set-up is the least of a few steps, in iterations of block Jacobi: all of D, M^-1 and
//! the hierarchy. An iteration of a kind is timed against one of block Jacobi in alternation; those of `auto` are of several kinds.

use super::{THREADS, pcg, root};
use crate::harness::{Ratio, compare_timed, time};
use crate::report::Report;
use std::error::Error;
use sumsq::energy::Energy;
use sumsq::matrix_free::preconditioner::kinds;
use sumsq::{
    ArrayData, CompileOptions, NamedArray, Precision, Preconditioner, Problem, ProblemData, SolveOptions,
    Solver,
};
use sumsq_examples::io::npz::Archive;

/// The kinds, that which the others are compared with first.
const KINDS: [Preconditioner; 5] = [
    Preconditioner::BlockJacobi,
    Preconditioner::Jacobi,
    Preconditioner::Multigrid,
    Preconditioner::Aggregation,
    Preconditioner::Auto,
];

/// Elements that are aggregated at most: of 4096 x 4096 the host's levels would take more memory than machines have that this runs on.
const MOST_AGGREGATED: usize = 1 << 20;

/// Sides of the grids of the Laplacian.
const SIDES: [usize; 6] = [128, 256, 512, 1024, 2048, 4096];

/// Cases, with the names of their energies.
const CASES: [(&str, &str); 6] = [
    ("image_warping", "image_warping"),
    ("poisson_image_editing_small", "poisson_image_editing"),
    ("shape_from_shading_small", "shape_from_shading"),
    ("optical_flow_flower", "optical_flow"),
    ("volumetric_mesh_deformation", "volumetric_mesh_deformation"),
    ("arap_hand", "arap_mesh_deformation"),
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

/// The kinds that are measured on a problem.
fn kinds_for(energy: &Energy, data: &ProblemData) -> Vec<Preconditioner> {
    let elements =
        data.unknowns().into_iter().zip(&energy.unknowns).map(|(u, of)| u.len() / usize::from(of.channels));
    let few = elements.sum::<usize>() <= MOST_AGGREGATED;
    let wanted = |kind: &Preconditioner| *kind != Preconditioner::Aggregation || few;
    let can_be_had = |kind: &Preconditioner| kinds::chosen(*kind, energy).is_ok();
    KINDS.into_iter().filter(wanted).filter(can_be_had).collect()
}

/// The facts and the ratios of one problem.
fn measure(
    report: &mut Report,
    name: &str,
    energy: &Energy,
    data: &ProblemData,
) -> Result<(), Box<dyn Error>> {
    let (mut setups, mut iteration) = (vec![], f64::NAN);
    let mut jacobi: Option<Problem> = None;
    for kind in kinds_for(energy, data) {
        let (mut problem, setup) = steps(report, name, energy, data, kind)?;
        setups.push((kind, setup));
        match &mut jacobi {
            None => jacobi = Some(problem),
            Some(jacobi) if kind != Preconditioner::Auto => {
                let ratio = iterations(name, kind, data, [&mut problem, jacobi]);
                iteration = ratio.seconds.1 / ITERATIONS as f64;
                report.ratio(ratio);
            }
            Some(_) => {}
        }
    }
    for (kind, setup) in setups {
        let said = kind.name();
        report.fact(&format!("{name}, {said}: set-up"), setup, "s");
        report.fact(&format!("{name}, {said}: set-up in iterations of block Jacobi"), setup / iteration, "");
    }
    Ok(())
}

/// The first step with a kind, and a few of two iterations, of which the least set-up counts; the problem and that set-up.
fn steps(
    report: &mut Report,
    name: &str,
    energy: &Energy,
    data: &ProblemData,
    kind: Preconditioner,
) -> Result<(Problem, f64), Box<dyn Error>> {
    let said = kind.name();
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
    let seconds = solved.seconds.solve - solved.seconds.growth;
    report.fact(&format!("{name}, {said}: the step"), seconds, "s");
    for grids in &solved.grids {
        report.fact(&format!("{name}, {said}: bytes stored"), grids.bytes as f64, "B");
        report.fact(&format!("{name}, {said}: operator complexity"), grids.operator_complexity, "");
    }
    let few = SolveOptions { iterations: Some(STEPS), linear_iterations: Some(2), ..SolveOptions::default() };
    let solved = problem.solve(&mut data.clone(), &few)?;
    let setup = solved.iterations.iter().map(|i| i.setup_seconds).fold(f64::INFINITY, f64::min);
    Ok((problem, setup))
}

/// The time of an iteration of a kind against that of block Jacobi.
fn iterations(
    name: &str,
    kind: Preconditioner,
    data: &ProblemData,
    [own, jacobi]: [&mut Problem; 2],
) -> Ratio {
    let options = SolveOptions::default();
    // Every run starts PCG anew: once the system is solved an iteration ends the run.
    let run = |problem: &mut Problem| {
        let mut probe = problem.linear_probe(data, &options).expect("the system is finite");
        time(&mut || probe.iterate(ITERATIONS).expect("generated code runs"))
    };
    compare_timed(
        &format!("{name}: an iteration of {} / of block Jacobi", kind.name()),
        &mut || run(own),
        &mut || run(jacobi),
        PAIRS,
    )
}
