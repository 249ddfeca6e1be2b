//! The command line.

use crate::engine;
use crate::failure::Failure;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use sumsq::assembled::LinearSolver;
use sumsq::energy::Budgets;
use sumsq::energy::derive::Passes;
use sumsq::{
    Backend, CompileLimits, CompileOptions, EXACT_RADIUS, Level, LossOrder, MemoryLimit, Method, Options,
    Overrides, Precision, Preconditioner, SolveOptions,
};

/// Minimises sums of squares over images, volumes, meshes and graphs.
#[derive(Parser, Debug)]
#[command(name = "sumsq", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Solve a problem
    Solve(SolveArgs),
    /// Check the derivatives of an energy on a problem
    Check(CheckArgs),
    /// Show what an energy is compiled to
    Show(ShowArgs),
    /// Run a demo and write its pictures
    Demo(DemoArgs),
    /// Run an image pipeline; without a name, list them
    Pipeline(PipelineArgs),
    /// List the GPUs
    Devices,
}

#[derive(Args, Debug)]
pub struct SolveArgs {
    /// The energy file
    pub energy: PathBuf,
    /// Unknowns, arrays, params, dims and graphs, by their names
    #[arg(long, value_name = "F.npz")]
    pub inputs: PathBuf,
    /// File for the unknowns
    #[arg(long, value_name = "O.npz")]
    pub output: Option<PathBuf>,
    /// File for the report
    #[arg(long, value_name = "R.json")]
    pub report: Option<PathBuf>,
    /// File for the plot of energy against iteration
    #[arg(long, value_name = "P.png")]
    pub plot: Option<PathBuf>,
    /// Print which Func takes how much time and memory, or on a GPU which kernel; the solve takes longer
    #[arg(long)]
    pub profile: bool,
    #[command(flatten)]
    pub options: SolverArgs,
}

/// Options of the solver; the defaults are those of [`Options`].
#[derive(Args, Debug)]
pub struct SolverArgs {
    /// Levenberg-Marquardt or Gauss-Newton
    #[arg(long, value_enum, default_value_t = MethodArg::Lm)]
    method: MethodArg,
    /// Steps at most, rejected ones included [default: 50; 1000 for lm where all unknowns are globals]
    #[arg(long, value_name = "N")]
    iterations: Option<usize>,
    /// Solver of each step's linear system
    #[arg(long, value_enum, default_value_t = LinearSolverArg::Pcg)]
    linear_solver: LinearSolverArg,
    /// PCG iterations at most per step [default: 500; with only a linear tolerance, ten times the free unknowns]
    #[arg(long, value_name = "M", value_parser = at_least_one)]
    linear_iterations: Option<usize>,
    /// Stop PCG at |r| <= T |b|
    #[arg(long, value_name = "T")]
    linear_tolerance: Option<f64>,
    /// Stop PCG when its model stalls at this rate
    #[arg(long, value_name = "Z", default_value_t = 1e-2)]
    forcing: f64,
    /// Stop PCG at sqrt(r.z) <= E sqrt(r0.z0), with multigrid and aggregation [default: as the steps turn out, from 0.1
    /// (multigrid) or 1e-3 (aggregation) to 0.3]
    #[arg(long, value_name = "E")]
    eta: Option<f64>,
    /// First trust-region radius [default: 1e4; 1e-3 where all unknowns are globals; with Cholesky 1e8, since its steps are exact however
    /// little is damped]
    #[arg(long, value_name = "R0")]
    radius: Option<f64>,
    /// Wall-clock limit
    #[arg(long, value_name = "S", value_parser = seconds)]
    max_seconds: Option<Duration>,
    /// Stop when an accepted step changes E by at most F times E; 0 turns it off [default: 1e-6; 0 where all unknowns are globals]
    #[arg(long, value_name = "F")]
    function_tolerance: Option<f64>,
    /// Stop when no single unknown could take more than this share off |r|
    #[arg(long, value_name = "G", default_value_t = 1e-10)]
    gradient_tolerance: f64,
    /// Stop when a step is at most T times both |x| and the longest step; 0 turns it off
    #[arg(long, value_name = "T", default_value_t = 1e-8)]
    step_tolerance: f64,
    /// Damp with the largest diagonal of J^T J so far instead of the current one [default: only where all unknowns are globals]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    running_scales: Option<bool>,
    /// Worker threads, at most 1024 [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Memory for inputs and buffers: bytes, as in 8000000 or 1.5G, or a share, as in 50% [default: as much as there is]
    #[arg(long, value_name = "BYTES")]
    max_memory: Option<MemoryLimit>,
    #[command(flatten)]
    code: CodeArgs,
}

