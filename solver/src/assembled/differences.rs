//! Finite differences of the residuals, row by row, and how large the rounding noise of a residual may be.

use crate::assembled::domain::{Instance, Point};
use crate::assembled::eval::Workspace;
use crate::assembled::jacobian::weighted;
use crate::assembled::template::Template;
use crate::assembled::{Explicit, Jacobian, eval};
use rayon::prelude::*;

/// Widest step relative to max(1, |x|). A power of two, so that x + h loses nothing in the common case. The noise is about 1e-16 / h.
const STEP: f64 = 1.0 / (1 << 17) as f64;

/// Steps at most, each half of the one before.
const LEVELS: u32 = 6;

/// Relative change by the last extrapolation at which it ends.
const ENOUGH: f64 = 1e-7;

/// A Jacobian by central differences, and where it is none.
pub(crate) struct Differences {
    /// On the pattern of J.
    pub jacobian: Jacobian,
    /// The residuals, under a loss r~ by differences of rho.
    pub residuals: Vec<f64>,
    /// Per row.
    pub rows: Vec<Witness>,
}

/// Verdict of the differences of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Witness {
    /// The derivative.
    Smooth,
    /// Nothing: some Select, comparison or abs decides differently within the step, or the residual is not finite there.
    Kink,
    /// Nothing: an image is sampled where the unknowns say, and its given derivative images need not be the derivatives of
    /// the interpolated image.
    Sampled,
}

impl Explicit<'_> {
    /// J(x) by central differences, extrapolated to steps of 0; what losses do by differences of rho. Constant
    /// views stay what they are.
    pub(crate) fn differences(&self, x: &[f64]) -> Differences {
        let point = self.point(x);
        let mut jacobian = self.pattern.clone();
        let mut witnesses = vec![Witness::Smooth; self.rows()];
        jacobian.refill(|indptr, columns, values| {
            let (mut tasks, mut row) = (Vec::new(), 0);
            let (mut rest, mut rest_witnesses) = (values, witnesses.as_mut_slice());
            for chunk in &self.chunks {
                let rows = chunk.instances.len();
                let starts = &indptr[row..=row + rows];
                let (mine, others) = rest.split_at_mut(starts[rows] - starts[0]);
                let (said, others_said) = rest_witnesses.split_at_mut(rows);
                tasks.push((chunk, starts, mine, said));
                (rest, rest_witnesses, row) = (others, others_said, row + rows);
            }
            tasks.into_par_iter().for_each(|(chunk, starts, mine, said)| {
                let mut work = Workspace::default();
                for (i, (template, at)) in self.instances(chunk).enumerate() {
                    if template.tape.samples_at_unknowns() {
                        said[i] = Witness::Sampled;
                        continue;
                    }
                    for entry in starts[i]..starts[i + 1] {
                        let scalar = self.free_scalars()[columns[entry] as usize] as usize;
                        let slope = template.difference(&at, &point, scalar, &mut work);
                        if slope.is_none() {
                            said[i] = Witness::Kink;
                        }
                        mine[entry - starts[0]] = slope.unwrap_or(0.0);
                    }
                }
            });
        });
        let mut residuals = self.residuals(x);
        let kinks = self.losses.kinks(&residuals);
        witnesses.iter_mut().zip(kinks).filter(|(_, kink)| *kink).for_each(|(w, _)| *w = Witness::Kink);
        self.losses.apply_by_differences(&mut residuals, &mut jacobian);
        Differences { jacobian, residuals, rows: witnesses }
    }

    /// Per row, the size of the numbers that a (weighted) residual is made of: its rounding error is a small multiple of 1e-16 of it.
    pub(crate) fn magnitudes(&self, x: &[f64]) -> Vec<f64> {
        let point = self.point(x);
        let of_chunk = |chunk| {
            let mut work = Workspace::default();
            self.instances(chunk).map(|(t, at)| t.magnitude(&at, &point, &mut work)).collect::<Vec<f64>>()
        };
        let mut magnitudes = self.chunks.par_iter().map(of_chunk).collect::<Vec<_>>().concat();
        if !self.losses.is_empty() {
            let roots = self.losses.root_weights(&self.residuals(x));
            magnitudes.iter_mut().zip(roots).for_each(|(m, w)| *m = weighted(w, *m));
        }
        magnitudes
    }
}

impl Template {
    /// d residual / d scalar; `None` where the residual is not smooth within the step.
    fn difference(
        &self,
        at: &Instance<'_>,
        point: &Point<'_>,
        scalar: usize,
        work: &mut Workspace,
    ) -> Option<f64> {
        let h = STEP * point.x[scalar].abs().max(1.0);
        let (_, branches) = eval::value_and_branches(&self.tape, at, point, work);
        let mut at_offset = |by: f64| {
            let bumped = Point { bump: Some((scalar, by)), ..*point };
            let (value, here) = eval::value_and_branches(&self.tape, at, &bumped, work);
            (here == branches && value.is_finite()).then_some(value)
        };
        extrapolated(|level| {
            let h = h / f64::from(1u32 << level);
            Some((at_offset(h)? - at_offset(-h)?) / (2.0 * h))
        })
    }

    fn magnitude(&self, at: &Instance<'_>, point: &Point<'_>, work: &mut Workspace) -> f64 {
        if self.is_cut(at) { 0.0 } else { eval::magnitude(&self.tape, at, point, work) }
    }
}

/// The limit of central differences, `slope(level)` being that of step h / 2^level, by Ridders' method: extrapolated in the even powers of the step
/// until that changes little, or until rounding makes it worse (Ridders, "Accurate computation of F'(x) and F'(x) F''(x)", 1982).
fn extrapolated(mut slope: impl FnMut(u32) -> Option<f64>) -> Option<f64> {
    let mut row = vec![slope(0)?];
    let mut best = (f64::INFINITY, row[0]);
    for level in 1..LEVELS {
        let mut next = vec![slope(level)?];
        let mut factor = 1.0;
        for (k, &wider) in row.iter().enumerate() {
            factor *= 4.0;
            let value = next[k] + (next[k] - wider) / (factor - 1.0);
            let error = (value - next[k]).abs().max((value - wider).abs());
            if error <= best.0 {
                best = (error, value);
            }
            next.push(value);
        }
        let worse = (next[next.len() - 1] - row[row.len() - 1]).abs() >= 2.0 * best.0;
        if best.0 <= ENOUGH * best.1.abs() || worse {
            break;
        }
        row = next;
    }
    Some(best.1)
}

#[cfg(test)]
mod tests {
    use super::extrapolated;

    #[test]
    fn steps_shrink_where_the_function_is_steep() {
        // 1/x at 1e-4, from a step of a tenth of that.
        let f = |x: f64| 1.0 / x;
        let (x, h) = (1e-4, 1e-5);
        let slope = |level: u32| {
            let h = h / f64::from(1u32 << level);
            Some((f(x + h) - f(x - h)) / (2.0 * h))
        };
        let came = extrapolated(slope).unwrap();
        assert!((came * x * x + 1.0).abs() < 1e-8, "{came}");
        assert_eq!(extrapolated(|_| Some(0.0)), Some(0.0));
        assert_eq!(extrapolated(|level| (level < 1).then_some(1.0)), None);
    }
}
