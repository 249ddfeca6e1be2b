//! Multigrid against the sparse matrices of the assembled path: A on every level, steps, numbers of PCG iterations.

use sumsq::assembled::{Explicit, Hierarchies, LinearSolver};
use sumsq::codegen::Target;
use sumsq::energy::Energy;
use sumsq::matrix_free::preconditioner::kinds;
use sumsq::{
    Backend, CompileOptions, Precision, Preconditioner, ProblemData, SolveOptions, Solver, assembled,
};
use sumsq_tests::hierarchies::{self, assert_same_bits, boxed, coupled, jumps};
use sumsq_tests::small::{self, Small};
use sumsq_tests::{Case, Random, assert_vectors_close, bind, doubles, indices};

fn compiled(precision: Precision, threads: usize) -> CompileOptions {
    hierarchies::compiled(Preconditioner::Multigrid, precision, threads)
}

/// A list whose elements are read up to three apart, one unknown, and residuals of a graph over it.
fn list(n: usize) -> Small {
    let mut random = Random::new(n as u64);
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float2, {N}, 0)
        local G = Graph("G", 1, "v0", {N}, 2, "v1", {N}, 3)
        Energy(X(0) - 0.5 * X(1), 0.1 * (X(0) - X(3)), 0.05 * X(0), 0.2 * (X(G.v0) - X(G.v1)))
    "#;
    let x = doubles("X", &[n, 2], random.numbers(2 * n));
    let ends = |name, step| indices(name, 1, (0..n / 2).map(|i| ((i * 3 + step) % n) as i64).collect());
    bind(text, &[x, ends("G.v0", 0), ends("G.v1", 7)])
}

/// A grid whose elements are read so far apart that level 0 is stored on processors, too.
fn far(w: usize, h: usize) -> Small {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        Energy(X(0,0) - X(17,0), X(0,0) - X(1,0) - 0.3, X(0,0) - X(0,1), 0.1 * X(0,0))
    "#;
    bind(text, &[doubles("X", &[h, w], Random::new(17).numbers(w * h))])
}

/// Graph rows of computed arrays lie over a grid once stencils couple its elements.
const STENCIL: &str = "Energy(0.4 * (X(0,0) - X(1,0)), 0.4 * A(0,0) * (X(0,0) - X(0,1)))";

fn problems() -> Vec<(String, Small)> {
    let mut all: Vec<(String, Small)> = vec![
        ("grid".into(), small::grid()),
        ("volume".into(), small::volume_under_losses()),
        ("computed arrays".into(), small::computed_arrays()),
        ("computed arrays at vertices".into(), small::computed_arrays_at_vertices_beside(STENCIL)),
        ("jumps".into(), jumps(41, 27)),
        ("box".into(), boxed(37, 29)),
        ("list".into(), list(1501)),
        ("far".into(), far(70, 23)),
    ];
    for (w, h, excluded) in
        [(1, 701, 0.0), (701, 1, 0.1), (33, 64, 0.3), (64, 33, 0.02), (5, 400, 0.5), (128, 101, 0.1)]
    {
        all.push((format!("{w} x {h}"), coupled(w, h, excluded)));
    }
    all
}

#[test]
fn every_level_is_the_product_of_sparse_matrices() {
    hierarchies::assert_levels(Preconditioner::Multigrid, problems());
}

#[test]
fn levels_of_all_extents_are_products_under_random_masks() {
    hierarchies::assert_levels_of_all_extents(Preconditioner::Multigrid);
}

/// On the examples' energies that have a grid, but for the one on a photograph.
#[test]
fn levels_of_the_examples_are_products_of_sparse_matrices() {
    hierarchies::assert_levels_of_grids(Preconditioner::Multigrid);
    let energy = sumsq_tests::example_energy("curveFitting");
    assert!(kinds::with_levels(&energy).is_empty(), "its unknown is a global");
}

#[test]
fn certificates_hold() {
    hierarchies::assert_certified(Preconditioner::Multigrid, problems());
}

/// Sweep A computes p in whole vectors around the domain, more than half of them further out than the ways of the next level lead.
#[test]
fn corrections_are_read_as_far_out_as_p_is_computed() {
    let (w, h) = (16, 3);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        Energy(X(0,0) - X(5,0) - 0.3, X(0,0) - X(0,1), 0.1 * X(0,0))
    "#;
    let mut random = Random::new(27);
    let (energy, data) = bind(text, &[doubles("X", &[h, w], random.numbers(w * h))]);
    let target = Target::host().with_lanes(4);
    let solver = Solver::compile_for(energy, &compiled(Precision::F64, 1), target).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    let (x, v) = (data.x(), random.numbers(w * h));
    assert!(problem.certify(&data, &x, &v).unwrap().passed());
}

