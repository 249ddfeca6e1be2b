//! Box bounds lower <= x <= upper, for both paths.
//!
//! P is the projection on the box. A scalar at a bound whose -g points outwards is *held*: it takes no part in the linear
//! system. The step is s = P(x + d) - x, and x is stationary where P(x - g) - x = 0.

use crate::problem::data::ProblemData;
use sumsq_energy::model::Energy;
use thiserror::Error;

/// Times that a projected gradient step is halved at most until the model falls.
pub(crate) const HALVINGS: usize = 60;

/// Bounds that leave no room, or are NaN.
#[derive(Clone, PartialEq, Debug, Error)]
#[error(
    "Bounds of `{unknown}`, element {element:?}, channel {channel}: expected lower <= upper, came {lower} and {upper}"
)]
pub struct BoundsError {
    /// Name of the unknown.
    pub unknown: String,
    /// Coordinates, fastest-varying first.
    pub element: Vec<usize>,
    /// The channel.
    pub channel: usize,
    /// The lower bound there.
    pub lower: f64,
    /// The upper bound there.
    pub upper: f64,
}

/// Bounds of every unknown scalar, one list per unknown in C order; infinite where there are none.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// Lower bounds.
    pub lower: Vec<Vec<f64>>,
    /// Upper bounds.
    pub upper: Vec<Vec<f64>>,
}

impl Bounds {
    /// No bounds at all.
    pub fn none(data: &ProblemData) -> Bounds {
        let all = |v: f64| data.unknown_lengths().into_iter().map(|n| vec![v; n]).collect();
        Bounds { lower: all(f64::NEG_INFINITY), upper: all(f64::INFINITY) }
    }

    /// Fails where lower <= upper does not hold.
    pub fn check(&self, energy: &Energy, data: &ProblemData) -> Result<(), BoundsError> {
        for (u, (lower, upper)) in self.lower.iter().zip(&self.upper).enumerate() {
            let (field, fits) = (&energy.unknowns[u], |(l, u): (&f64, &f64)| l <= u);
            let Some(scalar) = lower.iter().zip(upper).position(|pair| !fits(pair)) else { continue };
            let channels = usize::from(field.channels);
            let mut rest = scalar / channels;
            let mut coordinate = |extent: usize| {
                let c = rest % extent;
                rest /= extent;
                c
            };
            let element = data.extents(energy, field.space).into_iter().map(&mut coordinate).collect();
            return Err(BoundsError {
                unknown: field.name.clone(),
                element,
                channel: scalar % channels,
                lower: lower[scalar],
                upper: upper[scalar],
            });
        }
        Ok(())
    }

    /// Moves every scalar of the elements that are free (`is_free(unknown, element)`) into its bounds. Says of which unknowns how
    /// many were outside.
    pub fn project(
        &self,
        energy: &Energy,
        unknowns: &mut [Vec<f64>],
        is_free: impl Fn(usize, usize) -> bool,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        for (u, values) in unknowns.iter_mut().enumerate() {
            let (field, mut moved) = (&energy.unknowns[u], 0);
            for (i, v) in values.iter_mut().enumerate() {
                let inside = clamp(*v, self.lower[u][i], self.upper[u][i]);
                if inside != *v && is_free(u, i / usize::from(field.channels)) {
                    *v = inside;
                    moved += 1;
                }
            }
            if moved > 0 {
                warnings.push(format!(
                    "{moved} scalars of `{}` started outside of their bounds: moved to the nearest bound",
                    field.name
                ));
            }
        }
        warnings
    }
}

/// P of one scalar. NaN stays NaN.
pub fn clamp(v: f64, lower: f64, upper: f64) -> f64 {
    if v < lower {
        lower
    } else if v > upper {
        upper
    } else {
        v
    }
}

/// Tells whether a scalar with gradient g is held.
pub fn is_held(x: f64, g: f64, lower: f64, upper: f64) -> bool {
    let (at_lower, at_upper) = (x <= lower, x >= upper);
    (at_lower && (g > 0.0 || at_upper)) || (at_upper && g < 0.0)
}

/// P(x - g) - x, without cancellation where no bound is near.
pub fn projected_gradient(x: f64, g: f64, lower: f64, upper: f64) -> f64 {
    clamp(-g, lower - x, upper - x)
}
