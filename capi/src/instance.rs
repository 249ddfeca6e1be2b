//! A problem of either interface: its numbers, and the solve in progress on them.
//!
//! Numbers may change at any time between two steps. What changed decides what the next step does first:
//!
//! | changed | the solve in progress |
//! |---|---|
//! | arrays, params | takes them and goes on ([`Session::set_arrays`](sumsq::Session::set_arrays)) |
//! | unknowns, or what `Exclude` reads | starts anew from there; step count, time limit and radius go on |
//! | graphs | is planned anew, then as above; nothing is compiled |

use crate::failure::{Failure, Result, Status};
use std::time::{Duration, Instant};
use sumsq::energy::Energy;
use sumsq::energy::model::{ArrayId, ParamId};
use sumsq::{
    Exported, Grids, Iteration, Lent, NamedArray, Problem, ProblemData, Session, SolveOptions, Solver,
    Stream, Termination,
};

/// Assignments since the solve last looked.
#[derive(Clone, Copy, Default)]
struct Changed {
    /// Arrays or params.
    numbers: bool,
    /// Unknowns, or what `Exclude` reads.
    start: bool,
    /// Index arrays, or everything.
    sizes: bool,
}

/// The state of a solve.
#[derive(Clone, Debug)]
pub struct Progress {
    /// E at the start.
    pub energy_initial: f64,
    /// E now.
    pub energy: f64,
    /// Steps taken, rejected ones included.
    pub steps: usize,
    /// PCG iterations of all steps.
    pub linear_iterations: usize,
    /// Seconds of damping and the set-up of preconditioners, in all steps.
    pub setup_seconds: f64,
    /// The hierarchies of the preconditioner.
    pub grids: Vec<Grids>,
    /// The last step.
    pub last: Option<Iteration>,
    /// Reason for the end, once there is one.
    pub termination: Option<Termination>,
    /// Uses of the caller's memory on a GPU.
    pub lent: Lent,
}

/// A solve that was started, and what it has done before its session was started anew.
struct Solve {
    options: SolveOptions,
    started: Instant,
    energy_initial: f64,
    steps_before: usize,
    linear_before: usize,
    setup_before: f64,
    ended: Option<Termination>,
}

/// A planned problem, with or without a solve in progress.
#[allow(clippy::large_enum_variant, reason = "there is one of it per problem of a C program")]
enum Live {
    Idle(Problem),
    Running(Session),
}

/// C may share a solver between threads and hand a problem from one to another.
const _: fn() = || {
    fn shareable<T: Send + Sync>() {}
    fn movable<T: Send>() {}
    shareable::<Solver>();
    movable::<Live>();
};

/// A problem of a compiled energy.
pub struct Instance {
    solver: Solver,
    /// Its unknowns are those of the solve in progress, except for what was assigned since.
    data: Option<ProblemData<'static>>,
    changed: Changed,
    live: Option<Live>,
    solve: Option<Solve>,
}

impl Instance {
    pub fn new(solver: Solver) -> Instance {
        Instance { solver, data: None, changed: Changed::default(), live: None, solve: None }
    }

    pub fn solver(&self) -> &Solver {
        &self.solver
    }

    /// A copy of an unknown in memory of the GPU of its own: see [`Session::export`].
    pub fn export(&self, name: &str, stream: Stream) -> Result<Exported> {
        let session = self.session().ok_or_else(not_started)?;
        session.export(name, stream)?.ok_or_else(not_started)
    }

