//! The how-to pages, proved: every `docs/patches/NAME.patch` is what `docs/NAME.md` teaches.
//!
//! Text in front of the first `diff --git` of a patch names the tests that show it works, a line each:
//!
//! ```text
//! Test: cargo test --workspace --test language functions
//! ```
//!
//! All patches are applied together to a copy of the tree below `target/`, which builds into the same target folder: dependencies
//! are there already, if tests are taken out of `--workspace`, whose features all tests are built with. The copy's own packages are compiled
//! once and run a few tests: they are not optimised. Cargo tells the builds of
//! two trees apart by name and version alone, not by path: the copy has a version of its own. A patch adds its thing in at most
//! [`MOST_FILES`] production files, each of which its page names.

use crate::process::{Failure, root, task};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Production files that one extension may touch.
const MOST_FILES: usize = 4;

/// Folders of tests and pages: what a patch changes there is no production code.
const BESIDE: [&str; 7] = ["tests", "docs", "benches", "examples", "data", "codegen-testing", "xtask"];

struct Patch {
    name: String,
    path: PathBuf,
    tests: Vec<String>,
    production: Vec<String>,
}

/// Applies every patch, counts its production files and runs its tests.
pub fn how_to() -> Result<(), Failure> {
    let patches = patches()?;
    let tree = applied(&patches)?;
    let target = root().join("target");
    let proved = prove(&patches, &tree, &target);
    // A dynamic library has no version in its name: the copy's lies where the tree's was. Without it, cargo links that one again.
    for place in [target.join("release"), target.join("release/deps")] {
        let library = place.join(STAND_IN);
        if let Err(e) = fs::remove_file(&library)
            && e.kind() != std::io::ErrorKind::NotFound
        {
            return Err(failure(&library, e));
        }
    }
    proved
}

/// Applies every patch and counts its production files: seconds, where [`how_to`] takes minutes.
pub fn apply() -> Result<(), Failure> {
    applied(&patches()?).map(drop)
}

/// A copy of the tree with every patch applied.
fn applied(patches: &[Patch]) -> Result<PathBuf, Failure> {
    let folder = root().join("target/how-to");
    let tree = folder.join("tree");
    copy_tree(&tree)?;
    for patch in patches {
        let files = patch.production.join(", ");
        println!("{}: {} production files: {files}", patch.name, patch.production.len());
        patch.check()?;
        let path = patch.path.to_string_lossy();
        // The copy is no repository of its own, and not to be taken for a part of this one.
        let apply = task(&["git", "apply", "-C1", &path]).within(&tree);
        apply.env("GIT_CEILING_DIRECTORIES", &folder.to_string_lossy()).run()?;
    }
    Ok(tree)
}

/// The stand-in for a GPU's driver.
const STAND_IN: &str = "libsumsq_libcuda.so";

/// Runs the tests that patches name, in the tree to which these are applied.
fn prove(patches: &[Patch], tree: &Path, target: &Path) -> Result<(), Failure> {
    // In release, whose dependencies are built.
    let cargo = format!("cargo test --release {}", not_optimised(tree)?.join(" "));
    for line in patches.iter().flat_map(|p| &p.tests) {
        let line = line.replacen("cargo test", &cargo, 1);
        let line: Vec<&str> = line.split_whitespace().collect();
        let test = task(&line).within(tree).env("CARGO_TARGET_DIR", &target.to_string_lossy());
        test.env("CARGO_INCREMENTAL", "0").env("SUMSQ_VERIFY", "1").run()?;
    }
    Ok(())
}

/// Arguments of cargo that leave the packages of `tree` without optimisation, and their dependencies as they were built.
fn not_optimised(tree: &Path) -> Result<Vec<String>, Failure> {
    let lock = tree.join("Cargo.lock");
    let text = fs::read_to_string(&lock).map_err(|e| failure(&lock, e))?;
    let own = text.split("[[package]]").filter(|p| !p.contains("\nsource = "));
    let names = own.filter_map(|p| p.split_once("\nname = \"")?.1.split('"').next());
    Ok(names.map(|name| format!("--config=profile.release.package.{name}.opt-level=0")).collect())
}

