//! One compiled energy, many problems: unknowns, arrays, params, dims and graphs change without compiling again; a solve can be
//! taken step by step.

use sumsq::assembled::Explicit;
use sumsq::{
    CompileOptions, Control, DataError, NamedArray, OptionError, Options, Precision, Problem, ProblemData,
    Session, SolveError, SolveOptions, Solver, Termination,
};
use sumsq_tests::{
    Random, assert_close, assert_vectors_close, bind, bits, doubles, indices, one_exact_step, solve,
};

/// A fit with smoothness; linear, with a parameter and an exclusion.
const SMOOTH: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float, {W,H}, 0)
    local A = Array("A", opt_float, {W,H}, 1)
    local M = Array("M", opt_float, {W,H}, 2)
    local w = Param("w", opt_float, 3)
    Exclude(M(0,0))
    Energy(w * (X(0,0) - A(0,0)))
    Energy(X(0,0) - X(1,0), X(0,0) - X(0,1))
"#;

fn smooth(w: usize, h: usize, weight: f64, seed: u64) -> Vec<NamedArray> {
    let mut random = Random::new(seed);
    let mask = random.numbers(w * h).iter().map(|m| f64::from(u8::from(*m > 0.7))).collect();
    vec![
        doubles("X", &[h, w], random.numbers(w * h)),
        doubles("A", &[h, w], random.numbers(w * h)),
        doubles("M", &[h, w], mask),
        doubles("w", &[], vec![weight]),
    ]
}

/// Solving on `problem` gives, to the bit, what a fresh solver gives.
#[track_caller]
fn as_fresh(problem: &mut Problem, text: &str, data: &ProblemData, arrays: &[NamedArray], options: &Options) {
    let (energy, mut fresh) = bind(text, arrays);
    let expected = solve(&energy, &mut fresh, options);
    let mut data = data.clone();
    let report = problem.solve(&mut data, &options.solve).unwrap();
    assert_eq!(report.energy_initial, expected.energy_initial);
    assert_eq!(report.energy_final, expected.energy_final);
    assert_eq!((report.unknowns, report.residuals), (expected.unknowns, expected.residuals));
    assert_eq!(bits(&data), bits(&fresh));
}

