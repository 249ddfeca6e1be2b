//! The published interface. `include/Opt.h` says what each function does; here is how.
//!
//! `opt_float` is a double with doublePrecision, and the solve is in float64. Without, it is a float and the solve is `mixed`: the
//! state, energies and gradients are float64 and only PCG is float32. That costs hardly more than pure float32 and ends
//! orders of magnitude lower; the caller's floats hold the state rounded.
// The names are the published ones.
#![allow(non_snake_case, non_camel_case_types)]

mod parameters;
mod positions;

use crate::failure::{Failure, Result, guarded, load, text};
use crate::instance::Instance;
use parameters::Parameters;
use positions::{Memory, Positions};
use std::ffi::{c_char, c_double, c_int, c_uint, c_void};
use std::sync::Arc;
use sumsq::energy::Budgets;
use sumsq::{CompileOptions, Method, Precision, Solver};

/// `Opt_InitializationParameters`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Opt_InitializationParameters {
    /// True (not 0) if `opt_float` is double.
    pub doublePrecision: c_int,
    /// 0 silent, 1 errors, 2 also warnings and ends of solves, 3 also steps; all on stderr.
    pub verbosityLevel: c_int,
    /// Accepted, without effect on the CPU.
    pub collectPerKernelTimingInfo: c_int,
    /// Accepted, without effect on the CPU.
    pub threadsPerBlock: c_int,
}

/// `Opt_State`.
pub struct Opt_State {
    double: bool,
    verbosity: c_int,
}

/// `Opt_Problem`: a compiled energy.
pub struct Opt_Problem {
    solver: Solver,
    positions: Arc<Positions>,
    method: Method,
}

/// `Opt_Plan`: an energy for given dims. Outlives the problem it was planned from.
pub struct Opt_Plan {
    instance: Instance,
    positions: Arc<Positions>,
    method: Method,
    /// Extents of the energy's dims.
    extents: Vec<usize>,
    parameters: Parameters,
    memory: Memory,
    /// Half the sum of squares when last known.
    cost: f64,
}

impl Opt_State {
    fn new(given: Opt_InitializationParameters) -> Result<Opt_State> {
        let Opt_InitializationParameters { doublePrecision, verbosityLevel, threadsPerBlock, .. } = given;
        if !(0..=3).contains(&verbosityLevel) {
            return Err(Failure::argument(format!("verbosityLevel: expected 0 to 3, came {verbosityLevel}")));
        }
        if threadsPerBlock < 0 || threadsPerBlock % 32 != 0 {
            let message = format!("threadsPerBlock: expected 0 or a multiple of 32, came {threadsPerBlock}");
            return Err(Failure::argument(message));
        }
        Ok(Opt_State { double: doublePrecision != 0, verbosity: verbosityLevel })
    }

    fn say(&self, level: c_int, line: impl FnOnce() -> String) {
        if self.verbosity >= level {
            eprintln!("{}", line());
        }
    }

    /// Runs `f`; a failure is kept and, unless silent, printed.
    fn run<T>(&self, f: impl FnOnce() -> Result<T>) -> Option<T> {
        match guarded(f) {
            Ok(value) => Some(value),
            Err(failure) => {
                self.say(1, || format!("Opt: {}", failure.message));
                None
            }
        }
    }

    fn define(&self, file: &str, kind: &str) -> Result<Opt_Problem> {
        let method = match kind {
            "gaussNewtonGPU" => Method::GaussNewton,
            "LMGPU" => Method::LevenbergMarquardt,
            _ => {
                let message = format!("solver kind: expected `gaussNewtonGPU` or `LMGPU`, came `{kind}`");
                return Err(Failure::argument(message));
            }
        };
        let energy = load(file, Budgets::default())?;
        energy.warnings.iter().for_each(|w| self.say(2, || format!("Opt: warning: {w}")));
        let positions = Arc::new(Positions::new(&energy, self.double)?);
        let precision = if self.double { Precision::F64 } else { Precision::Mixed };
        let options = CompileOptions { precision, ..CompileOptions::default() };
        let solver = Solver::compile(energy, &options)?;
        Ok(Opt_Problem { solver, positions, method })
    }
}

impl Opt_Problem {
    /// # Safety
    /// As for [`Positions::extents`].
    unsafe fn plan(&self, dimensions: *const c_uint) -> Result<Opt_Plan> {
        // SAFETY: by the contract.
        let extents = unsafe { self.positions.extents(dimensions) }?;
        Ok(Opt_Plan {
            instance: Instance::new(self.solver.clone()),
            memory: Memory::new(&self.positions),
            positions: self.positions.clone(),
            method: self.method,
            extents,
            parameters: Parameters::default(),
            cost: f64::NAN,
        })
    }
}

