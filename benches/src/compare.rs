//! Two builds of the tool side by side, as Markdown tables: `cargo xtask compare OLD`.
//!
//! - code: the optimised LLVM text of every energy of `examples/energies`, the same up to the names of symbols and metadata;
//! - bits: the unknowns of the demos' first problems after some steps of Levenberg-Marquardt;
//! - times: the report's seconds of these solves in alternated pairs, new / old.

use crate::harness::{Ratio, Times};
use serde_json::Value;
use std::collections::HashMap;
use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use sumsq::{ArrayData, NamedArray};
use sumsq_examples::demos::{self, Demo};
use sumsq_examples::io::npz;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Phases of a solve whose seconds a report has.
const PHASES: [&str; 3] = ["compile", "plan", "solve"];

/// A comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The older tool.
    pub old: PathBuf,
    /// The newer one.
    pub new: PathBuf,
    code: bool,
    bits: bool,
    times: bool,
    steps: usize,
    pairs: usize,
}

impl Options {
    /// From `OLD NEW [--code] [--bits] [--times] [--steps N] [--pairs N]`; none if it is anything else. Without the first three flags all
    /// three parts are run.
    pub fn read(args: &[String]) -> Option<Options> {
        let [old, new, rest @ ..] = args else { return None };
        let (old, new) = (old.into(), new.into());
        let mut options = Options { old, new, code: false, bits: false, times: false, steps: 6, pairs: 9 };
        let mut rest = rest.iter();
        while let Some(flag) = rest.next() {
            match flag.as_str() {
                "--code" => options.code = true,
                "--bits" => options.bits = true,
                "--times" => options.times = true,
                "--steps" => options.steps = rest.next()?.parse().ok()?,
                "--pairs" => options.pairs = rest.next()?.parse().ok().filter(|n| *n > 0)?,
                _ => return None,
            }
        }
        if !(options.code || options.bits || options.times) {
            (options.code, options.bits, options.times) = (true, true, true);
        }
        Some(options)
    }
}

/// Prints the tables; true if code and bits are the same.
///
/// # Errors
/// A tool that fails, or a file that cannot be read or written.
pub fn compare(options: &Options) -> Result<bool> {
    let mut same = true;
    if options.code {
        same &= code(options)?;
    }
    if options.bits {
        same &= bits(options)?;
    }
    if options.times {
        times(options)?;
    }
    Ok(same)
}

/// Standard output of a tool.
fn output(tool: &Path, args: &[&OsStr]) -> Result<String> {
    let run = Command::new(tool).args(args).output().map_err(|e| format!("{}: {e}", tool.display()))?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        return Err(format!("{} {args:?} failed ({}):\n{said}", tool.display(), run.status).into());
    }
    Ok(String::from_utf8(run.stdout)?)
}

fn energies() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/energies")
}

