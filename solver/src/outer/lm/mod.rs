//! The outer loop: Gauss-Newton and Levenberg-Marquardt with a trust-region radius.
//!
//! Notation: x the unknowns, r the residuals, E = sum r^2, J the Jacobian, g = J^T r. A step s solves (J^T J + D) s = -g
//! approximately, with D falling as the radius R grows. This file owns every decision (accept, damp, stop) and no number
//! larger than a scalar: the matrix-free path and the assembled path both run under it, behind [`Steps`].
//!
//! The gain ratio is rho = (E(x) - E(x+s)) / pred, with pred = -sum (J s)(2 r + J s) the decrease of the linear model without
//! damping. After an accepted step R grows as in Madsen, Nielsen and Tingleff, "Methods for non-linear least squares
//! problems" (2004), section 3.2, which are also the rules of Ceres:
//! R = R / max(1/3, 1 - (2 rho - 1)^3), nu = 2; after another one R = R / nu, nu = 2 nu.

use crate::problem::cancel::Watch;
use crate::problem::options::{Method, Precision, SecondDescent, SolveOptions};
use crate::problem::report::{Iteration, LinearStop, Outcome, Termination};
use std::time::Instant;

/// E and its parts.
#[derive(Clone, Debug, Default)]
pub struct Energies {
    /// E = sum r^2 over the residuals that count.
    pub total: f64,
    /// E per residual group.
    pub by_group: Vec<f64>,
}

/// Result of a linearisation at x.
#[derive(Clone, Copy, Debug)]
pub struct Linearisation {
    /// max|g| over free unknowns; NaN if any entry is.
    pub gradient_max_norm: f64,
    /// max|g_i| / |column i of J| over them, each within its bounds: what of |r| a single unknown could take off.
    pub gradient_scaled: f64,
}

/// Results of the linear solve and the model about the proposed step.
#[derive(Clone, Copy, Debug)]
pub struct LinearResult {
    /// Iterations of the linear solver.
    pub iterations: usize,
    /// Reason for its end.
    pub stop: LinearStop,
    /// |r| / |b| of its recurred residual.
    pub residual: f64,
    /// True if there is a step at all: false if the solver broke down before its first iterate; s is then 0.
    pub usable: bool,
    /// Decrease of E that the linear model predicts for the step, damping not included.
    pub predicted: f64,
    /// |s|_2.
    pub step_norm: f64,
    /// |x|_2 over free unknowns, at the start of the step.
    pub x_norm: f64,
}

/// The preconditioner of a linear solve.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// Its name; empty where a solve has one alone.
    pub preconditioner: &'static str,
    /// Wall-clock seconds of its set-up, and of D, since the solve before.
    pub setup_seconds: f64,
    /// eta, where PCG goes by it.
    pub eta: Option<f64>,
}

/// One problem being solved. x moves only in [`Steps::accept`].
///
/// Order of calls: `energy_at_start` once; then `linearise` at each new x; then `solve_linear`, `trial_energy`, and one of
/// `accept`, `reject`. After a reject the next `solve_linear` reuses the linearisation: only the radius has changed. Where a device does
/// the work, `expect_step` before `linearise` lets the host wait once for both and for the trial.
pub trait Steps {
    /// The reasons that end a linear solve early. The outer loop asks the same watch: two that start one after the other would disagree for a moment.
    fn watch(&self) -> &Watch;
    /// E at the initial x.
    fn energy_at_start(&mut self) -> Energies;
    /// Says that the next `linearise` is followed by a step with its radius, unless g ends the solve: this step may begin at once.
    fn expect_step(&mut self) {}
    /// Evaluates g and whatever else depends on x. `radius` is what the next `solve_linear` will be given.
    fn linearise(&mut self, radius: Option<f64>) -> Linearisation;
    /// Proposes a step from x, unless it is interrupted. `radius` is `None` for Gauss-Newton (D = 0).
    fn solve_linear(&mut self, radius: Option<f64>) -> LinearResult;
    /// The preconditioner of the last `solve_linear`.
    fn used(&self) -> Used {
        Used::default()
    }
    /// E at x + s. Lagged quantities keep their values at x.
    fn trial_energy(&mut self) -> Energies;
    /// x becomes x + s. Where lagged quantities were refreshed, the energies at the new x with them; else `None`.
    fn accept(&mut self) -> Option<Energies>;
    /// x stays what it is, to the bit.
    fn reject(&mut self);
    /// Linear systems are solved nearly exactly from now on. Returns false where that is not to be had: nothing has changed then.
    fn solve_exactly(&mut self) -> bool {
        false
    }
    /// Sets x aside; if some x was set aside before, that becomes x, and scales of D begin anew. `energy_at_start` follows. Returns false
    /// where this is not to be had: nothing has changed then.
    fn set_aside(&mut self) -> bool {
        false
    }
}