impl Opt_Plan {
    /// Reads what the caller has changed.
    ///
    /// # Safety
    /// As for [`Memory::read`].
    unsafe fn read(&mut self, table: *const *mut c_void) -> Result<()> {
        let unknowns = self.instance.data().map(|d| d.unknowns());
        // SAFETY: by the contract.
        let read = unsafe { self.memory.read(&self.positions, &self.extents, table, unknowns.as_deref()) };
        let assigned = read.and_then(|mut arrays| {
            if self.instance.data().is_none() {
                arrays.extend(self.positions.dim_arrays(&self.extents));
            }
            self.instance.assign(&mut arrays)
        });
        // What was seen but not taken is read again.
        assigned.inspect_err(|_| self.memory.forget())
    }

    /// Writes the unknowns back and notes the cost.
    ///
    /// # Safety
    /// As for [`Memory::write`].
    unsafe fn write(&mut self, table: *const *mut c_void) -> Result<()> {
        self.cost = self.instance.progress()?.energy / 2.0;
        let Some(data) = self.instance.data() else { return Ok(()) };
        // SAFETY: by the contract.
        unsafe { self.memory.write(&self.positions, table, &data.unknowns()) }
    }

    /// # Safety
    /// As for [`Opt_Plan::read`] and [`Opt_Plan::write`].
    unsafe fn init(&mut self, table: *const *mut c_void) -> Result<()> {
        self.cost = f64::NAN;
        // SAFETY: by the contract.
        unsafe { self.read(table) }?;
        self.instance.start(&self.parameters.options(self.method))?;
        // SAFETY: by the contract.
        unsafe { self.write(table) }
    }

    /// Takes a step, and tells whether there is more to do.
    ///
    /// # Safety
    /// As for [`Opt_Plan::read`] and [`Opt_Plan::write`].
    unsafe fn step(&mut self, table: *const *mut c_void, state: &Opt_State) -> Result<bool> {
        let steps = self.instance.progress()?.steps;
        if steps >= self.parameters.iterations {
            state.say(2, || format!("Opt: cost {:.9e} after {steps} steps: nIterations", self.cost));
            return Ok(false);
        }
        // SAFETY: by the contract.
        unsafe { self.read(table) }?;
        let ended = self.instance.step()?;
        // SAFETY: by the contract.
        unsafe { self.write(table) }?;
        let progress = self.instance.progress()?;
        if let Some(last) = progress.last.filter(|_| progress.steps > steps) {
            let verdict = if last.accepted { "accepted" } else { "rejected" };
            let (cost, linear) = (self.cost, last.linear_iterations);
            let step = progress.steps;
            state.say(3, || {
                format!("Opt: step {step}: cost {cost:.9e}, {verdict}, {linear} linear iterations")
            });
        }
        let Some(why) = ended else { return Ok(true) };
        state
            .say(2, || format!("Opt: cost {:.9e} after {} steps: {}", self.cost, progress.steps, why.name()));
        Ok(false)
    }

    /// # Safety
    /// As for [`Opt_Plan::step`].
    unsafe fn solve(&mut self, table: *const *mut c_void, state: &Opt_State) -> Result<()> {
        // SAFETY: by the contract.
        unsafe { self.init(table) }?;
        // SAFETY: by the contract.
        while unsafe { self.step(table, state) }? {}
        Ok(())
    }
}

/// Returns what `handle` points to.
///
/// # Safety
/// `handle` is null or was returned by this library for a `T`, is not freed yet and not in use by another thread.
unsafe fn handle<'a, T>(handle: *mut T, what: &str) -> Result<&'a mut T> {
    // SAFETY: by the contract.
    unsafe { handle.as_mut() }.ok_or_else(|| Failure::argument(format!("the {what} is a null pointer")))
}

/// Runs `f` on the state; with a null state the failure is only kept.
///
/// # Safety
/// As for [`handle`].
unsafe fn with<T>(state: *mut Opt_State, f: impl FnOnce(&Opt_State) -> Result<T>) -> Option<T> {
    // SAFETY: by the contract.
    let state: &Opt_State = guarded(|| unsafe { handle(state, "state") }).ok()?;
    state.run(|| f(state))
}

fn boxed<T>(value: Option<T>) -> *mut T {
    value.map_or(std::ptr::null_mut(), |v| Box::into_raw(Box::new(v)))
}

/// Frees a handle; null is fine.
///
/// # Safety
/// As for [`handle`]; `handle` is not used again.
unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        _ = guarded(|| {
            // SAFETY: made by `boxed`, by the contract.
            drop(unsafe { Box::from_raw(handle) });
            Ok(())
        });
    }
}

/// See `include/Opt.h`.
#[unsafe(no_mangle)]
pub extern "C" fn Opt_NewState(parameters: Opt_InitializationParameters) -> *mut Opt_State {
    let silent = Opt_State { double: false, verbosity: parameters.verbosityLevel };
    boxed(silent.run(|| Opt_State::new(parameters)))
}

/// See `include/Opt.h`.
///
/// # Safety
/// `state` is null or valid; the strings are null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Opt_ProblemDefine(
    state: *mut Opt_State,
    filename: *const c_char,
    solverkind: *const c_char,
) -> *mut Opt_Problem {
    // SAFETY: by the contract.
    let problem = unsafe {
        with(state, |s| s.define(text(filename, "the file name")?, text(solverkind, "the solver kind")?))
    };
    boxed(problem)
}

