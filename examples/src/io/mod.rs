//! File formats: `.npz` archives, PNG and JPEG pictures, PLY and OBJ meshes.

mod mesh;
pub mod npz;
mod obj;
pub mod picture;
mod ply;
mod save;

pub use mesh::Mesh;
pub use save::{Outputs, check_target, save};

use std::path::{Path, PathBuf};

/// Reason why a file could not be read or written. The message names the file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system said no.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: std::io::Error,
    },
    /// The contents are not what they should be.
    #[error("{}: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem, and its place.
        problem: String,
    },
    /// One array of an archive is not what it should be.
    #[error("{}: array `{array}`: {problem}", path.display())]
    Array {
        /// The file.
        path: PathBuf,
        /// The array.
        array: String,
        /// The problem.
        #[source]
        problem: npz::MemberError,
    },
}

impl FileError {
    fn read(path: &Path, source: std::io::Error) -> FileError {
        FileError::Io { action: "read", path: path.to_path_buf(), source }
    }

    pub(crate) fn write(path: &Path, source: std::io::Error) -> FileError {
        FileError::Io { action: "write", path: path.to_path_buf(), source }
    }

    pub(crate) fn format(path: &Path, problem: impl ToString) -> FileError {
        FileError::Format { path: path.to_path_buf(), problem: problem.to_string() }
    }
}
