//! An ordinary energy beside a pipeline energy, over some of its unknowns: both are minimised as one.
//!
//! Unknowns of one name are the same. The ordinary energy is evaluated by its assembled Jacobian, in float64 whatever the pipeline's precision.

use crate::assembled::{AssembledModel, Explicit, LinearSolver, Threads};
use crate::outer::host::{Derivatives, Model};
use crate::outer::lm::Energies;
use crate::pipeline_energy::PipelineEnergy;
use crate::pipeline_energy::compiled::Numbers;
use crate::pipeline_energy::error::PipelineEnergyError;
use crate::problem::data::ProblemData;
use crate::problem::options::{CompileOptions, Preconditioner};
use sumsq_energy::model::Energy;

/// Step of differences, of the greatest unknown: about the cube root of what float64 rounds to.
const STEP: f64 = 1e-5;

/// The ordinary energy as a model over the scalars of the pipeline energy.
pub(super) struct Beside<'a> {
    model: AssembledModel<'a>,
    threads: Threads,
    /// For each unknown scalar of the ordinary energy, that of the pipeline energy.
    scalars: Vec<usize>,
    /// For each column of its J, the same.
    columns: Vec<usize>,
    /// Names of its residual groups.
    pub groups: Vec<String>,
}

impl<'a> Beside<'a> {
    /// `energy` over `data`, of which the values of unknowns do not count.
    ///
    /// # Errors
    /// An unknown that the pipeline energy does not solve for, or of another size; what the assembled path cannot evaluate.
    pub(super) fn new(
        e: &PipelineEnergy,
        numbers: &Numbers<'_>,
        (energy, data): (&'a Energy, &'a ProblemData<'a>),
        options: &CompileOptions,
    ) -> Result<Beside<'a>, PipelineEnergyError> {
        let mut scalars = vec![];
        for (unknown, came) in energy.unknowns.iter().zip(data.unknown_lengths()) {
            let name = || unknown.name.to_string();
            let ranges = e.unknowns.iter().zip(numbers.ranges());
            let found = ranges.map(|(u, (range, _))| (u, range)).find(|(u, _)| *u.name == *unknown.name);
            let Some((_, range)) = found else {
                return Err(PipelineEnergyError::BesideUnknown { name: name() });
            };
            if range.len() != came {
                return Err(PipelineEnergyError::BesideSize { name: name(), wanted: range.len(), came });
            }
            scalars.extend(range);
        }
        let threads = Threads::new(options.threads);
        let problem = threads.run(|| Explicit::new(energy, data)).map_err(PipelineEnergyError::Beside)?;
        let columns = problem.free_scalars().iter().map(|&s| scalars[s as usize]).collect();
        let (model, ..) = AssembledModel::new(problem, Preconditioner::Jacobi, LinearSolver::Cg);
        let groups = energy.groups.clone();
        Ok(Beside { model, threads, scalars, columns, groups })
    }

    /// Bytes of the Jacobian and what belongs to it.
    pub(super) fn bytes(&self) -> u64 {
        self.model.bytes()
    }

    /// Number of residuals.
    pub(super) fn residuals(&self) -> usize {
        self.model.problem.rows()
    }

    /// Narrows bounds of all scalars by those of the energy; what it excludes stays as it is in x.
    pub(super) fn narrow(&self, [lower, upper]: &mut [Vec<f64>; 2], x: &[f64]) {
        let mut excluded = vec![false; x.len()];
        self.scalars.iter().for_each(|&i| excluded[i] = true);
        self.columns.iter().for_each(|&i| excluded[i] = false);
        for i in (0..x.len()).filter(|&i| excluded[i]) {
            (lower[i], upper[i]) = (x[i], x[i]);
        }
        let Some(own) = self.model.problem.column_bounds() else { return };
        for (k, &i) in self.columns.iter().enumerate() {
            (lower[i], upper[i]) = (lower[i].max(own[0][k]), upper[i].min(own[1][k]));
        }
    }

    /// Takes the excluded scalars from x.
    pub(super) fn start(&mut self, x: &[f64]) {
        let all: Vec<f64> = self.scalars.iter().map(|&i| x[i]).collect();
        self.model.set_point(&all);
    }

    fn own(&self, x: &[f64]) -> Vec<f64> {
        self.columns.iter().map(|&i| x[i]).collect()
    }

    /// E at x is added to that of the pipeline energy.
    pub(super) fn add_energies(&mut self, x: &[f64], to: &mut Energies) {
        let own = self.own(x);
        let Beside { model, threads, .. } = self;
        let energies = threads.run(|| model.energies(&own));
        to.total += energies.total;
        to.by_group.extend(energies.by_group);
    }

    /// The same of derivatives at x.
    pub(super) fn add_derivatives(&mut self, x: &[f64], to: &mut Derivatives) {
        let own = self.own(x);
        let Beside { model, threads, columns, .. } = self;
        let d = derivatives(model, threads, &own);
        if d.first_order.is_some() {
            to.first_order = Some(to.diagonal.clone());
        }
        for (k, &i) in columns.iter().enumerate() {
            to.gradient[i] += d.gradient[k];
            let (all, first) = (d.diagonal[k], d.first_order.as_ref().unwrap_or(&d.diagonal)[k]);
            to.diagonal[i] += all;
            if let Some(first_order) = &mut to.first_order {
                first_order[i] += first;
            }
        }
    }

    /// The same of a product where derivatives were taken last.
    pub(super) fn add_product(&mut self, p: &[f64], to: &mut [f64]) {
        let own = self.own(p);
        let Beside { model, threads, columns, .. } = self;
        let q = threads.run(|| {
            let mut q = vec![0.0; own.len()];
            model.product(&own, &mut q);
            q
        });
        columns.iter().zip(q).for_each(|(&i, q)| to[i] += q);
    }

    /// The same of a product with the Hessian at x, by central differences of the gradient: of its second derivatives nothing else is known.
    pub(super) fn add_curvature(&mut self, x: &[f64], p: &[f64], to: &mut [f64]) {
        let (own, along) = (self.own(x), self.own(p));
        let most = |v: &[f64]| v.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        if most(&along) == 0.0 {
            return;
        }
        let h = STEP * most(&own).max(1.0) / most(&along);
        let Beside { model, threads, columns, .. } = self;
        let mut slope = |h: f64| {
            let at: Vec<f64> = own.iter().zip(&along).map(|(x, p)| x + h * p).collect();
            derivatives(model, threads, &at).gradient
        };
        let (ahead, behind) = (slope(h), slope(-h));
        for ((&i, a), b) in columns.iter().zip(ahead).zip(behind) {
            to[i] += (a - b) / (2.0 * h);
        }
    }

    /// True if constant views of unknowns have changed with the new iterate x.
    pub(super) fn accepted(&mut self, x: &[f64]) -> bool {
        let own = self.own(x);
        let Beside { model, threads, .. } = self;
        threads.run(|| model.accepted(&own)).is_some()
    }
}

/// Derivatives at x, on these threads.
fn derivatives(model: &mut AssembledModel<'_>, threads: &Threads, x: &[f64]) -> Derivatives {
    threads.run(|| {
        let mut d = Derivatives::default();
        model.linearise(x, &mut d);
        d
    })
}
