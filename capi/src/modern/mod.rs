//! sumsq's own interface. `include/sumsq.h` says what each function does; here are the checks at the boundary.
#![allow(non_camel_case_types)]

mod device;
pub mod dlpack;
mod options;
mod problem;
mod report;

pub use device::sumsq_device_array;
pub use options::sumsq_options;
pub use report::sumsq_report;

use crate::element::Element;
pub use crate::failure::Status;

use crate::failure::{Failure, Result, guarded, last, load, text};
use problem::Problem;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use sumsq::energy::{Budgets, Energy};
use sumsq::{Cancel, Options, Solver, Termination};

/// `sumsq_solver`.
pub struct sumsq_solver {
    solver: Solver,
    options: Options,
}

/// `sumsq_problem`. Borrowed while a function works on it, so that a callback that uses it gets an error; but for the request, which any
/// thread may make at any time.
pub struct sumsq_problem(RefCell<Problem>, Cancel);

/// `sumsq_callback`.
pub type sumsq_callback = Option<unsafe extern "C" fn(*const sumsq_report, *mut c_void) -> c_int>;

fn status(done: Result<()>) -> Status {
    done.map_or_else(|failure| failure.status, |()| Status::Ok)
}

/// Returns what a pointer leads to.
///
/// # Safety
/// `pointer` is null or valid as long as the result lives.
unsafe fn given<'a, T>(pointer: *const T, what: &str) -> Result<&'a T> {
    // SAFETY: by the contract.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::argument(format!("the {what} is a null pointer")))
}

/// Puts a new handle into `out`, or null on an error.
///
/// # Safety
/// `out` is null or can be written.
unsafe fn create<T>(out: *mut *mut T, make: impl FnOnce() -> Result<T>) -> Status {
    if out.is_null() {
        return status(guarded(|| Err(Failure::argument("the place for the handle is a null pointer"))));
    }
    let made = guarded(make);
    let (handle, done) = match made {
        Ok(value) => (Box::into_raw(Box::new(value)), Ok(())),
        Err(failure) => (std::ptr::null_mut(), Err(failure)),
    };
    // SAFETY: not null, writable by the contract.
    unsafe { out.write(handle) };
    status(done)
}

/// Works on a problem.
///
/// # Safety
/// `problem` is null or a handle that is not freed yet nor used by another thread.
unsafe fn working(problem: *const sumsq_problem, f: impl FnOnce(&mut Problem) -> Result<()>) -> Status {
    status(guarded(|| {
        // SAFETY: by the contract.
        let problem = unsafe { given(problem, "problem") }?;
        let mut inner = problem.0.try_borrow_mut().map_err(|_| in_callback())?;
        f(&mut inner)
    }))
}

fn in_callback() -> Failure {
    Failure::state("the problem is in use: a callback must not touch the problem that calls it")
}

/// The options at `options`; `None` for null.
///
/// # Safety
/// `options` is null or points to as many bytes as its size says.
unsafe fn options_at(options: *const sumsq_options) -> Result<Option<sumsq_options>> {
    if options.is_null() {
        return Ok(None);
    }
    // SAFETY: by the contract.
    unsafe { options::read(options, sumsq_options::default()) }.map(Some)
}

/// Compiles the energy that `read` makes within the budgets at `options`.
///
/// # Safety
/// As for [`options_at`].
unsafe fn compiled(
    options: *const sumsq_options,
    read: impl FnOnce(Budgets) -> Result<Energy>,
) -> Result<sumsq_solver> {
    // SAFETY: by the contract.
    let given = unsafe { options_at(options) }?.unwrap_or_default();
    let options = given.options()?;
    let solver = Solver::compile(read(given.budgets())?, &options.compile)?;
    Ok(sumsq_solver { solver, options })
}

/// See `include/sumsq.h`.
#[unsafe(no_mangle)]
pub extern "C" fn sumsq_last_error() -> *const c_char {
    last()
}

/// See `include/sumsq.h`.
#[unsafe(no_mangle)]
pub extern "C" fn sumsq_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// See `include/sumsq.h`.
#[unsafe(no_mangle)]
pub extern "C" fn sumsq_termination_name(termination: i32) -> *const c_char {
    report::name(termination).as_ptr()
}

