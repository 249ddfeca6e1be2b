//! Multigrid against the sparse matrices of the assembled path: A on every level, steps, numbers of PCG iterations.

use sumsq::assembled::{Explicit, Jacobian, LinearSolver, Multigrid};
use sumsq::codegen::Target;
use sumsq::energy::Energy;
use sumsq::energy::model::SpaceId;
use sumsq::{
    Backend, CompileOptions, Method, Precision, Preconditioner, ProblemData, Report, SolveOptions, Solver,
    assembled,
};
use sumsq_tests::small::{self, Small};
use sumsq_tests::{Case, Random, assert_vectors_close, bind, doubles, indices};

fn compiled(precision: Precision, threads: usize) -> CompileOptions {
    CompileOptions {
        precision,
        threads: Some(threads),
        preconditioner: Preconditioner::Multigrid,
        ..CompileOptions::default()
    }
}

/// Two unknowns, coupled within an element and across, with an excluded part, on a grid of these sizes.
fn coupled(w: usize, h: usize, excluded: f64) -> Small {
    let mut random = Random::new(w as u64 * 1000 + h as u64);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local T = Unknown("T", opt_float, {W,H}, 1)
        local A = Array("A", opt_float, {W,H}, 2)
        Exclude(greater(A(0,0), 0.9))
        Energy(0.01 * (X(0,0) - A(0,0)), X(0,0) - X(1,0) - 0.3 * sin(T(0,0)), X(0,0) - X(0,1) - 0.2 * T(0,0),
               T(0,0) - T(1,0), 0.5 * (T(0,0) - T(0,1)))
    "#;
    let n = w * h;
    let mask = random.numbers(n).into_iter().map(|m| if m > 1.0 - 2.0 * excluded { 1.0 } else { 0.4 * m });
    let mask = mask.collect();
    let arrays = [
        doubles("X", &[h, w], random.numbers(n)),
        doubles("T", &[h, w], random.numbers(n)),
        doubles("A", &[h, w], mask),
    ];
    bind(text, &arrays)
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

fn problems() -> Vec<(String, Small)> {
    let mut all: Vec<(String, Small)> = vec![
        ("grid".into(), small::grid()),
        ("volume".into(), small::volume_under_losses()),
        ("list".into(), list(1501)),
    ];
    for (w, h, excluded) in
        [(1, 701, 0.0), (701, 1, 0.1), (33, 64, 0.3), (64, 33, 0.02), (5, 400, 0.5), (128, 101, 0.1)]
    {
        all.push((format!("{w} x {h}"), coupled(w, h, excluded)));
    }
    all
}

/// The oracle of Gauss-Newton's system at the start.
fn oracle(problem: &Explicit<'_>) -> (Multigrid, Jacobian, Vec<f64>) {
    let (residuals, jacobian) = problem.linearise(&problem.initial());
    let (diag, damping) = (jacobian.diag(), vec![0.0; problem.free()]);
    let b = jacobian.apply_transpose(&residuals).into_iter().map(|g| -g).collect();
    (Multigrid::new(problem, &jacobian, &diag, &damping, None), jacobian, b)
}

#[test]
fn every_level_is_the_product_of_sparse_matrices() {
    let options = SolveOptions { method: Method::GaussNewton, ..SolveOptions::default() };
    for (name, (energy, data)) in problems() {
        let solver = Solver::compile(energy.clone(), &compiled(Precision::F64, 2)).unwrap();
        let mut problem = solver.plan(&data).unwrap();
        drop(problem.init(&data, &options).unwrap());
        let explicit = Explicit::new(&energy, &data).unwrap();
        let (oracle, ..) = oracle(&explicit);
        let mut levels = 0;
        for space in (0..energy.spaces.len() as u32).map(SpaceId) {
            for level in 0..40 {
                let Some(expected) = oracle.level(space, level) else { break };
                let came =
                    problem.level(space, level as u8).unwrap_or_else(|| panic!("{name}: no level {level}"));
                let mut made = sprs::TriMat::new(expected.shape());
                came.into_iter().for_each(|(i, j, v)| made.add_triplet(i, j, v));
                let made: sprs::CsMat<f64> = made.to_csr();
                let largest = expected.data().iter().fold(0.0f64, |m, v| m.max(v.abs()));
                let off = (&made - expected).data().iter().fold(0.0f64, |m, v| m.max(v.abs()));
                assert!(largest > 0.0 && off <= 1e-12 * largest, "{name}, level {level}: off by {off:e}");
                levels += 1;
            }
            assert_eq!(problem.level(space, 40), None);
        }
        assert!(levels >= 2, "{name}: {levels} levels");
    }
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
    let options = SolveOptions { iterations: Some(2), linear_iterations: Some(5), ..SolveOptions::default() };
    for (name, (energy, data)) in problems() {
        let compiled = compiled(Precision::F64, 2);
        let solver = Solver::compile(energy.clone(), &compiled).unwrap();
        let (mut ours, mut theirs) = (data.clone(), data.clone());
        let report = solver.plan(&data).unwrap().solve(&mut ours, &options).unwrap();
        let expected = assembled::solve(&energy, &mut theirs, &compiled, &options, LinearSolver::Cg).unwrap();
        for (a, b) in report.iterations.iter().zip(&expected.iterations) {
            assert_eq!((a.linear_iterations, a.accepted), (b.linear_iterations, b.accepted), "{name}");
        }
        assert_vectors_close(&name, &ours.x(), &theirs.x(), 1e-8);
    }
}

/// Rejected steps take another radius to the same linearisation: A is combined anew of J^T J and D.
#[test]
fn rejected_steps_are_those_of_sparse_matrices() {
    let (w, h) = (53, 41);
    let mut random = Random::new(77);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        Exclude(greater(A(0,0), 0.9))
        Energy(10 * (X(0,0,1) - X(0,0,0) * X(0,0,0)), 1 - X(0,0,0), 0.1 * (X(0,0) - X(1,0)), 0.2 * (X(0,0) - X(0,1)))
    "#;
    // The valley of Rosenbrock's function, from its far end.
    let far = random.numbers(2 * w * h).into_iter().enumerate();
    let far = far.map(|(i, x)| [-1.2, 1.0][i % 2] + 0.1 * x).collect();
    let arrays = [doubles("X", &[h, w, 2], far), doubles("A", &[h, w], random.numbers(w * h))];
    let (energy, data) = bind(text, &arrays);
    let options = SolveOptions {
        iterations: Some(6),
        linear_iterations: Some(8),
        radius: Some(1e6),
        ..SolveOptions::default()
    };
    let compiled = compiled(Precision::F64, 2);
    let (mut ours, mut theirs) = (data.clone(), data.clone());
    let solver = Solver::compile(energy.clone(), &compiled).unwrap();
    let report = solver.plan(&data).unwrap().solve(&mut ours, &options).unwrap();
    let expected = assembled::solve(&energy, &mut theirs, &compiled, &options, LinearSolver::Cg).unwrap();
    let accepted = |report: &Report| report.iterations.iter().map(|i| i.accepted).collect::<Vec<bool>>();
    assert_eq!(accepted(&report), accepted(&expected));
    assert!(accepted(&report).windows(2).any(|w| w == [false, true]), "{:?}", accepted(&report));
    assert_vectors_close("x", &ours.x(), &theirs.x(), 1e-8);
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
        let bits = |threads| sumsq_tests::bits(&solve(&energy, &data, &compiled(Precision::Mixed, threads)));
        let one = bits(1);
        for threads in [2, 3, 5, 8] {
            assert_eq!(bits(threads), one, "{threads} threads");
        }
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
        wide.contains("at most 4 unknowns per element of an index space of 4 dims") && wide.contains("has 5"),
        "{wide}"
    );
    let graph = refused(sumsq_tests::example_energy("arap_mesh_deformation"));
    assert!(graph.contains("use block_jacobi"), "{graph}");
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
            let m = Multigrid::new(&problem, &jacobian, &diag, &damping, Some(additive));
            let came = pcg(&jacobian, &damping, &residuals, &|r| m.apply_inverse(r));
            println!("{name}, {additive} additive levels: {came} iterations, {expected} expected");
            assert!(came.abs_diff(expected) as f64 <= (0.15 * expected as f64).max(1.0), "{name}: {came}");
        }
    }
}

/// Iterations to |r| <= 1e-6 |b|.
fn pcg(jacobian: &Jacobian, damping: &[f64], residuals: &[f64], m: &dyn Fn(&[f64]) -> Vec<f64>) -> usize {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut r: Vec<f64> = jacobian.apply_transpose(residuals).into_iter().map(|g| -g).collect();
    let end = 1e-12 * dot(&r, &r);
    let mut p = m(&r);
    let mut rz = dot(&r, &p);
    for k in 1..2000 {
        let mut q = jacobian.apply_transpose(&jacobian.apply(&p));
        q.iter_mut().zip(p.iter().zip(damping)).for_each(|(q, (p, d))| *q += d * p);
        let alpha = rz / dot(&p, &q);
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
        if dot(&r, &r) <= end {
            return k;
        }
        let z = m(&r);
        let next = dot(&r, &z);
        p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + next / rz * *p);
        rz = next;
    }
    2000
}
