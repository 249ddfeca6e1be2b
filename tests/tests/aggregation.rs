//! Aggregation against the sparse matrices of the assembled path: near-null candidates, A on every level, steps, numbers of PCG
//! iterations.

use image::RgbImage;
use image::imageops::FilterType;
use sumsq::assembled::{Explicit, Hierarchies, LinearSolver};
use sumsq::energy::Energy;
use sumsq::{
    CompileOptions, Method, Precision, Preconditioner, ProblemData, SolveOptions, Solver, assembled,
};
use sumsq_examples::demos::{self, Problem};
use sumsq_examples::io::Mesh;
use sumsq_tests::hierarchies::{self, assert_same_bits, boxed, jumps, lattice};
use sumsq_tests::small::{self, Small};
use sumsq_tests::{Case, Random, bind, doubles, indices};

fn compiled(precision: Precision, threads: usize) -> CompileOptions {
    hierarchies::compiled(Preconditioner::Aggregation, precision, threads)
}

fn problems() -> Vec<(String, Small)> {
    let all = [
        ("grid", small::grid()),
        ("volume", small::volume_under_losses()),
        ("graph", small::graph()),
        ("computed arrays", small::computed_arrays()),
        ("computed arrays at vertices", small::computed_arrays_at_vertices()),
        ("lattice", lattice(37, 23)),
        ("path", lattice(1, 400)),
        ("jumps", jumps(41, 27)),
        ("column", jumps(1, 300)),
        ("box", boxed(37, 29)),
    ];
    all.map(|(name, problem)| (name.to_string(), problem)).into()
}

#[test]
fn every_level_is_the_product_of_sparse_matrices() {
    hierarchies::assert_levels(Preconditioner::Aggregation, problems());
}

#[test]
fn levels_of_all_extents_are_products_under_random_masks() {
    hierarchies::assert_levels_of_all_extents(Preconditioner::Aggregation);
}

#[test]
fn levels_of_the_examples_are_products_of_sparse_matrices() {
    hierarchies::assert_levels_of_grids(Preconditioner::Aggregation);
    hierarchies::assert_levels_of_case(Preconditioner::Aggregation, "arap_hand");
    let dog = sumsq_tests::workspace_root().join("data/embedded_deformation/dog_2k.ply");
    let dog = Mesh::read(&dog).unwrap();
    for problem in [
        demos::cotangent_mesh_smoothing::Scene::new(dog).problem(),
        demos::embedded_deformation::Scene::dog().unwrap().problem(),
        demos::robust_nonrigid_alignment::Scene::heads().unwrap().problem(),
    ] {
        let energy = Energy::from_text(problem.energy, problem.text).unwrap();
        let data = ProblemData::bind(&energy, &problem.inputs).unwrap();
        let kind = Preconditioner::Aggregation;
        hierarchies::assert_levels_of_example(kind, problem.energy, (&energy, &data), 1e-12);
    }
}

/// A photograph of this size.
fn photograph(width: u32, height: u32) -> RgbImage {
    let photograph = image::open(sumsq_tests::workspace_root().join("data/optical_flow/frame1.png")).unwrap();
    image::imageops::resize(&photograph.to_rgb8(), width, height, FilterType::Triangle)
}

#[test]
fn steps_are_those_of_sparse_matrices() {
    hierarchies::assert_steps(Preconditioner::Aggregation, problems());
}

#[test]
fn rejected_steps_are_those_of_sparse_matrices() {
    hierarchies::assert_rejected_steps(Preconditioner::Aggregation);
}

#[test]
fn bits_do_not_depend_on_threads() {
    for (energy, data) in [lattice(80, 70), jumps(90, 60)] {
        let options = SolveOptions { iterations: Some(3), ..SolveOptions::default() };
        assert_same_bits(|threads| {
            let solver = Solver::compile(energy.clone(), &compiled(Precision::Mixed, threads)).unwrap();
            let mut data = data.clone();
            solver.plan(&data).unwrap().solve(&mut data, &options).unwrap();
            data
        });
    }
}

