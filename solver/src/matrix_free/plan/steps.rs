//! The steps of the outer loop on generated code: see `outer::lm::Steps`.

use crate::error::SolveError;
use crate::matrix_free::params::Number;
use crate::matrix_free::plan::Plan;
use crate::matrix_free::preconditioner::Preconditioner;
use crate::matrix_free::scalars::{ModelScalar, PcgScalar, StartProduct, StartScalar};
use crate::matrix_free::stages::Phase;
use crate::matrix_free::vectors::What;
use crate::outer::auto::{Auto, Errors, Solved, Trial};
use crate::outer::course::{Course, End, Reached};
use crate::outer::forcing::{Forcing, Range};
use crate::outer::lm::{Energies, LinearResult, Linearisation, Steps, Used};
use crate::problem::bounds::HALVINGS;
use crate::problem::cancel::Watch;
use crate::problem::options::{self, SolveOptions};
use crate::problem::report::LinearStop;
use std::sync::Arc;
use std::time::Instant;
use sumsq_codegen::runtime::Buffer;

/// Numbers of the linear system that the damping pipeline finds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// |b|^2.
    pub bb: f64,
    /// r0.z0.
    pub rz: f64,
    /// max|g| over free scalars.
    pub gradient_max_norm: f64,
    /// max|g_i| / sqrt(diag_i) over them.
    pub gradient_scaled: f64,
    /// Free scalars whose column of J is zero.
    pub unconstrained: f64,
}

/// The state of one solve from a plan's x, apart from the plan itself. An engine failure is kept and ends the solve: from then on every
/// number is NaN.
pub struct Run {
    watch: Watch,
    options: SolveOptions,
    linear_limit: usize,
    /// eta of the preconditioners that have such a rule.
    forcing: Forcing,
    /// Linear systems are solved nearly exactly.
    exact: bool,
    /// Per space, the largest entries that diag(J^T J) has had for every component; empty before the first linearisation.
    largest: Vec<Vec<f64>>,
    /// The preconditioners of the plan.
    kinds: Vec<Arc<dyn Preconditioner>>,
    /// The choice between them, if that is left open: the first one, or a second one with levels.
    auto: Option<Auto>,
    /// zeta of the linear system.
    zeta: f64,
    /// The x that is set aside, if any is: a list per unknown.
    aside: Option<Vec<Vec<f64>>>,
    /// The number of the preconditioner in use.
    kind: u8,
    /// The preconditioner whose stages have run since the last linearisation, and 1/R when they did.
    prepared: Option<(u8, f64)>,
    /// The trial point of d and its energy are computed already.
    tried: bool,
    /// A step follows the next linearisation, unless g ends the solve there.
    expects_step: bool,
    /// PCG has run on the present D already: whether it came to its end.
    solved: Option<bool>,
    /// Radius and preconditioner that D and M^-1 were computed for since the last linearisation.
    damped_for: Option<(Option<f64>, u8)>,
    /// The first engine failure.
    pub failure: Option<SolveError>,
    /// Numbers of the current linear system.
    pub start: Start,
    /// Residual instances that count.
    pub residuals: usize,
    /// Wall-clock seconds for D and the set-up of preconditioners.
    pub setup_seconds: f64,
    /// Of these, those of all linear solves but the last.
    earlier_setup_seconds: f64,
    /// Wall-clock seconds for code of other preconditioners.
    pub growth_seconds: f64,
    /// The preconditioner of the last linear solve.
    used: Used,
    /// The values of eta with it, where PCG went by that.
    range: Option<Range>,
}

impl Run {
    /// A solve from a plan's x with its preconditioners; `linear_limit` bounds PCG iterations per step.
    pub fn new(options: SolveOptions, linear_limit: usize, kinds: &[Arc<dyn Preconditioner>]) -> Run {
        let start = Start::default();
        Run {
            watch: Watch::new(options.cancel.clone(), options.max_time),
            forcing: Forcing::new(&options),
            zeta: options.forcing,
            options,
            exact: false,
            linear_limit,
            largest: vec![],
            kinds: kinds.to_vec(),
            auto: None,
            aside: None,
            kind: 0,
            prepared: None,
            tried: false,
            expects_step: false,
            solved: None,
            damped_for: None,
            failure: None,
            start,
            residuals: 0,
            setup_seconds: 0.0,
            earlier_setup_seconds: 0.0,
            growth_seconds: 0.0,
            used: Used::default(),
            range: None,
        }
    }