    /// The numbers as they are, once complete.
    pub fn data(&self) -> Option<&ProblemData<'static>> {
        self.data.as_ref()
    }

    /// Forgets all numbers: the next [`Instance::assign`] must be complete, and may bring other dims.
    pub fn clear(&mut self) {
        (self.data, self.live, self.solve) = (None, None, None);
    }

    /// Takes numbers out of the list: all that the energy declares the first time, then any. On an error nothing has changed.
    pub fn assign(&mut self, arrays: &mut Vec<NamedArray>) -> Result<()> {
        let energy = self.solver.energy();
        let names: Vec<String> = arrays.iter().map(|a| a.name.clone()).collect();
        match &mut self.data {
            Some(data) => data.update_taking(energy, arrays)?,
            None => self.data = Some(ProblemData::bind_taking(energy, arrays)?),
        }
        names.iter().for_each(|name| self.changed.note(energy, name));
        Ok(())
    }

    /// Starts a solve from the unknowns as assigned.
    pub fn start(&mut self, options: &SolveOptions) -> Result<()> {
        self.solve = None;
        self.restart(options)?;
        let energy_initial = self.session().map(|s| s.energies().total);
        self.solve = Some(Solve {
            options: options.decided_for(self.solver.energy()),
            started: Instant::now(),
            energy_initial: energy_initial.unwrap_or(f64::NAN),
            steps_before: 0,
            linear_before: 0,
            setup_before: 0.0,
            ended: None,
        });
        Ok(())
    }

    /// Takes one step, on the numbers as they are now. Returns why the solve ended, once it has. After an error there is no
    /// solve in progress, and the unknowns are those of the last good step.
    pub fn step(&mut self) -> Result<Option<Termination>> {
        let before = self.progress().map_or(0, |p| p.steps);
        let stepped = self.refresh().and_then(|()| {
            let Some(Live::Running(session)) = &mut self.live else { return Err(not_started()) };
            Ok(session.step_on(self.data.as_ref())?)
        });
        // A device may fail when it is to hand out what it has computed.
        let handed_out = stepped.and_then(|ended| self.download().map(|()| ended));
        match handed_out {
            Ok(ended) => {
                if let Some(solve) = &mut self.solve {
                    solve.ended = ended;
                }
                Ok(ended)
            }
            Err(failure) => {
                self.solve = None;
                self.stop();
                Err(lost(failure, before))
            }
        }
    }

    /// Ends the solve in progress on the caller's behalf.
    pub fn abort(&mut self) {
        if let Some(solve) = &mut self.solve {
            solve.ended.get_or_insert(Termination::UserAbort);
        }
    }

    /// Returns how the solve stands.
    pub fn progress(&self) -> Result<Progress> {
        let solve = self.solve.as_ref().ok_or_else(not_started)?;
        let session = self.session().ok_or_else(not_started)?;
        let linear: usize = session.iterations().iter().map(|i| i.linear_iterations).sum();
        let setup: f64 = session.iterations().iter().map(|i| i.setup_seconds).sum();
        Ok(Progress {
            energy_initial: solve.energy_initial,
            energy: session.energies().total,
            steps: solve.steps_before + session.iterations().len(),
            linear_iterations: solve.linear_before + linear,
            setup_seconds: solve.setup_before + setup,
            grids: session.hierarchies(),
            last: session.iterations().last().cloned(),
            termination: solve.ended,
            lent: session.lent(),
        })
    }

    /// Brings the solve in progress up to date with what was assigned.
    fn refresh(&mut self) -> Result<()> {
        let before = self.progress()?;
        let Changed { numbers, start, sizes } = self.changed;
        if start || sizes {
            let Some(solve) = &mut self.solve else { return Err(not_started()) };
            (solve.steps_before, solve.linear_before) = (before.steps, before.linear_iterations);
            solve.setup_before = before.setup_seconds;
            let mut options = solve.options.clone();
            options.iterations = options.iterations.map(|n| n.saturating_sub(before.steps));
            let elapsed = solve.started.elapsed();
            options.max_time = options.max_time.map(|limit: Duration| limit.saturating_sub(elapsed));
            if let Some(radius) = before.last.map(|i| i.radius).filter(|r| r.is_finite()) {
                options.radius = Some(radius);
            }
            return self.restart(&options);
        }
        if numbers {
            let (Some(data), Some(Live::Running(session))) = (&self.data, &mut self.live) else {
                return Err(not_started());
            };
            session.set_arrays(data)?;
        }
        self.changed = Changed::default();
        Ok(())
    }

    /// A new session on the numbers as they are, planned anew where sizes changed.
    fn restart(&mut self, options: &SolveOptions) -> Result<()> {
        self.stop();
        let data = self.data.as_ref().ok_or_else(|| Failure::state("the problem has no numbers yet"))?;
        match &mut self.live {
            Some(Live::Idle(problem)) if !self.changed.sizes => {
                if self.changed.numbers || self.changed.start {
                    problem.set_arrays(data)?;
                }
            }
            live => *live = Some(Live::Idle(self.solver.plan(data)?)),
        }
        self.changed = Changed::default();
        let Some(Live::Idle(problem)) = self.live.take() else { return Err(not_started()) };
        match problem.into_session(data, options) {
            Ok(session) => {
                self.live = Some(Live::Running(session));
                Ok(())
            }
            Err(unstarted) => {
                self.live = Some(Live::Idle(unstarted.problem));
                Err(unstarted.error.into())
            }
        }
    }

    /// The solve in progress.
    fn session(&self) -> Option<&Session> {
        match &self.live {
            Some(Live::Running(session)) => Some(session),
            _ => None,
        }
    }

    /// Ends the solve in progress; the plan stays.
    fn stop(&mut self) {
        self.live = self.live.take().map(|live| match live {
            Live::Running(session) => Live::Idle(session.into_problem()),
            idle => idle,
        });
    }

    fn download(&mut self) -> Result<()> {
        if let (Some(Live::Running(session)), Some(data)) = (&self.live, &mut self.data) {
            session.unknowns(data)?;
        }
        Ok(())
    }
}

impl Changed {
    /// `name` was assigned.
    fn note(&mut self, energy: &Energy, name: &str) {
        let array = energy.arrays.iter().position(|a| a.name == name).map(|i| ArrayId(i as u32));
        let param = energy.params.iter().position(|p| p.name == name).map(|i| ParamId(i as u32));
        if energy.unknowns.iter().any(|u| u.name == name) {
            self.start = true;
        } else if array.is_some() || param.is_some() {
            let excludes: Vec<_> = energy.excludes.iter().map(|e| e.1).collect();
            self.numbers = true;
            self.start |= energy.may_read(&excludes, array.as_slice(), param.as_slice());
        } else {
            self.sizes = true;
        }
    }
}

/// The failure of a step behind so many, with what a device has taken along: unknowns are handed out after every step.
fn lost(failure: Failure, before: usize) -> Failure {
    if failure.status != Status::Device {
        return failure;
    }
    let message =
        format!("{}: the unknowns are those after {before} steps, one step is lost", failure.message);
    Failure { message, ..failure }
}

fn not_started() -> Failure {
    Failure::state("no solve is in progress: it was not started, or an error ended it")
}
