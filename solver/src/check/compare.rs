//! Expected results of the routines, with a scale for each entry below which differences are rounding.

use crate::assembled::{Explicit, Jacobian, Witness};
use std::ops::Range;

/// Share of the sum of absolute terms that a sum must reach for its relative error to mean something.
const CANCELLATION: f64 = 1e-2;

/// The same for the numbers that a residual itself is made of: 1e-9 of 1e-5 is some hundred roundings.
const RESIDUAL_CANCELLATION: f64 = 1e-5;

/// A vector over all unknown scalars and the scale of each entry.
pub(super) struct Reference {
    value: Vec<f64>,
    scale: Vec<f64>,
}

impl Reference {
    /// |came - value| / max(|value|, |scale|) over the entries of `part`; 0 if there are none.
    pub fn disagreement(&self, came: &[f64], part: Range<usize>) -> f64 {
        if came.len() != self.value.len() {
            return f64::INFINITY;
        }
        let (mut difference, mut value, mut scale) = (0.0, 0.0, 0.0);
        for i in part {
            difference += (came[i] - self.value[i]).powi(2);
            value += self.value[i].powi(2);
            scale += self.scale[i].powi(2);
        }
        let size = f64::max(value, scale);
        if difference == 0.0 { 0.0 } else { (difference / size).sqrt() }
    }
}

/// g, diag(A), A v.
pub(super) struct Expected {
    pub jtf: Reference,
    pub diag: Reference,
    pub jtjv: Reference,
}

impl Expected {
    /// By the assembled Jacobian.
    pub fn new(problem: &Explicit<'_>, x: &[f64], v: &[f64]) -> Expected {
        let (residuals, jacobian) = problem.linearise(x);
        let noise = problem.magnitudes(x);
        let sizes = residuals.iter().zip(noise);
        let sizes: Vec<f64> =
            sizes.map(|(r, m)| CANCELLATION * r.abs() + RESIDUAL_CANCELLATION * m).collect();
        let absolute = jacobian.map(f64::abs);
        let v = problem.gather(v);
        let v_sizes: Vec<f64> = v.iter().map(|v| CANCELLATION * v.abs()).collect();
        Expected::from_jacobian(
            problem,
            &jacobian,
            &residuals,
            &v,
            problem.scatter(&absolute.apply_transpose(&sizes)),
            problem.scatter(&absolute.apply_transpose(&absolute.apply(&v_sizes))),
        )
    }

    /// By finite differences, on the scales of `explicit`; the verdict of each residual; and which scalars some residual was compared for.
    pub fn by_differences(
        problem: &Explicit<'_>,
        explicit: &Expected,
        x: &[f64],
        v: &[f64],
    ) -> (Expected, Vec<Witness>, Vec<bool>) {
        let differences = problem.differences(x);
        let expected = Expected::from_jacobian(
            problem,
            &differences.jacobian,
            &differences.residuals,
            &problem.gather(v),
            explicit.jtf.scale.clone(),
            explicit.jtjv.scale.clone(),
        );
        let columns = differences.jacobian.columns();
        let is_compared = |c: usize| {
            let rows = &columns.indices()[columns.indptr().outer_inds_sz(c)];
            rows.iter().any(|&r| differences.rows[r as usize] != Witness::Kink)
        };
        let mut compared = vec![false; problem.scalars()];
        for (c, &scalar) in problem.free_scalars().iter().enumerate() {
            compared[scalar as usize] = is_compared(c);
        }
        (expected, differences.rows, compared)
    }

    fn from_jacobian(
        problem: &Explicit<'_>,
        jacobian: &Jacobian,
        residuals: &[f64],
        v: &[f64],
        jtf_scale: Vec<f64>,
        jtjv_scale: Vec<f64>,
    ) -> Expected {
        let spread = |columns: Vec<f64>| problem.scatter(&columns);
        let diag = spread(jacobian.diag());
        Expected {
            jtf: Reference { value: spread(jacobian.apply_transpose(residuals)), scale: jtf_scale },
            // A sum of squares cancels nothing.
            diag: Reference { scale: diag.clone(), value: diag },
            jtjv: Reference {
                value: spread(jacobian.apply_transpose(&jacobian.apply(v))),
                scale: jtjv_scale,
            },
        }
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}
