//! Pipelines compiled ahead of time, linked into a C program with the small runtime, and run: the same results to the bit as in
//! this process, and errors in the same words.

mod planar;
mod strided;

use std::path::Path;
use std::process::Command;
use sumsq_codegen::Target;
use sumsq_codegen::compile::aot::{compile_to_object, write_runtime};
use sumsq_codegen::{Pipeline, Schedule};

/// Compiles the pipelines and a C program that uses them, and runs it; its output.
fn run_program(name: &str, program: &str, jobs: &[(Pipeline, Schedule)]) -> String {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("aot").join(name);
    std::fs::create_dir_all(&dir).expect("a folder for the test");
    let mut files = vec!["program.c".to_string()];
    for (p, s) in jobs {
        let library = compile_to_object(p, s, &Target::host()).expect("compiles");
        library.write(&dir).expect("written");
        files.push(format!("{}.o", p.name));
    }
    write_runtime(&dir).expect("written");
    std::fs::write(dir.join("program.c"), program).expect("written");
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let run = |command: &mut Command| {
        let out = command.current_dir(&dir).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{command:?}: {}\n{errors}", out.status);
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", "program"];
    let libraries = ["sumsq_runtime.c", "-lm", "-lpthread"];
    run(Command::new(cc).args(flags).args(files).args(libraries));
    run(&mut Command::new(dir.join("program")))
}

fn assert_lines(printed: &str, want: &[String]) {
    for (i, (a, b)) in printed.lines().zip(want).enumerate() {
        assert_eq!(a, b, "line {i}");
    }
    assert_eq!(printed.lines().count(), want.len());
}
