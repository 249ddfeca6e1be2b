//! Standard output and error: whoever reads them may have gone.

use crate::failure::Failure;
use std::io::{ErrorKind, Write};

/// Writes to standard output.
///
/// # Errors
/// Nobody reads it any more, or it takes no more.
pub fn say(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let wrote = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    wrote.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::Output(miette::miette!("cannot write to standard output: {error}")),
    })
}

/// Writes to standard error, if there is somebody who reads it.
pub fn tell(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
