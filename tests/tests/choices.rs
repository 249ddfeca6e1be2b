//! Choices of storage change no result: combinations that are possible on five small energies, against the assembled path.

use sumsq::assembled::{self, LinearSolver};
use sumsq::codegen::Target;
use sumsq::energy::Energy;
use sumsq::{
    CompileLimits, CompileOptions, Options, Overrides, Precision, ProblemData, SolveError, SolveOptions,
    Solver, Value, choices,
};
use sumsq_tests::small::{self, Small};
use sumsq_tests::{Random, bind, doubles, indices, made_fast};

fn options(given: Overrides) -> Options {
    Options {
        compile: CompileOptions { choices: given, precision: Precision::F64, ..CompileOptions::default() },
        solve: SolveOptions { iterations: Some(2), linear_tolerance: Some(1e-13), ..SolveOptions::default() },
    }
}

/// Every combination of choices from the `at`-th on: what is possible follows from the choices before. Stored residuals are read by J^T r
/// alone, in which no other choice has a say: every second combination has them.
fn combinations(energy: &Energy, given: &Overrides, at: usize, out: &mut Vec<Overrides>) {
    let list = choices(energy, &options(given.clone()).compile).unwrap();
    let Some(choice) = list.all().get(at) else {
        let stored = if out.len().is_multiple_of(2) { Value::Inline } else { Value::Root };
        return out.push(given.clone().with("r *".into(), stored));
    };
    if choice.subject().starts_with("r ") {
        return combinations(energy, given, at + 1, out);
    }
    for &value in &choice.possible {
        combinations(energy, &given.clone().with(choice.subject(), value), at + 1, out);
    }
}

/// Certifies the routines under given choices at random x and v, and holds a solve to the one by Cholesky.
#[track_caller]
fn certify((energy, data): &Small, given: &Overrides, limits: CompileLimits, expected: f64) {
    let mut random = Random::new(11);
    let x: Vec<f64> = data.x().iter().map(|x| x + 0.1 * random.number()).collect();
    let v = random.numbers(x.len());
    let mut options = options(given.clone());
    options.compile.limits = limits;
    // Short vectors are compiled faster.
    let target = Target::host().with_lanes(4);
    let solver = Solver::compile_for(energy.clone(), &options.compile, target).unwrap();
    let mut problem = solver.plan(data).unwrap();
    let certificate = problem.certify(data, &x, &v).unwrap();
    assert!(certificate.passed(), "{given}{:?}", certificate.failures());
    let e = problem.solve(&mut data.clone(), &options.solve).unwrap().energy_final;
    assert!((e - expected).abs() <= 1e-9 * expected.abs(), "{given}E = {e} and {expected}");
}

fn by_cholesky((energy, data): &Small) -> f64 {
    let Options { compile, solve } = options(Overrides::default());
    let data = &mut data.clone();
    assembled::solve(energy, data, &compile, &solve, LinearSolver::Cholesky).unwrap().energy_final
}

/// A problem and the number of its combinations of choices.
type Combined = (Small, usize);

/// Tests take one combination in so many, as all take minutes: not a multiple of how many values a choice has, 2 or 3, so that all come.
const SAMPLED: usize = 5;

/// Certifies one in so many combinations of choices of a problem; LLVM optimises one in seven.
#[track_caller]
fn certify_combinations((problem, many): &Combined, step: usize) {
    let (expected, mut all) = (by_cholesky(problem), vec![]);
    combinations(&problem.0, &Overrides::default(), 0, &mut all);
    assert_eq!(all.len(), *many);
    for (i, given) in all.iter().step_by(step).enumerate() {
        let limits = if i % 7 == 0 { CompileLimits::default() } else { made_fast() };
        certify(problem, given, limits, expected);
    }
}

