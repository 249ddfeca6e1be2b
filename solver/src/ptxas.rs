//! NVIDIA's assembler and disassembler, where they are installed: figures of generated kernels, and their machine code as text. Neither
//! is needed to run anything.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use sumsq_codegen::target::Gpu;
use thiserror::Error;

/// Parts of a multiprocessor that a kernel takes, as the assembler tells it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// The kernel.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of a thread's stack.
    pub stack: u32,
    /// Bytes that a thread stores and loads since there are too few registers.
    pub spills: u32,
    /// Bytes of shared memory of a block.
    pub shared: u32,
}

/// Reason why a tool gave nothing.
#[derive(Debug, Error)]
pub enum ToolError {
    /// It is not installed.
    #[error("{0} is not installed: `cargo xtask setup` gets it, or put it into CUDA_HOME/bin or on PATH")]
    Missing(&'static str),
    /// It refuses the code.
    #[error("{tool} refuses the code: {words}")]
    Refused {
        /// The tool.
        tool: &'static str,
        /// Its words.
        words: String,
    },
    /// It did not run, or its files could not be written or read.
    #[error("{tool}: {error}")]
    Files {
        /// The tool.
        tool: &'static str,
        /// The system's words.
        error: std::io::Error,
    },
}

/// The path of a tool: beside cargo's artifacts, where `cargo xtask setup` puts it and this program may lie, else in `CUDA_HOME/bin`, else
/// on `PATH`.
pub fn find(tool: &'static str) -> Result<PathBuf, ToolError> {
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.ancestors().skip(1).take(6).map(|folder| folder.join("nvidia"));
    let home = std::env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = beside.chain(home).chain(std::env::split_paths(&path));
    let found = folders.find_map(|folder| Some(folder.join(tool)).filter(|path| path.is_file()));
    found.ok_or(ToolError::Missing(tool))
}

/// Assembles PTX for a compute capability (75 is 7.5): what each of its kernels takes, in the order of the text.
///
/// # Errors
/// `ptxas` is missing or refuses the text.
pub fn assemble(ptx: &str, sm: u32) -> Result<Vec<Usage>, ToolError> {
    within("ptxas", |folder| Ok(usages(&assembled(ptx, sm, folder)?)))
}

/// The machine code that PTX becomes for a compute capability, as text.
///
/// # Errors
/// `ptxas` or `nvdisasm` is missing, or the text is refused.
pub fn sass(ptx: &str, sm: u32) -> Result<String, ToolError> {
    let tool = "nvdisasm";
    let path = find(tool)?;
    within(tool, |folder| {
        assembled(ptx, sm, folder)?;
        let output = run(tool, Command::new(path).arg("-c").arg(folder.join(CODE)))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    })
}

/// The compute capability that PTX is written for (75 is 7.5).
pub fn capability(ptx: &str) -> u32 {
    let target = ptx.lines().find_map(|line| line.trim().strip_prefix(".target sm_"));
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
    target.and_then(number).unwrap_or(Gpu::LEAST)
}

/// Files in the folder of a call.
const TEXT: &str = "kernels.ptx";
const CODE: &str = "kernels.cubin";

fn within<R>(tool: &'static str, f: impl FnOnce(&Path) -> Result<R, ToolError>) -> Result<R, ToolError> {
    f(tempfile::tempdir().map_err(|error| ToolError::Files { tool, error })?.path())
}

/// Leaves the machine code in the folder, and returns the assembler's words.
fn assembled(ptx: &str, sm: u32, folder: &Path) -> Result<String, ToolError> {
    let tool = "ptxas";
    let mut command = Command::new(find(tool)?);
    let text = folder.join(TEXT);
    std::fs::write(&text, ptx).map_err(|error| ToolError::Files { tool, error })?;
    command.arg("-v").arg(format!("-arch=sm_{sm}")).arg("-o").arg(folder.join(CODE)).arg(text);
    Ok(words(&run(tool, &mut command)?))
}

fn run(tool: &'static str, command: &mut Command) -> Result<Output, ToolError> {
    let output = command.output().map_err(|error| ToolError::Files { tool, error })?;
    if output.status.success() { Ok(output) } else { Err(ToolError::Refused { tool, words: words(&output) }) }
}

fn words(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat().trim().to_owned()
}

/// Reads the figures. `Function properties` are those of kernels, and of functions that these call.
fn usages(words: &str) -> Vec<Usage> {
    let (mut usages, mut of_kernel) = (Vec::<Usage>::new(), false);
    for line in words.lines() {
        if let Some(rest) = after(line, "Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            usages.push(Usage { kernel, ..Usage::default() });
        } else if let (Some(name), Some(usage)) = (after(line, "Function properties for "), usages.last()) {
            of_kernel = name.trim() == usage.kernel;
        } else if let Some(usage) = usages.last_mut() {
            let figure = |unit: &str| before(line, unit);
            if let Some(stack) = figure(" bytes stack frame").filter(|_| of_kernel) {
                usage.stack = stack;
                usage.spills =
                    [" bytes spill stores", " bytes spill loads"].into_iter().filter_map(figure).sum();
            } else if let Some(registers) = figure(" registers") {
                usage.registers = registers;
                usage.shared = figure(" bytes smem").unwrap_or(0);
            }
        }
    }
    usages
}

fn after<'a>(line: &'a str, phrase: &str) -> Option<&'a str> {
    line.split_once(phrase).map(|(_, rest)| rest)
}

