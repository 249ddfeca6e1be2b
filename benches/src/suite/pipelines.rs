//! Image pipelines against Halide 21, both in this process, on the same arrays: Halide's hand-made schedules and its autoschedulers'.
//! `SUMSQ_PIPELINES` names what the names of those that run contain, `SUMSQ_SCHEDULE` the file of a schedule that takes the place of theirs. Short runs are repeated.

use super::THREADS;
use super::photograph::photograph;
use super::pipeline_arrays::{Argument, Elements, Work, agree};
use super::pipeline_cases::{Case, case, names};
use super::pipeline_library::{Compiled, load, refused};
use super::pipeline_ours::ours;
use super::pipeline_summary::{Outcome, lost, summary};
use crate::harness::{Ratio, compare_within, time};
use crate::report::Report;
use crate::yardstick::stream::{Store, Stream};
use std::cell::RefCell;
use std::error::Error;
use std::time::{Duration, Instant};
use sumsq::codegen::Schedule;

/// Time for the pairs of one comparison.
const BUDGET: Duration = Duration::from_secs(20);

/// Shorter runs are repeated for so long untimed and as long timed, and their mean counts. The threads of a side have slept while the other one ran. Where
/// both cores were busy then, Linux wakes them on the one core of their caller, and parts them some milliseconds later: no matter of schedules.
const SHORT: Duration = Duration::from_millis(10);

/// Our side, and the schedule of Halide's that it must agree with.
const OURS: &str = "sumsq";
const HAND: &str = "hand";

type Failed = Box<dyn Error>;

type Run = dyn Fn(&mut [Argument]) -> Result<(), String>;

/// One side of a comparison: a name, and what runs it on arguments.
struct Side {
    name: String,
    seconds: f64,
    run: Box<Run>,
}

pub fn run() -> Result<Report, Failed> {
    let (library, refused, photograph) = (load("pipelines", THREADS)?, refused("pipelines")?, photograph()?);
    let setting = format!(
        "time of sumsq / time of Halide 21, {THREADS} threads each, the same arrays; target: below 1"
    );
    let mut report = Report::new("pipelines", setting);
    let tried = tried()?;
    report.is_partial = tried.is_some();
    let wanted = report.wanted("SUMSQ_PIPELINES");
    let bandwidth = bandwidth();
    report.fact("STREAM copy", bandwidth / 1e9, "GB/s, best of 20");
    let mut outcomes = vec![];
    for name in names().iter().filter(|name| name.contains(&wanted)) {
        refused.iter().filter(|r| r.application == *name).for_each(|r| report.note(r.to_string()));
        let mut case = case(name, photograph).ok_or_else(|| format!("{name} has no arguments"))?;
        let theirs = library.iter().filter(|c| c.application == *name).map(halide);
        let sides = sumsq(&mut case, tried.as_ref())?.into_iter().chain(theirs).collect();
        outcomes.extend(application(&mut report, case, sides, bandwidth)?);
    }
    for (name, value, unit) in summary(&outcomes, HAND) {
        report.fact(name, value, &unit);
    }
    Ok(report)
}

/// The schedule to try, in the file that `SUMSQ_SCHEDULE` names.
fn tried() -> Result<Option<Schedule>, Failed> {
    match std::env::var("SUMSQ_SCHEDULE") {
        Ok(file) if !file.is_empty() => Ok(Some(Schedule::parse(&std::fs::read_to_string(file)?)?)),
        _ => Ok(None),
    }
}

/// Our side of an application, if it has one; the inputs become as large as it reads them.
fn sumsq(case: &mut Case, schedule: Option<&Schedule>) -> Result<Option<Side>, Failed> {
    let Some(ours) = ours(case, schedule, THREADS)? else { return Ok(None) };
    ours.grow(&mut case.arguments)?;
    let seconds = ours.seconds;
    let run = move |arguments: &mut [Argument]| ours.run(arguments);
    Ok(Some(Side { name: OURS.to_string(), seconds, run: Box::new(run) }))
}

fn halide(compiled: &Compiled) -> Side {
    let (entry, seconds) = (compiled.clone(), compiled.seconds);
    let run = move |arguments: &mut [Argument]| entry.run(arguments);
    Side { name: compiled.schedule.clone(), seconds, run: Box::new(run) }
}

/// Checks that all sides agree with the first, then times them against it. What comes of it, if the first is ours.
fn application(
    report: &mut Report,
    mut case: Case,
    sides: Vec<Side>,
    bandwidth: f64,
) -> Result<Option<Outcome>, Failed> {
    let Some(first) = sides.first() else {
        report.note(format!("{}: nothing runs it", case.name));
        return Ok(None);
    };
    let mut arguments = std::mem::take(&mut case.arguments);
    let same = agreeing(report, &case, &sides, &mut arguments)?;
    let ratios = compared(report, &case.name, &same, &mut arguments);
    speeds(report, &case.name, &same, &ratios, (&mut arguments, bandwidth))?;
    if first.name != OURS {
        return Ok(None);
    }
    let medians = same[1..].iter().zip(&ratios).map(|(side, ratio)| (side.name.clone(), ratio.median));
    let times: Vec<(String, f64)> = medians.collect();
    for (schedule, median) in &times {
        lost(&case.name, schedule, *median).into_iter().for_each(|line| report.note(line));
    }
    let compile = same.iter().find(|side| side.name == HAND).map(|hand| first.seconds / hand.seconds);
    if let Some(ratio) = compile {
        report.fact(&format!("{}: {OURS} / {HAND}, compile time", case.name), ratio, "x");
    }
    Ok(Some(Outcome { times, compile }))
}

