//! NumPy archives: stored or deflated, either byte order, C or Fortran order.
//!
//! An archive is believed in nothing: the directory and each member's own header must agree on its name, the header's shape with its size
//! and its contents with their checksum. Only arrays that are asked for are read, and no more of one than its header promises.

mod elements;
mod error;
mod header;
mod write;

pub use error::MemberError;
pub use write::{encode, write};

use super::FileError;
use flate2::read::DeflateDecoder;
use header::Header;
use rawzip::{
    CompressionMethod, FileReader, RECOMMENDED_BUFFER_SIZE, ReaderAt, ZipArchive, ZipArchiveEntryWayfinder,
    ZipLocator, ZipReader, ZipVerifier,
};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use sumsq::NamedArray;

/// Deflate makes at most 1032 bytes of one.
const MOST_INFLATED: u64 = 1032;

/// An open archive.
pub struct Archive {
    path: PathBuf,
    zip: ZipArchive<Box<dyn ReaderAt>>,
    /// Sorted by name.
    members: Vec<Member>,
}

/// An array by the archive's directory.
struct Member {
    /// Without `.npy`.
    name: String,
    method: CompressionMethod,
    encrypted: bool,
    wayfinder: ZipArchiveEntryWayfinder,
}

impl Archive {
    /// Opens an archive; reads its directory only.
    ///
    /// # Errors
    /// A file that cannot be read, or is no archive, or a damaged one, or one that has a name twice.
    pub fn open(path: &Path) -> Result<Archive, FileError> {
        let file = File::open(path).map_err(|source| FileError::read(path, source))?;
        let size = file.metadata().map_err(|source| FileError::read(path, source))?.len();
        Archive::over(path, Box::new(FileReader::from(file)), size)
    }

    /// Opens an archive in memory; `path` names it in errors.
    ///
    /// # Errors
    /// As of [`Archive::open`].
    pub fn of_bytes(path: &Path, bytes: Vec<u8>) -> Result<Archive, FileError> {
        let size = bytes.len() as u64;
        Archive::over(path, Box::new(bytes), size)
    }

