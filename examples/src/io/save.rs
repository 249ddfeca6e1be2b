//! Files appear whole or not at all; several of them all together.

use super::FileError;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// Writes a file by way of a temporary one beside it, renamed when complete; a device or pipe is written to directly.
///
/// # Errors
/// As of [`Outputs`].
pub fn save(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut outputs = Outputs::default();
    outputs.add(path, bytes.to_vec())?;
    outputs.commit()
}

/// Files that appear together: each lies complete in a temporary file beside its place until all are renamed. Dropped before that, they leave
/// nothing. Devices and pipes, over which nothing can be renamed, are written to before the first is renamed.
#[derive(Debug, Default)]
pub struct Outputs {
    /// With the places that they go to.
    complete: Vec<(NamedTempFile, PathBuf)>,
    /// Opened.
    direct: Vec<(File, PathBuf, Vec<u8>)>,
}

impl Outputs {
    /// Adds a file.
    ///
    /// # Errors
    /// A place that cannot be written to, or too little room for it.
    pub fn add(&mut self, path: &Path, bytes: Vec<u8>) -> Result<(), FileError> {
        self.put(path, bytes).map_err(|source| FileError::write(path, source))
    }

    fn put(&mut self, path: &Path, bytes: Vec<u8>) -> io::Result<()> {
        let Some((target, mode)) = regular_target(path)? else {
            self.direct.push((OpenOptions::new().append(true).open(path)?, path.to_path_buf(), bytes));
            return Ok(());
        };
        let mut temporary = Builder::new()
            .prefix(".")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(folder(&target))?;
        temporary.write_all(&bytes)?;
        if target.exists() {
            // Of a new file the process's umask takes some away, of one that is there nothing.
            temporary.as_file().set_permissions(Permissions::from_mode(mode))?;
        }
        temporary.as_file().sync_all()?;
        self.complete.push((temporary, target));
        Ok(())
    }

    /// Lets all of them appear.
    ///
    /// # Errors
    /// A device or pipe that does not take its bytes: then no file has appeared. A place over which nothing can be renamed any more.
    pub fn commit(self) -> Result<(), FileError> {
        for (mut file, path, bytes) in self.direct {
            file.write_all(&bytes).map_err(|source| FileError::write(&path, source))?;
        }
        for (temporary, target) in self.complete {
            temporary.persist(&target).map_err(|e| FileError::write(&target, e.error))?;
            // The name is there; that it is on the disk, too, not every file system can tell.
            let _ = File::open(folder(&target)).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }
}

/// Returns where the file really goes, symbolic links followed, and its mode; `None` for what is no regular file.
fn regular_target(path: &Path) -> io::Result<Option<(PathBuf, u32)>> {
    // There a regular file may be somebody's open stream.
    if path.starts_with("/dev") || path.starts_with("/proc") {
        return Ok(None);
    }
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {
            // What may not be written to may not be replaced either.
            OpenOptions::new().append(true).open(path)?;
            Ok(Some((fs::canonicalize(path)?, found.permissions().mode() & 0o777)))
        }
        Ok(found) if found.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(_) => Ok(None),
        Err(_) => Ok(Some((path.to_path_buf(), 0o666))),
    }
}

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Tells whether a file could be written there, as far as can be told beforehand: before a long computation, not after it.
///
/// # Errors
/// A folder, or a place in one that is not there.
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

    #[test]
    fn the_mode_of_a_file_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "old").unwrap();
        for mode in [0o600, 0o666, 0o755] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            save(&path, b"new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
    }

    #[test]
    fn where_one_fails_none_appears() {
        let dir = tempfile::tempdir().unwrap();
        let [good, other] = ["good", "other"].map(|name| dir.path().join(name));
        fs::write(&other, "old").unwrap();
        let mut outputs = Outputs::default();
        outputs.add(&good, b"x".to_vec()).unwrap();
        outputs.add(&other, b"x".to_vec()).unwrap();
        outputs.add(Path::new("/dev/full"), b"x".to_vec()).unwrap();
        let said = outputs.commit().unwrap_err().to_string();
        assert!(said.contains("/dev/full"), "{said}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read(&other).unwrap(), b"old");

        let mut outputs = Outputs::default();
        outputs.add(&good, b"x".to_vec()).unwrap();
        assert!(outputs.add(&dir.path().join("absent").join("a"), b"x".to_vec()).is_err());
        drop(outputs);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
