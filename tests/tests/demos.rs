//! The demos: their derivatives, and energies with a minimum known beforehand.

use sumsq::assembled::Explicit;
use sumsq::energy::Energy;
use sumsq::{ArrayData, CompileOptions, NamedArray, Options, Precision, ProblemData, SolveOptions, Solver};
use sumsq_examples::demos::{ALL, intrinsic_image_decomposition, shape_from_shading};
use sumsq_tests::{Random, assert_close, bind, doubles, example_energy, indices, solve};

/// The energies whose demo inputs are quickly certified.
const QUICK: [&str; 3] = ["volumetric_mesh_deformation", "embedded_deformation", "robust_nonrigid_alignment"];

#[test]
fn derivatives_are_certified_on_the_inputs_of_small_demos() {
    derivatives_are_certified(true);
}

/// Constant views are the unknowns as they are, not as they were bound.
#[test]
fn derivatives_are_certified_where_views_have_moved() {
    let text = "local W, H = Dim('W', 0), Dim('H', 1)
        local X = Unknown('X', double, {W,H}, 0)
        local X_const = Array('X_const', double, {W,H}, 0)
        local A = Array('A', double, {W,H}, 1)
        local p = Param('p', double, 2)
        Energy(X(0,0) - A(0,0), L_p(X(0,0) - X(1,0), X_const(0,0) - X_const(1,0), p, {W,H}))";
    let mut random = Random::new(18);
    let mut numbers = || random.numbers(12 * 9);
    let arrays =
        [doubles("X", &[12, 9], numbers()), doubles("A", &[12, 9], numbers()), doubles("p", &[], vec![0.8])];
    let (energy, data) = bind(text, &arrays);
    let options = CompileOptions { precision: Precision::F64, ..CompileOptions::default() };
    let solver = Solver::compile(energy, &options).unwrap();
    let (x, v) = (numbers(), numbers());
    let certificate = solver.plan(&data).unwrap().certify(&data, &x, &v).unwrap();
    assert!(certificate.passed(), "{:?}", certificate.failures());
}

#[test]
#[ignore = "half a minute: full size"]
fn derivatives_are_certified_on_the_inputs_of_large_demos() {
    derivatives_are_certified(false);
}

fn derivatives_are_certified(quick: bool) {
    for demo in ALL.iter().filter(|demo| demo.has_text() && quick == QUICK.contains(&demo.name)) {
        let problem = demo.problem().unwrap();
        let energy = Energy::from_text(problem.energy, problem.text).unwrap();
        let data = ProblemData::bind(&energy, &problem.inputs).unwrap();
        let options = Options {
            compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
            ..Options::default()
        };
        let solver = Solver::compile(energy, &options.compile).unwrap();
        let mut random = Random::new(17);
        let x = data.x();
        // Away from rest, where many derivatives vanish.
        let size = x.iter().map(|x| x.abs()).fold(0.0, f64::max).min(1.0) * 1e-3;
        let x: Vec<f64> = x.iter().map(|x| x + size * random.number()).collect();
        let v = random.numbers(x.len());
        let certificate = solver.plan(&data).unwrap().certify(&data, &x, &v).unwrap();
        assert!(certificate.passed(), "{}: {:?}", demo.name, certificate.failures());
    }
}

fn floats(array: &NamedArray) -> Vec<f64> {
    match &array.data {
        ArrayData::F32(values) => values.iter().map(|&v| f64::from(v)).collect(),
        ArrayData::F64(values) => values.clone(),
        _ => panic!("`{}` has no floats", array.name),
    }
}

