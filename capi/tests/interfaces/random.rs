//! Random calls of both interfaces, in any order: names, types, sizes, structs and pointers that are right, nearly right or wrong, as far as
//! a caller may be wrong (a pointer that is not null leads to as much memory as the header asks for). Each is answered by a status or an
//! error in words that is no defect of sumsq's, and writes nothing beyond what the caller gave.
//!
//! `SUMSQ_FUZZ_CASES` sets how many problems are driven, `SUMSQ_FUZZ_SEED` the first seed (to repeat one: its seed, and 1 case, whose calls
//! are then printed). `cargo xtask fuzz structs` runs many.

use crate::support::*;
use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::size_of;
use std::ptr::{null, null_mut};
use sumsq_capi::modern::*;
use sumsq_capi::opt::*;
use sumsq_codegen_testing::rng::Rng;

const CASES: u64 = 200;
/// Calls per problem, at most.
const CALLS: usize = 24;
/// Bytes of memory given with every pointer.
const ROOM: usize = 512;
/// Guard bytes behind the memory that a call may write to.
const CANARY: u8 = 0xa5;

const ENERGY: &str = r#"
    local N, M = Dim("N", 0), Dim("M", 1)
    local X = Unknown("X", opt_float2, {N}, 0)
    local A = Array("A", uint8, {N, M}, 1)
    local T = Unknown("T", double, {}, 2)
    local w = Param("w", float, 3)
    local G = Graph("G", 4, "v0", {N}, 5, "v1", {N, M}, 6)
    Energy(X(0) - T(), w * X(G.v0) - A(G.v1))
    Residual{loss=Huber(1), X(0) - X(1)}
"#;

const NAMES: [&str; 12] = ["X", "A", "T", "w", "G.v0", "G.v1", "G", "N", "M", "", "Y", "G.v0.v1"];
const INTEGERS: [i64; 14] =
    [0, 1, 2, 3, -1, 7, 255, i32::MAX as i64, i32::MIN as i64, 1 << 31, 1 << 32, i64::MAX, i64::MIN, 1 << 62];
const FLOATS: [f64; 12] =
    [0.0, -0.0, 1.0, 1e-3, -1.0, 1e300, 5e-324, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.5, 1e-10];

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}

/// Runs a case for each seed; a panic, here or behind the interface, names it.
fn each(case: impl Fn(&mut Rng, &mut dyn FnMut(&str))) {
    let (first, cases) = (setting("SUMSQ_FUZZ_SEED", 1), setting("SUMSQ_FUZZ_CASES", CASES));
    for seed in first..first + cases {
        let mut calls = Vec::new();
        let mut note = |call: &str| {
            if cases == 1 {
                println!("{call}");
            }
            calls.push(call.to_string());
            let said = last_error();
            assert!(!said.contains("a defect of sumsq"), "seed {seed}: {said}\n{}", calls.join("\n"));
        };
        case(&mut Rng::new(seed), &mut note);
    }
    println!("{cases} problems from seed {first}");
}

/// Memory with a canary behind it, at any alignment.
struct Room {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Room {
    fn new(rng: &mut Rng, len: usize) -> Room {
        let start = rng.below(9);
        let mut bytes = vec![CANARY; start + len + ROOM];
        let any = rng.below(3);
        for byte in &mut bytes[start..start + len] {
            *byte = match any {
                0 => 0,
                1 => rng.below(3) as u8,
                _ => rng.bits() as u8,
            };
        }
        Room { bytes, start, len }
    }

    fn at(&mut self) -> *mut c_void {
        self.bytes[self.start..].as_mut_ptr().cast()
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[self.start + at..][..bytes.len()].copy_from_slice(bytes);
    }

    #[track_caller]
    fn check(&self) {
        let around = self.bytes[..self.start].iter().chain(&self.bytes[self.start + self.len..]);
        assert!(around.into_iter().all(|&b| b == CANARY), "memory beyond {} bytes was written", self.len);
    }
}

fn name(rng: &mut Rng) -> Option<CString> {
    match rng.below(30) {
        0 => None,
        1 => Some(CString::new([0xff, 0xfe, b'X']).expect("no NUL")),
        _ => Some(c(rng.pick(&NAMES))),
    }
}

fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(null(), |t| t.as_ptr())
}

