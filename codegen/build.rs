//! Gives the code of a crate, this one or one above it, the hash of its own sources: what another build has kept is not taken for this one's.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=src");
    let mut hash = blake3::Hasher::new();
    if let Err(e) = add(&mut hash, Path::new("src")) {
        println!("cargo::error=the sources cannot be read: {e}");
    }
    println!("cargo::rustc-env=SUMSQ_SOURCES={}", hash.finalize().to_hex());
}

/// Adds names and contents of a folder, in the order of the names.
fn add(hash: &mut blake3::Hasher, folder: &Path) -> std::io::Result<()> {
    let mut entries: Vec<_> = folder.read_dir()?.collect::<Result<_, _>>()?;
    entries.sort_by_key(|e| e.file_name());
    for entry in entries {
        let path = entry.path();
        hash.update(path.to_string_lossy().as_bytes());
        if path.is_dir() {
            add(hash, &path)?;
        } else {
            hash.update(&std::fs::read(path)?);
        }
    }
    Ok(())
}