/// The number in front of a unit.
fn before(line: &str, unit: &str) -> Option<u32> {
    line.split_once(unit)?.0.rsplit([' ', ',']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let text = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'sweep' for 'sm_75'
ptxas info    : Function properties for sine
    8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for sweep
    40 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 40 bytes cumulative stack size, 2048 bytes smem, 380 bytes cmem[0]
ptxas info    : Compiling entry function 'one' for 'sm_75'
ptxas info    : Function properties for one
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
";
        let sweep = Usage { kernel: "sweep".into(), registers: 64, stack: 40, spills: 28, shared: 2048 };
        let one = Usage { kernel: "one".into(), registers: 8, ..Usage::default() };
        assert_eq!(usages(text), [sweep, one]);
    }

    const ADD: &str = include_str!("../../codegen-testing/tests/cuda/add.ptx");
    const COUNT: &str = include_str!("../../codegen-testing/tests/cuda/count.ptx");

    /// `cargo xtask setup` gets the assembler.
    #[test]
    fn kernels_assemble_for_every_capability() {
        for sm in [75, 80, 90, 100] {
            let usages = assemble(ADD, sm).unwrap();
            let [add] = &usages[..] else { panic!("{usages:?}") };
            assert_eq!((add.kernel.as_str(), add.stack, add.spills, add.shared), ("add", 0, 0, 1024));
            assert!((4..=32).contains(&add.registers), "{add:?}");
            assert!(sass(ADD, sm).unwrap().contains("EXIT"));
        }
        let usages = assemble(COUNT, 90).unwrap();
        assert_eq!(usages.iter().map(|u| u.kernel.as_str()).collect::<Vec<_>>(), ["count"]);
    }

    #[test]
    fn errors_hold_the_words() {
        let error = assemble(&ADD.replace("add.rn.f32", "bogus.rn.f32"), 75).unwrap_err().to_string();
        assert!(error.starts_with("ptxas refuses the code: ") && error.contains("'bogus'"), "{error}");
        assert!(assemble(ADD, 13).is_err());
    }

    #[test]
    fn capabilities_are_read() {
        assert_eq!(capability(".version 8.0\n.target sm_90a, debug\n"), 90);
        assert_eq!(capability("// none"), 75);
    }

    #[test]
    fn tools_that_are_missing() {
        let missing = find("no-such-tool").unwrap_err().to_string();
        assert!(missing.starts_with("no-such-tool is not installed: `cargo xtask setup`"), "{missing}");
    }
}
