//! Units change nothing: data, residuals, single unknowns and origins in other units have the same answer in theirs. Where the factor is a
//! power of two no bit of a trace may differ but by it.

use sumsq::energy::model::Energy;
use sumsq::{
    CompileOptions, Iteration, NamedArray, Options, Precision, ProblemData, Report, SolveOptions, Solver,
};
use sumsq_tests::{Random, assert_close, bind, doubles, indices, solve};

const W: usize = 19;
const H: usize = 13;

/// A problem in units: the energy, and its numbers under factors of the data and of the residuals.
struct Problem {
    name: &'static str,
    text: &'static str,
    /// By data, residuals, and the second unknown's own unit.
    arrays: fn(f64, f64, f64) -> Vec<NamedArray>,
}

fn numbers(seed: u64, n: usize, times: f64) -> Vec<f64> {
    Random::new(seed).numbers(n).into_iter().map(|v| v * times).collect()
}

fn scalar(name: &str, value: f64) -> NamedArray {
    doubles(name, &[], vec![value])
}

/// A quadratic energy over a grid.
const LINEAR: Problem = Problem {
    name: "linear",
    text: r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local A = Array("A", opt_float2, {W,H}, 1)
        local w = Param("w", opt_float, 2)
        Energy(w * 0.3 * (X(0,0) - A(0,0)))
        Energy(w * (X(0,0) - X(1,0)), w * (X(0,0) - X(0,1)), w * (X(0,0,0) - 0.5 * X(0,0,1)))
    "#,
    arrays: |data, residuals, _| {
        let shape = [H, W, 2];
        vec![
            doubles("X", &shape, numbers(1, W * H * 2, data)),
            doubles("A", &shape, numbers(2, W * H * 2, data)),
            scalar("w", residuals),
        ]
    },
};

/// Homogeneous in the data without being linear, under losses, with bounds and what is excluded.
const HOMOGENEOUS: Problem = Problem {
    name: "homogeneous",
    text: r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        local w, s = Param("w", opt_float, 2), Param("s", opt_float, 3)
        Exclude(greater(A(0,0), 0.9 * s))
        Bounds(X, -0.8 * s, 0.9 * s)
        local x, y = X(0,0,0), X(0,0,1)
        Residual{loss=Cauchy(0.5 * w * s), w * (sqrt(x*x + y*y + s*s) - 0.3 * A(0,0) - 1.1 * s)}
        Residual{loss=Huber(0.3 * w * s), w * (0.3 * x * y / (2 * s + A(0,0)) - X(1,0,1))}
        Energy(0.5 * w * (X(0,0) - X(0,1)), w * (X(0,0) - 0.4 * A(0,0)))
    "#,
    arrays: |data, residuals, _| {
        vec![
            doubles("X", &[H, W, 2], numbers(3, W * H * 2, 0.7 * data)),
            doubles("A", &[H, W], numbers(4, W * H, data)),
            scalar("w", residuals),
            scalar("s", data),
        ]
    },
};

/// A graph, globals, and two unknowns of which one has a unit of its own.
const GRAPH: Problem = Problem {
    name: "graph",
    text: r#"
        local N, E = Dim("N", 0), Dim("E", 1)
        local X = Unknown("X", opt_float2, {N}, 0)
        local T = Unknown("T", opt_float2, {}, 1)
        local B = Array("B", opt_float2, {E}, 2)
        local w, s, u = Param("w", opt_float, 3), Param("s", opt_float, 4), Param("u", opt_float, 5)
        local G = Graph("G", 6, "a", {N}, 7, "b", {N}, 8, "e", {E}, 9)
        local turn = T(0) * u
        Energy(w * (Rotate2D(turn, X(G.b) - X(G.a)) - B(G.e)))
        Energy(0.2 * w * s * (T(1) * u - 0.3), 0.1 * w * X(G.a))
    "#,
    arrays: |data, residuals, own| {
        let (n, edges) = (23, 70);
        let mut random = Random::new(7);
        vec![
            doubles("X", &[n, 2], numbers(5, n * 2, data)),
            doubles("T", &[2], vec![0.3 / own, -0.2 / own]),
            doubles("B", &[edges, 2], numbers(6, edges * 2, data)),
            scalar("w", residuals),
            scalar("s", data),
            scalar("u", own),
            indices("G.a", 1, random.below(n, edges)),
            indices("G.b", 1, random.below(n, edges)),
            indices("G.e", 1, (0..edges as i64).collect()),
        ]
    },
};

const ALL: [Problem; 3] = [LINEAR, HOMOGENEOUS, GRAPH];

fn options() -> SolveOptions {
    SolveOptions { function_tolerance: Some(1e-9), ..SolveOptions::default() }
}