/// A picture cloned into a brighter copy of itself comes out as that copy.
#[test]
fn cloning_keeps_the_targets_brightness() {
    let (w, h) = (17, 13);
    let mut random = Random::new(5);
    let source: Vec<f64> = (0..w * h * 4).map(|_| 100.0 * random.number()).collect();
    let inside = |i: usize| (3..w - 3).contains(&(i % w)) && (3..h - 3).contains(&(i / w));
    let target: Vec<f64> = source.iter().map(|s| s + 40.0).collect();
    let start = target.iter().enumerate().map(|(k, &t)| if inside(k / 4) { 0.0 } else { t }).collect();
    let mask = (0..w * h).map(|i| f64::from(u8::from(!inside(i)))).collect();
    let energy = example_energy("poisson_image_editing");
    let shape = [h, w, 4];
    let arrays = [doubles("X", &shape, start), doubles("T", &shape, source), doubles("M", &[h, w], mask)];
    let mut data = ProblemData::bind(&energy, &arrays).unwrap();
    let options = Options {
        compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
        solve: SolveOptions { linear_tolerance: Some(1e-10), ..SolveOptions::default() },
    };
    let report = solve(&energy, &mut data, &options);
    assert!(report.energy_final < 1e-12 * report.energy_initial, "{}", report.energy_final);
    let worst = data.unknowns()[0].iter().zip(&target).map(|(x, t)| (x - t).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-6, "{worst}");
}

/// The benchmark's frame adds pixels that nothing was measured at.
#[test]
fn the_skull_has_the_same_energy_in_its_frame() {
    let scene = shape_from_shading::Scene::skull().unwrap();
    let energies = [scene.clone(), scene.in_its_frame()].map(|scene| {
        let problem = scene.problem();
        let energy = Energy::from_text(problem.energy, problem.text).unwrap();
        let data = ProblemData::bind(&energy, &problem.inputs).unwrap();
        let assembled = Explicit::new(&energy, &data).unwrap();
        (assembled.free(), assembled.energies(&assembled.initial()).total)
    });
    assert_eq!(energies[0].0, energies[1].0);
    assert_close("E", energies[1].1, energies[0].1, 1e-9);
}

/// A turn by the angle 0.7 about z and a shift.
fn rigid(p: [f64; 3]) -> [f64; 3] {
    let (sin, cos) = 0.7f64.sin_cos();
    [cos * p[0] - sin * p[1] + 0.3, sin * p[0] + cos * p[1] - 0.2, p[2] + 0.5]
}

/// The points of a lattice, and constraints that move two of its layers rigidly.
fn lattice(n: usize) -> (Vec<[f64; 3]>, Vec<f64>) {
    let point = |i: usize| [i % n, i / n % n, i / (n * n)].map(|c| 0.1 * c as f64);
    let points: Vec<_> = (0..n * n * n).map(point).collect();
    let held = |i: usize| i / (n * n) == 0 || i / (n * n) + 1 == n;
    let constraint = |i: usize| if held(i) { rigid(points[i]) } else { [f64::NEG_INFINITY; 3] };
    (points.clone(), (0..points.len()).flat_map(constraint).collect())
}

#[track_caller]
fn is_rigid(data: &ProblemData, points: &[[f64; 3]]) {
    for (x, &p) in data.unknowns()[0].chunks(3).zip(points) {
        let off = x.iter().zip(rigid(p)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < 1e-4, "{p:?} went to {x:?}");
    }
}

