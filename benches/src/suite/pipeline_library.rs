//! `libpipelines.so`: Halide's side of the image pipelines (`peers/halide/pipelines`), loaded into this process.

use super::pipeline_arrays::{Argument, Array, Elements, with_elements};
use libloading::Library;
use std::error::Error;
use std::ffi::{CStr, c_char, c_double, c_int, c_void};

/// A dimension at most of an array; as in `library/pipelines.cc`.
const DIMENSIONS: usize = 4;

/// As `PipelineArgument` there: an array, or with rank -1 the address of a scalar.
#[repr(C)]
struct RawArgument {
    data: *mut c_void,
    code: i32,
    bits: i32,
    rank: i32,
    min: [i32; DIMENSIONS],
    extent: [i32; DIMENSIONS],
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

/// All that the library has; it runs with so many threads.
///
/// # Errors
/// It is not built.
pub fn load(threads: usize) -> Result<Vec<Compiled>, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let path = own.ancestors().nth(2).unwrap_or(&own).join("peers/libpipelines.so");
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
    RawArgument {
        data: with_elements!(&mut array.elements, v => v.as_mut_ptr().cast()),
        code,
        bits,
        rank: array.extents.len() as i32,
        min: padded(&array.min),
        extent: padded(&array.extents),
    }
}