    /// Leaves the choice of the preconditioner open.
    pub fn choosing(self, auto: Option<Auto>) -> Run {
        Run { auto, ..self }
    }

    /// Tells whether g is finite where it was linearised last, in the precision of PCG and beside the scales of D.
    pub fn gradient_is_finite(&self) -> bool {
        self.start.bb.is_finite() && self.start.gradient_max_norm.is_finite()
    }

    /// The name of the preconditioner: of the last linear solve where that is left open.
    pub fn preconditioner(&self) -> &'static str {
        match &self.auto {
            Some(_) if !self.used.preconditioner.is_empty() => self.used.preconditioner,
            _ => self.kinds[usize::from(self.kind)].name(),
        }
    }

    /// Notes what a linear solve that begins uses.
    fn note(&mut self) {
        let kind = &self.kinds[usize::from(self.kind)];
        self.range = kind.eta().filter(|_| self.options.linear_tolerance.is_none());
        let bound = self.range.map(|range| self.forcing.bound(range, &self.options));
        self.used = Used {
            preconditioner: kind.name(),
            setup_seconds: self.setup_seconds - self.earlier_setup_seconds,
            eta: bound.map(f64::sqrt),
        };
        self.earlier_setup_seconds = self.setup_seconds;
    }

    /// Goes on with another preconditioner, one of the plan's, from the next linear solve on.
    pub fn change_to(&mut self, kind: u8) {
        self.kind = kind;
    }

    /// The solve on its plan, which must be the same in every call, or what [`Grow`] has put in its place.
    pub fn on<'a>(&'a mut self, plan: &'a mut Plan) -> OnPlan<'a> {
        OnPlan { run: self, plan, growth: None }
    }

    /// As [`Run::on`], where the plan may get a preconditioner that it has not.
    pub fn growing_on<'a>(&'a mut self, plan: &'a mut Plan, growth: Option<&'a mut dyn Grow>) -> OnPlan<'a> {
        OnPlan { run: self, plan, growth }
    }
}

/// Whoever can make a plan with a second preconditioner.
pub trait Grow {
    /// Puts such a plan in the place of another, at the same x. `None` where it cannot be had, for want of memory, say.
    ///
    /// # Errors
    /// A failure of the engine.
    fn grow(&mut self, second: options::Preconditioner, plan: &mut Plan)
    -> Result<Option<Grown>, SolveError>;
}

/// A plan with a second preconditioner, as it came about.
pub struct Grown {
    /// Its preconditioners.
    pub kinds: Vec<Arc<dyn Preconditioner>>,
    /// Wall-clock seconds that its code took to compile; 0 where it had been there.
    pub compile_seconds: f64,
}

/// The number of the preconditioner with levels, where a plan has one beside its own.
const WITH_LEVELS: u8 = 1;

/// The end of PCG with the cheap kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leg {
    /// Its own.
    Ended,
    /// The one that was set: it may go on.
    Open,
}

/// The factor by which zeta shrinks at least, where it does.
const TIGHTER: f64 = 0.8;

/// A solve together with its plan, for as long as a call takes.
pub struct OnPlan<'a> {
    run: &'a mut Run,
    plan: &'a mut Plan,
    growth: Option<&'a mut dyn Grow>,
}

