//! `sumsq-bundle check|bench [...]`: what the script `run` of a bundle calls, and the processes that these two start.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use sumsq::codegen::runtime::profile;
use sumsq_bundle::bench::{self, PIECES};
use sumsq_bundle::checks::{self, CHECKS, Extent, Order};

/// Minutes that measurements may take.
const MINUTES: f64 = 7.5;

const USAGE: &str = "\
usage: run check [--quick] [--stand-in] [--only NAME] [--out DIR]
       run bench [--rehearse] [--stand-in] [--only NAME] [--minutes N] [--out DIR]

  check   holds this machine's GPU against the interpreter and the reference cases; --quick: as much as the
          interpreter itself does in a minute
  bench   measures, for N (7.5) minutes at most; --rehearse: tiny sizes, for machines without a GPU
  --stand-in
          on the interpreter in place of a GPU, threads in another order
  --only  one check or measurement by name; an unknown name lists them
  --out   folder for logs and results (out)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // SAFETY: no other thread is there yet. What is checked and measured is compiled.
    unsafe { std::env::set_var("SUMSQ_CACHE", "off") };
    let Some(read) = Arguments::read(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let ready = if read.stand_in { stand_in() } else { Ok(()) };
    match ready.and_then(|()| read.run()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

/// Has this process and those that it starts use the stand-in for the driver.
fn stand_in() -> Result<(), Box<dyn std::error::Error>> {
    // SAFETY: no other thread is there yet.
    unsafe {
        std::env::set_var("LD_LIBRARY_PATH", sumsq_libcuda::folder()?);
        if std::env::var_os("SUMSQ_LIBCUDA_ORDER").is_none() {
            std::env::set_var("SUMSQ_LIBCUDA_ORDER", "77");
        }
    }
    sumsq_libcuda::preload()?;
    Ok(())
}

/// The command line.
#[derive(Default)]
struct Arguments {
    words: Vec<String>,
    out: Option<PathBuf>,
    only: Option<String>,
    side: Option<String>,
    minutes: Option<f64>,
    quick: bool,
    stand_in: bool,
}

impl Arguments {
    fn read(arguments: &[String]) -> Option<Arguments> {
        let mut read = Arguments::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--quick" | "--rehearse" => read.quick = true,
                "--stand-in" => read.stand_in = true,
                "--out" => read.out = Some(rest.next()?.into()),
                "--only" => read.only = Some(rest.next()?.clone()),
                "--side" => read.side = Some(rest.next()?.clone()),
                "--minutes" => read.minutes = Some(rest.next()?.parse().ok()?),
                option if option.starts_with('-') => return None,
                word => read.words.push(word.to_string()),
            }
        }
        (!read.words.is_empty()).then_some(read)
    }

    /// Runs what is asked for; false if something failed.
    fn run(self) -> Result<bool, Box<dyn std::error::Error>> {
        let out = self.out.unwrap_or_else(|| "out".into());
        let extent = if self.quick { Extent::Quick } else { Extent::Whole };
        match &self.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["check"] => {
                let names = CHECKS.map(|c| c.name);
                if let Some(only) = self.only.as_deref().filter(|only| !names.contains(only)) {
                    return Err(format!("no check {only}: there are {}", names.join(", ")).into());
                }
                let outcomes = checks::check(&Order { out, extent, only: self.only })?;
                Ok(outcomes.iter().all(|o| o.failure.is_none()))
            }
            ["one-check", name] => {
                let side = self.side.unwrap_or_else(|| "device".into());
                checks::child(name, &side, &Order { out, extent, only: None })?;
                Ok(true)
            }
            ["bench"] => {
                let names = PIECES.map(|p| p.name);
                if let Some(only) = self.only.as_deref().filter(|only| !names.contains(only)) {
                    return Err(format!("no measurement {only}: there are {}", names.join(", ")).into());
                }
                let time = Duration::try_from_secs_f64(60.0 * self.minutes.unwrap_or(MINUTES))?;
                bench::bench(&bench::Order { out, extent, only: self.only, time })
            }
            ["one-piece", name] => {
                bench::child(name, &bench::Order { out, extent, only: None, time: Duration::MAX })?;
                if profile::enabled() {
                    print!("{}", profile::report());
                }
                Ok(true)
            }
            _ => Err(USAGE.into()),
        }
    }
}
