//! Energies whose residuals are Funcs of a pipeline: step by step what the same energy does as a text, known answers of filters and
//! curves, bounds, threads, errors.

mod beside;
mod kept;
mod solutions;

use sumsq::codegen::runtime::{Buffer, BufferSpec, Scalar};
use sumsq::codegen::{Expr, Input, Pipeline, RDom, ScalarType, Source, Var, boundary};
use sumsq::energy::losses::LossKind;
use sumsq::pipeline_energy::{Descent, FirstOrder, Loss, PipelineEnergy, PipelineEnergyError};
use sumsq::{CompileOptions, Precision, Preconditioner, Report, SolveOptions};
use sumsq_tests::{Random, assert_close, bind, doubles};

const W: usize = 23;
const H: usize = 17;

/// Denoising: data terms, and differences to the right and below under a robust loss, of each a tuple.
const TEXT: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float, {W, H}, 0)
    local A = Array("A", opt_float, {W, H}, 1)
    Residual{name="data", exp(0.3 * X(0,0)) - A(0,0)}
    Residual{name="smooth", loss=LOSS, Vector(Select(InBounds(1,0), X(1,0) - X(0,0), 0), Select(InBounds(0,1), X(0,1) - X(0,0), 0))}
"#;

fn denoising(loss: Loss) -> PipelineEnergy {
    let (x, y, mut p) = (Var::new("x"), Var::new("y"), Pipeline::new("denoising"));
    let image = p.input(Input::new("X", &[ScalarType::F64], 2));
    let given = p.input(Input::new("A", &[ScalarType::F64], 2));
    let near = p.func(boundary::repeat_edge("near", &image, &image.domain()));
    p.define("data", [x, y], (near.of((x, y)) * 0.3).exp() - given.of((x, y)));
    let step = |inside: Expr, dx: i32, dy: i32| {
        let change = near.of((x + dx, y + dy)) - near.of((x, y));
        Expr::select(inside, change, Expr::constant(ScalarType::F64, 0.0))
    };
    let steps = vec![step((x + 1).lt(image.extent(0)), 1, 0), step((y + 1).lt(image.extent(1)), 0, 1)];
    p.define_tuple("smooth", [x, y], steps);
    let domain = [(0.into(), image.extent(0)), (0.into(), image.extent(1))];
    PipelineEnergy::new(p)
        .unknown("X")
        .residual_over("data", &domain, Loss::Squares)
        .residual_over("smooth", &domain, loss)
}

fn options(precision: Precision, threads: usize) -> CompileOptions {
    CompileOptions { precision, threads: Some(threads), ..CompileOptions::default() }
}

/// Linear solves to the last digits, so that neither M nor the order of sums shows in the steps.
fn exact() -> SolveOptions {
    SolveOptions {
        iterations: Some(8),
        linear_tolerance: Some(1e-13),
        linear_iterations: Some(2000),
        function_tolerance: Some(0.0),
        ..SolveOptions::default()
    }
}

fn image(values: &[f64], ty: ScalarType) -> Buffer {
    let b = Buffer::new(BufferSpec::new(ty, &[W as i32, H as i32])).unwrap();
    b.copy_from(values).unwrap();
    b
}

fn solved(
    energy: &PipelineEnergy,
    start: &[f64],
    given: &[f64],
    compiled: &CompileOptions,
    options: &SolveOptions,
) -> (Report, Vec<f64>) {
    let solver = energy.compile(compiled, &[("X", &[W as i32, H as i32])]).unwrap_or_else(|e| panic!("{e}"));
    let (x, a) = (image(start, ScalarType::F64), image(given, ScalarType::F64));
    let report = solver.solve(&[("X", &x), ("A", &a)], &mut [], options).unwrap_or_else(|e| panic!("{e}"));
    (report, x.to_vec())
}

