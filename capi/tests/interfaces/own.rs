//! sumsq's own interface.

use crate::support::*;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::{offset_of, size_of, size_of_val};
use std::ptr::{null, null_mut};
use std::time::{SystemTime, UNIX_EPOCH};
use sumsq::{CompileOptions, LossOrder, Method, Options, SolveOptions};
use sumsq_capi::modern::*;
use sumsq_tests::one_exact_step;

const F32: c_int = 1;
const F64: c_int = 2;
const I32: c_int = 6;
const U8: c_int = 8;

/// A problem that frees itself; its solver is freed at once.
struct Own(*mut sumsq_problem);

impl Own {
    fn new(text: &str, options: &sumsq_options) -> Own {
        let (mut solver, mut problem) = (null_mut(), null_mut());
        // SAFETY: valid strings and places.
        unsafe {
            let made = sumsq_solver_from_text(c("test.t").as_ptr(), c(text).as_ptr(), options, &mut solver);
            assert_eq!(made, Status::Ok, "{}", last_error());
            assert_eq!(sumsq_problem_new(solver, &mut problem), Status::Ok);
            sumsq_solver_free(solver);
        }
        Own(problem)
    }

    fn dim(&self, name: &str, extent: i64) -> Status {
        // SAFETY: a valid handle and string.
        unsafe { sumsq_set_dim(self.0, c(name).as_ptr(), extent) }
    }

    fn set<T>(&self, name: &str, element: c_int, data: &[T]) -> Status {
        // SAFETY: a valid handle and string, live data.
        unsafe { sumsq_set(self.0, c(name).as_ptr(), element, data.as_ptr().cast(), size_of_val(data)) }
    }

    fn get(&self, name: &str, n: usize) -> Vec<f64> {
        let mut data = vec![0.0f64; n];
        // SAFETY: a valid handle and string, live memory.
        let got = unsafe { sumsq_get(self.0, c(name).as_ptr(), F64, data.as_mut_ptr().cast(), 8 * n) };
        assert_eq!(got, Status::Ok, "{}", last_error());
        data
    }

    fn start(&self, options: &sumsq_options) -> Status {
        // SAFETY: a valid handle and options.
        unsafe { sumsq_start(self.0, options) }
    }

    /// The termination.
    fn step(&self) -> i32 {
        let mut termination = -1;
        // SAFETY: a valid handle and place.
        let stepped = unsafe { sumsq_step(self.0, &mut termination) };
        assert_eq!(stepped, Status::Ok, "{}", last_error());
        termination
    }

    fn report(&self) -> sumsq_report {
        let mut report = sumsq_report { size: size_of::<sumsq_report>(), ..empty() };
        // SAFETY: a valid handle, a report with its size.
        assert_eq!(unsafe { sumsq_get_report(self.0, &mut report) }, Status::Ok, "{}", last_error());
        report
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: a valid handle, not used again.
        unsafe { sumsq_problem_free(self.0) };
    }
}

fn empty() -> sumsq_report {
    sumsq_report {
        size: 0,
        energy_initial: 0.0,
        energy: 0.0,
        iterations: 0,
        linear_iterations: 0,
        termination: 0,
        accepted: 0,
        gradient_max_norm: 0.0,
        step_norm: 0.0,
        radius: 0.0,
        device_copies: 0,
        arrays_in_place: 0,
        preconditioner: 0,
        levels: 0,
        eta: 0.0,
        setup_seconds: 0.0,
        level_bytes: 0,
        operator_complexity: 0.0,
    }
}

fn defaults() -> sumsq_options {
    sumsq_options::default()
}

fn exact() -> sumsq_options {
    sumsq_options { method: 1, precision: 2, iterations: 9, linear_tolerance: 1e-13, ..defaults() }
}

#[track_caller]
fn fails(came: Status, expected: Status, parts: &[&str]) {
    let message = last_error();
    assert_eq!(came, expected, "{message}");
    assert!(parts.iter().all(|p| message.contains(p)), "expected {parts:?} in: {message}");
}

