//! NumPy archives: stored or compressed, either byte order, C or Fortran order.
//!
//! An array's shape and size are checked against the archive before memory is taken for it, and only arrays that are
//! asked for are read.

use super::{FileError, save};
use npyz::zip::{CompressionMethod, write::FileOptions};
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar, TypeStr, WriterBuilder, npz::NpzWriter};
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use sumsq::{ArrayData, NamedArray};

/// An open archive.
pub struct Archive {
    path: PathBuf,
    npz: npyz::npz::NpzArchive<BufReader<File>>,
}

impl Archive {
    /// Opens an archive; reads its directory only.
    pub fn open(path: &Path) -> Result<Archive, FileError> {
        let file = File::open(path).map_err(|source| FileError::read(path, source))?;
        match npyz::npz::NpzArchive::new(BufReader::new(file)) {
            Ok(npz) => Ok(Archive { path: path.to_path_buf(), npz }),
            Err(error) => Err(FileError::format(path, format!("not an npz archive ({error})"))),
        }
    }

    /// The arrays' names, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.npz.array_names().map(str::to_string).collect();
        names.sort();
        names
    }

    /// Reads one array, into C order.
    pub fn read(&mut self, name: &str) -> Result<NamedArray, FileError> {
        let file = npyz::npz::file_name_from_array_name(name);
        let entry = self.npz.zip_archive().by_name(&file);
        let read = match entry {
            Ok(mut entry) => {
                let size = entry.size();
                read_npy(&mut entry, size)
            }
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok((shape, data)) => Ok(NamedArray { name: name.to_string(), shape, data }),
            Err(problem) => {
                Err(FileError::Array { path: self.path.clone(), array: name.to_string(), problem })
            }
        }
    }

    /// Reads every array.
    pub fn read_all(&mut self) -> Result<Vec<NamedArray>, FileError> {
        self.names().iter().map(|name| self.read(name)).collect()
    }
}

/// Reads a `.npy` of `size` bytes.
fn read_npy(npy: &mut impl Read, size: u64) -> Result<(Vec<usize>, ArrayData), String> {
    let head = read_head(npy).map_err(|error| format!("not a .npy ({error})"))?;
    let header = parse_head(&head)?;
    let element = Element::of(&header.dtype())?;
    let shape: Vec<usize> = header.shape().iter().map(|&n| n as usize).collect();
    let expected = element.size as u64 * header.shape().iter().product::<u64>();
    let held = size.saturating_sub(head.len() as u64);
    if expected != held {
        return Err(format!(
            "shape {shape:?} of {} needs {expected} bytes, the file holds {held}",
            element.name
        ));
    }
    // The archive's directory may lie about the size too: the buffer grows as bytes really come.
    let mut bytes = Vec::with_capacity(expected.min(1 << 26) as usize);
    npy.take(expected).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 != expected {
        return Err(format!("ends after {} of {expected} bytes", bytes.len()));
    }
    let fortran = header.order() == Order::Fortran;
    let data =
        if fortran { element.decode(&bytes, c_order(&shape))? } else { element.decode(&bytes, |i| i)? };
    Ok((shape, data))
}

/// Magic, version, length and the dictionary of a `.npy`.
fn read_head(npy: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = vec![0; 8];
    npy.read_exact(&mut head)?;
    if &head[..6] != b"\x93NUMPY" {
        return Err(io::Error::other("no NUMPY magic"));
    }
    let width = if head[6] == 1 { 2 } else { 4 };
    let mut length = [0; 4];
    npy.read_exact(&mut length[..width])?;
    head.extend_from_slice(&length[..width]);
    let length = u64::from(u32::from_le_bytes(length));
    if length > 1 << 20 {
        return Err(io::Error::other("a header of more than 1 MiB"));
    }
    npy.take(length).read_to_end(&mut head)?;
    Ok(head)
}

/// npyz multiplies extents without a check for overflow, so no header with absurd numbers may reach it.
fn parse_head(head: &[u8]) -> Result<NpyHeader, String> {
    let text = String::from_utf8_lossy(&head[8..]);
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let product = numbers.map(|digits| digits.parse::<u64>().ok()).try_fold(1u64, |product, number| {
        product.checked_mul(number?.max(1)).filter(|&product| product < 1 << 56)
    });
    if product.is_none() {
        return Err(format!(
            "absurd shape in {}",
            text.trim_matches(|c: char| c.is_whitespace() || c.is_control())
        ));
    }
    NpyHeader::from_reader(head).map_err(|error| error.to_string())
}

/// The place, in a Fortran-ordered file, of an element by its number in C order.
fn c_order(shape: &[usize]) -> impl Fn(usize) -> usize {
    let mut stride = 1;
    let strides = shape.iter().map(|&n| {
        let this = stride;
        stride *= n;
        (n, this)
    });
    let strides: Vec<(usize, usize)> = strides.collect();
    move |mut element| {
        let mut place = 0;
        for &(n, stride) in strides.iter().rev() {
            place += element % n * stride;
            element /= n;
        }
        place
    }
}