    fn over(path: &Path, reader: Box<dyn ReaderAt>, size: u64) -> Result<Archive, FileError> {
        let refused = |error: rawzip::Error| FileError::format(path, format!("not an npz archive ({error})"));
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        let zip = ZipLocator::new().locate_in_reader(reader, &mut buffer, size);
        let zip = zip.map_err(|(_, error)| refused(error))?;
        let mut members = Vec::new();
        // Names have at most 2^16 bytes, extra fields too.
        let mut own = vec![0; 1 << 17];
        let (mut entries, mut count) = (zip.entries(&mut buffer), 0);
        while let Some(entry) = entries.next_entry().map_err(refused)? {
            count += 1;
            let named = entry.file_path();
            let name = String::from_utf8_lossy(named.as_ref());
            let local = zip.get_entry(entry.wayfinder()).map_err(refused)?;
            if local.local_header(&mut own).map_err(refused)?.file_path().as_ref() != named.as_ref() {
                let problem =
                    format!("the archive is damaged: its directory and the header of `{name}` differ");
                return Err(FileError::format(path, problem));
            }
            members.extend(name.strip_suffix(".npy").map(|name| Member {
                name: name.to_string(),
                method: entry.compression_method(),
                encrypted: entry.flags().is_encrypted(),
                wayfinder: entry.wayfinder(),
            }));
        }
        if count != zip.entries_hint() {
            let promised = zip.entries_hint();
            let problem = format!("not an npz archive ({count} members in a directory of {promised})");
            return Err(FileError::format(path, problem));
        }
        members.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(twice) = members.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(FileError::format(path, format!("the array `{}` is there twice", twice[0].name)));
        }
        Ok(Archive { path: path.to_path_buf(), zip, members })
    }

    /// The arrays' names, sorted.
    pub fn names(&self) -> Vec<String> {
        self.members.iter().map(|member| member.name.clone()).collect()
    }

    /// Reads the shape of an array, slowest first, and nothing of its elements.
    ///
    /// # Errors
    /// No such array, or a header that is not as it should be.
    pub fn shape(&self, name: &str) -> Result<Vec<usize>, FileError> {
        let shape =
            self.member(name).and_then(|member| Ok(self.header(member, &mut self.contents(member)?)?.shape));
        shape.map_err(|problem| self.error(name, problem))
    }

    /// Bytes that an array will take once it is read.
    ///
    /// # Errors
    /// As of [`Archive::shape`].
    pub fn bytes(&self, name: &str) -> Result<u64, FileError> {
        let header = self.member(name).and_then(|member| self.header(member, &mut self.contents(member)?));
        header.map(|h| elements::held(&h)).map_err(|problem| self.error(name, problem))
    }

    /// Reads an array, into C order.
    ///
    /// # Errors
    /// No such array, or one that is not whole.
    pub fn read(&self, name: &str) -> Result<NamedArray, FileError> {
        let read = self.member(name).and_then(|member| self.read_member(member));
        read.map_err(|problem| self.error(name, problem))
    }

    /// Reads every array.
    ///
    /// # Errors
    /// An array that is not whole.
    pub fn read_all(&self) -> Result<Vec<NamedArray>, FileError> {
        self.members.iter().map(|member| self.read(&member.name)).collect()
    }

    fn member(&self, name: &str) -> Result<&Member, MemberError> {
        self.members.iter().find(|member| member.name == name).ok_or(MemberError::Missing)
    }

    fn read_member(&self, member: &Member) -> Result<NamedArray, MemberError> {
        let mut npy = self.contents(member)?;
        let header = self.header(member, &mut npy)?;
        let data = elements::read(&mut npy, &header)?;
        // Here both compare the checksum, if they have not yet: there must be no byte more.
        let _ = npy.read(&mut [0])?;
        npy.into_inner().finish()?;
        Ok(NamedArray { name: member.name.clone(), shape: header.shape, data })
    }

    /// The header of a member, whose size and shape agree.
    fn header(&self, member: &Member, npy: &mut impl Read) -> Result<Header, MemberError> {
        let header = Header::read(npy)?;
        let held = member.wayfinder.uncompressed_size_hint().saturating_sub(header.start as u64);
        if header.bytes as u64 != held {
            let (shape, dtype, expected) = (header.shape, header.element.name, header.bytes);
            return Err(MemberError::Size { shape, dtype, expected, held });
        }
        Ok(header)
    }

    /// The uncompressed bytes of a member, from its first on.
    fn contents(&self, member: &Member) -> Result<ZipVerifier<Bytes<'_>>, MemberError> {
        let entry = self.zip.get_entry(member.wayfinder)?;
        let packed = member.wayfinder.compressed_size_hint();
        let size = member.wayfinder.uncompressed_size_hint();
        let possible = match member.method {
            CompressionMethod::STORE => packed == size,
            CompressionMethod::DEFLATE => size <= packed.saturating_mul(MOST_INFLATED),
            other => return Err(MemberError::Method(other.as_u16())),
        };
        if member.encrypted {
            return Err(MemberError::Method(member.method.as_u16()));
        }
        if !possible {
            return Err(MemberError::Damaged(format!("{size} bytes cannot come of {packed}")));
        }
        let bytes = match member.method {
            CompressionMethod::STORE => Bytes::Stored(entry.reader()),
            _ => Bytes::Deflated(DeflateDecoder::new(entry.reader()), packed),
        };
        Ok(entry.verifying_reader(bytes))
    }

    fn error(&self, name: &str, problem: MemberError) -> FileError {
        FileError::Array { path: self.path.clone(), array: name.to_string(), problem }
    }
}

/// The contents of a member, uncompressed on the way.
#[allow(clippy::borrowed_box, reason = "the archive owns a box, and entries borrow what it owns")]
enum Bytes<'a> {
    Stored(ZipReader<&'a Box<dyn ReaderAt>>),
    /// With the number of bytes that it must end with.
    Deflated(DeflateDecoder<ZipReader<&'a Box<dyn ReaderAt>>>, u64),
}

impl Bytes<'_> {
    /// Fails if there are compressed bytes left.
    fn finish(self) -> Result<(), MemberError> {
        match self {
            Bytes::Deflated(decoder, packed) if decoder.total_in() != packed => {
                let said = format!("its contents end after {} of {packed} bytes", decoder.total_in());
                Err(MemberError::Damaged(said))
            }
            _ => Ok(()),
        }
    }
}

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Bytes::Stored(reader) => reader.read(buffer),
            Bytes::Deflated(reader, _) => reader.read(buffer),
        }
    }
}

#[cfg(test)]
mod tests;
