//! What each pass over the routines is worth, after figure 15 of the Opt paper: operations of J^T J p and time of a PCG
//! iteration, as passes are added one by one, against all of them. On one thread, by processor time: they change arithmetic alone.
//!
//! The paper's last step, a scheduler of emitted operations, has no counterpart: see [`Passes`]. Bounds here are those of the
//! expressions; that loops over the interior test no bounds is the engine's doing, in every setting.

use super::iteration::{ITERATIONS, Iteration};
use crate::harness::processor_time;
use crate::report::Report;
use sumsq::Options;
use sumsq::energy::Energy;
use sumsq::energy::derive::{Materialize, Passes};
use sumsq::generated::counts::{JTJP, operation_counts};
use sumsq::generated::prepare;
use sumsq_examples::demos::{Problem, arap_mesh_deformation, image_warping};
use sumsq_examples::demos::{poisson_image_editing, shape_from_shading};

/// What is measured against all passes.
const SETTINGS: [(&str, Passes); 4] = [
    ("none", Passes::NONE),
    ("polynomial", Passes { polynomial: true, ..Passes::NONE }),
    ("+ bounds", Passes { polynomial: true, bounds: true, ..Passes::NONE }),
    ("+ sharing", Passes { hoisting: false, ..Passes::ALL }),
];

pub fn run() -> Report {
    let setting = format!(
        "mixed precision, one thread, processor time; {ITERATIONS} PCG iterations against those with all passes"
    );
    let mut report = Report::new("ablation", setting);
    let problems = [
        image_warping::Scene::tulips().map(|s| s.problem()),
        arap_mesh_deformation::Scene::dog_17k().map(|s| s.problem()),
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
    let iteration = Iteration::new(problem, processor_time);
    let solver = |passes| iteration.solver(&Options { threads: Some(1), passes, ..iteration.options() });
    let all = solver(Passes::ALL);
    let [mut all, mut again] = [(); 2].map(|()| iteration.plan(&all));
    for (setting, passes) in SETTINGS {
        report.fact(&format!("{name}, {setting}: weight of J^T J p"), weight(&iteration.energy, passes), "");
        let solver = solver(passes);
        let mut some = iteration.plan(&solver);
        report.ratio(iteration.compare(&format!("{name}, {setting} / all"), &mut some, &mut all));
    }
    report.fact(&format!("{name}, all: weight of J^T J p"), weight(&iteration.energy, Passes::ALL), "");
    report.ratio(iteration.compare(&format!("{name}, all / all"), &mut again, &mut all));
}

/// Weighted operations of J^T J p, all elements and vertices of an edge together.
fn weight(energy: &Energy, passes: Passes) -> f64 {
    let counts = operation_counts(energy, &prepare(energy, passes, &Materialize::default()));
    counts.iter().filter(|c| c.routine == JTJP).map(|c| f64::from(c.count.weight())).sum()
}
