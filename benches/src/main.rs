//! `sumsq-bench [NAME]`: runs the benchmarks whose name contains NAME (all without it). `sumsq-bench figure` draws the README's figure,
//! `sumsq-bench gallery` its pictures of pipelines, `sumsq-bench compare OLD NEW` compares two builds of the tool. Compiled code is not
//! kept: times of compilation are true ones. Only processes of `start-once CASE`, which `start` runs, and `wide-once CASE` keep theirs where they are told.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use sumsq_benches::compare::{self, Options};
use sumsq_benches::report::results_folder;
use sumsq_benches::suite::{BENCHMARKS, start, wide};
use sumsq_benches::{figure, gallery};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, case] = &args[..]
        && let Some((_, once)) = ONCE.iter().find(|(w, _)| w == word)
    {
        return printed(once(case));
    }
    // SAFETY: no other thread is there yet.
    unsafe { std::env::set_var("SUMSQ_CACHE", "off") };
    let wanted = match &args[..] {
        [] => "",
        [name] if name == "figure" => return drawn(figure::draw()),
        [name] if name == "gallery" => return drawn(gallery::draw()),
        [name, rest @ ..] if name == "compare" => return compare(rest),
        [name] if BENCHMARKS.iter().any(|(n, _)| n.contains(name.as_str())) => name,
        _ => {
            let names: Vec<_> = BENCHMARKS.iter().map(|(n, _)| *n).collect();
            eprintln!(
                "usage: sumsq-bench [NAME]; the benchmarks are {}, figure and gallery",
                names.join(", ")
            );
            return ExitCode::from(2);
        }
    };
    let mut exit = ExitCode::SUCCESS;
    for (name, run) in BENCHMARKS.iter().filter(|(n, _)| n.contains(wanted)) {
        let report = match run() {
            Ok(report) => report,
            Err(e) => {
                eprintln!("{name}: {e}");
                exit = ExitCode::FAILURE;
                continue;
            }
        };
        if let Err(e) = report.write(&results_folder()) {
            eprintln!("{}: cannot write the results: {e}", results_folder().display());
            return ExitCode::FAILURE;
        }
    }
    exit
}

/// A process does one thing of a case, to be timed or counted from outside; it gives a number.
type Once = fn(&str) -> Result<f64, Box<dyn Error>>;

/// Words that are no benchmarks.
const ONCE: [(&str, Once); 2] = [(start::ONCE, start::once), (wide::ONCE, wide::once)];

fn printed(number: Result<f64, Box<dyn Error>>) -> ExitCode {
    match number {
        Ok(number) => {
            println!("{number}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn compare(args: &[String]) -> ExitCode {
    let Some(options) = Options::read(args) else {
        eprintln!("usage: sumsq-bench compare OLD NEW [--code] [--bits] [--times] [--steps N] [--pairs N]");
        return ExitCode::from(2);
    };
    match compare::compare(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("compare: {e}");
            ExitCode::from(2)
        }
    }
}

fn drawn(what: Result<PathBuf, Box<dyn Error>>) -> ExitCode {
    match what {
        Ok(path) => {
            println!("wrote {}", path.display());
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
