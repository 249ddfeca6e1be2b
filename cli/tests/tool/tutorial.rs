//! `docs/tutorial.md`: its schedules run, and what it quotes is what the tool prints.

use crate::bench::{Bench, fit};
use std::path::{Path, PathBuf};
use sumsq_examples::pipelines::Picture;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The schedules of the steps, in order.
fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(docs().join("tutorial")).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The picture that a schedule makes of `in.png`.
fn blurred(bench: &Bench, schedule: &Path) -> Picture {
    let path = schedule.to_string_lossy();
    let line = [
        "pipeline",
        "blur",
        "--input",
        "in.png",
        "--output",
        "out.png",
        "--threads",
        "3",
        "--schedule",
        &path,
    ];
    bench.sumsq(&line).succeeds();
    Picture::read(&bench.path("out.png")).expect("a picture")
}

#[test]
fn every_step_computes_what_the_empty_schedule_does() {
    let bench = fit();
    std::fs::write(bench.path("empty.txt"), "").expect("a file");
    // Some blocks and strips are whole and some are not; the second picture is smaller than any.
    for (width, height) in [(131, 75), (5, 3)] {
        let samples = (0..width * height).map(|i| (i * i % 65_521) as u16).collect();
        let picture = Picture { width, height, channels: 1, bits: 16, samples };
        std::fs::write(bench.path("in.png"), picture.encode_png().expect("a picture")).expect("a file");
        let wanted = blurred(&bench, &bench.path("empty.txt"));
        for file in files() {
            assert!(blurred(&bench, &file) == wanted, "{}, {width} x {height}", file.display());
        }
    }
}

/// The text of each schedule, and the whole loop nest of it.
#[test]
fn the_page_shows_each_step() {
    let (bench, page) = (fit(), std::fs::read_to_string(docs().join("tutorial.md")).expect("the page"));
    let mut rest = &page[..];
    for file in files() {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let schedule = std::fs::read_to_string(&file).expect("a schedule");
        let nest =
            bench.sumsq(&["pipeline", "blur", "--show", "loops", "--schedule", &file.to_string_lossy()]);
        nest.succeeds();
        let blocks = [format!("```schedule\n{schedule}```\n"), format!("```text\n{}```\n", nest.stdout)];
        for shown in [format!("[`{name}`](tutorial/{name})")].iter().chain(&blocks) {
            let (_, after) =
                rest.split_once(shown.as_str()).unwrap_or_else(|| panic!("{name}: missing\n{shown}"));
            rest = after;
        }
    }
    assert!(!rest.contains("```schedule"), "a step without a file");
}
