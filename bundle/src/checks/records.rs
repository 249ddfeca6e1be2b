//! Results of kernels, written by two processes, one on the driver and one on the interpreter, and compared.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// A file of results being written: per kernel a line `NAME WIDTH BYTES`, then the bytes. Beside it lies the list of all kernels that have
/// begun: a process that goes on where another one broke off leaves these out.
pub struct Records {
    file: File,
    begun: File,
    before: HashSet<String>,
    /// Folder for the text of kernels.
    ptx: PathBuf,
}

/// The results of one kernel.
#[derive(Debug, PartialEq)]
pub struct Record {
    /// Its name, without blanks.
    pub name: String,
    /// Bytes of an element.
    pub width: usize,
    /// Elements one after the other.
    pub bytes: Vec<u8>,
}

impl Records {
    /// Goes on with a file, or begins one; makes a folder for PTX if need be.
    pub fn open(path: &Path, ptx: &Path) -> io::Result<Records> {
        std::fs::create_dir_all(ptx)?;
        let list = path.with_extension("begun");
        let before = std::fs::read_to_string(&list).unwrap_or_default().lines().map(String::from).collect();
        let append = |path: &Path| File::options().create(true).append(true).open(path);
        Ok(Records { file: append(path)?, begun: append(&list)?, before, ptx: ptx.to_path_buf() })
    }

    /// Says what runs next, so that it is known if it comes to nothing, and keeps its text; false if it has begun before.
    #[must_use]
    pub fn begin(&mut self, name: &str, ptx: &str) -> bool {
        if self.before.contains(name) {
            return false;
        }
        println!("{name}");
        let path = self.ptx.join(format!("{name}.ptx"));
        let kept = std::fs::write(&path, ptx).and_then(|()| writeln!(self.begun, "{name}"));
        kept.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        true
    }

    /// Adds the results of what has begun.
    pub fn add(&mut self, name: &str, width: usize, bytes: &[u8]) {
        let head = format!("{name} {width} {}\n", bytes.len());
        let written = self.file.write_all(&[head.as_bytes(), bytes].concat());
        written.unwrap_or_else(|e| panic!("{name}: its results cannot be written: {e}"));
    }
}

/// Reads a file as far as it is whole.
pub fn read(path: &Path) -> io::Result<Vec<Record>> {
    let mut file = BufReader::new(File::open(path)?);
    let mut all = vec![];
    loop {
        let mut line = String::new();
        file.read_line(&mut line)?;
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, width, bytes] = fields[..] else { return Ok(all) };
        let (Ok(width), Ok(bytes)) = (width.parse(), bytes.parse::<usize>()) else { return Ok(all) };
        let mut record = Record { name: name.to_string(), width, bytes: vec![0; bytes] };
        if file.read_exact(&mut record.bytes).is_err() {
            return Ok(all);
        }
        all.push(record);
    }
}

/// Differences of two lists of results, a sentence each: the device's against the interpreter's.
pub fn differences(device: &[Record], interpreter: &[Record]) -> Vec<(String, String)> {
    let mut all = vec![];
    for expected in interpreter {
        let Some(came) = device.iter().find(|r| r.name == expected.name) else {
            all.push((expected.name.clone(), "the device has no results".to_string()));
            continue;
        };
        if let Some(words) = difference(came, expected) {
            all.push((expected.name.clone(), words));
        }
    }
    let unknown = device.iter().filter(|r| interpreter.iter().all(|e| e.name != r.name));
    all.extend(unknown.map(|r| (r.name.clone(), "the interpreter has no results".to_string())));
    all
}

fn difference(came: &Record, expected: &Record) -> Option<String> {
    if came.bytes.len() != expected.bytes.len() {
        return Some(format!("{} bytes, not {}", came.bytes.len(), expected.bytes.len()));
    }
    let hex = |bytes: &[u8]| bytes.iter().rev().map(|b| format!("{b:02x}")).collect::<String>();
    let pairs = came.bytes.chunks(came.width).zip(expected.bytes.chunks(came.width));
    let mut wrong = pairs.enumerate().filter(|(_, (c, e))| c != e);
    let (at, (c, e)) = wrong.next()?;
    let others = wrong.count();
    Some(format!("element {at} is {}, not {}; {others} others differ, too", hex(c), hex(e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_the_first_element() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bits");
        let write = |file: &str, all: &[(&str, [u8; 8])]| {
            let path = folder.path().join(file);
            let mut records = Records::open(&path, folder.path()).unwrap();
            for (name, bytes) in all {
                assert!(records.begin(name, "text"));
                records.add(name, 4, bytes);
            }
            read(&path).unwrap()
        };
        let one = [1, 0, 0, 0, 2, 0, 0, 0];
        let expected = write("expected", &[("a", one), ("b", one), ("c", one)]);
        assert!(differences(&expected, &expected).is_empty());
        let came = write("bits", &[("a", one), ("b", [1, 0, 0, 0, 2, 0, 0, 0x80]), ("d", one)]);
        let text = |words: &str| words.to_string();
        assert_eq!(
            differences(&came, &expected),
            [
                (text("b"), text("element 1 is 80000002, not 00000002; 0 others differ, too")),
                (text("c"), text("the device has no results")),
                (text("d"), text("the interpreter has no results")),
            ]
        );
        // A process that was ended has written half of its last results.
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        assert_eq!(read(&path).unwrap().len(), 2);
        let mut on = Records::open(&path, folder.path()).unwrap();
        assert_eq!(["a", "d", "e"].map(|name| on.begin(name, "text")), [false, false, true]);
    }
}
