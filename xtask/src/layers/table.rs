//! The layers of this project: what may import what.

/// A crate whose folders are layers.
pub struct Crate {
    /// Its folder.
    pub folder: &'static str,
    /// Folders and files of `src`, the lowest first: each may import from those before it.
    pub layers: &'static [&'static str],
    /// Files that may import each other in a circle.
    pub circle: usize,
}

/// Checked file by file.
pub const CRATES: [Crate; 5] = [
    Crate {
        folder: "codegen",
        layers: &[
            "stack",
            "environment",
            "types",
            "functions",
            "target",
            "expr",
            "error",
            "limits",
            "jobs",
            "func",
            "schedule",
            "language",
            "runtime",
            "ir",
            "analysis",
            "plan",
            "nests",
            "lower",
            "gradient",
            "backend",
            "cache",
            "compile",
            "program",
        ],
        circle: 2,
    },
    Crate {
        folder: "codegen-testing",
        layers: &[
            "rng",
            "smaller",
            "maths",
            "reference",
            "interpreter",
            "checked",
            "check",
            "random",
            "native",
            "assembly",
        ],
        circle: 1,
    },
    Crate {
        folder: "energy",
        layers: &[
            "budgets", "ids", "graph", "dag", "losses", "model", "error", "inline", "builder", "derive",
            "emit", "lua", "rust",
        ],
        circle: 1,
    },
    Crate {
        folder: "energy-testing",
        layers: &["case", "text", "dual", "reads", "evaluate", "loss", "system"],
        circle: 1,
    },
    Crate {
        folder: "solver",
        layers: &[
            "counting_sort",
            "problem",
            "outer",
            "assembled",
            "check",
            "error",
            "matrix_free",
            "solver",
            "growth",
            "session",
            "pipeline_energy",
            "ptxas",
        ],
        circle: 1,
    },
];

/// Packages, the lowest first: each may depend on those of earlier lines.
pub const PACKAGES: [&[&str]; 6] = [
    &["sumsq-llvm-check"],
    &["sumsq-codegen"],
    &["sumsq-energy"],
    &["sumsq"],
    &["sumsq-examples", "sumsq-capi"],
    &["sumsq-cli", "sumsq-python", "sumsq-tests", "sumsq-benches", "xtask"],
];

/// Packages for tests: nothing depends on them but tests.
pub const TESTING: [&str; 6] = [
    "sumsq-codegen-testing",
    "sumsq-energy-testing",
    "sumsq-bytes-testing",
    "sumsq-ptx",
    "sumsq-libcuda",
    "sumsq-bundle",
];

/// Parts of the code whose size is held: folder, lines of code that it may have.
pub const SIZES: [(&str, usize); 2] = [("codegen/src", 36_200), ("codegen/src/lower", 6_850)];

/// Folders of the crates below the tool, and of the Python package, which neither print nor hold raw memory but where [`CONFINED`] says so.
pub const QUIET: [&str; 10] = [
    "codegen",
    "codegen-testing",
    "codegen-testing/ptx",
    "codegen-testing/libcuda",
    "energy",
    "energy-testing",
    "solver",
    "examples",
    "capi",
    "python",
];

/// Words that are confined to some folders.
pub struct Confined {
    /// Tokens with blanks between them.
    pub words: &'static [&'static str],
    /// Folders and files that may use them.
    pub to: &'static [&'static str],
    /// Reason why others may not.
    pub reason: &'static str,
}

/// Checked in the sources of [`QUIET`], those of tests left out.
pub const CONFINED: [Confined; 2] = [
    Confined {
        words: &[
            "print !",
            "println !",
            "eprint !",
            "eprintln !",
            "dbg !",
            "stdout (",
            "stderr (",
            "stdin (",
            "env :: args",
            "args_os (",
        ],
        // `Opt.h` has a level at which it prints.
        // A driver has no other way to name what a kernel did wrong.
        to: &["capi/src/opt", "codegen-testing/libcuda/src/driver"],
        reason: "nothing below the tool prints, reads standard input or the command line",
    },
    Confined {
        words: &["unsafe"],
        to: &[
            "codegen/src/runtime",
            "codegen/src/backend",
            "capi/src",
            // Tensors of Python, the call that they are lent to, the entry point of the module.
            "python/src/tensor",
            "python/src/layer",
            "python/src/module",
            // Promises to these: the arguments of a call are those of checked buffers; lists of the solver's own are in range.
            "codegen/src/compile",
            "codegen/src/program/device",
            "codegen/src/func/io",
            "solver/src/matrix_free/draft",
            // Pointers of C; names that C asks for; symbols of the library.
            "codegen-testing/libcuda/src/raw",
            "codegen-testing/libcuda/src/api",
            "codegen-testing/libcuda/src/report",
            "codegen-testing/libcuda/src/control",
        ],
        reason: "only the runtime and the back end hold raw memory",
    },
];