#[test]
fn what_cannot_be_served_is_refused() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        Energy(X(0) - 1)
    "#;
    let energy = Energy::from_text("test.t", text).unwrap();
    let refused = Solver::compile(energy, &compiled(Precision::Mixed, 1)).err().map(|e| e.to_string());
    let refused = refused.unwrap_or_default();
    assert!(refused.contains("reads at two elements") && refused.contains("use block_jacobi"), "{refused}");
    // Unknowns of which no residual reads one at two elements.
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local Y = Unknown("Y", opt_float, {N}, 1)
        Energy(X(0) - Y(1), 0.1 * Y(0))
    "#;
    let energy = Energy::from_text("test.t", text).unwrap();
    let refused = Solver::compile(energy, &compiled(Precision::Mixed, 1)).err().map(|e| e.to_string());
    assert!(refused.as_ref().is_some_and(|said| said.contains("use multigrid")), "{refused:?}");
}

/// Elements of eighteen unknowns keep block Jacobi beside those that have aggregates, and steps are those of sparse matrices.
#[test]
fn wide_spaces_keep_their_blocks() {
    let (n, m) = (120, 40);
    let mut random = Random::new(12);
    let text = r#"
        local N, M = Dim("N", 0), Dim("M", 1)
        local X = Unknown("X", opt_float, {N}, 0)
        local Y = Unknown("Y", opt_float12, {M}, 1)
        local Z = Unknown("Z", opt_float6, {M}, 2)
        local G = Graph("G", 3, "a", {N}, 4, "b", {N}, 5, "c", {M}, 6, "d", {M}, 7)
        Energy(0.05 * X(0))
        Energy(0.3 * Y(0), Y(0) - Y(1), 0.2 * Z(0), Z(0,1) - Y(0,2))
        Energy(X(G.a) - X(G.b) - 0.1 * Y(G.c, 3), Y(G.c, 5) - 0.5 * Y(G.d, 5) * X(G.a))
    "#;
    let ends = |step: i64| (0..n as i64 - 1).map(|i| i + step).collect();
    let arrays = [
        doubles("X", &[n], random.numbers(n)),
        doubles("Y", &[m, 12], random.numbers(12 * m)),
        doubles("Z", &[m, 6], random.numbers(6 * m)),
        indices("G.a", 1, ends(0)),
        indices("G.b", 1, ends(1)),
        indices("G.c", 1, random.below(m, n - 1)),
        indices("G.d", 1, random.below(m, n - 1)),
    ];
    let problem = bind(text, &arrays);
    let solver = Solver::compile(problem.0.clone(), &compiled(Precision::F64, 2)).unwrap();
    let report =
        solver.plan(&problem.1).unwrap().solve(&mut problem.1.clone(), &SolveOptions::default()).unwrap();
    let served: Vec<&str> = report.grids.iter().map(|of| of.space.as_str()).collect();
    assert_eq!((served, report.without_levels), (vec!["{N}"], vec!["{M}".to_string()]));
    let wide = || vec![("wide".to_string(), problem.clone())];
    hierarchies::assert_levels(Preconditioner::Aggregation, wide());
    hierarchies::assert_steps(Preconditioner::Aggregation, wide());
    hierarchies::assert_certified(Preconditioner::Aggregation, wide());
}

#[test]
fn displacements_that_cannot_be_are_refused() {
    for (given, message) in [
        ("NearNull(A, 1)", "`NearNull` is for unknowns; `A` is none"),
        ("NearNull(X, X(0))", "a `NearNull` of `X` reads the unknown `X`"),
        ("NearNull(X, Vector(1, 2, 3))", "channels"),
        ("NearNull(X)", "NearNull"),
    ] {
        let text = format!(
            r#"
            local N = Dim("N", 0)
            local X = Unknown("X", opt_float2, {{N}}, 0)
            local A = Array("A", opt_float, {{N}}, 1)
            {given}
            Energy(X(0) - X(1))
            "#
        );
        let refused = Energy::from_text("test.t", &text).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(message), "{refused}");
    }
}

