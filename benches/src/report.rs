//! Findings of a benchmark: on the terminal, and as JSON and a text table in `benches/results/`.

use crate::harness::Ratio;
use serde_json::{Value, json};
use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The findings of one benchmark.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the benchmark and of its files.
    pub name: String,
    /// Setting of the run, sizes included.
    pub setting: String,
    /// The machine.
    pub machine: String,
    /// Commit, date and LLVM of the build that was measured.
    pub build: String,
    /// Ratios, in the order measured.
    pub ratios: Vec<Ratio>,
    /// Further numbers: name, value, unit.
    pub facts: Vec<(String, f64, String)>,
    /// Remarks, a line each.
    pub notes: Vec<String>,
    /// Did the run leave something out? Then it takes no file's place.
    pub is_partial: bool,
}

impl Report {
    /// An empty report of this machine.
    pub fn new(name: &str, setting: impl Into<String>) -> Report {
        let (name, setting) = (name.to_string(), setting.into());
        let (machine, build) = (machine(), build());
        Report {
            name,
            setting,
            machine,
            build,
            ratios: vec![],
            facts: vec![],
            notes: vec![],
            is_partial: false,
        }
    }

    /// The text that names of parts contain that are to run, as an environment variable has it. Where it has any, the report is partial.
    pub fn wanted(&mut self, variable: &str) -> String {
        let wanted = std::env::var(variable).unwrap_or_default();
        self.is_partial |= !wanted.is_empty();
        wanted
    }

    /// Adds a ratio, which is also printed at once.
    pub fn ratio(&mut self, ratio: Ratio) {
        println!("{}", line(&ratio));
        self.ratios.push(ratio);
    }

    /// Adds a number, which is also printed at once.
    pub fn fact(&mut self, name: &str, value: f64, unit: &str) {
        println!("{name}: {value:.6} {unit}");
        self.facts.push((name.into(), value, unit.into()));
    }

    /// Adds a line, which is also printed at once.
    pub fn note(&mut self, line: impl Into<String>) {
        let line = line.into();
        println!("{line}");
        self.notes.push(line);
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let ratios: Vec<Value> = self
            .ratios
            .iter()
            .map(|r| {
                json!({
                    "name": r.name, "median": r.median, "quartiles": [r.quartiles.0, r.quartiles.1],
                    "seconds": [r.seconds.0, r.seconds.1], "pairs": r.pairs, "at_least": r.at_least,
                })
            })
            .collect();
        let facts: Vec<Value> =
            self.facts.iter().map(|(n, v, u)| json!({"name": n, "value": v, "unit": u})).collect();
        json!({
            "benchmark": self.name, "setting": self.setting, "machine": self.machine,
            "build": self.build,
            "ratios": ratios, "facts": facts, "notes": self.notes,
        })
    }

    /// Writes `<name>.json` and `<name>.txt` to `folder`, unless the run was of a part.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        if self.is_partial {
            println!("{}: results of a part are not kept", self.name);
            return Ok(());
        }
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join(format!("{}.json", self.name)), format!("{:#}\n", self.json()))?;
        std::fs::write(folder.join(format!("{}.txt", self.name)), self.to_string())
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}\n{}\n{}\n", self.name, self.setting, self.machine, self.build)?;
        for r in &self.ratios {
            writeln!(f, "{}", line(r))?;
        }
        for (name, value, unit) in &self.facts {
            writeln!(f, "{name:<48} {value:>12.4} {unit}")?;
        }
        self.notes.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

fn line(r: &Ratio) -> String {
    let (low, high) = r.quartiles;
    let (a, b) = (r.seconds.0 * 1e3, r.seconds.1 * 1e3);
    let bound = if r.at_least { ">" } else { " " };
    format!(
        "{:<48} {bound}{:>6.3}x [{low:.3}, {high:.3}]  {a:.3} ms / {b:.3} ms  {} pairs",
        r.name, r.median, r.pairs
    )
}

/// `benches/results/` of this checkout.
pub fn results_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

/// The processor's name and number of threads, as far as the system says.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .map(|l| l.trim_start_matches([' ', '\t', ':']));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    format!("{}, {threads} threads", model.unwrap_or("unknown processor"))
}

/// Commit of the tree, marked if files differ from it, day in UTC, and LLVM's version.
fn build() -> String {
    let output = |program: &str, args: &[&str]| {
        let run = Command::new(program).args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
        let text = String::from_utf8_lossy(&run.stdout).trim().to_owned();
        (run.status.success() && !text.is_empty()).then_some(text)
    };
    let unknown = || "unknown".to_owned();
    let commit = output("git", &["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(unknown);
    // What earlier benchmarks have written changes no later one.
    let changed =
        output("git", &["status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/benches/results"]);
    let commit = commit + if changed.is_some() { "-dirty" } else { "" };
    let date = output("date", &["-u", "+%F"]).unwrap_or_else(unknown);
    format!("commit {commit}, {date}, LLVM {}", sumsq::codegen::backend::llvm::version())
}