fn label(application: &str, side: &Side) -> String {
    format!("{application}: {}", side.name)
}

/// The first side and those that agree with it.
fn agreeing<'a>(
    report: &mut Report,
    case: &Case,
    sides: &'a [Side],
    arguments: &mut [Argument],
) -> Result<Vec<&'a Side>, Failed> {
    let [first, others @ ..] = sides else { return Ok(vec![]) };
    let reference = outputs(first, arguments)?;
    let mut same = vec![first];
    for side in others {
        // What an autoscheduler makes may read beyond the inputs, and is refused when it runs.
        let found = outputs(side, arguments);
        let label = label(&case.name, side);
        match found.and_then(|found| agree(&reference, &found, case.tolerance)) {
            Ok(()) => same.push(side),
            Err(e) if first.name == OURS && side.name == HAND => return Err(format!("{label}: {e}").into()),
            Err(e) => report.note(format!("{label} is left out: {e}")),
        }
    }
    Ok(same)
}

/// Ratios of the first side to each other one; in the report's first application of the first side to itself, too.
fn compared(
    report: &mut Report,
    application: &str,
    sides: &[&Side],
    arguments: &mut [Argument],
) -> Vec<Ratio> {
    let [first, others @ ..] = sides else { return vec![] };
    let is_first = report.ratios.is_empty();
    let arguments = RefCell::new(arguments);
    // It ran before: what it returns is known.
    let run = |side: &Side| drop((side.run)(&mut arguments.borrow_mut()));
    let timed = |side: &Side| steady(&mut || run(side));
    let mut ratios = vec![];
    for side in others {
        let name = format!("{application}: {} / {}", first.name, side.name);
        let ratio = compare_within(&name, &mut || timed(first), &mut || timed(side), BUDGET);
        report.ratio(ratio.clone());
        ratios.push(ratio);
    }
    if is_first {
        let name = format!("{}, against itself", label(application, first));
        report.ratio(compare_within(&name, &mut || timed(first), &mut || timed(first), BUDGET));
    }
    ratios
}

/// The time of a run: see [`SHORT`].
fn steady(run: &mut dyn FnMut()) -> Duration {
    let mut repeated = || {
        let (start, mut runs) = (Instant::now(), 0);
        while start.elapsed() < SHORT {
            run();
            runs += 1;
        }
        (start.elapsed() / runs, runs)
    };
    match repeated() {
        (seconds, 1) => seconds,
        _ => repeated().0,
    }
}

/// Numbers of each side alone; `ratios` are those of the first to the others.
fn speeds(
    report: &mut Report,
    application: &str,
    sides: &[&Side],
    ratios: &[Ratio],
    (arguments, bandwidth): (&mut [Argument], f64),
) -> Result<(), Failed> {
    let [first, ..] = sides else { return Ok(()) };
    let own = match ratios.first() {
        Some(ratio) => ratio.seconds.0,
        None => time(&mut || drop((first.run)(arguments))).as_secs_f64(),
    };
    let all = std::iter::once(own).chain(ratios.iter().map(|r| r.seconds.1));
    let work = Work::of(arguments);
    for (side, seconds) in sides.iter().zip(all) {
        let label = label(application, side);
        report.fact(&format!("{label}, speed"), work.megapixels / seconds, "MP/s");
        report.fact(&format!("{label}, over one pass"), seconds * bandwidth / work.bytes, "x");
        report.fact(&format!("{label}, compiled in"), side.seconds, "s");
        let before = page_faults();
        (side.run)(arguments)?;
        report.fact(&format!("{label}, page faults"), (page_faults() - before) as f64, "a run");
    }
    Ok(())
}

/// The outputs of a run, which finds others in their place.
fn outputs(side: &Side, arguments: &mut [Argument]) -> Result<Vec<Elements>, String> {
    for argument in arguments.iter_mut() {
        if let Argument::Output(array) = argument {
            array.spoil();
        }
    }
    (side.run)(arguments)?;
    let written =
        arguments.iter().filter_map(|a| if let Argument::Output(array) = a { Some(array) } else { None });
    Ok(written.map(|array| array.elements.clone()).collect())
}

/// STREAM copy, in bytes per second.
fn bandwidth() -> f64 {
    let mut arrays = Stream::new(1 << 26, THREADS);
    let runs = (0..20).map(|_| {
        let mut bytes = 0.0;
        let seconds = time(&mut || bytes = arrays.copy(Store::Plain)).as_secs_f64();
        bytes / seconds
    });
    runs.fold(0.0, f64::max)
}

/// Pages that this process was given so far.
fn page_faults() -> i64 {
    // SAFETY: all zeros are an `rusage`, and the call writes to it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage.ru_minflt + usage.ru_majflt
    }
}
