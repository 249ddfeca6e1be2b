//! The derivative of a solution with respect to what the energy was made of.
//!
//! At a minimum g(x, theta) = 0, so that dx/dtheta = -H^-1 dg/dtheta with H = dg/dx. For the adjoint w of the solution, that of theta is
//! -(dg/dtheta)^T H^-1 w: one PCG solve with H, and one adjoint of the gradient pipeline, whose memory does not depend on how many steps
//! the solve took.
//!
//! Where an ordinary energy was minimised with it, H is the sum of both; the Hessian of the ordinary one, of which there are slopes alone, by
//! differences of these.

use crate::outer::host::{Derivatives, Model};
use crate::outer::lm::Energies;
use crate::outer::pcg::{Solution, Stopping};
use crate::outer::vectors::Workers;
use crate::pipeline_energy::PipelineSolver;
use crate::pipeline_energy::beside::Beside;
use crate::pipeline_energy::compiled::{Kept, Linear, Numbers, OverSizes, Routine, compile};
use crate::pipeline_energy::derive::Base;
use crate::pipeline_energy::error::PipelineEnergyError;
use crate::pipeline_energy::model::PipelineModel;
use crate::problem::bounds::is_held;
use crate::problem::cancel::Watch;
use crate::problem::data::ProblemData;
use crate::problem::report::LinearStop;
use sumsq_codegen::runtime::{Buffer, Scalar};
use sumsq_energy::model::Energy;

/// |H^-1 g| / |x| up to which x counts as a minimum.
const NEAR: f64 = 1e-3;

/// The matrix H of a [`Sensitivity`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Curvature {
    /// The Hessian of E/2: exact.
    #[default]
    Exact,
    /// J^T W J, which leaves out the second derivatives of residuals: exact where these are 0 or the residuals are, cheaper, and never
    /// indefinite.
    GaussNewton,
}

/// The derivative of the solutions of a [`PipelineSolver`], compiled.
pub struct Sensitivity<'s> {
    solver: &'s PipelineSolver,
    hessian: Option<Linear>,
    mixed: Routine,
    wrt: Vec<String>,
}

/// The linear solve of a [`Sensitivity`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinearReport {
    /// PCG iterations.
    pub iterations: usize,
    /// |r| / |b| of the recurred residual.
    pub residual: f64,
}

impl PipelineSolver {
    /// Compiles the derivative of solutions with respect to the inputs and float parameters `wrt`. `estimates`: as for
    /// [`PipelineEnergy::compile`](crate::pipeline_energy::PipelineEnergy::compile). Its arithmetic is that of the products of the solver: float32 if
    /// this was compiled with mixed precision.
    ///
    /// # Errors
    /// Names that are not there or are integers; what the engine refuses.
    pub fn sensitivity(
        &self,
        wrt: &[&str],
        curvature: Curvature,
        estimates: &[(&str, &[i32])],
    ) -> Result<Sensitivity<'_>, PipelineEnergyError> {
        let (e, ty) = (&self.energy, self.routines.narrow);
        let mixed = Base::new(e, ty)?.mixed(wrt)?;
        let hessian = match curvature {
            Curvature::Exact => Some(Base::new(e, ty)?.hessian()?),
            Curvature::GaussNewton => None,
        };
        let mut sizes = e.estimates(estimates, &hessian.iter().collect::<Vec<_>>());
        for (name, d) in wrt.iter().zip(&mixed.outputs) {
            let size = estimates.iter().find(|(n, _)| n == name);
            sizes.extend(d.iter().zip(size).map(|(d, (_, size))| (d.to_string(), size.to_vec())));
        }
        let sizes: OverSizes<'_> = sizes.iter().map(|(n, s)| (n.as_str(), &s[..])).collect();
        let options = &self.options;
        let hessian = hessian.map(|h| Linear::new(&h, e, [None; 2], options, &sizes)).transpose()?;
        let mixed = compile(mixed.into(), options, &sizes)?;
        let wrt = wrt.iter().map(|n| n.to_string()).collect();
        Ok(Sensitivity { solver: self, hessian, mixed, wrt })
    }
}

