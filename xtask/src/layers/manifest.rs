//! Dependencies between the packages of this workspace, as their manifests say.

use super::table::{PACKAGES, TESTING};
use crate::process::Failure;
use std::path::{Path, PathBuf};

/// Packages that depend on one that is not below them, or ship with what is for tests.
pub fn faults(root: &Path) -> Result<Vec<String>, Failure> {
    let mut faults = vec![];
    for path in manifests(root)? {
        let text = std::fs::read_to_string(&path).map_err(|e| Failure(format!("{}: {e}", path.display())))?;
        faults.extend(faults_of(&text));
    }
    Ok(faults)
}

/// Manifests of the workspace's members.
fn manifests(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fail = |e: std::io::Error| Failure(format!("{}: {e}", root.display()));
    let mut found = vec![root.join("codegen/llvm-check/Cargo.toml")];
    for entry in std::fs::read_dir(root).map_err(fail)? {
        found.push(entry.map_err(fail)?.path().join("Cargo.toml"));
    }
    found.retain(|p| p.is_file());
    found.sort();
    Ok(found)
}

fn faults_of(manifest: &str) -> Vec<String> {
    let line = |name: &str| PACKAGES.iter().position(|l| l.contains(&name));
    let Some(package) = package(manifest).filter(|p| !TESTING.contains(&p.as_str())) else { return vec![] };
    let Some(own) = line(&package) else {
        return vec![format!("{package} has no layer: give it one in the table")];
    };
    let wrong = |d: &&String| TESTING.contains(&d.as_str()) || line(d).is_some_and(|l| l >= own);
    dependencies(manifest)
        .iter()
        .filter(wrong)
        .map(|d| format!("{package} depends on {d}, which is not below it"))
        .collect()
}

/// Name of the package, if there is one.
fn package(manifest: &str) -> Option<String> {
    let line = section(manifest, "[package]").find_map(|l| l.strip_prefix("name = "))?;
    Some(line.trim_matches('"').to_string())
}

/// Names under `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<String> {
    let name = |l: &str| l.split(['.', ' ', '=']).next().unwrap_or_default().to_string();
    section(manifest, "[dependencies]").map(name).collect()
}

fn section<'a>(manifest: &'a str, header: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = manifest.lines().skip_while(move |l| *l != header).skip(1);
    lines.take_while(|l| !l.starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_run_downwards() {
        let manifest = |package: &str, on: &str| {
            format!(
                "[package]\nname = \"{package}\"\n\n[dependencies]\nlibc = \"1\"\n{on}.workspace = true\n\n[dev-dependencies]\nsumsq-tests = {{}}\n"
            )
        };
        assert!(faults_of(&manifest("sumsq", "sumsq-energy")).is_empty());
        let up = faults_of(&manifest("sumsq-energy", "sumsq"));
        assert_eq!(up, ["sumsq-energy depends on sumsq, which is not below it"]);
        assert_eq!(faults_of(&manifest("sumsq-cli", "sumsq-codegen-testing")).len(), 1);
    }
}
