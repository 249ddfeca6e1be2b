//! The worth of each pass over the routines, after figure 15 of DeVito et al., "Opt", 2017: operations of J^T J p, how many
//! values live at once in it, and time of a PCG iteration, as passes are added one by one, against all of them. On one thread,
//! by processor time: they change arithmetic alone.
//!
//! Bounds here are those of the expressions; that loops over the interior test no bounds is the engine's doing, in every setting.

use super::iteration::{ITERATIONS, Iteration};
use crate::harness::processor_time;
use crate::report::Report;
use sumsq::CompileOptions;
use sumsq::energy::Energy;
use sumsq::energy::derive::{Kind, Materialize, Passes};
use sumsq::matrix_free::domain::counts::operation_counts;
use sumsq::matrix_free::prepare;
use sumsq_examples::demos::{
    Problem, arap_mesh_deformation, image_warping, poisson_image_editing, shape_from_shading,
};

/// Sets of passes that are measured against all of them.
const SETTINGS: [(&str, Passes); 5] = [
    ("none", Passes::NONE),
    ("polynomial", Passes { polynomial: true, ..Passes::NONE }),
    ("+ bounds", Passes { polynomial: true, bounds: true, ..Passes::NONE }),
    ("+ sharing", Passes { hoisting: false, scheduling: false, ..Passes::ALL }),
    ("+ hoisting", Passes { scheduling: false, ..Passes::ALL }),
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
    let solver =
        |passes| iteration.solver(&CompileOptions { threads: Some(1), passes, ..iteration.options() });
    let all = solver(Passes::ALL);
    let [mut all, mut again] = [(); 2].map(|()| iteration.plan(&all));
    for (setting, passes) in SETTINGS {
        facts(report, &format!("{name}, {setting}"), &iteration.energy, passes);
        let solver = solver(passes);
        let mut some = iteration.plan(&solver);
        report.ratio(iteration.compare(&format!("{name}, {setting} / all"), &mut some, &mut all));
    }
    facts(report, &format!("{name}, all"), &iteration.energy, Passes::ALL);
    report.ratio(iteration.compare(&format!("{name}, all / all"), &mut again, &mut all));
}

/// Weighted operations of J^T J p, all elements and vertices of an edge together, and the most values that live at once in one of them.
fn facts(report: &mut Report, name: &str, energy: &Energy, passes: Passes) {
    let counts = operation_counts(energy, &prepare(energy, passes, &Materialize::default()));
    let jtjp = || counts.iter().filter(|c| c.routine == Kind::JtJp);
    let weight = jtjp().map(|c| f64::from(c.count.weight())).sum();
    let live = jtjp().map(|c| c.live).max().unwrap_or(0);
    report.fact(&format!("{name}: weight of J^T J p"), weight, "");
    report.fact(&format!("{name}: live values of J^T J p"), f64::from(live), "");
}