const SMOOTH: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float2, {W, H}, 0)
    local A = Array("A", uint8, {W, H}, 1)
    local w = Param("w", opt_float2, 2)
    local G = Graph("G", 3, "a", {W, H}, 4, "b", {W, H}, 5)
    Energy(w(0) * (X(0, 0, 0) - A(0, 0)), w(1) * (X(0, 0, 1) + A(0, 0)))
    Energy(X(0, 0) - X(1, 0), X(0, 0) - X(0, 1))
    Energy(X(G.a) - X(G.b))
"#;

/// Weights, arrays and graphs change between steps: each exact step minimises the energy of its day.
#[test]
fn numbers_change_between_steps() {
    let energy = file(SMOOTH);
    let p = Own::new(SMOOTH, &exact());
    let pixels: [u8; 12] = std::array::from_fn(|i| (i * 53 % 256) as u8);
    assert_eq!((p.dim("W", 4), p.dim("H", 3)), (Status::Ok, Status::Ok));
    assert_eq!(p.set("X", F32, &[0.0f32; 24]), Status::Ok);
    assert_eq!(p.set("A", U8, &pixels), Status::Ok);
    assert_eq!(p.set("w", F64, &[0.5f64, 0.25]), Status::Ok);
    assert_eq!(p.set("G.a", I32, &[0, 0, 3, 2]), Status::Ok);
    assert_eq!(p.set("G.b", I32, &[1, 2, 2, 0]), Status::Ok);
    assert_eq!(p.start(&exact()), Status::Ok, "{}", last_error());

    let check = |weights: [f64; 2], pixels: &[u8], a: &[i32], b: &[i32]| {
        assert_eq!(p.step(), 0);
        let wide = |v: &[i32]| v.iter().map(|&v| v.into()).collect::<Vec<i64>>();
        let arrays = [
            floats("X", &[3, 4, 2], &[0.0; 24]),
            integers("A", &[3, 4], &pixels.iter().map(|&v| v.into()).collect::<Vec<i64>>()),
            floats("w", &[2], &weights),
            integers("G.a", &[a.len() / 2, 2], &wide(a)),
            integers("G.b", &[b.len() / 2, 2], &wide(b)),
        ];
        let (report, expected) = rust(&energy.path, &arrays, &one_exact_step());
        close(p.report().energy, report.energy_final, 1e-10);
        p.get("X", 24).iter().zip(&expected[0]).for_each(|(came, expected)| close(*came, *expected, 1e-8));
    };
    check([0.5, 0.25], &pixels, &[0, 0, 3, 2], &[1, 2, 2, 0]);
    assert_eq!(p.set("w", F32, &[2.0f32, 3.0]), Status::Ok);
    check([2.0, 3.0], &pixels, &[0, 0, 3, 2], &[1, 2, 2, 0]);
    let other = pixels.map(|p| 255 - p);
    assert_eq!(p.set("A", U8, &other), Status::Ok);
    check([2.0, 3.0], &other, &[0, 0, 3, 2], &[1, 2, 2, 0]);
    assert_eq!(p.set("G.a", I32, &[1, 1]), Status::Ok);
    assert_eq!(p.set("G.b", I32, &[2, 2]), Status::Ok);
    check([2.0, 3.0], &other, &[1, 1], &[2, 2]);
    assert_eq!(p.set("X", F64, &[7.0f64; 24]), Status::Ok);
    assert_eq!(p.get("X", 24), [7.0; 24]);
    check([2.0, 3.0], &other, &[1, 1], &[2, 2]);
    assert_eq!(p.report().iterations, 5);
    // Numbers that do not fit leave all as it was.
    assert_eq!(p.set("G.a", I32, &[1, 3]), Status::Ok);
    // SAFETY: a valid handle; no termination wanted.
    fails(unsafe { sumsq_step(p.0, null_mut()) }, Status::Data, &["`G`", "`G.a`", "row 0", "3"]);
    assert_eq!(p.set("G.a", I32, &[1, 1]), Status::Ok);
    check([2.0, 3.0], &other, &[1, 1], &[2, 2]);

    // Another size: everything is set anew, nothing is compiled.
    assert_eq!(p.dim("W", 6), Status::Ok);
    let step = || {
        // SAFETY: a valid handle.
        unsafe { sumsq_step(p.0, null_mut()) }
    };
    fails(step(), Status::State, &["no solve"]);
    fails(p.start(&exact()), Status::Data, &["`X`", "missing"]);
}

