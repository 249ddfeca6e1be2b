//! `libpipelines.so` and `libgradients.so`: Halide's side of the image pipelines and of gradients (`peers/halide/`), loaded into this process.

use super::pipeline_arrays::{Argument, Array, Elements, with_elements};
use libloading::Library;
use std::error::Error;
use std::ffi::{CStr, c_char, c_double, c_int, c_void};
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use sumsq::codegen::runtime::Buffer;

/// Dimensions at most of an array; as in `peers/halide/library.cc`.
const DIMENSIONS: usize = 6;

/// Characters at most of a reason in a report: Halide's may show whole expressions.
const LONGEST: usize = 160;

/// As `PipelineArgument` there: an array that is lent, or with rank -1 the address of a scalar.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawArgument<'a> {
    data: *mut c_void,
    code: i32,
    bits: i32,
    rank: i32,
    min: [i32; DIMENSIONS],
    extent: [i32; DIMENSIONS],
    stride: [i32; DIMENSIONS],
    lent: PhantomData<&'a Buffer>,
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

type Run = unsafe extern "C" fn(*const RawEntry, *const RawArgument<'_>, c_int) -> c_int;

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

/// Schedules that Halide did not compile for the library `name`, in the order of names.
///
/// # Errors
/// Files cannot be read.
pub fn refused(name: &str) -> Result<Vec<Refused>, Box<dyn Error>> {
    let folder = peers()?.join(name);
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

/// All that the library `name` has; it runs with so many threads.
///
/// # Errors
/// It is not built.
pub fn load(name: &str, threads: usize) -> Result<Vec<Compiled>, Box<dyn Error>> {
    let path = peers()?.join(format!("lib{name}.so"));
    if !path.is_file() {
        return Err(format!("{} is missing: run `cargo xtask setup --peers`", path.display()).into());
    }
    // SAFETY: loading it runs the initialisers of Halide's runtime alone. It stays loaded to the end: its table is referred to.
    let library = Box::leak(Box::new(unsafe { Library::new(&path) }?));
    // SAFETY: the functions of `peers/halide/library.cc`, with their types.
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
        let raw: Vec<RawArgument<'_>> = arguments.iter_mut().map(raw).collect();
        self.call(&raw)
    }

    /// The same, where they lie elsewhere.
    ///
    /// # Errors
    /// As for [`Compiled::run`].
    pub fn call(&self, raw: &[RawArgument<'_>]) -> Result<(), String> {
        // SAFETY: the entry is of the library; the arguments live during the call and are those of the application, whose sizes and types
        // the code checks before it uses them.
        let code = unsafe { (self.run)(self.entry, raw.as_ptr(), raw.len() as c_int) };
        match code {
            0 => Ok(()),
            code => Err(format!("Halide refused {} under {}: code {code}", self.application, self.schedule)),
        }
    }
}

impl<'a> RawArgument<'a> {
    /// A buffer of floats of single precision, where it lies.
    pub fn of(buffer: &'a Buffer) -> RawArgument<'a> {
        let spec = buffer.spec();
        let strides: Vec<i32> = buffer.strides().iter().map(|&stride| stride as i32).collect();
        array(buffer.plane_ptr(0), (2, 32), [&spec.min, &spec.extents, &strides])
    }

    /// The same array with one more dimension: dimension `d` in runs of `inner`. Coordinates there begin at 0.
    pub fn split(mut self, d: usize, inner: i32) -> RawArgument<'a> {
        for list in [&mut self.min, &mut self.extent, &mut self.stride] {
            list.copy_within(d..DIMENSIONS - 1, d + 1);
        }
        self.rank += 1;
        self.extent[d] = inner;
        self.extent[d + 1] /= inner;
        self.stride[d + 1] *= inner;
        self
    }
}

/// An array: its type as Halide's code and bits; first coordinates, extents and strides.
fn array<'a>(data: *mut c_void, (code, bits): (i32, i32), lists: [&[i32]; 3]) -> RawArgument<'a> {
    let [min, extent, stride] = lists.map(|list| std::array::from_fn(|d| list.get(d).copied().unwrap_or(0)));
    let rank = lists[1].len() as i32;
    RawArgument { data, code, bits, rank, min, extent, stride, lent: PhantomData }
}

fn raw(argument: &mut Argument) -> RawArgument<'_> {
    let scalar = |data: *mut c_void| RawArgument { rank: -1, ..array(data, (0, 0), [&[]; 3]) };
    match argument {
        Argument::Whole(_, v) => scalar(std::ptr::from_mut(v).cast()),
        Argument::Real(_, v) => scalar(std::ptr::from_mut(v).cast()),
        Argument::Input(array) | Argument::Output(array) => raw_array(array),
    }
}

fn raw_array(of: &mut Array) -> RawArgument<'_> {
    // Halide's codes: 0 signed, 1 unsigned, 2 floating point.
    let ty = match &of.elements {
        Elements::U8(_) => (1, 8),
        Elements::U16(_) => (1, 16),
        Elements::I32(_) => (0, 32),
        Elements::F32(_) => (2, 32),
    };
    let strides: Vec<i32> = of.strides().into_iter().map(|s| s as i32).collect();
    let data = with_elements!(&mut of.elements, v => v.as_mut_ptr().cast());
    array(data, ty, [&of.min, &of.extents, &strides])
}

#[cfg(test)]
mod tests {
    use super::*;
    use sumsq::codegen::ScalarType;
    use sumsq::codegen::runtime::BufferSpec;

    #[test]
    fn arrays_are_lent_with_a_dimension_in_runs() {
        let b = Buffer::new(BufferSpec::new(ScalarType::F32, &[5, 12, 7]).starting_at(&[3, 0, 2])).unwrap();
        let strides: Vec<i32> = b.strides().iter().map(|&s| s as i32).collect();
        let raw = RawArgument::of(&b).split(1, 4);
        assert_eq!(raw.rank, 4);
        assert_eq!(raw.min[..4], [3, 0, 0, 2]);
        assert_eq!(raw.extent[..4], [5, 4, 3, 7]);
        assert_eq!(raw.stride[..4], [strides[0], strides[1], 4 * strides[1], strides[2]]);
    }

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
