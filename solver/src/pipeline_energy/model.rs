//! A compiled pipeline energy as a model for the outer loop, and its preconditioner.

use crate::outer::host::{Derivatives, Model};
use crate::outer::lm::Energies;
use crate::outer::pcg::{Solution, Stopping, pcg};
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
    /// Scalars that are no part of the linear system.
    held: Vec<bool>,
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
        let (kept, held) = (numbers.kept(&routines.product)?, vec![false; numbers.len()]);
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

    /// The value of `of`, or `instead` if it fails now or has failed before.
    fn or<T>(
        &mut self,
        instead: T,
        of: impl FnOnce(&mut Numbers<'a>, &Kept) -> Result<T, PipelineEnergyError>,
    ) -> T {
        if self.failure.is_some() {
            return instead;
        }
        of(&mut self.numbers, &self.kept).unwrap_or_else(|error| {
            self.failure = Some(error);
            instead
        })
    }

    /// The product of another matrix with p, by what it keeps at the point.
    pub(super) fn product_by(&mut self, linear: &Linear, kept: &Kept, p: &[f64]) -> Vec<f64> {
        self.or(vec![0.0; p.len()], |numbers, _| {
            numbers.set_direction(p)?;
            numbers.product(linear, kept)
        })
    }

    /// Computes what the products of another matrix keep.
    pub(super) fn keep_for(&mut self, linear: &Linear, kept: &Kept) {
        self.or((), |numbers, _| numbers.keep(linear, kept));
    }

    /// The slope of E at x, 2 J^T r.
    pub(super) fn slope(&mut self, x: &[f64]) -> Vec<f64> {
        let routines = self.routines;
        let mut g = self.or(vec![0.0; x.len()], |numbers, _| {
            numbers.set_point(x, true)?;
            numbers.evaluate(&routines.gradient, true)
        });
        g.iter_mut().for_each(|g| *g *= 2.0);
        g
    }

    /// J^T J of some scalars, column by column.
    fn block(&mut self, range: Range<usize>) -> DMatrix<f64> {
        let mut a = DMatrix::zeros(range.len(), range.len());
        let mut p = vec![0.0; self.numbers.len()];
        for (j, i) in range.clone().enumerate() {
            p[i] = 1.0;
            let q = self.product(&p);
            p[i] = 0.0;
            a.column_mut(j).copy_from_slice(&q[range.clone()]);
        }
        // Rounding apart it is symmetric.
        (&a + a.transpose()) * 0.5
    }

    /// M of A = J^T J + diag(damping), without the scalars that are held.
    pub(super) fn inverse(&self, damping: &[f64]) -> Inverse {
        let held = &self.held;
        let free = |i: usize| !held[i] && self.diagonal[i] > 0.0;
        let entry = |i: usize| match self.kind {
            _ if !free(i) => 0.0,
            Preconditioner::None => 1.0,
            _ => 1.0 / (self.diagonal[i] + damping[i]),
        };
        let blocks = self.blocks.iter().filter_map(|(range, a)| {
            let own: Vec<usize> = range.clone().filter(|&i| free(i)).collect();
            let at = |i: usize, j: usize| a[(own[i] - range.start, own[j] - range.start)];
            let mut a = DMatrix::from_fn(own.len(), own.len(), at);
            for (k, &i) in own.iter().enumerate() {
                a[(k, k)] = (a[(k, k)] + damping[i]) * (1.0 + SHIFT);
            }
            // One that is not positive definite is left to the diagonal.
            Some((Cholesky::new(a)?, own))
        });
        let diagonal = (0..held.len()).map(entry).collect();
        Inverse { diagonal, blocks: blocks.collect(), held: held.clone() }
    }
}

impl Model for PipelineModel<'_> {
    fn energies(&mut self, x: &[f64]) -> Energies {
        let routines = self.routines;
        let by_group = self.or(vec![f64::NAN; routines.energies.len()], |numbers, _| {
            numbers.set_point(x, true)?;
            numbers.energies(routines)
        });
        let mut energies = Energies { total: by_group.iter().sum(), by_group };
        if let Some(beside) = &mut self.beside {
            beside.add_energies(x, &mut energies);
        }
        energies
    }

    fn linearise(&mut self, x: &[f64]) -> Derivatives {
        let nothing = (vec![0.0; x.len()], vec![0.0; x.len()]);
        let routines = self.routines;
        let (gradient, diagonal) = self.or(nothing, |numbers, kept| {
            numbers.set_point(x, true)?;
            numbers.set_point(x, false)?;
            numbers.keep(&routines.product, kept)?;
            Ok((numbers.evaluate(&routines.gradient, true)?, numbers.evaluate(&routines.diagonal, false)?))
        });
        let mut d = Derivatives { gradient, first_order: diagonal.clone(), diagonal };
        if let Some(beside) = &mut self.beside {
            beside.add_derivatives(x, &mut d);
        }
        self.diagonal = d.diagonal.clone();
        self.held.fill(false);
        let dense: Vec<Range<usize>> = self.dense().collect();
        self.blocks = dense.into_iter().map(|range| (range.clone(), self.block(range))).collect();
        d
    }

    fn hold(&mut self, held: &[bool]) {
        self.held.copy_from_slice(held);
    }

    fn product(&mut self, p: &[f64]) -> Vec<f64> {
        let product = &self.routines.product;
        let mut q = self.or(vec![0.0; p.len()], |numbers, kept| {
            numbers.set_direction(p)?;
            numbers.product(product, kept)
        });
        if let Some(beside) = &mut self.beside {
            beside.add_product(p, &mut q);
        }
        q
    }

    fn direction(&mut self, b: &[f64], damping: &[f64], stopping: &Stopping<'_>) -> Solution {
        let m = self.inverse(damping);
        let solution = m.solve(&mut |p| self.product(p), b, damping, stopping);
        match self.failure {
            Some(_) => Solution { stop: LinearStop::Interrupted, usable: false, ..solution },
            None => solution,
        }
    }

    fn accepted(&mut self, x: &[f64]) -> Option<Energies> {
        self.beside.as_mut()?.accepted(x).then(|| self.energies(x))
    }
}

/// M^-1.
pub(super) struct Inverse {
    diagonal: Vec<f64>,
    /// Factors of blocks, and their scalars.
    blocks: Vec<(Cholesky<f64, Dyn>, Vec<usize>)>,
    held: Vec<bool>,
}

impl Inverse {
    /// Solves (A + diag(damping)) d = b on the scalars that are not held, for `product` = A.
    pub(super) fn solve(
        &self,
        product: &mut dyn FnMut(&[f64]) -> Vec<f64>,
        b: &[f64],
        damping: &[f64],
        stopping: &Stopping<'_>,
    ) -> Solution {
        let mut apply = |p: &[f64]| {
            let mut q = product(p);
            for (i, q) in q.iter_mut().enumerate() {
                *q = if self.held[i] { 0.0 } else { *q + damping[i] * p[i] };
            }
            q
        };
        pcg(&mut apply, &|r| self.apply(r), b, stopping)
    }

    pub(super) fn apply(&self, r: &[f64]) -> Vec<f64> {
        let mut z: Vec<f64> = self.diagonal.iter().zip(r).map(|(m, r)| m * r).collect();
        for (factor, own) in &self.blocks {
            let mut local = DVector::from_iterator(own.len(), own.iter().map(|&i| r[i]));
            factor.solve_mut(&mut local);
            own.iter().zip(local.iter()).for_each(|(&i, &v)| z[i] = v);
        }
        z
    }
}
