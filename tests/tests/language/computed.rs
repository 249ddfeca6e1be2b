//! Computed arrays.

use super::{agrees, options};
use sumsq::assembled::LinearSolver;
use sumsq::{Options, Precision, Preconditioner, SolveOptions, Solver, assembled};
use sumsq_tests::{Random, assert_close, bind, doubles, indices, solve};

const W: usize = 37;
const H: usize = 21;

#[test]
fn vectors_nested_shifted_and_read_beyond_the_border() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local A = Array("A", opt_float2, {W,H}, 1)
        local S = ComputedArray("S", {W,H}, Vector(sin(X(0,0,0)) * X(1,0,1), cos(X(0,0,0)) + A(0,0,1) * X(0,-1,0)))
        local T = ComputedArray("T", {W,H}, S(0,0):dot(S(-1,1)) + cos(X(0,0,1)))
        local U = ComputedArray("U", {W,H}, T(0,0) * T(2,0) + Index(0) * 0.01 * S(0,1,0))
        Energy(0.5 * (X(0,0) - A(0,0)))
        Energy(Select(InBounds(1,0), S(0,0) - S(1,0), 0))
        Energy(T(0,0) - T(-1,0))
        Energy(Select(InBounds(0,0), T(3,0) + T(0,-2), 0))
        Energy(0.2 * (U(0,0) - A(0,0,0)), 0.1 * U(-1,-1) * X(0,0,0))
    "#;
    let mut random = Random::new(11);
    agrees(
        text,
        &[
            doubles("X", &[H, W, 2], random.numbers(2 * W * H)),
            doubles("A", &[H, W, 2], random.numbers(2 * W * H)),
        ],
    );
}

#[test]
fn under_a_mask_and_a_loss() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        Exclude(greater(A(0,0), 0.6))
        local S = ComputedArray("S", {W,H}, X(0,0) * X(0,0) - X(1,0))
        local V = ComputedArray("V", {W,H}, And(less(abs(X(0,0) - X(1,0)), 0.7), InBounds(1,0)))
        Energy(X(0,0) - A(0,0))
        Energy(Select(V(0,0), S(0,0) - S(0,1), 0))
        Residual{name="robust", loss=Cauchy(0.5), S(0,0) - S(-1,0), S(0,0) * X(0,1)}
    "#;
    let mut random = Random::new(12);
    agrees(
        text,
        &[doubles("X", &[H, W], random.numbers(W * H)), doubles("A", &[H, W], random.numbers(W * H))],
    );
}

#[test]
fn at_the_vertices_of_a_graph() {
    let text = r#"
        local W, H, N = Dim("W", 0), Dim("H", 1), Dim("N", 2)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local Y = Unknown("Y", opt_float, {N}, 1)
        local A = Array("A", opt_float2, {W,H}, 2)
        local S = ComputedArray("S", {W,H}, Vector(sin(X(0,0,0)) * X(0,0,1), exp(0.3 * X(0,0,1))))
        local R = ComputedArray("R", {N}, Y(0) * Y(0) + 1)
        local G = Graph("G", 3, "a", {W,H}, 4, "b", {W,H}, 5, "c", {N}, 6)
        Energy(X(0,0) - A(0,0))
        Energy(0.1 * Y(0))
        Energy(S(G.a) - S(G.b) * R(G.c))
        Energy(R(G.c) * S(G.a, 0) - X(G.b, 1))
    "#;
    let (n, e) = (23, 301);
    let mut random = Random::new(13);
    let places = |random: &mut Random| -> Vec<i64> {
        let (x, y) = (random.below(W, e), random.below(H, e));
        x.into_iter().zip(y).flat_map(|(x, y)| [x, y]).collect()
    };
    let (a, mut b) = (places(&mut random), places(&mut random));
    // Some edges whose ends coincide.
    b[..20].copy_from_slice(&a[..20]);
    agrees(
        text,
        &[
            doubles("X", &[H, W, 2], random.numbers(2 * W * H)),
            doubles("Y", &[n], random.numbers(n)),
            doubles("A", &[H, W, 2], random.numbers(2 * W * H)),
            indices("G.a", 2, a),
            indices("G.b", 2, b),
            indices("G.c", 1, random.below(n, e)),
        ],
    );
}

