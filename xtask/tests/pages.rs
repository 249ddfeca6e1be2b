//! Truth of the pages: paths that they name, excerpts and figures that they show.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every file below `folder` with this extension, build outputs apart.
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files(&path, extension, found);
            }
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

/// Every Markdown page of the project.
fn pages() -> Vec<PathBuf> {
    let mut found = vec![];
    files(&root(), "md", &mut found);
    found.sort();
    found
}

/// Relative links, and paths in code font: `codegen/src/ir/`, `lower/mod.rs` (from a `src` folder), `docs/*.md`.
#[test]
fn every_path_that_a_page_names_exists() {
    let sources = ["", "codegen/src", "energy/src", "solver/src", "codegen", "xtask/src", "data"];
    // Pages that teach name files which their patches add.
    let mut patches = vec![];
    files(&root().join("docs/patches"), "patch", &mut patches);
    let patches: String = patches.iter().map(|path| read(path)).collect();
    let mut missing = vec![];
    for page in pages() {
        let (text, folder) = (read(&page), page.parent().unwrap());
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for link in links.filter(|l| !l.is_empty() && !l.contains("://")) {
            if !folder.join(link).exists() {
                missing.push(format!("{}: link {link}", page.display()));
            }
        }
        for path in code_spans(&text).into_iter().filter(|span| is_path(span)) {
            let plain = path.split('*').next().unwrap();
            let there = |base: &str| root().join(base).join(plain).exists();
            let added = patches.contains(&format!("+++ b/{path}\n"));
            if !added && !sources.iter().any(|s| there(s)) && !folder.join(plain).exists() {
                missing.push(format!("{}: {path}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Text between backticks, outside of code blocks.
fn code_spans(text: &str) -> Vec<&str> {
    let outside = text.split("```").step_by(2);
    outside.flat_map(|part| part.split('`').skip(1).step_by(2)).collect()
}

/// Is this the name of a file or folder of the project, rather than an expression or a file of the user's?
fn is_path(span: &str) -> bool {
    let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-*".contains(c));
    let ours =
        [".rs", ".md", ".t", ".lua", ".ply", ".ir"].iter().any(|e| span.ends_with(e)) || span.ends_with('/');
    plain && ours && span.contains('/') && !span.starts_with('/') && !span.starts_with("target/")
}

/// Blocks tagged `ir` are excerpts of what the engine prints, which golden files hold.
#[test]
fn excerpts_of_the_representation_are_printed_by_the_engine() {
    let mut golden = vec![];
    files(&root(), "ir", &mut golden);
    let golden: Vec<String> = golden.iter().map(|path| read(path)).collect();
    let page = read(&root().join("docs/ir.md"));
    let blocks: Vec<&str> = page.split("```ir\n").skip(1).map(|b| b.split("```").next().unwrap()).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        assert!(golden.iter().any(|g| g.contains(block)), "no golden file has\n{block}");
    }
}

/// The Rust program that the README shows is the one that a test runs.
#[test]
fn the_program_of_the_readme_is_the_example() {
    let page = read(&root().join("README.md"));
    let shown = page.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(shown, read(&root().join("solver/examples/smoothing.rs")));
}

/// The number that begins what stands behind `name` in a file of results.
fn result(of: &str, name: &str) -> f64 {
    let is_end = |c: char| !(c.is_ascii_digit() || c == '.');
    let found = of.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.strip_prefix("  ")?.trim_start();
        rest.split(is_end).next()?.parse().ok()
    });
    found.unwrap_or_else(|| panic!("no result is called {name}"))
}

/// The cells of the row that begins with `first`.
fn row<'p>(page: &'p str, first: &str) -> Vec<&'p str> {
    let begin = format!("| {first} |");
    let line = page.lines().find(|l| l.starts_with(&begin)).unwrap_or_else(|| panic!("no row {first}"));
    line.trim_matches('|').split('|').skip(1).map(str::trim).collect()
}

/// Asserts that a figure on a page is a result, rounded as it is.
fn assert_shows(figure: &str, result: f64) {
    let shown: f64 = figure.parse().unwrap_or_else(|_| panic!("{figure} is no number"));
    let digits = figure.split('.').nth(1).map_or(0, str::len) as i32;
    let apart = (shown - result).abs();
    assert!(apart <= 0.5001 * 0.1f64.powi(digits), "the page says {figure}, the results {result}");
}

/// Times of the convolution in `docs/gradients.md`, where its values are kept, and its slope as a gather and as a scatter.
#[test]
fn figures_of_the_convolution_are_those_of_its_benchmark() {
    let page = read(&root().join("docs/gradients.md"));
    let results = read(&root().join("benches/results/convolution.txt"));
    for taps in ["1 x 5", "3 x 5"] {
        let cells = row(&page, &format!("kernel of {taps}"));
        for (cell, schedule) in cells.iter().zip(["inline", "root", "at"]) {
            assert_shows(cell, result(&results, &format!("{taps}: compute_{schedule}")));
        }
    }
    let behind = |words: &str| {
        let rest = page.split(words).nth(1).unwrap_or_else(|| panic!("the page does not say: {words}"));
        rest.split([' ', ',']).next().unwrap()
    };
    let layer = "16 x 16 x 256 x 256";
    assert_shows(behind("on two threads, the gather takes "), result(&results, &format!("{layer}: gather")));
    assert_shows(behind("ms and the scatter "), result(&results, &format!("{layer}: scatter")));
    let ratio = result(&results, &format!("{layer}: scatter with atomics / gather"));
    assert_shows(behind("channels before it adds: "), ratio);
}

/// Ratios of layers in the same page.
#[test]
fn figures_of_layers_are_those_of_their_benchmark() {
    let page = read(&root().join("docs/gradients.md"));
    let results = read(&root().join("benches/results/gradients.txt"));
    let rows = [
        ("convolution of 3 x 5 taps, 2560 x 1600", "convolution"),
        ("spatial transformer", "spatial_transformer"),
        ("flow warp", "flow_warp"),
        ("bilateral slice", "bilateral_slice"),
        ("learned demosaicking, 9 filters, 1024 x 1024", "demosaic_learned"),
    ];
    let columns = [
        ": with gradient / forward, both sumsq, first schedules",
        ": with gradient / forward, both sumsq",
        ", forward: sumsq / JAX",
        ", with gradient: sumsq / JAX",
        ", forward: sumsq / PyTorch",
        ", with gradient: sumsq / PyTorch",
    ];
    for (first, name) in rows {
        for (cell, column) in row(&page, first).iter().zip(columns).filter(|(cell, _)| !cell.is_empty()) {
            let figure = cell.split(' ').next().unwrap();
            assert_shows(figure, result(&results, &format!("{name}{column}")));
        }
    }
    let beside_halide = page.split("as time of ours / theirs:").nth(1).unwrap();
    let rows = [
        ("convolution", "convolution"),
        ("spatial transformer", "spatial_transformer"),
        ("flow warp", "flow_warp"),
        ("bilateral slice", "bilateral_slice"),
        ("learned demosaicking", "demosaic_learned"),
        ("layer of 16 x 16 channels, gathered", "gather"),
        ("the same, scattered with atomics", "atomic"),
    ];
    for (first, name) in rows {
        for (cell, schedule) in row(beside_halide, first).iter().zip(["hand", "Li2018"]) {
            assert_shows(
                cell,
                result(&results, &format!("{name}, with gradient: sumsq / Halide, {schedule}")),
            );
        }
    }
}
