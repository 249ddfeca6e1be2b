//! The rules one by one on scripted steps, and the whole on small dense problems with known minima.

use crate::outer::lm::*;
use nalgebra::{DMatrix, DVector};
use std::time::Duration;

/// Minimises E from the current x.
///
/// `precision` is that of E; `free` is the number of free unknowns, with none there is nothing to do.
fn minimise(
    steps: &mut dyn Steps,
    options: &SolveOptions,
    precision: Precision,
    free: usize,
    callback: Callback<'_>,
) -> Result<Outcome, InitialNotFinite> {
    let mut run = Minimiser::start(steps, options.clone(), precision, free)?;
    run.run(steps, callback);
    Ok(run.finish())
}

/// A proposed step, written down.
#[derive(Clone, Copy)]
struct Scripted {
    predicted: f64,
    trial: f64,
    /// Both norms of g at the trial point.
    gradient: f64,
    step_norm: f64,
    stop: LinearStop,
    usable: bool,
}

/// A step that keeps the gradient at 1 and moves far.
fn proposes(predicted: f64, trial: f64) -> Scripted {
    Scripted { predicted, trial, gradient: 1.0, step_norm: 1.0, stop: LinearStop::Model, usable: true }
}

/// Plays proposals; the last one is repeated for ever.
struct Script {
    watch: Watch,
    start: f64,
    gradient: f64,
    x_norm: f64,
    proposals: Vec<Scripted>,
    next: usize,
    accepted: usize,
    rejected: usize,
    linearised: usize,
    radii: Vec<Option<f64>>,
    /// Nearly exact solves: can they be had, were they asked for.
    exact: (bool, bool),
}

impl Script {
    fn new(start: f64, proposals: &[Scripted]) -> Script {
        let proposals = proposals.to_vec();
        let (gradient, x_norm, next, accepted, rejected, linearised) = (1.0, 1.0, 0, 0, 0, 0);
        Script {
            watch: Watch::default(),
            start,
            gradient,
            x_norm,
            proposals,
            next,
            accepted,
            rejected,
            linearised,
            radii: Vec::new(),
            exact: (false, false),
        }
    }

    fn current(&self) -> Scripted {
        self.proposals[(self.next - 1).min(self.proposals.len() - 1)]
    }

    fn run(&mut self, options: &SolveOptions) -> Outcome {
        self.run_in(Precision::Mixed, options)
    }

    fn run_in(&mut self, precision: Precision, options: &SolveOptions) -> Outcome {
        self.watch = Watch::new(options.cancel.clone(), options.max_time);
        minimise(self, options, precision, 1, &mut |_| Control::Continue).unwrap()
    }
}

fn total(total: f64) -> Energies {
    Energies { total, by_group: vec![total] }
}

impl Steps for Script {
    fn watch(&self) -> &Watch {
        &self.watch
    }
    fn energy_at_start(&mut self) -> Energies {
        total(self.start)
    }
    fn linearise(&mut self, _: Option<f64>) -> Linearisation {
        self.linearised += 1;
        let g = if self.next == 0 { self.gradient } else { self.current().gradient };
        Linearisation { gradient_max_norm: g, gradient_scaled: g }
    }
    fn solve_linear(&mut self, radius: Option<f64>) -> LinearResult {
        self.next += 1;
        self.radii.push(radius);
        let Scripted { predicted, step_norm, stop, usable, .. } = self.current();
        LinearResult { iterations: 1, stop, residual: 0.1, usable, predicted, step_norm, x_norm: self.x_norm }
    }
    fn trial_energy(&mut self) -> Energies {
        total(self.current().trial)
    }
    fn accept(&mut self) -> Option<Energies> {
        self.accepted += 1;
        None
    }
    fn reject(&mut self) {
        self.rejected += 1;
    }
    fn solve_exactly(&mut self) -> bool {
        self.exact.1 = self.exact.0;
        self.exact.0
    }
    fn set_aside(&mut self) -> bool {
        true
    }
}

