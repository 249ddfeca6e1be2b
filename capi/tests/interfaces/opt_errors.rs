//! Mistakes in the published interface. It has no status codes: null, 0, and a message.

use crate::support::*;
use std::ffi::c_void;
use std::ptr::null_mut;
use sumsq_capi::opt::*;

const GRAPH: &str = r#"
    local N = Dim("N", 0)
    local X = Unknown("X", opt_float, {N}, 0)
    local w = Param("w", opt_float, 1)
    local G = Graph("G", 2, "v0", {N}, 3, "v1", {N}, 4)
    Energy(w * (X(0) - 1))
    Energy(X(G.v0) - X(G.v1))
"#;

#[track_caller]
fn says(parts: &[&str]) {
    let message = last_error();
    assert!(parts.iter().all(|p| message.contains(p)), "expected {parts:?} in: {message}");
}

#[test]
fn energies() {
    let state = state(false);
    let refused = |text: &str, kind: &str, parts: &[&str]| {
        let energy = file(text);
        assert!(define(state, &energy.path, kind).is_null());
        says(parts);
    };
    refused(GRAPH, "newtonGPU", &["newtonGPU", "LMGPU"]);
    let typo = "local N = Dim(\"N\", 0)\nlocal X = Unknown(\"X\", opt_float, {N}, 0)\nEnergy(X(0) - Y(0))\n";
    refused(typo, "LMGPU", &["energy.t:3", "`Y`"]);
    refused(
        &GRAPH.replace("\"w\", opt_float, 1", "\"w\", opt_float, 7"),
        "LMGPU",
        &["hole", "position 1", "`G`"],
    );
    refused(&GRAPH.replace("Dim(\"N\", 0)", "Dim(\"N\", 2)"), "LMGPU", &["hole", "dim", "`N`"]);
    assert!(define(state, "no/such/file.t".as_ref(), "LMGPU").is_null());
    says(&["no/such/file.t"]);
}

#[test]
fn null_pointers() {
    let (state, energy) = (state(true), file(GRAPH));
    let (path, kind) = (c(energy.path.to_str().unwrap()), c("LMGPU"));
    // SAFETY: null pointers are what is tested; the others are valid.
    unsafe {
        assert!(Opt_ProblemDefine(null_mut(), path.as_ptr(), kind.as_ptr()).is_null());
        says(&["state", "null"]);
        assert!(Opt_ProblemDefine(state, std::ptr::null(), kind.as_ptr()).is_null());
        says(&["file name", "null"]);
        assert!(Opt_ProblemDefine(state, path.as_ptr(), std::ptr::null()).is_null());
        let problem = Opt_ProblemDefine(state, path.as_ptr(), kind.as_ptr());
        assert!(Opt_ProblemPlan(state, null_mut(), [1].as_mut_ptr()).is_null());
        assert!(Opt_ProblemPlan(state, problem, null_mut()).is_null());
        says(&["dimensions", "null"]);
        Opt_ProblemDelete(state, null_mut());
        Opt_PlanFree(state, null_mut());
        Opt_SetSolverParameter(state, null_mut(), kind.as_ptr(), null_mut());
        Opt_ProblemSolve(state, null_mut(), null_mut());
        says(&["plan", "null"]);
        assert_eq!(Opt_ProblemStep(state, null_mut(), null_mut()), 0);
        assert!(Opt_ProblemCurrentCost(state, null_mut()).is_nan());
        Opt_ProblemDelete(state, problem);
    }
}

#[test]
fn sizes() {
    let (state, energy) = (state(true), file(GRAPH));
    let problem = define(state, &energy.path, "LMGPU");
    for extent in [0, u32::MAX] {
        // SAFETY: valid handles, one dim.
        assert!(unsafe { Opt_ProblemPlan(state, problem, [extent].as_mut_ptr()) }.is_null());
        says(&["`N`", &extent.to_string()]);
    }
    // SAFETY: a valid handle, not used again.
    unsafe { Opt_ProblemDelete(state, problem) };
}

