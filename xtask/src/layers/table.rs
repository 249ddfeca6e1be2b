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
            "types",
            "functions",
            "target",
            "expr",
            "error",
            "limits",
            "func",
            "schedule",
            "language",
            "runtime",
            "ir",
            "analysis",
            "plan",
            "nests",
            "lower",
            "backend",
            "cache",
            "compile",
            "program",
        ],
        circle: 2,
    },
    Crate {
        folder: "codegen-testing",
        layers: &["rng", "smaller", "reference", "interpreter", "checked", "check", "native"],
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
        layers: &["case", "text", "dual", "reads", "evaluate", "system"],
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
            "session",
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
    &["sumsq-cli", "sumsq-tests", "sumsq-benches", "xtask"],
];

/// Packages for tests: nothing depends on them but tests.
pub const TESTING: [&str; 2] = ["sumsq-codegen-testing", "sumsq-energy-testing"];

/// Parts of the code whose size is held: folder, lines of code that it may have.
pub const SIZES: [(&str, usize); 2] = [("codegen/src", 19_600), ("codegen/src/lower", 5_000)];