/// LM without tolerances, `iterations` steps.
fn plain(iterations: usize) -> SolveOptions {
    SolveOptions { iterations: Some(iterations), function_tolerance: Some(0.0), ..SolveOptions::default() }
}

fn gn(iterations: usize) -> SolveOptions {
    SolveOptions { method: Method::GaussNewton, ..plain(iterations) }
}

#[test]
fn radius_follows_the_gain_ratio() {
    // rho = 1, 0.5, 0.1: divisors max(1/3, 1 - 1) = 1/3, 1 - 0 = 1, 1 + 0.8^3.
    let mut script = Script::new(100.0, &[proposes(10.0, 90.0), proposes(10.0, 85.0), proposes(10.0, 84.0)]);
    let outcome = script.run(&plain(3));
    let radii: Vec<f64> = outcome.iterations.iter().map(|i| i.radius).collect();
    approx::assert_relative_eq!(radii[0], 3e4, max_relative = 1e-12);
    approx::assert_relative_eq!(radii[1], 3e4, max_relative = 1e-12);
    approx::assert_relative_eq!(radii[2], 3e4 / 1.512, max_relative = 1e-12);
    assert!(outcome.iterations.iter().all(|i| i.accepted));
    assert_eq!(outcome.termination, Termination::MaxIterations);
    assert_eq!((outcome.energy_initial, outcome.energy_final), (100.0, 84.0));
}

#[test]
fn radius_is_capped() {
    let options = SolveOptions { max_radius: 2e4, ..plain(1) };
    assert_eq!(Script::new(1.0, &[proposes(0.1, 0.9)]).run(&options).iterations[0].radius, 2e4);
}

#[test]
fn rejections_shrink_faster_and_faster_and_keep_the_linearisation() {
    let uphill = proposes(10.0, 101.0);
    let mut script = Script::new(100.0, &[uphill, uphill, uphill, proposes(10.0, 90.0), uphill]);
    let outcome = script.run(&plain(5));
    let radii: Vec<f64> = outcome.iterations.iter().map(|i| i.radius).collect();
    assert_eq!(radii, [5e3, 1.25e3, 156.25, 468.75, 234.375]);
    assert_eq!(script.radii[3], Some(156.25));
    let accepted: Vec<bool> = outcome.iterations.iter().map(|i| i.accepted).collect();
    assert_eq!(accepted, [false, false, false, true, false]);
    assert_eq!(outcome.iterations[1].energy, 100.0);
    assert_eq!((script.accepted, script.rejected, script.linearised), (1, 4, 2));
}

#[test]
fn the_first_rejection_divides_by_the_decrease_factor() {
    let uphill = proposes(10.0, 101.0);
    let options = SolveOptions { radius_decrease_factor: 10.0, ..plain(4) };
    let outcome = Script::new(100.0, &[uphill, uphill, proposes(10.0, 90.0), uphill]).run(&options);
    let radii: Vec<f64> = outcome.iterations.iter().map(|i| i.radius).collect();
    assert_eq!(radii, [1e3, 50.0, 150.0, 15.0]);
}

#[test]
fn a_step_needs_a_minimal_gain() {
    let outcome = Script::new(100.0, &[proposes(10.0, 99.995), proposes(10.0, 99.98)]).run(&plain(2));
    assert!(!outcome.iterations[0].accepted, "rho = 5e-4");
    assert!(outcome.iterations[1].accepted, "rho = 2e-3");
}