/// Options that change generated code: the same for every command that generates any.
#[derive(Args, Debug)]
pub struct CodeArgs {
    /// Arithmetic [default: mixed; `check`: f64, the only one that it takes]
    #[arg(long, value_enum)]
    precision: Option<PrecisionArg>,
    /// Preconditioner of PCG
    #[arg(long, value_parser = preconditioners(), default_value = Preconditioner::default().name())]
    preconditioner: Preconditioner,
    #[command(flatten)]
    machine: MachineArgs,
    /// Share of robust losses that J^T J holds
    #[arg(long, value_enum, default_value_t = LossesArg::Declared)]
    losses: LossesArg,
    /// Passes over the routines: all, none, or some of bounds, polynomial, sharing, hoisting, scheduling
    #[arg(long, default_value_t, value_name = "LIST")]
    passes: Passes,
    /// Storage of residual groups: in_place, or r, j, jp, blocks joined by +; `GROUP=...` for one; `ARRAY=recomputed` of a computed array
    #[arg(long, value_parser = Overrides::short, value_name = "LIST")]
    materialize: Option<Overrides>,
    /// Choices of storage, as `show --stage choices` prints them: lines that differ suffice
    #[arg(long, value_parser = choices, value_name = "FILE")]
    choices: Option<Overrides>,
    #[command(flatten)]
    budgets: BudgetArgs,
}

/// The machine that code is generated for and run on.
#[derive(Args, Debug)]
pub struct MachineArgs {
    /// Machine to run on; auto is a GPU where there is one and the work pays for starting it, and says why it is or is not
    #[arg(long, value_enum, default_value_t = BackendArg::Auto)]
    backend: BackendArg,
    /// Instructions that generated code may use: this machine's, or those of any machine of a level, with the same bits on each; on a GPU
    /// a compute capability as in sm_90 [default: that of the device]
    #[arg(long, value_parser = machine, default_value = Level::default().name(), value_name = "native|x86-64-v2|x86-64-v3|x86-64-v4|aarch64|sm_NN")]
    target: Machine,
    /// Number of the CUDA device, as `devices` lists them
    #[arg(long, default_value_t = 0, value_name = "N")]
    device: usize,
}

impl MachineArgs {
    /// As the library takes them, all else as by default.
    pub fn options(&self) -> CompileOptions {
        CompileOptions {
            backend: match self.backend {
                BackendArg::Auto => Backend::Auto,
                BackendArg::Cpu => Backend::Cpu,
                BackendArg::Cuda => Backend::Cuda,
            },
            target: match self.target {
                Machine::Cpu(level) => level,
                Machine::Gpu(_) => Level::default(),
            },
            device: self.device,
            capability: match self.target {
                Machine::Cpu(_) => None,
                Machine::Gpu(sm) => Some(sm),
            },
            ..CompileOptions::default()
        }
    }
}