/// An image that an `Exclude` samples decides what is free, like what it reads.
#[test]
fn a_sampled_mask_changes_between_steps() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W, H}, 0)
        local M = Array("M", opt_float, {W, H}, 1)
        local Z = Array("Z", opt_float, {W, H}, 2)
        local S = SampledImage(M)
        Exclude(S(Index(0), Index(1)) + Z(0, 0))
        Energy(X(0, 0) - Index(0), X(0, 0) - X(1, 0))
    "#;
    let (energy, p) = (file(text), Own::new(text, &exact()));
    assert_eq!((p.dim("W", 4), p.dim("H", 3)), (Status::Ok, Status::Ok));
    let mut mask = [0.0f32; 12];
    mask[5] = 1.0;
    assert_eq!(p.set("X", F32, &[7.0f32; 12]), Status::Ok);
    assert_eq!(p.set("M", F32, &mask), Status::Ok);
    assert_eq!(p.set("Z", F32, &[0.0f32; 12]), Status::Ok);
    assert_eq!(p.start(&exact()), Status::Ok, "{}", last_error());
    assert_eq!(p.step(), 0);
    assert_eq!(p.get("X", 12)[5], 7.0);
    assert_eq!(p.set("M", F32, &[0.0f32; 12]), Status::Ok);
    assert_eq!(p.step(), 0);
    let zeros = ["M", "Z"].map(|name| floats(name, &[3, 4], &[0.0; 12]));
    let arrays = [&[floats("X", &[3, 4], &[7.0; 12])], &zeros[..]].concat();
    let (_, expected) = rust(&energy.path, &arrays, &one_exact_step());
    p.get("X", 12).iter().zip(&expected[0]).for_each(|(came, expected)| close(*came, *expected, 1e-8));
}

const VALLEY: &str = r#"
    local N = Dim("N", 0)
    local X = Unknown("X", opt_float2, {N}, 0)
    Energy(10 * (X(0, 1) - X(0, 0) * X(0, 0)), 1 - X(0, 0))
"#;

unsafe extern "C" fn three_steps(report: *const sumsq_report, user: *mut c_void) -> c_int {
    // SAFETY: the report is valid; `user` is the problem of the test below.
    let (report, problem) = unsafe { (&*report, user.cast::<(Cell<i64>, *mut sumsq_problem)>()) };
    // SAFETY: as above.
    let (seen, problem) = unsafe { &*problem };
    seen.set(seen.get() + 1);
    assert_eq!(report.iterations, seen.get());
    // SAFETY: a valid handle, in use: that is what is tested.
    fails(unsafe { sumsq_start(*problem, null()) }, Status::State, &["callback"]);
    // SAFETY: as above; it must not be freed here.
    unsafe { sumsq_problem_free(*problem) };
    c_int::from(seen.get() == 3)
}

#[test]
fn a_callback_ends_the_solve() {
    let p = Own::new(VALLEY, &defaults());
    assert_eq!(p.dim("N", 1), Status::Ok);
    assert_eq!(p.set("X", F64, &[-1.2f64, 1.0]), Status::Ok);
    let user = (Cell::new(0i64), p.0);
    // SAFETY: a valid handle; the callback knows what `user` is.
    let solved = unsafe { sumsq_solve(p.0, null(), Some(three_steps), (&raw const user).cast_mut().cast()) };
    assert_eq!(solved, Status::Ok, "{}", last_error());
    let report = p.report();
    assert_eq!((report.iterations, report.termination), (3, 7));
    // SAFETY: a static string.
    let name = unsafe { CStr::from_ptr(sumsq_termination_name(report.termination)) };
    assert_eq!(name, c"user_abort");
    // Without it the solve gets to the bottom.
    // SAFETY: a valid handle.
    assert_eq!(unsafe { sumsq_solve(p.0, null(), None, null_mut()) }, Status::Ok);
    assert!(p.report().energy < 1e-12 && p.report().energy_initial > 1e-3);
    p.get("X", 2).iter().for_each(|x| close(*x, 1.0, 1e-6));
}

