//! The meaning of an energy at the places where it is easily missed: boundaries, excluded elements, singular points, branches.

mod constructs;

use crate::assembled::*;
use crate::problem::options::{CompileOptions, Options, SolveOptions};
use crate::problem::report::{Report, Termination};
use crate::{ArrayData, NamedArray};
use sumsq_energy::dag::Function;

fn solve(
    energy: &Energy,
    data: &mut ProblemData,
    options: &Options,
    linear: LinearSolver,
) -> Result<Report, SolveError> {
    crate::assembled::solve(energy, data, &options.compile, &options.solve, linear)
}

/// An energy and its inputs, 1-D over {N}: `X` (unknown), `A` (array), each given by its values.
fn line(body: &str, x: &[f64], a: &[f64]) -> (Energy, ProblemData<'static>) {
    let text = format!(
        "local N = Dim(\"N\", 0)\nlocal X = Unknown(\"X\", opt_float, {{N}}, 0)\n\
         local A = Array(\"A\", opt_float, {{N}}, 1)\n{body}"
    );
    let energy = Energy::from_text("test.t", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let array = |name: &str, v: &[f64]| NamedArray {
        name: name.to_string(),
        shape: vec![v.len()],
        data: ArrayData::F64(v.to_vec()),
    };
    let data =
        ProblemData::bind(&energy, &[array("X", x), array("A", a)]).map(ProblemData::into_owned).unwrap();
    (energy, data)
}

/// Residuals and dense Jacobian at the start.
fn evaluate(body: &str, x: &[f64], a: &[f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let (energy, data) = line(body, x, a);
    let problem = Explicit::new(&energy, &data).unwrap();
    let (residuals, _) = problem.linearise(&problem.initial());
    let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&residuals), bits(&problem.residuals(&problem.initial())));
    let jacobian = problem.jacobian(&problem.initial()).to_dense();
    (residuals, jacobian.rows().into_iter().map(|row| row.to_vec()).collect())
}

/// Value and derivative of `f(x)` for a single unknown.
fn derivative(f: &str, x: f64) -> (f64, f64) {
    let (r, j) = evaluate(&format!("local x, a = X(0), A(0)\nEnergy({f})"), &[x], &[0.0]);
    (r[0], j[0][0])
}

#[test]
fn the_boundary_rule_makes_residuals_zero_that_still_count() {
    let (r, j) = evaluate("Energy(X(0) - X(1))", &[1.0, 3.0, 7.0], &[0.0; 3]);
    assert_eq!(r, [-2.0, -4.0, 0.0]);
    assert_eq!(j, [[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 0.0]]);
}

#[test]
fn with_in_bounds_reads_outside_are_zero_constants() {
    let (r, j) = evaluate("Energy((1 + InBounds(1)) * X(0) - X(1))", &[1.0, 3.0], &[0.0; 2]);
    assert_eq!(r, [-1.0, 3.0]);
    assert_eq!(j, [[2.0, -1.0], [0.0, 1.0]]);
}

#[test]
fn excluded_unknowns_are_readable_constants() {
    let body = "Exclude(A(0))\nEnergy(X(0) - X(1))\nEnergy(2 * X(0))";
    let (energy, data) = line(body, &[1.0, 3.0, 7.0, 8.0], &[0.0, f64::NAN, 1.0, 1.0]);
    let problem = Explicit::new(&energy, &data).unwrap();
    assert_eq!((problem.free(), problem.scalars()), (1, 4));
    // Of the first template only the instance at 0 reads X(0) free; likewise of the second.
    assert_eq!(problem.residuals(&problem.initial()), [-2.0, 2.0]);
    assert_eq!(problem.energies(&problem.initial()).by_group, [4.0, 4.0]);
    assert_eq!(problem.gradient(&problem.initial()), [2.0]);
    assert_eq!(problem.diag(&problem.initial()), [5.0]);
    assert_eq!(problem.scatter(&[5.0]), [5.0, 0.0, 0.0, 0.0]);
}

#[test]
fn an_instance_counts_whatever_branch_it_takes() {
    let (r, _) = evaluate("Energy(Select(less(A(0), 1), X(0), 0))", &[1.0, 3.0], &[0.0, 5.0]);
    assert_eq!(r, [1.0, 0.0]);
}

