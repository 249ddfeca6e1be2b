//! The forcing term eta of preconditioners for which sqrt(r.z) measures the error: PCG ends at sqrt(r.z) <= eta sqrt(r0.z0), k >= 2.
//!
//! With M near A, r.z is nearly the square of the error in the norm of A, and a tight solve costs few iterations more than a loose one. So eta
//! begins tight; it grows where the model of E fails, which no better solve of the linear system would mend, and shrinks where it holds.

use crate::problem::options::{Method, SolveOptions};

/// eta at the start, and the least that it becomes.
const LEAST: f64 = 1e-3;

/// The largest that it becomes.
const MOST: f64 = 0.3;

/// eta of solves that are nearly exact.
const EXACT: f64 = 1e-4;

/// The factor between neighbouring values.
const FACTOR: f64 = 10.0;

/// eta in the course of a solve.
#[derive(Clone, Debug)]
pub struct Forcing {
    /// False if it stays as it is: Gauss-Newton takes every step.
    adapts: bool,
    eta: f64,
    /// E at x.
    energy: f64,
    /// E at x + s.
    trial: f64,
    /// The decrease of E that the model predicts for s.
    predicted: f64,
    /// True if eta ended the solve that s is of.
    decided: bool,
}

impl Forcing {
    /// As a solve begins.
    pub fn new(options: &SolveOptions) -> Forcing {
        Forcing {
            adapts: options.eta.is_none() && options.method == Method::LevenbergMarquardt,
            eta: options.eta.unwrap_or(LEAST),
            energy: f64::NAN,
            trial: f64::NAN,
            predicted: f64::NAN,
            decided: false,
        }
    }

    /// The same, for solves that are nearly exact.
    pub fn exact() -> Forcing {
        Forcing { adapts: false, eta: EXACT, ..Forcing::new(&SolveOptions::default()) }
    }

    /// The factor of r0.z0 that r.z is compared with; below 0, so that nothing meets it, where |r| decides.
    pub fn bound(&self, options: &SolveOptions) -> f64 {
        if options.linear_tolerance.is_some() { -1.0 } else { self.eta * self.eta }
    }

    /// x was evaluated.
    pub fn at_x(&mut self, energy: f64) {
        self.energy = energy;
    }

    /// A step was proposed. A solve that went by other rules says nothing of eta.
    pub fn proposed(&mut self, predicted: f64, decided: bool) {
        (self.predicted, self.trial, self.decided) = (predicted, f64::NAN, decided);
    }

    /// It was tried.
    pub fn tried(&mut self, energy: f64) {
        self.trial = energy;
    }

    /// It was taken.
    pub fn accepted(&mut self) {
        self.adapt((self.energy - self.trial) / self.predicted);
        self.energy = self.trial;
    }

    /// It was not.
    pub fn rejected(&mut self) {
        self.adapt((self.energy - self.trial) / self.predicted);
    }

    fn adapt(&mut self, gain_ratio: f64) {
        if !self.adapts || !self.decided {
            return;
        }
        if gain_ratio > 0.5 {
            self.eta = (self.eta / FACTOR).max(LEAST);
        } else if gain_ratio < 0.25 || gain_ratio.is_nan() {
            self.eta = (self.eta * FACTOR).min(MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eta_follows_the_gain_ratio() {
        let options = SolveOptions::default();
        let mut f = Forcing::new(&options);
        let mut step = |trial: f64, accepted: bool| {
            f.at_x(1.0);
            f.proposed(0.5, true);
            f.tried(trial);
            if accepted {
                f.accepted()
            } else {
                f.rejected()
            }
            f.eta
        };
        assert_eq!(step(0.6, true), 1e-3);
        assert_eq!(step(0.9, true), 1e-2);
        assert_eq!(step(0.8, true), 1e-2);
        assert_eq!(step(f64::NAN, false), 0.1);
        assert_eq!(step(2.0, false), 0.3);
        assert!((step(0.5, true) - 0.03).abs() < 1e-15);
        let fixed = SolveOptions { eta: Some(0.07), ..SolveOptions::default() };
        let mut f = Forcing::new(&fixed);
        f.rejected();
        assert_eq!(f.bound(&fixed), 0.07 * 0.07);
        let tolerance = SolveOptions { linear_tolerance: Some(1e-3), ..SolveOptions::default() };
        assert!(f.bound(&tolerance) < 0.0);
    }
}
