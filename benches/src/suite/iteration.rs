//! A PCG iteration of a demo's problem, for benchmarks that compare ways to compute the same.

use crate::harness::{Ratio, compare_timed};
use std::time::Duration;
use sumsq::energy::Energy;
use sumsq::{CompileOptions, Problem, ProblemData, Solver};
use sumsq_examples::demos;

/// PCG iterations per measurement.
pub const ITERATIONS: usize = 20;
const PAIRS: usize = 15;

/// The time that a run takes.
pub type Timer = fn(&mut dyn FnMut()) -> Duration;

/// A problem whose iterations are measured.
pub struct Iteration<'a> {
    /// The energy.
    pub energy: Energy,
    problem: &'a demos::Problem,
    data: ProblemData<'a>,
    timer: Timer,
}

impl<'a> Iteration<'a> {
    pub fn new(problem: &'a demos::Problem, timer: Timer) -> Iteration<'a> {
        let energy = Energy::from_text(problem.energy, problem.text).expect("the energy is well formed");
        let data = ProblemData::bind(&energy, &problem.inputs).expect("the inputs fit the energy");
        Iteration { energy, problem, data, timer }
    }

    /// The problem's options.
    pub fn options(&self) -> CompileOptions {
        self.problem.options.compile.clone()
    }

    pub fn solver(&self, options: &CompileOptions) -> Solver {
        Solver::compile(self.energy.clone(), options).expect("the energy compiles")
    }

    pub fn plan(&self, solver: &Solver) -> Problem {
        solver.plan(&self.data).expect("the plan fits into memory")
    }

    /// [`ITERATIONS`] of one plan against those of another.
    pub fn compare(&self, what: &str, a: &mut Problem, b: &mut Problem) -> Ratio {
        compare_timed(what, &mut || self.run(a), &mut || self.run(b), PAIRS)
    }

    /// Every run starts PCG anew: late residuals are so small that arithmetic on them is slow.
    fn run(&self, planned: &mut Problem) -> Duration {
        let mut probe =
            planned.linear_probe(&self.data, &self.problem.options.solve).expect("the system is finite");
        (self.timer)(&mut || probe.iterate(ITERATIONS).expect("generated code runs"))
    }
}