/// See `include/Opt.h`.
///
/// # Safety
/// `problem` is null or valid, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Opt_ProblemDelete(_state: *mut Opt_State, problem: *mut Opt_Problem) {
    // SAFETY: by the contract.
    unsafe { free(problem) }
}

/// See `include/Opt.h`.
///
/// # Safety
/// Handles are null or valid; `dimensions` is null or holds an extent for each dim of the energy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Opt_ProblemPlan(
    state: *mut Opt_State,
    problem: *mut Opt_Problem,
    dimensions: *mut c_uint,
) -> *mut Opt_Plan {
    // SAFETY: by the contract.
    boxed(unsafe { with(state, |_| handle(problem, "problem")?.plan(dimensions)) })
}

/// See `include/Opt.h`.
///
/// # Safety
/// `plan` is null or valid, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Opt_PlanFree(_state: *mut Opt_State, plan: *mut Opt_Plan) {
    // SAFETY: by the contract.
    unsafe { free(plan) }
}

/// See `include/Opt.h`.
///
/// # Safety
/// Handles are null or valid; `name` is null or NUL-terminated; `value` is null or points to an int or float, whichever the
/// parameter is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Opt_SetSolverParameter(
    state: *mut Opt_State,
    plan: *mut Opt_Plan,
    name: *const c_char,
    value: *mut c_void,
) {
    // SAFETY: by the contract.
    unsafe {
        with(state, |_| handle(plan, "plan")?.parameters.set(text(name, "the parameter name")?, value));
    }
}

/// See `include/Opt.h`.
///
/// # Safety
/// Handles are null or valid; `problemparams` is null or holds, at each position of the energy, null or a pointer to what is
/// declared there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Opt_ProblemSolve(
    state: *mut Opt_State,
    plan: *mut Opt_Plan,
    problemparams: *mut *mut c_void,
) {
    // SAFETY: by the contract.
    unsafe {
        with(state, |s| handle(plan, "plan")?.solve(problemparams, s));
    }
}

/// See `include/Opt.h`.
///
/// # Safety
/// As for [`Opt_ProblemSolve`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Opt_ProblemInit(
    state: *mut Opt_State,
    plan: *mut Opt_Plan,
    problemparams: *mut *mut c_void,
) {
    // SAFETY: by the contract.
    unsafe {
        with(state, |_| handle(plan, "plan")?.init(problemparams));
    }
}

/// See `include/Opt.h`.
///
/// # Safety
/// As for [`Opt_ProblemSolve`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Opt_ProblemStep(
    state: *mut Opt_State,
    plan: *mut Opt_Plan,
    problemparams: *mut *mut c_void,
) -> c_int {
    // SAFETY: by the contract.
    let more = unsafe { with(state, |s| handle(plan, "plan")?.step(problemparams, s)) };
    c_int::from(more == Some(true))
}

/// See `include/Opt.h`.
///
/// # Safety
/// Handles are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn Opt_ProblemCurrentCost(state: *mut Opt_State, plan: *mut Opt_Plan) -> c_double {
    // SAFETY: by the contract.
    unsafe { with(state, |_| Ok(handle(plan, "plan")?.cost)) }.unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::last;
    use std::ffi::CStr;
    use std::ptr::null_mut;

    #[test]
    fn handles_that_were_not_made_are_null_and_may_be_given_back() {
        let given = |threads| Opt_InitializationParameters {
            doublePrecision: 0,
            verbosityLevel: 0,
            collectPerKernelTimingInfo: 0,
            threadsPerBlock: threads,
        };
        assert!(Opt_NewState(given(5)).is_null());
        let state = Opt_NewState(given(64));
        let mut value = 3i32;
        let value = (&raw mut value).cast::<c_void>();
        // SAFETY: handles are null or valid, strings NUL-terminated; the state is freed once.
        unsafe {
            let kind = c"gaussNewtonGPU".as_ptr();
            assert!(Opt_ProblemDefine(state, c"no/such/file.t".as_ptr(), kind).is_null());
            assert!(CStr::from_ptr(last()).to_str().unwrap().contains("no/such/file.t"));
            assert!(Opt_ProblemDefine(state, null_mut(), kind).is_null());
            assert!(Opt_ProblemDefine(null_mut(), kind, kind).is_null());
            assert!(Opt_ProblemPlan(state, null_mut(), null_mut()).is_null());
            Opt_SetSolverParameter(state, null_mut(), c"nIterations".as_ptr(), value);
            Opt_ProblemSolve(state, null_mut(), null_mut());
            assert_eq!(Opt_ProblemStep(state, null_mut(), null_mut()), 0);
            assert!(Opt_ProblemCurrentCost(state, null_mut()).is_nan());
            assert_eq!(CStr::from_ptr(last()), c"the plan is a null pointer");
            Opt_PlanFree(state, null_mut());
            Opt_ProblemDelete(state, null_mut());
            free(state);
        }
    }
}