impl OnPlan<'_> {
    fn run(&mut self, phase: Phase) -> bool {
        if self.run.failure.is_none() {
            self.run.failure = self.plan.run(phase).err();
        }
        self.run.failure.is_none()
    }

    /// As [`OnPlan::run`], without waiting for what it does: the host reads nothing of it.
    fn start(&mut self, phase: Phase) -> bool {
        if self.run.failure.is_none() {
            self.run.failure = self.plan.start(phase).err();
        }
        self.run.failure.is_none()
    }

    fn energies(&mut self, phase: Phase) -> Energies {
        let tried = std::mem::take(&mut self.run.tried) && phase == Phase::TrialCost;
        if !tried && !self.run(phase) {
            return Energies { total: f64::NAN, by_group: vec![] };
        }
        let (energies, residuals) = self.plan.energies();
        self.run.residuals = residuals;
        energies
    }

    fn set(&mut self, number: Number, value: f64) {
        if self.run.failure.is_none() {
            self.run.failure = self.plan.set_number(number, value).err();
        }
    }

    /// The bounds of what D is made of, relative to the largest entries of diag(J^T J) so far.
    fn scale(&mut self) -> bool {
        let first = self.run.largest.is_empty();
        let running = self.run.options.running_scales();
        let SolveOptions { min_lm_diagonal: min, max_lm_diagonal: max, .. } = self.run.options;
        self.set(Number::LeastDiagonal, min);
        self.set(Number::MostDiagonal, max);
        let k = self.plan.k.clone();
        for (n, space) in k.spaces.iter().enumerate() {
            for c in 0..space.components {
                let before = self.run.largest.get(n).map_or(0.0, |largest| largest[c]);
                self.set(Number::LargestBefore(space.id, c as u16), before);
            }
        }
        self.set(Number::Running, f64::from(u8::from(running && !first)));
        let done = self.start(Phase::Scales);
        self.set(Number::Running, f64::from(u8::from(running)));
        done
    }

    /// Brings to the host what it reads of all that was started: where that is on a GPU, a wait.
    fn fetch(&mut self) -> bool {
        if self.run.failure.is_none() {
            self.run.failure = self.plan.fetch_results().err();
        }
        if self.run.failure.is_some() {
            return false;
        }
        let start = |s: StartScalar| self.plan.scalar(s);
        self.run.start = Start {
            bb: start(StartScalar::Bb),
            rz: match self.plan.k.follows_damping[usize::from(self.run.kind)] {
                false => start(StartScalar::Rz),
                true => self.plan.scalar(StartProduct),
            },
            gradient_max_norm: start(StartScalar::GradientMax),
            gradient_scaled: start(StartScalar::ScaledGradient),
            unconstrained: start(StartScalar::Unconstrained),
        };
        let spaces = self.plan.k.spaces.iter();
        self.run.largest = spaces.map(|s| self.plan.tuple(What::Largest.of(s.id))).collect();
        true
    }

    /// D, M^-1 and b for a radius; the host has no results yet.
    fn damp(&mut self, radius: Option<f64>) -> bool {
        self.damp_at(radius, None)
    }

    /// As [`OnPlan::damp`], for d and r as they are `given` in place of 0 and b.
    fn damp_at(&mut self, radius: Option<f64>, given: Option<Vec<Buffer>>) -> bool {
        let (kind, started) = (self.run.kind, Instant::now());
        let inv_radius = radius.map_or(0.0, |r| 1.0 / r);
        self.set(Number::InvRadius, inv_radius);
        let follows_damping = self.plan.k.follows_damping[usize::from(kind)];
        let done = match follows_damping {
            false => self.start(Phase::Damping(kind)),
            true => {
                self.start(Phase::Damping(kind))
                    && self.prepare(inv_radius)
                    && given.is_none_or(|given| self.put_d_and_r(given))
                    && self.start(Phase::Start(kind))
            }
        };
        self.run.setup_seconds += started.elapsed().as_secs_f64();
        self.run.solved = None;
        self.run.damped_for = done.then_some((radius, kind));
        done
    }

    fn put_d_and_r(&mut self, to: Vec<Buffer>) -> bool {
        if let Err(e) = self.plan.put_d_and_r(to) {
            self.run.failure.get_or_insert(e);
        }
        self.run.failure.is_none()
    }

    /// Runs the stages of M per linearisation, unless they have run, and says what has become of D since.
    fn prepare(&mut self, inv_radius: f64) -> bool {
        let kind = self.run.kind;
        let prepared = self.run.prepared.filter(|(prepared, _)| *prepared == kind);
        if prepared.is_none() && !self.start(Phase::Prepare(kind)) {
            return false;
        }
        let then = prepared.map_or(inv_radius, |(_, then)| then);
        self.run.prepared = Some((kind, then));
        // Gauss-Newton has no D.
        self.set(Number::DampingScale, if then > 0.0 { inv_radius / then } else { 1.0 });
        true
    }

    /// Parameters of the stop rules; a rule that is off gets a bound that nothing meets.
    fn set_rules(&mut self, limit: usize) -> Result<(), SolveError> {
        let tolerance = self.run.options.linear_tolerance;
        self.plan.set_number(Number::Tolerance, tolerance.map_or(-1.0, |tau| tau * tau))?;
        let zeta = if tolerance.is_none() { self.run.zeta } else { -f64::MAX };
        self.plan.set_number(Number::Zeta, zeta)?;
        let range = self.run.kinds[usize::from(self.run.kind)].eta();
        let eta = range.map_or(-1.0, |range| self.run.forcing.bound(range, &self.run.options));
        self.plan.set_number(Number::Eta, eta)?;
        self.plan.set_number(Number::Limit, limit as f64)
    }

    /// The trial point and what the model says of it, see [`crate::matrix_free::pipelines::trial`].
    fn trial(&mut self, descent: f64) -> [f64; 3] {
        self.run.tried = false;
        self.set(Number::Descent, descent);
        self.run(Phase::Trial);
        self.model()
    }

    /// The model as the last trial found it.
    fn model(&self) -> [f64; 3] {
        let ok = self.run.failure.is_none();
        ModelScalar::ALL.map(|s| if ok { self.plan.scalar(s) } else { f64::NAN })
    }

    /// Runs PCG to its end from d = 0; returns whether it came there. A GPU is asked for the trial point and its energy at once, and for more of
    /// PCG and both again where it has made as many iterations as it makes unseen: the host waits for all of that together.
    fn run_pcg(&mut self) -> Result<bool, SolveError> {
        let phase = Phase::Pcg(self.run.kind);
        self.run.tried = false;
        self.plan.clear_direction();
        if !self.is_on_gpu() {
            return self.legs();
        }
        self.set_rules(self.run.linear_limit)?;
        self.plan.set_number(Number::Descent, 0.0)?;
        loop {
            // Without iterations d is 0.
            if self.run.linear_limit > 0 && !self.plan.start_loop(phase, &self.run.watch)? {
                return Ok(false);
            }
            self.plan.start(Phase::Trial)?;
            self.plan.start(Phase::TrialCost)?;
            if !self.fetch() {
                return Ok(false);
            }
            if self.run.linear_limit == 0 || self.linear_stop().is_some() {
                self.run.tried = true;
                return Ok(true);
            }
        }
    }

    /// PCG from where it stands to its end: with one preconditioner, or, where the choice is open, with the first for a while and then with
    /// another. Returns whether it came to its end.
    fn legs(&mut self) -> Result<bool, SolveError> {
        let limit = self.run.linear_limit;
        let Some(mut auto) = self.run.auto.take() else {
            return self.iterate(limit);
        };
        let radius = self.run.damped_for.and_then(|(radius, _)| radius);
        let done = self.chosen_legs(radius, &mut auto);
        let first = auto.first().filter(|&kind| self.has(kind.name()));
        self.run.kind = if first.is_some() { WITH_LEVELS } else { 0 };
        self.run.auto = Some(auto);
        done
    }

    fn chosen_legs(&mut self, radius: Option<f64>, auto: &mut Auto) -> Result<bool, SolveError> {
        let limit = self.run.linear_limit;
        if self.run.kind == WITH_LEVELS {
            let done = self.iterate(auto.limit(0, limit))?;
            auto.solved(Solved::Levels(self.reached().iterations));
            return Ok(done);
        }
        let mut course = Course::default();
        let Some(end) = self.cheap_leg(auto, &mut course)? else { return Ok(false) };
        let switched = self.reached();
        let next = auto.next().filter(|_| end == Leg::Open && switched.iterations < limit);
        let (Some(next), Some(measured)) = (next, course.before()) else {
            auto.solved(self.cheap());
            return Ok(true);
        };
        if self.go_on(radius, next)? {
            let done = self.run.failure.is_none() && self.iterate(auto.limit(switched.iterations, limit))?;
            let early = auto.patience(limit).is_none_or(|patience| switched.iterations < patience);
            auto.solved(Solved::Both(Trial { early, ..self.tried(measured, switched) }));
            return Ok(done);
        }
        auto.give_up();
        let done = self.iterate(limit)?;
        auto.solved(self.cheap());
        Ok(done)
    }

    /// PCG with the cheap kind, to its end or to where levels take over; `None` if it was interrupted.
    fn cheap_leg(&mut self, auto: &Auto, course: &mut Course) -> Result<Option<Leg>, SolveError> {
        let limit = self.run.linear_limit;
        let patience = auto.patience(limit);
        let most = patience.unwrap_or(limit);
        self.run.zeta = self.run.options.forcing;
        loop {
            let to = if auto.next().is_some() { course.next(most) } else { limit };
            if !self.iterate(to)? {
                return Ok(None);
            }
            let k = self.reached().iterations;
            course.pass(self.reached());
            // More iterations are for levels to come.
            let goes_on = self.is_at_limit() || patience.is_some_and(|most| k < most) && self.tightens();
            if !goes_on {
                return Ok(Some(Leg::Ended));
            }
            let end = match self.run.options.linear_tolerance {
                Some(tau) => End::Residual(tau * tau * self.run.start.bb),
                None => End::Model(self.run.zeta),
            };
            let left = course.left(end).map(|left| left.min((limit - k) as f64));
            let pays = left.is_some_and(|left| auto.pays_at_once(k, left));
            if k == most || k == limit || pays {
                return Ok(Some(Leg::Open));
            }
        }
    }

    /// Tells whether PCG goes on where the model rule has ended it, by a tighter zeta.
    fn tightens(&mut self) -> bool {
        let zeta = self.run.forcing.zeta(self.run.options.forcing, self.reached().q);
        let goes_on = self.linear_stop() == Some(LinearStop::Model) && zeta < TIGHTER * self.run.zeta;
        if goes_on {
            self.run.zeta = zeta;
        }
        goes_on
    }

    /// A linear system that the cheap kind has solved, or has left unsolved at the limit.
    fn cheap(&self) -> Solved {
        let iterations = self.reached().iterations;
        if self.is_at_limit() { Solved::Unsolved(iterations) } else { Solved::Cheap(iterations) }
    }

    fn is_at_limit(&self) -> bool {
        self.linear_stop() == Some(LinearStop::Limit)
    }

    /// PCG from where it stands to its end, or to this limit, behind which it may go on.
    fn iterate(&mut self, limit: usize) -> Result<bool, SolveError> {
        self.set_rules(limit)?;
        let value = |s: PcgScalar| if s == PcgScalar::Stop { 0.0 } else { self.plan.scalar(s) };
        self.plan.set_scalars(&PcgScalar::ALL.map(|s| (s, value(s))))?;
        self.plan.run_until(Phase::Pcg(self.run.kind), &self.run.watch)
    }

    /// The point that PCG has come to.
    fn reached(&self) -> Reached {
        let scalar = |s: PcgScalar| self.plan.scalar(s);
        Reached {
            iterations: scalar(PcgScalar::K) as usize,
            q: scalar(PcgScalar::Q),
            rr: scalar(PcgScalar::Rr),
        }
    }

    /// A linear system in which PCG has come to its end with levels.
    fn tried(&self, measured: Reached, switched: Reached) -> Trial {
        let end = self.reached();
        let by_model = self.run.options.linear_tolerance.is_none();
        // With M near A^-1, r.z is the square of the error in the norm of A: twice what Q lacks.
        let rest = self.plan.scalar(PcgScalar::Rz) / 2.0;
        let error = |of: &Reached| if by_model { end.q + rest - of.q } else { of.rr };
        Trial {
            measured: measured.iterations,
            cheap: switched.iterations,
            levels: end.iterations.saturating_sub(switched.iterations),
            errors: Errors {
                start: if by_model { end.q + rest } else { self.run.start.bb },
                measured: error(&measured),
                switched: error(&switched),
                end: error(&end),
            },
            ended: !self.is_at_limit(),
            early: false,
            zeta: by_model.then_some(self.run.zeta),
        }
    }

    /// Tells whether the plan has a second preconditioner of this name.
    fn has(&self, name: &str) -> bool {
        self.run.kinds.get(usize::from(WITH_LEVELS)).is_some_and(|of| of.name() == name)
    }

    /// Goes on with another preconditioner from the d and r that PCG has come to. Returns false where it cannot be had; nothing has changed then.
    fn go_on(&mut self, radius: Option<f64>, next: options::Preconditioner) -> Result<bool, SolveError> {
        let scalar = |s: PcgScalar| self.plan.scalar(s);
        let (q, k, rr) = (scalar(PcgScalar::Q), scalar(PcgScalar::K), scalar(PcgScalar::Rr));
        let there = self.plan.take_d_and_r()?;
        if !self.has(next.name()) {
            let growth = self.growth.as_mut();
            let grown = growth.map_or(Ok(None), |growth| growth.grow(next, self.plan))?;
            let Some(grown) = grown else {
                self.plan.put_d_and_r(there)?;
                return Ok(false);
            };
            self.run.kinds = grown.kinds;
            self.run.growth_seconds += grown.compile_seconds;
            self.run.prepared = None;
            if !(self.start(Phase::Linearise) && self.scale()) {
                return Ok(true);
            }
        }
        self.run.kind = WITH_LEVELS;
        if !(self.damp_at(radius, Some(there)) && self.fetch()) {
            return Ok(true);
        }
        self.run.note();
        let rz = self.run.start.rz;
        // With M near A^-1, r.z is the square of the error in the norm of A, and that was larger by 2 Q at d = 0.
        self.plan.set_scalars(&[(StartProduct, rz + 2.0 * q)])?;
        self.plan.clear_direction();
        let state = [(PcgScalar::Rz, rz), (PcgScalar::Rr, rr), (PcgScalar::Q, q), (PcgScalar::K, k)];
        self.plan.set_scalars(&state)?;
        Ok(true)
    }

    /// Runs PCG, and keeps whether it came to its end.
    fn solve(&mut self) {
        let solved = self.run_pcg();
        self.run.solved = Some(matches!(solved, Ok(true)));
        if let Err(e) = solved {
            self.run.failure.get_or_insert(e);
        }
    }

    fn is_on_gpu(&self) -> bool {
        self.plan.k.target.gpu.is_some()
    }

    /// The reason for the end of PCG; `None` while it runs.
    fn linear_stop(&self) -> Option<LinearStop> {
        LinearStop::of_code(self.plan.scalar(PcgScalar::Stop))
    }

    /// The outcome of PCG where it does not begin: b is 0, holds something that is no number, or no iteration is wanted.
    fn without_pcg(&self) -> Option<(usize, LinearStop, f64)> {
        let Start { bb, rz, .. } = self.run.start;
        if !rz.is_finite() || !bb.is_finite() {
            return Some((0, LinearStop::NotFinite, f64::NAN));
        }
        let nothing = rz <= 0.0 || self.run.linear_limit == 0;
        let stop = if bb == 0.0 { LinearStop::Tolerance } else { LinearStop::Limit };
        nothing.then_some((0, stop, if bb == 0.0 { 0.0 } else { 1.0 }))
    }

    /// The projected gradient step P(x + t b) - x with t = |b|^2 / |J b|^2, halved until the model falls.
    fn descend(&mut self, radius: Option<f64>) -> [f64; 3] {
        // PCG has spent b.
        let _ = self.damp(radius) && self.fetch();
        let bb = self.run.start.bb;
        // The model m(s) = 2 g.s + |J s|^2 gives |J b|^2 = (m(2b) - 2 m(b)) / 2: the linear parts cancel to the last bit.
        let curvature = 0.5 * self.trial(-2.0)[ModelScalar::Model as usize]
            - self.trial(-1.0)[ModelScalar::Model as usize];
        let mut t = bb / curvature.max(f64::EPSILON * bb);
        let mut model = self.trial(t);
        for _ in 0..HALVINGS {
            if -model[ModelScalar::Model as usize] > 0.0 {
                break;
            }
            t *= 0.5;
            model = self.trial(t);
        }
        model
    }

    /// PCG to its end, unless it came there already: iterations, why it stopped, |r|/|b|.
    fn pcg(&mut self) -> (usize, LinearStop, f64) {
        // Of a GPU the host sees the start together with the end.
        if !self.is_on_gpu()
            && let Some(outcome) = self.without_pcg()
        {
            self.run.tried = false;
            return outcome;
        }
        if self.run.solved.is_none() {
            self.solve();
        }
        if self.run.solved.take() != Some(true) || self.run.failure.is_some() {
            return (0, LinearStop::Interrupted, f64::NAN);
        }
        if self.is_on_gpu()
            && let Some(outcome) = self.without_pcg()
        {
            return outcome;
        }
        let residual = (self.plan.scalar(PcgScalar::Rr) / self.run.start.bb).sqrt();
        let stop = self.linear_stop().unwrap_or(LinearStop::Limit);
        (self.plan.scalar(PcgScalar::K) as usize, stop, residual)
    }
}

