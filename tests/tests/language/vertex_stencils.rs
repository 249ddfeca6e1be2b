//! Computed arrays that read around their own element, read at the vertices of hyperedges.

use super::{agrees, certified, options, steps_agree};
use sumsq::assembled::{Explicit, LinearSolver};
use sumsq::{
    CompileLimits, CompileOptions, Method, Options, Precision, Preconditioner, SolveOptions, assembled,
};
use sumsq_tests::{Random, assert_close, bind, doubles, indices, solve};

/// Vertices of `edges` pairs over a grid, flat: random ones, then pairs of neighbours, pairs that coincide, and pairs from the corners
/// to everywhere.
fn pairs(random: &mut Random, w: usize, h: usize, edges: usize) -> (Vec<i64>, Vec<i64>) {
    let (last_x, last_y) = (w as i64 - 1, h as i64 - 1);
    let (mut a, mut b) = (vec![], vec![]);
    for e in 0..edges {
        let mut place = || [random.below(w, 1)[0], random.below(h, 1)[0]];
        let (from, to) = (place(), place());
        let (from, to) = match e % 6 {
            0 | 1 => (from, to),
            2 => (from, [(from[0] + 1).min(last_x), from[1]]),
            3 => (from, [from[0], (from[1] - 1).max(0)]),
            4 => (from, from),
            _ => ([[0, 0], [last_x, 0], [0, last_y], [last_x, last_y]][e / 6 % 4], to),
        };
        a.extend(from);
        b.extend(to);
    }
    (a, b)
}

/// Vectors, a chain and a mask; images of no size that vectors like, and of hardly any.
#[test]
fn vectors_and_chains_over_an_image() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local A = Array("A", opt_float2, {W,H}, 1)
        local S = ComputedArray("S", {W,H}, Vector(
            sin(X(0,0,0)) * X(1,0,1), X(0,0,0) * A(0,1,1) - X(0,-1,1)))
        local T = ComputedArray("T", {W,H}, S(0,0):dot(S(0,1)))
        local G = Graph("G", 2, "a", {W,H}, 3, "b", {W,H}, 4)
        Exclude(greater(A(0,0,0), 0.8))
        Energy(0.4 * (X(0,0) - A(0,0)))
        Energy(S(G.a) - S(G.b) * A(G.b, 0))
        Energy(0.3 * T(G.a) - X(G.b, 1) * X(G.a, 0))
    "#;
    let arrays = |w: usize, h: usize, edges: usize| {
        let mut random = Random::new((w * edges) as u64);
        let (a, b) = pairs(&mut random, w, h, edges);
        [
            doubles("X", &[h, w, 2], random.numbers(2 * w * h)),
            doubles("A", &[h, w, 2], random.numbers(2 * w * h)),
            indices("G.a", 2, a),
            indices("G.b", 2, b),
        ]
    };
    agrees(text, &arrays(19, 7, 150));
    certified(text, &arrays(3, 2, 40), Preconditioner::BlockJacobi, CompileLimits::default());
    certified(text, &arrays(1, 1, 5), Preconditioner::BlockJacobi, CompileLimits::default());
}

