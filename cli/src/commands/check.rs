//! `sumsq check`.

use crate::args::CheckArgs;
use crate::failure::Failure;
use std::process::ExitCode;

pub fn run(_args: &CheckArgs) -> Result<ExitCode, Failure> {
    unimplemented!()
}