#[test]
fn invalid_steps_shrink_the_radius_to_the_least_one() {
    // 1e4 / 2^(k (k + 1) / 2) < 1e-32 from k = 15 on.
    for bad in [proposes(0.5, f64::NAN), proposes(0.5, f64::INFINITY), proposes(-0.5, 2.0)] {
        let outcome = Script::new(1.0, &[bad]).run(&plain(50));
        assert_eq!((outcome.termination, outcome.iterations.len()), (Termination::InvalidSteps, 15));
        assert_eq!(outcome.energy_final, 1.0);
    }
    // One that is accepted before counts.
    let bad = proposes(0.5, f64::INFINITY);
    let mut script = Script::new(1.0, &[bad, bad, bad, bad, bad, bad, bad, proposes(0.1, 0.9)]);
    let outcome = script.run(&plain(8));
    assert_eq!((outcome.termination, outcome.energy_final), (Termination::MaxIterations, 0.9));
}

#[test]
fn a_model_that_rises_is_no_noise() {
    // The energies are equal, the prediction is far below 0.
    let outcome = Script::new(1.0, &[proposes(-0.5, 1.0)]).run(&plain(1));
    assert_eq!(outcome.termination, Termination::MaxIterations);
    assert!(!outcome.iterations[0].accepted);
    let outcome = Script::new(1.0, &[proposes(-5e-14, 1.0)]).run(&plain(1));
    assert_eq!(outcome.termination, Termination::NoiseFloor);
}

#[test]
fn a_failed_linear_solve_is_an_invalid_step_without_a_trial() {
    let failed = Scripted { usable: false, stop: LinearStop::NotFinite, ..proposes(0.5, 0.1) };
    let outcome = Script::new(1.0, &[failed]).run(&plain(50));
    assert_eq!(outcome.termination, Termination::InvalidSteps);
    assert!(outcome.iterations.iter().all(|i| !i.accepted && i.gain_ratio.is_nan()));
}

#[test]
fn noise_floor_needs_both_changes_to_be_small() {
    let noise = proposes(5e-14, 1.0 - 5e-14);
    assert_eq!(Script::new(1.0, &[noise]).run(&plain(9)).termination, Termination::NoiseFloor);
    // A small prediction with a large change is a bad model, not noise.
    let jump = proposes(5e-14, 1.5);
    assert_eq!(Script::new(1.0, &[jump]).run(&plain(1)).termination, Termination::MaxIterations);
    // In float32 the floor is higher.
    let f32_noise = proposes(5e-7, 1.0 - 5e-7);
    let outcome = Script::new(1.0, &[f32_noise]).run_in(Precision::F32, &plain(9));
    assert_eq!(outcome.termination, Termination::NoiseFloor);
    assert_eq!(outcome.energy_final, 1.0, "below the floor rho is meaningless: x stays");
}

#[test]
fn function_tolerance_ends_on_accepted_steps_only() {
    let options = |f| SolveOptions { function_tolerance: Some(f), ..plain(3) };
    let small = proposes(1e-7, 1.0 - 1e-7);
    assert_eq!(Script::new(1.0, &[small]).run(&options(1e-6)).iterations.len(), 1);
    assert_eq!(Script::new(1.0, &[small]).run(&options(1e-6)).termination, Termination::FunctionTolerance);
    let rejected = proposes(1.0, 1.0 + 1e-7);
    assert_eq!(Script::new(1.0, &[rejected]).run(&options(1e-6)).termination, Termination::MaxIterations);
    assert_eq!(Script::new(1.0, &[small]).run(&options(0.0)).termination, Termination::MaxIterations);
}

#[test]
fn function_tolerance_is_at_least_the_noise_of_the_energy() {
    // |dE| = 5e-14 E at a prediction above the noise: a setting of 1e-15 acts as 1e-13.
    let step = proposes(2e-13, 1.0 - 5e-14);
    let options = SolveOptions { function_tolerance: Some(1e-15), ..plain(3) };
    assert_eq!(Script::new(1.0, &[step]).run(&options).termination, Termination::FunctionTolerance);
}

