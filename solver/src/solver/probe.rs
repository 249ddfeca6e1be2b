//! PCG an iteration at a time, for measurements of its speed.

use crate::error::SolveError;
use crate::matrix_free::params::Number;
use crate::matrix_free::plan::Plan;
use crate::matrix_free::plan::steps::Run;
use crate::matrix_free::scalars::PcgScalar;
use crate::matrix_free::stages::Phase;
use crate::outer::lm::Steps;
use crate::problem::data::ProblemData;
use crate::problem::options::SolveOptions;
use crate::solver::Problem;

/// PCG on the Gauss-Newton system of a problem, stopped by nothing but a breakdown.
pub struct LinearProbe<'p> {
    plan: &'p mut Plan,
    rz: f64,
    bb: f64,
    done: usize,
}

impl Problem {
    /// Linearises at the unknowns of `data` and stands at d = 0.
    ///
    /// # Errors
    /// As for [`Problem::init`].
    pub fn linear_probe(
        &mut self,
        data: &ProblemData,
        options: &SolveOptions,
    ) -> Result<LinearProbe<'_>, SolveError> {
        options.check()?;
        self.upload_unknowns(data)?;
        let mut run = Run::new(options.clone(), 0, &self.code.settings.preconditioners);
        run.on(&mut self.plan).linearise(None);
        if let Some(e) = run.failure.take() {
            return Err(e);
        }
        let (rz, bb) = (run.start.rz, run.start.bb);
        self.plan.set_number(Number::Tolerance, -1.0)?;
        self.plan.set_number(Number::Zeta, -f64::MAX)?;
        self.plan.set_number(Number::Eta, -1.0)?;
        self.plan.clear_direction();
        Ok(LinearProbe { plan: &mut self.plan, rz, bb, done: 0 })
    }
}

impl LinearProbe<'_> {
    /// r.z of the state it stands at.
    pub fn rz(&self) -> f64 {
        if self.done == 0 { self.rz } else { self.plan.scalar(PcgScalar::Rz) }
    }

    /// |b|^2.
    pub fn bb(&self) -> f64 {
        self.bb
    }

    /// Does `n` (at least one) iterations.
    ///
    /// # Errors
    /// A failure of the engine.
    pub fn iterate(&mut self, n: usize) -> Result<(), SolveError> {
        self.done += n;
        self.plan.set_number(Number::Limit, self.done as f64)?;
        // With the preconditioner that a solve begins with.
        self.plan.run(Phase::Pcg(0))
    }
}
