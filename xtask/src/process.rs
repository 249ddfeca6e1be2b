//! Commands run in the workspace root, with errors that name the command.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Reason why a task ended early; shown as it is.
#[derive(Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The workspace root.
pub fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// A folder beside cargo's artifacts, `target/NAME` or the like of wherever cargo builds to (this program lies in `target/debug`); made if need be.
pub fn artifacts(name: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|e| Failure(format!("where xtask lies is unknown: {e}")))?;
    let folder = own.ancestors().nth(2).unwrap_or(&own).join(name);
    std::fs::create_dir_all(&folder).map_err(|e| Failure(format!("{}: {e}", folder.display())))?;
    Ok(folder)
}

/// A command line in the workspace root.
pub struct Task {
    command: Command,
    line: String,
}

/// A command line: program, then arguments.
pub fn task(line: &[&str]) -> Task {
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).current_dir(root());
    Task { command, line: line.join(" ") }
}

/// A cargo command, of the same cargo that runs xtask; with `--locked` where it resolves dependencies.
pub fn cargo(args: &[&str]) -> Task {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string());
    let locked: &[&str] = if args[0] == "fmt" { &[] } else { &["--locked"] };
    let args = [&args[..1], locked, &args[1..]].concat();
    let mut task = task(&[&[cargo.as_str()], &args[..]].concat());
    task.line = format!("cargo {}", args.join(" "));
    // What is tested and measured is compiled.
    task.env("SUMSQ_CACHE", "off")
}

impl Task {
    /// With an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Task {
        self.command.env(name, value);
        self
    }

    /// In another folder.
    pub fn within(mut self, folder: &Path) -> Task {
        self.command.current_dir(folder);
        self
    }

    /// Echoes the command and runs it on this terminal; an error unless it succeeds.
    pub fn run(mut self) -> Result<(), Failure> {
        eprintln!("$ {}", self.line);
        match self.command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure(format!("`{}` failed ({status})", self.line))),
            Err(error) => Err(Failure(format!("cannot run `{}`: {error}", self.line))),
        }
    }

    /// As [`Task::run`]; `each` line of standard output is handed on instead of being printed.
    pub fn lines(mut self, each: impl FnMut(&str)) -> Result<(), Failure> {
        self.command.stdout(Stdio::piped());
        self.follow(|child| child.stdout.take(), each)
    }

    /// The same of standard error.
    pub fn errors(mut self, each: impl FnMut(&str)) -> Result<(), Failure> {
        self.command.stderr(Stdio::piped());
        self.follow(|child| child.stderr.take(), each)
    }

    fn follow<R: Read>(
        mut self,
        pipe: impl FnOnce(&mut Child) -> Option<R>,
        mut each: impl FnMut(&str),
    ) -> Result<(), Failure> {
        eprintln!("$ {}", self.line);
        let unable = |error| Failure(format!("cannot run `{}`: {error}", self.line));
        let mut child = self.command.spawn().map_err(unable)?;
        for line in pipe(&mut child).into_iter().flat_map(|out| BufReader::new(out).split(b'\n')) {
            let line = line.map_err(unable)?;
            each(&String::from_utf8_lossy(&line));
        }
        let status = child.wait().map_err(unable)?;
        if status.success() { Ok(()) } else { Err(Failure(format!("`{}` failed ({status})", self.line))) }
    }

    /// Standard output of a quiet run; `None` if the program is missing or fails.
    pub fn output(mut self) -> Option<String> {
        let output = self.command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    }
}