fn patches() -> Result<Vec<Patch>, Failure> {
    let folder = root().join("docs/patches");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&folder).map_err(|e| failure(&folder, e))?.flatten().map(|e| e.path()).collect();
    paths.sort();
    paths.into_iter().map(Patch::read).collect()
}

impl Patch {
    fn read(path: PathBuf) -> Result<Patch, Failure> {
        let text = fs::read_to_string(&path).map_err(|e| failure(&path, e))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let head = text.lines().take_while(|l| !l.starts_with("diff --git"));
        let tests = head.filter_map(|l| l.strip_prefix("Test: ")).map(str::to_owned).collect();
        let changed = text.lines().filter_map(|l| l.strip_prefix("+++ b/"));
        let production = changed.filter(|p| is_production(p)).map(str::to_owned).collect();
        Ok(Patch { name, path, tests, production })
    }

    fn check(&self) -> Result<(), Failure> {
        let wrong = |why: String| Err(Failure(format!("docs/patches/{}.patch {why}", self.name)));
        if self.tests.iter().all(|t| !t.starts_with("cargo test ")) {
            return wrong("names no test: `Test: cargo test ...` in front of its first diff".into());
        }
        if self.production.len() > MOST_FILES {
            return wrong(format!("changes more than {MOST_FILES} production files"));
        }
        let page = root().join("docs").join(&self.name).with_extension("md");
        let text = fs::read_to_string(&page).map_err(|e| failure(&page, e))?;
        match self.production.iter().find(|p| !text.contains(*p)) {
            Some(path) => wrong(format!("changes {path}, which docs/{}.md does not name", self.name)),
            None => Ok(()),
        }
    }
}

fn is_production(path: &str) -> bool {
    let is_test = |part: &str| BESIDE.contains(&part) || part == "tests.rs" || part.ends_with("_tests.rs");
    path.ends_with(".rs") && !path.split('/').any(is_test)
}

/// The version of the copy's packages.
const VERSION: &str = "version = \"0.0.0-how-to\"";

/// Makes `tree` a copy of the files that git knows, under [`VERSION`]. Those that are the same already keep their times, and so their builds.
fn copy_tree(tree: &Path) -> Result<(), Failure> {
    let listed = task(&["git", "ls-files"]).output();
    let listed = listed.ok_or_else(|| Failure("git does not list the files of the tree".into()))?;
    let files: HashSet<PathBuf> =
        listed.lines().map(PathBuf::from).filter(|f| root().join(f).exists()).collect();
    for file in &files {
        let (from, to) = (root().join(file), tree.join(file));
        let text = fs::read(&from).map_err(|e| failure(&from, e))?;
        let wanted = match file.to_str() {
            Some("Cargo.toml") => marked(&text, "\n\n"),
            Some("Cargo.lock") => marked(&text, "[[package]]"),
            _ => text,
        };
        if fs::read(&to).is_ok_and(|there| there == wanted) {
            continue;
        }
        let folder = to.parent().unwrap_or(tree);
        fs::create_dir_all(folder).and_then(|()| fs::copy(&from, &to)).map_err(|e| failure(&to, e))?;
        fs::write(&to, wanted).map_err(|e| failure(&to, e))?;
    }
    remove_others(tree, tree, &files)
}

/// Gives [`VERSION`] to what is no dependency: in each part of a manifest or lock file, the line that is a version, unless the part names a
/// source.
fn marked(text: &[u8], between: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let line = |l: &str| if l.starts_with("version = \"") { VERSION.to_owned() } else { l.to_owned() };
    let part = |part: &str| match part.contains("\nsource = ") {
        true => part.to_owned(),
        false => part.split('\n').map(line).collect::<Vec<_>>().join("\n"),
    };
    text.split(between).map(part).collect::<Vec<_>>().join(between).into_bytes()
}

/// Removes what patches of an earlier run have added.
fn remove_others(folder: &Path, tree: &Path, files: &HashSet<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder).map_err(|e| failure(folder, e))?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            remove_others(&path, tree, files)?;
        } else if path.strip_prefix(tree).is_ok_and(|p| !files.contains(p)) {
            fs::remove_file(&path).map_err(|e| failure(&path, e))?;
        }
    }
    Ok(())
}

fn failure(path: &Path, error: std::io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}
