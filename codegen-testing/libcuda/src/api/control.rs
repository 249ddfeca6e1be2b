//! Functions by which tests steer the library in their own process; [`crate::Control`] calls them.

use crate::counters::{Counters, KernelCounters};
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

/// The counts of the kernels of a name; zeros where none was launched.
// SAFETY: the name is this project's own.
#[unsafe(no_mangle)]
pub extern "C" fn sumsq_libcuda_kernel_counters(name: In<c_char>, counters: Out<KernelCounters>) {
    let driver = driver();
    let found = name.text().ok().and_then(|name| driver.kernel_counters.get(&name).copied());
    counters.offer(found.unwrap_or_default());
}

/// Mends what is broken.
// SAFETY: the name is this project's own.
#[unsafe(no_mangle)]
pub extern "C" fn sumsq_libcuda_mend() {
    driver().contexts.values_mut().for_each(|context| context.broken = None);
}

/// Sets the counts to zero.
// SAFETY: the name is this project's own.
#[unsafe(no_mangle)]
pub extern "C" fn sumsq_libcuda_reset() {
    let mut driver = driver();
    driver.counters = Counters::default();
    driver.kernel_counters.clear();
}