/// See `include/sumsq.h`.
///
/// # Safety
/// `options` is null or points to as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_options_init(options: *mut sumsq_options) -> Status {
    // SAFETY: by the contract.
    status(guarded(|| unsafe { options::write(&sumsq_options::default(), options) }))
}

/// See `include/sumsq.h`.
///
/// # Safety
/// Strings are null or NUL-terminated, `options` as for [`sumsq_options_init`], `solver` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_solver_from_file(
    path: *const c_char,
    options: *const sumsq_options,
    solver: *mut *mut sumsq_solver,
) -> Status {
    // SAFETY: by the contract.
    unsafe { create(solver, || compiled(options, |budgets| load(text(path, "the path")?, budgets))) }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// As for [`sumsq_solver_from_file`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_solver_from_text(
    name: *const c_char,
    energy: *const c_char,
    options: *const sumsq_options,
    solver: *mut *mut sumsq_solver,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        create(solver, || {
            compiled(options, |budgets| {
                let (name, energy) = (text(name, "the name")?, text(energy, "the text")?);
                Ok(Energy::from_text_within(name, energy, budgets, |_| ())?)
            })
        })
    }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// `solver` is null or valid, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_solver_free(solver: *mut sumsq_solver) {
    if !solver.is_null() {
        _ = guarded(|| {
            // SAFETY: made by `create`, by the contract.
            drop(unsafe { Box::from_raw(solver) });
            Ok(())
        });
    }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// `solver` is null or valid, `problem` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_problem_new(
    solver: *const sumsq_solver,
    problem: *mut *mut sumsq_problem,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        create(problem, || {
            let solver = given(solver, "solver")?;
            let problem = Problem::new(solver.solver.clone(), solver.options.clone());
            let cancel = problem.cancel.clone();
            Ok(sumsq_problem(RefCell::new(problem), cancel))
        })
    }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// `problem` is null or valid, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_problem_free(problem: *mut sumsq_problem) {
    _ = guarded(|| {
        // SAFETY: by the contract.
        let Some(shared) = (unsafe { problem.as_ref() }) else { return Ok(()) };
        shared.0.try_borrow_mut().map_err(|_| in_callback())?;
        // SAFETY: made by `create`, by the contract, and no function works on it.
        drop(unsafe { Box::from_raw(problem) });
        Ok(())
    });
}

/// See `include/sumsq.h`.
///
/// # Safety
/// `problem` is null or valid, `name` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_set_dim(
    problem: *mut sumsq_problem,
    name: *const c_char,
    extent: i64,
) -> Status {
    // SAFETY: by the contract.
    unsafe { working(problem, |p| p.set_dim(text(name, "the name")?, extent)) }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// As for [`sumsq_set_dim`]; `data` is null or can be read for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_set(
    problem: *mut sumsq_problem,
    name: *const c_char,
    element: c_int,
    data: *const c_void,
    bytes: usize,
) -> Status {
    // SAFETY: by the contract.
    unsafe { working(problem, |p| p.set(text(name, "the name")?, Element::from_code(element)?, data, bytes)) }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// As for [`sumsq_set_dim`]; `data` is null or can be written for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_get(
    problem: *const sumsq_problem,
    name: *const c_char,
    element: c_int,
    data: *mut c_void,
    bytes: usize,
) -> Status {
    // SAFETY: by the contract.
    unsafe { working(problem, |p| p.get(text(name, "the name")?, Element::from_code(element)?, data, bytes)) }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// As for [`sumsq_set_dim`]; `array` is null or points to as many bytes as its size says, its shape and strides to as many numbers as it has dims,
/// and its memory and stream live as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_bind(
    problem: *mut sumsq_problem,
    name: *const c_char,
    array: *const sumsq_device_array,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        working(problem, |p| {
            let (name, ordinal) = (text(name, "the name")?, p.device()?);
            let array = options::read(array, sumsq_device_array::default())?.array(ordinal)?;
            p.bind(name, array)
        })
    }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// `problem` is null or valid; `options` as for [`sumsq_options_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_start(problem: *mut sumsq_problem, options: *const sumsq_options) -> Status {
    // SAFETY: by the contract.
    unsafe { working(problem, |p| start(p, options_at(options)?)) }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// `problem` is null or valid; `termination` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_step(problem: *mut sumsq_problem, termination: *mut i32) -> Status {
    let step = |p: &mut Problem| {
        let ended = step(p)?;
        if !termination.is_null() {
            // SAFETY: not null, writable by the contract.
            unsafe { termination.write(ended.map_or(report::RUNNING, report::code)) };
        }
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { working(problem, step) }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// `problem` is null or valid; `options` as for [`sumsq_options_init`]; `callback` can be called with `user`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_solve(
    problem: *mut sumsq_problem,
    options: *const sumsq_options,
    callback: sumsq_callback,
    user: *mut c_void,
) -> Status {
    let solve = |p: &mut Problem| {
        // SAFETY: by the contract.
        start(p, unsafe { options_at(options) }?)?;
        let mut steps = 0;
        loop {
            let ended = step(p)?;
            let progress = p.instance.progress()?;
            if let (Some(callback), true) = (callback, progress.steps > steps) {
                steps = progress.steps;
                let report = sumsq_report::from(progress);
                // SAFETY: by the contract; `report` outlives the call.
                if unsafe { callback(&report, user) } != 0 {
                    p.instance.abort();
                    return Ok(());
                }
            }
            if ended.is_some() {
                return Ok(());
            }
        }
    };
    // SAFETY: by the contract.
    unsafe { working(problem, solve) }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// `problem` is null or valid during the call; other threads may use it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_cancel(problem: *mut sumsq_problem) {
    if !problem.is_null() {
        // SAFETY: valid by the contract; the request is never written to but through its atomic, and nothing else is looked at.
        unsafe { &(*problem).1 }.cancel();
    }
}

