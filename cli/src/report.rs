//! Reports: a table for people, JSON for programs, a plot.

use crate::failure::Failure;
use crate::output::say;
use serde_json::json;
use std::fmt::Write;
use sumsq::Report;
use sumsq_examples::demos::{Outcome, Pass};
use sumsq_examples::io::{Outputs, picture};
use sumsq_examples::plot;

/// Lets all outputs appear, with the text for standard output before them: where that takes no more, none does. Where nobody reads it any
/// more, all do.
pub fn finish(outputs: Outputs, text: &str) -> Result<(), Failure> {
    let said = say(text);
    if !matches!(said, Err(Failure::Output(_))) {
        outputs.commit().map_err(Failure::output)?;
    }
    said
}

/// The report as JSON; serde_json writes numbers that are not finite as null.
pub fn json(report: &Report) -> Result<Vec<u8>, Failure> {
    pretty(&serde_json::to_value(report).map_err(Failure::output)?)
}

fn pretty(json: &serde_json::Value) -> Result<Vec<u8>, Failure> {
    let mut text = serde_json::to_string_pretty(json).map_err(Failure::output)?;
    text.push('\n');
    Ok(text.into_bytes())
}

/// The report of a demo's last solve as JSON, and beside it a line on each solve and what was measured.
pub fn demo_json(outcome: &Outcome) -> Result<Vec<u8>, Failure> {
    let last = outcome.passes.last().map(|pass| &pass.report);
    let mut json = serde_json::to_value(last).map_err(Failure::output)?;
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
    pretty(&json)
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

/// The plot of energy against iteration, as PNG.
pub fn plot(title: &str, report: &Report) -> Result<Vec<u8>, Failure> {
    let picture = plot::energies(title, &energies(report)).map_err(Failure::output)?;
    picture::encode_png(&picture).map_err(Failure::output)
}

/// E at the start and after each step.
pub fn energies(report: &Report) -> Vec<f64> {
    std::iter::once(report.energy_initial).chain(report.iterations.iter().map(|step| step.energy)).collect()
}