/// A problem's code, for any units.
struct Compiled<'p> {
    of: &'p Problem,
    precision: Precision,
    solver: Solver,
}

impl<'p> Compiled<'p> {
    fn new(of: &'p Problem, precision: Precision) -> Compiled<'p> {
        let energy = Energy::from_text("test.t", of.text).unwrap_or_else(|e| panic!("{e}"));
        let options = CompileOptions { precision, ..CompileOptions::default() };
        Compiled { of, precision, solver: Solver::compile(energy, &options).unwrap() }
    }

    /// Solves in these units of data, residuals and the second unknown, `times` times over.
    fn run(
        &self,
        [data, residuals, own]: [f64; 3],
        options: &SolveOptions,
        times: usize,
    ) -> (Vec<Report>, Vec<f64>) {
        let arrays = (self.of.arrays)(data, residuals, own);
        let mut numbers = ProblemData::bind(self.solver.energy(), &arrays).unwrap_or_else(|e| panic!("{e}"));
        let mut problem = self.solver.plan(&numbers).unwrap();
        let reports = (0..times).map(|_| problem.solve(&mut numbers, options).unwrap()).collect();
        (reports, numbers.x())
    }

    fn once(&self, units: [f64; 3], options: &SolveOptions) -> (Report, Vec<f64>) {
        let (mut reports, x) = self.run(units, options, 1);
        (reports.remove(0), x)
    }

    /// The unit of an unknown scalar: the globals of the graph are angles.
    fn unit(&self, scalar: usize, scalars: usize, data: f64) -> f64 {
        if self.of.name == "graph" && scalar >= scalars - 2 { 1.0 } else { data }
    }
}

/// Everything in the record of a step that has no unit, and what has one in the unit of `data` and `residuals`. Norms over unknowns in
/// `mixed` units have none.
fn without_units(
    step: &Iteration,
    [data, residuals]: [f64; 2],
    mixed: bool,
) -> impl PartialEq + std::fmt::Debug + use<> {
    let energy = step.energy / (data * residuals).powi(2);
    let counts = (step.accepted, step.linear_iterations, step.linear_stop);
    let norms = if mixed { [0.0; 2] } else { [step.step_norm / data, step.linear_residual] };
    (counts, [energy, step.gain_ratio, step.radius, norms[0], norms[1]].map(f64::to_bits))
}

/// The traces under powers of two are the same to the bit.
#[track_caller]
fn same_bits(code: &Compiled, one: &(Report, Vec<f64>), [data, residuals]: [f64; 2]) {
    let ((one, x), (other, y)) = (one, code.once([data, residuals, 1.0], &options()));
    let what = format!(
        "{} in {:?}, data times {data:e}, residuals times {residuals:e}",
        code.of.name, code.precision
    );
    assert_eq!(one.termination, other.termination, "{what}");
    assert!(one.iterations.len() > 2 && one.energy_final < 0.8 * one.energy_initial, "{what}: {one}");
    for (a, b) in one.iterations.iter().zip(&other.iterations) {
        let mixed = code.of.name == "graph";
        let (a, b) = (without_units(a, [1.0; 2], mixed), without_units(b, [data, residuals], mixed));
        assert_eq!(a, b, "{what}\n{one}\n{other}");
    }
    assert_eq!(one.iterations.len(), other.iterations.len(), "{what}");
    let n = x.len();
    for (i, (x, y)) in x.iter().zip(&y).enumerate() {
        let y = y / code.unit(i, n, data);
        assert_eq!(x.to_bits(), y.to_bits(), "{what}: unknown {i}: {x} {y}");
    }
}

fn powers_of_two(precision: Precision, powers: [i32; 2]) {
    for of in &ALL {
        let code = Compiled::new(of, precision);
        let one = code.once([1.0; 3], &options());
        for factor in powers.map(|k| 2f64.powi(k)) {
            same_bits(&code, &one, [factor, 1.0]);
            same_bits(&code, &one, [1.0, factor]);
        }
    }
}

#[test]
fn powers_of_two_change_no_bit_of_float64() {
    powers_of_two(Precision::F64, [-40, 40]);
}

/// As far as no product leaves the normal numbers of float32.
#[test]
fn powers_of_two_change_no_bit_of_mixed_precision() {
    powers_of_two(Precision::Mixed, [-13, 16]);
}

#[test]
fn powers_of_two_change_no_bit_of_float32() {
    powers_of_two(Precision::F32, [-13, 16]);
}

/// E in the unit of its square and x in its own, for factors of twelve powers of ten either way.
fn any_unit(precision: Precision, linear_tolerance: f64, tolerance: f64) {
    let options = SolveOptions {
        iterations: Some(200),
        function_tolerance: Some(1e-12),
        linear_tolerance: Some(linear_tolerance),
        ..SolveOptions::default()
    };
    // Where angles and lengths stand beside each other, float32 holds the products of both for fewer units.
    let some = if precision == Precision::F64 { &ALL[..] } else { &ALL[..2] };
    for of in some {
        let code = Compiled::new(of, precision);
        let (one, x) = code.once([1.0; 3], &options);
        let size = x.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        for factor in [1e-12, 1e-6, 1e12] {
            for [data, residuals] in [[factor, 1.0], [1.0, factor]] {
                let (report, y) = code.once([data, residuals, 1.0], &options);
                let what = format!(
                    "{} in {precision:?}, data times {data:e}, residuals times {residuals:e}",
                    of.name
                );
                let e = report.energy_final / (data * residuals).powi(2);
                assert_close(&what, e, one.energy_final, 0.1 * tolerance);
                let n = x.len();
                for (i, (x, y)) in x.iter().zip(&y).enumerate() {
                    let y = y / code.unit(i, n, data);
                    assert!(
                        (x - y).abs() <= tolerance * size,
                        "{what}: unknown {i}: {x} {y}\n{one}\n{report}"
                    );
                }
            }
        }
    }
}

#[test]
fn any_unit_has_the_same_answer_in_float64() {
    any_unit(Precision::F64, 1e-10, 1e-7);
}

#[test]
fn any_unit_has_the_same_answer_in_mixed_precision() {
    any_unit(Precision::Mixed, 1e-5, 1e-6);
}

#[test]
fn any_unit_has_the_same_answer_in_float32() {
    any_unit(Precision::F32, 1e-4, 1e-3);
}

/// An unknown in another unit than its neighbours: the same energies, step by step.
#[test]
fn an_unknown_may_have_a_unit_of_its_own() {
    let code = Compiled::new(&GRAPH, Precision::F64);
    let energies = |own: f64| -> Vec<u64> {
        let (report, _) = code.once([1.0, 1.0, own], &options());
        report.iterations.iter().map(|step| step.energy.to_bits()).collect()
    };
    let one = energies(1.0);
    for own in [2f64.powi(-40), 2f64.powi(40)] {
        let other = energies(own);
        let steps = one.len().min(other.len());
        assert!(steps > 3, "{one:?} {other:?}");
        assert_eq!(one[..steps], other[..steps], "own unit {own:e}");
    }
}

/// Far from the origin x is as good as its digits.
#[test]
fn offsets_do_not_end_a_solve_early() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        Energy(0.1 * (X(0,0) - A(0,0)), X(0,0) - X(1,0), X(0,0) - X(0,1))
        Energy(sin(0.3 * (X(0,0) - X(1,1))))
    "#;
    let at = |offset: f64| {
        let moved = |seed| numbers(seed, W * H, 1.0).into_iter().map(|v| v + offset).collect::<Vec<f64>>();
        // What the offset leaves of the numbers.
        let kept = |v: Vec<f64>| v.into_iter().map(|v| (v + 1e6 - offset) - (1e6 - offset)).collect();
        let arrays = [doubles("X", &[H, W], kept(moved(8))), doubles("A", &[H, W], kept(moved(9)))];
        let (energy, mut data) = bind(text, &arrays);
        let options = Options {
            solve: SolveOptions { function_tolerance: Some(1e-13), ..SolveOptions::default() },
            ..Options::default()
        };
        let report = solve(&energy, &mut data, &options);
        (report, data.x().into_iter().map(|x| x - offset).collect::<Vec<f64>>())
    };
    let ((near, x), (far, y)) = (at(0.0), at(1e6));
    assert_close("E", far.energy_final, near.energy_final, 1e-8);
    for (x, y) in x.iter().zip(&y) {
        assert!((x - y).abs() <= 1e-7, "{x} {y}\n{near}\n{far}");
    }
}

/// A solve that starts where another one ended has nothing to do.
#[test]
fn a_start_at_the_solution_stops() {
    let options = SolveOptions {
        function_tolerance: Some(0.0),
        linear_tolerance: Some(1e-12),
        iterations: Some(300),
        ..SolveOptions::default()
    };
    for of in &ALL {
        let code = Compiled::new(of, Precision::F64);
        for data in [1e-12, 1.0, 1e12] {
            let (reports, _) = code.run([data, 1.0, 1.0], &options, 2);
            let [first, again] = [&reports[0], &reports[1]];
            assert!(again.iterations.len() <= 1, "{} times {data:e}:\n{first}\n{again}", of.name);
            assert_close(of.name, again.energy_final, first.energy_final, 1e-12);
        }
    }
}
