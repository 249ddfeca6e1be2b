//! The list of measurements, rehearsed on the stand-in for the driver.

use serde_json::Value;
use std::process::Command;

#[test]
fn loops_are_rehearsed_by_every_way() {
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sumsq-bundle"));
    command.args(["bench", "--rehearse", "--stand-in", "--only", "loops", "--out"]).arg(out.path());
    let done = command.output().unwrap();
    let words = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{words}{}", String::from_utf8_lossy(&done.stderr));
    let found: Value = serde_json::from_slice(&std::fs::read(out.path().join("gpu.json")).unwrap()).unwrap();
    let text = found.to_string();
    for way in ["while node", "while nodes of 64", "while nodes of 8", "chunks", "one kernel", "host"] {
        assert!(text.contains(&format!("loop by {way}: iteration, in runs of 4")), "{way}: {found:#}");
    }
}

#[test]
fn pipelines_are_rehearsed() {
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sumsq-bundle"));
    command.args(["bench", "--rehearse", "--stand-in", "--only", "pipelines", "--out"]).arg(out.path());
    let done = command.output().unwrap();
    let words = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{words}{}", String::from_utf8_lossy(&done.stderr));
    let text = std::fs::read_to_string(out.path().join("gpu.txt")).unwrap();
    assert!(
        text.lines().filter(|line| line.contains(": run ") && line.contains(" ms")).count() > 2,
        "{text}"
    );
    assert!(text.lines().any(|line| line.starts_with("blur (128 x 96): run ")), "{text}");
}
