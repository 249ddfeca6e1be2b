//! Reports: a table for people, JSON for programs, a plot.

use crate::failure::Failure;
use serde_json::json;
use std::fmt::Write;
use std::path::Path;
use sumsq::{Iteration, LinearStop, Report};
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

/// One line a step, and what is true of the whole.
pub fn table(report: &Report) -> String {
    let mut text = format!(
        "{} unknowns, {} residuals; {} with {} on {} ({}), {}, {} threads\n\n{}\n",
        report.unknowns,
        report.residuals,
        report.method,
        report.preconditioner,
        report.backend,
        report.device,
        report.precision,
        report.threads,
        HEADER
    );
    let _ = writeln!(text, "{:>4}  {:>13.6e}", 0, report.energy_initial);
    for step in &report.iterations {
        text.push_str(&line(step));
    }
    let _ = writeln!(
        text,
        "\n{}: E = {:.9e} after {} steps, {} PCG iterations; compile {:.2} s, plan {:.2} s, solve {:.2} s",
        report.termination.name(),
        report.energy_final,
        report.iterations.len(),
        report.linear_iterations_total,
        report.seconds.compile,
        report.seconds.plan,
        report.seconds.solve
    );
    if report.unconstrained > 0 {
        let _ = writeln!(
            text,
            "{} unknowns are in no residual's reach and stayed where they were",
            report.unconstrained
        );
    }
    text
}

const HEADER: &str = "iter         energy     max|g|       |s|      gain     radius  ok    pcg  stop                  |r|/|b|  seconds";

fn line(step: &Iteration) -> String {
    format!(
        "{:>4}  {:>13.6e}  {:>9.2e} {:>9.2e} {:>9.2e} {:>10.2e} {:>3} {:>6}  {:<19} {:>9.1e} {:>8.3}\n",
        step.iteration,
        step.energy,
        step.gradient_max_norm,
        step.step_norm,
        step.gain_ratio,
        step.radius,
        if step.accepted { "yes" } else { "no" },
        step.linear_iterations,
        stop_name(step.linear_stop),
        step.linear_residual,
        step.seconds
    )
}

fn stop_name(stop: LinearStop) -> &'static str {
    match stop {
        LinearStop::Tolerance => "tolerance",
        LinearStop::Model => "model",
        LinearStop::PreconditionedNorm => "preconditioned_norm",
        LinearStop::Limit => "limit",
        LinearStop::Indefinite => "indefinite",
        LinearStop::NotFinite => "not_finite",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sumsq::{Seconds, Termination};

    fn report() -> Report {
        let step = Iteration {
            iteration: 1,
            energy: 2.0,
            energy_by_group: vec![1.5, 0.5],
            gradient_max_norm: 0.25,
            step_norm: f64::NAN,
            gain_ratio: 0.9,
            radius: f64::INFINITY,
            accepted: true,
            linear_iterations: 12,
            linear_stop: LinearStop::PreconditionedNorm,
            linear_residual: 1e-3,
            seconds: 0.5,
        };
        Report {
            energy_initial: 8.0,
            energy_final: 2.0,
            termination: Termination::FunctionTolerance,
            iterations: vec![step],
            unknowns: 3,
            residuals: 4,
            unconstrained: 0,
            linear_iterations_total: 12,
            method: "lm",
            preconditioner: "jacobi",
            backend: "cpu",
            device: "some processor".to_string(),
            precision: "mixed",
            threads: 2,
            seconds: Seconds::default(),
            warnings: Vec::new(),
            non_finite: false,
        }
    }

    #[test]
    fn json_has_the_agreed_keys_and_null_for_what_is_not_finite() {
        let json: serde_json::Value =
            serde_json::from_str(&serde_json::to_string(&report()).unwrap()).unwrap();
        for key in [
            "energy_initial",
            "energy_final",
            "termination",
            "iterations",
            "unknowns",
            "residuals",
            "unconstrained",
            "linear_iterations_total",
            "method",
            "preconditioner",
            "backend",
            "device",
            "precision",
            "threads",
        ] {
            assert!(!json[key].is_null(), "{key}");
        }
        assert_eq!(json["termination"], "function_tolerance");
        for key in ["compile", "plan", "solve"] {
            assert!(json["seconds"][key].is_number(), "{key}");
        }
        let step = &json["iterations"][0];
        assert_eq!((&step["linear_stop"], &step["accepted"]), (&"preconditioned_norm".into(), &true.into()));
        assert!(step["radius"].is_null() && step["step_norm"].is_null());
        for key in [
            "iteration",
            "energy",
            "energy_by_group",
            "gradient_max_norm",
            "gain_ratio",
            "linear_iterations",
            "linear_residual",
            "seconds",
        ] {
            assert!(!step[key].is_null(), "{key}");
        }
    }

    #[test]
    fn the_table_shows_start_steps_and_end() {
        let text = table(&report());
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[2], HEADER);
        assert!(rows[3].contains("8.000000e0") && rows[4].contains("preconditioned_norm"), "{text}");
        assert!(rows[4].len() <= HEADER.len(), "columns line up\n{text}");
        assert!(text.contains("function_tolerance: E = 2.000000000e0 after 1 steps"), "{text}");
    }
}