/// Wish of an observer of the iterations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Go on.
    Continue,
    /// End the solve with x as it is.
    Abort,
}

/// Called after each step.
pub type Callback<'a> = &'a mut dyn FnMut(&Iteration) -> Control;

/// E at the start is not finite: there is nothing to improve on. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InitialNotFinite {
    /// E at the start.
    pub energy: f64,
}

/// The relative noise c of an energy: differences below c E mean nothing.
pub fn energy_noise(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => 1e-6,
        Precision::Mixed | Precision::F64 => 1e-13,
    }
}

/// The relative step below which x does not move.
fn resolution(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => f64::from(f32::EPSILON),
        Precision::Mixed | Precision::F64 => f64::EPSILON,
    }
}

/// The radius R and the factor nu by which the next rejection divides it.
struct TrustRegion {
    radius: f64,
    max_radius: f64,
    nu: f64,
    /// nu after an accepted step.
    first_nu: f64,
}

impl TrustRegion {
    fn new(options: &SolveOptions) -> TrustRegion {
        let SolveOptions { max_radius, radius_decrease_factor: nu, .. } = *options;
        TrustRegion { radius: options.radius(), max_radius, nu, first_nu: nu }
    }

    fn grow(&mut self, gain_ratio: f64) {
        let shrink = (1.0 - (2.0 * gain_ratio - 1.0).powi(3)).max(1.0 / 3.0);
        self.radius = (self.radius / shrink).min(self.max_radius);
        self.nu = self.first_nu;
    }

    fn shrink(&mut self) {
        self.radius /= self.nu;
        self.nu *= 2.0;
    }
}

/// Verdict on a proposed step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Accepted,
    /// A valid model that did not deliver.
    Rejected,
    /// No step, no predicted decrease, or an energy that is not finite.
    Invalid,
    /// Predicted and actual change are both no more than noise.
    Noise,
}

/// The reason why there is no step, although the solve has not ended.
fn interruption(watch: &Watch) -> Termination {
    match (watch.is_cancelled(), watch.is_over()) {
        (true, _) => Termination::Interrupted,
        (false, true) => Termination::MaxSeconds,
        (false, false) => Termination::Failed,
    }
}

/// A minimisation between two steps. The same [`Steps`] must be given to every method.
pub struct Minimiser {
    options: SolveOptions,
    precision: Precision,
    energy_initial: f64,
    /// At x.
    energies: Energies,
    /// Norms of g at x.
    gradient: Linearisation,
    gradient_initial: f64,
    trust: TrustRegion,
    /// |s| of the longest accepted step.
    longest_step: f64,
    /// True if the last step was invalid.
    invalid: bool,
    iterations: Vec<Iteration>,
    ended: Option<Termination>,
    attempt: Attempt,
    /// Steps at most, over both descents.
    limit: usize,
    /// The step that the second one begins with.
    second_from: Option<usize>,
    /// Nobody looks at x between two steps.
    runs: bool,
}

/// The descent that a minimisation is in, of two from the same start.
///
/// Where a first radius is small, steps follow what is steep; valleys that are curved and nearly flat then take more of them than there are.
/// From a large one they begin with Gauss-Newton's, which may end somewhere else. Over graphs, steps that are cut short straighten each joint
/// before the whole is in place; exact ones cost more. So the second descent begins only where the first has come to its limit, and counts only if
/// it ends lower.
enum Attempt {
    /// No second one can follow.
    Only,
    /// The start is set aside.
    First,
    /// The end of the first is set aside: E and the norms of g there.
    Second(Energies, Linearisation),
}

