//! Costs and gains of storing, after figure 14 of DeVito et al., "Opt", 2017: a PCG iteration with stored partials, with stored
//! products J p (the two passes of J^T (J p)), with both (an explicit Jacobian), or with stored diagonal blocks of J^T J,
//! against the in-place method.

use super::THREADS;
use super::iteration::{ITERATIONS, Iteration};
use crate::harness::time;
use crate::report::Report;
use sumsq::CompileOptions;
use sumsq::energy::Energy;
use sumsq::energy::derive::{Materialize, Passes};
use sumsq::matrix_free::domain::counts::operation_counts;
use sumsq::matrix_free::prepare;
use sumsq_examples::demos::{
    Problem, arap_mesh_deformation, cotangent_mesh_smoothing, image_warping, poisson_image_editing,
    shape_from_shading,
};

const CHOICES: [&str; 5] = ["j", "jp", "j+jp", "blocks", "j+blocks"];

pub fn run() -> Report {
    let setting =
        format!("mixed precision, {THREADS} threads; {ITERATIONS} PCG iterations against those in place");
    let mut report = Report::new("materialize", setting);
    let problems = [
        image_warping::Scene::tulips().map(|s| s.problem()),
        arap_mesh_deformation::Scene::dog_17k().map(|s| s.problem()),
        cotangent_mesh_smoothing::Scene::noisy_dog().map(|s| s.problem()),
        shape_from_shading::Scene::skull().map(|s| s.problem()),
        poisson_image_editing::Scene::cat_in_a_cup().map(|s| s.problem()),
    ];
    for problem in problems {
        measure(&mut report, &problem.expect("the demo's own data"));
    }
    report
}

fn measure(report: &mut Report, problem: &Problem) {
    let name = problem.energy;
    let iteration = Iteration::new(problem, time);
    let choice = |text: &str| -> Materialize { text.parse().expect("a choice") };
    let solver = |text: &str| {
        let options =
            CompileOptions { threads: Some(THREADS), materialize: choice(text), ..iteration.options() };
        iteration.solver(&options)
    };
    let in_place = solver("in_place");
    let [mut in_place, mut again] = [(); 2].map(|()| iteration.plan(&in_place));
    for text in CHOICES {
        let solver = solver(text);
        let mut stored = iteration.plan(&solver);
        report.ratio(iteration.compare(&format!("{name}, {text} / in place"), &mut stored, &mut in_place));
    }
    report.ratio(iteration.compare(&format!("{name}, in place / in place"), &mut again, &mut in_place));
    for text in std::iter::once("in_place").chain(CHOICES) {
        report.fact(
            &format!("{name}, {text}: weight of an iteration"),
            weight(&iteration.energy, &choice(text)),
            "",
        );
    }
}

/// Weighted operations that one iteration spends in J p and J^T J p, all elements and vertices of an edge together.
fn weight(energy: &Energy, choices: &Materialize) -> f64 {
    let counts = operation_counts(energy, &prepare(energy, Passes::ALL, choices));
    let own = counts.iter().filter(|c| c.routine.reads_direction());
    own.map(|c| f64::from(c.count.weight())).sum()
}