fn code(options: &Options) -> Result<bool> {
    println!("\n| energy | optimised LLVM text, up to names | lines |\n|---|---|---|");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(energies())?.map(|e| Ok(e?.path())).collect::<Result<_>>()?;
    files.retain(|f| f.extension() == Some("t".as_ref()));
    files.sort();
    let mut all = true;
    for file in files {
        let text = |tool: &Path| -> Result<Vec<String>> {
            let args = ["show".as_ref(), file.as_os_str(), "--stage".as_ref(), "llvm".as_ref()];
            Ok(without_names(&output(tool, &args)?))
        };
        let (old, new) = (text(&options.old)?, text(&options.new)?);
        let said = if old == new { "same".into() } else { first_difference(&old, &new) };
        all &= old == new;
        println!("| {} | {said} | {} |", stem(&file), new.len());
    }
    Ok(all)
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The lines of LLVM text with symbols and the strings of metadata numbered in the order of their appearance; the names that LLVM and the
/// runtime give are kept, those of modules left out.
fn without_names(text: &str) -> Vec<String> {
    let mut numbers = HashMap::new();
    let named = |line: &&str| !line.starts_with("; ModuleID") && !line.starts_with("source_filename");
    let mut plain = |line: &str| {
        let (mut out, mut rest) = (String::new(), line);
        while let Some(at) = rest.find(['@', '!']) {
            let length = name_length(&rest[at..]);
            let (name, next) = (&rest[at..at + length.max(1)], at + length.max(1));
            out.push_str(&rest[..at]);
            if length == 0 || name.starts_with("@llvm.") || name.starts_with("@sumsq") {
                out.push_str(name);
            } else {
                let next = numbers.len();
                out.push_str(&format!("N{}", numbers.entry(name.to_owned()).or_insert(next)));
            }
            rest = &rest[next..];
        }
        out + rest
    };
    text.lines().filter(named).map(&mut plain).collect()
}

/// Length of the name at the start of `text`: `@symbol`, `@"symbol"` or `!"string"`; 0 if there is none.
fn name_length(text: &str) -> usize {
    let (sigil, name) = text.split_at(1);
    match name.strip_prefix('"') {
        Some(quoted) => quoted.find('"').map_or(0, |end| end + 3),
        None if sigil == "!" => 0,
        None => {
            let is_part = |c: char| c.is_alphanumeric() || "_.$-".contains(c);
            1 + name.find(|c| !is_part(c)).unwrap_or(name.len())
        }
    }
}

fn first_difference(old: &[String], new: &[String]) -> String {
    let at = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    format!("differs from line {} on ({} lines were there)", at + 1, old.len())
}

/// The inputs of a demo's first problem, as a file that tools read, and files for what they write.
struct Case {
    folder: tempfile::TempDir,
    energy: PathBuf,
}

impl Case {
    fn new(demo: &Demo) -> Result<Case> {
        let (folder, problem) = (tempfile::tempdir()?, demo.problem()?);
        npz::write(&folder.path().join("inputs.npz"), &problem.inputs)?;
        Ok(Case { folder, energy: energies().join(format!("{}.t", problem.energy)) })
    }

    /// The unknowns and the report that a tool writes.
    fn solve(&self, tool: &Path, steps: usize) -> Result<(Vec<NamedArray>, Value)> {
        let [inputs, output, report] =
            ["inputs.npz", "output.npz", "report.json"].map(|f| self.folder.path().join(f));
        let steps = steps.to_string();
        let mut args: Vec<&OsStr> = vec!["solve".as_ref(), self.energy.as_os_str()];
        args.extend(["--inputs".as_ref(), inputs.as_os_str(), "--output".as_ref(), output.as_os_str()]);
        args.extend(["--report".as_ref(), report.as_os_str()]);
        args.extend(["--iterations".as_ref(), OsStr::new(&steps)]);
        self::output(tool, &args)?;
        let unknowns = npz::Archive::open(&output)?.read_all()?;
        Ok((unknowns, serde_json::from_slice(&std::fs::read(report)?)?))
    }
}

fn bits(options: &Options) -> Result<bool> {
    println!(
        "\n| problem | bits after {} steps | scalars | of other bits |\n|---|---|---|---|",
        options.steps
    );
    let mut all = true;
    for demo in demos::ALL {
        let case = Case::new(&demo)?;
        let (old, _) = case.solve(&options.old, options.steps)?;
        let (new, _) = case.solve(&options.new, options.steps)?;
        let (old, new) = (scalars(&old), scalars(&new));
        let other = old.iter().zip(&new).filter(|(a, b)| a != b).count();
        let same = other == 0 && old.len() == new.len();
        all &= same;
        println!("| {} | {} | {} | {other} |", demo.name, if same { "same" } else { "DIFFER" }, new.len());
    }
    Ok(all)
}

/// Every scalar of unknowns, with its place, as bits. Unknowns are written as floats.
fn scalars(unknowns: &[NamedArray]) -> Vec<(&str, u64)> {
    let bits = |a: &NamedArray| -> Vec<u64> {
        match &a.data {
            ArrayData::F32(values) => values.iter().map(|v| v.to_bits().into()).collect(),
            ArrayData::F64(values) => values.iter().map(|v| v.to_bits()).collect(),
            _ => vec![],
        }
    };
    unknowns.iter().flat_map(|a| bits(a).into_iter().map(|b| (a.name.as_str(), b))).collect()
}

fn times(options: &Options) -> Result<()> {
    let (pairs, steps) = (options.pairs, options.steps);
    println!("\nSeconds of {pairs} alternated pairs, {steps} steps, new / old: medians and [quartiles].\n");
    println!("| problem | {} |\n|---|---|---|---|", PHASES.join(" | "));
    for demo in demos::ALL {
        let case = Case::new(&demo)?;
        let mut seconds: [Vec<Times>; 3] = Default::default();
        for pair in 0..pairs {
            let run = |tool| Ok::<_, Box<dyn Error>>(case.solve(tool, steps)?.1);
            let (new, old) = if pair % 2 == 0 {
                let new = run(&options.new)?;
                (new, run(&options.old)?)
            } else {
                let old = run(&options.old)?;
                (run(&options.new)?, old)
            };
            for (all, phase) in seconds.iter_mut().zip(PHASES) {
                let of = |report: &Value| report["seconds"][phase].as_f64().unwrap_or(f64::NAN);
                all.push(Times { a: of(&new), b: of(&old), at_least: false });
            }
        }
        let cells = seconds.map(|times| cell(&Ratio::of("", &times)));
        println!("| {} | {} |", demo.name, cells.join(" | "));
    }
    Ok(())
}

fn cell(r: &Ratio) -> String {
    let (low, high) = r.quartiles;
    format!("{:.2} [{low:.2}, {high:.2}] {:.3} / {:.3} s", r.median, r.seconds.0, r.seconds.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let read = |line: &str| Options::read(&line.split(' ').map(String::from).collect::<Vec<_>>());
        let all = read("a b").unwrap();
        assert!(all.code && all.bits && all.times && (all.steps, all.pairs) == (6, 9));
        let some = read("a b --bits --steps 20").unwrap();
        assert!(some.bits && !some.code && !some.times && some.steps == 20);
        for wrong in ["a", "a b c", "a b --pairs 0", "a b --steps"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_do_not_count_and_all_else_does() {
        let of = |text: &str| without_names(text);
        let module = |name: &str| {
            format!(
                "; ModuleID = '{name}'\ndefine @{name}() {{ call @llvm.sqrt(@{name}) }}\n!1 = !{{!\"{name}.0\", !2}}"
            )
        };
        assert_eq!(of(&module("pcg_a")), of(&module("sweep")));
        assert_eq!(of("@f @f @\"g h\"! x"), ["N0 N0 N1! x"]);
        assert_ne!(of("@f @f"), of("@f @g"));
        assert_ne!(of("@llvm.sqrt"), of("@llvm.exp"));
        assert_ne!(of("!1"), of("!2"));
    }
}
