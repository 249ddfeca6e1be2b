//! The forcing term eta of preconditioners for which sqrt(r.z) measures the error: PCG ends at sqrt(r.z) <= eta sqrt(r0.z0), k >= 2.
//!
//! With M near A, r.z is nearly the square of the error in the norm of A: at eta the step lacks eta^2 of what the model can fall. eta grows where the
//! model of E fails, which no better solve of the linear system would mend, and shrinks where it holds. How tight it gets is a matter of costs
//! ([`Range`]): a step has its set-up before any iteration.
//!
//! PCG with the other preconditioners ends by the model rule, k (Q_k - Q_{k-1}) <= zeta Q_k: a step is good enough once an iteration adds little to what the
//! model has fallen. Where the model promises that nearly nothing remains of E, that is no measure: of two steps that both take 99 % of E, the one that
//! leaves 0.1 % is worth ten times the other. There zeta is a share of what remains, as long as the model holds ([`Forcing::zeta`]). Only `auto` goes by
//! this, which has levels for the many iterations that it may take.

use crate::problem::options::{Method, Preconditioner, SolveOptions};

/// The values of eta with a preconditioner: the least, with which a solve begins, and the factor between neighbouring ones. The largest is 0.3.
///
/// Steps with a loose eta are more, and each has a set-up. Where that costs little beside an iteration, nothing is lost by a loose one, and what is
/// saved are the iterations that make a step good of which the model says too much. So iterations shall cost about what the set-up does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Range {
    least: f64,
    factor: f64,
}

/// For set-ups that cost as much as some twenty iterations: aggregation.
const TIGHT: Range = Range { least: 1e-3, factor: 10.0 };

/// For those that cost as much as some five: multigrid.
const LOOSE: Range = Range { least: 0.1, factor: 3.0 };

impl Range {
    /// The values with a preconditioner, if r.z measures the error with it.
    pub fn of(kind: Preconditioner) -> Option<Range> {
        match kind {
            Preconditioner::Multigrid => Some(LOOSE),
            Preconditioner::Aggregation => Some(TIGHT),
            _ => None,
        }
    }
}

/// The largest that it becomes.
const MOST: f64 = 0.3;

/// eta of solves that are nearly exact.
const EXACT: f64 = 1e-4;

/// eta in the course of a solve.
#[derive(Clone, Debug)]
pub struct Forcing {
    /// eta, if it stays as it is.
    fixed: Option<f64>,
    /// The value that the steps have led to.
    eta: f64,
    /// E at x.
    energy: f64,
    /// E at x + s.
    trial: f64,
    /// The decrease of E that the model predicts for s.
    predicted: f64,
    /// The values of the preconditioner with which eta has ended the solve that s is of.
    decided: Option<Range>,
    /// The model has held in the last step.
    holds: bool,
}

/// The gain ratio from which on the model is said to hold.
const HOLDS: f64 = 0.75;

/// Share of E that is little, if it is all that the model leaves.
const LITTLE: f64 = 0.05;

/// The least factor of zeta.
const LEAST: f64 = 1e-4;

impl Forcing {
    /// As a solve begins.
    pub fn new(options: &SolveOptions) -> Forcing {
        Forcing {
            fixed: options.eta.or((options.method == Method::GaussNewton).then_some(TIGHT.least)),
            eta: 0.0,
            energy: f64::NAN,
            trial: f64::NAN,
            predicted: f64::NAN,
            decided: None,
            holds: true,
        }
    }

    /// The same, for solves that are nearly exact.
    pub fn exact() -> Forcing {
        Forcing { fixed: Some(EXACT), ..Forcing::new(&SolveOptions::default()) }
    }

    /// The factor of r0.z0 that r.z is compared with; below 0, so that nothing meets it, where |r| decides.
    pub fn bound(&self, range: Range, options: &SolveOptions) -> f64 {
        if options.linear_tolerance.is_some() { -1.0 } else { self.eta(range).powi(2) }
    }

