//! Second starts: what the first has kept is taken as it is, or not at all.

use std::fs;
use std::path::{Path, PathBuf};
use sumsq::codegen::Level;
use sumsq::codegen::cache::{Cache, Key};
use sumsq::energy::Energy;
use sumsq::energy::derive::Passes;
use sumsq::{
    Backend, CompileLimits, CompileOptions, LossOrder, MemoryLimit, Overrides, Precision, Preconditioner,
    ProblemData, SolveOptions, Solver, Value,
};
use sumsq_examples::demos::ALL;
use sumsq_tests::hierarchies::{compiled, coupled};
use sumsq_tests::{bind, bits, doubles, example_energy};

/// A folder for a cache.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn cache(&self) -> Cache {
        Cache::at(self.path()).unwrap()
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("kept")
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = self.path().read_dir().unwrap().map(|e| e.unwrap().path()).collect();
        all.sort();
        all
    }

    fn start(&self, energy: &Energy, options: &CompileOptions) -> Solver {
        Solver::compile_kept(energy.clone(), options, Some(&self.cache())).unwrap()
    }
}

/// Two unknowns per element under a robust loss, a computed array, bounds, excluded elements and a constant that differs.
fn text(constant: &str) -> String {
    format!(
        "local W, H = Dim('W', 0), Dim('H', 1)
        local X, A = Unknown('X', float2, {{W,H}}, 0), Array('A', float2, {{W,H}}, 1)
        local C = ComputedArray('C', {{W,H}}, sin(X(0,0,0)) * X(0,0,1))
        Exclude(eq(A(0,0,0), 0))
        Residual{{loss=Huber({constant}), C(0,0) - A(0,0,0), X(0,0,1) - A(0,0,1)}}
        Energy(X(0,0,0) - X(1,0,0), C(0,0) - C(0,1))"
    )
}

fn energy(constant: &str) -> Energy {
    Energy::from_text("energy.t", &text(constant)).unwrap()
}

fn data() -> ProblemData<'static> {
    let numbers = |seed: usize| (0..5 * 9 * 2).map(|i| (i * i % seed) as f64 / 7.0).collect();
    bind(&text("0.5"), &[doubles("X", &[5, 9, 2], numbers(11)), doubles("A", &[5, 9, 2], numbers(13))]).1
}

/// The bits of x after a few steps.
fn solved(solver: &Solver) -> Vec<u64> {
    let mut data = data();
    let options = SolveOptions { iterations: Some(4), ..SolveOptions::default() };
    solver.plan(&data).unwrap().solve(&mut data, &options).unwrap();
    bits(&data)
}

#[test]
fn a_second_start_derives_nothing_for_any_example() {
    for demo in ALL.iter().filter(|demo| demo.has_text()) {
        let (folder, problem) = (Folder::new(), demo.problem().unwrap());
        let read = || Energy::from_text(problem.energy, problem.text).unwrap();
        let evaluated = |solver: &Solver| {
            let data = ProblemData::bind(solver.energy(), &problem.inputs).unwrap();
            let evaluation = solver.plan(&data).unwrap().evaluate(&data).unwrap();
            let gradient = evaluation.gradient.concat();
            let all = evaluation.energies.by_group.into_iter().chain(gradient);
            (evaluation.residuals, all.map(f64::to_bits).collect::<Vec<u64>>())
        };
        let first = folder.start(&read(), &problem.options.compile);
        assert!(!first.is_kept());
        let (files, computed) = (folder.files(), evaluated(&first));
        drop(first);
        let second = folder.start(&read(), &problem.options.compile);
        assert!(second.is_kept(), "{}", demo.name);
        assert_eq!(folder.files(), files);
        assert!(evaluated(&second) == computed, "{}", demo.name);
    }
}

