//! Holds the layers: no import runs upwards, no circle of files grows, the engine stays small, and only the tool prints. `cargo xtask
//! lint` runs it.
//!
//! Reads source as text: `use` declarations and inline paths, without comments and without what only tests see.

mod graph;
mod manifest;
mod source;
mod table;
mod words;

use crate::process::{Failure, root};
use graph::{Graph, Module};
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use table::{CONFINED, CRATES, Crate, SIZES};

/// Prints every import that runs upwards, every circle that is too large and the sizes; an error if something is wrong.
pub fn layers() -> Result<(), Failure> {
    let mut faults = manifest::faults(&root())?;
    faults.extend(words::faults(&root(), &CONFINED)?);
    for c in &CRATES {
        let modules = modules(&root().join(c.folder).join("src"))?;
        faults.extend(check(c, &modules));
    }
    for (folder, most) in SIZES {
        let lines: usize = modules(&root().join(folder))?.values().map(Source::code_lines).sum();
        println!("{folder}: {lines} lines of code (without blanks, comments and tests), at most {most}");
        if lines > most {
            faults.push(format!("{folder} has grown beyond {most} lines of code"));
        }
    }
    faults.iter().for_each(|f| eprintln!("{f}"));
    if faults.is_empty() { Ok(()) } else { Err(Failure(format!("{} faults of layers", faults.len()))) }
}

/// Returns what is wrong with the imports of one crate.
fn check(c: &Crate, modules: &BTreeMap<Module, Source>) -> Vec<String> {
    let graph = Graph::of(modules);
    let file = |m: &Module| format!("{}/src/{}", c.folder, m.join("/"));
    let mut faults = vec![];
    let folders: BTreeSet<&String> = modules.keys().filter_map(|m| m.first()).collect();
    if !c.layers.is_empty() {
        let unknown = folders.iter().filter(|f| !c.layers.contains(&f.as_str()));
        faults
            .extend(unknown.map(|f| format!("{}/src/{f} has no layer: give it one in the table", c.folder)));
    }
    for (from, to, name) in graph.upward(|folder| c.layers.iter().position(|l| *l == folder)) {
        faults.push(format!("{} imports {name} upwards from {}", file(&from), file(&to)));
    }
    let circles = graph.circles();
    let sizes: Vec<String> = circles.iter().map(|c| c.len().to_string()).collect();
    let sizes = if sizes.is_empty() { "none".into() } else { sizes.join(", ") };
    println!("{}: circles of files: {sizes}; at most {} may be one", c.folder, c.circle);
    for circle in circles.iter().filter(|x| x.len() > c.circle) {
        let files: Vec<String> = circle.iter().map(file).collect();
        faults.push(format!("{} files import each other in a circle: {}", files.len(), files.join(", ")));
    }
    faults
}

/// The modules below a folder, those of tests left out; the one of the folder itself is the empty path.
fn modules(src: &Path) -> Result<BTreeMap<Module, Source>, Failure> {
    let mut all = BTreeMap::new();
    read(src, &vec![], &mut all)?;
    let of_tests = |(module, source): (&Module, &Source)| -> Vec<Module> {
        source.tests.iter().map(|name| [module.clone(), vec![name.clone()]].concat()).collect()
    };
    let tests: Vec<Module> = all.iter().flat_map(of_tests).collect();
    all.retain(|m, _| !tests.iter().any(|t| m.starts_with(t)));
    Ok(all)
}

fn read(folder: &Path, at: &Module, all: &mut BTreeMap<Module, Source>) -> Result<(), Failure> {
    let fail = |e: std::io::Error| Failure(format!("{}: {e}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut module = at.clone();
        if !["mod", "lib", "main"].contains(&name.as_str()) {
            module.push(name);
        }
        if path.is_dir() {
            read(&path, &module, all)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.insert(module, Source::read(&std::fs::read_to_string(&path).map_err(fail)?));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_the_files() {
        let c = Crate { folder: "house", layers: &["cellar", "attic"], circle: 1 };
        let modules = [
            (vec!["cellar".to_string()], Source::read("use crate::attic::Roof;")),
            (vec!["attic".to_string()], Source::read("use crate::cellar::Floor;")),
            (vec!["shed".to_string()], Source::read("")),
        ];
        let faults = check(&c, &modules.into_iter().collect());
        assert_eq!(
            faults,
            [
                "house/src/shed has no layer: give it one in the table",
                "house/src/cellar imports Roof upwards from house/src/attic",
                "2 files import each other in a circle: house/src/attic, house/src/cellar",
            ]
        );
    }
}