#[test]
fn a_pipeline_takes_the_steps_of_the_same_energy_as_a_text() {
    let robust = |kind, second_order| Loss::Robust { kind, scale: 0.4, second_order };
    let losses = [
        ("nil", Loss::Squares),
        ("Huber(0.4)", robust(LossKind::Huber, false)),
        ("SecondOrder(Cauchy(0.4))", robust(LossKind::Cauchy, true)),
        (
            "Loss(function(q) return 0.1*log(1 + 10*q) end)",
            Loss::Formula {
                rho: |dag, q| {
                    let inner = dag.sum(1.0, &[(10.0, q)]);
                    let log = dag.call(sumsq::energy::dag::Function::Log, &[inner]);
                    dag.scale(0.1, log)
                },
                second_order: false,
            },
        ),
    ];
    let mut random = Random::new(5);
    let (start, given) = (random.numbers(W * H), random.numbers(W * H));
    let given: Vec<f64> = given.iter().map(|a| 1.2 + a).collect();
    for (text, loss) in losses {
        let arrays = [doubles("X", &[H, W], start.clone()), doubles("A", &[H, W], given.clone())];
        let (energy, mut data) = bind(&TEXT.replace("LOSS", text), &arrays);
        let all = sumsq::Options { compile: options(Precision::F64, 2), solve: exact() };
        let expected = sumsq_tests::solve(&energy, &mut data, &all);
        let (report, x) = solved(&denoising(loss), &start, &given, &all.compile, &all.solve);
        assert_close(text, report.energy_initial, expected.energy_initial, 1e-12);
        assert_eq!(report.iterations.len(), expected.iterations.len(), "{text}\n{report}\n{expected}");
        for (a, b) in report.iterations.iter().zip(&expected.iterations) {
            assert_close(text, a.energy, b.energy, 1e-9);
            assert_close(text, a.gradient_max_norm, b.gradient_max_norm, 1e-5);
            assert_eq!(a.accepted, b.accepted, "{text}");
        }
        for (a, b) in x.iter().zip(data.x()) {
            assert!((a - b).abs() < 1e-6, "{text}: {a} and {b}");
        }
        assert_eq!((report.residuals, report.unknowns), (3 * W * H, W * H));
        assert_eq!(report.groups, ["data", "smooth"]);
    }
}

#[test]
fn every_precision_gets_there_and_threads_change_no_bit() {
    let mut random = Random::new(6);
    let (start, given) = (random.numbers(W * H), random.numbers(W * H));
    let given: Vec<f64> = given.iter().map(|a| 1.2 + a).collect();
    let energy = denoising(Loss::Robust { kind: LossKind::SoftL1, scale: 0.4, second_order: false });
    let plain = SolveOptions::default();
    let (best, _) = solved(&energy, &start, &given, &options(Precision::F64, 1), &exact());
    for (precision, tolerance) in [(Precision::F64, 1e-4), (Precision::Mixed, 1e-4), (Precision::F32, 1e-4)] {
        let (one, x) = solved(&energy, &start, &given, &options(precision, 1), &plain);
        assert_close(precision.name(), one.energy_final, best.energy_final, tolerance);
        for threads in [2, 3, 5, 8] {
            let (other, y) = solved(&energy, &start, &given, &options(precision, threads), &plain);
            assert_eq!(x, y, "{} threads", threads);
            assert_eq!(one.energy_final, other.energy_final);
        }
    }
}

/// A picture filtered by taps, then bent by a power: both are unknown.
fn filter(lower: f64) -> PipelineEnergy {
    let (x, y, mut p) = (Var::new("x"), Var::new("y"), Pipeline::new("filter"));
    let image = p.input(Input::new("image", &[ScalarType::F32], 2));
    let wanted = p.input(Input::new("wanted", &[ScalarType::F32], 2));
    let taps = p.input(Input::new("taps", &[ScalarType::F32], 2));
    let gamma = p.param("gamma", ScalarType::F32);
    let near = p.func(boundary::repeat_edge("near", &image, &image.domain()));
    let r = RDom::new([("rx", 0, 3), ("ry", 0, 3)]);
    let tap = near.of((x + r.var(0) - 1, y + r.var(1) - 1)) * taps.of((r.var(0), r.var(1)));
    let sum = p.sum("filtered_sum", &r, tap);
    let filtered = p.define("filtered", [x, y], sum);
    p.define("apart", [x, y], filtered.of((x, y)).pow(&gamma) - wanted.of((x, y)));
    let domain = [(0.into(), image.extent(0)), (0.into(), image.extent(1))];
    PipelineEnergy::new(p).unknown_in("taps", lower, f64::INFINITY).unknown("gamma").residual_over(
        "apart",
        &domain,
        Loss::Squares,
    )
}

const TAPS: [f64; 9] = [0.05, 0.2, 0.1, 0.15, 0.4, 0.12, 0.02, 0.3, 0.06];

/// The picture, and what the true taps and power make of it.
fn filtered() -> (Vec<f64>, Vec<f64>) {
    let mut random = Random::new(8);
    let picture: Vec<f64> = random.numbers(W * H).iter().map(|v| f64::from((0.6 + 0.3 * v) as f32)).collect();
    let at =
        |x: i32, y: i32| picture[(y.clamp(0, H as i32 - 1) as usize) * W + x.clamp(0, W as i32 - 1) as usize];
    let value = |i: usize| {
        let (x, y) = ((i % W) as i32, (i / W) as i32);
        let sum: f64 = (0..9).map(|k| TAPS[k as usize] * at(x + k % 3 - 1, y + k / 3 - 1)).sum();
        sum.powf(1.7)
    };
    let wanted = (0..W * H).map(value).collect();
    (picture, wanted)
}