/// A mask, a part to hoist.
fn image() -> Combined {
    let (w, h) = (21, 11);
    let mut random = Random::new(21);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        Exclude(greater(A(0,0), 0.8))
        Residual{name="fit", 0.3 * X(0,0) - A(0,0), X(0,0) - cos(X(1,0)) * X(0,1)}
    "#;
    let arrays = [doubles("X", &[h, w], random.numbers(w * h)), doubles("A", &[h, w], random.numbers(w * h))];
    (bind(text, &arrays), 120)
}

/// Three dims, in rings of planes or not; a diagonal that the sweeps could compute, bytes.
fn volume() -> Combined {
    let (w, h, d) = (9, 6, 7);
    let mut random = Random::new(22);
    let text = r#"
        local W, H, D = Dim("W", 0), Dim("H", 1), Dim("D", 2)
        local X = Unknown("X", opt_float2, {W,H,D}, 0)
        local A = Array("A", uint8, {W,H,D}, 1)
        Residual{name="all", 0.7 * X(0,0,0) - 0.01 * A(0,0,0), X(0,0,0) - X(1,1,0), X(0,0,0) - 2 * X(0,0,1)}
    "#;
    let bytes: Vec<f64> = random.numbers(w * h * d).iter().map(|v| (v.abs() * 255.0).round()).collect();
    let arrays =
        [doubles("X", &[d, h, w, 2], random.numbers(2 * w * h * d)), doubles("A", &[d, h, w], bytes)];
    (bind(text, &arrays), 96)
}

/// Hyperedges, records, a global.
fn mesh() -> Combined {
    let (n, edges) = (19, 60);
    let mut random = Random::new(23);
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float2, {N}, 0)
        local T = Unknown("T", opt_float, {}, 1)
        local A = Array("A", opt_float, {N}, 2)
        local G = Graph("G", 3, "a", {N}, 4, "b", {N}, 5)
        Residual{name="edge", X(G.a, 0) * X(G.b) - T(0) * A(G.b), 0.3 * X(G.a)}
    "#;
    let arrays = [
        doubles("X", &[n, 2], random.numbers(2 * n)),
        doubles("T", &[1], vec![0.4]),
        doubles("A", &[n], random.numbers(n)),
        indices("G.a", 1, random.below(n - 2, edges)),
        indices("G.b", 1, random.below(4, edges)),
    ];
    (bind(text, &arrays), 120)
}

/// Hyperedges whose stored partials nothing but the gathers reads, through the hyperedges' numbers.
#[test]
fn gathers_alone_read_by_number() {
    let (n, edges) = (19, 60);
    let mut random = Random::new(26);
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float2, {N}, 0)
        local G = Graph("G", 1, "a", {N}, 2, "b", {N}, 3)
        Residual{name="edge", X(G.a, 0) * X(G.b) - 0.7, 0.3 * X(G.a)}
    "#;
    let ends = |random: &mut Random, name| indices(name, 1, random.below(n, edges));
    let x = doubles("X", &[n, 2], random.numbers(2 * n));
    let problem = bind(text, &[x, ends(&mut random, "G.a"), ends(&mut random, "G.b")]);
    let expected = by_cholesky(&problem);
    for indirect in [&["G.a"][..], &["G.a", "G.b"]] {
        let stored = Overrides::default().with("J edge".into(), Value::Root);
        let entries = |given: Overrides, at: &&str| given.with(format!("entries {at}"), Value::Indirect);
        certify(&problem, &indirect.iter().fold(stored, entries), CompileLimits::default(), expected);
    }
}

/// A computed array.
fn computed_arrays() -> Combined {
    let (w, h) = (19, 9);
    let mut random = Random::new(24);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local B = ComputedArray("B", {W,H}, sin(X(0,0)) * X(1,0))
        Residual{name="one", B(0,0) - B(0,1), B(0,0) - 0.2 * X(0,0)}
    "#;
    (bind(text, &[doubles("X", &[h, w], random.numbers(w * h))]), 108)
}