/// Most that an energy may take to be read, derived and compiled; the defaults are those of [`Budgets`] and [`CompileLimits`].
#[derive(Args, Debug)]
pub struct BudgetArgs {
    /// Nodes of the energy's expressions, with operands and derivatives
    #[arg(long, value_name = "N", default_value_t = Budgets::default().nodes)]
    max_nodes: u64,
    /// Visits of nodes while expressions are built and derived
    #[arg(long, value_name = "N", default_value_t = Budgets::default().steps)]
    max_steps: u64,
    /// Operations inside each other in an expression
    #[arg(long, value_name = "N", default_value_t = Budgets::default().depth)]
    max_depth: u32,
    /// Entries of a Vector
    #[arg(long, value_name = "N", default_value_t = Budgets::default().entries)]
    max_entries: u32,
    /// Scalar residuals and conditions
    #[arg(long, value_name = "N", default_value_t = Budgets::default().residuals)]
    max_residuals: u32,
    /// Instructions of Lua that the energy file runs
    #[arg(long, value_name = "N", default_value_t = Budgets::default().lua_instructions)]
    max_lua_instructions: u64,
    /// Bytes of the energy file, and of the memory of its Lua state
    #[arg(long, value_name = "N", default_value_t = Budgets::default().lua_memory)]
    max_lua_memory: u64,
    /// LLVM instructions of a pipeline; a block without branches may have a twelfth of them
    #[arg(long, value_name = "N", default_value_t = CompileLimits::default().instructions)]
    max_instructions: u64,
    /// Seconds for derivation and compilation
    #[arg(long, value_name = "S", default_value_t = CompileLimits::default().seconds)]
    max_compile_seconds: f64,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The energy file
    pub energy: PathBuf,
    /// Unknowns, arrays, params, dims and graphs, by their names
    #[arg(long, value_name = "F.npz")]
    pub inputs: PathBuf,
    /// The direction v, by unknown [default: seeded random numbers]
    #[arg(long, value_name = "V.npz")]
    pub direction: Option<PathBuf>,
    /// Point of evaluation, by unknown [default: the inputs' unknowns]
    #[arg(long, value_name = "X.npz")]
    pub at: Option<PathBuf>,
    /// File for `JTF.<unknown>`, `diag.<unknown>` and `JTJv.<unknown>`
    #[arg(long, value_name = "O.npz")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub code: CodeArgs,
}

#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The energy file
    pub energy: PathBuf,
    /// Last stage of compilation
    #[arg(long, value_enum, default_value_t = Stage::Declarations)]
    pub stage: Stage,
    /// Print operation counts as well: per pixel or edge, for every routine
    #[arg(long)]
    pub stats: bool,
    /// Arrays as of `solve`: prints also what follows from their sizes
    #[arg(long, value_name = "F.npz")]
    pub inputs: Option<PathBuf>,
    #[command(flatten)]
    pub code: CodeArgs,
}

#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Name of the demo; without it they are listed
    #[arg(value_parser = demo_names())]
    pub name: Option<String>,
    /// Folder for pictures and results, made if need be
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub out: PathBuf,
    /// Write what the first solve is given there as well, for `check` and `solve`
    #[arg(long)]
    pub inputs: bool,
}

#[derive(Args, Debug)]
pub struct PipelineArgs {
    /// Name of the pipeline; without it they are listed
    #[arg(value_parser = pipeline_names())]
    pub name: Option<String>,
    /// PNG or JPEG files, one for each input that is a picture
    #[arg(long, value_name = "IMG", num_args = 1..)]
    pub input: Vec<PathBuf>,
    /// Inputs that are arrays, by their names
    #[arg(long, value_name = "F.npz")]
    pub inputs: Option<PathBuf>,
    /// Compute J^T w, too: `d.NAME` for each input and parameter NAME of floats, where w are the arrays `w.NAME` of --inputs for outputs
    /// NAME, else ones
    #[arg(long)]
    pub gradient: bool,
    /// File for the picture, or with the ending .npz for all outputs
    #[arg(long, value_name = "IMG")]
    pub output: Option<PathBuf>,
    /// A parameter, as in levels=8
    #[arg(long, value_name = "K=V", value_parser = parameter)]
    pub param: Vec<(String, String)>,
    /// Name of a schedule, or a file with one [default: hand, or narrow where an application has it and vectors are shorter than 512 bits; on a GPU gpu; of a gradient gradient where an application has it, else first, made from the sizes of the inputs; on a GPU first, or gpu_atomics]
    #[arg(long, value_name = "NAME|FILE")]
    pub schedule: Option<String>,
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Worker threads, at most 1024 [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Run again and again, and print how long it takes
    #[arg(long)]
    pub bench: bool,
    /// Print which Func takes how much time and memory
    #[arg(long)]
    pub profile: bool,
    /// Print what the schedule makes of the pipeline, and run nothing
    #[arg(long, value_enum)]
    pub show: Option<Shown>,
    /// Write an object file, a C header and the runtime that they need there, and run nothing; with --gradient two of each, NAME_forward for the
    /// outputs and NAME_backward for J^T w
    #[arg(long, value_name = "DIR")]
    pub emit_c: Option<PathBuf>,
}

/// Forms of a pipeline.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    Schedule,
    Loops,
    Llvm,
    Asm,
    /// Kernels of a GPU, which need not be there
    Ptx,
}

