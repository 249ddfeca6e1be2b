//! Outputs all or none, exit codes, Ctrl-C, readers that have gone.

use crate::bench::{Bench, FIT, fit, floats};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use sumsq::ArrayData;

/// A chain on which one linear solve has no end.
fn endless() -> Bench {
    let bench =
        Bench::new(&FIT.replace("Energy(X(0) - A(0))", "Energy(0.0001 * (X(0) - A(0)), X(0) - X(1))"));
    let n = 1 << 19;
    let data: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
    bench.inputs(&[floats("X", &[n], &vec![0.5; n]), floats("A", &[n], &data)]);
    bench
}

/// One linear system that goes on: Jacobi needs thousands of iterations, where multigrid comes to the end of the digits.
const SLOW: [&str; 6] =
    ["--linear-tolerance", "1e-300", "--linear-iterations", "1000000000", "--preconditioner", "jacobi"];

fn spawn(bench: &Bench, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sumsq"));
    command.args(args).current_dir(bench.path("")).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn where_one_output_fails_none_appears() {
    let bench = fit();
    let all = ["--output", "o.npz", "--report", "r.json", "--plot", "p.png"];
    for number in [1, 3, 5] {
        let mut args = all;
        args[number] = "/dev/full";
        bench.solve(&args).fails_with(4, "/dev/full");
        assert_eq!(bench.files(), ["energy.t", "inputs.npz"]);
    }
    // Files that are there stay as they are.
    std::fs::write(bench.path("o.npz"), "old").unwrap();
    bench.solve(&["--output", "o.npz", "--report", "/dev/full"]).fails_with(4, "/dev/full");
    bench.solve(&["--output", "o.npz", "--report", "absent/r.json"]).fails_with(4, "absent");
    assert_eq!(std::fs::read(bench.path("o.npz")).unwrap(), b"old");
    bench.solve(&["--output", "o.npz", "--report", "o.npz"]).fails_with(2, "two outputs go to o.npz");
    let line = ["check", "energy.t", "--inputs", "inputs.npz", "--output", "/dev/full"];
    bench.sumsq(&line).fails_with(4, "/dev/full");
    bench.sumsq(&["demo", "image_warping", "--out", "energy.t/x"]).fails_with(4, "cannot make the folder");
}

#[test]
fn standard_output_is_an_output() {
    let bench = fit();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sumsq"));
    command.args(["solve", "energy.t", "--inputs", "inputs.npz", "--output", "o.npz"]);
    let ended = command.current_dir(bench.path("")).stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(4), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(bench.files(), ["energy.t", "inputs.npz"]);

    let run = bench.solve(&["--report", "/dev/stdout", "--output", "o.npz"]);
    run.succeeds();
    assert!(
        run.stdout.contains("\"termination\"") && run.stdout.contains("PCG iterations"),
        "{}",
        run.stdout
    );
    assert_eq!(bench.files(), ["energy.t", "inputs.npz", "o.npz"]);
}

#[test]
fn a_reader_that_has_gone_ends_the_tool_without_a_word() {
    let bench = fit();
    for line in [
        &["solve", "energy.t", "--inputs", "inputs.npz", "--output", "o.npz"][..],
        &["show", "energy.t", "--stage", "dag"],
        &["check", "energy.t", "--inputs", "inputs.npz"],
        &["demo"],
    ] {
        let mut child = spawn(&bench, line);
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(141), "{line:?}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{line:?}");
    }
    assert_eq!(bench.read("o.npz").len(), 1, "files are there all the same");
}

/// Sends a signal by the system's `kill`.
fn signal(child: &Child, name: &str) {
    let killed = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

/// Waits until the tool catches SIGINT: the solve has begun.
fn wait_for_the_solve(child: &Child) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        if u64::from_str_radix(caught, 16).unwrap() & 2 != 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{status}");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
}

#[test]
fn ctrl_c_writes_the_last_good_unknowns() {
    let bench = endless();
    let line = ["solve", "energy.t", "--inputs", "inputs.npz", "--output", "o.npz", "--report", "r.json"];
    let mut child = spawn(&bench, &[&line[..], &SLOW].concat());
    wait_for_the_solve(&child);
    signal(&child, "-INT");
    let asked = Instant::now();
    let mut table = String::new();
    child.stdout.take().unwrap().read_to_string(&mut table).unwrap();
    let ended = child.wait().unwrap();
    assert_eq!((ended.code(), ended.signal()), (Some(130), None));
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    assert!(table.ends_with("ended by request, not by convergence: E may fall further\n"), "{table}");
    let report = bench.json("r.json");
    assert_eq!(report["termination"], "interrupted");
    assert_eq!(report["energy_final"], report["energy_initial"]);
    let ArrayData::F64(x) = bench.read("o.npz").remove(0).data else { panic!() };
    assert!(x.iter().all(|&x| x == 0.5));
    assert_eq!(bench.files(), ["energy.t", "inputs.npz", "o.npz", "r.json"]);
}

