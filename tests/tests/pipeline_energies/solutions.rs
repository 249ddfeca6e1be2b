//! The derivatives of solutions, and where there are none.

use super::*;
use crate::beside::{REST, data_alone, numbers};
use sumsq::Control;
use sumsq::pipeline_energy::{Curvature, LinearReport};

/// The derivative of a solution beside differences of solutions: of the sum of weights times the solution, by the given image and by the
/// weight of the data.
#[test]
fn a_solution_has_a_derivative() {
    let (x, y, mut p) = (Var::new("x"), Var::new("y"), Pipeline::new("weighted"));
    let image_x = p.input(Input::new("X", &[ScalarType::F64], 2));
    let given = p.input(Input::new("A", &[ScalarType::F64], 2));
    let weight = p.param("weight", ScalarType::F64);
    let near = p.func(boundary::repeat_edge("near", &image_x, &image_x.domain()));
    p.define("data", [x, y], (&weight * 0.5).exp() * ((near.of((x, y)) * 0.3).exp() - given.of((x, y))));
    let change = |dx: i32, dy: i32| near.of((x + dx, y + dy)) - near.of((x, y));
    p.define_tuple("smooth", [x, y], vec![change(1, 0), change(0, 1)]);
    let domain = [(0.into(), image_x.extent(0)), (0.into(), image_x.extent(1))];
    let energy =
        PipelineEnergy::new(p).unknown("X").residual_over("data", &domain, Loss::Squares).residual_over(
            "smooth",
            &domain,
            Loss::Robust { kind: LossKind::SoftL1, scale: 0.4, second_order: true },
        );
    let size: &[i32] = &[W as i32, H as i32];
    let estimates = [("X", size), ("A", size)];
    let solver = energy.compile(&options(Precision::F64, 2), &estimates).unwrap();
    let mut random = Random::new(12);
    let (a, da): (Vec<f64>, _) =
        (random.numbers(W * H).iter().map(|a| 1.2 + 0.5 * a).collect(), random.numbers(W * H));
    let w = random.numbers(W * H);
    let solve = |h: f64, weight: f64| {
        let moved: Vec<f64> = a.iter().zip(&da).map(|(a, d)| a + h * d).collect();
        let (x, given) = (image(&vec![0.0; W * H], ScalarType::F64), image(&moved, ScalarType::F64));
        let options = SolveOptions { iterations: Some(60), ..exact() };
        solver.solve(&[("X", &x), ("A", &given)], &mut [("weight", Scalar::F64(weight))], &options).unwrap();
        (x, given)
    };
    let value = |h: f64, weight: f64| -> f64 {
        solve(h, weight).0.to_vec::<f64>().iter().zip(&w).map(|(x, w)| x * w).sum()
    };
    let (x, given) = solve(0.0, 0.4);
    let adjoint = image(&w, ScalarType::F64);
    let d_given = image(&vec![0.0; W * H], ScalarType::F64);
    let d_weight = Buffer::new(BufferSpec::new(ScalarType::F64, &[])).unwrap();
    let params = [("weight", Scalar::F64(0.4))];
    let results = [("A", &d_given), ("weight", &d_weight)];
    let run = |curvature, buffers: &[(&str, &Buffer)]| {
        let s = solver.sensitivity(&["A", "weight"], curvature, &estimates).unwrap();
        s.run(buffers, &params, &[("X", &adjoint)], &results, 1e-12)
    };
    let linear = run(Curvature::Exact, &[("X", &x), ("A", &given)]).unwrap();
    assert!(linear.residual <= 1e-12 && linear.iterations > 3, "{linear:?}");
    let h = 1e-4;
    let along = (value(h, 0.4) - value(-h, 0.4)) / (2.0 * h);
    let expected: f64 = d_given.to_vec::<f64>().iter().zip(&da).map(|(a, b)| a * b).sum();
    assert_close("by the image", expected, along, 1e-5);
    let along = (value(0.0, 0.4 + h) - value(0.0, 0.4 - h)) / (2.0 * h);
    assert_close("by the weight", d_weight.to_vec::<f64>()[0], along, 1e-5);
    // Near, but not the same: the residuals are not 0 and not linear.
    let exact = d_given.to_vec::<f64>();
    run(Curvature::GaussNewton, &[("X", &x), ("A", &given)]).unwrap();
    let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
    let apart: Vec<f64> = d_given.to_vec::<f64>().iter().zip(&exact).map(|(a, b)| a - b).collect();
    assert!((1e-6..0.3).contains(&(norm(&apart) / norm(&exact))), "{}", norm(&apart) / norm(&exact));
}