#[test]
fn only_the_taken_branch_is_felt() {
    for poison in ["1 / a", "log(a - 1)", "sqrt(a - 1) * x", "acos(x + 5)"] {
        assert_eq!(
            derivative(&format!("Select(greater(x, 0), 3 * x, {poison})"), 2.0),
            (6.0, 3.0),
            "{poison}"
        );
        assert_eq!(derivative(&format!("eq(x, 0) * ({poison}) + 3 * x"), 2.0), (6.0, 3.0), "{poison}");
    }
    // acos' is infinite at 1, but nothing flows there.
    assert_eq!(derivative("x + acos(Select(greater(x, 0), 1, x))", 2.0), (2.0, 1.0));
}

#[test]
fn singular_points_have_their_stated_slopes() {
    assert_eq!(derivative("abs(x)", 0.0), (0.0, 1.0));
    assert_eq!(derivative("abs(x)", -2.0), (2.0, -1.0));
    assert_eq!(derivative("sqrt(x)", 0.0), (0.0, 0.0));
    assert_eq!(derivative("x ^ 0.3", 0.0), (0.0, 0.0));
    assert_eq!(derivative("pow(x, a)", 0.0), (1.0, 0.0));
    assert_eq!(derivative("pow(x, a + 1)", 0.0), (0.0, 1.0));
    assert_eq!(derivative("pow(x, a + 3)", -2.0), (-8.0, 12.0));
    assert_eq!(derivative("x ^ 3", 0.0), (0.0, 0.0));
    assert_eq!(derivative("x ^ -2", 2.0), (0.25, -0.25));
    assert_eq!(derivative("atan2(x, a)", 0.0), (0.0, 0.0));
    assert_eq!(derivative("less(x, 1) + 2 * x", 0.0), (1.0, 2.0));
    assert!(derivative("x ^ 2.5", -1.0).0.is_nan());
}

#[test]
fn every_function_has_the_slope_of_its_differences() {
    let at = |f: &Function| if *f == Function::Acosh { 1.7 } else { 0.37 };
    let functions = Function::ALL.iter().filter(|f| f.arity() == 1);
    let mut formulas: Vec<(String, f64)> = functions.map(|f| (format!("{}(x)", f.name()), at(f))).collect();
    let more = [
        "atan2(x, 2)",
        "atan2(2, x)",
        "pow(x, 2.3)",
        "pow(2, x)",
        "pow(x, x)",
        "x ^ 3 / (1 + x)",
        "x * sin(x) * x ^ -2",
    ];
    formulas.extend(more.iter().map(|f| (f.to_string(), 0.37)));
    for (formula, x) in formulas {
        let slope = derivative(&formula, x).1;
        let h = 1e-4;
        let f = |by: f64| derivative(&formula, x + by).0;
        let wide = (f(h) - f(-h)) / (2.0 * h);
        let narrow = (f(0.5 * h) - f(-0.5 * h)) / h;
        let expected = (4.0 * narrow - wide) / 3.0;
        approx::assert_relative_eq!(slope, expected, max_relative = 1e-9);
    }
}

#[test]
fn coinciding_vertices_add_their_partials_before_squaring() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local G = Graph("G", 1, "v0", {N}, 2, "v1", {N}, 3)
        Energy(3 * X(G.v0) - X(G.v1))"#;
    let energy = Energy::from_text("test.t", text).unwrap();
    let index = |name: &str, v: &[i64]| NamedArray {
        name: name.to_string(),
        shape: vec![v.len()],
        data: ArrayData::Int(v.to_vec(), "int64"),
    };
    let x = NamedArray { name: "X".into(), shape: vec![2], data: ArrayData::F64(vec![1.0, 5.0]) };
    let arrays = [x, index("G.v0", &[0, 1, 1]), index("G.v1", &[0, 0, 0])];
    let data = ProblemData::bind(&energy, &arrays).map(ProblemData::into_owned).unwrap();
    let problem = Explicit::new(&energy, &data).unwrap();
    // The first edge has (3 - 1) X(0); the other two are the same edge twice.
    assert_eq!(problem.residuals(&problem.initial()), [2.0, 14.0, 14.0]);
    assert_eq!(problem.diag(&problem.initial()), [4.0 + 1.0 + 1.0, 9.0 + 9.0]);
    assert_eq!(problem.gradient(&problem.initial()), [2.0 * 2.0 - 14.0 - 14.0, 2.0 * 3.0 * 14.0]);
}

