//! Strings and errors across LLVM's C interface.

use inkwell::llvm_sys::core::LLVMDisposeMessage;
use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use std::ffi::{CStr, CString, c_char};

/// A C string; NUL bytes, which no name has, are dropped.
pub(crate) fn c_string(s: &str) -> CString {
    CString::new(s.replace('\0', "")).unwrap_or_default()
}

/// Copies and disposes of a string made by LLVM.
///
/// # Safety
/// `s` is null or a NUL-terminated string allocated by LLVM, not used afterwards.
pub(crate) unsafe fn take_message(s: *mut c_char) -> String {
    if s.is_null() {
        return String::new();
    }
    // SAFETY: by this function's contract.
    unsafe {
        let text = CStr::from_ptr(s).to_string_lossy().into_owned();
        LLVMDisposeMessage(s);
        text
    }
}

/// An LLVM error as a result.
///
/// # Safety
/// `error` is null (success) or an error that is ours.
pub(crate) unsafe fn check(error: LLVMErrorRef) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: by this function's contract; the message consumes the error.
    unsafe {
        let message = LLVMGetErrorMessage(error);
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(message);
        Err(text)
    }
}