/// The same where an ordinary energy was minimised with it: also where that excludes elements, and has bounds.
#[test]
fn a_solution_of_two_energies_has_a_derivative() {
    let (start, given) = numbers();
    let size: &[i32] = &[W as i32, H as i32];
    let estimates = [("X", size), ("A", size)];
    let solver = data_alone().compile(&options(Precision::F64, 2), &estimates).unwrap();
    let mut random = Random::new(17);
    let (moves, w) = (random.numbers(W * H), random.numbers(W * H));
    let (adjoint, slope) = (image(&w, ScalarType::F64), image(&vec![0.0; W * H], ScalarType::F64));
    let arrays = [doubles("X", &[H, W], start.clone()), doubles("A", &[H, W], given.clone())];
    let smooth = REST.replace("Huber(0.4)", "SecondOrder(SoftL1(0.4))");
    for (held, bound) in [("", false), ("Exclude(less(A(0,0), 0.7))", false), ("Bounds(X, -0.4, 0.9)", true)]
    {
        let (rest, data) = bind(&smooth.replace("EXCLUDE", held), &arrays);
        let solve = |h: f64| {
            let moved: Vec<f64> = given.iter().zip(&moves).map(|(a, d)| a + h * d).collect();
            let (x, a) = (image(&start, ScalarType::F64), image(&moved, ScalarType::F64));
            let options = SolveOptions { iterations: Some(60), ..exact() };
            let mut go_on = |_: &_| Control::Continue;
            let beside = (&rest, &data);
            solver.solve_beside(&[("X", &x), ("A", &a)], &mut [], beside, &options, &mut go_on).unwrap();
            (x, a)
        };
        let value = |h: f64| -> f64 { solve(h).0.to_vec::<f64>().iter().zip(&w).map(|(x, w)| x * w).sum() };
        let (x, a) = solve(0.0);
        let buffers = [("X", &x), ("A", &a)];
        let at_bound = x.to_vec::<f64>().iter().filter(|x| **x == -0.4 || **x == 0.9).count();
        assert_eq!(at_bound > 0, bound, "{at_bound} scalars are at bounds");
        let run = |curvature| -> Result<LinearReport, PipelineEnergyError> {
            let s = solver.sensitivity(&["A"], curvature, &estimates).unwrap();
            s.run_beside(&buffers, &[], (&rest, &data), &[("X", &adjoint)], &[("A", &slope)], 1e-11)
        };
        let linear = run(Curvature::Exact).unwrap_or_else(|e| panic!("{e}"));
        assert!(linear.residual <= 1e-11 && linear.iterations > 3, "{linear:?}");
        let exact = slope.to_vec::<f64>();
        // E says where its minimum is to half of its digits: differences have four less than the terms of the slope.
        let terms = || exact.iter().zip(&moves).map(|(a, b)| a * b);
        let (came, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
        let along = (value(1e-4) - value(-1e-4)) / 2e-4;
        assert!((came - along).abs() <= 1e-6 * size, "{held}: {came} and {along}, of {size}");
        // J^T W J is another matrix, where residuals are neither 0 nor linear.
        run(Curvature::GaussNewton).unwrap();
        let norm = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>().sqrt();
        let apart: Vec<f64> = slope.to_vec::<f64>().iter().zip(&exact).map(|(a, b)| a - b).collect();
        assert!((1e-6..0.3).contains(&(norm(&apart) / norm(&exact))), "{}", norm(&apart) / norm(&exact));
        // For one of the two alone it is no minimum.
        let s = solver.sensitivity(&["A"], Curvature::Exact, &estimates).unwrap();
        let alone = s.run(&buffers, &[], &[("X", &adjoint)], &[("A", &slope)], 1e-11);
        let is_refused =
            matches!(alone, Err(PipelineEnergyError::NoMinimum { .. } | PipelineEnergyError::Indefinite));
        assert!(is_refused, "{alone:?}");
    }
}

/// An energy of the single unknown u and the given number a, with these residuals.
fn of_a_number(residuals: impl Fn(Expr, Expr) -> Vec<Expr>) -> PipelineEnergy {
    let mut p = Pipeline::new("number");
    let (u, a) = (p.param("u", ScalarType::F64), p.param("a", ScalarType::F64));
    p.define_tuple("apart", [] as [Var; 0], residuals(u, a));
    PipelineEnergy::new(p).unknown("u").residual_over("apart", &[], Loss::Squares)
}

/// The derivative of u by a, where u and a have these values; or why there is none.
fn slope_at(energy: &PipelineEnergy, curvature: Curvature, [u, a]: [f64; 2]) -> Result<f64, String> {
    let solver = energy.compile(&options(Precision::F64, 1), &[]).unwrap();
    let s = solver.sensitivity(&["a"], curvature, &[]).unwrap();
    let number = |v: f64| {
        let b = Buffer::new(BufferSpec::new(ScalarType::F64, &[])).unwrap();
        b.copy_from(&[v]).unwrap();
        b
    };
    let (one, slope) = (number(1.0), number(0.0));
    let params = [("u", Scalar::F64(u)), ("a", Scalar::F64(a))];
    let run = s.run(&[], &params, &[("u", &one)], &[("a", &slope)], 1e-12);
    run.map(|_| slope.to_vec::<f64>()[0]).map_err(|e| e.to_string())
}

#[test]
fn where_there_is_no_minimum_there_is_no_derivative() {
    use Curvature::{Exact, GaussNewton};
    // At its minimum u = a.
    let near = of_a_number(|u, a| vec![u - a]);
    assert_eq!(slope_at(&near, Exact, [3.0, 3.0]), Ok(1.0));
    for curvature in [Exact, GaussNewton] {
        let far = "the unknowns are no minimum: one is about 50.0 % of |x| away; solve to a smaller tolerance first";
        assert_eq!(slope_at(&near, curvature, [6.0, 3.0]), Err(far.into()));
    }
    // A maximum between two minima: E/2 has the slope u (2 u^2 - 1) for a = 1, and J^T J = 1 there.
    let downwards = "the unknowns are no minimum: E curves downwards, or not at all, so that the solution has no derivative";
    let hill = of_a_number(|u, a| vec![u.clone(), a - &u * &u]);
    assert_eq!(slope_at(&hill, Exact, [0.0, 1.0]), Err(downwards.into()));
    assert_eq!(slope_at(&hill, GaussNewton, [0.0, 1.0]), Ok(0.0));
    // A plain: nothing depends on u.
    let flat = of_a_number(|u, a| vec![a + u * 0.0]);
    for curvature in [Exact, GaussNewton] {
        assert_eq!(slope_at(&flat, curvature, [2.0, 1.0]), Err(downwards.into()));
    }
}
