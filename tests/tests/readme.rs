//! The program in the README runs.

#[path = "../../solver/examples/smoothing.rs"]
mod smoothing;

#[test]
fn the_program_in_the_readme_runs() {
    smoothing::main().unwrap_or_else(|e| panic!("{e}"));
}