    fn eta(&self, range: Range) -> f64 {
        self.fixed.unwrap_or_else(|| self.eta.clamp(range.least, MOST))
    }

    /// zeta of the model rule at a point of PCG with this Q, half of what the model has fallen there, where it is `zeta` otherwise.
    pub fn zeta(&self, zeta: f64, q: f64) -> f64 {
        let left = 1.0 - 2.0 * q / self.energy;
        let promises = self.holds && left <= LITTLE;
        if promises { zeta * (left / (1.0 - left)).max(LEAST) } else { zeta }
    }

    /// x was evaluated.
    pub fn at_x(&mut self, energy: f64) {
        self.energy = energy;
    }

    /// A step was proposed. A solve that went by other rules than eta says nothing of it.
    pub fn proposed(&mut self, predicted: f64, decided: Option<Range>) {
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
        self.holds = gain_ratio >= HOLDS;
        let Some(range) = self.decided else { return };
        let change = match gain_ratio {
            g if g > 0.5 => 1.0 / range.factor,
            g if g < 0.25 || g.is_nan() => range.factor,
            _ => 1.0,
        };
        self.eta = (self.eta(range) * change).clamp(range.least, MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule k (Q_k - Q_{k-1}) <= zeta Q_k becomes k (Q_k - Q_{k-1}) <= zeta (E / 2 - Q_k).
    #[test]
    fn zeta_is_a_share_of_what_a_model_that_holds_leaves() {
        let mut f = Forcing::new(&SolveOptions::default());
        // Nothing is known of E.
        assert_eq!(f.zeta(0.01, 1.0), 0.01);
        f.at_x(200.0);
        assert_eq!(f.zeta(0.01, 80.0), 0.01);
        assert!((f.zeta(0.01, 99.0) * 99.0 - 0.01 * (100.0 - 99.0)).abs() < 1e-12);
        assert!((f.zeta(0.01, 100.0) - 1e-6).abs() < 1e-18);
        let mut step = |trial: f64| {
            f.at_x(200.0);
            f.proposed(198.0, None);
            f.tried(trial);
            f.accepted();
            f.at_x(200.0);
            f.zeta(0.01, 99.0)
        };
        assert!(step(10.0) < 0.01);
        assert_eq!(step(100.0), 0.01);
        assert_eq!(step(f64::NAN), 0.01);
    }

    #[test]
    fn eta_follows_the_gain_ratio() {
        let options = SolveOptions::default();
        let mut f = Forcing::new(&options);
        let mut step = |range: Range, trial: f64, accepted: bool| {
            f.at_x(1.0);
            f.proposed(0.5, Some(range));
            f.tried(trial);
            if accepted {
                f.accepted()
            } else {
                f.rejected()
            }
            f.eta(range)
        };
        assert_eq!(step(TIGHT, 0.6, true), 1e-3);
        assert_eq!(step(TIGHT, 0.9, true), 1e-2);
        assert_eq!(step(TIGHT, 0.8, true), 1e-2);
        assert_eq!(step(TIGHT, f64::NAN, false), 0.1);
        assert_eq!(step(TIGHT, 2.0, false), 0.3);
        assert!((step(TIGHT, 0.5, true) - 0.03).abs() < 1e-15);
        // Each kind has its least.
        assert_eq!(step(LOOSE, 0.8, true), 0.1);
        assert!((step(LOOSE, 0.9, true) - 0.3).abs() < 1e-15);
        let fixed = SolveOptions { eta: Some(0.07), ..SolveOptions::default() };
        let mut f = Forcing::new(&fixed);
        f.rejected();
        assert_eq!(f.bound(LOOSE, &fixed), 0.07 * 0.07);
        let tolerance = SolveOptions { linear_tolerance: Some(1e-3), ..SolveOptions::default() };
        assert!(f.bound(TIGHT, &tolerance) < 0.0);
    }
}
