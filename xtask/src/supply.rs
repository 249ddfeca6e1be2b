//! Dependencies and the oldest compiler: `cargo xtask deny`, and the step `msrv` of the nightly. Neither installs anything.

use crate::guided;
use crate::process::{Failure, root, task};

/// Licences, advisories, sources and bans of all dependencies, as `deny.toml` has them: of the workspace, and of those that are their own.
pub fn deny() -> Result<(), Failure> {
    if task(&["cargo", "deny", "--version"]).output().is_none() {
        return Err(Failure("needs cargo-deny: `cargo install --locked cargo-deny`".into()));
    }
    let check = ["cargo", "deny", "--locked"];
    task(&[&check[..], &["check"]].concat()).run()?;
    ["python/Cargo.toml", guided::MANIFEST].iter().try_for_each(|manifest| {
        let of = ["--manifest-path", manifest, "--config", "deny.toml", "check"];
        task(&[&check[..], &of].concat()).run()
    })
}

/// Compiles the workspace by the oldest compiler that its manifest promises, into a target folder of its own.
pub fn msrv() -> Result<(), Failure> {
    let manifest = root().join("Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).map_err(|e| Failure(format!("Cargo.toml: {e}")))?;
    let version = promised(&manifest).ok_or_else(|| Failure("Cargo.toml has no rust-version".into()))?;
    if task(&["rustup", "run", version, "cargo", "--version"]).output().is_none() {
        let install = format!("`rustup toolchain install {version} --profile minimal`");
        return Err(Failure(format!(
            "needs the toolchain {version}, the rust-version of Cargo.toml: {install}"
        )));
    }
    task(&["rustup", "run", version, "cargo", "check", "--locked", "--workspace", "--all-targets"])
        .env("CARGO_TARGET_DIR", &root().join("target/msrv").to_string_lossy())
        .run()
}

/// The value of `rust-version = "..."`.
fn promised(manifest: &str) -> Option<&str> {
    let value = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "))?;
    Some(value.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promised_version_is_read() {
        assert_eq!(
            promised("[workspace.package]\nedition = \"2024\"\nrust-version = \"1.90\"\n"),
            Some("1.90")
        );
        assert_eq!(promised("[workspace.package]\n"), None);
    }
}