#[test]
fn parameters_of_the_state() {
    let with = |verbosity, threads| {
        let p = Opt_InitializationParameters {
            doublePrecision: 0,
            verbosityLevel: verbosity,
            collectPerKernelTimingInfo: 1,
            threadsPerBlock: threads,
        };
        !Opt_NewState(p).is_null()
    };
    assert!(with(0, 0) && with(3, 256));
    assert!(!with(-1, 0) && !with(0, 100) && !with(0, -32));
}

#[test]
fn solver_parameters() {
    let energy = file(GRAPH);
    let opt = Opt::new(&energy.path, "LMGPU", false, &[3]);
    opt.int("iterations", 3);
    says(&["`iterations`"]);
    opt.int("nIterations", -1);
    says(&["`nIterations`", "-1"]);
    for (name, bad) in
        [("trust_region_radius", 0.0), ("radius_decrease_factor", 1.0), ("q_tolerance", f32::NAN)]
    {
        opt.float(name, bad);
        says(&[name, &bad.to_string()]);
    }
    // SAFETY: valid handles, a null value.
    unsafe { Opt_SetSolverParameter(opt.state, opt.plan, c("lIterations").as_ptr(), null_mut()) };
    says(&["lIterations", "null"]);
    opt.int("not one", 0);
    says(&["not one"]);
    let all = ["min_relative_decrease", "min_trust_region_radius", "max_trust_region_radius", "q_tolerance"];
    let more = ["function_tolerance", "trust_region_radius", "radius_decrease_factor"];
    for name in all.iter().chain(&more).chain(&["min_lm_diagonal", "max_lm_diagonal"]) {
        opt.float(name, 1.5);
    }
    opt.int("residual_reset_period", 10);
    // Nothing of that was an error.
    says(&["not one"]);
}

#[test]
fn tables() {
    let energy = file(GRAPH);
    let opt = Opt::new(&energy.path, "LMGPU", true, &[3]);
    let (x, w) = (Memory::new(&[0.5f64, 1.5, 2.5]), Memory::new(&[1.0f64]));
    let (edges, v0, v1) = (Memory::new(&[2]), Memory::new(&[0, 1]), Memory::new(&[1, 2]));
    let whole = [x.at(), w.at(), edges.at(), v0.at(), v1.at()];
    for (position, name) in ["`X`", "`w`", "`G`", "`G.v0`", "`G.v1`"].into_iter().enumerate() {
        let mut table = whole;
        table[position] = null_mut::<c_void>();
        opt.init(&mut table);
        says(&[name, "null", &position.to_string()]);
        assert_eq!(opt.step(&mut table), 0);
        assert!(opt.cost().is_nan());
    }
    let mut table = whole;
    v1.set(1, 3);
    opt.init(&mut table);
    says(&["graph `G`", "`G.v1`", "row 1", "3"]);
    v1.set(1, 2);
    for count in [0, -5] {
        edges.set(0, count);
        opt.init(&mut table);
        says(&["graph `G`", &count.to_string()]);
    }
    edges.set(0, 2);
    w.set(0, f64::NAN);
    opt.init(&mut table);
    says(&["param `w`", "NaN"]);
    w.set(0, f64::MAX);
    opt.init(&mut table);
    says(&["not finite"]);
    w.set(0, 1.0);
    opt.init(&mut table);
    let start = opt.cost();
    assert!(start > 0.0);
    // A mistake in a step ends the solve with the unknowns as they were; a new one starts well.
    assert_eq!(opt.step(&mut table), 1);
    let good = x.get();
    v0.set(0, -1);
    assert_eq!(opt.step(&mut table), 0);
    says(&["`G.v0`", "-1"]);
    assert_eq!(x.get(), good);
    v0.set(0, 0);
    opt.solve(&mut table);
    assert!(opt.cost() < start);
}
