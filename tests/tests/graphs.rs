//! Graphs at their edges, on generated code against the assembled path: E, g, diag(J^T J), J^T J v and exact Gauss-Newton steps.

use sumsq::assembled::Explicit;
use sumsq::{CompileOptions, Method, NamedArray, Options, Precision, SolveOptions, Solver};
use sumsq_tests::{Random, assert_close, assert_vectors_close, bind, doubles, indices};

/// The matrix-free path agrees with the assembled one, at the given unknowns and after an exact Gauss-Newton step.
#[track_caller]
fn agrees(text: &str, arrays: &[NamedArray]) {
    let (energy, data) = bind(text, arrays);
    let explicit = Explicit::new(&energy, &data).unwrap();
    let x = explicit.initial();
    let (_, jacobian) = explicit.linearise(&x);
    let g = explicit.gradient(&x);
    let free = explicit.scatter(&vec![1.0; explicit.free()]);
    let v = Random::new(7).numbers(x.len()).iter().zip(free).map(|(v, free)| v * free).collect::<Vec<f64>>();
    for (precision, exact, step) in [(Precision::F64, 1e-11, 1e-8), (Precision::Mixed, 1e-11, 1e-4)] {
        let options = Options {
            compile: CompileOptions { precision, ..CompileOptions::default() },
            solve: SolveOptions {
                method: Method::GaussNewton,
                iterations: Some(1),
                linear_tolerance: Some(if precision == Precision::F64 { 1e-12 } else { 1e-6 }),
                linear_iterations: Some(5000),
                ..SolveOptions::default()
            },
        };
        let solver = Solver::compile(energy.clone(), &options.compile).unwrap();
        let mut problem = solver.plan(&data).unwrap();

        let e = problem.evaluate(&data).unwrap();
        assert_close("E", e.energies.total, explicit.energies(&x).total, exact);
        for (came, expected) in e.energies.by_group.iter().zip(&explicit.energies(&x).by_group) {
            let off = (came - expected).abs();
            assert!(off <= exact * expected + 1e-30, "E of a group: {came}, not {expected}");
        }
        assert_eq!(e.residuals, explicit.rows());
        assert_vectors_close("g", &e.gradient.concat(), &explicit.scatter(&g), exact);
        if precision == Precision::F64 {
            let certificate = problem.certify(&data, &x, &v).unwrap();
            assert!(certificate.failures().is_empty(), "{:?}", certificate.failures());
        }

        // The step s solves J^T J s = -g.
        let mut moved = data.clone();
        let report = problem.solve(&mut moved, &options.solve).unwrap();
        let x1 = moved.x();
        let (came, expected) = (report.energy_final, explicit.energies(&x1).total);
        // Where the energy vanishes, it does so up to the rounding of what it was.
        let bound = 1e-9 * expected + 1e-25 * report.energy_initial;
        assert!((came - expected).abs() <= bound, "E after a step: {came}, not {expected}");
        let s: Vec<f64> = x1.iter().zip(&x).map(|(a, b)| a - b).collect();
        let product = jacobian.apply_transpose(&jacobian.apply(&explicit.gather(&s)));
        let b: Vec<f64> = g.iter().map(|g| -g).collect();
        assert_vectors_close("J^T J s", &product, &b, step);
        assert_eq!(report.unconstrained, jacobian.diag().iter().filter(|&&d| d == 0.0).count());
    }
}

/// A non-linear energy over a graph of pairs, with data per hyperedge and per vertex, two channels.
const PAIRS: &str = r#"
    local N, E = Dim("N", 0), Dim("E", 1)
    local X = Unknown("X", opt_float2, {N}, 0)
    local A = Array("A", opt_float2, {N}, 1)
    local w = Array("w", opt_float, {E}, 2)
    local G = Graph("G", 3, "v0", {N}, 4, "v1", {N}, 5, "e", {E}, 6)
    local d = X(G.v0) - X(G.v1)
    Energy(w(G.e) * (d:dot(d) - 0.5), w(G.e) * (X(G.v0, 0) * sin(X(G.v1, 1)) - A(G.v1, 0)))
"#;

fn pairs(vertices: usize, v0: Vec<i64>, v1: Vec<i64>) -> Vec<NamedArray> {
    let edges = v0.len();
    let mut random = Random::new(edges as u64);
    let weights = random.numbers(edges).iter().map(|w| 1.5 + w).collect();
    vec![
        doubles("X", &[vertices, 2], random.numbers(2 * vertices)),
        doubles("A", &[vertices, 2], random.numbers(2 * vertices)),
        doubles("w", &[edges], weights),
        indices("G.v0", 1, v0),
        indices("G.v1", 1, v1),
        indices("G.e", 1, (0..edges as i64).collect()),
    ]
}

#[test]
fn random_pairs_with_loops_and_duplicates() {
    let mut random = Random::new(1);
    let (mut v0, mut v1) = (random.below(37, 150), random.below(37, 150));
    for e in 0..20 {
        (v0[e], v1[e]) = (v0[e + 20], v1[e + 20]); // twice the same
        v1[e + 40] = v0[e + 40]; // a vertex with itself
    }
    agrees(PAIRS, &pairs(37, v0, v1));
}

#[test]
fn vertices_without_edges() {
    // The first, the last, and a whole vector of lanes in between.
    let v = |random: &mut Random| {
        random.below(16, 60).iter().map(|v| if *v < 8 { v + 1 } else { v + 40 }).collect()
    };
    let mut random = Random::new(2);
    let (v0, v1) = (v(&mut random), v(&mut random));
    agrees(PAIRS, &pairs(70, v0, v1));
}

