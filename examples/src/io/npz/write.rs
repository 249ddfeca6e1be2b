//! Writing of archives: uncompressed, C order; integers as int64, but for those of uint8 and uint16, which keep their type.

use crate::io::{FileError, save};
use std::io::{self, Write};
use std::path::Path;
use sumsq::{ArrayData, NamedArray};

/// Writes an archive.
///
/// # Errors
/// As of [`save`].
pub fn write(path: &Path, arrays: &[NamedArray]) -> Result<(), FileError> {
    let bytes = encode(arrays).map_err(|source| FileError::write(path, source))?;
    save(path, &bytes)
}

/// The bytes of an archive.
///
/// # Errors
/// A name that an archive cannot hold.
pub fn encode(arrays: &[NamedArray]) -> io::Result<Vec<u8>> {
    zipped(arrays).map_err(io::Error::other)
}

fn zipped(arrays: &[NamedArray]) -> Result<Vec<u8>, rawzip::Error> {
    let mut zip = rawzip::ZipArchiveWriter::new(Vec::new());
    for NamedArray { name, shape, data } in arrays {
        let name = format!("{name}.npy");
        let (mut entry, config) = zip.new_file(&name).start()?;
        let mut contents = config.wrap(&mut entry);
        match data {
            ArrayData::F32(values) => put(&mut contents, "<f4", shape, values, |v| v.to_le_bytes())?,
            ArrayData::F64(values) => put(&mut contents, "<f8", shape, values, |v| v.to_le_bytes())?,
            ArrayData::Int(values, "uint16") => {
                put(&mut contents, "<u2", shape, values, |v| (v as u16).to_le_bytes())?
            }
            ArrayData::Int(values, _) => put(&mut contents, "<i8", shape, values, |v| v.to_le_bytes())?,
            ArrayData::Bytes(values) => put(&mut contents, "|u1", shape, values, |v| [v])?,
            ArrayData::Bool(values) => put(&mut contents, "|b1", shape, values, |v| [u8::from(v)])?,
            ArrayData::Device(array) => {
                let values: Vec<f64> = array.to_vec().map_err(io::Error::other)?;
                put(&mut contents, "<f8", shape, &values, |v| v.to_le_bytes())?
            }
        }
        let (_, descriptor) = contents.finish()?;
        entry.finish(descriptor)?;
    }
    zip.finish()
}

/// A `.npy`, whose elements begin at a multiple of 64 bytes.
fn put<T: Copy, const N: usize>(
    out: &mut impl Write,
    descr: &str,
    shape: &[usize],
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
) -> io::Result<()> {
    let extents: String = shape.iter().map(|n| format!("{n},")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}");
    let padding = 63 - (10 + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', padding).chain(['\n']));
    let length = u16::try_from(header.len()).map_err(io::Error::other)?;
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    for piece in values.chunks(1 << 13) {
        out.write_all(&piece.iter().flat_map(|&v| bytes(v)).collect::<Vec<u8>>())?;
    }
    Ok(())
}