/// cos(0) is 1, yet outside the domain the array is 0: of W*H pixels the last column reads nothing.
#[test]
fn outside_the_domain_the_array_is_zero() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local S = ComputedArray("S", {W,H}, cos(X(0,0)))
        Energy(Select(InBounds(0,0), S(1,0), 0))
    "#;
    let (energy, mut data) = bind(text, &[doubles("X", &[H, W], vec![0.0; W * H])]);
    let report = solve(
        &energy,
        &mut data,
        &Options {
            solve: SolveOptions { iterations: Some(1), ..SolveOptions::default() },
            ..Options::default()
        },
    );
    assert_eq!(report.energy_initial, ((W - 1) * H) as f64);
    assert_eq!(report.residuals, (W - 1) * H);
    assert_eq!(report.unconstrained, W * H, "at 0 the cosine is flat");
}

/// Parts that the sweeps need of a space without unknowns are stored there too: weights of edges, an array computed from a global.
#[test]
fn over_a_space_without_unknowns() {
    let text = r#"
        local N, E = Dim("N", 0), Dim("E", 1)
        local X = Unknown("X", opt_float2, {N}, 0)
        local T = Unknown("T", opt_float, {}, 1)
        local Wt = Array("Wt", opt_float, {E}, 2)
        local A = Array("A", opt_float2, {N}, 3)
        local G = Graph("G", 4, "v0", {N}, 5, "v1", {N}, 6, "e", {E}, 7)
        local S = ComputedArray("S", {E}, sin(T() * Wt(0)))
        Energy(X(0) - A(0), 0.1 * T())
        Energy(exp(Wt(G.e)) * (X(G.v0) - X(G.v1)), S(G.e) * X(G.v1, 0))
    "#;
    let (n, e) = (41, 97);
    let mut random = Random::new(14);
    agrees(
        text,
        &[
            doubles("X", &[n, 2], random.numbers(2 * n)),
            doubles("T", &[], random.numbers(1)),
            doubles("Wt", &[e], random.numbers(e)),
            doubles("A", &[n, 2], random.numbers(2 * n)),
            indices("G.v0", 1, random.below(n, e)),
            indices("G.v1", 1, random.below(n, e)),
            indices("G.e", 1, (0..e as i64).collect()),
        ],
    );
}

/// Rings of rows are made of whole vectors, which end anywhere beyond the domain.
#[test]
fn rows_of_any_width() {
    let residuals = [
        "Energy(X(-1,0) - 2 * X(0,0) + X(1,0))",
        "Energy(X(0,0) - X(5,1))",
        "local S = ComputedArray('S', {W,H}, X(0,0) * A(2,0))\nEnergy(S(0,0) - S(0,1))",
        "local S = ComputedArray('S', {W,H}, X(0,0) * A(-1,0))\nlocal T = ComputedArray('T', {W,H}, S(3,0) * S(0,0))
         Energy(T(-2,0) - X(0,0))",
    ];
    for residual in residuals {
        let text = format!(
            "local W, H = Dim('W', 0), Dim('H', 1)
             local X, A = Unknown('X', opt_float, {{W,H}}, 0), Array('A', opt_float, {{W,H}}, 1)
             {residual}\nEnergy(0.5 * (X(0,0) - A(0,0)))"
        );
        let problem = |w: usize| {
            let mut random = Random::new(w as u64);
            [doubles("X", &[3, w], random.numbers(3 * w)), doubles("A", &[3, w], random.numbers(3 * w))]
        };
        let options = options(Precision::F64, Preconditioner::Jacobi);
        let solver = Solver::compile(bind(&text, &problem(1)).0, &options.compile).unwrap();
        for w in 1..=49 {
            let (energy, start) = bind(&text, &problem(w));
            let mut problem = solver.plan(&start).unwrap();
            let report = problem.solve(&mut start.clone(), &options.solve).unwrap();
            let expected = assembled::solve(
                &energy,
                &mut start.clone(),
                &options.compile,
                &options.solve,
                LinearSolver::Cg,
            )
            .unwrap();
            assert_close("initial energy", report.energy_initial, expected.energy_initial, 1e-12);
            assert_close("final energy", report.energy_final, expected.energy_final, 1e-8);
        }
    }
}

#[test]
fn one_that_nothing_reads() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        local B = ComputedArray("B", {W,H}, A(-2,1) * X(0,0))
        Energy(X(0,0) - A(0,0))
    "#;
    let mut random = Random::new(17);
    let arrays = ["X", "A"].map(|name| doubles(name, &[H, W], random.numbers(W * H)));
    agrees(text, &arrays);
}