fn fitted(energy: &PipelineEnergy, precision: Precision) -> (Report, Vec<f64>, f64) {
    let size: &[i32] = &[W as i32, H as i32];
    let solver = energy
        .compile(&options(precision, 2), &[("image", size), ("wanted", size), ("taps", &[3, 3])])
        .unwrap_or_else(|e| panic!("{e}"));
    let (picture, wanted) = filtered();
    let (image, wanted) = (image(&picture, ScalarType::F32), image(&wanted, ScalarType::F32));
    let taps = Buffer::new(BufferSpec::new(ScalarType::F32, &[3, 3])).unwrap();
    taps.copy_from(&[0.1f64; 9]).unwrap();
    let mut params = [("gamma", Scalar::F32(1.0))];
    let buffers = [("image", &image), ("wanted", &wanted), ("taps", &taps)];
    let report = solver.solve(&buffers, &mut params, &SolveOptions::default());
    let report = report.unwrap_or_else(|e| panic!("{e}"));
    let Scalar::F32(gamma) = params[0].1 else { panic!("a float") };
    (report, taps.to_vec(), f64::from(gamma))
}

#[test]
fn taps_and_power_of_a_filter_are_found_in_few_steps() {
    for precision in [Precision::Mixed, Precision::F64, Precision::F32] {
        let (report, taps, gamma) = fitted(&filter(f64::NEG_INFINITY), precision);
        assert!(report.energy_final < 1e-9 * report.energy_initial, "{report}");
        assert!(report.iterations.len() < 20, "{report}");
        assert_eq!(report.preconditioner, "block_jacobi");
        assert!((gamma - 1.7).abs() < 2e-3, "{gamma}");
        for (a, b) in taps.iter().zip(TAPS) {
            assert!((a - b).abs() < 2e-3, "{a} and {b}");
        }
    }
}

#[test]
fn bounds_hold_and_the_rest_fits_around_them() {
    let (free, ..) = fitted(&filter(f64::NEG_INFINITY), Precision::F64);
    let (report, taps, _) = fitted(&filter(0.08), Precision::F64);
    assert!(report.energy_final > free.energy_final);
    assert!(taps.iter().all(|t| *t >= f64::from(0.08f32)), "{taps:?}");
    let held = taps.iter().filter(|t| **t == f64::from(0.08f32)).count();
    assert!((1..=4).contains(&held), "{taps:?}");
}

#[test]
fn what_cannot_be_is_said() {
    let p = || {
        let (x, mut p) = (Var::new("x"), Pipeline::new("p"));
        let u = p.input(Input::new("u", &[ScalarType::F32], 1));
        let n = p.input(Input::new("n", &[ScalarType::I32], 1));
        let r = p.define("r", [x], u.of(x) - n.of(x).cast(ScalarType::F32));
        p.define("whole", [x], n.of(x));
        p.output(&r);
        p
    };
    let domain = [(Expr::from(0), Expr::from(8))];
    let over = |e: PipelineEnergy| e.residual_over("r", &domain, Loss::Squares);
    let new = || PipelineEnergy::new(p());
    let scaled = Loss::Robust { kind: LossKind::Huber, scale: -1.0, second_order: false };
    let cases: Vec<(PipelineEnergy, &str)> = vec![
        (new(), "the energy has no unknown: name an input or a parameter"),
        (new().unknown("u"), "the energy has no residual: name a Func"),
        (over(new().unknown("v")), "the pipeline has no input and no parameter `v` to solve for"),
        (over(new().unknown("n")), "the unknown `n` is of integers: it must be of floats"),
        (over(new().unknown("u").unknown("u")), "`u` is an unknown twice"),
        (
            new().unknown("u").residual_over("q", &domain, Loss::Squares),
            "the pipeline has no Func `q` to be a residual",
        ),
        (
            new().unknown("u").residual_over("whole", &domain, Loss::Squares),
            "the residual `whole` is of integers: it must have floats",
        ),
        (
            new().unknown("u").residual("r", Loss::Squares),
            "the residual `r` has no domain in dimension 0: give it one (`residual_over`), or fix the extent of its output",
        ),
        (
            new().unknown("u").residual_over("r", &[], Loss::Squares),
            "the residual `r` has 1 dimensions, its domain 0",
        ),
        (
            new().unknown("u").residual_over("r", &domain, scaled),
            "the scale of the loss of `r` is -1: it must be finite and above 0",
        ),
        (over(new().unknown_in("u", 1.0, 0.0)), "the bounds of `u` are 1 and 0: expected lower <= upper"),
    ];
    for (energy, message) in cases {
        let error = energy.compile(&CompileOptions::default(), &[]).err().expect(message);
        assert_eq!(error.to_string(), message);
    }
    let grids = CompileOptions { preconditioner: Preconditioner::Multigrid, ..CompileOptions::default() };
    assert_eq!(
        over(new().unknown("u")).compile(&grids, &[]).err().unwrap().to_string(),
        "a pipeline energy has no stencils to make grids of: instead of multigrid take auto, block_jacobi, jacobi or none"
    );
    let solver = over(new().unknown("u")).compile(&CompileOptions::default(), &[]).unwrap();
    let buffer = |ty| Buffer::new(BufferSpec::new(ty, &[8])).unwrap();
    let (u, n) = (buffer(ScalarType::F32), buffer(ScalarType::I32));
    let missing = solver.solve(&[("n", &n)], &mut [], &SolveOptions::default()).unwrap_err();
    assert_eq!(missing.to_string(), "nothing is given for the unknown `u`: it needs a start");
    u.copy_from(&[f32::NAN; 8]).unwrap();
    let nan = solver.solve(&[("n", &n), ("u", &u)], &mut [], &SolveOptions::default()).unwrap_err();
    assert!(matches!(nan, PipelineEnergyError::InitialNotFinite { .. }));
    assert_eq!(nan.to_string(), "E is NaN at the start: r is not finite");
    assert!(u.to_vec::<f32>().iter().all(|v| v.is_nan()));
}