#[test]
fn unknowns_arrays_params_and_masks() {
    let options = one_exact_step();
    let (energy, data) = bind(SMOOTH, &smooth(33, 9, 0.5, 1));
    let solver = Solver::compile(energy, &options.compile).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    as_fresh(&mut problem, SMOOTH, &data, &smooth(33, 9, 0.5, 1), &options);

    let mut arrays = smooth(33, 9, 0.5, 1);
    arrays[0] = doubles("X", &[9, 33], Random::new(9).numbers(33 * 9));
    let mut moved = data.clone();
    moved.update(problem.energy(), &arrays[..1]).unwrap();
    as_fresh(&mut problem, SMOOTH, &moved, &arrays, &options);

    // What was not given to the problem is an error, not an old answer.
    for (changed, name) in
        [(doubles("A", &[9, 33], vec![1.0; 33 * 9]), "`A`"), (doubles("w", &[], vec![2.0]), "`w`")]
    {
        let mut data = moved.clone();
        data.update(problem.energy(), &[changed]).unwrap();
        let before = bits(&data);
        match problem.solve(&mut data, &options.solve) {
            Err(SolveError::Stale(what)) => assert!(what.to_string().contains(name), "{what}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(bits(&data), before);
    }

    // Other values, another weight, other excluded elements.
    let arrays = smooth(33, 9, 2.0, 2);
    let data = bind(SMOOTH, &arrays).1;
    problem.set_arrays(&data).unwrap();
    as_fresh(&mut problem, SMOOTH, &data, &arrays, &options);

    // And back: nothing of the other problem is left.
    let arrays = smooth(33, 9, 0.5, 1);
    let data = bind(SMOOTH, &arrays).1;
    problem.set_arrays(&data).unwrap();
    as_fresh(&mut problem, SMOOTH, &data, &arrays, &options);
}

#[test]
fn dims() {
    let options = one_exact_step();
    let solver = Solver::compile(bind(SMOOTH, &smooth(4, 4, 1.0, 1)).0, &options.compile).unwrap();
    let mut first = solver.plan(&bind(SMOOTH, &smooth(40, 23, 1.0, 3)).1).unwrap();
    for (w, h) in [(1, 1), (1, 19), (50, 1), (16, 16), (17, 31), (300, 65)] {
        let arrays = smooth(w, h, 0.7, (w * h) as u64);
        let data = bind(SMOOTH, &arrays).1;
        let mut problem = solver.plan(&data).unwrap();
        as_fresh(&mut problem, SMOOTH, &data, &arrays, &options);
        first.rebind(&data).unwrap();
        as_fresh(&mut first, SMOOTH, &data, &arrays, &options);
    }
}

#[test]
fn data_of_another_size_are_refused() {
    let options = one_exact_step();
    let (energy, data) = bind(SMOOTH, &smooth(6, 4, 1.0, 1));
    let solver = Solver::compile(energy, &options.compile).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    // As many elements, in another shape.
    let mut other = bind(SMOOTH, &smooth(4, 6, 1.0, 1)).1;
    let before = bits(&other);
    assert!(matches!(problem.set_arrays(&other), Err(SolveError::Dims { .. })));
    assert!(matches!(problem.evaluate(&other), Err(SolveError::Dims { .. })));
    let e = problem.solve(&mut other, &options.solve).unwrap_err();
    assert!(e.to_string().contains("[6, 4]") && e.to_string().contains("[4, 6]"), "{e}");
    assert_eq!(bits(&other), before);
}

#[test]
fn graphs() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local G = Graph("G", 1, "v0", {N}, 2, "v1", {N}, 3)
        Energy(0.1 * (X(0) - 1))
        Energy(X(G.v0) - X(G.v1) - 0.5)
    "#;
    let arrays = |n: usize, e: usize| {
        let mut random = Random::new(e as u64);
        let (v0, v1) = (random.below(n, e), random.below(n, e));
        [doubles("X", &[n], random.numbers(n)), indices("G.v0", 1, v0), indices("G.v1", 1, v1)]
    };
    let options = one_exact_step();
    let (energy, data) = bind(text, &arrays(20, 60));
    let solver = Solver::compile(energy, &options.compile).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    for (n, e) in [(20, 60), (20, 61), (20, 3), (500, 2000), (2, 1)] {
        let data = bind(text, &arrays(n, e)).1;
        problem.rebind(&data).unwrap();
        as_fresh(&mut problem, text, &data, &arrays(n, e), &options);
    }
}

/// A curved valley.
const VALLEY: &str = r#"
    local N = Dim("N", 0)
    local X = Unknown("X", opt_float2, {N}, 0)
    local c = Param("c", opt_float, 1)
    Energy(10 * (X(0,1) - X(0,0) * X(0,0)))
    Energy(c - X(0,0))
"#;

fn valley(c: f64) -> Vec<NamedArray> {
    vec![doubles("X", &[3, 2], vec![-1.2, 1.0, 0.5, 2.0, 3.0, -1.0]), doubles("c", &[], vec![c])]
}

#[test]
fn energies_and_gradients_at_any_point() {
    let options = Options {
        compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
        ..Options::default()
    };
    let (energy, mut data) = bind(VALLEY, &valley(1.0));
    let solver = Solver::compile(energy.clone(), &options.compile).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    for seed in 0..3 {
        data.set_unknown("X", &Random::new(seed).numbers(6)).unwrap();
        let e = problem.evaluate(&data).unwrap();
        let explicit = Explicit::new(&energy, &data).unwrap();
        let x = explicit.initial();
        assert_close("E", e.energies.total, explicit.energies(&x).total, 1e-13);
        assert_close(
            "E of the second group",
            e.energies.by_group[1],
            explicit.energies(&x).by_group[1],
            1e-13,
        );
        assert_vectors_close("g", &e.gradient[0], &explicit.gradient(&x), 1e-13);
    }
    // Not finite is an answer too.
    data.set_unknown("X", &[f64::MAX, 1.0, 0.5, 2.0, 3.0, -1.0]).unwrap();
    assert!(!problem.evaluate(&data).unwrap().energies.total.is_finite());

    // The gradient is 0 at excluded elements, whatever is stored there.
    let (energy, data) = bind(SMOOTH, &smooth(20, 5, 1.0, 4));
    let solver = Solver::compile(energy.clone(), &options.compile).unwrap();
    let g = solver.plan(&data).unwrap().evaluate(&data).unwrap().gradient.concat();
    let explicit = Explicit::new(&energy, &data).unwrap();
    assert!(explicit.free() < 100);
    assert_vectors_close("g", &g, &explicit.scatter(&explicit.gradient(&explicit.initial())), 1e-13);
}

#[test]
fn step_by_step_is_the_same_as_at_once() {
    let options = Options {
        solve: SolveOptions { function_tolerance: Some(0.0), ..SolveOptions::default() },
        ..Options::default()
    };
    let (energy, start) = bind(VALLEY, &valley(1.0));
    let mut at_once = start.clone();
    let expected = solve(&energy, &mut at_once, &options);

    let solver = Solver::compile(energy, &options.compile).unwrap();
    let mut problem = solver.plan(&start).unwrap();
    let mut session = problem.init(&start, &options.solve).unwrap();
    let mut steps = 0;
    let ended = loop {
        steps += 1;
        let ended = session.step().unwrap();
        assert!(session.iterations().len() <= steps);
        if let Some(ended) = ended {
            break ended;
        }
    };
    assert_eq!(ended, expected.termination);
    assert_eq!(session.step().unwrap(), Some(ended), "after the end nothing happens");
    let mut data = start.clone();
    session.unknowns(&mut data).unwrap();
    let (report, _) = session.finish();
    assert_eq!(report.iterations.len(), expected.iterations.len());
    assert_eq!(report.energy_final, expected.energy_final);
    assert_eq!(bits(&data), bits(&at_once));
}

#[test]
fn a_session_that_owns_its_problem_gives_it_back() {
    let options = Options {
        solve: SolveOptions { function_tolerance: Some(0.0), ..SolveOptions::default() },
        ..Options::default()
    };
    let (energy, start) = bind(VALLEY, &valley(1.0));
    let mut expected = start.clone();
    solve(&energy, &mut expected, &options);
    let solver = Solver::compile(energy, &options.compile).unwrap();
    // The plan outlives its solver, and moves to another thread in the midst of a solve.
    let mut session = solver.plan(&start).unwrap().into_session(&start, &options.solve).unwrap();
    drop(solver);
    session.step().unwrap();
    let (mut data, steps) = (start.clone(), |mut session: Session| {
        while session.step().unwrap().is_none() {}
        session
    });
    let session = std::thread::spawn(move || steps(session)).join().unwrap();
    session.unknowns(&mut data).unwrap();
    let (_, mut problem) = session.finish();
    assert_eq!(bits(&data), bits(&expected));

    let broken = bind(VALLEY, &valley(f64::MAX)).1;
    problem.set_arrays(&broken).unwrap();
    let refused = problem.into_session(&broken, &options.solve).err().unwrap();
    assert!(matches!(refused.error, SolveError::InitialNotFinite { .. }), "{}", refused.error);
    let mut problem = refused.problem;
    problem.set_arrays(&start).unwrap();
    as_fresh(&mut problem, VALLEY, &start, &valley(1.0), &options);
}

/// Numbers are checked against the declarations of the energy that they were bound to: those of another one are an error.
#[test]
fn numbers_of_another_energy_are_refused() {
    let options = one_exact_step();
    let (energy, data) = bind(SMOOTH, &smooth(5, 4, 0.5, 1));
    let (other, mut others) = bind(VALLEY, &valley(1.0));
    let before = bits(&others);
    let solver = Solver::compile(energy.clone(), &options.compile).unwrap();
    let refused = |e: SolveError| assert!(matches!(e, SolveError::Data(DataError::OtherEnergy)), "{e}");
    refused(solver.plan(&others).err().unwrap());
    let mut problem = solver.plan(&data).unwrap();
    refused(problem.solve(&mut others, &options.solve).unwrap_err());
    refused(problem.set_arrays(&others).unwrap_err());
    refused(problem.rebind(&others).unwrap_err());
    refused(problem.evaluate(&others).unwrap_err());
    let mut session = problem.init(&data, &options.solve).unwrap();
    refused(session.set_arrays(&others).unwrap_err());
    refused(session.unknowns(&mut others).unwrap_err());
    assert_eq!(others.update(&energy, &valley(1.0)), Err(DataError::OtherEnergy));
    assert_eq!(others.check_exact(&energy, Precision::F32), Err(DataError::OtherEnergy));
    assert!(Explicit::new(&energy, &others).is_err() && Explicit::new(&other, &data).is_err());
    assert_eq!(bits(&others), before);
}

#[test]
fn params_change_between_steps() {
    let options = Options {
        compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
        solve: SolveOptions { function_tolerance: Some(0.0), ..SolveOptions::default() },
    };
    let (energy, start) = bind(VALLEY, &valley(1.0));
    let solver = Solver::compile(energy, &options.compile).unwrap();
    let mut problem = solver.plan(&start).unwrap();
    let mut session = problem.init(&start, &options.solve).unwrap();
    while session.step().unwrap().is_none() {}
    let changed = bind(VALLEY, &valley(2.0)).1;
    session.set_arrays(&changed).unwrap();
    // x is where it was, E is that of the new problem: 3 elements, (2 - 1)^2 each.
    assert_close("E", session.energies().total, 3.0, 1e-6);
    while session.step().unwrap().is_none() {}
    let mut data = changed.clone();
    session.unknowns(&mut data).unwrap();
    let (report, _) = session.finish();
    assert!(report.energy_final < 1e-12, "{report:?}");
    for x in data.unknowns()[0].chunks(2) {
        assert!((x[0] - 2.0).abs() < 1e-6 && (x[1] - 4.0).abs() < 1e-5, "{x:?}");
    }
}

#[test]
fn what_was_compiled_is_what_a_solve_reports() {
    let (energy, start) = bind(VALLEY, &valley(1.0));
    let compiled =
        CompileOptions { precision: Precision::F32, threads: Some(1), ..CompileOptions::default() };
    let mut problem = Solver::compile(energy.clone(), &compiled).unwrap().plan(&start).unwrap();
    let report = problem.solve(&mut start.clone(), &SolveOptions::default()).unwrap();
    assert_eq!((report.precision, report.threads), ("f32", 1));

    let mut data = start.clone();
    let error = problem.solve(&mut data, &SolveOptions { radius: Some(f64::NAN), ..SolveOptions::default() });
    assert!(matches!(error, Err(SolveError::Option(OptionError::Number { name: "radius", .. }))));
    assert_eq!(bits(&data), bits(&start));
    let none = CompileOptions { threads: Some(0), ..CompileOptions::default() };
    assert!(matches!(Solver::compile(energy, &none), Err(SolveError::Option(OptionError::Zero { .. }))));
}

#[test]
fn the_callback_sees_each_step_and_can_end_the_solve() {
    let options = Options {
        solve: SolveOptions { function_tolerance: Some(0.0), ..SolveOptions::default() },
        ..Options::default()
    };
    let (energy, start) = bind(VALLEY, &valley(1.0));
    let solver = Solver::compile(energy, &options.compile).unwrap();
    let mut problem = solver.plan(&start).unwrap();
    let mut seen = vec![];
    let mut data = start.clone();
    let report = problem.solve_with(&mut data, &options.solve, &mut |step| {
        seen.push(step.iteration);
        if step.iteration == 3 { Control::Abort } else { Control::Continue }
    });
    let report = report.unwrap();
    assert_eq!((report.termination, seen), (Termination::UserAbort, vec![1, 2, 3]));
    assert_eq!(report.iterations.len(), 3);
    assert_ne!(bits(&data), bits(&start));
    assert_close(
        "E where it ended",
        problem.evaluate(&data).unwrap().energies.total,
        report.energy_final,
        1e-12,
    );
}

#[test]
fn a_start_that_is_not_finite_leaves_everything_as_it_was() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local A = Array("A", opt_float, {N}, 1)
        Energy(X(0) - A(0))
    "#;
    let arrays = |a: f64| [doubles("X", &[4], vec![1.0; 4]), doubles("A", &[4], vec![0.0, 2.0, a, 0.0])];
    let options = Options::default();
    let (energy, mut data) = bind(text, &arrays(f64::NAN));
    let before = bits(&data);
    let solver = Solver::compile(energy, &options.compile).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    let e = problem.solve(&mut data, &options.solve).unwrap_err();
    let said = e.to_string();
    for part in ["not finite at the start", "residual 1", "element (2) of {N}", "`A`[2]"] {
        assert!(said.contains(part), "no `{part}` in: {said}");
    }
    assert_eq!(bits(&data), before);
    // The problem is not spoilt.
    let arrays = arrays(3.0);
    let data = bind(text, &arrays).1;
    problem.set_arrays(&data).unwrap();
    as_fresh(&mut problem, text, &data, &arrays, &options);
}