/// Options of any size up to a bit more than there is, some fields anything.
fn options(rng: &mut Rng) -> Room {
    let full = size_of::<sumsq_options>();
    let size = if rng.percent(70) { full } else { rng.below(full + 40) };
    let mut defaults = sumsq_options { size: full, ..sumsq_options::default() };
    for _ in 0..rng.pick(&[0, 0, 1, 1, 2, 4]) {
        let (integer, float) = (rng.pick(&INTEGERS), rng.pick(&FLOATS));
        let code = integer as i32;
        match rng.below(18) {
            0 => defaults.method = code,
            1 => defaults.precision = code,
            2 => defaults.preconditioner = code,
            // As many threads as may be asked for are not started a thousand times.
            3 => defaults.threads = rng.pick(&[-1, 1, 2, 1025, i32::MAX]),
            4 => defaults.iterations = integer,
            5 => defaults.linear_iterations = rng.pick(&[-1, 0, 1, 30, i64::MIN]),
            6 => defaults.linear_tolerance = float,
            7 => defaults.forcing = float,
            8 => defaults.radius = float,
            9 => defaults.max_radius = float,
            10 => defaults.min_radius = float,
            11 => defaults.min_relative_decrease = float,
            12 => defaults.gradient_tolerance = float,
            13 => defaults.max_seconds = float,
            14 => defaults.min_lm_diagonal = float,
            15 => defaults.running_scales = code,
            16 => defaults.losses = code,
            _ => defaults.max_memory = integer,
        }
    }
    let mut room = Room { bytes: vec![CANARY; 3 + full + 40 + ROOM], start: 3, len: full + 40 };
    // SAFETY: a struct of integers and floats without padding, read as bytes.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const defaults).cast::<u8>(), full) };
    room.put(0, &[0; size_of::<sumsq_options>() + 40]);
    room.put(0, bytes);
    let said = if rng.percent(95) { size } else { rng.pick(&[0, 7, 4097, usize::MAX]) };
    room.put(0, &said.to_ne_bytes());
    room
}

extern "C" fn stop(_: *const sumsq_report, user: *mut c_void) -> c_int {
    // SAFETY: `user` is the counter that it was given with.
    let left = unsafe { &mut *user.cast::<c_int>() };
    *left -= 1;
    c_int::from(*left <= 0)
}

/// One call on a problem.
fn call(rng: &mut Rng, problem: *mut sumsq_problem) -> (Status, String) {
    let problem = if rng.percent(2) { null_mut() } else { problem };
    let (named, element) = (name(rng), rng.pick(&[1, 2, 6, 8, 3, 4, 5, 7, 9, 10, 11, 0, -1, 12, i32::MAX]));
    match rng.below(12) {
        0 | 1 => {
            let extent = if rng.percent(80) { rng.range(1, 5) } else { rng.pick(&INTEGERS) };
            // Large ones are right, but not for a test.
            let extent = if (6..1 << 31).contains(&extent) { 4 } else { extent };
            // SAFETY: a handle or null, a string or null.
            let status = unsafe { sumsq_set_dim(problem, pointer(&named), extent) };
            (status, format!("set_dim {named:?} {extent}"))
        }
        k @ 2..=7 => {
            let bytes = match rng.below(4) {
                0 => rng.below(ROOM),
                _ => rng.pick(&[1, 2, 4, 8]) * rng.range(1, 5) as usize * rng.pick(&[1, 1, 2, 3, 4, 5]),
            };
            let mut room = Room::new(rng, bytes);
            let data = if rng.percent(3) { null_mut() } else { room.at() };
            // SAFETY: a handle or null, a string or null, so many bytes or null.
            let status = unsafe {
                match k {
                    2 => sumsq_get(problem, pointer(&named), element, data, bytes),
                    _ => sumsq_set(problem, pointer(&named), element, data, bytes),
                }
            };
            room.check();
            (status, format!("{} {named:?} {element} {bytes}", if k == 2 { "get" } else { "set" }))
        }
        8 => {
            let size = rng.pick(&[size_of::<sumsq_report>(), size_of::<sumsq_report>() + 16, 8, 9, 40]);
            let mut room = Room::new(rng, size);
            room.put(0, &size.to_ne_bytes());
            let report = if rng.percent(5) { null_mut() } else { room.at().cast() };
            // SAFETY: a handle or null; as many bytes as the size says, or null.
            let status = unsafe { sumsq_get_report(problem, report) };
            room.check();
            (status, format!("get_report {size}"))
        }
        9 => {
            let mut ended = 0;
            // SAFETY: a handle or null, a place.
            let status = unsafe { sumsq_step(problem, if rng.percent(5) { null_mut() } else { &mut ended }) };
            (status, "step".into())
        }
        k => {
            let mut given = options(rng);
            let at: *const sumsq_options = if rng.percent(30) { null() } else { given.at().cast() };
            let mut left: c_int = 12;
            // SAFETY: a handle or null; options with their size, or null; the counter outlives the call.
            let status = unsafe {
                match k {
                    10 => sumsq_start(problem, at),
                    _ => sumsq_solve(problem, at, Some(stop), (&raw mut left).cast()),
                }
            };
            given.check();
            (status, if k == 10 { "start" } else { "solve" }.into())
        }
    }
}