/// A dtype that we read.
struct Element {
    kind: Kind,
    size: usize,
    big_endian: bool,
    name: &'static str,
}

enum Kind {
    Float,
    Signed,
    Unsigned,
    Bool,
}

impl Element {
    fn of(dtype: &DType) -> Result<Element, String> {
        let refused = || match dtype {
            d if d.uses_pickled_array() => "dtype object (a pickle) is refused".to_string(),
            d => format!("dtype {} is not supported: give float32, float64, integers or bool", d.descr()),
        };
        let DType::Plain(ty) = dtype else { return Err(refused()) };
        let (kind, size, name) = kind_of(ty).ok_or_else(refused)?;
        Ok(Element { kind, size, big_endian: ty.endianness() == Endianness::Big, name })
    }

    /// All elements; `place` says where in the file each lies.
    fn decode(&self, bytes: &[u8], place: impl Fn(usize) -> usize) -> Result<ArrayData, String> {
        let words =
            (0..bytes.len() / self.size).map(|i| self.word(&bytes[place(i) * self.size..][..self.size]));
        Ok(match (&self.kind, self.size) {
            (Kind::Float, 4) => ArrayData::F32(words.map(|w| f32::from_bits(w as u32)).collect()),
            (Kind::Float, _) => ArrayData::F64(words.map(f64::from_bits).collect()),
            (Kind::Bool, _) => ArrayData::Bool(words.map(|w| w != 0).collect()),
            (Kind::Unsigned, 1) => ArrayData::Bytes(words.map(|w| w as u8).collect()),
            (Kind::Unsigned, _) => {
                let value = |w: u64| i64::try_from(w).map_err(|_| format!("the value {w} is too large"));
                ArrayData::Int(words.map(value).collect::<Result<_, _>>()?, self.name)
            }
            (Kind::Signed, size) => {
                let unused = 64 - 8 * size as u32;
                ArrayData::Int(words.map(|w| ((w << unused) as i64) >> unused).collect(), self.name)
            }
        })
    }

    /// Up to eight bytes as a number.
    fn word(&self, bytes: &[u8]) -> u64 {
        let push = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
        if self.big_endian { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) }
    }
}

fn kind_of(ty: &TypeStr) -> Option<(Kind, usize, &'static str)> {
    Some(match (ty.type_char(), ty.size_field()) {
        (TypeChar::Float, 4) => (Kind::Float, 4, "float32"),
        (TypeChar::Float, 8) => (Kind::Float, 8, "float64"),
        (TypeChar::Bool, 1) => (Kind::Bool, 1, "bool"),
        (TypeChar::Int, 1) => (Kind::Signed, 1, "int8"),
        (TypeChar::Int, 2) => (Kind::Signed, 2, "int16"),
        (TypeChar::Int, 4) => (Kind::Signed, 4, "int32"),
        (TypeChar::Int, 8) => (Kind::Signed, 8, "int64"),
        (TypeChar::Uint, 1) => (Kind::Unsigned, 1, "uint8"),
        (TypeChar::Uint, 2) => (Kind::Unsigned, 2, "uint16"),
        (TypeChar::Uint, 4) => (Kind::Unsigned, 4, "uint32"),
        (TypeChar::Uint, 8) => (Kind::Unsigned, 8, "uint64"),
        _ => return None,
    })
}

/// Writes an archive, uncompressed, C order; integers as int64.
pub fn write(path: &Path, arrays: &[NamedArray]) -> Result<(), FileError> {
    let bytes = encode(arrays).map_err(|source| FileError::write(path, source))?;
    save(path, &bytes)
}

fn encode(arrays: &[NamedArray]) -> io::Result<Vec<u8>> {
    let mut bytes = Cursor::new(Vec::new());
    let mut npz = NpzWriter::new(&mut bytes);
    for NamedArray { name, shape, data } in arrays {
        match data {
            ArrayData::F32(values) => put(&mut npz, name, shape, values)?,
            ArrayData::F64(values) => put(&mut npz, name, shape, values)?,
            ArrayData::Int(values, _) => put(&mut npz, name, shape, values)?,
            ArrayData::Bytes(values) => {
                let wide: Vec<i64> = values.iter().map(|&v| v.into()).collect();
                put(&mut npz, name, shape, &wide)?;
            }
            ArrayData::Bool(values) => put(&mut npz, name, shape, values)?,
        }
    }
    npz.zip_writer().finish()?;
    drop(npz);
    Ok(bytes.into_inner())
}

fn put<T: npyz::AutoSerialize + Copy>(
    npz: &mut NpzWriter<&mut Cursor<Vec<u8>>>,
    name: &str,
    shape: &[usize],
    values: &[T],
) -> io::Result<()> {
    let options = FileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .large_file(size_of_val(values) as u64 >= u64::from(u32::MAX) - (1 << 20));
    let shape: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
    let mut array = npz.array(name, options)?.default_dtype().shape(&shape).begin_nd()?;
    array.extend(values.iter().copied())?;
    array.finish()
}

#[cfg(test)]
mod tests;
