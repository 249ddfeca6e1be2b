//! The side of a framework: a process that holds the inputs, and runs when it is told to (`peers/jax/gradients.py`, `peers/torch/gradients.py`).

use crate::suite::{THREADS, root};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use sumsq::NamedArray;
use sumsq_examples::io::npz;

/// A framework that is compared with.
pub struct Framework {
    /// Its name.
    pub name: &'static str,
    /// Its folder in `benches/peers`, and below that of build artifacts that of its Python environment.
    folder: &'static str,
}

/// All of them.
pub const FRAMEWORKS: [Framework; 2] =
    [Framework { name: "JAX", folder: "jax" }, Framework { name: "PyTorch", folder: "torch" }];

/// The process.
pub struct Process {
    name: &'static str,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
    /// Seconds that it took to compile and run both functions once.
    pub compiled: f64,
}

type Failed = Box<dyn Error>;

impl Framework {
    /// The process for a case with these inputs; in words why there is none.
    ///
    /// # Errors
    /// A process that does not start or ends early; what cannot be written.
    pub fn start(&self, case: &str, inputs: &[NamedArray]) -> Result<Result<Process, String>, Failed> {
        let own = std::env::current_exe()?;
        let peers = own.ancestors().nth(2).unwrap_or(&own).join("peers");
        let python = peers.join(self.folder).join("bin/python");
        if !python.is_file() {
            return Ok(Err(format!("{} is missing: run `cargo xtask setup --peers`", python.display())));
        }
        let folder = tempfile::tempdir()?;
        let arrays: PathBuf = folder.path().join("inputs.npz");
        npz::write(&arrays, inputs)?;
        let script = root().join("benches/peers").join(self.folder).join("gradients.py");
        let mut command = Command::new(python);
        command.arg(script).arg(case).arg(arrays).arg(THREADS.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let name = self.name;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{name} has no pipes").into());
        };
        let mut process = Process { name, child, to, from: BufReader::new(from), folder, compiled: 0.0 };
        let line = process.line()?;
        process.compiled =
            line.strip_prefix("ready ").ok_or_else(|| format!("{name} said {line}"))?.parse()?;
        Ok(Ok(process))
    }
}

impl Process {
    fn line(&mut self) -> Result<String, Failed> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            return Err(format!("{} ended: {}", self.name, self.child.wait()?).into());
        }
        Ok(line.trim().to_string())
    }

    /// The time of one run of `forward` or of `both`.
    ///
    /// # Errors
    /// A process that ended.
    pub fn run(&mut self, what: &str) -> Result<Duration, Failed> {
        writeln!(self.to, "{what}")?;
        Ok(Duration::from_secs_f64(self.line()?.parse()?))
    }

    /// The output and J^T 1, by name.
    ///
    /// # Errors
    /// A process that ended; what cannot be read.
    pub fn results(&mut self) -> Result<Vec<NamedArray>, Failed> {
        let file = self.folder.path().join("results.npz");
        writeln!(self.to, "write {}", file.display())?;
        self.line()?;
        Ok(npz::Archive::open(&file)?.read_all()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