impl Minimiser {
    /// Evaluates and linearises at the current x.
    pub fn start(
        steps: &mut dyn Steps,
        options: SolveOptions,
        precision: Precision,
        free: usize,
    ) -> Result<Minimiser, InitialNotFinite> {
        let energies = steps.energy_at_start();
        if !energies.total.is_finite() {
            return Err(InitialNotFinite { energy: energies.total });
        }
        let mut run = Minimiser {
            trust: TrustRegion::new(&options),
            limit: options.iterations(),
            second_from: None,
            options,
            precision,
            energy_initial: energies.total,
            energies,
            gradient: Linearisation { gradient_max_norm: 0.0, gradient_scaled: 0.0 },
            gradient_initial: 0.0,
            longest_step: 0.0,
            invalid: false,
            iterations: Vec::new(),
            ended: None,
            attempt: Attempt::Only,
            runs: false,
        };
        if free == 0 {
            run.ended = Some(Termination::NoFreeUnknown);
            return Ok(run);
        }
        run.gradient = steps.linearise(run.radius());
        run.gradient_initial = run.gradient.gradient_max_norm;
        run.ended = run.gradient_is_small().then_some(Termination::GradientTolerance);
        if run.options.second.is_some() && !run.gauss_newton() && steps.set_aside() {
            run.attempt = Attempt::First;
        }
        Ok(run)
    }

    /// Evaluates and linearises anew where x stands, after the problem's numbers have changed. Radius and counts go on; an end by
    /// a tolerance is taken back, since it was that of another problem.
    pub fn refresh(&mut self, steps: &mut dyn Steps) -> Result<(), InitialNotFinite> {
        if self.ended == Some(Termination::NoFreeUnknown) {
            return Ok(());
        }
        let energies = steps.energy_at_start();
        if !energies.total.is_finite() {
            return Err(InitialNotFinite { energy: energies.total });
        }
        self.energies = energies;
        self.invalid = false;
        // What is set aside is of the numbers before.
        self.attempt = Attempt::Only;
        self.gradient = steps.linearise(self.radius());
        self.ended = self.gradient_is_small().then_some(Termination::GradientTolerance);
        Ok(())
    }

    /// Steps until the solve ends or the observer ends it.
    pub fn run(&mut self, steps: &mut dyn Steps, callback: Callback<'_>) {
        self.runs = true;
        while self.ended.is_none() {
            let before = self.iterations.len();
            self.step(steps);
            let Some(step) = self.iterations.get(before) else { continue };
            if callback(step) == Control::Abort && self.ended.is_none() {
                self.ended = Some(self.settle(steps, Termination::UserAbort));
            }
        }
        self.runs = false;
    }

    /// Takes one step, unless the solve has ended or a limit ends it first. Returns why it ended, once it has.
    pub fn step(&mut self, steps: &mut dyn Steps) -> Option<Termination> {
        if self.ended.is_none() {
            let mut end = self.limit_reached(steps.watch());
            if end == Some(Termination::MaxIterations) && self.begin_again(steps) {
                end = None;
            }
            let end = end.or_else(|| self.take_step(steps));
            self.ended = end.map(|end| self.settle(steps, end));
        }
        self.ended
    }

    /// Tells whether the descent was under way at its limit: of the last tenth of its steps one was rejected, or they took more than a thousandth
    /// off E.
    fn is_under_way(&self) -> bool {
        let steps = &self.iterations;
        let (before, last) = steps.split_at(steps.len() - steps.len().div_ceil(10));
        let from = before.last().map_or(self.energy_initial, |step| step.energy);
        last.iter().any(|step| !step.accepted) || from > (1.0 + 1e-3) * self.energies.total
    }

    /// Goes back to the start for the second descent, if one can follow.
    fn begin_again(&mut self, steps: &mut dyn Steps) -> bool {
        let Some(SecondDescent { radius, exact }) = self.options.second else { return false };
        if !matches!(self.attempt, Attempt::First)
            || exact && !(self.is_under_way() && steps.solve_exactly())
            || !steps.set_aside()
        {
            return false;
        }
        self.attempt = Attempt::Second(std::mem::take(&mut self.energies), self.gradient);
        self.energies = steps.energy_at_start();
        self.trust = TrustRegion { radius, ..TrustRegion::new(&self.options) };
        self.limit += self.options.iterations();
        self.second_from = Some(self.iterations.len() + 1);
        (self.longest_step, self.invalid) = (0.0, false);
        self.gradient = steps.linearise(self.radius());
        true
    }

