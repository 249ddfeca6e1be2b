//! Helpers that end-to-end tests share: the reference cases of `data/cases`.

pub mod hierarchies;
pub mod pipelines;
pub mod small;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::Value;
use std::path::{Path, PathBuf};
use sumsq::codegen::limits::Effort;
use sumsq::energy::model::Energy;
use sumsq::{
    ArrayData, CompileLimits, CompileOptions, Method, NamedArray, Options, Precision, ProblemData, Report,
    SolveOptions, Solver,
};
use sumsq_examples::io::npz::Archive;

/// Root of the workspace, or the folder `SUMSQ_ROOT` that has `data/cases` and `examples/energies` as the workspace has.
pub fn workspace_root() -> PathBuf {
    let here = || Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::var_os("SUMSQ_ROOT").map_or_else(here, PathBuf::from)
}

/// Holds a page of the documentation, by its path from the root of the workspace, to what is known now; `SUMSQ_UPDATE=1` rewrites it.
pub fn hold_page(name: &str, page: &str) {
    let path = workspace_root().join(name);
    if std::env::var_os("SUMSQ_UPDATE").is_some() {
        std::fs::write(&path, page).expect("the page can be written");
    }
    let was = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = was.lines().zip(page.lines()).find(|(was, is)| was != is);
    assert!(was == page, "{name} differs, {differs:?}: SUMSQ_UPDATE=1 rewrites it");
}

/// For problems that take less time than LLVM takes to optimise their code, where others of their kind are optimised.
pub fn made_fast() -> CompileLimits {
    CompileLimits { effort: Effort::Least, ..CompileLimits::default() }
}

