//! The table of operation counts in `docs/` is that of the energies in `examples/energies`. `SUMSQ_UPDATE=1` rewrites it.

use std::fmt::Write;
use sumsq::energy::derive::{Materialize, Passes};
use sumsq::generated::counts::{operation_counts, table};
use sumsq::generated::prepare;
use sumsq_tests::{example_energy, workspace_root};

const HEAD: &str = "# Operation counts

What the routines of every energy in `examples/energies` cost per element, per hyperedge or per vertex of one, after all
passes, parts that the values of a routine share counted once. `sumsq show FILE --stats` prints the same for any energy.
A test regenerates this file; `SUMSQ_UPDATE=1 cargo test -p sumsq-tests --test operation_counts` rewrites it.
";

#[test]
fn the_table_is_up_to_date() {
    let mut names: Vec<String> = std::fs::read_dir(workspace_root().join("examples/energies"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().path().file_stem().map(|s| s.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    let mut text = String::from(HEAD);
    for name in &names {
        let energy = example_energy(name);
        let counts = operation_counts(&energy, &prepare(&energy, Passes::ALL, &Materialize::default()));
        write!(text, "\n## {name}\n\n{}", table(&counts)).unwrap();
    }
    let path = workspace_root().join("docs/operation_counts.md");
    if std::env::var_os("SUMSQ_UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(&path).unwrap();
    assert!(stored == text, "docs/operation_counts.md is out of date: SUMSQ_UPDATE=1 rewrites it");
}
