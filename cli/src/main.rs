//! The `sumsq` command line tool: a thin shell over the libraries.

mod args;
mod commands;
mod engine;
mod failure;
mod inputs;
mod interrupt;
mod output;
mod progress;
mod report;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Energies may nest deeply; passes over expressions are allowed to recurse on this thread.
    let worker = std::thread::Builder::new().stack_size(256 << 20).spawn(move || run(cli));
    match worker.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => {
            output::tell(&format!("cannot start a thread: {error}\n"));
            ExitCode::from(failure::BAD_INPUT)
        }
    }
}

fn run(cli: Cli) -> ExitCode {
    let done = match cli.command {
        Command::Solve(args) => commands::solve::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Show(args) => commands::show::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Pipeline(args) => commands::pipeline::run(&args),
        Command::Devices => commands::devices::run(),
    };
    match done {
        Ok(code) => code,
        Err(failure) => failure.print(),
    }
}