#[test]
fn mistakes_have_a_status_and_a_message() {
    let mut solver = null_mut();
    let from = |text: &str, options: *const sumsq_options, solver: &mut *mut sumsq_solver| {
        // SAFETY: valid strings and places.
        unsafe { sumsq_solver_from_text(c("test.t").as_ptr(), c(text).as_ptr(), options, solver) }
    };
    fails(from("Energy(1", null(), &mut solver), Status::Energy, &["test.t:1"]);
    assert!(solver.is_null());
    let bad = sumsq_options { method: 5, ..defaults() };
    fails(from(VALLEY, &bad, &mut solver), Status::Argument, &["method", "5"]);
    let bad = sumsq_options { size: 0, ..defaults() };
    fails(from(VALLEY, &bad, &mut solver), Status::Argument, &["size"]);
    // SAFETY: null pointers are what is tested.
    unsafe {
        fails(sumsq_solver_from_file(null(), null(), &mut solver), Status::Argument, &["path", "null"]);
        let missing = c("no/such.t");
        fails(sumsq_solver_from_file(missing.as_ptr(), null(), &mut solver), Status::Energy, &["no/such.t"]);
        fails(sumsq_solver_from_file(missing.as_ptr(), null(), null_mut()), Status::Argument, &["null"]);
        fails(sumsq_problem_new(null(), &mut null_mut()), Status::Argument, &["solver", "null"]);
        fails(sumsq_step(null_mut(), null_mut()), Status::Argument, &["problem", "null"]);
        fails(sumsq_options_init(null_mut()), Status::Argument, &["null"]);
        sumsq_solver_free(null_mut());
        sumsq_problem_free(null_mut());
    }

    let p = Own::new(SMOOTH, &defaults());
    fails(p.dim("D", 3), Status::Argument, &["`D`"]);
    fails(p.dim("W", 0), Status::Data, &["`W`", "0"]);
    fails(p.set("A", U8, &[0u8; 12]), Status::State, &["dim `H`"]);
    assert_eq!((p.dim("W", 4), p.dim("H", 3)), (Status::Ok, Status::Ok));
    fails(p.set("A", U8, &[0u8; 11]), Status::Data, &["`A`", "12", "11"]);
    fails(p.set("A", 99, &[0u8; 12]), Status::Argument, &["99"]);
    fails(p.set("B", U8, &[0u8; 12]), Status::Argument, &["`B`"]);
    fails(p.set("G.a", I32, &[0u8; 12]), Status::Data, &["`G.a`", "8"]);
    // SAFETY: a valid handle, null data.
    let unset = unsafe { sumsq_set(p.0, c("A").as_ptr(), U8, null(), 12) };
    fails(unset, Status::Argument, &["`A`", "null"]);
    let mut x = [0.0f64; 24];
    let get = |name: &str, element, x: &mut [f64; 24]| {
        // SAFETY: a valid handle and string, live memory.
        unsafe { sumsq_get(p.0, c(name).as_ptr(), element, x.as_mut_ptr().cast(), size_of_val(x)) }
    };
    fails(get("X", F64, &mut x), Status::State, &["`X`"]);
    fails(get("A", F64, &mut x), Status::Argument, &["`A`"]);
    fails(get("X", F32, &mut x), Status::Data, &["`X`", "96", "192"]);
    let other = sumsq_options { precision: 2, ..defaults() };
    fails(p.start(&other), Status::Argument, &["precision"]);
    // SAFETY: a valid handle, a report with its size.
    fails(unsafe { sumsq_get_report(p.0, &mut empty()) }, Status::State, &["no solve"]);
}

