//! The same bits for any number of threads, wherever memory lies and from run to run, at odd sizes that make several strips.

use sumsq::codegen::Target;
use sumsq::{
    ArrayData, ArrayView, CompileOptions, NamedArray, Options, Precision, Preconditioner, ProblemData,
    SolveOptions, Solver,
};
use sumsq_tests::{Random, bind, bits, doubles, indices};

/// Everything of a solve that must not depend on the number of threads.
fn outcome(text: &str, arrays: &[NamedArray], options: &Options) -> [Vec<u64>; 2] {
    let (energy, start) = bind(text, arrays);
    let solver = Solver::compile(energy, &options.compile).unwrap();
    outcome_of(&solver, &start, &options.solve)
}

/// The same of two solves by one plan.
fn outcome_of(solver: &Solver, start: &ProblemData<'_>, options: &SolveOptions) -> [Vec<u64>; 2] {
    let mut problem = solver.plan(start).unwrap();
    let mut solve = || {
        let mut data = start.clone();
        let report = problem.solve(&mut data, options).unwrap();
        assert!(report.iterations.iter().any(|i| i.accepted), "{report:?}");
        let mut numbers = vec![report.energy_initial.to_bits()];
        for i in &report.iterations {
            numbers.extend(i.energy_by_group.iter().map(|e| e.to_bits()));
            numbers.extend(
                [i.energy, i.gradient_max_norm, i.step_norm, i.gain_ratio, i.radius].map(f64::to_bits),
            );
            numbers.extend([i.linear_iterations as u64, i.linear_residual.to_bits()]);
        }
        [bits(&data), numbers]
    };
    let first = solve();
    assert!(first == solve(), "two runs of one plan differ");
    first
}

fn compiled(precision: Precision, preconditioner: Preconditioner, threads: usize) -> CompileOptions {
    CompileOptions { precision, preconditioner, threads: Some(threads), ..CompileOptions::default() }
}

fn three_steps() -> SolveOptions {
    SolveOptions {
        iterations: Some(3),
        linear_iterations: Some(30),
        function_tolerance: Some(0.0),
        ..SolveOptions::default()
    }
}

#[track_caller]
fn same_bits(text: &str, arrays: &[NamedArray]) {
    let settings = [
        (Precision::Mixed, Preconditioner::Auto),
        (Precision::F32, Preconditioner::Jacobi),
        (Precision::F64, Preconditioner::None),
    ];
    for (precision, preconditioner) in settings {
        let with = |threads| {
            let options =
                Options { compile: compiled(precision, preconditioner, threads), solve: three_steps() };
            outcome(text, arrays, &options)
        };
        let one = with(1);
        for threads in [2, 3, 5, 8] {
            assert!(with(threads) == one, "{precision:?}: {threads} threads differ from one");
        }
    }
}

const IMAGES: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float2, {W,H}, 0)
    local A = Array("A", opt_float2, {W,H}, 1)
    Exclude(greater(A(0,0,0), 0.95))
    Energy(0.3 * (X(0,0) - A(0,0)))
    for x, y in Stencil { {1,0}, {0,1}, {-2,1} } do Energy(X(0,0) - X(x,y) * cos(X(0,0,1))) end
"#;

fn images_of() -> [NamedArray; 2] {
    let (w, h) = (131, 257);
    let mut random = Random::new(1);
    ["X", "A"].map(|name| doubles(name, &[h, w, 2], random.numbers(2 * w * h)))
}

#[test]
fn images() {
    same_bits(IMAGES, &images_of());
}

/// The numbers of an array from a place on in more memory.
fn moved(array: &NamedArray, by: usize) -> Vec<f64> {
    let ArrayData::F64(values) = &array.data else { panic!("doubles") };
    [&vec![f64::NAN; by], &values[..]].concat()
}

/// Arrays begin at each place within a line of a cache, and before each plan the heap moves by a leak of its own. Vectors that do not fit into the
/// caches are stored around them, by code of its own where they lie so.
#[test]
fn addresses() {
    let arrays = images_of();
    let (energy, _) = bind(IMAGES, &arrays);
    for precision in [Precision::Mixed, Precision::F32, Precision::F64] {
        let mut expected: Option<[Vec<u64>; 2]> = None;
        for last in [usize::MAX, 1] {
            let mut target = Target::host();
            target.caches.last = last;
            let options = compiled(precision, Preconditioner::Auto, 3);
            let solver = Solver::compile_for(energy.clone(), &options, target).unwrap();
            for by in 0..8 {
                let memory = arrays.each_ref().map(|a| moved(a, by));
                let views = arrays.iter().zip(&memory);
                let views = views.map(|(a, m)| ArrayView::new(&a.name, &a.shape, &m[by..]));
                let data = ProblemData::bind(&energy, views).unwrap();
                std::mem::forget(vec![0u8; 7777 * by + 13]);
                let came = outcome_of(&solver, &data, &three_steps());
                let first = expected.get_or_insert_with(|| came.clone());
                assert!(came == *first, "{precision:?}, caches of {last}: moved by {by}, bits differ");
            }
        }
    }
}