fn solver(options: *const sumsq_options) -> (Status, *mut sumsq_solver) {
    let mut solver = null_mut();
    // SAFETY: valid strings and a place; options with their size, or null.
    let made = unsafe { sumsq_solver_from_text(c("e.t").as_ptr(), c(ENERGY).as_ptr(), options, &mut solver) };
    assert_eq!(made == Status::Ok, !solver.is_null());
    (made, solver)
}

#[test]
fn any_calls_of_problems_are_answered() {
    let (made, common) = solver(null());
    assert_eq!(made, Status::Ok, "{}", last_error());
    each(|rng, note| {
        let mut own = null_mut();
        if rng.percent(3) {
            let mut options = options(rng);
            let (status, made) = solver(options.at().cast());
            note(&format!("compile: {status:?}"));
            assert_ne!(status, Status::Internal, "{}", last_error());
            own = made;
        }
        let mut problem = null_mut();
        // SAFETY: a valid handle and a place.
        unsafe { sumsq_problem_new(if own.is_null() { common } else { own }, &mut problem) };
        // Mostly what a solve needs is there.
        if rng.percent(70) {
            complete(rng, problem);
        }
        for _ in 0..rng.below(CALLS) {
            let (status, what) = call(rng, problem);
            note(&format!("{what}: {status:?}"));
            assert_ne!(status, Status::Internal, "{what}: {}", last_error());
        }
        // SAFETY: valid handles, not used again.
        unsafe {
            sumsq_problem_free(problem);
            sumsq_solver_free(own);
        }
    });
    // SAFETY: a valid handle, not used again.
    unsafe { sumsq_solver_free(common) };
}

/// All numbers of the energy, of the right sizes.
fn complete(rng: &mut Rng, problem: *mut sumsq_problem) {
    let (n, m) = (rng.range(1, 4), rng.range(1, 3));
    let edges = rng.range(1, 5) as usize;
    let doubles = |rng: &mut Rng, n: usize| -> Vec<u8> {
        (0..n).flat_map(|_| (rng.range(-8, 8) as f64 / 4.0).to_ne_bytes()).collect()
    };
    let index = |rng: &mut Rng, dims: &[i64]| -> Vec<u8> {
        let one = |rng: &mut Rng, &d: &i64| (rng.below(d as usize) as i32).to_ne_bytes();
        (0..edges).flat_map(|_| dims.iter().flat_map(|d| one(rng, d)).collect::<Vec<u8>>()).collect()
    };
    let all = [
        ("X", 2, doubles(rng, 2 * n as usize)),
        ("A", 8, (0..n * m).map(|_| rng.bits() as u8).collect()),
        ("T", 2, doubles(rng, 1)),
        ("w", 2, doubles(rng, 1)),
        ("G.v0", 6, index(rng, &[n])),
        ("G.v1", 6, index(rng, &[n, m])),
    ];
    // SAFETY: a valid handle, strings, and live data.
    unsafe {
        assert_eq!(sumsq_set_dim(problem, c("N").as_ptr(), n), Status::Ok);
        assert_eq!(sumsq_set_dim(problem, c("M").as_ptr(), m), Status::Ok);
        for (name, element, data) in all {
            let set = sumsq_set(problem, c(name).as_ptr(), element, data.as_ptr().cast(), data.len());
            assert_eq!(set, Status::Ok, "{name}: {}", last_error());
        }
    }
}