#[test]
fn short_steps_end_lm() {
    let of = |step_norm: f64| Scripted { step_norm, ..proposes(0.01, 0.9) };
    let run = |steps: &[Scripted], precision, options: &SolveOptions| {
        Script::new(1.0, steps).run_in(precision, options).termination
    };
    let (tolerance, limit) = (Termination::StepTolerance, Termination::MaxIterations);
    let mixed = |steps: &[Scripted]| run(steps, Precision::Mixed, &plain(steps.len()));
    // Beside the longest step and beside |x| = 1; the first step is the longest one.
    assert_eq!(mixed(&[of(1.0), of(0.9e-8)]), tolerance);
    assert_eq!(mixed(&[of(1.0), of(2e-8)]), limit);
    assert_eq!(mixed(&[of(0.9e-8)]), limit);
    assert_eq!(mixed(&[of(1e-6), of(0.9e-8)]), limit, "x may be that large by an offset");
    assert_eq!(mixed(&[of(1e6), of(1e-3)]), limit, "the start may be that far");
    // Below the resolution of x.
    assert_eq!(mixed(&[of(1e-16)]), tolerance);
    assert_eq!(run(&[of(1e-7)], Precision::F32, &plain(1)), tolerance);
    // An option.
    let with = |step_tolerance| SolveOptions { step_tolerance, ..plain(2) };
    assert_eq!(run(&[of(1.0), of(1e-5)], Precision::Mixed, &with(1e-4)), tolerance);
    assert_eq!(run(&[of(1.0), of(1e-20)], Precision::Mixed, &with(0.0)), limit);
}

#[test]
fn steps_to_an_x_of_zero_are_short_once_the_energy_has_vanished() {
    let to = |trial, step_norm| Scripted { step_norm, ..proposes(trial, trial) };
    // |x| = 1e-9.
    let mut script = Script::new(1.0, &[to(0.1, 1.0), to(1e-33, 0.9e-8)]);
    script.x_norm = 1e-9;
    assert_eq!(script.run(&plain(2)).termination, Termination::StepTolerance);
    let mut script = Script::new(1.0, &[to(0.1, 1.0), to(1e-30, 0.9e-8)]);
    script.x_norm = 1e-9;
    assert_eq!(script.run(&plain(2)).termination, Termination::MaxIterations);
}

#[test]
fn small_gradients_end_lm_at_the_start_too() {
    let mut flat = Script::new(1.0, &[proposes(0.1, 0.9)]);
    flat.gradient = 1e-10;
    let outcome = flat.run(&plain(9));
    assert_eq!((outcome.termination, outcome.iterations.len()), (Termination::GradientTolerance, 0));

    // Relative to |r|.
    let mut flat = Script::new(1e8, &[proposes(0.1, 0.9)]);
    flat.gradient = 1e-6;
    assert_eq!(flat.run(&plain(9)).iterations.len(), 0);
    let mut steep = Script::new(1e-8, &[proposes(1e-9, 0.9e-8)]);
    steep.gradient = 1e-10;
    assert_eq!(steep.run(&plain(1)).termination, Termination::MaxIterations);
    let mut steep = Script::new(1e-8, &[proposes(1e-9, 0.9e-8)]);
    steep.gradient = 1e-10;
    let options = SolveOptions { gradient_tolerance: 2e-6, ..plain(9) };
    assert_eq!(steep.run(&options).iterations.len(), 0);

    let falling = Scripted { gradient: 0.9e-3, ..proposes(0.1, 0.9) };
    let options = SolveOptions { gradient_rtol: 1e-3, ..plain(9) };
    let outcome = Script::new(1.0, &[falling]).run(&options);
    assert_eq!((outcome.termination, outcome.iterations.len()), (Termination::GradientTolerance, 1));
    assert_eq!(outcome.iterations[0].gradient_max_norm, 0.9e-3);
}

#[test]
fn a_vanishing_radius_ends_lm() {
    let options = SolveOptions { min_radius: 1e3, ..plain(50) };
    let outcome = Script::new(1.0, &[proposes(0.5, 1.5)]).run(&options);
    assert_eq!(outcome.termination, Termination::MinRadius);
    assert_eq!(outcome.iterations.len(), 3, "1e4, 5e3, 1.25e3, 156");
}

