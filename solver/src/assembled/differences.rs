//! Finite differences of the residuals, row by row, and how large the rounding noise of a residual may be.

use super::random::seeded_direction;
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

/// Places at which a row is looked at, besides x itself: each unknown scalar moved by about this, relative to max(1, |x|).
const MOVES: [f64; 3] = [1.0 / (1 << 13) as f64, 1.0 / (1 << 10) as f64, 1.0 / (1 << 7) as f64];

/// A Jacobian by central differences, as far as they say anything.
pub(crate) struct Differences {
    /// On the pattern of J. A row that was looked at elsewhere holds J less what it is off there, one of which nothing is said J itself.
    pub jacobian: Jacobian,
    /// The residuals, under a loss r~ by differences of rho.
    pub residuals: Vec<f64>,
    /// Per row.
    pub rows: Vec<Witness>,
}

/// Verdict of the differences of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Witness {
    /// The derivative.
    Smooth,
    /// The derivative at a place nearby: at x some Select, comparison or abs decides differently within the step.
    Moved,
    /// Nothing: nor is it smooth and finite there, or its loss has a kink.
    Kink,
}

impl Explicit<'_> {
    /// J(x) by central differences, extrapolated to steps of 0; what losses do by differences of rho. Constant
    /// views stay what they are, and derivative images are those of the images.
    pub(crate) fn differences(&self, x: &[f64]) -> Differences {
        let moved: Vec<Vec<f64>> = (1..).zip(MOVES).map(|(seed, by)| moved(x, seed, by)).collect();
        let places: Vec<Point<'_>> =
            std::iter::once(x).chain(moved.iter().map(Vec::as_slice)).map(|x| self.point(x)).collect();
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
                    let entries = starts[i]..starts[i + 1];
                    let values = &mut mine[entries.start - starts[0]..entries.end - starts[0]];
                    said[i] = self.judge(template, &at, &places, &columns[entries], values, &mut work);
                }
            });
        });
        let mut residuals = self.residuals(x);
        let kinks = self.losses.kinks(&residuals);
        self.losses.apply_by_differences(&mut residuals, &mut jacobian);
        if kinks.contains(&true) {
            let (own, own_jacobian) = self.linearise(x);
            let own_values = own_jacobian.rows().data();
            jacobian.refill(|indptr, _, values| {
                for row in (0..kinks.len()).filter(|&row| kinks[row]) {
                    let entries = indptr[row]..indptr[row + 1];
                    values[entries.clone()].copy_from_slice(&own_values[entries]);
                    (residuals[row], witnesses[row]) = (own[row], Witness::Kink);
                }
            });
        }
        Differences { jacobian, residuals, rows: witnesses }
    }

    /// Writes a row of [`Differences::jacobian`], as it is before losses: looked at in the first of the `places` where it is smooth.
    fn judge(
        &self,
        template: &Template,
        at: &Instance<'_>,
        places: &[Point<'_>],
        columns: &[u32],
        values: &mut [f64],
        work: &mut Workspace,
    ) -> Witness {
        let scalars: Vec<usize> = columns.iter().map(|&c| self.free_scalars()[c as usize] as usize).collect();
        let mut tried = places.iter().enumerate();
        let smooth = tried.find_map(|(k, place)| Some((k, template.slopes(at, place, &scalars, work)?)));
        if let Some((0, slopes)) = smooth {
            values.copy_from_slice(&slopes);
            return Witness::Smooth;
        }
        template.row(at, &places[0], columns, values, work);
        let Some((k, slopes)) = smooth else { return Witness::Kink };
        let mut there = vec![0.0; columns.len()];
        template.row(at, &places[k], columns, &mut there, work);
        let off = slopes.iter().zip(&there).map(|(by_differences, own)| by_differences - own);
        values.iter_mut().zip(off).for_each(|(v, off)| *v += off);
        Witness::Moved
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
    /// d residual / d scalar of each of the `scalars`; `None` where the residual is not smooth within the step.
    fn slopes(
        &self,
        at: &Instance<'_>,
        point: &Point<'_>,
        scalars: &[usize],
        work: &mut Workspace,
    ) -> Option<Vec<f64>> {
        let tangents = eval::tangents(&self.tape, at, point, work);
        let (_, branches) = eval::value_and_branches(&self.tape, at, point, &tangents, work);
        let mut slope = |&scalar: &usize| {
            let mut at_offset = |by: f64| {
                let bumped = Point { bump: Some((scalar, by)), ..*point };
                let (value, here) = eval::value_and_branches(&self.tape, at, &bumped, &tangents, work);
                (here == branches && value.is_finite()).then_some(value)
            };
            let widest = STEP * point.x[scalar].abs().max(1.0);
            extrapolated(|level| {
                let h = widest / f64::from(1u32 << level);
                Some((at_offset(h)? - at_offset(-h)?) / (2.0 * h))
            })
        };
        scalars.iter().map(&mut slope).collect()
    }

    fn magnitude(&self, at: &Instance<'_>, point: &Point<'_>, work: &mut Workspace) -> f64 {
        if self.is_cut(at) { 0.0 } else { eval::magnitude(&self.tape, at, point, work) }
    }
}

/// x with every scalar moved by `by` to twice that, up or down.
fn moved(x: &[f64], seed: u64, by: f64) -> Vec<f64> {
    let directions = seeded_direction(x.len(), seed);
    let along = |(x, d): (&f64, f64)| x + by * x.abs().max(1.0) * (d + d.signum());
    x.iter().zip(directions).map(along).collect()
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
