//! Lowering as text: what is dumped of a few small pipelines, held by files.
//!
//! `SUMSQ_UPDATE=1` rewrites the files; look at the difference before committing it.

mod passes;
mod pipelines;
mod regions;

use std::path::{Path, PathBuf};
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::{Pipeline, Schedule};

/// Name, pipeline, schedule.
type Case = (&'static str, fn() -> Pipeline, &'static str);

/// The schedule as text, and the files of the dump in their order: names without extension, and what is in them.
fn dumps((_, pipeline, schedule): &Case) -> (String, Vec<(String, String)>) {
    // A folder of its own for each call: tests run side by side, and two of them dump cases of one name.
    let dir = tempfile::tempdir().expect("a folder");
    let (p, s) = (pipeline(), Schedule::parse(schedule).expect("text"));
    let options = LowerOptions { dump: Some(dir.path().into()), verify: true, ..LowerOptions::default() };
    lower(&p, &s, &options).expect("legal");
    let files =
        std::fs::read_dir(dir.path().join(&p.name)).expect("dumps").map(|f| f.expect("a file").path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    let read = |file: &PathBuf| {
        let name = file.file_stem().and_then(|n| n.to_str()).expect("a name");
        (name.to_string(), std::fs::read_to_string(file).expect("readable"))
    };
    (s.to_string(), files.iter().map(read).collect())
}

/// Holds each text to `tests/golden/<folder>/<name>.<extension>`, and the folder to the texts.
fn compare(folder: &str, extension: &str, all: &[(&str, String)]) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
    let update = std::env::var_os("SUMSQ_UPDATE").is_some();
    let mut wrong = vec![];
    for (name, came) in all {
        let file = golden.join(format!("{name}.{extension}"));
        if update {
            std::fs::create_dir_all(&golden).expect("writable");
            std::fs::write(&file, came).expect("writable");
        }
        let want = std::fs::read_to_string(&file).unwrap_or_default();
        if *came != want {
            let line = came.lines().zip(want.lines()).position(|(a, b)| a != b);
            wrong.push(format!("{}: line {:?} differs; came\n{came}", file.display(), line.map(|l| l + 1)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let known = |file: &str| all.iter().any(|(name, _)| file == format!("{name}.{extension}"));
    for entry in std::fs::read_dir(&golden).expect("the golden files") {
        let file = entry.expect("a file").file_name().into_string().expect("a name");
        assert!(known(&file), "{} belongs to no case", golden.join(file).display());
    }
}
