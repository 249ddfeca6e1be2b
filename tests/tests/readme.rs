//! The programs in the README and in the tutorial of gradients run.

#[path = "../../solver/examples/smoothing.rs"]
mod smoothing;
#[path = "../../solver/examples/trained_filter.rs"]
mod trained_filter;

#[test]
fn the_program_in_the_readme_runs() {
    smoothing::main().unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn the_filter_of_the_tutorial_is_trained() {
    trained_filter::main().unwrap_or_else(|e| panic!("{e}"));
}
