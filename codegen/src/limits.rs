//! Limits of compilation: what a pipeline's code may take to be made.

use crate::error::Error;
use std::time::{Duration, Instant};

/// Most that compilation may take. LLVM's time grows with the square of a block of straight code, and it cannot be interrupted: so
/// instructions are counted before it starts. The time is looked at between passes. By default there is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// LLVM instructions of a pipeline, before optimisation.
    pub instructions: u64,
    /// The same of a block without branches.
    pub block: u64,
    /// The time when compilation began, and how long it may take.
    pub time: Option<(Instant, Duration)>,
    /// The work that LLVM spends on the code of a processor.
    pub effort: Effort,
}

/// The work that LLVM spends on the code of a processor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Effort {
    /// Code that runs fast.
    #[default]
    Full,
    /// Code that is made fast: what runs for less time than that takes, as in tests.
    Least,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { instructions: u64::MAX, block: u64::MAX, time: None, effort: Effort::Full }
    }
}

impl Limits {
    /// Fails once the time is over.
    pub(crate) fn in_time(&self, pipeline: &str) -> Result<(), Error> {
        match self.time {
            Some((began, longest)) if began.elapsed() > longest => {
                let seconds = longest.as_secs_f64();
                Err(exceeded(pipeline, &format!("compilation takes longer than {seconds} s")))
            }
            _ => Ok(()),
        }
    }

    /// Fails where a pipeline has more instructions, `block` of them in its longest block.
    pub(crate) fn admit(&self, pipeline: &str, instructions: u64, block: u64) -> Result<(), Error> {
        let over =
            |what: &str, n, most| exceeded(pipeline, &format!("{n} {what}, at most {most} may be compiled"));
        if block > self.block {
            return Err(over("instructions without a branch", block, self.block));
        }
        if instructions > self.instructions {
            return Err(over("instructions", instructions, self.instructions));
        }
        Ok(())
    }
}

fn exceeded(pipeline: &str, message: &str) -> Error {
    Error::Limit { pipeline: pipeline.into(), message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_at_their_edges() {
        let limits = Limits { instructions: 80, block: 10, ..Limits::default() };
        assert!(limits.admit("p", 80, 10).is_ok());
        for (instructions, block, said) in [
            (81, 10, "81 instructions, at most 80 may be compiled"),
            (80, 11, "11 instructions without a branch, at most 10 may be compiled"),
        ] {
            let error = limits.admit("p", instructions, block).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
