//! The library seen from tests: where it lies, how a process comes to use it, how to steer it.

use crate::counters::{Counters, KernelCounters};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::sync::OnceLock;
use thiserror::Error;

/// Name of the file that cargo builds.
const FILE: &str = "libsumsq_libcuda.so";

/// The library cannot be used.
#[derive(Clone, Debug, Error)]
pub enum NotFound {
    #[error("no {FILE} beside {0} or above it: is sumsq-libcuda a dependency of the tests?")]
    File(PathBuf),
    #[error("{0} cannot be loaded: {1}")]
    Load(PathBuf, String),
    #[error("{0} cannot be made: {1}")]
    Folder(PathBuf, String),
}

/// The file of the library: cargo builds it beside the tests that depend on it.
fn file() -> Result<PathBuf, NotFound> {
    let own = std::env::current_exe().unwrap_or_default();
    let beside =
        |d: &std::path::Path| [d.join(FILE), d.join("deps").join(FILE)].into_iter().find(|f| f.is_file());
    own.ancestors().skip(1).find_map(beside).ok_or(NotFound::File(own.clone()))
}

/// Loads the library into this process, so that whoever asks for `libcuda.so` from now on is given it, and hands out its controls.
///
/// It must happen before the first use of a driver. The file is loaded by its path; later requests by name are answered with it as
/// it bears that name, also where a real driver is installed.
///
/// # Errors
/// Returns where the file was looked for, or why it cannot be loaded.
pub fn preload() -> Result<Control, NotFound> {
    static LOADED: OnceLock<Result<Control, NotFound>> = OnceLock::new();
    LOADED.get_or_init(|| load(file()?)).clone()
}

fn load(path: PathBuf) -> Result<Control, NotFound> {
    let fail = |e: libloading::Error| NotFound::Load(path.clone(), e.to_string());
    // SAFETY: the library is this crate's own; loading it runs nothing.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) }.map_err(fail)?;
    // SAFETY: the five functions are those of `api::control`, with these types.
    let control = unsafe {
        Control {
            configure: *library.get(b"sumsq_libcuda_configure\0").map_err(fail)?,
            counters: *library.get(b"sumsq_libcuda_counters\0").map_err(fail)?,
            kernel_counters: *library.get(b"sumsq_libcuda_kernel_counters\0").map_err(fail)?,
            reset: *library.get(b"sumsq_libcuda_reset\0").map_err(fail)?,
            mend: *library.get(b"sumsq_libcuda_mend\0").map_err(fail)?,
        }
    };
    // It stays loaded: its functions are called until the end.
    std::mem::forget(library);
    Ok(control)
}

/// A folder in which the library has the driver's names, for `LD_LIBRARY_PATH` of programs.
///
/// # Errors
/// Returns where the file was looked for, or why the folder cannot be made.
pub fn folder() -> Result<PathBuf, NotFound> {
    let file = file()?;
    let folder = file.with_file_name("libcuda-stand-in");
    let fail = |e: std::io::Error| NotFound::Folder(folder.clone(), e.to_string());
    std::fs::create_dir_all(&folder).map_err(fail)?;
    for name in ["libcuda.so", "libcuda.so.1"] {
        match std::os::unix::fs::symlink(&file, folder.join(name)) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(fail(e)),
            _ => {}
        }
    }
    Ok(folder)
}

/// Controls of the library in this process. Settings hold for all its threads.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    configure: extern "C" fn(*const c_char, *const c_char) -> u32,
    counters: extern "C" fn(*mut Counters),
    kernel_counters: extern "C" fn(*const c_char, *mut KernelCounters),
    reset: extern "C" fn(),
    mend: extern "C" fn(),
}

impl Control {
    /// Changes a setting, by its variable's name without `SUMSQ_LIBCUDA_`. Those of the machine need that no context is held.
    ///
    /// # Panics
    /// Panics where name or value is unknown, or the machine is in use.
    pub fn set(&self, name: &str, value: &str) {
        let text = |t: &str| CString::new(t).expect("settings hold no zero bytes");
        let (c_name, c_value) = (text(name), text(value));
        let code = (self.configure)(c_name.as_ptr(), c_value.as_ptr());
        assert_eq!(code, 0, "the setting {name}={value} is not possible");
    }

    /// Makes the `n`-th call from now on (one is the next) return a code.
    pub fn fail_call(&self, n: u64, code: u32) {
        self.set("FAIL_CALL", &format!("{n}:{code}"));
    }

    /// Lets all calls do as they are asked.
    pub fn fail_none(&self) {
        self.set("FAIL_CALL", "");
    }

    /// Counts so far, and what is held now.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        (self.counters)(&mut counters);
        counters
    }

    /// Counts of the kernels of this name.
    ///
    /// # Panics
    /// Panics where the name holds a zero byte.
    pub fn kernel_counters(&self, name: &str) -> KernelCounters {
        let (name, mut counters) =
            (CString::new(name).expect("names hold no zero bytes"), KernelCounters::default());
        (self.kernel_counters)(name.as_ptr(), &mut counters);
        counters
    }

    /// Mends contexts that a failure has broken, which no driver does: whoever looks for the smallest case that fails goes on in this process. What was
    /// asked for behind the failure stays undone.
    pub fn mend(&self) {
        (self.mend)();
    }

    /// Sets the counts to zero.
    pub fn reset_counters(&self) {
        (self.reset)();
    }
}