/// Numbers that are no data, under a guard, poison nothing: neither values nor derivatives nor the preconditioner.
#[test]
fn no_data_under_guards() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local C = Array("C", opt_float2, {W,H}, 1)
        local w = Array("w", opt_float, {W,H}, 2)
        local G = Graph("G", 3, "v0", {W,H}, 4, "v1", {W,H}, 5)
        Exclude(less(w(0,0), -0.8))
        Energy(Select(greater(C(0,0,0), -1e30), X(0,0) - C(0,0), 0))
        Energy(Select(greater(w(0,0), 0), sqrt(w(0,0)) * (X(0,0) - X(1,0)), 0.1 * X(0,0)))
        Energy(greater(C(G.v1,0), -1e30) * (X(G.v0) - X(G.v1) * C(G.v1)))
    "#;
    let (w, h) = (37, 21);
    let n = w * h;
    let mut random = Random::new(8);
    let mut c = random.numbers(2 * n);
    for e in 0..n {
        match e % 3 {
            0 => c[2 * e..2 * e + 2].fill(f64::NEG_INFINITY),
            // The guard looks at channel 0 alone: NaN is not greater.
            1 => c[2 * e] = f64::NAN,
            _ => {}
        }
    }
    let pixels = |random: &mut Random| -> Vec<i64> {
        let (x, y) = (random.below(w, 400), random.below(h, 400));
        x.into_iter().zip(y).flat_map(|(x, y)| [x, y]).collect()
    };
    let arrays = [
        doubles("X", &[h, w, 2], random.numbers(2 * n)),
        doubles("C", &[h, w, 2], c),
        doubles("w", &[h, w], random.numbers(n)),
        indices("G.v0", 2, pixels(&mut random)),
        indices("G.v1", 2, pixels(&mut random)),
    ];
    let (energy, start) = bind(text, &arrays);
    for precision in [Precision::F64, Precision::Mixed, Precision::F32] {
        let options =
            Options { compile: CompileOptions { precision, ..one_exact_step().compile }, ..one_exact_step() };
        let options = Options {
            solve: SolveOptions {
                linear_tolerance: Some(if precision == Precision::F64 { 1e-13 } else { 1e-5 }),
                ..options.solve
            },
            ..options
        };
        let solver = Solver::compile(energy.clone(), &options.compile).unwrap();
        let mut problem = solver.plan(&start).unwrap();
        let explicit = Explicit::new(&energy, &start).unwrap();
        let e = problem.evaluate(&start).unwrap();
        let tolerance = if precision == Precision::F32 { 1e-5 } else { 1e-12 };
        let g = explicit.scatter(&explicit.gradient(&explicit.initial()));
        assert_vectors_close("g", &e.gradient.concat(), &g, tolerance);
        let mut data = start.clone();
        let report = problem.solve(&mut data, &options.solve).unwrap();
        // The energy is quadratic: one step ends at the minimum.
        let at = data.x();
        let explicit_energy = explicit.energies(&at).total;
        assert_close("E", report.energy_final, explicit_energy, tolerance);
        let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
        let (before, after) = (norm(&g), norm(&explicit.gradient(&at)));
        let limit = if precision == Precision::F64 { 1e-10 } else { 1e-4 };
        assert!(after <= limit * before, "{precision:?}: |g| went from {before} to {after}");
    }
}
