//! Pointers that C hands over: the only place that follows them.
//!
//! Each is what the driver's documentation says, or the program that calls is broken; null is answered with a code.

use crate::status::{Done, INVALID_VALUE, Status};
use std::ffi::{CStr, c_char, c_void};

/// A pointer to a place for a result.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    pub fn put(self, value: T) -> Done {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller gives a place for a value of this type.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Writes where the caller wants to know.
    pub fn offer(self, value: T) {
        let _ = self.put(value);
    }

    /// The place as one of another type.
    pub fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }
}

impl Out<c_char> {
    /// Writes a text with its zero byte, cut to `room` bytes; returns the bytes of the text written.
    pub fn put_text(self, text: &str, room: usize) -> usize {
        if self.0.is_null() || room == 0 {
            return 0;
        }
        let n = text.len().min(room - 1);
        // SAFETY: the caller gives room for that many bytes.
        unsafe {
            self.0.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), n);
            self.0.add(n).write(0);
        }
        n
    }
}

/// A pointer to values.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    pub fn get(self) -> Result<T, Status> {
        self.at(0)
    }

    /// The value at an index of an array.
    pub fn at(self, index: usize) -> Result<T, Status> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller gives at least so many values of this type; nothing says that they are aligned.
        Ok(unsafe { self.0.add(index).read_unaligned() })
    }

    /// All values of an array, which may be null where it is empty.
    pub fn all(self, count: usize) -> Result<Vec<T>, Status> {
        (0..count).map(|k| self.at(k)).collect()
    }

    pub fn address(self) -> usize {
        self.0 as usize
    }

    pub fn of(pointer: *const T) -> In<T> {
        In(pointer)
    }
}

impl In<c_char> {
    /// A text that ends in a zero byte.
    pub fn text(self) -> Result<String, Status> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller gives a string of C.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

/// Memory of the host.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host(pub usize);

impl Host {
    pub fn read(self, bytes: usize) -> Result<Vec<u8>, Status> {
        if self.0 == 0 && bytes > 0 {
            return Err(INVALID_VALUE);
        }
        if bytes == 0 {
            return Ok(vec![]);
        }
        // SAFETY: the caller lets us read that many bytes, until the copy is done.
        Ok(unsafe { std::slice::from_raw_parts(self.0 as *const u8, bytes) }.to_vec())
    }

    pub fn write(self, bytes: &[u8]) -> Done {
        if self.0 == 0 && !bytes.is_empty() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller lets us write that many bytes, until the copy is done.
        unsafe { (self.0 as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}

/// A function of the host with its argument.
#[derive(Clone, Copy)]
pub struct Callback {
    function: extern "C" fn(*mut c_void),
    data: usize,
}

impl Callback {
    pub fn new(function: Option<extern "C" fn(*mut c_void)>, data: Host) -> Result<Callback, Status> {
        Ok(Callback { function: function.ok_or(INVALID_VALUE)?, data: data.0 })
    }

    pub fn call(self) {
        (self.function)(self.data as *mut c_void);
    }
}

/// A place for a result at an address that came as a number.
pub fn out_at<T>(address: usize) -> Out<T> {
    Out(address as *mut T)
}

impl<T> Out<T> {
    pub fn pointer(self) -> *const T {
        self.0
    }
}

impl<T> In<T> {
    pub fn pointer(self) -> *const T {
        self.0
    }

    /// Address of a field of what is pointed at.
    pub fn field(self, offset: usize) -> Result<usize, Status> {
        if self.0.is_null() { Err(INVALID_VALUE) } else { Ok(self.0 as usize + offset) }
    }
}