#[test]
fn the_clock_and_the_observer_end_a_solve() {
    let options = SolveOptions { max_time: Some(Duration::ZERO), ..plain(9) };
    let outcome = Script::new(1.0, &[proposes(0.1, 0.9)]).run(&options);
    assert_eq!((outcome.termination, outcome.iterations.len()), (Termination::MaxSeconds, 0));

    let mut seen = Vec::new();
    let mut observer = |i: &Iteration| {
        seen.push(i.iteration);
        if i.iteration == 2 { Control::Abort } else { Control::Continue }
    };
    let mut script = Script::new(1.0, &[proposes(0.1, 0.9), proposes(0.1, 0.8)]);
    let outcome = minimise(&mut script, &plain(9), Precision::Mixed, 1, &mut observer).unwrap();
    assert_eq!((outcome.termination, outcome.energy_final), (Termination::UserAbort, 0.8));
    assert_eq!(seen, [1, 2]);
}

#[test]
fn nothing_free_is_nothing_to_do() {
    let mut script = Script::new(0.0, &[proposes(0.1, 0.9)]);
    let outcome = minimise(&mut script, &plain(9), Precision::Mixed, 0, &mut |_| Control::Continue).unwrap();
    assert_eq!((outcome.termination, outcome.iterations.len()), (Termination::NoFreeUnknown, 0));
    assert_eq!(script.linearised, 0);
}

#[test]
fn a_start_that_is_not_finite_is_an_error() {
    for energy in [f64::INFINITY, f64::NAN] {
        let mut script = Script::new(energy, &[proposes(0.1, 0.9)]);
        assert!(minimise(&mut script, &plain(9), Precision::Mixed, 1, &mut |_| Control::Continue).is_err());
        assert_eq!(script.linearised, 0);
    }
}

#[test]
fn gauss_newton_takes_every_finite_step() {
    let mut script = Script::new(1.0, &[proposes(0.5, 3.0), proposes(0.1, 2.0), proposes(1e-20, 2.0)]);
    let outcome = script.run(&gn(7));
    assert_eq!((outcome.termination, outcome.iterations.len()), (Termination::MaxIterations, 7));
    assert!(outcome.iterations.iter().all(|i| i.accepted && i.radius.is_infinite()));
    assert!(script.radii.iter().all(Option::is_none));
}

#[test]
fn gauss_newton_ends_at_a_zero_gradient_only() {
    let tiny = Scripted { gradient: 1e-30, ..proposes(0.1, 0.9) };
    let zero = Scripted { gradient: 0.0, ..tiny };
    let outcome = Script::new(1.0, &[tiny, tiny, zero]).run(&gn(9));
    assert_eq!((outcome.termination, outcome.iterations.len()), (Termination::GradientTolerance, 3));
}

#[test]
fn gauss_newton_keeps_the_last_good_iterate() {
    let mut script = Script::new(1.0, &[proposes(0.1, 0.9), proposes(0.1, f64::NAN)]);
    let outcome = script.run(&gn(9));
    assert_eq!((outcome.termination, outcome.energy_final), (Termination::Diverged, 0.9));
    assert_eq!((script.accepted, script.rejected), (1, 1));

    let broken = Scripted { usable: false, stop: LinearStop::NotFinite, ..proposes(0.1, 0.9) };
    assert_eq!(Script::new(1.0, &[broken]).run(&gn(9)).termination, Termination::Diverged);
    // A breakdown of a finite system is a zero step, and zero steps are finite.
    let stuck = Scripted { usable: false, stop: LinearStop::Indefinite, ..proposes(0.0, 1.0) };
    assert_eq!(Script::new(1.0, &[stuck]).run(&gn(3)).iterations.len(), 3);
}