#[test]
fn solves_of_second_starts_are_the_same_to_the_bit() {
    let substituted = Overrides::default().with("computed C".into(), Value::Inline);
    for (choices, losses) in [(Overrides::default(), LossOrder::Declared), (substituted, LossOrder::Second)] {
        let (folder, energy) = (Folder::new(), energy("0.5"));
        let options = CompileOptions { choices, losses, threads: Some(1), ..CompileOptions::default() };
        let without = Solver::compile_kept(energy.clone(), &options, None).unwrap();
        let computed = solved(&without);
        assert!(!folder.start(&energy, &options).is_kept());
        // Neither threads nor memory change any code.
        let max_memory = Some(MemoryLimit::Share(0.5));
        let others = CompileOptions { threads: Some(2), max_memory, ..options.clone() };
        for options in [&options, &others] {
            let kept = folder.start(&energy, options);
            assert!(kept.is_kept());
            assert_eq!(kept.energy().computed.len(), without.energy().computed.len());
            assert_eq!(solved(&kept), computed);
        }
    }
}

/// On the stand-in for a driver: kernels come from the cache as PTX.
#[test]
fn second_starts_on_a_gpu_generate_no_kernels() {
    sumsq_libcuda::preload().unwrap();
    let (folder, energy) = (Folder::new(), energy("0.5"));
    let options = CompileOptions { backend: Backend::Cuda, threads: Some(1), ..CompileOptions::default() };
    let computed = solved(&Solver::compile_kept(energy.clone(), &options, None).unwrap());
    assert!(!folder.start(&energy, &options).is_kept());
    let files = folder.files();
    let kept = folder.start(&energy, &options);
    assert!(kept.is_kept());
    assert_eq!((solved(&kept), folder.files()), (computed, files));
    // Of the CPU nothing is there.
    assert!(!folder.start(&energy, &CompileOptions::default()).is_kept());
    // The host's part of a graph's pipelines is nested deeply.
    let graph = example_energy("arap_mesh_deformation");
    assert!(!folder.start(&graph, &options).is_kept());
    assert!(folder.start(&graph, &options).is_kept());
}

/// The code is right for other sizes than those that it was made for.
#[test]
fn a_machine_that_is_left_open_is_a_gpu_where_that_pays() {
    sumsq_libcuda::preload().unwrap();
    let reported = |sizes: Option<Vec<usize>>| {
        let options = CompileOptions { sizes, threads: Some(1), ..CompileOptions::default() };
        let solver = Solver::compile_kept(energy("0.5"), &options, None).unwrap();
        let mut data = data();
        let solve = SolveOptions { iterations: Some(1), ..SolveOptions::default() };
        solver.plan(&data).unwrap().solve(&mut data, &solve).unwrap()
    };
    let large = reported(Some(vec![4000, 4000]));
    assert_eq!((large.backend, large.why_cpu), ("cuda", None));
    let small = reported(Some(vec![9, 5]));
    let why = "0.0 million operations in all residuals would not pay for starting a GPU";
    assert_eq!((small.backend, small.why_cpu.as_deref()), ("cpu", Some(why)));
    assert!(small.to_string().contains(&format!("\non the CPU: {why}\n")), "{small}");
    assert_eq!(reported(None).why_cpu.as_deref(), Some("sizes are not known when code is made"));
}

#[test]
fn another_energy_or_option_is_derived_for_itself() {
    let folder = Folder::new();
    let plain = CompileOptions::default();
    let given = |line: &str| line.parse::<Overrides>().unwrap();
    let limits = CompileLimits { instructions: 399_999, ..CompileLimits::default() };
    let options = [
        plain.clone(),
        CompileOptions { precision: Precision::F64, ..plain.clone() },
        CompileOptions { preconditioner: Preconditioner::Jacobi, ..plain.clone() },
        CompileOptions { target: Level::X86V2, ..plain.clone() },
        CompileOptions { losses: LossOrder::Second, ..plain.clone() },
        CompileOptions { passes: Passes { polynomial: false, ..Passes::ALL }, ..plain.clone() },
        CompileOptions { choices: given("q *: root"), ..plain.clone() },
        CompileOptions { sizes: Some(vec![9, 5]), ..plain.clone() },
        CompileOptions { limits, ..plain.clone() },
    ];
    let usual = energy("0.5");
    for options in &options {
        assert!(!folder.start(&usual, options).is_kept(), "{options:?}");
    }
    for constant in ["0.25", "0.5000000000000001"] {
        assert!(!folder.start(&energy(constant), &plain).is_kept(), "{constant}");
    }
    // A name shows in messages; the name of the file is no part of the energy.
    let renamed = Energy::from_text("energy.t", &text("0.5").replace("'A'", "'B'")).unwrap();
    assert!(!folder.start(&renamed, &plain).is_kept());
    let moved = Energy::from_text("elsewhere.t", &text("0.5")).unwrap();
    assert!(folder.start(&moved, &plain).is_kept());
    for options in &options {
        assert!(folder.start(&usual, options).is_kept(), "{options:?}");
    }
}

