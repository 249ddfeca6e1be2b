//! Functions by which tests steer the library in their own process; [`crate::Control`] calls them.

use crate::counters::Counters;
use crate::driver::driver;
use crate::raw::{In, Out};
use crate::status::{INVALID_VALUE, SUCCESS, Status};
use std::ffi::c_char;

/// Changes a setting, named without its prefix.
// SAFETY: the name is this project's own.
#[unsafe(no_mangle)]
pub extern "C" fn sumsq_libcuda_configure(name: In<c_char>, value: In<c_char>) -> Status {
    let (Ok(name), Ok(value)) = (name.text(), value.text()) else { return INVALID_VALUE };
    driver().configure(&name, &value).err().unwrap_or(SUCCESS)
}

/// The counts with what is held now.
// SAFETY: the name is this project's own.
#[unsafe(no_mangle)]
pub extern "C" fn sumsq_libcuda_counters(counters: Out<Counters>) {
    counters.offer(driver().counts());
}

/// Sets the counts to zero.
// SAFETY: the name is this project's own.
#[unsafe(no_mangle)]
pub extern "C" fn sumsq_libcuda_reset() {
    driver().counters = Counters::default();
}