/// Lists lie in records; a vertex of high degree has several rows; three vertices, one of another space, a global and losses.
#[test]
fn over_lists_under_losses() {
    let text = r#"
        local N, M = Dim("N", 0), Dim("M", 1)
        local X = Unknown("X", opt_float2, {N}, 0)
        local Y = Unknown("Y", opt_float, {M}, 1)
        local T = Unknown("T", opt_float, {}, 2)
        local A = Array("A", opt_float, {N}, 3)
        local R = ComputedArray("R", {N}, Rotate2D(X(0, 0), X(1) - X(-1)) * T() + A(2))
        local D = ComputedArray("D", {M}, 2 * Y(1) - Y(0) - 0.5 * Y(-2))
        local G = Graph("G", 4, "a", {N}, 5, "b", {N}, 6, "c", {M}, 7)
        Energy(0.4 * X(0), 0.3 * Y(0), T() - 1)
        Energy(R(G.a) - R(G.b) * D(G.c))
        Residual{name="second", loss=SecondOrder(Cauchy(0.7)), D(G.c) * X(G.a) - R(G.b)}
    "#;
    let (n, m, edges) = (35, 6, 130);
    let mut random = Random::new(31);
    let (mut a, mut b) = (random.below(n, edges), random.below(n, edges));
    a[..70].fill(11);
    for e in 40..60 {
        b[e] = [10, 11, 12, 13][e % 4];
    }
    (a[80], a[81], b[82]) = (0, n as i64 - 1, 0);
    let arrays = [
        doubles("X", &[n, 2], random.numbers(2 * n)),
        doubles("Y", &[m], random.numbers(m)),
        doubles("T", &[1], vec![0.8]),
        doubles("A", &[n], random.numbers(n)),
        indices("G.a", 1, a),
        indices("G.b", 1, b),
        indices("G.c", 1, random.below(m, edges)),
    ];
    certified(text, &arrays, Preconditioner::BlockJacobi, CompileLimits::default());
    steps_agree(text, &arrays, &options(Precision::F64, Preconditioner::Jacobi));
}

/// `Index` and `InBounds` mean the vertex; an array of constants and params has a slope that is not stored. Gauss-Newton, and as many
/// iterations of PCG as with the assembled diagonal.
#[test]
fn coordinates_and_borders() {
    let text = r#"
        local W, H, D = Dim("W", 0), Dim("H", 1), Dim("D", 2)
        local X = Unknown("X", opt_float, {W,H,D}, 0)
        local k = Param("k", opt_float, 1)
        local L = ComputedArray("L", {W,H,D}, k * X(0,0,0))
        local U = ComputedArray("U", {W,H,D}, L(1,0,0) - 0.1 * Index(1) * L(0,0,-1))
        local V = ComputedArray("V", {W,H,D}, Select(InBounds(-1,1,0), exp(X(-1,0,0)) * X(0,1,0), 1 + 0.2 * Index(2)))
        local G = Graph("G", 2, "a", {W,H,D}, 3, "b", {W,H,D}, 4)
        Energy(0.5 * X(0,0,0))
        Energy(U(G.a) - V(G.b), U(G.b) * X(G.a))
    "#;
    let (w, h, d, edges) = (5, 4, 3, 90);
    let mut random = Random::new(32);
    let (flat_a, flat_b) = pairs(&mut random, w, h, edges);
    let z = random.below(d, edges);
    let voxels =
        |flat: Vec<i64>| flat.chunks(2).zip(&z).flat_map(|(p, z)| [p[0], p[1], *z]).collect::<Vec<i64>>();
    let arrays = [
        doubles("X", &[d, h, w], random.numbers(w * h * d)),
        doubles("k", &[], vec![1.3]),
        indices("G.a", 3, voxels(flat_a)),
        indices("G.b", 3, voxels(flat_b)),
    ];
    certified(text, &arrays, Preconditioner::Jacobi, CompileLimits::default());
    let exact = options(Precision::F64, Preconditioner::Jacobi);
    steps_agree(
        text,
        &arrays,
        &Options {
            solve: SolveOptions { method: Method::GaussNewton, ..exact.solve.clone() },
            ..exact.clone()
        },
    );
    let (energy, start) = bind(text, &arrays);
    let stalling = Options {
        solve: SolveOptions { linear_tolerance: None, forcing: 1e-4, iterations: Some(1), ..exact.solve },
        ..exact
    };
    let expected =
        assembled::solve(&energy, &mut start.clone(), &stalling.compile, &stalling.solve, LinearSolver::Cg)
            .unwrap();
    let report = solve(&energy, &mut start.clone(), &stalling);
    assert!(expected.iterations[0].linear_iterations > 3, "{expected:?}");
    assert_eq!(report.iterations[0].linear_iterations, expected.iterations[0].linear_iterations);
}

