//! An ordinary energy beside a pipeline energy: the same as all of it in one.

use super::*;
use sumsq::Control;

/// The data terms of `denoising`, as a pipeline.
pub fn data_alone() -> PipelineEnergy {
    let (x, y, mut p) = (Var::new("x"), Var::new("y"), Pipeline::new("data"));
    let image = p.input(Input::new("X", &[ScalarType::F64], 2));
    let given = p.input(Input::new("A", &[ScalarType::F64], 2));
    p.define("data", [x, y], (image.of((x, y)) * 0.3).exp() - given.of((x, y)));
    let domain = [(0.into(), image.extent(0)), (0.into(), image.extent(1))];
    PipelineEnergy::new(p).unknown("X").residual_over("data", &domain, Loss::Squares)
}

/// The rest, as a text.
pub const REST: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float, {W, H}, 0)
    local A = Array("A", opt_float, {W, H}, 1)
    EXCLUDE
    Residual{name="smooth", loss=Huber(0.4), Vector(Select(InBounds(1,0), X(1,0) - X(0,0), 0), Select(InBounds(0,1), X(0,1) - X(0,0), 0))}
"#;

/// Start, and the given image.
pub fn numbers() -> (Vec<f64>, Vec<f64>) {
    let mut random = Random::new(5);
    let (start, given) = (random.numbers(W * H), random.numbers(W * H));
    (start, given.iter().map(|a| 1.2 + a).collect())
}

#[test]
fn both_are_solved_as_one() {
    let (start, given) = numbers();
    let arrays = [doubles("X", &[H, W], start.clone()), doubles("A", &[H, W], given.clone())];
    for (exclude, bound) in [("", ""), ("Exclude(less(A(0,0), 0.7))", ""), ("", "Bounds(X, -0.4, 0.9)")] {
        let text = REST.replace("EXCLUDE", &format!("{exclude} {bound}"));
        let whole = text.replace(
            "Residual{name=\"smooth\"",
            "Residual{name=\"data\", exp(0.3 * X(0,0)) - A(0,0)}\nResidual{name=\"smooth\"",
        );
        let (energy, mut data) = bind(&whole, &arrays);
        let all = sumsq::Options { compile: options(Precision::F64, 2), solve: exact() };
        let expected = sumsq_tests::solve(&energy, &mut data, &all);

        let (rest, rest_data) = bind(&text, &arrays);
        let solver = data_alone().compile(&all.compile, &[("X", &[W as i32, H as i32])]).unwrap();
        let (x, a) = (image(&start, ScalarType::F64), image(&given, ScalarType::F64));
        let report = solver
            .solve_beside(&[("X", &x), ("A", &a)], &mut [], (&rest, &rest_data), &all.solve, &mut |_| {
                Control::Continue
            })
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(report.groups, ["data", "smooth"]);
        // Data of excluded elements are constants of the pipeline's part alone.
        let held = report.energy_initial - expected.energy_initial;
        assert_eq!(held.abs() > 1e-9, !exclude.is_empty(), "{held}");
        assert_eq!(report.iterations.len(), expected.iterations.len(), "{report}\n{expected}");
        for (a, b) in report.iterations.iter().zip(&expected.iterations) {
            assert_close(&text, a.energy - held, b.energy, 1e-9);
            assert_eq!(a.accepted, b.accepted);
        }
        for (a, b) in x.to_vec::<f64>().iter().zip(data.x()) {
            assert!((a - b).abs() < 1e-6, "{a} and {b}");
        }
    }
}

#[test]
fn unknowns_that_are_not_shared_are_refused() {
    let (start, given) = numbers();
    let solver = data_alone().compile(&options(Precision::F64, 1), &[]).unwrap();
    let (x, a) = (image(&start, ScalarType::F64), image(&given, ScalarType::F64));
    let error = |text: &str, name: &str, size: [usize; 2]| {
        let n = size[0] * size[1];
        let arrays = [doubles(name, &size, vec![0.0; n]), doubles("A", &size, vec![0.0; n])];
        let (rest, data) = bind(text, &arrays);
        let options = SolveOptions::default();
        let run =
            solver.solve_beside(&[("X", &x), ("A", &a)], &mut [], (&rest, &data), &options, &mut |_| {
                Control::Continue
            });
        run.unwrap_err().to_string()
    };
    let text = REST.replace("EXCLUDE", "");
    assert_eq!(
        error(&text.replace("Unknown(\"X\"", "Unknown(\"Y\""), "Y", [H, W]),
        "the energy beside has the unknown `Y`, which the pipeline energy does not solve for"
    );
    assert_eq!(
        error(&text, "X", [H, W + 1]),
        "the unknown `X` has 391 scalars in the pipeline energy, 408 in the energy beside it"
    );
    assert_eq!(x.to_vec::<f64>(), start);
}
