//! The assembled Jacobian as a model for the outer loop, with PCG or sparse Cholesky.

use crate::assembled::cholesky::NormalCholesky;
use crate::assembled::inverse::Inverse;
use crate::assembled::preconditioner::{self, element_blocks};
use crate::assembled::{Explicit, Jacobian};
use crate::outer::forcing::Range;
use crate::outer::host::{Derivatives, Model};
use crate::outer::lm::Energies;
use crate::outer::pcg::{Solution, Stopping, pcg};
use crate::outer::vectors::Workers;
use crate::problem::options::Preconditioner;
use crate::problem::report::LinearStop;

/// Ways to solve A d = b.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinearSolver {
    /// Conjugate gradients on products with J and J^T.
    Cg,
    /// Sparse Cholesky of J^T J + D.
    Cholesky,
}

/// r and J at the point of the last linearisation. Vectors are over the columns of J.
pub(crate) struct AssembledModel<'a> {
    pub problem: Explicit<'a>,
    kind: Preconditioner,
    linear: Linear,
    /// All unknown scalars: the excluded ones as they are given, the others as they were last evaluated.
    all: Vec<f64>,
    /// The same, where the model was linearised last.
    at: Vec<f64>,
    residuals: Vec<f64>,
    /// J and diag(J^T J); 0 at the columns of held scalars, which so are like columns without a residual.
    jacobian: Jacobian,
    diagonal: Vec<f64>,
}

/// State that a linear solver keeps from step to step.
enum Linear {
    /// The columns of each element, if M is made of them.
    Cg(Vec<Vec<u32>>),
    Cholesky(Box<NormalCholesky>),
}

impl<'a> AssembledModel<'a> {
    /// The model, x in its bounds, and a warning for each unknown that was not.
    pub(crate) fn new(
        problem: Explicit<'a>,
        kind: Preconditioner,
        linear: LinearSolver,
    ) -> (AssembledModel<'a>, Vec<f64>, Vec<String>) {
        let (all, moved) = problem.feasible();
        let kind = preconditioner::resolve(kind, &problem.energy);
        let linear = match linear {
            LinearSolver::Cg => Linear::Cg(element_blocks(kind, &problem)),
            LinearSolver::Cholesky => Linear::Cholesky(Box::new(NormalCholesky::new(&problem.pattern))),
        };
        let x = problem.gather(&all);
        let model = AssembledModel {
            kind,
            linear,
            at: all.clone(),
            all,
            residuals: vec![0.0; problem.rows()],
            jacobian: problem.pattern.clone(),
            diagonal: vec![0.0; problem.free()],
            problem,
        };
        (model, x, moved)
    }

    /// Bytes of J, of what is as long as its rows and columns, and of the linear solver.
    pub(crate) fn bytes(&self) -> u64 {
        let entries = self.jacobian.rows().nnz();
        let vectors = 2 * self.problem.scalars() + 8 * self.problem.free() + 2 * self.problem.rows();
        // Two copies of J, each in both orders: what is solved with, and the pattern that it began with.
        let jacobian = 2 * entries * (2 * (size_of::<f64>() + size_of::<u32>()) + size_of::<u32>());
        let linear = match &self.linear {
            Linear::Cg(_) => 0,
            Linear::Cholesky(cholesky) => cholesky.bytes(),
        };
        (jacobian + vectors * size_of::<f64>()) as u64 + linear
    }