fn pipeline_names() -> PossibleValuesParser {
    use sumsq_examples::pipelines::{ALL, OF_DEMOS};
    PossibleValuesParser::new(ALL.into_iter().chain(OF_DEMOS).map(|application| application.name))
}

/// `name=value`.
fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim().to_string(), value.trim().to_string()))
}

/// Stages of compilation, in their order.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    Declarations,
    Dag,
    Derivatives,
    Routines,
    Choices,
    Schedules,
    /// Levels of multigrid or aggregation: their sizes, entries and bytes; needs --inputs
    Hierarchy,
    Loops,
    Llvm,
    Asm,
    /// Kernels of a GPU, which need not be there
    Ptx,
    /// Their machine code, where ptxas and nvdisasm are installed
    Sass,
}

/// Reads a file of choices.
fn choices(path: &str) -> Result<Overrides, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    text.parse::<Overrides>().map_err(|e| e.to_string())
}

fn preconditioners() -> impl TypedValueParser<Value = Preconditioner> {
    let names = Preconditioner::ALL.iter().map(|(_, name)| *name);
    PossibleValuesParser::new(names).try_map(|name| Preconditioner::named(&name).ok_or("unknown"))
}

/// Instructions of a CPU, or the compute capability of a GPU.
#[derive(Clone, Copy, Debug)]
enum Machine {
    Cpu(Level),
    Gpu(u32),
}

fn machine(name: &str) -> Result<Machine, String> {
    let capability = name.strip_prefix("sm_").and_then(|n| n.parse().ok());
    let level = Level::named(name).map(Machine::Cpu);
    level.or(capability.map(Machine::Gpu)).ok_or_else(|| {
        let levels: Vec<&str> = Level::ALL.iter().map(|(_, name)| *name).collect();
        format!("expected {} or, for a GPU, sm_75 and the like", levels.join(", "))
    })
}

fn demo_names() -> PossibleValuesParser {
    PossibleValuesParser::new(sumsq_examples::demos::ALL.iter().map(|demo| demo.name))
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum MethodArg {
    Lm,
    Gn,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Debug)]
