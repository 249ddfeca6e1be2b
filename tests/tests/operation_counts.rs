//! The table of operation counts in `docs/` is that of the energies in `examples/energies`. `SUMSQ_UPDATE=1` rewrites it.

use std::fmt::Write;
use sumsq::Overrides;
use sumsq::energy::derive::Passes;
use sumsq::matrix_free::choices::derive;
use sumsq::matrix_free::domain::counts::{RoutineCount, operation_counts, table};
use sumsq_tests::{example_energy, hold_page, workspace_root};

const HEAD: &str = "# Operation counts

What the routines of every energy in `examples/energies` cost per element, per hyperedge or per vertex of one, after all
passes, parts that the values of a routine share counted once; and how many values live at once, at most, in the order in which the
routine is emitted. `sumsq show FILE --stats` prints the same for any energy.
A test regenerates this file; `SUMSQ_UPDATE=1 cargo test -p sumsq-tests --test operation_counts` rewrites it.
";

#[test]
fn the_table_is_up_to_date() {
    let mut text = String::from(HEAD);
    for name in &names() {
        let energy = example_energy(name);
        let counts =
            operation_counts(&energy, &derive(&energy, Passes::ALL, &Overrides::default()).unwrap().routines);
        write!(text, "\n## {name}\n\n{}", table(&counts)).unwrap();
    }
    hold_page("docs/operation_counts.md", &text);
}

/// The order in which operations are emitted never keeps more values alive than without the scheduler, and fewer in most energies.
#[test]
fn the_scheduler_keeps_no_more_values_alive() {
    let mut gained = 0;
    for name in names() {
        let energy = example_energy(&name);
        let counts = |passes| {
            operation_counts(&energy, &derive(&energy, passes, &Overrides::default()).unwrap().routines)
        };
        let (with, without) = (counts(Passes::ALL), counts(Passes { scheduling: false, ..Passes::ALL }));
        for (with, without) in with.iter().zip(&without) {
            let routine = format!("{name}: {} per {}", with.routine, with.per);
            assert_eq!((&with.per, with.count), (&without.per, without.count), "{routine}");
            assert!(with.live <= without.live, "{routine}: {} and {}", with.live, without.live);
        }
        let sum = |counts: &[RoutineCount]| counts.iter().map(|c| c.live).sum::<u32>();
        gained += u32::from(sum(&with) < sum(&without));
    }
    assert!(gained >= 8, "{gained} energies gain");
}

/// The energy files of the examples.
fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(workspace_root().join("examples/energies"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().path().file_stem().map(|s| s.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}