    /// The name of what solves the linear system, or makes it easier.
    pub(crate) fn preconditioner(&self) -> &'static str {
        match self.linear {
            Linear::Cg(_) => self.kind.name(),
            Linear::Cholesky(_) => "sparse Cholesky",
        }
    }

    /// All unknown scalars where the model was last evaluated.
    pub(crate) fn point(&self) -> &[f64] {
        &self.all
    }

    /// Sets all unknown scalars.
    pub(crate) fn set_point(&mut self, all: &[f64]) {
        self.all.copy_from_slice(all);
    }

    /// All unknown scalars for these free ones.
    pub(crate) fn scattered(&mut self, x: &[f64]) -> &[f64] {
        self.problem.free_scalars().iter().zip(x).for_each(|(&s, &x)| self.all[s as usize] = x);
        &self.all
    }

    /// q = A p, for A = J^T J + diag(damping).
    fn apply(&self, p: &[f64], damping: &[f64], q: &mut [f64]) {
        let jp = self.jacobian.apply_transpose(&self.jacobian.apply(p));
        self.workers().pass([q], [&jp, p, damping], |_, [q], [jp, p, d]| {
            q.iter_mut().zip(jp).zip(p.iter().zip(d)).for_each(|((q, jp), (p, d))| *q = jp + d * p);
        });
    }

    fn direct_solution(&self, d: Vec<f64>, damping: &[f64], b: &[f64]) -> Solution {
        let mut ad = vec![0.0; d.len()];
        self.apply(&d, damping, &mut ad);
        let r: Vec<f64> = b.iter().zip(ad).map(|(b, a)| b - a).collect();
        let norm = |v: &[f64]| Workers::Rayon.dot(v, v).sqrt();
        let residual = norm(&r) / norm(b);
        let stop = if residual.is_finite() { LinearStop::Tolerance } else { LinearStop::NotFinite };
        Solution { d, iterations: 1, stop, residual, usable: true }
    }
}

impl Model for AssembledModel<'_> {
    fn eta(&self) -> Option<Range> {
        Range::of(self.kind)
    }

    fn energies(&mut self, x: &[f64]) -> Energies {
        self.scattered(x);
        self.problem.energies(&self.all)
    }

    fn linearise(&mut self, x: &[f64], at: &mut Derivatives) {
        self.scattered(x);
        self.at.clone_from(&self.all);
        at.first_order = self.problem.linearise_into(&self.all, &mut self.residuals, &mut self.jacobian);
        at.gradient = self.jacobian.apply_transpose(&self.residuals);
        self.diagonal = self.jacobian.diag();
        at.diagonal.clone_from(&self.diagonal);
    }

    fn hold(&mut self, held: &[bool]) {
        self.jacobian.drop_columns(held);
        self.diagonal.iter_mut().zip(held).filter(|(_, held)| **held).for_each(|(d, _)| *d = 0.0);
    }

    fn product(&mut self, p: &[f64], q: &mut [f64]) {
        q.copy_from_slice(&self.jacobian.apply_transpose(&self.jacobian.apply(p)));
    }

    fn direction(&mut self, b: &[f64], damping: &[f64], stopping: &Stopping<'_>) -> Solution {
        match &self.linear {
            Linear::Cg(blocks) => {
                let system = (&self.diagonal[..], damping);
                let m = Inverse::new(self.kind, &self.problem, &self.at, &self.jacobian, system, blocks);
                let apply = &mut |p: &[f64], q: &mut [f64]| self.apply(p, damping, q);
                pcg(apply, &|r, z| z.copy_from_slice(&m.apply(r)), b, stopping, self.workers())
            }
            Linear::Cholesky(cholesky) => match cholesky.solve(&self.jacobian, &self.diagonal, damping, b) {
                Some(d) => self.direct_solution(d, damping, b),
                None => Solution {
                    d: vec![0.0; b.len()],
                    iterations: 0,
                    stop: LinearStop::Indefinite,
                    residual: 1.0,
                    usable: false,
                },
            },
        }
    }

    fn predicted(&mut self, _: &[f64], s: &[f64]) -> f64 {
        let js = self.jacobian.apply(s);
        -js.iter().zip(&self.residuals).map(|(js, r)| js * (2.0 * r + js)).sum::<f64>()
    }

    fn accepted(&mut self, x: &[f64]) -> Option<Energies> {
        if !self.problem.energy.has_views() {
            return None;
        }
        self.scattered(x);
        self.problem.refresh_views(&self.all);
        Some(self.problem.energies(&self.all))
    }
}
