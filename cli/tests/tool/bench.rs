//! A folder with an energy and its inputs, in which `sumsq` is run.

use std::path::PathBuf;
use std::process::Command;
use sumsq::{ArrayData, NamedArray};
use sumsq_examples::io::npz;

/// Pulls X to A at every element: the minimum is X = A, E = 0.
pub const FIT: &str = r#"
local N = Dim("N", 0)
local X = Unknown("X", opt_float, {N}, 0)
local A = Array("A", opt_float, {N}, 1)
Energy(X(0) - A(0))
"#;

/// [`FIT`] of three elements.
pub fn fit() -> Bench {
    let bench = Bench::new(FIT);
    bench.inputs(&[floats("X", &[3], &[0.0, 5.0, -1.0]), floats("A", &[3], &[1.0, 2.0, 3.5])]);
    bench
}

pub struct Bench(tempfile::TempDir);

/// Output of a run on its streams.
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Bench {
    /// A folder with `energy.t`.
    pub fn new(energy: &str) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("energy.t"), energy).unwrap();
        Bench(dir)
    }

    /// Writes `inputs.npz`.
    pub fn inputs(&self, arrays: &[NamedArray]) {
        npz::write(&self.path("inputs.npz"), arrays).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The files, sorted.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn read(&self, name: &str) -> Vec<NamedArray> {
        npz::Archive::open(&self.path(name)).unwrap().read_all().unwrap()
    }

    pub fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }

    pub fn sumsq(&self, args: &[&str]) -> Run {
        self.sumsq_where(&[], args)
    }

    /// As [`Bench::sumsq`], with environment variables.
    pub fn sumsq_where(&self, variables: &[(&str, &str)], args: &[&str]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sumsq"));
        command.envs(variables.iter().copied());
        self.run(command.args(args))
    }

    /// `sumsq solve energy.t --inputs inputs.npz --output o.npz`, and more, with at most so many KiB of address space.
    pub fn solve_within(&self, kib: usize, more: &str) -> Run {
        let tool = env!("CARGO_BIN_EXE_sumsq");
        let line =
            format!("ulimit -v {kib}; exec {tool} solve energy.t --inputs inputs.npz --output o.npz {more}");
        self.run(Command::new("sh").args(["-c", &line]))
    }

    fn run(&self, command: &mut Command) -> Run {
        let output = command.current_dir(self.0.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Run { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// `sumsq solve energy.t --inputs inputs.npz`, and more.
    pub fn solve(&self, more: &[&str]) -> Run {
        self.sumsq(&[&["solve", "energy.t", "--inputs", "inputs.npz"], more].concat())
    }

    /// The same by a command that runs the tool.
    pub fn solve_by(&self, tool: &[&str], more: &[&str]) -> Run {
        let args = [&tool[1..], &["solve", "energy.t", "--inputs", "inputs.npz"], more].concat();
        self.run(Command::new(tool[0]).args(args))
    }
}

impl Run {
    pub fn succeeds(&self) {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
    }

    /// Ends with that code and says that.
    pub fn fails_with(&self, code: i32, said: &str) {
        assert_eq!(self.code, Some(code), "{said}: {}\n{}", self.stdout, self.stderr);
        // Messages are wrapped at the width of a terminal.
        let flat = self.stderr.replace("│", " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(said), "expected `{said}` in\n{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
    }
}

pub fn array(name: &str, shape: &[usize], data: ArrayData) -> NamedArray {
    NamedArray { name: name.to_string(), shape: shape.to_vec(), data }
}

pub fn floats(name: &str, shape: &[usize], values: &[f32]) -> NamedArray {
    array(name, shape, ArrayData::F32(values.to_vec()))
}

pub fn doubles(name: &str, shape: &[usize], values: &[f64]) -> NamedArray {
    array(name, shape, ArrayData::F64(values.to_vec()))
}

pub fn ints(name: &str, shape: &[usize], values: &[i64]) -> NamedArray {
    array(name, shape, ArrayData::Int(values.to_vec(), "int64"))
}
