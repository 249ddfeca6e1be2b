//! Texts of codes: neither counted nor made to fail, as a program asks for them about a failure.

use crate::raw::Out;
use crate::status::{INVALID_VALUE, SUCCESS, Status, texts};
use std::ffi::c_char;

/// `cuGetErrorName` of the driver.
// SAFETY: no other library of the process defines the name, but for the one that this one stands for.
#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(code: Status, text: Out<*const c_char>) -> Status {
    give(texts(code).map(|t| t.0), text)
}

/// `cuGetErrorString` of the driver.
// SAFETY: no other library of the process defines the name, but for the one that this one stands for.
#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorString(code: Status, text: Out<*const c_char>) -> Status {
    give(texts(code).map(|t| t.1), text)
}

fn give(found: Option<&'static str>, text: Out<*const c_char>) -> Status {
    let pointer = found.map_or(std::ptr::null(), |t| t.as_ptr().cast());
    match text.put(pointer) {
        Ok(()) if found.is_some() => SUCCESS,
        _ => INVALID_VALUE,
    }
}