#[test]
fn globals_are_set_and_views_are_not() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local V = Array("V", opt_float, {N}, 0)
        local T = Unknown("T", opt_float2, {}, 1)
        Energy(X(0) + T(0) - 4, X(0) - 0.5 * V(0), T(1) - X(0))
    "#;
    let p = Own::new(text, &exact());
    assert_eq!(p.dim("N", 2), Status::Ok);
    fails(p.set("V", F64, &[1.0f64, 2.0]), Status::Argument, &["`V`", "`X`"]);
    fails(p.set("T", F64, &[0.0f64; 4]), Status::Data, &["`T`", "16", "32"]);
    assert_eq!(p.set("X", F64, &[1.0f64, 2.0]), Status::Ok);
    assert_eq!(p.set("T", F64, &[0.5f64, -1.0]), Status::Ok);
    assert_eq!(p.start(&exact()), Status::Ok, "{}", last_error());
    // 2.5^2 + 1.5^2, 0.5^2 + 1^2, 2^2 + 3^2.
    close(p.report().energy, 22.75, 1e-15);
    assert_eq!(p.step(), 0);
    assert!(p.report().energy < 22.75);
    assert_eq!(p.get("T", 2).len(), 2);
}

#[test]
fn an_energy_that_is_not_finite_at_the_start() {
    let p = Own::new(
        "local N = Dim('N', 0) local X = Unknown('X', opt_float, {N}, 0) Energy(1 / X(0))",
        &defaults(),
    );
    assert_eq!(p.dim("N", 2), Status::Ok);
    assert_eq!(p.set("X", F64, &[1.0f64, 0.0]), Status::Ok);
    fails(p.start(&defaults()), Status::NotFinite, &["not finite"]);
    assert_eq!(p.set("X", F64, &[1.0f64, 2.0]), Status::Ok);
    assert_eq!(p.start(&defaults()), Status::Ok);
}

/// Losses of another order and the bounds of the damping reach the solver.
#[test]
fn losses_and_damping_are_as_told() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        Residual{loss=Cauchy(2), X(0) * X(0) - 3}
    "#;
    let energy = file(text);
    let step = |options: &sumsq_options| {
        let p = Own::new(text, options);
        assert_eq!((p.dim("N", 1), p.set("X", F64, &[2.0f64])), (Status::Ok, Status::Ok));
        assert_eq!(p.start(options), Status::Ok, "{}", last_error());
        p.step();
        p.get("X", 1)[0]
    };
    let in_rust = |options: &Options| rust(&energy.path, &[floats("X", &[1], &[2.0])], options).1[0][0];
    let second = step(&sumsq_options { losses: 2, ..exact() });
    close(
        second,
        in_rust(&Options {
            compile: CompileOptions { losses: LossOrder::Second, ..one_exact_step().compile },
            ..one_exact_step()
        }),
        1e-12,
    );
    assert!((second - step(&exact())).abs() > 0.01, "to first order the step is another");

    let damped = sumsq_options { method: 0, radius: 1.0, min_lm_diagonal: 5.0, iterations: 1, ..exact() };
    let method = Method::LevenbergMarquardt;
    let expected = Options {
        solve: SolveOptions { method, radius: Some(1.0), min_lm_diagonal: 5.0, ..one_exact_step().solve },
        ..one_exact_step()
    };
    close(step(&damped), in_rust(&expected), 1e-12);
    assert!((step(&damped) - step(&sumsq_options { min_lm_diagonal: 1e-6, ..damped })).abs() > 0.01);
    let mut solver = null_mut();
    for (bad, words) in [
        (sumsq_options { losses: 3, ..defaults() }, ["losses", "3"]),
        (sumsq_options { running_scales: 2, ..defaults() }, ["running_scales", "2"]),
        (sumsq_options { radius: f64::NAN, ..defaults() }, ["option radius", "NaN"]),
        (sumsq_options { linear_tolerance: -1.0, ..defaults() }, ["option linear_tolerance", "-1"]),
        (sumsq_options { eta: -0.1, ..defaults() }, ["option eta", "-0.1"]),
    ] {
        // SAFETY: valid strings, a place, options with their size.
        let made = unsafe { sumsq_solver_from_text(c("t").as_ptr(), c(text).as_ptr(), &bad, &mut solver) };
        fails(made, Status::Argument, &words);
    }
}