/// r(x) and J(x).
type Problem = fn(&DVector<f64>) -> (DVector<f64>, DMatrix<f64>);

/// A dense problem with exact linear solves.
struct Dense {
    watch: Watch,
    problem: Problem,
    x: DVector<f64>,
    step: DVector<f64>,
    /// The largest diag(J^T J) so far.
    largest: DVector<f64>,
    aside: Option<DVector<f64>>,
}

impl Dense {
    fn run(problem: Problem, start: &[f64], options: &SolveOptions) -> (Outcome, DVector<f64>) {
        let x = DVector::from_column_slice(start);
        let mut dense = Dense {
            watch: Watch::default(),
            problem,
            step: x.clone(),
            largest: DVector::zeros(x.len()),
            aside: None,
            x,
        };
        let outcome =
            minimise(&mut dense, options, Precision::F64, start.len(), &mut |_| Control::Continue).unwrap();
        (outcome, dense.x)
    }
}

impl Steps for Dense {
    fn watch(&self) -> &Watch {
        &self.watch
    }
    fn energy_at_start(&mut self) -> Energies {
        total((self.problem)(&self.x).0.norm_squared())
    }
    fn linearise(&mut self, _: Option<f64>) -> Linearisation {
        let (r, j) = (self.problem)(&self.x);
        let (g, norms) = (j.tr_mul(&r), j.column_iter().map(|c| c.norm()));
        self.largest = self.largest.zip_map(&j.tr_mul(&j).diagonal(), f64::max);
        let scaled = g.iter().zip(norms).map(|(g, norm)| if norm > 0.0 { g.abs() / norm } else { 0.0 });
        Linearisation { gradient_max_norm: g.amax(), gradient_scaled: scaled.fold(0.0, f64::max) }
    }
    fn solve_linear(&mut self, radius: Option<f64>) -> LinearResult {
        let (r, j) = (self.problem)(&self.x);
        let mut a = j.tr_mul(&j);
        let diag = a.diagonal();
        if let Some(radius) = radius {
            for (i, largest) in self.largest.iter().enumerate() {
                a[(i, i)] += diag[i].clamp(1e-6 * largest, 1e32 * largest) / radius;
            }
        }
        self.step = a.cholesky().unwrap().solve(&-j.tr_mul(&r));
        let js = &j * &self.step;
        LinearResult {
            iterations: 1,
            stop: LinearStop::Tolerance,
            residual: 0.0,
            usable: true,
            predicted: -js.dot(&(2.0 * r + &js)),
            step_norm: self.step.norm(),
            x_norm: self.x.norm(),
        }
    }
    fn trial_energy(&mut self) -> Energies {
        total((self.problem)(&(&self.x + &self.step)).0.norm_squared())
    }
    fn accept(&mut self) -> Option<Energies> {
        self.x += &self.step;
        None
    }
    fn reject(&mut self) {}
    fn set_aside(&mut self) -> bool {
        if let Some(aside) = self.aside.replace(self.x.clone()) {
            self.x = aside;
            self.largest.fill(0.0);
        }
        true
    }
}

fn rosenbrock(x: &DVector<f64>) -> (DVector<f64>, DMatrix<f64>) {
    let r = DVector::from_column_slice(&[10.0 * (x[1] - x[0] * x[0]), 1.0 - x[0]]);
    (r, DMatrix::from_row_slice(2, 2, &[-20.0 * x[0], 10.0, -1.0, 0.0]))
}

/// Powell's singular function: minimum 0 at 0, where J has rank 2.
fn powell(x: &DVector<f64>) -> (DVector<f64>, DMatrix<f64>) {
    let (s5, s10) = (5.0_f64.sqrt(), 10.0_f64.sqrt());
    let (b, c) = (x[1] - 2.0 * x[2], x[0] - x[3]);
    let r = DVector::from_column_slice(&[x[0] + 10.0 * x[1], s5 * (x[2] - x[3]), b * b, s10 * c * c]);
    #[rustfmt::skip]
    let j = DMatrix::from_row_slice(4, 4, &[
        1.0, 10.0, 0.0, 0.0,
        0.0, 0.0, s5, -s5,
        0.0, 2.0 * b, -4.0 * b, 0.0,
        2.0 * s10 * c, 0.0, 0.0, -2.0 * s10 * c,
    ]);
    (r, j)
}