/// The energy file of an example.
pub fn example_energy(name: &str) -> Energy {
    let path = workspace_root().join("examples/energies").join(format!("{name}.t"));
    Energy::from_file(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A reference case: inputs, energy, expected figures.
pub struct Case {
    /// Its name.
    pub name: String,
    /// From `examples/energies`, see [`energy_of`].
    pub energy: Energy,
    /// Its inputs.
    pub arrays: Vec<NamedArray>,
    /// Its entry in `expected.json`.
    pub expected: Value,
}

/// The energy of a case: its name without what tells cases of one energy apart.
pub fn energy_of(case: &str) -> &str {
    match case {
        "arap_hand" => "arap_mesh_deformation",
        "optical_flow_flower" => "optical_flow",
        _ => case.strip_suffix("_small").unwrap_or(case),
    }
}

fn case_file(name: &str) -> PathBuf {
    workspace_root().join("data/cases").join(name)
}

impl Case {
    /// The case `name`, all of whose files must be there.
    #[track_caller]
    pub fn open(name: &str) -> Case {
        let text = std::fs::read_to_string(case_file("expected.json")).expect("expected.json");
        let mut all: Value = serde_json::from_str(&text).expect("expected.json is JSON");
        let energy = example_energy(energy_of(name));
        let arrays = read_npz(&case_file(&format!("{name}.npz")));
        Case { name: name.to_string(), energy, arrays, expected: all[name].take() }
    }

    /// The inputs, bound.
    pub fn data(&self) -> ProblemData<'_> {
        ProblemData::bind(&self.energy, &self.arrays).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// A number of the expected figures, by path.
    pub fn number(&self, pointer: &str) -> f64 {
        let value = self.expected.pointer(pointer).and_then(Value::as_f64);
        value.unwrap_or_else(|| panic!("{} has no number at {pointer}", self.name))
    }

    /// The energy at the minimum: what a simple Levenberg-Marquardt came to, or where that did not converge, a better figure.
    pub fn minimum(&self) -> f64 {
        self.number(if self.expected["minimum"].is_null() { "/lm_energy_final" } else { "/minimum" })
    }

    /// First radii of which one must lead to the expected energy: a single one but where there are many minima.
    pub fn radii(&self) -> &'static [f64] {
        if self.name == "optical_flow_flower" { &[1e2, 1e3, 1e4] } else { &[1e4] }
    }

    /// A list of numbers of the expected figures.
    pub fn numbers(&self, key: &str) -> Vec<f64> {
        let list = self.expected[key].as_array();
        let list = list.unwrap_or_else(|| panic!("{} has no list {key}", self.name));
        list.iter().map(|v| v.as_f64().expect("a number")).collect()
    }

    /// The vectors of a small case, in float64, each over all unknown scalars.
    pub fn vectors(&self) -> impl Fn(&str) -> Vec<f64> + use<> {
        let arrays = read_npz(&case_file(&format!("vectors_{}.npz", self.name)));
        move |name| {
            let array = arrays.iter().find(|a| a.name == name);
            array.unwrap_or_else(|| panic!("no vector {name}")).data.doubles()
        }
    }
}

/// Compiles, plans and solves; the unknowns of `data` become the result.
pub fn solve(energy: &Energy, data: &mut ProblemData<'_>, options: &Options) -> Report {
    let solver = Solver::compile(energy.clone(), &options.compile).unwrap();
    let mut problem = solver.plan(data).unwrap();
    problem.solve(data, &options.solve).unwrap()
}

/// The bits of all unknowns.
pub fn bits(data: &ProblemData<'_>) -> Vec<u64> {
    data.x().iter().map(|v| v.to_bits()).collect()
}

fn read_npz(path: &Path) -> Vec<NamedArray> {
    let arrays = Archive::open(path).and_then(|a| a.read_all());
    arrays.unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// An array in float64, shape slowest first.
pub fn doubles(name: &str, shape: &[usize], values: Vec<f64>) -> NamedArray {
    NamedArray { name: name.to_string(), shape: shape.to_vec(), data: ArrayData::F64(values) }
}

/// An index array, one row per hyperedge of `dims` numbers.
pub fn indices(name: &str, dims: usize, values: Vec<i64>) -> NamedArray {
    let edges = values.len() / dims;
    let shape = if dims == 1 { vec![edges] } else { vec![edges, dims] };
    NamedArray { name: name.to_string(), shape, data: ArrayData::Int(values, "int64") }
}

/// A problem written down in a test.
pub fn bind(text: &str, arrays: &[NamedArray]) -> (Energy, ProblemData<'static>) {
    let energy = Energy::from_text("test.t", text).unwrap_or_else(|e| panic!("{e}"));
    let data = ProblemData::bind(&energy, arrays).unwrap_or_else(|e| panic!("{e}"));
    (energy, data.into_owned())
}

/// Options of one Gauss-Newton step in float64 whose linear system is solved as far as rounding lets it: to the minimum of a
/// quadratic energy.
pub fn one_exact_step() -> Options {
    Options {
        compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
        solve: SolveOptions {
            method: Method::GaussNewton,
            iterations: Some(1),
            linear_tolerance: Some(1e-13),
            ..SolveOptions::default()
        },
    }
}

/// A seeded sequence.
pub struct Random(SplitMix64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::seed_from_u64(seed))
    }

    /// In [-1, 1).
    pub fn number(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// `n` of them.
    pub fn numbers(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.number()).collect()
    }

    /// `n` whole numbers in 0..below.
    pub fn below(&mut self, below: usize, n: usize) -> Vec<i64> {
        (0..n).map(|_| (self.0.next_u64() % below as u64) as i64).collect()
    }
}

/// |a - b| <= tolerance * |b|, for numbers.
#[track_caller]
pub fn assert_close(what: &str, came: f64, expected: f64, tolerance: f64) {
    let off = (came - expected).abs();
    assert!(off <= tolerance * expected.abs(), "{what}: came {came}, expected {expected} (off by {off:e})");
}

/// |a - b|_2 <= tolerance * |b|_2, for vectors.
#[track_caller]
pub fn assert_vectors_close(what: &str, came: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(came.len(), expected.len(), "{what}: lengths");
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
    let off = norm(&mut came.iter().zip(expected).map(|(a, b)| a - b));
    let size = norm(&mut expected.iter().copied());
    assert!(off <= tolerance * size, "{what}: off by {off:e} of {size:e}");
}