impl Steps for OnPlan<'_> {
    fn watch(&self) -> &Watch {
        &self.run.watch
    }

    fn energy_at_start(&mut self) -> Energies {
        self.run.tried = false;
        let energies = self.energies(Phase::Cost);
        self.run.forcing.at_x(energies.total);
        energies
    }

    fn expect_step(&mut self) {
        self.run.expects_step = true;
    }

    fn linearise(&mut self, radius: Option<f64>) -> Linearisation {
        let expects_step = std::mem::take(&mut self.run.expects_step);
        let mut ok = self.start(Phase::Linearise);
        self.run.prepared = None;
        // The norms come with D.
        ok = ok && self.scale() && self.damp(radius);
        if ok && expects_step && self.is_on_gpu() {
            self.solve();
            ok = self.run.failure.is_none();
        } else {
            ok = ok && self.fetch();
        }
        if !ok {
            return Linearisation { gradient_max_norm: f64::NAN, gradient_scaled: f64::NAN };
        }
        let Start { gradient_max_norm, gradient_scaled, .. } = self.run.start;
        Linearisation { gradient_max_norm, gradient_scaled }
    }

    fn solve_linear(&mut self, radius: Option<f64>) -> LinearResult {
        let damped = self.run.damped_for == Some((radius, self.run.kind));
        let ok = damped || self.damp(radius) && (self.is_on_gpu() || self.fetch());
        self.run.note();
        let (iterations, stop, residual) = if ok { self.pcg() } else { (0, LinearStop::NotFinite, f64::NAN) };
        self.run.damped_for = None; // r is spent
        if stop == LinearStop::Interrupted || self.run.failure.is_some() {
            return LinearResult {
                iterations,
                stop: LinearStop::Interrupted,
                residual,
                usable: false,
                predicted: f64::NAN,
                step_norm: f64::NAN,
                x_norm: f64::NAN,
            };
        }
        let breakdown = matches!(stop, LinearStop::Indefinite | LinearStop::NotFinite);
        let usable = !(breakdown && iterations <= 1);
        let mut model = if self.run.tried { self.model() } else { self.trial(0.0) };
        if self.plan.k.spaces.iter().any(|s| s.bounded)
            && usable
            && -model[ModelScalar::Model as usize] <= 0.0
        {
            model = self.descend(radius);
        }
        let (predicted, step_norm, x_norm) = (
            -model[ModelScalar::Model as usize],
            model[ModelScalar::Step as usize].sqrt(),
            model[ModelScalar::X as usize].sqrt(),
        );
        self.run.forcing.proposed(predicted, self.run.range);
        LinearResult { iterations, stop, residual, usable, predicted, step_norm, x_norm }
    }

    fn used(&self) -> Used {
        self.run.used
    }

    fn trial_energy(&mut self) -> Energies {
        let energies = self.energies(Phase::TrialCost);
        self.run.forcing.tried(energies.total);
        energies
    }

    fn accept(&mut self) -> Option<Energies> {
        if let Err(e) = self.plan.swap_trial() {
            self.run.failure.get_or_insert(e);
        }
        self.run.forcing.accepted();
        // What is lagged has moved with x.
        let refreshed = self.plan.k.energy.has_views().then(|| self.energies(Phase::Cost));
        refreshed.iter().for_each(|e| self.run.forcing.at_x(e.total));
        refreshed
    }

    fn reject(&mut self) {
        self.run.forcing.rejected();
    }

    fn solve_exactly(&mut self) -> bool {
        let Some(auto) = &mut self.run.auto else { return false };
        // Their code and plan can be had, or are there.
        self.run.exact = (self.growth.is_some() || self.run.kinds.len() > 1) && auto.insist();
        self.run.exact
    }

    fn set_aside(&mut self) -> bool {
        let aside = self.run.aside.take();
        let moves = aside.is_some();
        match self.plan.exchange_x(aside) {
            Ok(here) => self.run.aside = Some(here),
            // An array on a device that does not hand it out.
            Err(_) if !moves => return false,
            Err(e) => {
                self.run.failure.get_or_insert(e);
                return false;
            }
        }
        if moves {
            self.run.largest.clear();
            self.run.forcing = match self.run.exact {
                true => Forcing::exact(),
                false => Forcing::new(&self.run.options),
            };
        }
        true
    }
}