/// An overdetermined linear problem: E = 1.5 at its minimum (1.5, 0.5).
fn line(x: &DVector<f64>) -> (DVector<f64>, DMatrix<f64>) {
    let j = DMatrix::from_row_slice(4, 2, &[1.0, 0.0, 1.0, 1.0, 1.0, 2.0, 1.0, 3.0]);
    let y = DVector::from_column_slice(&[1.0, 3.0, 2.0, 3.0]);
    (&j * x - y, j)
}

/// By which tolerance is a matter of the last bits where E vanishes.
fn converged(termination: Termination) -> bool {
    use Termination::{GradientTolerance, NoiseFloor, StepTolerance};
    matches!(termination, GradientTolerance | NoiseFloor | StepTolerance)
}

#[test]
fn lm_finds_the_minimum_of_rosenbrock() {
    let (outcome, x) = Dense::run(rosenbrock, &[-1.2, 1.0], &plain(200));
    assert!(converged(outcome.termination), "{:?}", outcome.termination);
    assert!(outcome.iterations.iter().any(|i| !i.accepted), "the valley turns some steps down");
    assert!((x - DVector::from_element(2, 1.0)).amax() < 1e-9);
    assert!(outcome.energy_final < 1e-20);
}

#[test]
fn lm_finds_the_singular_minimum_of_powell() {
    let (outcome, x) = Dense::run(powell, &[3.0, -1.0, 0.0, 1.0], &plain(200));
    assert!(converged(outcome.termination), "{:?}", outcome.termination);
    assert!(x.amax() < 1e-3 && outcome.energy_final < 1e-12, "{x} {}", outcome.energy_final);
}

#[test]
fn accepted_energies_fall_strictly() {
    for (problem, start) in [(rosenbrock as Problem, vec![-1.2, 1.0]), (powell, vec![3.0, -1.0, 0.0, 1.0])] {
        let (outcome, _) = Dense::run(problem, &start, &plain(200));
        let mut energy = outcome.energy_initial;
        for i in &outcome.iterations {
            assert!(if i.accepted { i.energy < energy } else { i.energy == energy });
            energy = i.energy;
        }
    }
}

#[test]
fn a_linear_energy_has_gain_ratio_one_at_any_radius() {
    for radius in [1e-3, 1.0, 1e4] {
        let options = SolveOptions { radius: Some(radius), ..plain(30) };
        let (outcome, x) = Dense::run(line, &[50.0, -20.0], &options);
        let mut energy = outcome.energy_initial;
        for i in &outcome.iterations {
            // Below that the difference of two energies has lost the digits.
            if i.accepted && energy - i.energy >= 1e-8 * energy {
                assert!((i.gain_ratio - 1.0).abs() < 1e-6, "radius {radius}: {i:?}");
            }
            energy = i.energy;
        }
        assert!((x - DVector::from_column_slice(&[1.5, 0.5])).amax() < 1e-6);
    }
}

#[test]
fn gauss_newton_solves_a_linear_problem_in_one_step() {
    let (outcome, x) = Dense::run(line, &[50.0, -20.0], &gn(1));
    assert!((x - DVector::from_column_slice(&[1.5, 0.5])).amax() < 1e-12);
    approx::assert_relative_eq!(outcome.energy_final, 1.5, max_relative = 1e-12);
}