/// Two images whose residuals meet nowhere, one with bounds: each has choices of its own.
fn two_images() -> Combined {
    let (w, h, n, m) = (17, 9, 12, 10);
    let mut random = Random::new(25);
    let text = r#"
        local W, H, N, M = Dim("W", 0), Dim("H", 1), Dim("N", 2), Dim("M", 3)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local Y = Unknown("Y", opt_float, {N,M}, 1)
        Bounds(X, -0.5, 2)
        Residual{name="all", X(0,0) - 0.3, X(0,0) - X(1,1), Y(0,0) * Y(0,0) - 0.7, Y(0,0) - 2 * Y(0,1)}
    "#;
    let arrays = [doubles("X", &[h, w], random.numbers(w * h)), doubles("Y", &[m, n], random.numbers(n * m))];
    (bind(text, &arrays), 96)
}

#[test]
fn combinations_of_an_image() {
    certify_combinations(&image(), SAMPLED);
}

#[test]
fn combinations_of_a_volume() {
    certify_combinations(&volume(), SAMPLED);
}

#[test]
fn combinations_of_a_mesh() {
    certify_combinations(&mesh(), SAMPLED);
}

#[test]
fn combinations_of_computed_arrays() {
    certify_combinations(&computed_arrays(), SAMPLED);
}

#[test]
fn combinations_of_two_images() {
    certify_combinations(&two_images(), SAMPLED);
}

#[test]
#[ignore = "five minutes: every combination"]
fn every_combination() {
    for problem in [image(), volume(), mesh(), computed_arrays(), two_images()] {
        certify_combinations(&problem, 1);
    }
}

/// Every value of every choice of the larger small problems, each alone.
#[test]
fn each_alone() {
    for (name, problem) in small::all() {
        let expected = by_cholesky(&problem);
        let list = choices(&problem.0, &options(Overrides::default()).compile).unwrap();
        for choice in list.all() {
            for &value in choice.possible.iter().filter(|v| **v != choice.value) {
                println!("{name}: {}: {value}", choice.subject());
                certify(&problem, &Overrides::default().with(choice.subject(), value), made_fast(), expected);
            }
        }
    }
}

/// The text of all choices reads back as these choices.
#[test]
fn text_and_back() {
    for (_, (energy, _)) in small::all() {
        let text = choices(&energy, &options(Overrides::default()).compile).unwrap().to_string();
        let again = choices(&energy, &options(text.parse().unwrap()).compile).unwrap();
        assert_eq!(again.to_string(), text);
    }
}

/// Rings of planes pay where planes are small and strips high, which sizes tell.
#[test]
fn rings_of_planes_follow_sizes() {
    let (energy, _) = small::volume_under_losses();
    let direction = |sizes: Option<[usize; 3]>| {
        let sizes = sizes.map(|s| s.to_vec());
        let compile = CompileOptions { sizes, ..CompileOptions::default() };
        let all = choices(&energy, &compile).unwrap();
        all.all().iter().find(|c| c.subject().starts_with("direction")).unwrap().value.to_string()
    };
    assert_eq!(direction(Some([16, 16, 4096])), "ring");
    assert_eq!(direction(Some([4096, 4096, 64])), "root");
    assert_eq!(direction(Some([usize::MAX, usize::MAX, 64])), "root");
    assert_eq!(direction(None), "root");
}

#[test]
fn errors_say_what_is_possible() {
    let (energy, _): (Energy, ProblemData) = small::graph();
    let error = |text: &str| match choices(&energy, &options(text.parse().unwrap()).compile) {
        Err(SolveError::Option(e)) => e.to_string(),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(error("direction {N}: ring"), "`direction {N}: ring` is not possible here, only root");
    assert_eq!(
        error("Jp edge: root\nblocks edge: root"),
        "`blocks edge: root` is not possible here, only inline"
    );
    assert_eq!(error("q {K}: root"), "there is no index space of unknowns `{K}`: {N}, {M}, {}");
    assert!(error("soup *: root").starts_with("there is no choice `soup`, only r, J, Jp, blocks"));
}
