//! Files appear whole or not at all.

use super::FileError;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};
use tempfile::Builder;

/// Writes a file by way of a temporary one beside it, renamed when complete; a device or pipe is written to directly.
pub fn save(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    write_whole(path, bytes).map_err(|source| FileError::write(path, source))
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let Some(target) = regular_target(path)? else { return fs::write(path, bytes) };
    // Less what the process's umask takes away, as for any new file.
    let anybody = fs::Permissions::from_mode(0o666);
    let temporary = Builder::new().prefix(".").permissions(anybody).tempfile_in(folder(&target))?;
    fs::write(&temporary, bytes)?;
    temporary.persist(&target)?;
    Ok(())
}

/// Returns where the file really goes, symbolic links followed; `None` for what exists and is no regular file.
fn regular_target(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => fs::canonicalize(path).map(Some),
        Ok(found) if found.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(_) => Ok(None),
        Err(_) => Ok(Some(path.to_path_buf())),
    }
}

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Tells whether a file could be written there, as far as can be told beforehand: before a long computation, not after it.
pub fn check_target(path: &Path) -> Result<(), FileError> {
    let parent = folder(path);
    let problem = if path.is_dir() {
        io::ErrorKind::IsADirectory
    } else if path.file_name().is_none() {
        io::ErrorKind::InvalidInput
    } else if parent.is_dir() {
        return Ok(());
    } else {
        return Err(FileError::write(
            path,
            io::Error::other(format!("there is no folder {}", parent.display())),
        ));
    };
    Err(FileError::write(path, io::Error::from(problem)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_contents_and_leaves_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.bin");
        save(&path, b"old").unwrap();
        save(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_folder_is_said_beforehand() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("absent").join("a.bin");
        let said = check_target(&path).unwrap_err().to_string();
        assert!(said.contains("absent") && said.contains("no folder"), "{said}");
        assert!(save(&path, b"x").is_err());
        assert!(check_target(dir.path()).is_err(), "a folder is no file");
        check_target(&dir.path().join("a.bin")).unwrap();
    }

    #[test]
    fn a_link_keeps_pointing() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a"), dir.path().join("b"));
        save(&file, b"old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        save(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