#[test]
fn any_calls_of_the_published_interface_are_answered() {
    let energy = file(ENERGY);
    let valid = state(true);
    let problems = ["gaussNewtonGPU", "LMGPU"].map(|kind| define(valid, &energy.path, kind));
    assert!(problems.iter().all(|p| !p.is_null()), "{}", last_error());
    each(|rng, note| {
        let any = |rng: &mut Rng| rng.pick(&INTEGERS) as c_int;
        let parameters = Opt_InitializationParameters {
            doublePrecision: any(rng),
            verbosityLevel: rng.pick(&[0, -1, i32::MIN]),
            collectPerKernelTimingInfo: any(rng),
            threadsPerBlock: any(rng),
        };
        let made = Opt_NewState(parameters);
        note(&format!("{parameters:?}: {}", !made.is_null()));
        let given = if rng.percent(3) { null_mut() } else { valid };
        let (n, m, edges) = (rng.range(1, 4) as usize, rng.range(1, 3) as usize, rng.range(1, 4) as usize);
        let mut dims = [n as u32, m as u32];
        if rng.percent(10) {
            dims[rng.below(2)] = rng.pick(&[0, 1 << 31, u32::MAX]);
        }
        let problem = if rng.percent(3) { null_mut() } else { rng.pick(&problems) };
        let extents = if rng.percent(3) { null_mut() } else { dims.as_mut_ptr() };
        // SAFETY: handles or null, as many dims as the energy declares or null.
        let plan = unsafe { Opt_ProblemPlan(given, problem, extents) };
        note(&format!("plan {dims:?}: {}", !plan.is_null()));
        let mut rooms = [16 * n, n * m, 8, 4, 4, 4 * edges, 8 * edges].map(|bytes| Room::new(rng, bytes));
        for (v, extent) in [(5, 1), (6, 2)] {
            for i in 0..edges * extent {
                let most = if i % extent == 0 { n } else { m };
                let index = if rng.percent(2) { any(rng) } else { rng.below(most) as c_int };
                rooms[v].put(4 * i, &index.to_ne_bytes());
            }
        }
        let count =
            if rng.percent(10) { rng.pick(&[0, -1, i32::MIN]) } else { rng.range(1, edges as i64) as i32 };
        rooms[4].put(0, &count.to_ne_bytes());
        let mut table: Vec<*mut c_void> = rooms.iter_mut().map(Room::at).collect();
        for _ in 0..rng.below(CALLS) {
            if rng.percent(5) {
                table[rng.below(7)] = null_mut();
            }
            let params = if rng.percent(3) { null_mut() } else { table.as_mut_ptr() };
            let what = published(rng, given, plan, params);
            note(&what);
            rooms.iter().for_each(Room::check);
        }
        // SAFETY: a valid handle or null, not used again.
        unsafe { Opt_PlanFree(given, plan) };
    });
}

/// One call on a plan.
fn published(rng: &mut Rng, state: *mut Opt_State, plan: *mut Opt_Plan, table: *mut *mut c_void) -> String {
    const PARAMETERS: [&str; 16] = [
        "nIterations",
        "lIterations",
        "min_relative_decrease",
        "trust_region_radius",
        "min_trust_region_radius",
        "max_trust_region_radius",
        "radius_decrease_factor",
        "q_tolerance",
        "function_tolerance",
        "gradient_tolerance",
        "step_tolerance",
        "min_lm_diagonal",
        "max_lm_diagonal",
        "residual_reset_period",
        "nothing",
        "",
    ];
    let plan = if rng.percent(2) { null_mut() } else { plan };
    // SAFETY: handles or null; a table of pointers to what is declared, or null; 4 bytes for each parameter.
    unsafe {
        match rng.below(8) {
            0..=2 => {
                let name = rng.pick(&PARAMETERS);
                let mut bits = match rng.percent(50) {
                    true => (rng.pick(&FLOATS) as f32).to_bits(),
                    // Counts that a test has time for.
                    false => rng.pick(&[0, 1, 2, 30, u32::MAX, 1 << 31]),
                };
                if name.ends_with("Iterations") && (31..1 << 31).contains(&bits) {
                    bits = 5;
                }
                let value = if rng.percent(5) { null_mut() } else { (&raw mut bits).cast() };
                Opt_SetSolverParameter(state, plan, c(name).as_ptr(), value);
                format!("{name} = {bits:#x}")
            }
            3 | 4 => {
                Opt_ProblemInit(state, plan, table);
                "init".into()
            }
            5 => {
                Opt_ProblemSolve(state, plan, table);
                "solve".into()
            }
            6 => format!("cost {}", Opt_ProblemCurrentCost(state, plan)),
            _ => format!("step {}", Opt_ProblemStep(state, plan, table)),
        }
    }
}
