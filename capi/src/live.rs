//! A planned problem and the solve in progress on it, under one owner.
//!
//! In Rust a [`Session`] borrows its [`Problem`] and that its [`Solver`]. C has handles instead of lifetimes: here the three sit
//! in one value that is dropped from the borrower to the borrowed. This is the one place where lifetimes are made up.

use std::ptr::NonNull;
use std::sync::Arc;
use sumsq::{Options, Problem, ProblemData, Session, SolveError, Solver};

/// C may share a solver between threads and hand a problem from one to another.
const _: fn() = || {
    fn shareable<T: Send + Sync>() {}
    fn movable<T: Send>() {}
    shareable::<Solver>();
    movable::<Problem>();
    movable::<Session<'static>>();
};

/// A solver, a problem planned on it and perhaps a session on that.
///
/// Invariants: `problem` came from a box that this value owns and that nobody else points to, but for `session`, which
/// borrows it mutably; it borrows `*solver`. Hence `problem` is touched only while `session` is `None`, and `Drop` goes
/// session, problem, solver. The made-up `'static` never leaves this module in something that could outlive `self`.
pub struct Live {
    session: Option<Session<'static>>,
    problem: NonNull<Problem>,
    /// What `problem` borrows.
    _solver: Arc<Solver>,
}

impl Live {
    /// Allocates for the sizes of `data` and takes its numbers.
    pub fn plan(solver: Arc<Solver>, data: &ProblemData) -> Result<Live, SolveError> {
        // SAFETY: the Arc kept in the result holds the solver where it is until after the problem is gone (`Drop`).
        let forever: &'static Solver = unsafe { &*Arc::as_ptr(&solver) };
        let problem = NonNull::from(Box::leak(Box::new(forever.plan(data)?)));
        Ok(Live { session: None, problem, _solver: solver })
    }

    /// Takes arrays and params for the next solve; ends the one in progress.
    pub fn set_arrays(&mut self, data: &ProblemData) -> Result<(), SolveError> {
        self.session = None;
        // SAFETY: the box is alive until `Drop`, and with the session gone nothing else refers to it.
        unsafe { self.problem.as_mut() }.set_arrays(data)
    }

    /// Starts a solve from the unknowns in `data`; ends the one in progress.
    pub fn start(&mut self, data: &ProblemData, options: &Options) -> Result<(), SolveError> {
        self.session = None;
        // SAFETY: as above. The session made of this reference goes nowhere but into `self.session`, which `Drop` clears before it
        // frees the box.
        let problem: &'static mut Problem = unsafe { self.problem.as_mut() };
        self.session = Some(problem.init(data, options)?);
        Ok(())
    }

    /// Does something with the solve in progress, if there is one. `f` must do for any lifetimes: it cannot keep what it sees.
    pub fn with_session<R>(&mut self, f: impl FnOnce(&mut Session<'_>) -> R) -> Option<R> {
        self.session.as_mut().map(f)
    }

    /// Looks at the solve in progress, if there is one.
    pub fn look<R>(&self, f: impl FnOnce(&Session<'_>) -> R) -> Option<R> {
        self.session.as_ref().map(f)
    }

    /// Ends the solve in progress.
    pub fn stop(&mut self) {
        self.session = None;
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.session = None;
        // SAFETY: made by Box::leak in `plan`, dropped only here; its only borrower is gone, and the solver that it borrows goes
        // after this body.
        drop(unsafe { Box::from_raw(self.problem.as_ptr()) });
    }
}
