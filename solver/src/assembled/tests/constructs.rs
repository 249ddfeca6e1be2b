//! Computed arrays, sampled images, constant views, globals, robust losses: against energies written out by hand, and against
//! finite differences of E.

use crate::assembled::random::seeded_direction;
use crate::assembled::tests::*;

/// 2-D: `X` (2 channels), `A`, `B`; 1-D: `Y`; the global `T` (2 channels); two graphs' worth of indices.
const DECLARATIONS: &str = r#"
local W, H, N = Dim("W", 0), Dim("H", 1), Dim("N", 2)
local X = Unknown("X", opt_float2, {W, H}, 0)
local Y = Unknown("Y", opt_float, {N}, 1)
local T = Unknown("T", opt_float2, {}, 2)
local A = Array("A", opt_float, {W, H}, 3)
local B = Array("B", opt_float, {N}, 4)
local s = Param("s", float, 5)
local G = Graph("G", 6, "v", {N}, 7, "w", {N}, 8)
Energy(0.1 * X(0, 0), 0.1 * Y(0), 0.1 * T())
"#;
const W: usize = 5;
const H: usize = 4;
const N: usize = 6;

fn real(name: &str, shape: &[usize], seed: u64) -> NamedArray {
    let data = ArrayData::F64(seeded_direction(shape.iter().product(), seed));
    NamedArray { name: name.to_string(), shape: shape.to_vec(), data }
}

fn bind_all(energy: &Energy, scale: f64) -> ProblemData<'static> {
    let index = |name: &str, v: [i64; 4]| NamedArray {
        name: name.to_string(),
        shape: vec![4],
        data: ArrayData::Int(v.to_vec(), "int64"),
    };
    let s = NamedArray { name: "s".into(), shape: vec![], data: ArrayData::F64(vec![scale]) };
    let arrays = [
        real("X", &[H, W, 2], 1),
        real("Y", &[N], 2),
        real("T", &[2], 3),
        real("A", &[H, W], 4),
        real("B", &[N], 5),
        s,
        index("G.v", [0, 3, 3, 5]),
        index("G.w", [1, 2, 3, 0]),
    ];
    ProblemData::bind(energy, &arrays).unwrap().into_owned()
}