    /// Ends the solve: where the second descent ended no lower than the first, x is where that ended, and so does the solve.
    fn settle(&mut self, steps: &mut dyn Steps, end: Termination) -> Termination {
        let Attempt::Second(first, gradient) = std::mem::replace(&mut self.attempt, Attempt::Only) else {
            return end;
        };
        // False for NaN: an engine that failed moves nothing.
        if self.energies.total < first.total || end == Termination::Failed || !steps.set_aside() {
            return end;
        }
        steps.energy_at_start();
        (self.energies, self.gradient) = (first, gradient);
        use Termination::{Interrupted, MaxSeconds, UserAbort};
        if matches!(end, Interrupted | MaxSeconds | UserAbort) { end } else { Termination::MaxIterations }
    }

    /// The records of all steps so far.
    pub fn iterations(&self) -> &[Iteration] {
        &self.iterations
    }

    /// E at x.
    pub fn energies(&self) -> &Energies {
        &self.energies
    }

    fn limit_reached(&self, watch: &Watch) -> Option<Termination> {
        if self.iterations.len() >= self.limit {
            return Some(Termination::MaxIterations);
        }
        watch.is_over().then(|| interruption(watch))
    }

    /// Ends the solve, where x stands: the engine failed.
    pub fn fail(&mut self) {
        self.ended = Some(Termination::Failed);
    }

    fn gauss_newton(&self) -> bool {
        self.options.method == Method::GaussNewton
    }

    /// The radius of the next step; `None` for Gauss-Newton.
    fn radius(&self) -> Option<f64> {
        (!self.gauss_newton()).then_some(self.trust.radius)
    }

    /// One step and its record; `Some` if the solve ends with it.
    fn take_step(&mut self, steps: &mut dyn Steps) -> Option<Termination> {
        let started = Instant::now();
        let linear = steps.solve_linear(self.radius());
        if linear.stop == LinearStop::Interrupted {
            return Some(interruption(steps.watch()));
        }
        let used = steps.used();
        // Gauss-Newton counts a breakdown of a finite system as a zero step: nothing but a non-finite value may end it.
        let usable = linear.usable || (self.gauss_newton() && linear.stop != LinearStop::NotFinite);
        let step_is_finite = usable && linear.step_norm.is_finite();
        let trial = step_is_finite.then(|| steps.trial_energy());
        let (verdict, gain_ratio) = match &trial {
            Some(trial) => self.judge(&linear, trial.total),
            None => (Verdict::Invalid, f64::NAN),
        };
        let before = self.energies.total;
        let trial_total = trial.as_ref().map_or(f64::NAN, |t| t.total);
        match (verdict, trial) {
            (Verdict::Accepted, Some(trial)) => {
                self.energies = steps.accept().unwrap_or(trial);
                self.trust.grow(gain_ratio);
                self.longest_step = self.longest_step.max(linear.step_norm);
                let last = self.iterations.len() + 1 >= self.limit || steps.watch().is_over();
                if self.runs && !last && self.end_behind(&linear, before, trial_total).is_none() {
                    steps.expect_step();
                }
                self.gradient = steps.linearise(self.radius());
            }
            _ => steps.reject(),
        }
        let ended = if self.gauss_newton() {
            self.after_gauss_newton(verdict)
        } else {
            self.after_lm(verdict, &linear, before, trial_total)
        };
        self.record((&linear, used), gain_ratio, verdict, started);
        ended
    }

    /// Judges a step whose energy is `trial`; also gives its gain ratio.
    fn judge(&self, linear: &LinearResult, trial: f64) -> (Verdict, f64) {
        let decrease = self.energies.total - trial;
        let gain_ratio = decrease / linear.predicted;
        let verdict = if self.gauss_newton() {
            if trial.is_finite() { Verdict::Accepted } else { Verdict::Invalid }
        } else {
            // False for NaN.
            let has_model = linear.predicted > 0.0;
            let noise = energy_noise(self.precision) * self.energies.total;
            if linear.predicted.abs() <= noise && decrease.abs() <= noise {
                Verdict::Noise
            } else if !trial.is_finite() || !has_model {
                Verdict::Invalid
            } else if gain_ratio > self.options.min_relative_decrease {
                Verdict::Accepted
            } else {
                Verdict::Rejected
            }
        };
        (verdict, gain_ratio)
    }

    /// Gauss-Newton takes every finite step, uphill too; only a zero gradient or a non-finite value ends it.
    fn after_gauss_newton(&mut self, verdict: Verdict) -> Option<Termination> {
        if verdict != Verdict::Accepted || !self.gradient.gradient_max_norm.is_finite() {
            return Some(Termination::Diverged);
        }
        self.gradient_is_small().then_some(Termination::GradientTolerance)
    }

