//! A compiled pipeline energy as a model for the outer loop, and its preconditioner.

use crate::outer::host::{Derivatives, Model};
use crate::outer::lm::Energies;
use crate::outer::pcg::{Solution, Stopping, pcg};
use crate::outer::vectors::Workers;
use crate::pipeline_energy::beside::Beside;
use crate::pipeline_energy::compiled::{Kept, Linear, Numbers, Routines};
use crate::pipeline_energy::error::PipelineEnergyError;
use crate::problem::options::Preconditioner;
use crate::problem::report::LinearStop;
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use std::ops::Range;

/// Scalars of an unknown up to which it has a dense block.
const DENSE: usize = 64;
/// Relative shift of a block's diagonal before its factorisation: a block may be singular to rounding.
const SHIFT: f64 = 1e-12;

/// The model. Once a routine has failed, energies are NaN and there are no more steps.
pub(super) struct PipelineModel<'a> {
    pub numbers: Numbers<'a>,
    routines: &'a Routines,
    /// The values that products keep, at the last linearisation.
    pub kept: Kept,
    kind: Preconditioner,
    diagonal: Vec<f64>,
    /// Not 0 for scalars that are no part of the linear system, if there are any.
    held: Option<Vec<f64>>,
    /// J^T J of each unknown that has a block of its own.
    blocks: Vec<(Range<usize>, DMatrix<f64>)>,
    /// An ordinary energy that is minimised with it.
    pub beside: Option<Beside<'a>>,
    pub failure: Option<PipelineEnergyError>,
}

impl<'a> PipelineModel<'a> {
    pub(super) fn new(
        numbers: Numbers<'a>,
        routines: &'a Routines,
        kind: Preconditioner,
    ) -> Result<PipelineModel<'a>, PipelineEnergyError> {
        let (kept, held) = (numbers.kept(&routines.product)?, None);
        let (diagonal, blocks, beside, failure) = (vec![], vec![], None, None);
        Ok(PipelineModel { numbers, routines, kept, kind, diagonal, held, blocks, beside, failure })
    }

    /// The name of M in reports.
    pub(super) fn preconditioner(&self) -> &'static str {
        match self.kind {
            Preconditioner::Auto if self.dense().next().is_none() => Preconditioner::Jacobi.name(),
            Preconditioner::Auto => Preconditioner::BlockJacobi.name(),
            kind => kind.name(),
        }
    }

    /// The scalars of unknowns that are to have blocks.
    fn dense(&self) -> impl Iterator<Item = Range<usize>> {
        let has = matches!(self.kind, Preconditioner::Auto | Preconditioner::BlockJacobi);
        self.numbers.ranges().map(|(range, _)| range).filter(move |r| has && (2..=DENSE).contains(&r.len()))
    }

    /// Tries `of`, unless something has failed before.
    fn attempt(&mut self, of: impl FnOnce(&mut Numbers<'a>, &Kept) -> Result<(), PipelineEnergyError>) {
        if self.failure.is_none() {
            self.failure = of(&mut self.numbers, &self.kept).err();
        }
    }

    /// Sets q to the product of another matrix with p, by what it keeps at the point.
    pub(super) fn product_by(&mut self, linear: &Linear, kept: &Kept, p: &[f64], q: &mut [f64]) {
        self.attempt(|numbers, _| {
            numbers.set_direction(p)?;
            numbers.product(linear, kept, q)
        });
    }

    /// Computes what the products of another matrix keep.
    pub(super) fn keep_for(&mut self, linear: &Linear, kept: &Kept) {
        self.attempt(|numbers, _| numbers.keep(linear, kept));
    }

    /// Sets g to J^T r at x, half of the slope of E.
    pub(super) fn gradient(&mut self, x: &[f64], g: &mut [f64]) {
        let routines = self.routines;
        self.attempt(|numbers, _| {
            numbers.set_point(x, true)?;
            numbers.evaluate(&routines.gradient, true, g)
        });
    }

    /// J^T J of some scalars, column by column.
    fn block(&mut self, range: Range<usize>) -> DMatrix<f64> {
        let mut a = DMatrix::zeros(range.len(), range.len());
        let [mut p, mut q] = [(); 2].map(|()| vec![0.0; self.numbers.len()]);
        for (j, i) in range.clone().enumerate() {
            p[i] = 1.0;
            self.product(&p, &mut q);
            p[i] = 0.0;
            a.column_mut(j).copy_from_slice(&q[range.clone()]);
        }
        // Rounding apart it is symmetric.
        (&a + a.transpose()) * 0.5
    }

    /// M of A = J^T J + diag(damping), without the scalars that are held.
    pub(super) fn inverse(&self, damping: &[f64]) -> Inverse<'a> {
        let mut diagonal = vec![0.0; damping.len()];
        let has_none = self.kind == Preconditioner::None;
        self.workers().zip(&mut diagonal, [&self.diagonal, damping], |a, d| match a {
            a if a > 0.0 && has_none => 1.0,
            a if a > 0.0 => 1.0 / (a + d),
            _ => 0.0,
        });
        self.held.iter().for_each(|held| clear(self.workers(), &mut diagonal, held));
        let blocks = self.blocks.iter().filter_map(|(range, a)| {
            let own: Vec<usize> = range.clone().filter(|&i| diagonal[i] != 0.0).collect();
            let at = |i: usize, j: usize| a[(own[i] - range.start, own[j] - range.start)];
            let mut a = DMatrix::from_fn(own.len(), own.len(), at);
            for (k, &i) in own.iter().enumerate() {
                a[(k, k)] = (a[(k, k)] + damping[i]) * (1.0 + SHIFT);
            }
            // One that is not positive definite is left to the diagonal.
            Some((Cholesky::new(a)?, own))
        });
        let (workers, blocks) = (Workers::Pool(self.numbers.pool), blocks.collect());
        Inverse { workers, diagonal, blocks, held: self.held.clone() }
    }
}

