//! `libpipelines.so`: Halide's side of the image pipelines (`peers/halide/pipelines`), loaded into this process.

use super::pipeline_arrays::{Argument, Array, Elements, with_elements};
use libloading::Library;
use std::error::Error;
use std::ffi::{CStr, c_char, c_double, c_int, c_void};
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

/// A dimension at most of an array; as in `library/pipelines.cc`.
const DIMENSIONS: usize = 4;

/// Characters at most of a reason in a report: Halide's may show whole expressions.
const LONGEST: usize = 160;

/// As `PipelineArgument` there: an array, or with rank -1 the address of a scalar.
#[repr(C)]
struct RawArgument {
    data: *mut c_void,
    code: i32,
    bits: i32,
    rank: i32,
    min: [i32; DIMENSIONS],
    extent: [i32; DIMENSIONS],
    stride: [i32; DIMENSIONS],
}

/// As `PipelineEntry` there.
#[repr(C)]
struct RawEntry {
    application: *const c_char,
    schedule: *const c_char,
    call: *const c_void,
    seconds: c_double,
}

/// A compiled application under a schedule.
#[derive(Clone)]
pub struct Compiled {
    entry: *const RawEntry,
    run: Run,
    /// Name of the application.
    pub application: String,
    /// Name of the schedule.
    pub schedule: String,
    /// Seconds that Halide took to compile it.
    pub seconds: f64,
}

type Run = unsafe extern "C" fn(*const RawEntry, *const RawArgument, c_int) -> c_int;

/// A schedule that Halide did not compile.
#[derive(Clone, PartialEq, Debug)]
pub struct Refused {
    /// Name of the application.
    pub application: String,
    /// Name of the schedule.
    pub schedule: String,
    /// Why, in a line; empty if it is not known.
    pub reason: String,
}

/// The folder of what `cargo xtask setup --peers` makes.
fn peers() -> std::io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.ancestors().nth(2).unwrap_or(&own).join("peers"))
}

/// Schedules that Halide did not compile for the library, in the order of names.
///
/// # Errors
/// Files cannot be read.
pub fn refused() -> Result<Vec<Refused>, Box<dyn Error>> {
    let folder = peers()?.join("pipelines");
    Ok(refused_in(&folder).map_err(|e| format!("{}: {e}", folder.display()))?)
}

/// The files APPLICATION_SCHEDULE.refused of a folder.
fn refused_in(folder: &Path) -> std::io::Result<Vec<Refused>> {
    let mut all = vec![];
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((application, schedule)) = name.strip_suffix(".refused").and_then(|n| n.rsplit_once('_'))
        else {
            continue;
        };
        let reason = std::fs::read_to_string(&path)?.lines().next().unwrap_or_default().trim().to_string();
        all.push(Refused { application: application.into(), schedule: schedule.into(), reason });
    }
    all.sort_by(|a, b| (&a.application, &a.schedule).cmp(&(&b.application, &b.schedule)));
    Ok(all)
}

impl Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is left out: Halide did not compile it", self.application, self.schedule)?;
        match self.reason.char_indices().nth(LONGEST) {
            _ if self.reason.is_empty() => Ok(()),
            Some((end, _)) => write!(f, ": {}...", &self.reason[..end]),
            None => write!(f, ": {}", self.reason),
        }
    }
}

/// All that the library has; it runs with so many threads.
///
/// # Errors
/// It is not built.
pub fn load(threads: usize) -> Result<Vec<Compiled>, Box<dyn Error>> {
    let path = peers()?.join("libpipelines.so");
    if !path.is_file() {
        return Err(format!("{} is missing: run `cargo xtask setup --peers`", path.display()).into());
    }
    // SAFETY: loading it runs the initialisers of Halide's runtime alone. It stays loaded to the end: its table is referred to.
    let library = Box::leak(Box::new(unsafe { Library::new(&path) }?));
    // SAFETY: the functions of `library/pipelines.cc`, with their types.
    unsafe {
        let start = library.get::<unsafe extern "C" fn(c_int)>(b"pipelines_start\0")?;
        let table = library.get::<unsafe extern "C" fn() -> *const RawEntry>(b"pipelines\0")?;
        let run = *library.get::<Run>(b"pipelines_run\0")?;
        start(threads as c_int);
        Ok(entries(table(), run))
    }
}