/// Iterations of PCG to |r| <= 1e-6 |b|, R = 1e4, with so many additive levels, from x.
fn iterations(energy: &Energy, data: &ProblemData<'_>, additive: &[usize]) -> Vec<usize> {
    let problem = Explicit::new(energy, data).unwrap();
    let x = problem.initial();
    let (residuals, jacobian) = problem.linearise(&x);
    let diag = jacobian.diag();
    let damping: Vec<f64> = diag.iter().map(|d| d / 1e4).collect();
    let solve = |&additive: &usize| {
        let m = Hierarchies::aggregation(&problem, &x, &jacobian, (&diag, &damping), additive);
        hierarchies::pcg(&jacobian, &damping, &residuals, &|r| m.apply_inverse(r))
    };
    additive.iter().map(solve).collect()
}

/// At rest the candidates of ARAP are its rigid motions: Rotate3D turns by positive angles about x, y and z.
#[test]
fn candidates_of_arap_are_rigid_motions() {
    let case = Case::open("arap_hand");
    let data = case.data();
    let problem = Explicit::new(&case.energy, &data).unwrap();
    let x = problem.initial();
    let jacobian = problem.linearise(&x).1;
    let (diag, damping) = (jacobian.diag(), vec![0.0; problem.free()]);
    let m = Hierarchies::aggregation(&problem, &x, &jacobian, (&diag, &damping), 1);
    let space = case.energy.unknowns[0].space;
    assert_rigid(&x, m.candidates(space));
    // Those that solves use.
    let solver = Solver::compile(case.energy.clone(), &compiled(Precision::F64, 2)).unwrap();
    let mut ours = solver.plan(&data).unwrap();
    drop(ours.init(&data, &SolveOptions::default()).unwrap());
    assert_rigid(&x, &ours.candidates(space));
}