impl Model for PipelineModel<'_> {
    fn energies(&mut self, x: &[f64]) -> Energies {
        let routines = self.routines;
        let mut by_group = vec![f64::NAN; routines.energies.len()];
        self.attempt(|numbers, _| {
            numbers.set_point(x, true)?;
            by_group = numbers.energies(routines)?;
            Ok(())
        });
        let mut energies = Energies { total: by_group.iter().sum(), by_group };
        if let Some(beside) = &mut self.beside {
            beside.add_energies(x, &mut energies);
        }
        energies
    }

    fn linearise(&mut self, x: &[f64], at: &mut Derivatives) {
        let routines = self.routines;
        at.gradient.resize(x.len(), 0.0);
        at.diagonal.resize(x.len(), 0.0);
        at.first_order = None;
        self.attempt(|numbers, kept| {
            numbers.set_point(x, true)?;
            numbers.set_point(x, false)?;
            numbers.keep(&routines.product, kept)?;
            numbers.evaluate(&routines.gradient, true, &mut at.gradient)?;
            numbers.evaluate(&routines.diagonal, false, &mut at.diagonal)
        });
        if let Some(beside) = &mut self.beside {
            beside.add_derivatives(x, at);
        }
        self.diagonal.clone_from(&at.diagonal);
        self.held = None;
        let dense: Vec<Range<usize>> = self.dense().collect();
        self.blocks = dense.into_iter().map(|range| (range.clone(), self.block(range))).collect();
    }

    fn workers(&self) -> Workers<'_> {
        Workers::Pool(self.numbers.pool)
    }

    fn hold(&mut self, held: &[bool]) {
        self.held = held.contains(&true).then(|| held.iter().map(|&held| f64::from(held)).collect());
    }

    fn product(&mut self, p: &[f64], q: &mut [f64]) {
        let product = &self.routines.product;
        self.attempt(|numbers, kept| {
            numbers.set_direction(p)?;
            numbers.product(product, kept, q)
        });
        if let Some(beside) = &mut self.beside {
            beside.add_product(p, q);
        }
    }

    fn direction(&mut self, b: &[f64], damping: &[f64], stopping: &Stopping<'_>) -> Solution {
        let m = self.inverse(damping);
        let solution = m.solve(&mut |p, q| self.product(p, q), b, damping, stopping);
        match self.failure {
            Some(_) => Solution { stop: LinearStop::Interrupted, usable: false, ..solution },
            None => solution,
        }
    }

    fn accepted(&mut self, x: &[f64]) -> Option<Energies> {
        self.beside.as_mut()?.accepted(x).then(|| self.energies(x))
    }
}

/// Sets to 0 what is held.
fn clear(workers: Workers<'_>, v: &mut [f64], held: &[f64]) {
    workers.pass([v], [held], |_, [v], [held]| {
        v.iter_mut().zip(held).filter(|(_, held)| **held != 0.0).for_each(|(v, _)| *v = 0.0);
    });
}

/// M^-1.
pub(super) struct Inverse<'a> {
    workers: Workers<'a>,
    diagonal: Vec<f64>,
    /// Factors of blocks, and their scalars.
    blocks: Vec<(Cholesky<f64, Dyn>, Vec<usize>)>,
    /// As of the model.
    held: Option<Vec<f64>>,
}

impl Inverse<'_> {
    /// Solves (A + diag(damping)) d = b on the scalars that are not held, for `product` = A.
    pub(super) fn solve(
        &self,
        product: &mut dyn FnMut(&[f64], &mut [f64]),
        b: &[f64],
        damping: &[f64],
        stopping: &Stopping<'_>,
    ) -> Solution {
        let mut apply = |p: &[f64], q: &mut [f64]| {
            product(p, q);
            self.workers.pass([&mut *q], [p, damping], |_, [q], [p, d]| {
                q.iter_mut().zip(p.iter().zip(d)).for_each(|(q, (p, d))| *q += d * p);
            });
            self.held.iter().for_each(|held| clear(self.workers, q, held));
        };
        pcg(&mut apply, &|r, z| self.apply(r, z), b, stopping, self.workers)
    }

    /// z = M^-1 r.
    pub(super) fn apply(&self, r: &[f64], z: &mut [f64]) {
        self.workers.zip(z, [&self.diagonal, r], |m, r| m * r);
        for (factor, own) in &self.blocks {
            let mut local = DVector::from_iterator(own.len(), own.iter().map(|&i| r[i]));
            factor.solve_mut(&mut local);
            own.iter().zip(local.iter()).for_each(|(&i, &v)| z[i] = v);
        }
    }
}
