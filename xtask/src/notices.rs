//! `THIRD_PARTY.txt`: crates that the tool and the C library contain, with their licences and the texts that these ask to be kept.
//!
//! Made of what cargo resolves and of the sources that it fetched, so that it says the same on every machine.

use crate::process::{Failure, cargo, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const FILE: &str = "THIRD_PARTY.txt";

/// Packages that ship, for the system that they are built for.
const SHIPPED: [&str; 6] =
    ["--package", "sumsq-cli", "--package", "sumsq-capi", "--target", "x86_64-unknown-linux-gnu"];

/// The parts that are no crates.
const OTHERS: &str = "\
LLVM 22, linked in: Apache-2.0 WITH LLVM-exception, https://llvm.org/LICENSE.txt
Lua 5.1, linked in with mlua-sys: MIT, Copyright (C) 1994-2012 Lua.org, PUC-Rio
Pictures, meshes and the font of the demos: data/README.md and examples/fonts say whose
";

/// Licences in the order in which one is taken where there is a choice: each is told by a part of its file's name.
const PREFERRED: [(&str, &str); 3] = [("MIT", "MIT"), ("Apache-2.0", "APACHE"), ("Zlib", "ZLIB")];

/// A crate that ships.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
    license: String,
}

/// Writes the file.
pub fn write() -> Result<(), Failure> {
    let text = notices()?;
    fs::write(root().join(FILE), text).map_err(|e| Failure(format!("{FILE}: {e}")))?;
    println!("wrote {FILE}");
    Ok(())
}

/// An error unless the file is what would be written.
pub fn check() -> Result<(), Failure> {
    if fs::read_to_string(root().join(FILE)).ok().as_deref() == Some(&notices()?) {
        return Ok(());
    }
    Err(Failure(format!("{FILE} is not that of Cargo.lock: run `cargo xtask notices`")))
}

fn notices() -> Result<String, Failure> {
    let line = [
        "tree",
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "--no-dedupe",
        "--format",
        "{p}\t{l}",
    ];
    let tree = cargo(&[&line[..], &SHIPPED].concat()).output();
    let crates = crates(&tree.ok_or_else(|| Failure("cargo tree fails".into()))?);
    let sources = sources()?;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut out = format!(
        "What the tool and the C library of sumsq contain. `cargo xtask notices` writes it.\n\n{OTHERS}\n"
    );
    for c in &crates {
        let id = format!("{} {}", c.name, c.version);
        let _ = writeln!(out, "{id}: {}", c.license);
        let folder = sources.iter().map(|s| s.join(format!("{}-{}", c.name, c.version))).find(|f| f.is_dir());
        let folder =
            folder.ok_or_else(|| Failure(format!("the source of {id} is not there: `cargo fetch`")))?;
        for text in license_texts(&folder, &c.license)? {
            texts.entry(text).or_default().push(id.clone());
        }
    }
    let mut texts: Vec<(Vec<String>, String)> = texts.into_iter().map(|(text, of)| (of, text)).collect();
    texts.sort();
    for (of, text) in texts {
        let _ = write!(out, "\n{}\n{}\n\n{text}\n", "-".repeat(80), of.join(", "));
    }
    Ok(out)
}

/// Crates of lines `name vVERSION ...<tab>LICENSE`; those of the workspace and procedural macros do not ship.
fn crates(tree: &str) -> BTreeSet<Crate> {
    let read = |line: &str| {
        let (package, license) = line.split_once('\t')?;
        let (name, version) = package.split_once(" v")?;
        let shipped = !version.contains('(');
        shipped.then(|| Crate { name: name.into(), version: version.trim().into(), license: license.into() })
    };
    tree.lines().filter_map(read).collect()
}

/// Folders in which cargo keeps the sources of registries.
fn sources() -> Result<Vec<PathBuf>, Failure> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|h| h.join(".cargo")));
    let folder = home.ok_or_else(|| Failure("no home folder".into()))?.join("registry/src");
    let entries = fs::read_dir(&folder).map_err(|e| Failure(format!("{}: {e}", folder.display())))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

/// The files in a crate's folder that say its licence: of a choice the preferred one.
fn license_texts(folder: &Path, license: &str) -> Result<Vec<String>, Failure> {
    let fail = |e: std::io::Error| Failure(format!("{}: {e}", folder.display()));
    let mut files = vec![];
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let says = ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|n| name.starts_with(n));
        if says && path.is_file() {
            files.push((name, path));
        }
    }
    files.sort();
    let is_choice = (license.contains(" OR ") || license.contains('/')) && !license.contains(" AND ");
    let chosen =
        PREFERRED.iter().filter(|(id, _)| is_choice && license.contains(id)).find_map(|(_, word)| {
            let of: Vec<_> = files.iter().filter(|(name, _)| name.contains(word)).cloned().collect();
            (!of.is_empty()).then_some(of)
        });
    let text = |(_, path): &(String, PathBuf)| {
        let bytes = fs::read(path).map_err(fail)?;
        let lines: Vec<String> =
            String::from_utf8_lossy(&bytes).lines().map(|line| line.trim_end().to_owned()).collect();
        Ok(lines.join("\n").trim_matches('\n').to_owned())
    };
    chosen.unwrap_or(files).iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_ship() {
        let tree = "sumsq v0.1.0 (/here)\tMIT\nlibc v0.2.1\tMIT OR Apache-2.0\nserde_derive v1.0.2 (proc-macro)\tMIT\n\nlibc v0.2.1\tMIT OR Apache-2.0\n";
        let found: Vec<Crate> = crates(tree).into_iter().collect();
        let [name, version, license] = ["libc", "0.2.1", "MIT OR Apache-2.0"].map(String::from);
        assert_eq!(found, [Crate { name, version, license }]);
    }
}
