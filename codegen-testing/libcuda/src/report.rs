//! The counts at the end of the process.

use crate::driver::{complain, driver};

/// Asks to be told when the process ends.
pub fn at_exit() {
    // SAFETY: the function takes nothing and returns nothing, and lives as long as the library, which is never unloaded.
    unsafe { libc::atexit(write) };
}

extern "C" fn write() {
    let driver = driver();
    let Some(path) = &driver.settings.report else { return };
    if let Err(e) = std::fs::write(path, driver.counts().text()) {
        complain(&format!("the report cannot be written to {path}: {e}"));
    }
}