/// The kind, eta and levels are in the report.
#[test]
fn reports_tell_of_levels() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        Energy(0.1 * (X(0,0) - A(0,0)), X(0,0) - X(1,0), X(0,0) - X(0,1))
    "#;
    let (w, h) = (40i64, 30i64);
    let solved = |options: sumsq_options| {
        let problem = Own::new(text, &options);
        for (name, extent) in [("W", w), ("H", h)] {
            assert_eq!(problem.dim(name, extent), Status::Ok);
        }
        let numbers: Vec<f32> = (0..w * h).map(|i| (i % 11) as f32).collect();
        ["X", "A"].iter().for_each(|name| assert_eq!(problem.set(name, F32, &numbers), Status::Ok));
        // SAFETY: a valid handle and options, no callback.
        assert_eq!(unsafe { sumsq_solve(problem.0, &options, None, null_mut()) }, Status::Ok);
        problem.report()
    };
    // Multigrid and aggregation, by their numbers, with the eta that each begins with.
    for (preconditioner, eta) in [(4, 0.1), (5, 1e-3)] {
        let report = solved(sumsq_options { preconditioner, eta: 0.0625, iterations: 2, ..defaults() });
        assert_eq!((report.preconditioner, report.eta), (preconditioner, 0.0625));
        assert!(report.levels >= 2 && report.level_bytes > 1000, "{report:?}");
        assert!((1.0..4.0).contains(&report.operator_complexity), "{report:?}");
        assert!(report.setup_seconds > 0.0, "{report:?}");
        let report = solved(sumsq_options { preconditioner, iterations: 1, ..defaults() });
        assert!((report.eta - eta).abs() < 1e-9, "{report:?}");
    }
    let report = solved(sumsq_options { preconditioner: 2, eta: 0.0625, ..defaults() });
    assert_eq!((report.preconditioner, report.levels, report.level_bytes), (2, 0, 0));
    assert!(report.eta.is_nan() && report.operator_complexity == 0.0, "{report:?}");
}

/// A caller with an older header passes a shorter struct, one with a newer header a longer one.
#[test]
fn structs_grow_at_their_end() {
    #[repr(C)]
    struct Longer<T> {
        known: T,
        more: [f64; 2],
    }
    let long = size_of::<Longer<sumsq_options>>();
    let mut options = Longer { known: sumsq_options { size: long, ..defaults() }, more: [0.0; 2] };
    let mut solver = null_mut();
    let mut from = |options: *const sumsq_options| {
        // SAFETY: valid strings, a place, options with their size.
        unsafe { sumsq_solver_from_text(c("t").as_ptr(), c(VALLEY).as_ptr(), options, &mut solver) }
    };
    options.more[1] = 1.0;
    fails(from((&raw const options).cast()), Status::Argument, &["does not know"]);
    // Nothing behind the size is read: `precision` would be refused.
    let short = offset_of!(sumsq_options, precision);
    let options = sumsq_options { size: short, precision: 77, ..defaults() };
    assert_eq!(from(&options), Status::Ok, "{}", last_error());
    // SAFETY: a valid handle, not used again.
    unsafe { sumsq_solver_free(solver) };

    let mut options = sumsq_options { size: short, precision: 77, method: 1, ..defaults() };
    // SAFETY: options with their size.
    assert_eq!(unsafe { sumsq_options_init(&mut options) }, Status::Ok);
    assert_eq!((options.size, options.method, options.precision), (short, 0, 77));
}

