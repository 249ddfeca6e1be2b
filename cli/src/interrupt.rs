//! Ctrl-C: the first one ends the solve, a second one the process.

use crate::failure::INTERRUPTED;
use signal_hook::consts::SIGINT;
use signal_hook::flag::{register, register_conditional_shutdown};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use sumsq::Cancel;

/// The request that the first Ctrl-C from now on makes. Where the system refuses to tell of it, it ends the process as ever.
pub fn request() -> Option<Cancel> {
    let pressed = Arc::new(AtomicBool::new(false));
    // In this order the first one finds the flag unset.
    register_conditional_shutdown(SIGINT, INTERRUPTED.into(), pressed.clone()).ok()?;
    register(SIGINT, pressed.clone()).ok()?;
    Some(pressed.into())
}
