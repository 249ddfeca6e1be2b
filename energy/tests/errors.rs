//! The text of every error, caret included, as `errors.txt` lists them.
//!
//! A case there is the end of an energy file (after [`PREAMBLE`]), then the rendered error. `SUMSQ_UPDATE=1` rewrites
//! the file; read the difference.

use miette::{GraphicalReportHandler, GraphicalTheme};
use std::panic::Location;
use sumsq_energy::rust::{EnergyBuilder, select, vector};
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
        let blocks =
            cases.iter().zip(&got).map(|((case, _), got)| format!("\n{CASE}\n{case}\n{ANSWER}\n{got}"));
        let head = golden.split(&format!("\n{CASE}\n")).next().unwrap();
        std::fs::write(path, head.to_owned() + &blocks.collect::<String>()).unwrap();
        return;
    }
    for ((case, expected), got) in cases.iter().zip(&got) {
        assert_eq!(expected.trim_end(), got.trim_end(), "in the case\n{case}");
    }
}

/// The fault and line of a mistake in the Rust front end.
fn dsl_error(e: &EnergyBuilder) -> (Fault, Option<u32>) {
    let error = e.finish().unwrap_err();
    let line = error.location().and_then(|(file, line)| {
        assert_eq!(file, Location::caller().file());
        line
    });
    (error.fault().clone(), line)
}

#[test]
fn mistakes_in_rust_carry_their_line() {
    let e = EnergyBuilder::new();
    let dims = [e.dim("W"), e.dim("H")];
    let x = e.unknown("X", 2, &dims);
    let line = line!() + 1;
    let wrong = x.at([0, 0, 0]) * 2.0;
    // Nothing later replaces the first mistake, and nothing panics.
    e.energy(select(&wrong, wrong.channel(7), vector([wrong.clone(), -&wrong])));
    let fault = Fault::OffsetCount { name: "X".into(), dims: 2, got: 3 };
    assert_eq!(dsl_error(&e), (fault, Some(line)));
}

#[test]
fn unread_unknown_in_rust() {
    let e = EnergyBuilder::new();
    let dims = [e.dim("W")];
    let line = line!() + 1;
    e.unknown("X", 1, &dims);
    assert_eq!(dsl_error(&e), (Fault::UnreadUnknown("X".into()), Some(line)));
}

#[test]
fn two_energies_do_not_mix() {
    let (e, f) = (EnergyBuilder::new(), EnergyBuilder::new());
    let (x, y) = (e.unknown("X", 1, &[e.dim("W")]), f.unknown("Y", 1, &[f.dim("W")]));
    let line = line!() + 1;
    e.energy(x.at([0]) + y.at([0]));
    assert_eq!(dsl_error(&e), (Fault::Foreign, Some(line)));
}

#[test]
fn handles_of_a_finished_energy_are_harmless() {
    let e = EnergyBuilder::new();
    let x = e.unknown("X", 1, &[e.dim("W")]);
    let read = x.at([0]);
    e.energy(&read);
    assert!(e.finish().is_ok());
    e.energy(x.at([0]) + read);
    assert_eq!(dsl_error(&e).0, Fault::Finished);
}

#[test]
fn an_unreadable_file_is_named() {
    let error = Energy::from_file("no/such/energy.t").unwrap_err();
    assert!(error.to_string().starts_with("cannot read `no/such/energy.t`: "), "{error}");
}

#[test]
fn bytecode_is_refused() {
    let error = Energy::from_text("e.t", "\u{1b}Lua\u{51}").unwrap_err();
    assert!(matches!(error.fault(), Fault::Syntax(_)), "{error}");
}

#[test]
fn no_unknown_at_all() {
    let error = Energy::from_text("e.t", "local W = Dim(\"W\", 0)").unwrap_err();
    assert_eq!(*error.fault(), Fault::NoUnknowns);
}

#[test]
fn odd_lua_ends_in_an_error() {
    for text in [
        "error({})",
        "error(nil)",
        "local t = setmetatable({}, {__index = function(t, i) return Dim('D' .. i, i) end}) Array('B', t, 7)",
        "Stencil(setmetatable({}, {__index = function() return X(0,0) end}))()()",
        "string.rep('x', 1e9)",
        "setmetatable(_G, nil)",
        "Energy(unpack({}, 1, 1e8))",
        "local function f() return f() end f()",
        "for i = 1, 1e9 do Energy(X(0,0)) end",
        "table.sort({3,2,1}, function(a, b) return X(0,0) < X(0,0) end)",
        "Graph(\"K\", 7, \"v\")",
        "X(1e300, 0)",
        "X(0/0, 0)",
        "X(2^40, 0)",
        "X(0,0)[1e18]",
        "Index(1e6)",
        "InBounds(1e12, 0)",
        "v = Vector(unpack({}))",
        "X.y = 1",
        "X(0,0)[0] = 1",
    ] {
        let error = error_of(text);
        assert!(!render(&error).is_empty(), "{text}");
    }
}