/// An array is read at a vertex as it stands: around it what lies outside the domain is 0, and no hyperedge is left out for it.
#[test]
fn energy_and_instances_by_hand() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local B = ComputedArray("B", {W,H}, X(1,0) * X(0,0) - 2 * X(0,-1) + 3)
        local C = ComputedArray("C", {W,H}, B(1,0) + X(0,2))
        local G = Graph("G", 1, "a", {W,H}, 2, "b", {W,H}, 3)
        Energy(B(G.a) - C(G.b))
    "#;
    let (w, h, edges) = (4, 3, 60);
    let mut random = Random::new(33);
    let x = random.numbers(w * h);
    let (a, b) = pairs(&mut random, w, h, edges);
    let inside = |i: i64, j: i64| i >= 0 && j >= 0 && i < w as i64 && j < h as i64;
    let x_at = |i: i64, j: i64| if inside(i, j) { x[j as usize * w + i as usize] } else { 0.0 };
    let b_at =
        |i, j| if inside(i, j) { x_at(i + 1, j) * x_at(i, j) - 2.0 * x_at(i, j - 1) + 3.0 } else { 0.0 };
    let residual =
        |(a, b): (&[i64], &[i64])| b_at(a[0], a[1]) - (b_at(b[0] + 1, b[1]) + x_at(b[0], b[1] + 2));
    let expected: f64 = a.chunks(2).zip(b.chunks(2)).map(residual).map(|r| r * r).sum();
    let arrays =
        [doubles("X", &[h, w], x.clone()), indices("G.a", 2, a.clone()), indices("G.b", 2, b.clone())];
    let (energy, mut data) = bind(text, &arrays);
    let explicit = Explicit::new(&energy, &data).unwrap();
    assert_eq!(explicit.rows(), edges);
    assert_close("E", explicit.energies(&x).total, expected, 1e-13);
    let report = solve(
        &energy,
        &mut data,
        &Options {
            solve: SolveOptions { iterations: Some(1), ..SolveOptions::default() },
            ..Options::default()
        },
    );
    assert_eq!(report.residuals, edges);
    assert_close("E", report.energy_initial, expected, 1e-13);
    certified(text, &arrays, Preconditioner::Jacobi, CompileLimits::default());
}

/// A hyperedge counts iff one of the places that it reaches is in the domain and free: the last vertex has no right neighbour.
#[test]
fn a_hyperedge_that_reaches_nothing_does_not_count() {
    for (exclude, counted) in [("", 2), ("Exclude(eq(A(0), 1))", 1)] {
        let text = format!(
            r#"
            local N = Dim("N", 0)
            local X = Unknown("X", opt_float, {{N}}, 0)
            local A = Array("A", opt_float, {{N}}, 1)
            local C = ComputedArray("C", {{N}}, X(1) + A(0))
            local G = Graph("G", 2, "v", {{N}}, 3)
            {exclude}
            Energy(C(G.v))
        "#
        );
        let arrays = [
            doubles("X", &[3], vec![1.0, 2.0, 3.0]),
            doubles("A", &[3], vec![0.0, 1.0, 5.0]),
            indices("G.v", 1, vec![0, 1, 2]),
        ];
        let (energy, data) = bind(&text, &arrays);
        let solver = sumsq::Solver::compile(energy.clone(), &CompileOptions::default()).unwrap();
        let evaluation = solver.plan(&data).unwrap().evaluate(&data).unwrap();
        assert_eq!(evaluation.residuals, counted);
        assert_eq!(Explicit::new(&energy, &data).unwrap().rows(), counted);
        // (2 + 0)^2 and (3 + 1)^2.
        let expected = if counted == 2 { 20.0 } else { 16.0 };
        assert_close("E", evaluation.energies.total, expected, 1e-15);
    }
}
