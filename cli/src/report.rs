//! Reports: a table for people, JSON for programs, a plot.

use crate::failure::Failure;
use serde_json::json;
use std::fmt::Write;
use std::path::Path;
use sumsq::Report;
use sumsq_examples::demos::{Outcome, Pass};
use sumsq_examples::io::{picture, save};
use sumsq_examples::plot;

/// Writes the report as JSON; serde_json writes numbers that are not finite as null.
pub fn write_json(path: &Path, report: &Report) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(report).map_err(Failure::input)?;
    text.push('\n');
    save(path, text.as_bytes()).map_err(Failure::input)
}

/// Writes the report of a demo's last solve as JSON, and beside it a line on each solve and what was measured.
pub fn write_demo_json(path: &Path, outcome: &Outcome) -> Result<(), Failure> {
    let last = outcome.passes.last().map(|pass| &pass.report);
    let mut json = serde_json::to_value(last).map_err(Failure::input)?;
    let passes = outcome.passes.iter().map(|Pass { label, report }| {
        json!({
            "label": label,
            "energy_initial": report.energy_initial,
            "energy_final": report.energy_final,
            "steps": report.iterations.len(),
            "linear_iterations": report.linear_iterations_total,
            "seconds": report.seconds.solve,
        })
    });
    json["passes"] = passes.collect();
    let measures = outcome.measures.iter();
    json["measures"] = measures
        .map(|m| json!({ "name": m.name, "unit": m.unit, "before": m.before, "after": m.after }))
        .collect();
    let mut text = serde_json::to_string_pretty(&json).map_err(Failure::input)?;
    text.push('\n');
    save(path, text.as_bytes()).map_err(Failure::input)
}

/// A line for each of several solves.
pub fn summary(passes: &[Pass]) -> String {
    let mut text = format!(
        "{} solves\n\n{:<24} {:>9} {:>13} {:>13} {:>6} {:>6} {:>8}\n",
        passes.len(),
        "pass",
        "unknowns",
        "E before",
        "E after",
        "steps",
        "pcg",
        "seconds"
    );
    for Pass { label, report } in passes {
        let _ = writeln!(
            text,
            "{label:<24} {:>9} {:>13.6e} {:>13.6e} {:>6} {:>6} {:>8.3}",
            report.unknowns,
            report.energy_initial,
            report.energy_final,
            report.iterations.len(),
            report.linear_iterations_total,
            report.seconds.solve
        );
    }
    text.push('\n');
    text
}

/// Writes the plot of energy against iteration.
pub fn write_plot(path: &Path, title: &str, report: &Report) -> Result<(), Failure> {
    let picture = plot::energies(title, &energies(report)).map_err(Failure::input)?;
    picture::write_png(path, &picture).map_err(Failure::input)
}

/// E at the start and after each step.
pub fn energies(report: &Report) -> Vec<f64> {
    std::iter::once(report.energy_initial).chain(report.iterations.iter().map(|step| step.energy)).collect()
}