#[test]
fn volumes() {
    let text = r#"
        local W, H, D = Dim("W", 0), Dim("H", 1), Dim("D", 2)
        local X = Unknown("X", opt_float, {W,H,D}, 0)
        local A = Array("A", opt_float, {W,H,D}, 1)
        Energy(0.3 * (X(0,0,0) - A(0,0,0)))
        for x, y, z in Stencil { {1,0,0}, {0,1,0}, {0,0,1} } do Energy(X(0,0,0) - X(x,y,z) * X(0,0,0)) end
    "#;
    let n = 41 * 37 * 39;
    let mut random = Random::new(2);
    let [x, a] = [random.numbers(n), random.numbers(n)];
    same_bits(text, &[doubles("X", &[39, 37, 41], x), doubles("A", &[39, 37, 41], a)]);
}

#[test]
fn lines() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local A = Array("A", opt_float, {N}, 1)
        Energy(0.3 * (X(0) - A(0)), X(0) - X(1), X(-1) - 2 * X(0) * X(0) + X(1))
    "#;
    let n = 70_001;
    let mut random = Random::new(3);
    same_bits(text, &[doubles("X", &[n], random.numbers(n)), doubles("A", &[n], random.numbers(n))]);
}

#[test]
fn graphs() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float2, {N}, 0)
        local A = Array("A", opt_float2, {N}, 1)
        local G = Graph("G", 3, "v0", {N}, 4, "v1", {N}, 5)
        Energy(0.3 * (X(0) - A(0)))
        Energy(X(G.v0, 0) - X(G.v1, 1) * X(G.v1, 0), X(G.v0) - 2 * X(G.v1))
    "#;
    let (n, e) = (20_003, 60_001);
    let mut random = Random::new(4);
    let (mut v0, v1) = (random.below(n, e), random.below(n, e));
    v0[..5000].fill(77);
    same_bits(
        text,
        &[
            doubles("X", &[n, 2], random.numbers(2 * n)),
            doubles("A", &[n, 2], random.numbers(2 * n)),
            indices("G.v0", 1, v0),
            indices("G.v1", 1, v1),
        ],
    );
}

/// Computed arrays over strips, sums over all instances into globals, a graph beside a stencil.
#[test]
fn computed_arrays_and_globals() {
    let text = r#"
        local W, H, N = Dim("W", 0), Dim("H", 1), Dim("N", 2)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local T = Unknown("T", opt_float3, {}, 1)
        local A = Array("A", opt_float2, {W,H}, 2)
        local B = Array("B", opt_float, {N}, 3)
        local G = Graph("G", 4, "p", {W,H}, 5, "n", {N}, 6)
        Exclude(greater(A(0,0,0), 0.9))
        local S = ComputedArray("S", {W,H}, Vector(sin(X(0,0,0)) * T(0), X(0,0,1) * X(1,0,0)))
        local V = ComputedArray("V", {W,H}, X(0,0,1) * X(0,0,1) * T(1))
        Energy(X(0,0) - A(0,0))
        Energy(S(0,0) - S(0,1), 0.1 * (S(0,0,1) - T(1) * S(-1,0,0)))
        Energy(B(G.n) * X(G.p, 0) + T(2) - V(G.p))
        Energy(0.1 * T())
    "#;
    let (w, h, n, e) = (131, 157, 4001, 20_011);
    let mut random = Random::new(5);
    let [x, y] = [random.below(w, e), random.below(h, e)];
    same_bits(
        text,
        &[
            doubles("X", &[h, w, 2], random.numbers(2 * w * h)),
            doubles("T", &[3], random.numbers(3)),
            doubles("A", &[h, w, 2], random.numbers(2 * w * h)),
            doubles("B", &[n], random.numbers(n)),
            indices("G.p", 2, x.into_iter().zip(y).flat_map(|(x, y)| [x, y]).collect()),
            indices("G.n", 1, random.below(n, e)),
        ],
    );
}