#[test]
fn what_is_damaged_or_foreign_is_derived_again() {
    let (folder, energy, options) = (Folder::new(), energy("0.5"), CompileOptions::default());
    let computed = solved(&folder.start(&energy, &options));
    let files = folder.files();
    assert!(files.len() > 8);
    let whole: Vec<Vec<u8>> = files.iter().map(|f| fs::read(f).unwrap()).collect();
    let again = |what: &str, path: &Path| {
        let solver = folder.start(&energy, &options);
        assert!(!solver.is_kept(), "{what}: {}", path.display());
        assert_eq!(folder.files(), files);
        assert!(folder.start(&energy, &options).is_kept(), "{what}: {}", path.display());
        solver
    };
    for (n, path) in files.iter().enumerate() {
        fs::remove_file(path).unwrap();
        again("gone", path);
        fs::write(path, &whole[n][..whole[n].len() / 2]).unwrap();
        again("cut", path);
        fs::write(path, &whole[(n + 1) % whole.len()]).unwrap();
        again("foreign", path);
        let mut changed = whole[n].clone();
        changed[whole[n].len() / 3] ^= 4;
        fs::write(path, &changed).unwrap();
        let solver = again("changed", path);
        assert_eq!(fs::read(path).unwrap(), whole[n]);
        if n == 0 {
            assert_eq!(solved(&solver), computed);
        }
        // Sealed, but not what belongs there.
        let digits = path.file_name().unwrap().to_str().unwrap();
        let key: Vec<u8> =
            (0..32).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect();
        let key: Key = serde_json::from_value(serde_json::json!(key)).unwrap();
        folder.cache().put(&key, b"{}");
        again("sealed", path);
    }
}

/// Code that `auto` makes in the course of a solve is kept where the first code was, and found there.
#[test]
fn code_of_levels_is_kept_beside_the_first() {
    let (folder, (energy, data)) = (Folder::new(), coupled(128, 101, 0.001));
    let compile = compiled(Preconditioner::Auto, Precision::Mixed, 2);
    let options = SolveOptions {
        iterations: Some(1),
        linear_tolerance: Some(1e-6),
        linear_iterations: Some(5000),
        ..SolveOptions::default()
    };
    let files = |solver: &Solver| {
        let mut problem = solver.plan(&data).unwrap().with_free_compilation();
        let report = problem.solve(&mut data.clone(), &options).unwrap();
        assert_eq!(report.iterations[0].preconditioner, "multigrid");
        folder.files()
    };
    let first = folder.start(&energy, &compile);
    let before = folder.files();
    let after = files(&first);
    assert!(before.len() < after.len());
    let second = folder.start(&energy, &compile);
    assert!(second.is_kept());
    assert_eq!(files(&second), after);
}

#[test]
fn what_is_refused_is_refused_again() {
    let (folder, energy) = (Folder::new(), energy("0.5"));
    let plain = CompileOptions::default();
    let long = CompileLimits { instructions: 1000, ..CompileLimits::default() };
    let wrong = [
        CompileOptions { limits: long, ..plain.clone() },
        CompileOptions { threads: Some(0), ..plain.clone() },
        CompileOptions { choices: "q nobody: root".parse().unwrap(), ..plain.clone() },
    ];
    let refused = |options: &CompileOptions| {
        let solver = Solver::compile_kept(energy.clone(), options, Some(&folder.cache()));
        solver.err().expect("no solver can be had").to_string()
    };
    let first: Vec<String> = wrong.iter().map(refused).collect();
    assert_eq!(wrong.iter().map(refused).collect::<Vec<_>>(), first);
}
