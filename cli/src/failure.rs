//! Errors and exit codes.

use crate::output::tell;
use miette::Diagnostic;
use std::process::ExitCode;

/// `check` disagrees, or the solve failed.
pub const NOT_GOOD: u8 = 1;
/// Bad usage, energy, inputs or budget. (clap exits with the same code.)
pub const BAD_INPUT: u8 = 2;
/// The back end is not available.
pub const NO_BACKEND: u8 = 3;
/// An output could not be written.
pub const NOT_WRITTEN: u8 = 4;
/// `check` compared nothing of some unknown.
pub const NOT_COMPARED: u8 = 5;
/// The user ended it: 128 and the number of the signal.
pub const INTERRUPTED: u8 = 130;
/// Nobody reads standard output any more: likewise, as if the signal had ended it.
pub const UNREAD: u8 = 141;

/// Reasons for a command to end early.
#[derive(Debug)]
pub enum Failure {
    /// The user's energy, arrays or files.
    Input(miette::Report),
    /// The back end is not there.
    Backend(String),
    /// A device that was there failed.
    Device(String),
    /// An output that could not be written.
    Output(miette::Report),
    /// Nobody reads standard output any more.
    Unread,
}

impl Failure {
    /// An error whose text says it all.
    pub fn input(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
        Failure::Input(miette::Report::msg(chain(&error)))
    }

    /// An error of an output.
    pub fn output(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
        Failure::Output(miette::Report::msg(chain(&error)))
    }

    /// An error in words.
    pub fn message(text: String) -> Failure {
        Failure::Input(miette::Report::msg(text))
    }

    /// An error that can point into an energy file.
    pub fn diagnostic(error: impl Diagnostic + Send + Sync + 'static) -> Failure {
        Failure::Input(miette::Report::new(error))
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Input(_) => BAD_INPUT,
            Failure::Backend(_) => NO_BACKEND,
            Failure::Device(_) => NOT_GOOD,
            Failure::Output(_) => NOT_WRITTEN,
            Failure::Unread => UNREAD,
        }
    }

    /// Prints the error; the process ends with what is returned.
    pub fn print(&self) -> ExitCode {
        match self {
            Failure::Input(report) | Failure::Output(report) => tell(&format!("{report:?}\n")),
            Failure::Backend(message) | Failure::Device(message) => {
                tell(&format!("{:?}\n", miette::Report::msg(message.clone())))
            }
            Failure::Unread => {}
        }
        ExitCode::from(self.code())
    }
}

/// A warning, on standard error.
pub fn warn(message: &str) {
    tell(&format!("warning: {message}\n"));
}

/// The message and those of its causes that it does not already contain.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