#[test]
fn one_edge() {
    agrees(PAIRS, &pairs(2, vec![1], vec![0]));
    agrees(PAIRS, &pairs(1, vec![0], vec![0]));
}

#[test]
fn one_vertex_in_all_edges() {
    agrees(PAIRS, &pairs(300, vec![5; 299], (0..300).filter(|&v| v != 5).collect()));
    agrees(PAIRS, &pairs(3, Random::new(3).below(3, 1000), vec![2; 1000]));
}

#[test]
fn a_vertex_of_degree_100_000() {
    let mut random = Random::new(4);
    let n = 100_000;
    let mut arrays = pairs(50, vec![7; n], random.below(50, n));
    // Small weights keep the sums of the order of one.
    arrays[2] = doubles("w", &[n], random.numbers(n).iter().map(|w| 0.003 * (1.5 + w)).collect());
    agrees(PAIRS, &arrays);
}

/// Three vertices in different spaces, read with all combinations of signs.
const HYPER: &str = r#"
    local N, M = Dim("N", 0), Dim("M", 1)
    local X = Unknown("X", opt_float, {N}, 0)
    local Y = Unknown("Y", opt_float3, {M}, 1)
    local A = Array("A", opt_float, {M}, 2)
    local G = Graph("G", 3, "a", {N}, 4, "b", {M}, 5, "c", {N}, 6)
    Energy(X(G.a) * Y(G.b) - X(G.c) * A(G.b), cos(X(G.a)) - Y(G.b, 1) * Y(G.b, 2))
"#;

#[test]
fn vertices_in_different_spaces() {
    let mut random = Random::new(5);
    let (n, m, e) = (19, 5, 83);
    agrees(
        HYPER,
        &[
            doubles("X", &[n], random.numbers(n)),
            doubles("Y", &[m, 3], random.numbers(3 * m)),
            doubles("A", &[m], random.numbers(m)),
            indices("G.a", 1, random.below(n, e)),
            indices("G.b", 1, random.below(m, e)),
            indices("G.c", 1, random.below(n, e)),
        ],
    );
}

/// Two graphs over the same vertices, a stencil along them and a fit, some excluded.
const MIXED: &str = r#"
    local N = Dim("N", 0)
    local X = Unknown("X", opt_float2, {N}, 0)
    local A = Array("A", opt_float2, {N}, 1)
    local M = Array("M", opt_float, {N}, 2)
    local G = Graph("G", 3, "v0", {N}, 4, "v1", {N}, 5)
    local T = Graph("T", 6, "i", {N}, 7, "j", {N}, 8, "k", {N}, 9)
    Exclude(greater(M(0), 0.5))
    Energy(0.3 * (X(0) - A(0)))
    Energy(X(1) - X(0) * X(-1, 0))
    Energy((X(G.v0) - X(G.v1)) * A(G.v0, 1))
    Energy(X(T.i, 0) * X(T.j, 1) - X(T.k, 0) * X(T.k, 1))
"#;

#[test]
fn several_graphs_with_stencils() {
    for n in [1, 2, 16, 45] {
        let mut random = Random::new(6 + n as u64);
        agrees(
            MIXED,
            &[
                doubles("X", &[n, 2], random.numbers(2 * n)),
                doubles("A", &[n, 2], random.numbers(2 * n)),
                doubles("M", &[n], random.numbers(n)),
                indices("G.v0", 1, random.below(n, 70)),
                indices("G.v1", 1, random.below(n, 70)),
                indices("T.i", 1, random.below(n, 33)),
                indices("T.j", 1, random.below(n, 33)),
                indices("T.k", 1, random.below(n, 33)),
            ],
        );
    }
}

/// A graph between pixels of one image and voxels of a volume, with a stencil on the image.
const PIXELS: &str = r#"
    local W, H, D = Dim("W", 0), Dim("H", 1), Dim("D", 2)
    local X = Unknown("X", opt_float, {W,H}, 0)
    local Y = Unknown("Y", opt_float2, {W,H,D}, 1)
    local A = Array("A", opt_float, {W,H}, 2)
    local G = Graph("G", 3, "p", {W,H}, 4, "q", {W,H}, 5, "v", {W,H,D}, 6)
    Energy(X(0,0) - A(0,0), 0.5 * (X(0,0) - X(1,0) * X(0,1)))
    Energy(X(G.p) - X(G.q) * Y(G.v, 0), Y(G.v, 1) * A(G.q) - X(G.p))
"#;

#[test]
fn graphs_over_images_and_volumes() {
    for (w, h, d) in [(5, 4, 3), (17, 9, 2), (1, 1, 1)] {
        let mut random = Random::new(w as u64);
        let e = 120;
        let pixels = |random: &mut Random| -> Vec<i64> {
            let (x, y) = (random.below(w, e), random.below(h, e));
            x.into_iter().zip(y).flat_map(|(x, y)| [x, y]).collect()
        };
        let (p, q) = (pixels(&mut random), pixels(&mut random));
        let v = pixels(&mut random)
            .chunks(2)
            .zip(random.below(d, e))
            .flat_map(|(p, z)| [p[0], p[1], z])
            .collect();
        agrees(
            PIXELS,
            &[
                doubles("X", &[h, w], random.numbers(w * h)),
                doubles("Y", &[d, h, w, 2], random.numbers(2 * w * h * d)),
                doubles("A", &[h, w], random.numbers(w * h)),
                indices("G.p", 2, p),
                indices("G.q", 2, q),
                indices("G.v", 3, v),
            ],
        );
    }
}