    fn after_lm(
        &mut self,
        verdict: Verdict,
        linear: &LinearResult,
        before: f64,
        trial: f64,
    ) -> Option<Termination> {
        let after_invalid = std::mem::replace(&mut self.invalid, verdict == Verdict::Invalid);
        match verdict {
            // Cut down to nothing: no step that moves x has a finite energy.
            Verdict::Noise if after_invalid => return Some(Termination::InvalidSteps),
            Verdict::Noise => return Some(Termination::NoiseFloor),
            Verdict::Accepted if self.gradient_is_small() => return Some(Termination::GradientTolerance),
            Verdict::Accepted => return self.end_behind(linear, before, trial),
            Verdict::Rejected | Verdict::Invalid => self.trust.shrink(),
        }
        self.end_of_steps(linear)
    }

    /// The end that an accepted step is by itself, whatever g is behind it. Gauss-Newton ends by g alone.
    fn end_behind(&self, linear: &LinearResult, before: f64, trial: f64) -> Option<Termination> {
        if self.gauss_newton() {
            return None;
        }
        if self.function_tolerance().is_some_and(|f| (before - trial).abs() <= f * before) {
            return Some(Termination::FunctionTolerance);
        }
        self.end_of_steps(linear)
    }

    /// The end by steps or radii that are too small.
    fn end_of_steps(&self, linear: &LinearResult) -> Option<Termination> {
        if !self.invalid && self.step_is_short(linear) {
            return Some(Termination::StepTolerance);
        }
        let end = if self.invalid { Termination::InvalidSteps } else { Termination::MinRadius };
        (self.trust.radius < self.options.min_radius).then_some(end)
    }

    /// Tells whether a step is too short to go on: x does not move by it, or it is short beside the longest step and beside x. Where E has
    /// fallen to the rounding of what it was at the start, x may be 0.
    fn step_is_short(&self, linear: &LinearResult) -> bool {
        let (tolerance, resolution) = (self.options.step_tolerance, resolution(self.precision));
        let vanished = self.energies.total <= resolution * resolution * self.energy_initial;
        let short = linear.step_norm <= tolerance * self.longest_step
            && (vanished || linear.step_norm <= tolerance * linear.x_norm);
        tolerance > 0.0 && (short || linear.step_norm <= resolution * linear.x_norm)
    }

    /// Tells whether g at x ends the solve. False for NaN.
    fn gradient_is_small(&self) -> bool {
        let (o, g) = (&self.options, &self.gradient);
        if self.gauss_newton() {
            return g.gradient_max_norm == 0.0;
        }
        g.gradient_scaled <= o.gradient_tolerance * self.energies.total.sqrt()
            || g.gradient_max_norm <= o.gradient_rtol * self.gradient_initial
    }

    /// The relative decrease that ends LM; `None` if switched off. Below the noise of E a tolerance has no meaning.
    fn function_tolerance(&self) -> Option<f64> {
        let wanted = self.options.function_tolerance();
        (wanted > 0.0).then(|| wanted.max(energy_noise(self.precision)))
    }

    fn record(
        &mut self,
        (linear, used): (&LinearResult, Used),
        gain_ratio: f64,
        verdict: Verdict,
        started: Instant,
    ) {
        self.iterations.push(Iteration {
            iteration: self.iterations.len() + 1,
            energy: self.energies.total,
            energy_by_group: self.energies.by_group.clone(),
            gradient_max_norm: self.gradient.gradient_max_norm,
            step_norm: linear.step_norm,
            gain_ratio,
            radius: if self.gauss_newton() { f64::INFINITY } else { self.trust.radius },
            accepted: verdict == Verdict::Accepted,
            linear_iterations: linear.iterations,
            linear_stop: linear.stop,
            linear_residual: linear.residual,
            preconditioner: used.preconditioner,
            eta: used.eta,
            setup_seconds: used.setup_seconds,
            seconds: started.elapsed().as_secs_f64(),
        });
    }

    /// Returns how it went. A solve that was left before its end counts as ended by the user.
    pub fn finish(self) -> Outcome {
        Outcome {
            energy_initial: self.energy_initial,
            energy_final: self.energies.total,
            termination: self.ended.unwrap_or(Termination::UserAbort),
            iterations: self.iterations,
            second_descent: self.second_from,
        }
    }
}

#[cfg(test)]
mod tests;