/// The first one ends the solve; then the tool waits for a reader of its output, until the second one ends it.
#[test]
fn a_second_ctrl_c_ends_the_process() {
    let bench = endless();
    let made = Command::new("mkfifo").arg(bench.path("o.npz")).status().unwrap();
    assert!(made.success());
    let line = ["solve", "energy.t", "--inputs", "inputs.npz", "--output", "o.npz", "--report", "r.json"];
    let mut child = spawn(&bench, &[&line[..], &SLOW].concat());
    wait_for_the_solve(&child);
    signal(&child, "-INT");
    std::thread::sleep(Duration::from_secs(2));
    assert!(child.try_wait().unwrap().is_none(), "it waits");
    signal(&child, "-INT");
    let asked = Instant::now();
    let ended = child.wait().unwrap();
    assert_eq!((ended.code(), ended.signal()), (Some(130), None));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert_eq!(bench.files(), ["energy.t", "inputs.npz", "o.npz"]);
}

#[test]
fn a_limit_is_no_failure_and_is_said() {
    let bench = endless();
    let limit = ["--max-seconds", "0.3", "--report", "r.json"];
    let run = bench.solve(&[&SLOW[..], &limit].concat());
    run.succeeds();
    assert_eq!(bench.json("r.json")["termination"], "max_seconds");
    assert!(run.stdout.ends_with("ended by the limit of time, not by convergence: E may fall further\n"));
    let run = bench.solve(&["--iterations", "1", "--linear-iterations", "2", "--function-tolerance", "0"]);
    run.succeeds();
    for said in ["PCG ended by its limit of iterations in 1 of 1 steps", "ended by the limit of 1 steps"] {
        assert!(run.stdout.contains(said), "{}", run.stdout);
    }
}

#[test]
fn threads_and_stacks_are_modest() {
    let bench = fit();
    bench.solve(&["--threads", "100000"]).fails_with(2, "--threads: expected at most 1024, came 100000");
    bench.solve(&["--threads", "1024"]).succeeds();
    bench.solve_within(1_500_000, "--threads 2").succeeds();
    std::fs::remove_file(bench.path("o.npz")).unwrap();
    bench.solve_within(1_500_000, "--threads 1000").fails_with(2, "1000 threads were asked for");
    assert_eq!(bench.files(), ["energy.t", "inputs.npz"]);
}

#[test]
fn memory_is_compared_with_what_there_is_before_it_is_touched() {
    let bench = fit();
    let run = bench.solve(&["--report", "r.json", "--max-memory", "1G"]);
    run.succeeds();
    let report = bench.json("r.json");
    let memory = &report["memory"];
    assert_eq!(memory["limit"].as_u64(), Some(1 << 30));
    assert!((1..1 << 20).contains(&memory["buffers"].as_u64().unwrap()), "{memory}");
    assert_eq!(memory["inputs"].as_u64(), Some(2 * 3 * 4));
    let said = ["24 B of inputs, ", "of buffers, 1.0 GiB available"];
    assert!(said.iter().all(|s| run.stdout.contains(s)), "{}", run.stdout);
    std::fs::remove_file(bench.path("r.json")).unwrap();
    let run = bench.solve(&["--output", "o.npz", "--max-memory", "1000"]);
    for said in ["the problem needs 24 B of inputs and", "of buffers, 1.0 KiB are available", "--max-memory"]
    {
        run.fails_with(2, said);
    }
    // Inputs alone are refused before they are read: what they hold is never looked at.
    let run = bench.solve(&["--output", "o.npz", "--max-memory", "23"]);
    run.fails_with(2, "the problem needs 24 B of inputs and 0 B of buffers, 23 B are available");
    let buffers = memory["buffers"].as_u64().unwrap();
    bench.solve(&["--max-memory", &(buffers + 24).to_string()]).succeeds();
    bench.solve(&["--max-memory", &(buffers + 23).to_string()]).fails_with(2, "--max-memory");
    assert_eq!(bench.files(), ["energy.t", "inputs.npz"]);
}