/// Steps of Gauss-Newton reach the minimum of a linear energy at once; with a radius of 1e-9 none gets anywhere.
#[test]
fn a_second_descent_begins_where_the_first_has_come_to_its_limit() {
    let start = [50.0, -20.0];
    let options = SolveOptions {
        radius: Some(1e-9),
        second: Some(SecondDescent { radius: 1e16, exact: false }),
        ..plain(3)
    };
    let (outcome, x) = Dense::run(line, &start, &options);
    assert!(converged(outcome.termination), "{:?}", outcome.termination);
    assert!((x - DVector::from_column_slice(&[1.5, 0.5])).amax() < 1e-9);
    let energies: Vec<f64> = outcome.iterations.iter().map(|i| i.energy).collect();
    assert!(energies[2] > 100.0 && energies[3] < 1.5 + 1e-9, "{energies:?}");
    let (outcome, _) = Dense::run(line, &start, &SolveOptions { second: None, ..options.clone() });
    assert_eq!((outcome.termination, outcome.iterations.len()), (Termination::MaxIterations, 3));
    // One that converges is not followed by another.
    let (outcome, _) = Dense::run(line, &start, &SolveOptions { radius: Some(1e16), ..options });
    assert!(converged(outcome.termination) && outcome.iterations.len() <= 3, "{:?}", outcome.termination);
}

#[test]
fn a_second_descent_counts_only_if_it_ends_lower() {
    let start = [-1.2, 1.0];
    let once = SolveOptions { radius: Some(1e4), ..plain(4) };
    let (first, first_x) = Dense::run(rosenbrock, &start, &once);
    let (outcome, x) = Dense::run(
        rosenbrock,
        &start,
        &SolveOptions { second: Some(SecondDescent { radius: 1e-9, exact: false }), ..once },
    );
    assert_eq!((outcome.termination, outcome.iterations.len()), (Termination::MaxIterations, 8));
    assert!(outcome.iterations[7].energy > outcome.energy_final);
    assert_eq!((outcome.energy_final, x), (first.energy_final, first_x));
}

#[test]
fn an_observer_who_ends_a_second_descent_gets_the_lower_end() {
    let mut dense = Dense {
        watch: Watch::default(),
        problem: rosenbrock,
        x: DVector::from_column_slice(&[-1.2, 1.0]),
        step: DVector::zeros(2),
        largest: DVector::zeros(2),
        aside: None,
    };
    let options = SolveOptions {
        radius: Some(1e4),
        second: Some(SecondDescent { radius: 1e-9, exact: false }),
        ..plain(4)
    };
    let mut abort = |step: &Iteration| if step.iteration == 6 { Control::Abort } else { Control::Continue };
    let outcome = minimise(&mut dense, &options, Precision::F64, 2, &mut abort).unwrap();
    assert_eq!((outcome.iterations.len(), outcome.energy_final), (6, outcome.iterations[3].energy));
    assert_eq!(rosenbrock(&dense.x).0.norm_squared(), outcome.energy_final);
}

#[test]
fn exact_steps_follow_a_descent_that_was_under_way() {
    let options = SolveOptions { second: Some(SecondDescent { radius: 7.0, exact: true }), ..plain(11) };
    let run = |last: &[f64], exact: bool| {
        let steps: Vec<Scripted> =
            std::iter::repeat_n(&0.9, 9).chain(last).map(|&trial| proposes(1e-4, trial)).collect();
        let mut script = Script::new(1.0, &steps);
        script.exact.0 = exact;
        let outcome = script.run(&options);
        (outcome.second_descent, outcome.iterations.len(), script)
    };
    // By more than a thousandth, and rejected.
    for last in [[0.89, 0.88], [0.87, 0.9]] {
        let (second, steps, script) = run(&last, true);
        assert_eq!((second, steps, script.exact.1), (Some(12), 22, true));
        assert_eq!(script.radii[11], Some(7.0));
        assert_eq!(run(&last, false).1, 11, "not to be had");
    }
    let (second, steps, script) = run(&[0.8999, 0.8998], true);
    assert_eq!((second, steps, script.exact.1), (None, 11, false));
}