#[test]
fn another_thread_cancels_one_long_linear_solve() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local A = Array("A", opt_float, {N}, 1)
        Energy(0.0001 * (X(0) - A(0)), X(0) - X(1))
    "#;
    // Jacobi needs thousands of iterations, where multigrid comes to the end of the digits.
    let preconditioner = 2;
    let options =
        sumsq_options { linear_tolerance: 1e-300, linear_iterations: 1 << 40, preconditioner, ..defaults() };
    let problem = Own::new(text, &options);
    let n = 1 << 20;
    assert_eq!(problem.dim("N", n as i64), Status::Ok);
    assert_eq!(problem.set("X", F32, &vec![0.5f32; n]), Status::Ok);
    assert_eq!(problem.set("A", F32, &(0..n).map(|i| (i % 7) as f32).collect::<Vec<_>>()), Status::Ok);
    // SAFETY: a valid handle; without a solve in progress it does nothing. Null is no problem.
    unsafe {
        sumsq_cancel(problem.0);
        sumsq_cancel(null_mut());
    }
    let address = problem.0 as usize;
    let started = std::time::Instant::now();
    std::thread::scope(|s| {
        s.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(500));
            // SAFETY: a handle that lives longer than this thread.
            unsafe { sumsq_cancel(address as *mut sumsq_problem) };
        });
        // SAFETY: a valid handle and options, no callback.
        let done = unsafe { sumsq_solve(problem.0, &options, None, null_mut()) };
        assert_eq!(done, Status::Ok, "{}", last_error());
    });
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    let report = problem.report();
    assert_eq!((report.termination, report.iterations), (12, 0));
    assert_eq!(report.energy, report.energy_initial);
    assert!(problem.get("X", n).iter().all(|&x| x == 0.5), "the last good unknowns");
}

/// Each budget of the options ends what spends it, with its name; a level below this machine's solves.
#[test]
fn budgets_and_targets() {
    // Never compiled before: what is kept takes no instructions and no time.
    let unlike = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as f64 * 1e-20;
    let text = format!(
        "local N = Dim('N', 0)\nlocal X = Unknown('X', opt_float, {{N}}, 0)\nlocal s = {{}}\n\
        for i = 1, 20 do s[i] = sin(i * X(0)) end\nlocal v = Vector(unpack(s))\nEnergy(v * v, {unlike} * X(0))\n"
    );
    let mut solver = null_mut();
    let mut from = |options: &sumsq_options| {
        // SAFETY: valid strings, a place, options with their size.
        let made =
            unsafe { sumsq_solver_from_text(c("t").as_ptr(), c(&text).as_ptr(), options, &mut solver) };
        // SAFETY: null, or made just now.
        unsafe { sumsq_solver_free(solver) };
        made
    };
    let small = [
        (sumsq_options { max_nodes: 50, ..defaults() }, "max-nodes"),
        (sumsq_options { max_steps: 50, ..defaults() }, "max-steps"),
        (sumsq_options { max_depth: 2, ..defaults() }, "max-depth"),
        (sumsq_options { max_entries: 19, ..defaults() }, "max-entries"),
        (sumsq_options { max_residuals: 20, ..defaults() }, "max-residuals"),
        (sumsq_options { max_lua_instructions: 20, ..defaults() }, "max-lua-instructions"),
        (sumsq_options { max_lua_memory: 30, ..defaults() }, "max-lua-memory"),
        (sumsq_options { max_instructions: 50, ..defaults() }, "max-instructions"),
        (sumsq_options { max_compile_seconds: 0.0, ..defaults() }, "max-compile-seconds"),
    ];
    for (options, said) in small {
        // The text as a whole is too long: there is no line.
        let place = if said == "max-lua-memory" { "budget" } else { "[t:" };
        fails(from(&options), Status::Energy, &[said, place]);
    }
    fails(from(&sumsq_options { target: 5, ..defaults() }), Status::Argument, &["target"]);
    #[cfg(target_arch = "x86_64")]
    fails(from(&sumsq_options { target: 4, ..defaults() }), Status::Backend, &["no aarch64"]);
    assert_eq!(from(&defaults()), Status::Ok, "{}", last_error());
    assert_eq!(from(&sumsq_options { target: 1, ..defaults() }), Status::Ok, "{}", last_error());
}
