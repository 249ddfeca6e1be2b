//! Failures: a status code, and a text that is kept per thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use sumsq::codegen::runtime::cuda::CudaError;
use sumsq::codegen::runtime::{BufferError, FloatEnvironment};
use sumsq::energy::EnergyError;
use sumsq::{DataError, OptionError, SolveError, energy};

/// `sumsq_status` of the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// A null pointer, an unknown name or enumerator, a number out of range, text that is not UTF-8.
    Argument = 1,
    /// An energy that cannot be read or is wrong.
    Energy = 2,
    /// Numbers that do not fit the energy.
    Data = 3,
    /// A back end that is not there.
    Backend = 4,
    /// The energy, or a derivative, is not finite at the start.
    NotFinite = 5,
    /// A function called out of order, or from within a callback.
    State = 6,
    /// The engine failed: a defect of sumsq.
    Internal = 7,
    /// A GPU that was there failed.
    Device = 8,
    /// A pointer that a GPU cannot use.
    Pointer = 9,
}

/// A failure as a C caller is told it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The kind.
    pub status: Status,
    /// The message.
    pub message: String,
}

/// The result of everything behind the boundary.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
    }

    pub fn argument(message: impl Into<String>) -> Failure {
        Failure::new(Status::Argument, message)
    }

    pub fn data(message: impl Into<String>) -> Failure {
        Failure::new(Status::Data, message)
    }

    pub fn state(message: impl Into<String>) -> Failure {
        Failure::new(Status::State, message)
    }
}

impl From<EnergyError> for Failure {
    /// The message with the line of the file and a caret under the culprit.
    fn from(error: EnergyError) -> Failure {
        Failure::new(Status::Energy, error.rendered())
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Failure {
        Failure::new(of_data(&error), error.to_string())
    }
}

impl From<CudaError> for Failure {
    fn from(error: CudaError) -> Failure {
        Failure::new(of_device(&error), error.to_string())
    }
}

impl From<BufferError> for Failure {
    fn from(error: BufferError) -> Failure {
        match error {
            BufferError::Device(error) => error.into(),
            error => Failure::new(Status::Internal, error.to_string()),
        }
    }
}

impl From<SolveError> for Failure {
    fn from(error: SolveError) -> Failure {
        let status = match &error {
            SolveError::Engine(_) => Status::Internal,
            SolveError::Backend(error) => of_device(error),
            SolveError::Target(_) => Status::Backend,
            SolveError::Energy(error) => return Failure::new(Status::Energy, error.rendered()),
            SolveError::InitialNotFinite { .. } | SolveError::DerivativeNotFinite(_) => Status::NotFinite,
            SolveError::Data(error) => of_data(error),
            SolveError::Buffer { .. } | SolveError::Bounds(_) => Status::Data,
            SolveError::Memory { .. } | SolveError::Lists { .. } => Status::Data,
            SolveError::Option(_) | SolveError::Threads { .. } => Status::Argument,
            _ => Status::Internal,
        };
        Failure::new(status, error.to_string())
    }
}

/// The status of numbers that do not fit.
fn of_data(error: &DataError) -> Status {
    if let DataError::Pointer { .. } = error { Status::Pointer } else { Status::Data }
}

/// The status of a failure of a GPU: it is not there, it lacks memory, or it was there and failed.
fn of_device(error: &CudaError) -> Status {
    match error {
        CudaError::Unavailable(_) | CudaError::NoSuchDevice { .. } => Status::Backend,
        CudaError::Memory { .. } => Status::Data,
        CudaError::Pointer(_) => Status::Pointer,
        _ => Status::Device,
    }
}

impl From<OptionError> for Failure {
    fn from(error: OptionError) -> Failure {
        Failure::argument(error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps `message` as this thread's last error.
pub fn keep(message: &str) {
    // An interior NUL would end the text for C anyway.
    let text = message.split('\0').next().unwrap_or_default();
    LAST.with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
}

/// This thread's last error, valid until the next one is kept; empty if there was none.
pub fn last() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}

/// Runs `f` so that nothing unwinds into C, in the standard floating-point environment; a failure is kept as the last error.
pub fn guarded<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    let _standard = FloatEnvironment::standard();
    // What a panic may leave half done sits behind handles that the caller can only free or use as they are; every field of theirs
    // stays valid memory.
    let done = catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Failure::new(Status::Internal, format!("a defect of sumsq: {text}")))
    });
    done.inspect_err(|failure| keep(&failure.message))
}

/// Text from C.
///
/// # Safety
/// `text` is null or points to a NUL-terminated string that outlives the result.
pub unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(Failure::argument(format!("{what} is a null pointer")));
    }
    // SAFETY: not null, and NUL-terminated by the contract.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// Loads an energy file that may take so much.
pub fn load(path: &str, budgets: energy::Budgets) -> Result<energy::Energy> {
    Ok(energy::Energy::from_file_within(Path::new(path), budgets, |_| ())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the last error as C does.
    fn said(at: *const c_char) -> String {
        // SAFETY: of `last`, and nothing was kept since by this thread.
        unsafe { CStr::from_ptr(at) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn the_last_error_stays_until_the_thread_keeps_another() {
        assert_eq!(said(last()), "");
        keep("the first\0and what C does not see");
        let first = last();
        std::thread::spawn(|| keep("of another thread")).join().unwrap();
        assert_eq!(said(first), "the first");
        keep("the second, which is longer");
        assert_eq!(said(last()), "the second, which is longer");
    }

    #[test]
    fn a_panic_is_a_failure() {
        let done = guarded(|| -> Result<()> { panic!("no {}", "way") });
        assert_eq!(done.unwrap_err().status, Status::Internal);
        assert_eq!(said(last()), "a defect of sumsq: no way");
    }

    #[test]
    fn text_of_c_ends_at_its_nul() {
        // As long as it must be, and no longer.
        let bytes = b"W\xc3\xa4\0".to_vec().into_boxed_slice();
        // SAFETY: NUL-terminated, or null.
        let read = |at: *const u8| unsafe { text(at.cast(), "the name") };
        assert_eq!(read(bytes.as_ptr()).unwrap(), "W\u{e4}");
        assert_eq!(read(bytes[3..].as_ptr()).unwrap(), "");
        assert_eq!(read(std::ptr::null()).unwrap_err().message, "the name is a null pointer");
        assert_eq!(read(bytes[2..].as_ptr()).unwrap_err().message, "the name is not UTF-8");
    }
}
