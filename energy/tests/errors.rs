//! The text of every error, caret included, as `errors.txt` lists them.
//!
//! A case there is the end of an energy file (after [`PREAMBLE`]), then the rendered error. `SUMSQ_UPDATE=1` rewrites
//! the file; read the difference.

use miette::{GraphicalReportHandler, GraphicalTheme};
use sumsq_energy::dsl::{EnergyBuilder, select, vector};
use sumsq_energy::{Energy, EnergyError, Fault};

const PREAMBLE: &str = r#"local W, H, N = Dim("W", 0), Dim("H", 1), Dim("N", 2)
local X = Unknown("X", opt_float2, {W,H}, 0)
local A = Array("A", opt_float, {W,H}, 1)
local M = Array("M", opt_float3, {N}, 2)
local G = Graph("G", 3, "v0", {N}, 4)

"#;
const CASE: &str = "====";
const ANSWER: &str = "----";

fn render(error: &EnergyError) -> String {
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
    let mut text = String::new();
    handler.with_width(100).with_links(false).render_report(&mut text, error).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    lines.join("\n") + "\n"
}

fn error_of(case: &str) -> EnergyError {
    match Energy::from_text("e.t", &format!("{PREAMBLE}{case}\n")) {
        Ok(_) => panic!("no error in: {case}"),
        Err(e) => e,
    }
}

#[test]
fn texts() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/errors.txt");
    let golden = std::fs::read_to_string(path).unwrap();
    let cases: Vec<(&str, &str)> = golden
        .split(&format!("\n{CASE}\n"))
        .skip(1)
        .map(|c| c.split_once(&format!("\n{ANSWER}\n")).unwrap_or((c.trim_end(), "")))
        .collect();
    assert!(cases.len() > 60);
    let got: Vec<String> = cases.iter().map(|(case, _)| render(&error_of(case))).collect();
    if std::env::var_os("SUMSQ_UPDATE").is_some() {
        let blocks = cases.iter().zip(&got).map(|((case, _), got)| format!("\n{CASE}\n{case}\n{ANSWER}\n{got}"));
        let head = golden.split(&format!("\n{CASE}\n")).next().unwrap();
        std::fs::write(path, head.to_owned() + &blocks.collect::<String>()).unwrap();
        return;
    }
    for ((case, expected), got) in cases.iter().zip(&got) {
        assert_eq!(expected.trim_end(), got.trim_end(), "in the case\n{case}");
    }
}