/// Displacements of ARAP are its three translations and its three turns about the mean, to 1e-8.
fn assert_rigid(x: &[f64], candidates: &[Vec<f64>]) {
    let n = x.len() / 6;
    let mean = [0, 1, 2].map(|c| (0..n).map(|e| x[3 * e + c]).sum::<f64>() / n as f64);
    let axes = [[0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]];
    assert_eq!(candidates.len(), 6);
    for (i, candidate) in candidates.iter().enumerate() {
        for e in 0..n {
            let v = [0, 1, 2].map(|c| x[3 * e + c] - mean[c]);
            let rigid = match i.checked_sub(3) {
                None => [[0, 1, 2].map(|c| f64::from(u8::from(c == i))), [0.0; 3]],
                Some(turn) => {
                    let a = axes[turn];
                    let cross =
                        [0, 1, 2].map(|c| a[(c + 1) % 3] * v[(c + 2) % 3] - a[(c + 2) % 3] * v[(c + 1) % 3]);
                    [cross, a]
                }
            };
            let came = &candidate[6 * e..6 * e + 6];
            let off = came.iter().zip(rigid.concat()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(off <= 1e-8, "candidate {i}, vertex {e}: {came:?}, not {rigid:?}");
        }
    }
}

/// Second differences resist no ramp: with that as a candidate few iterations are left.
#[test]
fn given_displacements_are_candidates() {
    let n = 2000;
    let ramp: Vec<f64> = (0..n).map(|i| i as f64 / n as f64).collect();
    let problem = |given: &str| {
        let text = format!(
            r#"
            local N = Dim("N", 0)
            local X = Unknown("X", opt_float, {{N}}, 0)
            local A = Array("A", opt_float, {{N}}, 1)
            {given}
            Energy(X(-1) - 2 * X(0) + X(1), 1e-2 * (X(0) - A(0)))
            "#
        );
        bind(&text, &[doubles("X", &[n], Random::new(7).numbers(n)), doubles("A", &[n], ramp.clone())])
    };
    let options = SolveOptions {
        iterations: Some(1),
        linear_tolerance: Some(1e-6),
        method: Method::GaussNewton,
        ..SolveOptions::default()
    };
    let counts = ["", "NearNull(X, A(0))"].map(|given| {
        let (energy, data) = problem(given);
        let compiled = compiled(Precision::F64, 2);
        let (mut ours, mut theirs) = (data.clone(), data.clone());
        let solver = Solver::compile(energy.clone(), &compiled).unwrap();
        let report = solver.plan(&data).unwrap().solve(&mut ours, &options).unwrap();
        let expected = assembled::solve(&energy, &mut theirs, &compiled, &options, LinearSolver::Cg).unwrap();
        let counts = [report.linear_iterations_total, expected.linear_iterations_total];
        println!("{given}: {counts:?} iterations");
        assert!(counts[0].abs_diff(counts[1]) <= 1 + counts[1] / 7, "{counts:?}");
        counts[0]
    });
    assert!(2 * counts[1] <= counts[0], "{counts:?}");
}

/// PCG needs so many iterations, within 15 percent, with V(1,1) from the finest level on and with that additive.
fn assert_iterations(name: &str, energy: &Energy, data: &ProblemData<'_>, expected: [usize; 2]) {
    let came = iterations(energy, data, &[0, 1]);
    println!("{name}: {came:?} iterations, {expected:?} expected");
    for (came, expected) in came.into_iter().zip(expected) {
        assert!(came.abs_diff(expected) as f64 <= 0.15 * expected as f64, "{name}: {came}, not {expected}");
    }
}

fn assert_iterations_of_demo(problem: &Problem, expected: [usize; 2]) {
    let energy = Energy::from_text(problem.energy, problem.text).unwrap();
    let data = ProblemData::bind(&energy, &problem.inputs).unwrap();
    assert_iterations(problem.energy, &energy, &data, expected);
}

/// Block Jacobi: 382.
#[test]
fn iterations_of_arap() {
    let dog = demos::arap_mesh_deformation::Scene::dog_17k().unwrap();
    assert_iterations_of_demo(&dog.problem(), [16, 24]);
}

/// Block Jacobi: 265.
#[test]
fn iterations_of_embedded_deformation() {
    let dog = demos::embedded_deformation::Scene::dog().unwrap();
    assert_iterations_of_demo(&dog.problem(), [19, 28]);
}

/// Block Jacobi: 873.
#[test]
fn iterations_of_nonrigid_alignment() {
    let heads = demos::robust_nonrigid_alignment::Scene::heads().unwrap();
    assert_iterations_of_demo(&heads.problem(), [28, 38]);
}

/// Block Jacobi: 562.
#[test]
fn iterations_of_intrinsic_images() {
    let small = photograph(80, 56);
    assert_iterations_of_demo(&demos::intrinsic_image_decomposition::Scene::new(small).problem(), [18, 36]);
}

/// Iterations of generated code with the host's levels, in float64 and in float32.
#[test]
fn precisions_take_as_many_iterations() {
    let (energy, data) = lattice(60, 50);
    let options = SolveOptions {
        iterations: Some(1),
        linear_tolerance: Some(1e-6),
        radius: Some(1e4),
        ..SolveOptions::default()
    };
    let expected = iterations(&energy, &data, &[1])[0];
    for precision in [Precision::F64, Precision::Mixed, Precision::F32] {
        let solver = Solver::compile(energy.clone(), &compiled(precision, 2)).unwrap();
        let report = solver.plan(&data).unwrap().solve(&mut data.clone(), &options).unwrap();
        let came = report.linear_iterations_total;
        println!("{precision:?}: {came} iterations, {expected} from sparse matrices; {:?}", report.grids);
        assert!(
            came.abs_diff(expected) as f64 <= 0.1 * expected as f64,
            "{precision:?}: {came}, not {expected}"
        );
        assert!(report.preconditioner == "aggregation" && report.grids.len() == 1);
        assert!(report.grids[0].levels.len() >= 3 && report.grids[0].bytes <= report.memory.buffers);
    }
}

#[test]
fn certificates_hold() {
    hierarchies::assert_certified(Preconditioner::Aggregation, problems());
}