impl Sensitivity<'_> {
    /// From the adjoints of the solution, a buffer per unknown (of a parameter one without dimensions; none counts as 0), to those of `wrt`, in
    /// `results`: buffers of their sizes and types. `buffers` and `params` are those of the solve, with the solution.
    ///
    /// `tolerance` is that of the linear solve, relative; a scalar that its bounds hold does not move.
    ///
    /// # Errors
    /// Buffers that are missing or do not fit; unknowns that are no minimum, or not near one; a failure of the engine.
    pub fn run(
        &self,
        buffers: &[(&str, &Buffer)],
        params: &[(&str, Scalar)],
        adjoints: &[(&str, &Buffer)],
        results: &[(&str, &Buffer)],
        tolerance: f64,
    ) -> Result<LinearReport, PipelineEnergyError> {
        self.run_all(buffers, params, None, adjoints, results, tolerance)
    }

    /// [`Sensitivity::run`] behind [`PipelineSolver::solve_beside`]. What the energy beside reads counts as constant, arrays of the names of
    /// `wrt`, too. [`Curvature::Exact`] takes its Hessian from central differences of its gradient, which have some nine digits.
    ///
    /// # Errors
    /// Those of [`Sensitivity::run`] and of [`PipelineSolver::solve_beside`].
    pub fn run_beside(
        &self,
        buffers: &[(&str, &Buffer)],
        params: &[(&str, Scalar)],
        (energy, data): (&Energy, &ProblemData<'_>),
        adjoints: &[(&str, &Buffer)],
        results: &[(&str, &Buffer)],
        tolerance: f64,
    ) -> Result<LinearReport, PipelineEnergyError> {
        let energy = self.solver.options.losses.apply(energy.clone());
        self.run_all(buffers, params, Some((&energy, data)), adjoints, results, tolerance)
    }

    fn run_all(
        &self,
        buffers: &[(&str, &Buffer)],
        params: &[(&str, Scalar)],
        beside: Option<(&Energy, &ProblemData<'_>)>,
        adjoints: &[(&str, &Buffer)],
        results: &[(&str, &Buffer)],
        tolerance: f64,
    ) -> Result<LinearReport, PipelineEnergyError> {
        let solver = self.solver;
        let numbers = Numbers::new(&solver.energy, &solver.routines, buffers, params, &solver.pool)?;
        let x = solver.start(&numbers, buffers, params);
        let w = self.adjoint(&numbers, adjoints)?;
        let mut beside =
            beside.map(|of| Beside::new(&solver.energy, &numbers, of, &solver.options)).transpose()?;
        beside.iter_mut().for_each(|beside| beside.start(&x));
        let bounds = solver.bounds(&numbers, beside.as_ref(), &x)?;
        let hessian = self.hessian.as_ref().map(|h| Ok::<_, PipelineEnergyError>((h, numbers.kept(h)?)));
        let hessian = hessian.transpose()?;
        let mut model = PipelineModel::new(numbers, &solver.routines, solver.options.preconditioner)?;
        model.beside = beside;
        let mut at = AtSolution { model, hessian, x: &x };
        let mut d = Derivatives::default();
        at.linearise(&x, &mut d);
        let held: Vec<bool> = match &bounds {
            Some([lower, upper]) => {
                (0..x.len()).map(|i| is_held(x[i], d.gradient[i], lower[i], upper[i])).collect()
            }
            None => vec![false; x.len()],
        };
        let watch = Watch::default();
        let stopping = Stopping {
            tolerance: Some(tolerance),
            forcing: 0.0,
            eta: None,
            limit: 10 * x.len().max(50),
            watch: &watch,
        };
        at.hold(&held);
        let step = at.solve(&free(&d.gradient, &held), &stopping);
        let solution = at.solve(&free(&w, &held), &stopping);
        if let Some(failure) = at.model.failure.take() {
            return Err(failure);
        }
        if [step.stop, solution.stop].contains(&LinearStop::Indefinite) {
            return Err(PipelineEnergyError::Indefinite);
        }
        let norm = |v: &[f64]| at.workers().dot(v, v).sqrt();
        let distance = norm(&step.d) / norm(&x).max(f64::MIN_POSITIVE);
        let is_near = distance <= NEAR;
        if !is_near {
            return Err(PipelineEnergyError::NoMinimum { distance });
        }
        self.write(&mut at.model.numbers, &solution.d, results)?;
        Ok(LinearReport { iterations: solution.iterations, residual: solution.residual })
    }

    /// The adjoint of x from those of the unknowns.
    fn adjoint(
        &self,
        numbers: &Numbers<'_>,
        given: &[(&str, &Buffer)],
    ) -> Result<Vec<f64>, PipelineEnergyError> {
        let mut w = vec![0.0; numbers.len()];
        for (u, (range, _)) in self.solver.energy.unknowns.iter().zip(numbers.ranges()) {
            if let Some((name, b)) = given.iter().find(|(n, _)| **n == *u.name) {
                let values = b.to_vec::<f64>();
                if values.len() != range.len() {
                    let (name, wanted) = (name.to_string(), range.len());
                    return Err(PipelineEnergyError::Adjoint { name, wanted, came: values.len() });
                }
                w[range].copy_from_slice(&values);
            }
        }
        Ok(w)
    }

    fn write(
        &self,
        numbers: &mut Numbers<'_>,
        multiplier: &[f64],
        results: &[(&str, &Buffer)],
    ) -> Result<(), PipelineEnergyError> {
        numbers.set_direction(multiplier)?;
        let mut outputs = vec![];
        for (name, d) in self.wrt.iter().zip(&self.mixed.outputs) {
            let given = results.iter().find(|(n, _)| n == name);
            let (_, b) = given.ok_or_else(|| PipelineEnergyError::NoResult { name: name.clone() })?;
            match d {
                Some(d) => outputs.push((&**d, *b)),
                None => b.clear(),
            }
        }
        numbers.run(&self.mixed.code, false, &outputs)
    }
}

/// `v` where nothing is held, else 0.
fn free(v: &[f64], held: &[bool]) -> Vec<f64> {
    v.iter().zip(held).map(|(v, held)| if *held { 0.0 } else { *v }).collect()
}

/// The model of a solve with another H.
struct AtSolution<'a> {
    model: PipelineModel<'a>,
    /// H and what its products keep, if it is not J^T W J.
    hessian: Option<(&'a Linear, Kept)>,
    /// The solution.
    x: &'a [f64],
}

impl AtSolution<'_> {
    /// H^-1 b.
    fn solve(&mut self, b: &[f64], stopping: &Stopping<'_>) -> Solution {
        if b.iter().all(|b| *b == 0.0) {
            let d = b.to_vec();
            return Solution { d, iterations: 0, stop: LinearStop::Tolerance, residual: 0.0, usable: true };
        }
        self.direction(b, &vec![0.0; b.len()], stopping)
    }
}

impl Model for AtSolution<'_> {
    fn energies(&mut self, x: &[f64]) -> Energies {
        self.model.energies(x)
    }

    fn linearise(&mut self, x: &[f64], at: &mut Derivatives) {
        self.model.linearise(x, at);
        if let Some((hessian, kept)) = &self.hessian {
            self.model.keep_for(hessian, kept);
        }
    }

    fn workers(&self) -> Workers<'_> {
        self.model.workers()
    }

    fn hold(&mut self, held: &[bool]) {
        self.model.hold(held);
    }

    fn product(&mut self, p: &[f64], q: &mut [f64]) {
        let Some((hessian, kept)) = &self.hessian else { return self.model.product(p, q) };
        self.model.product_by(hessian, kept, p, q);
        if let Some(beside) = &mut self.model.beside {
            beside.add_curvature(self.x, p, q);
        }
    }

    fn direction(&mut self, b: &[f64], damping: &[f64], stopping: &Stopping<'_>) -> Solution {
        let m = self.model.inverse(damping);
        m.solve(&mut |p, q| self.product(p, q), b, damping, stopping)
    }
}