fn load(body: &str) -> Energy {
    let text = format!("{DECLARATIONS}{body}");
    Energy::from_text("test.t", &text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// `f` of the problem that `body` makes of the declarations.
fn with<R>(body: &str, f: impl FnOnce(&Explicit<'_>, &[f64]) -> R) -> R {
    let energy = load(body);
    let data = bind_all(&energy, 0.7);
    let problem = Explicit::new(&energy, &data).unwrap();
    f(&problem, &problem.initial())
}

fn assert_near(came: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(came.len(), expected.len());
    let size = expected.iter().fold(1e-300, |m: f64, e| m.max(e.abs()));
    for (i, (c, e)) in came.iter().zip(expected).enumerate() {
        assert!((c - e).abs() <= tolerance * size, "entry {i}: {c}, expected {e}");
    }
}

/// The two bodies mean the same: residual by residual, and J.
fn assert_same(body: &str, by_hand: &str) {
    let evaluate = |problem: &Explicit<'_>, x: &[f64]| {
        (problem.residuals(x), problem.jacobian(x).to_dense().into_raw_vec_and_offset().0)
    };
    let (r, j) = with(body, evaluate);
    let (r_by_hand, j_by_hand) = with(by_hand, evaluate);
    assert_near(&r, &r_by_hand, 1e-14);
    assert_near(&j, &j_by_hand, 1e-14);
    with(body, assert_gradient_of_energy);
}

/// g is half the gradient of E, by differences.
fn assert_gradient_of_energy(problem: &Explicit<'_>, x: &[f64]) {
    let h = 1.0 / 4096.0;
    let slope = |&scalar: &u32| {
        let at = |by: f64| {
            let mut x = x.to_vec();
            x[scalar as usize] += by;
            problem.energies(&x).total
        };
        let (wide, narrow) = ((at(h) - at(-h)) / (2.0 * h), (at(0.5 * h) - at(-0.5 * h)) / h);
        0.5 * (4.0 * narrow - wide) / 3.0
    };
    let expected: Vec<f64> = problem.free_scalars().iter().map(slope).collect();
    assert_near(&problem.gradient(x), &expected, 1e-9);
}

#[test]
fn a_computed_array_is_what_it_is_defined_as() {
    // Shifted reads, the array's own box included in the boundary rule.
    assert_same(
        "local C = ComputedArray('C', {W, H}, X(1, 0, 0) * A(0, 1) - X(0, 0, 1))\n\
         Energy(C(0, 0) - sin(C(-1, 2)))",
        "Energy((X(1, 0, 0) * A(0, 1) - X(0, 0, 1)) - sin(X(0, 2, 0) * A(-1, 3) - X(-1, 2, 1)))",
    );
    // Vectors, nested, with coordinates.
    assert_same(
        "local C = ComputedArray('C', {W, H}, X(0, 0) * (1 + Index(0)))\n\
         local D = ComputedArray('D', {W, H}, Vector(C(0, 0, 1) * C(1, 1, 0), exp(C(1, 1, 0) * C(0, 0, 1))))\n\
         Energy(D(0, 0) - D(1, 0, 0))",
        "local function C(dx, dy, c) return X(dx, dy, c) * (1 + Index(0) + dx) end\n\
         local function D(dx) return C(dx, 0, 1) * C(dx + 1, 1, 0) end\n\
         Energy(D(0) - D(1), exp(C(1, 1, 0) * C(0, 0, 1)) - D(1))",
    );
    // At vertices, and of a global.
    assert_same(
        "local C = ComputedArray('C', {N}, Y(0) ^ 2 * T(1))\nEnergy(C(G.v) - B(G.w) * C(G.w))",
        "Energy(Y(G.v) ^ 2 * T(1) - B(G.w) * Y(G.w) ^ 2 * T(1))",
    );
}

#[test]
fn a_computed_array_is_0_outside_and_has_no_boundary_rule() {
    // Inside C the read X(1, 0) leaves the domain and is 0; C itself is 0 outside, although cos(0) = 1.
    assert_same(
        "local C = ComputedArray('C', {W, H}, cos(X(1, 0, 0)))\nEnergy(InBounds(0, 0) * C(0, 0) + C(1, 0))",
        "Energy(cos(InBounds(1, 0) * X(1, 0, 0)) + InBounds(1, 0) * cos(InBounds(2, 0) * X(2, 0, 0)))",
    );
}

#[test]
fn an_instance_counts_through_a_computed_array() {
    let body = "local C = ComputedArray('C', {W, H}, X(1, 0, 0))\nResidual{name='last', C(1, 0) + A(0, 0)}";
    let energy = load(body);
    let data = bind_all(&energy, 1.0);
    let mut free = free_elements(&energy, &data).unwrap();
    free[energy.unknowns[0].space.index()].iter_mut().enumerate().for_each(|(n, f)| *f = n % W >= 3);
    let problem = Explicit::with_free(&energy, &data, free).unwrap();
    let last = problem.templates.last().unwrap();
    // x + 2 is free and in the domain for x = 1, 2 of 0..5.
    let columns: Vec<u32> = last.counted.iter().map(|n| n % W as u32).collect();
    assert_eq!(columns, [1, 2, 1, 2, 1, 2, 1, 2]);
}

#[test]
fn a_global_is_one_column_read_from_everywhere() {
    let (r, j) = with("Residual{name='all', T(1) * B(0), T(0) * A(0, 0), T(0) - T(1)}", |problem, x| {
        assert_gradient_of_energy(problem, x);
        let first = problem.rows() - (N + W * H + 1);
        let j = problem.jacobian(x).to_dense();
        let rows = j.rows().into_iter().skip(first).map(|row| row.to_vec()).collect::<Vec<_>>();
        (problem.residuals(x)[first..].to_vec(), rows)
    });
    let (t, a, b) = (seeded_direction(2, 3), seeded_direction(W * H, 4), seeded_direction(N, 5));
    for (n, row) in j.iter().enumerate() {
        let (t0, t1) = match n {
            n if n < N => (0.0, b[n]),
            n if n < N + W * H => (a[n - N], 0.0),
            _ => (1.0, -1.0),
        };
        assert_eq!(r[n], t0 * t[0] + t1 * t[1]);
        assert_eq!(row[row.len() - 2..], [t0, t1]);
        assert!(row[..row.len() - 2].iter().all(|&v| v == 0.0));
    }
    with("Energy(Y(G.v) * T(0) - sin(T(1)) * B(G.w))", assert_gradient_of_energy);
}

#[test]
fn an_excluded_global_is_a_constant() {
    let energy = load("Energy(T(0) * B(0))");
    let data = bind_all(&energy, 1.0);
    let mut free = free_elements(&energy, &data).unwrap();
    let rows = |free: &[Vec<bool>]| {
        let problem = Explicit::with_free(&energy, &data, free.to_vec()).unwrap();
        (problem.rows(), problem.free())
    };
    let others = 2 * W * H + N;
    assert_eq!(rows(&free), (others + 2 + N, others + 2));
    free[energy.unknowns[2].space.index()][0] = false;
    assert_eq!(rows(&free), (others, others));
}

/// rho(q) with scale s.
type Rho = fn(f64, f64) -> f64;

/// The losses, written out once more.
const LOSSES: [(&str, Rho); 8] = [
    ("Huber(s)", |q, s| if q <= s * s { q } else { 2.0 * s * q.sqrt() - s * s }),
    ("Cauchy(s)", |q, s| s * s * (1.0 + q / (s * s)).ln()),
    (
        "Tukey(s)",
        |q, s| if q <= s * s { s * s / 3.0 * (1.0 - (1.0 - q / (s * s)).powi(3)) } else { s * s / 3.0 },
    ),
    ("SoftL1(s)", |q, s| 2.0 * s * s * ((1.0 + q / (s * s)).sqrt() - 1.0)),
    ("Arctan(s)", |q, s| s * s * (q / (s * s)).atan()),
    ("GemanMcClure(s)", |q, s| q / (1.0 + q / (s * s))),
    ("Power(1.3, 1)", |q, _| (q + 1.0).powf(0.65)),
    ("Loss(function(q) return s^2 * sqrt(1 + q/s^4) end)", |q, s| s * s * (1.0 + q / s.powi(4)).sqrt()),
];

#[test]
fn a_loss_is_of_the_squared_norm_of_a_block() {
    // The channels are cut at different places.
    let vector = "Vector(2 * X(0, 0, 0) - A(0, 0), X(1, 0, 1) * X(0, 0, 0), X(0, 0, 1) - X(0, 1, 1))";
    let (r, j, columns) = with(&format!("Residual{{name='fit', {vector}}}"), |problem, x| {
        let j = problem.jacobian(x).to_dense();
        let rows: Vec<Vec<f64>> = j.rows().into_iter().map(|row| row.to_vec()).collect();
        (problem.residuals(x), rows, problem.free())
    });
    let first = r.len() - 3 * W * H;
    let (s, mut outliers) = (0.7, 0);
    for (name, rho) in LOSSES {
        let (mut energy, mut g, mut diag) = (0.0, vec![0.0; columns], vec![0.0; columns]);
        let mut add = |row: usize, weight: f64| {
            for c in 0..columns {
                g[c] += weight * r[row] * j[row][c];
                diag[c] += weight * j[row][c].powi(2);
            }
        };
        (0..first).for_each(|row| add(row, 1.0));
        for n in 0..W * H {
            let rows = (0..3).map(|channel| first + channel * W * H + n);
            let q: f64 = rows.clone().map(|row| r[row].powi(2)).sum();
            energy += rho(q, s);
            outliers += usize::from(q > s * s);
            let h = 1e-5;
            let weight = (rho(q + h, s) - rho(q - h, s)) / (2.0 * h);
            rows.for_each(|row| add(row, weight));
        }
        with(&format!("Residual{{name='fit', loss={name}, {vector}}}"), |problem, x| {
            approx::assert_relative_eq!(problem.energies(x).by_group[1], energy, max_relative = 1e-13);
            assert_near(&problem.gradient(x), &g, 1e-9);
            assert_near(&problem.diag(x), &diag, 1e-9);
            assert_gradient_of_energy(problem, x);
        });
    }
    assert!((10..LOSSES.len() * W * H - 10).contains(&outliers), "both sides of the scale: {outliers}");
}

#[test]
fn an_outlier_of_tukey_contributes_nothing_and_nan_is_not_hidden() {
    let body = "Residual{loss=Tukey(0.1), X(0) / A(0)}";
    let (energy, mut data) = line(body, &[1.0, 0.01], &[0.0, 1.0]);
    let problem = Explicit::new(&energy, &data).unwrap();
    let (r, j) = problem.linearise(&problem.initial());
    assert_eq!((r[0], j.rows().to_dense()[[0, 0]]), (0.0, 0.0));
    assert!(problem.energies(&problem.initial()).total.is_finite() && r[1] > 0.0);
    data.set_unknown("X", &[0.0, 0.01]).unwrap();
    let problem = Explicit::new(&energy, &data).unwrap();
    assert!(problem.energies(&problem.initial()).total.is_nan());
    assert_eq!(problem.locate_non_finite(&problem.initial()).unwrap().instance, "element (0) of {N}");
}

#[test]
fn a_loss_without_a_positive_scale_is_named() {
    let energy = load("Residual{name='fit', loss=Cauchy((s - 1) * (1 + s)), Y(0)}");
    for (s, scale) in [(1.0, "0"), (0.0, "-1"), (f64::MAX, "inf")] {
        let mut data = bind_all(&energy, 2.0);
        let s = NamedArray { name: "s".into(), shape: vec![], data: ArrayData::F64(vec![s]) };
        let message = data.update(&energy, &[s]).unwrap_err().to_string();
        let expected =
            format!("group `fit` (line 11): expected a positive scale of its loss Cauchy, came {scale}");
        assert_eq!(message, expected);
    }
}

#[test]
fn a_robust_fit_leaves_the_outliers_alone() {
    let values = [1.0, 1.1, 0.9, 1.0, 40.0, 1.05, 0.95];
    let text = "local N = Dim(\"N\", 0)\nlocal X = Unknown(\"X\", opt_float, {}, 0)\n\
                local A = Array(\"A\", opt_float, {N}, 1)\nResidual{loss=Huber(0.3), X() - A(0)}";
    let energy = Energy::from_text("test.t", text).unwrap();
    let array = |name: &str, shape: &[usize], v: &[f64]| NamedArray {
        name: name.to_string(),
        shape: shape.to_vec(),
        data: ArrayData::F64(v.to_vec()),
    };
    let mut data = ProblemData::bind(&energy, &[array("X", &[], &[0.0]), array("A", &[7], &values)])
        .map(ProblemData::into_owned)
        .unwrap();
    let options = Options {
        solve: SolveOptions { function_tolerance: Some(0.0), ..SolveOptions::default() },
        ..Options::default()
    };
    solve(&energy, &mut data, &options, LinearSolver::Cholesky).unwrap();
    // sum over inliers (x - a) = 0.3: the outlier pulls with a constant force.
    approx::assert_relative_eq!(data.unknowns()[0][0], (6.0 + 0.3) / 6.0, max_relative = 1e-6);
}

/// `X` and its constant view `V`, 1-D.
const VIEW: &str = "local V = Array(\"V\", opt_float, {N}, 0)\n";

#[test]
fn a_view_is_constant_until_a_step_is_accepted() {
    let body = format!("{VIEW}Energy(X(0) * V(0) - A(0))");
    let (energy, data) = line(&body, &[2.0, 3.0], &[1.0, 1.0]);
    let mut problem = Explicit::new(&energy, &data).unwrap();
    assert_eq!(problem.residuals(&[5.0, 7.0]), [9.0, 20.0]);
    assert_eq!(problem.jacobian(&[5.0, 7.0]).data(), [2.0, 3.0]);
    assert_gradient_of_energy(&problem, &[5.0, 7.0]);
    problem.refresh_views(&[5.0, 7.0]);
    assert_eq!(problem.residuals(&[5.0, 7.0]), [24.0, 48.0]);
    assert_eq!(*data.unknowns()[0], [2.0, 3.0]);
}

#[test]
fn re_weighting_reaches_the_minimum_that_it_stands_for() {
    // Of (x - a)^2 + (2/p) |x|^p, p = 1.5: (x - a) + |x|^0.5 sign(x) = 0.
    let body = format!("{VIEW}Energy(X(0) - A(0))\nEnergy(L_p(X(0), V(0), 1.5, {{N}}))");
    let a = [3.0, -2.0, 0.7, 10.0];
    let (energy, mut data) = line(&body, &[1.0; 4], &a);
    let options = Options {
        solve: SolveOptions {
            iterations: Some(200),
            function_tolerance: Some(0.0),
            ..SolveOptions::default()
        },
        ..Options::default()
    };
    let report = solve(&energy, &mut data, &options, LinearSolver::Cholesky).unwrap();
    for (x, a) in data.unknowns()[0].iter().zip(a) {
        // The noise floor, 1e-13 of E ~ 50, is a gradient of some 1e-6.
        approx::assert_abs_diff_eq!(x - a + x.abs().sqrt() * x.signum(), 0.0, epsilon = 1e-5);
    }
    // What is reported is the energy under the weights of the result.
    let problem = Explicit::new(&energy, &data).unwrap();
    assert_eq!(report.energy_final, problem.energies(&problem.initial()).total);
}

/// An image that is linear, sampled where an unknown says.
fn sampled(corner: f64) -> (Energy, ProblemData<'static>) {
    let text = r#"
        local W, H, N = Dim("W", 0), Dim("H", 1), Dim("N", 2)
        local P = Unknown("P", opt_float2, {N}, 0)
        local I = Array("I", opt_float, {W, H}, 1)
        local Ix, Iy = Array("Ix", opt_float, {W, H}, 2), Array("Iy", opt_float, {W, H}, 3)
        local S = SampledImage(I, Ix, Iy)
        Energy(S(P(0, 0) * P(0, 1), sin(P(0, 1))) - 0.5)"#;
    let energy = Energy::from_text("test.t", text).unwrap();
    let image = |name: &str, f: &dyn Fn(f64, f64) -> f64| {
        let values = (0..H * W).map(|n| f((n % W) as f64, (n / W) as f64)).collect();
        NamedArray { name: name.to_string(), shape: vec![H, W], data: ArrayData::F64(values) }
    };
    let p = vec![1.3, 0.9, 2.2, 1.1, 1.25, 1.5];
    let p = NamedArray { name: "P".into(), shape: vec![3, 2], data: ArrayData::F64(p) };
    let f = move |x: f64, y: f64| if (x, y) == (1.0, 0.0) { corner } else { 3.0 * x - 2.0 * y + 1.0 };
    let arrays = [p, image("I", &f), image("Ix", &|_, _| 3.0), image("Iy", &|_, _| -2.0)];
    let data = ProblemData::bind(&energy, &arrays).map(ProblemData::into_owned).unwrap();
    (energy, data)
}

#[test]
fn a_sampled_image_has_the_derivatives_that_were_given() {
    let (energy, data) = sampled(4.0);
    let problem = Explicit::new(&energy, &data).unwrap();
    let x = problem.initial();
    let expected: Vec<f64> = x.chunks(2).map(|p| 3.0 * p[0] * p[1] - 2.0 * p[1].sin() + 1.0 - 0.5).collect();
    assert_near(&problem.residuals(&x), &expected, 1e-14);
    assert_gradient_of_energy(&problem, &x);
    assert!(problem.differences(&x).rows.iter().all(|&row| row == Witness::Smooth));
}

#[test]
fn a_tap_outside_counts_0_and_its_derivative_too() {
    let (energy, data) = sampled(4.0);
    let problem = Explicit::new(&energy, &data).unwrap();
    // Halfway off the left edge; far away.
    let x = [-0.5, 1.0, 1e12, 1.0, 0.0, 0.0];
    let (r, j) = (problem.residuals(&x), problem.jacobian(&x).to_dense());
    let half = 0.5 * (1.0 - 2.0 * 1.0_f64.sin());
    assert_near(&r, &[half - 0.5, -0.5, 0.5], 1e-14);
    assert_near(&[j[[0, 0]], j[[1, 2]]], &[1.5, 0.0], 1e-14);
}

#[test]
fn a_sample_that_is_not_finite_is_located() {
    let (energy, mut data) = sampled(f64::INFINITY);
    let error = solve(&energy, &mut data, &Options::default(), LinearSolver::Cg).unwrap_err();
    let message = error.to_string();
    for part in ["residual 1", "element (0) of {N}", "`I`[1, 0] channel 0 = inf"] {
        assert!(message.contains(part), "`{message}` does not say `{part}`");
    }
}
