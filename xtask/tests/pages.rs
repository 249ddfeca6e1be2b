//! Truth of the pages: paths that they name, and excerpts that they show.

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