#[test]
fn products_with_j_are_the_same_for_any_number_of_threads() {
    let n = 10_000;
    let x: Vec<f64> = (0..n).map(|i| (i as f64 * 0.7).sin()).collect();
    let (energy, data) = line("Energy(sin(X(0)) * X(1) - A(0), X(0) - 0.3)", &x, &x);
    let problem = Explicit::new(&energy, &data).unwrap();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| (problem.energies(&x).total, problem.jtjv(&x, &x), problem.gradient(&x)))
    };
    let one = run(1);
    for threads in [2, 3, 5] {
        let many = run(threads);
        assert!(one.0.to_bits() == many.0.to_bits() && one.1 == many.1 && one.2 == many.2);
    }
}

#[test]
fn an_energy_that_is_not_finite_is_located() {
    let body = "Energy(X(0) - 1)\nEnergy(X(0) * A(0))";
    let (energy, mut data) = line(body, &[1.0, 2.0, 3.0], &[1.0, 1.0, f64::INFINITY]);
    let error = solve(&energy, &mut data, &Options::default(), LinearSolver::Cg).unwrap_err();
    let message = error.to_string();
    for part in ["inf at the start", "residual 2", "line 5", "element (2) of {N}", "`A`[2]", "= inf"] {
        assert!(message.contains(part), "`{message}` does not say `{part}`");
    }
    assert!(!message.contains("`X`"), "the finite reads are not to blame: {message}");
    assert_eq!(*data.unknowns()[0], [1.0, 2.0, 3.0]);
}

#[test]
fn nothing_free_is_zero_energy_and_a_warning() {
    let (energy, mut data) = line("Exclude(eq(A(0), 1))\nEnergy(X(0))", &[1.0, 2.0], &[1.0, 1.0]);
    let report = solve(&energy, &mut data, &Options::default(), LinearSolver::Cholesky).unwrap();
    assert_eq!(report.termination, Termination::NoFreeUnknown);
    assert_eq!((report.energy_final, report.residuals, report.unknowns), (0.0, 0, 0));
    assert!(report.warnings.iter().any(|w| w.contains("excluded")));
    assert_eq!(*data.unknowns()[0], [1.0, 2.0]);
}

#[test]
fn an_unknown_that_nothing_holds_stays_put() {
    let body = "Energy(Select(less(A(0), 1), X(0) - 3, 0))";
    for linear in [LinearSolver::Cg, LinearSolver::Cholesky] {
        for method in [crate::Method::GaussNewton, crate::Method::LevenbergMarquardt] {
            let (energy, mut data) = line(body, &[1.0, 2.0, 9.0], &[0.0, 5.0, 0.0]);
            let options = Options {
                solve: SolveOptions { method, iterations: Some(20), ..SolveOptions::default() },
                ..Options::default()
            };
            let report = solve(&energy, &mut data, &options, linear).unwrap();
            assert_eq!(report.unconstrained, 1);
            assert_eq!(data.unknowns()[0][1], 2.0);
            approx::assert_relative_eq!(data.unknowns()[0][0], 3.0, max_relative = 1e-6);
            approx::assert_relative_eq!(data.unknowns()[0][2], 3.0, max_relative = 1e-6);
        }
    }
}

#[test]
fn every_preconditioner_leads_to_the_same_minimum() {
    use crate::Preconditioner::*;
    let x: Vec<f64> = (0..40).map(|i| (i as f64 * 0.7).sin()).collect();
    for preconditioner in [None, Jacobi, BlockJacobi, Auto] {
        let (energy, mut data) = line("Energy(0.1 * (X(0) - A(0)), X(0) - X(1))", &[0.0; 40], &x);
        let options = Options {
            compile: CompileOptions { preconditioner, ..CompileOptions::default() },
            solve: SolveOptions { linear_tolerance: Some(1e-12), ..SolveOptions::default() },
        };
        let cg = solve(&energy, &mut data, &options, LinearSolver::Cg).unwrap();
        let (energy, mut data) = line("Energy(0.1 * (X(0) - A(0)), X(0) - X(1))", &[0.0; 40], &x);
        let direct = solve(&energy, &mut data, &options, LinearSolver::Cholesky).unwrap();
        approx::assert_relative_eq!(cg.energy_final, direct.energy_final, max_relative = 1e-9);
    }
}