/// The entries of the table, which ends with one without a name.
///
/// # Safety
/// `entry` is the library's table.
unsafe fn entries(mut entry: *const RawEntry, run: Run) -> Vec<Compiled> {
    let mut all = vec![];
    // SAFETY: names are C strings that live as long as the library; the last entry is not passed.
    unsafe {
        let text = |s: *const c_char| CStr::from_ptr(s).to_string_lossy().into_owned();
        while !(*entry).application.is_null() {
            let (application, schedule) = (text((*entry).application), text((*entry).schedule));
            all.push(Compiled { entry, run, application, schedule, seconds: (*entry).seconds });
            entry = entry.add(1);
        }
    }
    all
}

impl Compiled {
    /// Runs it on these arguments.
    ///
    /// # Errors
    /// What Halide refuses; the message is on standard error.
    pub fn run(&self, arguments: &mut [Argument]) -> Result<(), String> {
        let raw: Vec<RawArgument> = arguments.iter_mut().map(raw).collect();
        // SAFETY: the entry is of the library; the arguments live during the call and are those of the application, whose sizes and types
        // the code checks before it uses them.
        let code = unsafe { (self.run)(self.entry, raw.as_ptr(), raw.len() as c_int) };
        match code {
            0 => Ok(()),
            code => Err(format!("Halide refused {} under {}: code {code}", self.application, self.schedule)),
        }
    }
}

fn raw(argument: &mut Argument) -> RawArgument {
    let scalar = |data: *mut c_void| RawArgument {
        data,
        code: 0,
        bits: 0,
        rank: -1,
        min: [0; DIMENSIONS],
        extent: [0; DIMENSIONS],
        stride: [0; DIMENSIONS],
    };
    match argument {
        Argument::Whole(_, v) => scalar(std::ptr::from_mut(v).cast()),
        Argument::Real(_, v) => scalar(std::ptr::from_mut(v).cast()),
        Argument::Input(array) | Argument::Output(array) => raw_array(array),
    }
}

fn raw_array(array: &mut Array) -> RawArgument {
    // Halide's codes: 0 signed, 1 unsigned, 2 floating point.
    let (code, bits) = match &array.elements {
        Elements::U8(_) => (1, 8),
        Elements::U16(_) => (1, 16),
        Elements::I32(_) => (0, 32),
        Elements::F32(_) => (2, 32),
    };
    let padded = |v: &[i32]| std::array::from_fn(|d| v.get(d).copied().unwrap_or(0));
    let strides: Vec<i32> = array.strides().into_iter().map(|s| s as i32).collect();
    RawArgument {
        data: with_elements!(&mut array.elements, v => v.as_mut_ptr().cast()),
        code,
        bits,
        rank: array.extents.len() as i32,
        min: padded(&array.min),
        extent: padded(&array.extents),
        stride: padded(&strides),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_said_with_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("nl_means_Adams2019.refused", "too large\nmore\n"),
            ("blur_hand.refused", "\n"),
            ("blur_hand.o", ""),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let lines: Vec<String> = refused_in(folder.path()).unwrap().iter().map(Refused::to_string).collect();
        let expected = [
            "blur: hand is left out: Halide did not compile it",
            "nl_means: Adams2019 is left out: Halide did not compile it: too large",
        ];
        assert_eq!(lines, expected);
        let long = Refused { application: "a".into(), schedule: "b".into(), reason: "x".repeat(LONGEST + 1) };
        assert!(long.to_string().ends_with(&format!(": {}...", "x".repeat(LONGEST))));
    }
}