#[test]
fn finite_differences_agree_with_all_routines() {
    let mut random = Random::new(11);
    let (start, given) = (random.numbers(W * H), random.numbers(W * H));
    for loss in [
        Loss::Squares,
        Loss::Robust { kind: LossKind::SoftL1, scale: 0.3, second_order: true },
        Loss::Robust { kind: LossKind::Cauchy, scale: 0.5, second_order: false },
    ] {
        let (x, a) = (image(&start, ScalarType::F64), image(&given, ScalarType::F64));
        let c = denoising(loss).check(&[("X", &x), ("A", &a)], &[], Some(2)).unwrap();
        assert!(c.gradient.iter().all(|(_, d)| *d < 1e-9), "{c:?}");
        assert!(c.product < 1e-8 && c.asymmetry < 1e-13 && c.least_diagonal > 0.0, "{c:?}");
        assert_eq!(x.to_vec::<f64>(), start, "the unknowns are as they were");
    }
    let (picture, wanted) = filtered();
    let (picture, wanted) = (image(&picture, ScalarType::F32), image(&wanted, ScalarType::F32));
    let taps = Buffer::new(BufferSpec::new(ScalarType::F32, &[3, 3])).unwrap();
    taps.copy_from(&TAPS.map(|t| t + 0.1)).unwrap();
    let buffers = [("image", &picture), ("wanted", &wanted), ("taps", &taps)];
    let c = filter(0.0).check(&buffers, &[("gamma", Scalar::F32(1.3))], None).unwrap();
    assert_eq!(c.gradient.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>(), ["taps", "gamma"]);
    assert!(c.gradient.iter().all(|(_, d)| *d < 1e-9) && c.product < 1e-8, "{c:?}");
}

/// All methods reach the minimum that the solve finds; each at its pace.
#[test]
fn first_order_methods_get_there_too() {
    let mut random = Random::new(13);
    let (start, given) = (random.numbers(W * H), random.numbers(W * H));
    let given: Vec<f64> = given.iter().map(|a| 1.2 + a).collect();
    let energy = denoising(Loss::Robust { kind: LossKind::SoftL1, scale: 0.4, second_order: false });
    let (best, _) = solved(&energy, &start, &given, &options(Precision::F64, 2), &exact());
    let solver = energy.compile(&options(Precision::F64, 2), &[("X", &[W as i32, H as i32])]).unwrap();
    let adam = FirstOrder::Adam { rate: 0.05, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
    let descent = FirstOrder::Descent { rate: 0.05, momentum: 0.8 };
    for (method, iterations) in [(adam, 400), (descent, 400), (FirstOrder::Lbfgs { history: 8 }, 60)] {
        let (x, a) = (image(&start, ScalarType::F64), image(&given, ScalarType::F64));
        let options = Descent { method, iterations, ..Descent::default() };
        let course = solver.descend(&[("X", &x), ("A", &a)], &mut [], &options).unwrap();
        let last = course.energies[course.energies.len() - 1];
        assert_close("E at the start", course.energies[0], best.energy_initial, 1e-12);
        assert!(last < best.energy_final * (1.0 + 1e-3), "{method:?}: {last} and {}", best.energy_final);
        if let FirstOrder::Lbfgs { .. } = method {
            assert!(course.energies.windows(2).all(|pair| pair[1] < pair[0]));
        }
    }
    let x = image(&start, ScalarType::F64);
    let bad = Descent { method: FirstOrder::Descent { rate: 0.0, momentum: 0.8 }, ..Descent::default() };
    let error = solver.descend(&[("X", &x)], &mut [], &bad).unwrap_err().to_string();
    assert_eq!(error, "a first-order method wants a finite rate above 0 and a momentum in [0, 1)");
}
