//! Constant views and L_p.

use super::{agrees, options, steps_agree};
use sumsq::assembled::Explicit;
use sumsq::{NamedArray, Precision, Preconditioner, Solver};
use sumsq_tests::{Random, assert_close, bind, bits, doubles, solve};

const W: usize = 33;
const H: usize = 17;

const L_P: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float3, {W,H}, 0)
    local XC = Array("XC", opt_float3, {W,H}, 0)
    local A = Array("A", opt_float3, {W,H}, 1)
    Residual{name="fit", X(0,0) - A(0,0)}
    for dx, dy in Stencil { {1,0}, {0,1} } do
        local d, c = X(0,0) - X(dx,dy), XC(0,0) - XC(dx,dy)
        Residual{name="sparse", merge=true, Select(InBounds(dx,dy), L_p(d, c, 0.8, {W,H}), 0)}
    end
"#;

fn images(channels: usize, seed: u64) -> Vec<NamedArray> {
    let mut random = Random::new(seed);
    let n = channels * W * H;
    vec![
        doubles("X", &[H, W, channels], random.numbers(n)),
        doubles("A", &[H, W, channels], random.numbers(n)),
    ]
}

#[test]
fn l_p_agrees() {
    agrees(L_P, &images(3, 31));
}

/// (x - a)^2 and |x| by `L_p`: it ends at a - 1, and times sqrt(p/2) at a - 1/2, where (x - a)^2 + |x| has its minimum.
#[test]
fn l_p_ends_where_the_docs_say() {
    let a = [1.5, 2.0, 4.0];
    for (factor, less) in [("1", 1.0), ("sqrt(1/2)", 0.5)] {
        let text = format!(
            "local N = Dim('N', 0)\nlocal X = Unknown('X', opt_float, {{N}}, 0)\nlocal XC = Array('XC', opt_float, {{N}}, 0)\n\
             local A = Array('A', opt_float, {{N}}, 1)\nEnergy(X(0) - A(0), {factor} * L_p(X(0), XC(0), 1, {{N}}))"
        );
        let (energy, mut data) =
            bind(&text, &[doubles("X", &[3], a.to_vec()), doubles("A", &[3], a.to_vec())]);
        let mut options = options(Precision::F64, Preconditioner::Auto);
        options.solve.iterations = Some(300);
        options.solve.function_tolerance = Some(0.0);
        solve(&energy, &mut data, &options);
        for (x, a) in data.unknowns()[0].iter().zip(a) {
            assert_close("x", *x, a - less, 1e-5);
        }
    }
}

/// With its weights frozen the energy is quadratic: the model is exact at every step, and what is reported after it is the
/// energy under refreshed weights.
#[test]
fn weights_lag_by_a_step() {
    let (energy, start) = bind(L_P, &images(3, 32));
    let options = options(Precision::F64, Preconditioner::Auto);
    let solver = Solver::compile(energy.clone(), &options.compile).unwrap();
    let mut problem = solver.plan(&start).unwrap();
    let mut session = problem.init(&start, &options.solve).unwrap();
    let (mut data, mut gaps) = (start.clone(), 0);
    for taken in 0..options.solve.iterations() {
        let frozen = data.clone();
        session.step().unwrap();
        let Some(step) = session.iterations().get(taken).cloned() else { break };
        session.unknowns(&mut data).unwrap();
        assert!(step.accepted, "{step:?}");
        assert!((step.gain_ratio - 1.0).abs() < 1e-6, "{step:?}");
        // Explicit takes its views from the data: here those of the new x ...
        let explicit = Explicit::new(&energy, &data).unwrap();
        let refreshed = explicit.energies(&explicit.initial());
        assert_close("refreshed energy", step.energy, refreshed.total, 1e-12);
        assert_close("of the sparse group", step.energy_by_group[1], refreshed.by_group[1], 1e-12);
        // ... and here those of the old one.
        let stale = Explicit::new(&energy, &frozen).unwrap().energies(&data.x()).total;
        gaps += usize::from((stale - refreshed.total).abs() > 1e-3 * stale);
    }
    assert!(gaps >= 2, "refreshing the weights made no difference");
}

/// A view inside a non-linear energy, read as an array and in a computed array, under an Exclude.
const NON_LINEAR: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float2, {W,H}, 0)
    local XC = Array("XC", opt_float2, {W,H}, 0)
    local A = Array("A", opt_float2, {W,H}, 1)
    Exclude(greater(A(0,0,0), 0.8))
    local S = ComputedArray("S", {W,H}, 2 / (1 + XC(0,0,1) * XC(0,0,1)) + cos(XC(1,0,0)))
    Energy(sin(3 * X(0,0)) * S(0,0) - A(0,0), 0.5 * X(0,0))
    Energy(X(0,0) * sin(XC(-1,0)) - 0.1 * X(0,1))
"#;

#[test]
fn views_in_a_non_linear_energy_agree() {
    agrees(NON_LINEAR, &images(2, 33));
}

/// A rejected step refreshes nothing: the same steps as on the assembled path, and E stays what it was.
#[test]
fn views_are_frozen_during_a_rejected_trial() {
    let mut long = options(Precision::F64, Preconditioner::Jacobi);
    (long.solve.radius, long.solve.iterations) = (Some(1e4), Some(8));
    let arrays = images(2, 34);
    let report = steps_agree(NON_LINEAR, &arrays, &long);
    let rejected = report.iterations.iter().filter(|i| !i.accepted).count();
    assert!(rejected >= 1 && rejected < report.iterations.len(), "{report:?}");
    let mut energy = report.energy_initial;
    for step in &report.iterations {
        assert!(step.accepted || step.energy == energy, "{step:?}");
        energy = step.energy;
    }
    // A plan that has solved once solves again from the same start to the same bits.
    let (energy, start) = bind(NON_LINEAR, &arrays);
    let solver = Solver::compile(energy, &long.compile).unwrap();
    let mut problem = solver.plan(&start).unwrap();
    let mut again = || {
        let mut data = start.clone();
        problem.solve(&mut data, &long.solve).unwrap();
        bits(&data)
    };
    assert!(again() == again());
}

/// Exclusion and bounds may follow from where the unknowns are at the start: also where only these change between solves.
#[test]
fn views_decide_what_is_held_at_the_start() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local XC = Array("XC", opt_float, {N}, 0)
        Exclude(less(XC(0), 0))
        Bounds(X, XC(0) - 1, XC(0) + 1)
        Energy(X(0) - 5)
    "#;
    let (energy, mut data) = bind(text, &[doubles("X", &[4], vec![1.0, -2.0, 3.0, -4.0])]);
    let mut options = options(Precision::F64, Preconditioner::Jacobi);
    (options.solve.radius, options.solve.iterations) = (Some(1e4), Some(20));
    let mut problem = Solver::compile(energy, &options.compile).unwrap().plan(&data).unwrap();
    assert_eq!(problem.evaluate(&data).unwrap().gradient, [[-4.0, 0.0, -2.0, 0.0]]);
    problem.solve(&mut data, &options.solve).unwrap();
    assert_eq!(data.x(), [2.0, -2.0, 4.0, -4.0]);
    data.set_x(&[-1.0, 2.0, -3.0, 3.5]).unwrap();
    problem.solve(&mut data, &options.solve).unwrap();
    assert_eq!(data.x(), [-1.0, 3.0, -3.0, 4.5]);
}