/// Handles that move rigidly take everything along rigidly.
#[test]
fn volumes_and_graphs_follow_a_rigid_motion() {
    let n = 4;
    let (points, constraints) = lattice(n);
    let rest: Vec<f64> = points.iter().flatten().copied().collect();
    let weight = |name: &str, w: f64| doubles(name, &[], vec![w]);
    let options = Options {
        compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
        solve: SolveOptions { function_tolerance: Some(0.0), ..SolveOptions::default() },
    };

    let energy = example_energy("volumetric_mesh_deformation");
    let shape = [n, n, n, 3];
    let arrays = [
        doubles("Offset", &shape, rest.clone()),
        doubles("Angle", &shape, vec![0.0; rest.len()]),
        doubles("UrShape", &shape, rest.clone()),
        doubles("Constraints", &shape, constraints.clone()),
        weight("w_fitSqrt", 1.0),
        weight("w_regSqrt", 1.0),
    ];
    let mut data = ProblemData::bind(&energy, &arrays).unwrap();
    solve(&energy, &mut data, &options);
    is_rigid(&data, &points);

    let energy = example_energy("embedded_deformation");
    let count = points.len();
    let near = |i: usize, j: usize| {
        let squared: f64 = points[i].iter().zip(points[j]).map(|(a, b)| (a - b).powi(2)).sum();
        i != j && squared < 0.021
    };
    let edges: Vec<(usize, usize)> =
        (0..count).flat_map(|i| (0..count).map(move |j| (i, j))).filter(|&(i, j)| near(i, j)).collect();
    let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0].repeat(count);
    let arrays = [
        doubles("Offset", &[count, 3], rest.clone()),
        doubles("RotMatrix", &[count, 9], identity),
        doubles("UrShape", &[count, 3], rest),
        doubles("Constraints", &[count, 3], constraints),
        weight("w_fitSqrt", 1.0),
        weight("w_regSqrt", 1.0),
        weight("w_rotSqrt", 0.3),
        indices("G.v0", 1, edges.iter().map(|e| e.0 as i64).collect()),
        indices("G.v1", 1, edges.iter().map(|e| e.1 as i64).collect()),
    ];
    let mut data = ProblemData::bind(&energy, &arrays).unwrap();
    solve(&energy, &mut data, &options);
    is_rigid(&data, &points);
    let (sin, cos) = 0.7f64.sin_cos();
    let turn = [cos, -sin, 0.0, sin, cos, 0.0, 0.0, 0.0, 1.0];
    for (matrix, i) in data.unknowns()[1].chunks(9).zip(0..) {
        let off = matrix.iter().zip(turn).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < 1e-3, "node {i} turned by {matrix:?}");
    }
}

/// Two colours under light that falls off: the reflectance comes closer to the two colours than where it starts.
#[test]
fn light_is_told_from_colour() {
    let (w, h) = (32, 24);
    let colour = |x: u32| if x < w / 2 { [0.8, 0.3, 0.2] } else { [0.2, 0.4, 0.7] };
    let light = |x: u32, y: u32| 0.35 + 0.6 * f64::from(x + y) / f64::from(w + h);
    let encode = |linear: f64| (255.0 * linear.powf(1.0 / 2.2)).round() as u8;
    let picture =
        image::RgbImage::from_fn(w, h, |x, y| image::Rgb(colour(x).map(|c| encode(c * light(x, y)))));
    let problem = intrinsic_image_decomposition::Scene::new(picture).problem();
    let (solver, mut data) = problem.compile().unwrap();
    // Colours are known up to one factor: compare what remains within each half.
    let spread = |r: &[f64]| -> f64 {
        let halves = [true, false].map(|left| {
            let values = r.chunks(3).enumerate().filter(|(i, _)| ((*i as u32 % w) < w / 2) == left);
            let values: Vec<f64> = values.map(|(_, r)| r[0]).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            values.iter().map(|v| (v - mean).powi(2)).sum::<f64>()
        });
        halves.iter().sum::<f64>().sqrt()
    };
    let photograph = problem.inputs.iter().find(|array| array.name == "I").map(floats).unwrap();
    solver.plan(&data).unwrap().solve(&mut data, &problem.options.solve).unwrap();
    assert!(spread(&data.unknowns()[0]) < 0.2 * spread(&photograph), "{}", spread(&data.unknowns()[0]));
    let jump = data.unknowns()[0][3 * (w as usize / 2)] - data.unknowns()[0][3 * (w as usize / 2 - 1)];
    assert!(jump < -0.5, "the colours stay apart: {jump}");
}

/// Photographs with large differences along the seam.
#[test]
fn photographs_are_cloned() {
    let scene = sumsq_examples::demos::poisson_image_editing::Scene::tulips_in_coffee().unwrap();
    let problem = scene.problem();
    let (solver, mut data) = problem.compile().unwrap();
    let mut plan = solver.plan(&data).unwrap();
    let report = plan.solve(&mut data, &problem.options.solve).unwrap();
    assert!(report.energy_final < 0.9 * report.energy_initial);
    let gradient = plan.evaluate(&data).unwrap().gradient;
    let norm = gradient[0].iter().map(|g| g * g).sum::<f64>().sqrt();
    assert_close("E is at its minimum", report.energy_final + norm, report.energy_final, 1e-3);
}