#[test]
fn steps_are_those_of_sparse_matrices() {
    hierarchies::assert_steps(Preconditioner::Multigrid, problems());
}

#[test]
fn rejected_steps_are_those_of_sparse_matrices() {
    hierarchies::assert_rejected_steps(Preconditioner::Multigrid);
}

fn solve(energy: &Energy, data: &ProblemData<'static>, compiled: &CompileOptions) -> ProblemData<'static> {
    let solver = Solver::compile(energy.clone(), compiled).unwrap();
    let mut data = data.clone();
    let options = SolveOptions { iterations: Some(5), ..SolveOptions::default() };
    solver.plan(&data).unwrap().solve(&mut data, &options).unwrap();
    data
}

#[test]
fn bits_do_not_depend_on_threads() {
    for (energy, data) in [coupled(257, 190, 0.2), list(9001)] {
        assert_same_bits(|threads| solve(&energy, &data, &compiled(Precision::Mixed, threads)));
    }
}

/// Iterations of PCG to |r| <= 1e-6 |b|, R = 1e4, as the matrix-free path and the sparse matrices take them.
fn iterations(name: &str, precision: Precision) -> [usize; 2] {
    let case = Case::open(name);
    let options = SolveOptions {
        iterations: Some(1),
        linear_tolerance: Some(1e-6),
        radius: Some(1e4),
        ..SolveOptions::default()
    };
    let compiled = compiled(precision, 2);
    let mut data = case.data();
    let solver = Solver::compile(case.energy.clone(), &compiled).unwrap();
    let ours = solver.plan(&data).unwrap().solve(&mut data, &options).unwrap();
    let mut data = case.data();
    let theirs = assembled::solve(&case.energy, &mut data, &compiled, &options, LinearSolver::Cg).unwrap();
    [ours.linear_iterations_total, theirs.linear_iterations_total]
}

/// PCG needs so many iterations, within 15 percent, in float64 and in float32.
fn assert_iterations(name: &str, expected: usize) {
    for precision in [Precision::F64, Precision::F32] {
        let [ours, theirs] = iterations(name, precision);
        println!(
            "{name}, {precision:?}: {ours} iterations, {theirs} from sparse matrices, {expected} expected"
        );
        for came in [ours, theirs] {
            assert!(
                came.abs_diff(expected) as f64 <= 0.15 * expected as f64,
                "{name}: {came}, not {expected}"
            );
        }
    }
}

#[test]
fn iterations_of_laplacian() {
    assert_iterations("laplacian", 15);
}

#[test]
fn iterations_of_poisson() {
    assert_iterations("poisson_image_editing_small", 15);
}

/// Two additive levels.
#[test]
fn iterations_of_image_warping() {
    assert_iterations("image_warping", 42);
}

/// Six unknowns an element of a volume.
#[test]
fn iterations_of_volumetric() {
    assert_iterations("volumetric_mesh_deformation", 38);
}

/// On a GPU, which is a stand-in, with three levels.
#[test]
fn kernels_take_the_same_steps() {
    let control = sumsq_libcuda::preload().unwrap();
    control.fail_none();
    control.set("DEVICES", "1");
    let (energy, data) = coupled(48, 40, 0.1);
    let options = SolveOptions { iterations: Some(2), linear_iterations: Some(4), ..SolveOptions::default() };
    let solve = |backend| {
        let compiled = CompileOptions { backend, ..compiled(Precision::F64, 1) };
        let mut data = data.clone();
        let mut problem = Solver::compile(energy.clone(), &compiled).unwrap().plan(&data).unwrap();
        let report = problem.solve(&mut data, &options).unwrap();
        assert!(report.grids[0].levels.len() >= 3);
        (report, data.x())
    };
    let ((ours, x), (expected, theirs)) = (solve(Backend::Cuda), solve(Backend::Cpu));
    for (a, b) in ours.iterations.iter().zip(&expected.iterations) {
        assert_eq!((a.linear_iterations, a.accepted), (b.linear_iterations, b.accepted));
    }
    assert_vectors_close("x", &x, &theirs, 1e-8);
}

#[test]
fn what_cannot_be_served_is_refused() {
    let refused = |energy: Energy| match Solver::compile(energy, &compiled(Precision::Mixed, 1)) {
        Ok(_) => panic!("compiled"),
        Err(e) => e.to_string(),
    };
    let wide = r#"
        local A, B, C, D = Dim("A", 0), Dim("B", 1), Dim("C", 2), Dim("D", 3)
        local X = Unknown("X", opt_float4, {A,B,C,D}, 0)
        local Y = Unknown("Y", opt_float, {A,B,C,D}, 1)
        Energy(X(0,0,0,0) - X(1,0,0,0), Y(0,0,0,0) - Y(0,0,0,1))
    "#;
    let wide = refused(Energy::from_text("wide.t", wide).unwrap());
    assert!(
        wide.contains("at most 4 unknowns per element of an index space of 4 dims")
            && wide.contains("has 5: use aggregation"),
        "{wide}"
    );
    let graph = refused(sumsq_tests::example_energy("arap_mesh_deformation"));
    assert!(graph.contains("this energy has none: use aggregation"), "{graph}");
    let neither = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float12, {N}, 0)
        local Y = Unknown("Y", opt_float5, {N}, 1)
        Energy(X(0) - X(1), 0.1 * X(0), Y(0) - Y(1))
    "#;
    let neither = refused(Energy::from_text("neither.t", neither).unwrap());
    assert!(neither.contains("has 17: use block_jacobi"), "{neither}");
}