enum LinearSolverArg {
    /// Conjugate gradients, matrix-free: images, volumes, meshes
    Pcg,
    /// Sparse Cholesky of J^T J, in float64: graphs of poses, calibration
    Cholesky,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum PrecisionArg {
    Mixed,
    F32,
    F64,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
#[value(rename_all = "snake_case")]
enum LossesArg {
    /// As the energy says
    Declared,
    /// Their slope: residuals are re-weighted
    FirstOrder,
    /// Their curvature too
    SecondOrder,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum BackendArg {
    Auto,
    Cpu,
    Cuda,
}

impl CodeArgs {
    /// Budgets of the energy.
    pub fn budgets(&self) -> Budgets {
        Budgets {
            nodes: self.budgets.max_nodes,
            steps: self.budgets.max_steps,
            depth: self.budgets.max_depth,
            entries: self.budgets.max_entries,
            residuals: self.budgets.max_residuals,
            lua_instructions: self.budgets.max_lua_instructions,
            lua_memory: self.budgets.max_lua_memory,
        }
    }

    /// As the library takes them; `precision` where none is asked for.
    pub fn options(&self, precision: Precision) -> CompileOptions {
        CompileOptions {
            precision: match self.precision {
                None => precision,
                Some(PrecisionArg::Mixed) => Precision::Mixed,
                Some(PrecisionArg::F32) => Precision::F32,
                Some(PrecisionArg::F64) => Precision::F64,
            },
            preconditioner: self.preconditioner,
            losses: match self.losses {
                LossesArg::Declared => LossOrder::Declared,
                LossesArg::FirstOrder => LossOrder::First,
                LossesArg::SecondOrder => LossOrder::Second,
            },
            passes: self.passes,
            choices: self
                .choices
                .clone()
                .unwrap_or_default()
                .then(self.materialize.clone().unwrap_or_default()),
            limits: CompileLimits {
                instructions: self.budgets.max_instructions,
                seconds: self.budgets.max_compile_seconds,
                ..CompileLimits::default()
            },
            ..self.machine.options()
        }
    }
}

impl SolverArgs {
    /// Budgets of the energy.
    pub fn budgets(&self) -> Budgets {
        self.code.budgets()
    }

    /// Solver of the linear systems.
    pub fn linear_solver(&self) -> LinearSolver {
        match self.linear_solver {
            LinearSolverArg::Pcg => LinearSolver::Cg,
            LinearSolverArg::Cholesky => LinearSolver::Cholesky,
        }
    }

    /// As the solver takes them, which knows their ranges.
    pub fn options(&self) -> Result<Options, Failure> {
        let compile = CompileOptions {
            threads: self.threads,
            max_memory: self.max_memory,
            ..self.code.options(Precision::Mixed)
        };
        let default_radius = match self.linear_solver {
            LinearSolverArg::Pcg => None,
            LinearSolverArg::Cholesky => Some(EXACT_RADIUS),
        };
        let solve = SolveOptions {
            method: match self.method {
                MethodArg::Lm => Method::LevenbergMarquardt,
                MethodArg::Gn => Method::GaussNewton,
            },
            iterations: self.iterations,
            linear_iterations: self.linear_iterations,
            linear_tolerance: self.linear_tolerance,
            forcing: self.forcing,
            eta: self.eta,
            radius: self.radius.or(default_radius),
            max_time: self.max_seconds,
            function_tolerance: self.function_tolerance,
            gradient_tolerance: self.gradient_tolerance,
            step_tolerance: self.step_tolerance,
            running_scales: self.running_scales,
            ..SolveOptions::default()
        };
        let options = Options { compile, solve };
        options.check().map_err(|e| engine::failure(e.into()))?;
        Ok(options)
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number".to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected 1 or more".to_string()),
        Ok(n) => Ok(n),
        Err(_) => Err("expected a whole number".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// The options of a line, or the exit code of its refusal.
    fn solve(extra: &[&str]) -> Result<Options, i32> {
        let line = ["sumsq", "solve", "e.t", "--inputs", "f.npz"].iter().chain(extra);
        match Cli::try_parse_from(line).map_err(|e| e.exit_code())?.command {
            Command::Solve(args) => args.options.options().map_err(|e| e.code().into()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_the_librarys() {
        let (given, library) = (solve(&[]).unwrap(), Options::default());
        assert_eq!(format!("{given:?}"), format!("{library:?}"));
        assert_eq!((library.solve.iterations(), library.compile.precision), (50, Precision::Mixed));
    }

    #[test]
    fn every_option_arrives() {
        let Options { compile, solve: options } = solve(&[
            "--method",
            "gn",
            "--iterations",
            "7",
            "--linear-iterations",
            "9",
            "--linear-tolerance",
            "1e-9",
            "--forcing",
            "1e-3",
            "--eta",
            "0.1",
            "--radius",
            "10",
            "--precision",
            "f64",
            "--preconditioner",
            "block_jacobi",
            "--max-seconds",
            "2.5",
            "--function-tolerance",
            "0",
            "--backend",
            "cuda",
            "--target",
            "x86-64-v2",
            "--threads",
            "3",
            "--max-memory",
            "50%",
            "--losses",
            "first_order",
            "--passes",
            "sharing",
            "--materialize",
            "j",
        ])
        .unwrap();
        assert_eq!(options.method, Method::GaussNewton);
        assert_eq!(
            (options.iterations, options.linear_iterations, compile.threads),
            (Some(7), Some(9), Some(3))
        );
        assert_eq!(compile.max_memory, Some(MemoryLimit::Share(0.5)));
        assert_eq!(
            (options.linear_tolerance, options.forcing, options.eta, options.radius),
            (Some(1e-9), 1e-3, Some(0.1), Some(10.0))
        );
        assert_eq!(
            (compile.precision, compile.preconditioner),
            (Precision::F64, Preconditioner::BlockJacobi)
        );
        assert_eq!(
            (options.max_time, options.function_tolerance),
            (Some(Duration::from_millis(2500)), Some(0.0))
        );
        assert_eq!((compile.backend, compile.losses), (Backend::Cuda, LossOrder::First));
        assert_eq!(compile.target, Level::X86V2);
        assert_eq!(compile.passes, "sharing".parse().unwrap());
        assert_eq!(compile.choices, Overrides::short("j").unwrap());
    }

    #[test]
    fn commands_that_generate_code_take_the_same_options() {
        let cli = Cli::command();
        let of = |name: &str| cli.find_subcommand(name).unwrap().get_arguments().map(|a| a.get_id().clone());
        let code: Vec<_> = CodeArgs::augment_args(clap::Command::new(""))
            .get_arguments()
            .map(|a| a.get_id().clone())
            .collect();
        for name in ["solve", "check", "show"] {
            assert!(code.iter().all(|option| of(name).any(|o| o == *option)), "{name}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            ["--threads", "0"],
            ["--threads", "100000"],
            ["--max-memory", "0"],
            ["--max-memory", "101%"],
            ["--radius", "0"],
            ["--forcing", "nan"],
            ["--threads", "-1"],
            ["--iterations", "x"],
            ["--linear-tolerance", "nan"],
            ["--linear-tolerance", "0"],
            ["--forcing", "-1"],
            ["--eta", "0"],
            ["--radius", "inf"],
            ["--max-seconds", "-3"],
            ["--max-seconds", "1e300"],
            ["--function-tolerance", "-1e-9"],
            ["--method", "newton"],
            ["--precision", "f16"],
            ["--preconditioner", "block-jacobi"],
            ["--backend", "tpu"],
            ["--nope", "1"],
        ] {
            assert_eq!(solve(&bad).unwrap_err(), 2, "{bad:?}");
        }
    }

    #[test]
    fn the_other_commands() {
        let parse = |line: &[&str]| Cli::try_parse_from(line).map(|cli| cli.command);
        let Ok(Command::Check(args)) = parse(&[
            "sumsq",
            "check",
            "e.t",
            "--inputs",
            "f.npz",
            "--direction",
            "v.npz",
            "--output",
            "o.npz",
            "--at",
            "x.npz",
        ]) else {
            panic!()
        };
        assert!(args.direction.is_some() && args.output.is_some() && args.at.is_some());
        let Ok(Command::Show(args)) = parse(&["sumsq", "show", "e.t"]) else { panic!() };
        assert_eq!((args.stage, args.stats), (Stage::Declarations, false));
        for stage in ["declarations", "dag", "derivatives", "routines", "schedules", "loops", "llvm", "asm"] {
            assert!(parse(&["sumsq", "show", "e.t", "--stage", stage, "--stats"]).is_ok(), "{stage}");
        }
        let Ok(Command::Demo(args)) = parse(&["sumsq", "demo", "arap_mesh_deformation", "--out", "d"]) else {
            panic!()
        };
        assert_eq!((args.name.as_deref(), args.out), (Some("arap_mesh_deformation"), PathBuf::from("d")));
        assert!(parse(&["sumsq", "demo", "image_warping"]).is_ok());
        let Ok(Command::Demo(args)) = parse(&["sumsq", "demo"]) else { panic!() };
        assert!(args.name.is_none(), "lists them");
        assert!(parse(&["sumsq", "demo", "nothing"]).is_err());
    }
}