/// See `include/sumsq.h`.
///
/// # Safety
/// `problem` is null or valid; `report` is null or points to as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sumsq_get_report(
    problem: *const sumsq_problem,
    report: *mut sumsq_report,
) -> Status {
    let get = |p: &mut Problem| {
        let now = sumsq_report::from(p.instance.progress()?);
        // SAFETY: by the contract.
        unsafe { options::write(&now, report) }
    };
    // SAFETY: by the contract.
    unsafe { working(problem, get) }
}

fn start(problem: &mut Problem, options: Option<sumsq_options>) -> Result<()> {
    let options = options.map(|o| o.options()).transpose()?;
    let mut options = problem.options(options)?;
    problem.cancel.reset();
    options.solve.cancel = Some(problem.cancel.clone());
    problem.assign()?;
    problem.instance.start(&options.solve)
}

fn step(problem: &mut Problem) -> Result<Option<Termination>> {
    problem.instance.progress()?;
    problem.assign()?;
    problem.instance.step()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;
    use std::ptr::null_mut;

    #[test]
    fn a_handle_is_put_where_it_was_asked_for() {
        let mut place = null_mut::<String>();
        // SAFETY: a place that can be written, or null; what was made is freed once.
        unsafe {
            assert_eq!(create(&mut place, || Ok("made".to_owned())), Status::Ok);
            assert_eq!(given(place, "text").unwrap(), "made");
            drop(Box::from_raw(place));
            assert_eq!(create(&mut place, || Err(Failure::state("no"))), Status::State);
            assert!(place.is_null());
            assert_eq!(create(null_mut(), || Ok(String::new())), Status::Argument);
        }
    }

    #[test]
    fn handles_that_were_not_made_are_null_and_may_be_given_back() {
        let (mut solver, mut problem) = (std::ptr::dangling_mut(), std::ptr::dangling_mut());
        // SAFETY: handles are null or places for them, strings NUL-terminated.
        unsafe {
            let made = sumsq_solver_from_file(c"no/such/file.t".as_ptr(), std::ptr::null(), &mut solver);
            assert_eq!((made, solver), (Status::Energy, null_mut()));
            assert!(CStr::from_ptr(sumsq_last_error()).to_str().unwrap().contains("no/such/file.t"));
            assert_eq!(sumsq_problem_new(solver, &mut problem), Status::Argument);
            assert!(problem.is_null());
            assert_eq!(sumsq_solve(problem, std::ptr::null(), None, null_mut()), Status::Argument);
            assert_eq!(CStr::from_ptr(sumsq_last_error()), c"the problem is a null pointer");
            sumsq_cancel(problem);
            sumsq_problem_free(problem);
            sumsq_solver_free(solver);
        }
    }
}