/// Elements of ten unknowns keep block Jacobi beside those that have a hierarchy, and steps are those of sparse matrices.
#[test]
fn wide_spaces_keep_their_blocks() {
    let (n, m) = (500, 60);
    let mut random = Random::new(11);
    let text = r#"
        local N, M = Dim("N", 0), Dim("M", 1)
        local X = Unknown("X", opt_float, {N}, 0)
        local Y = Unknown("Y", opt_float10, {M}, 1)
        local G = Graph("G", 2, "a", {N}, 3, "b", {M}, 4)
        Energy(X(0) - X(1), 0.05 * X(0), 0.3 * Y(0))
        Energy(Y(0) - Y(1))
        Energy(X(G.a) - 0.2 * Y(G.b, 4) * Y(G.b, 7))
    "#;
    let arrays = [
        doubles("X", &[n], random.numbers(n)),
        doubles("Y", &[m, 10], random.numbers(10 * m)),
        indices("G.a", 1, random.below(n, 90)),
        indices("G.b", 1, random.below(m, 90)),
    ];
    let problem = bind(text, &arrays);
    let solver = Solver::compile(problem.0.clone(), &compiled(Precision::F64, 2)).unwrap();
    let report =
        solver.plan(&problem.1).unwrap().solve(&mut problem.1.clone(), &SolveOptions::default()).unwrap();
    let served: Vec<&str> = report.grids.iter().map(|of| of.space.as_str()).collect();
    assert_eq!((served, report.without_levels), (vec!["{N}"], vec!["{M}".to_string()]));
    let wide = || vec![("wide".to_string(), problem.clone())];
    hierarchies::assert_levels(Preconditioner::Multigrid, wide());
    hierarchies::assert_steps(Preconditioner::Multigrid, wide());
    hierarchies::assert_certified(Preconditioner::Multigrid, wide());
}

#[test]
fn iterations_of_shape_from_shading() {
    assert_iterations("shape_from_shading_small", 199);
}

/// Cycles of other shapes: V(1,1), one and two additive levels.
#[test]
fn cycles_of_every_shape() {
    for (name, expected) in [
        ("laplacian", [8, 15, 17]),
        ("poisson_image_editing_small", [8, 15, 18]),
        ("volumetric_mesh_deformation", [17, 31, 38]),
        ("shape_from_shading_small", [122, 199, 235]),
    ] {
        let case = Case::open(name);
        let data = case.data();
        let problem = Explicit::new(&case.energy, &data).unwrap();
        let (residuals, jacobian) = problem.linearise(&problem.initial());
        let diag = jacobian.diag();
        let damping: Vec<f64> = diag.iter().map(|d| d / 1e4).collect();
        for (additive, expected) in expected.into_iter().enumerate() {
            let m = Hierarchies::multigrid(&problem, &jacobian, (&diag, &damping), Some(additive));
            let came = hierarchies::pcg(&jacobian, &damping, &residuals, &|r| m.apply_inverse(r));
            println!("{name}, {additive} additive levels: {came} iterations, {expected} expected");
            assert!(came.abs_diff(expected) as f64 <= (0.15 * expected as f64).max(1.0), "{name}: {came}");
        }
    }
}
