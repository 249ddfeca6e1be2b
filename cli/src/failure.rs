//! Errors and exit codes.

use miette::Diagnostic;
use std::process::ExitCode;

/// `check` disagrees, or the solve ended non-finite.
pub const NOT_GOOD: u8 = 1;
/// Bad usage, energy or inputs. (clap exits with the same code.)
pub const BAD_INPUT: u8 = 2;
/// The back end is not available.
pub const NO_BACKEND: u8 = 3;

/// Reasons for a command to end early.
#[derive(Debug)]
pub enum Failure {
    /// The user's energy, arrays or files.
    Input(miette::Report),
    /// The back end is not there.
    Backend(String),
}

impl Failure {
    /// An error whose text says it all.
    pub fn input(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
        Failure::Input(miette::Report::msg(chain(&error)))
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
        }
    }

    /// Prints the error; the process ends with what is returned.
    pub fn print(&self) -> ExitCode {
        match self {
            Failure::Input(report) => eprintln!("{report:?}"),
            Failure::Backend(message) => eprintln!("{:?}", miette::Report::msg(message.clone())),
        }
        ExitCode::from(self.code())
    }
}

/// A warning, on standard error.
pub fn warn(message: &str) {
    eprintln!("warning: {message}");
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
