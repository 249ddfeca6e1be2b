//! `sumsq demo`.

use crate::args::DemoArgs;
use crate::failure::Failure;
use std::process::ExitCode;

pub fn run(_args: &DemoArgs) -> Result<ExitCode, Failure> {
    unimplemented!()
}
