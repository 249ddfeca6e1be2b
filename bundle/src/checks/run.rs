//! Runs checks, each in a process of its own, the interpreter's side of all of them meanwhile, and sums up.

use super::records::{Records, differences, read};
use super::{CHECKS, Check, Extent, Work, cases};
use crate::children::{End, Ended, own, run};
use serde_json::json;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;
use sumsq::codegen::runtime::cuda::{DeviceInfo, devices};

/// Times that the device's side of a check goes on behind what broke it off.
const RESUMED: usize = 5;

/// Differences that are printed of a check.
const SHOWN: usize = 8;

/// A run that is asked for.
#[derive(Clone, Debug)]
pub struct Order {
    /// Folder for logs, results of kernels, PTX, and the summary.
    pub out: PathBuf,
    /// Extent of the run.
    pub extent: Extent,
    /// The one check that runs.
    pub only: Option<String>,
}

/// The end of a check.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The name of the check.
    pub name: &'static str,
    /// Reason why it failed, if it did.
    pub failure: Option<String>,
    /// Seconds on the device.
    pub seconds: f64,
}

/// Runs the checks that are asked for, prints each as it ends, and writes `check.json`. An error if there is no device.
pub fn check(order: &Order) -> Result<Vec<Outcome>, Box<dyn Error>> {
    std::fs::create_dir_all(&order.out)?;
    let device = devices()?.remove(0);
    println!("{}, sm_{}, driver of CUDA {}", device.name, device.sm, device.driver);
    let wanted = |c: &&Check| match &order.only {
        Some(name) => c.name == name,
        None => c.quick || order.extent == Extent::Whole,
    };
    let wanted: Vec<&'static Check> = CHECKS.iter().filter(wanted).collect();
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let twins: Vec<_> = wanted.iter().map(|c| twin(scope, c, order, &device)).collect();
        wanted.iter().zip(twins).map(|(c, twin)| one(c, order, twin)).collect()
    });
    let failed = outcomes.iter().filter(|o| o.failure.is_some()).count();
    println!("{} checks, {failed} failed", outcomes.len());
    let list = outcomes.iter().map(|o| json!({"name": o.name, "failure": o.failure, "seconds": o.seconds}));
    let summary = json!({
        "device": device.name, "sm": device.sm, "driver": device.driver.to_string(), "memory": device.memory,
        "checks": list.collect::<Vec<_>>(),
    });
    std::fs::write(order.out.join("check.json"), format!("{summary:#}\n"))?;
    Ok(outcomes)
}

/// Runs one check in this process, for [`check`]. It panics if the check fails.
pub fn child(name: &str, side: &str, order: &Order) -> Result<(), Box<dyn Error>> {
    let check = Check::find(name).ok_or_else(|| format!("there is no check {name}"))?;
    match check.work {
        Work::Plain(work) => work(order.extent),
        Work::Case(name) => cases::case(name, order.extent),
        Work::Recorded(work) => {
            let mut records = Records::open(&bits(order, name, side), &texts(order, name))?;
            work(&mut records, order.extent);
        }
    }
    Ok(())
}

fn bits(order: &Order, name: &str, side: &str) -> PathBuf {
    order.out.join(format!("{name}.{side}.bits"))
}

fn texts(order: &Order, name: &str) -> PathBuf {
    order.out.join(format!("{name}.ptx"))
}

fn log(order: &Order, name: &str, side: &str) -> PathBuf {
    order.out.join(format!("{name}.{side}.log"))
}

/// The interpreter's side of a check, if it has one: it begins at once.
fn twin<'s>(
    scope: &'s Scope<'s, '_>,
    check: &'static Check,
    order: &'s Order,
    device: &'s DeviceInfo,
) -> Option<ScopedJoinHandle<'s, Ended>> {
    matches!(check.work, Work::Recorded(_)).then(|| {
        scope.spawn(move || {
            clear(order, check.name, "interpreter");
            match command(check, order, "interpreter").and_then(|c| on_interpreter(c, device)) {
                Ok(mut command) => {
                    // The interpreter takes its time, and costs the device none.
                    let limit = 4 * limit(check, order);
                    run(&mut command, &log(order, check.name, "interpreter"), limit)
                }
                Err(e) => Ended { end: End::Badly(e.to_string()), seconds: 0.0 },
            }
        })
    })
}

fn command(check: &Check, order: &Order, side: &str) -> Result<Command, Box<dyn Error>> {
    let out = order.out.to_str().ok_or("the folder's name is no text")?;
    let mut command = own(&["one-check", check.name, "--side", side, "--out", out])?;
    if order.extent == Extent::Quick {
        command.arg("--quick");
    }
    Ok(command)
}

/// The command with the stand-in, as a machine like the device's.
fn on_interpreter(mut command: Command, device: &DeviceInfo) -> Result<Command, Box<dyn Error>> {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SUMSQ_LIBCUDA_") {
            command.env_remove(name);
        }
    }
    let DeviceInfo { sm, driver, multiprocessors, .. } = device;
    command
        .env("LD_LIBRARY_PATH", sumsq_libcuda::folder()?)
        .env("SUMSQ_LIBCUDA_CAPABILITY", format!("{}.{}", sm / 10, sm % 10))
        .env("SUMSQ_LIBCUDA_DRIVER_VERSION", driver.0.to_string())
        .env("SUMSQ_LIBCUDA_MULTIPROCESSORS", multiprocessors.to_string());
    Ok(command)
}

/// Time after which a check is ended. The stand-in is slow.
fn limit(check: &Check, order: &Order) -> Duration {
    Duration::from_secs(order.extent.of(1, 10) * check.limit)
}

/// Runs a check on the device and compares; prints how it ended.
fn one(check: &'static Check, order: &Order, twin: Option<ScopedJoinHandle<Ended>>) -> Outcome {
    clear(order, check.name, "device");
    let (mut seconds, mut failures) = (0.0, vec![]);
    for turn in 0..=RESUMED {
        let path = log(order, check.name, &if turn == 0 { "device".into() } else { format!("device{turn}") });
        let ended = match command(check, order, "device") {
            Ok(mut command) => run(&mut command, &path, limit(check, order)),
            Err(e) => Ended { end: End::Badly(e.to_string()), seconds: 0.0 },
        };
        seconds += ended.seconds;
        let Some(failure) = words(&ended.end, &path) else { break };
        failures.push(failure);
        // Something begins in each turn, or there is nothing left to go on with.
        if twin.is_none() || !begins(&path) {
            break;
        }
    }
    if let Some(twin) = twin {
        failures.extend(compared(check, order, twin));
    }
    let failure = (!failures.is_empty()).then(|| failures.join("\n"));
    println!("{:<32} {:>7.1} s  {}", check.name, seconds, if failure.is_some() { "FAILED" } else { "ok" });
    failure.iter().flat_map(|f| f.lines()).for_each(|line| println!("    {line}"));
    Outcome { name: check.name, failure, seconds }
}

/// True if a log names anything that has begun.
fn begins(log: &Path) -> bool {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().next().is_some_and(|line| !line.contains(char::is_whitespace))
}

/// Differences from the interpreter. Texts of kernels that agree are removed.
fn compared(check: &Check, order: &Order, twin: ScopedJoinHandle<Ended>) -> Vec<String> {
    let mut failures = vec![];
    match twin.join() {
        Ok(ended) => failures.extend(
            words(&ended.end, &log(order, check.name, "interpreter")).map(|w| format!("interpreter: {w}")),
        ),
        Err(_) => failures.push("interpreter: no process".into()),
    }
    let sides =
        ["device", "interpreter"].map(|side| read(&bits(order, check.name, side)).unwrap_or_default());
    let [device, interpreter] = sides;
    if interpreter.is_empty() {
        failures.push("interpreter: no results".into());
    }
    let found = differences(&device, &interpreter);
    let kernel = |record: &str| record.split('/').next().unwrap_or_default().to_string();
    for record in interpreter.iter().map(|r| kernel(&r.name)) {
        if found.iter().all(|(name, _)| kernel(name) != record) {
            let _ = std::fs::remove_file(texts(order, check.name).join(format!("{record}.ptx")));
        }
    }
    failures.extend(found.iter().take(SHOWN).map(|(name, words)| format!("{name}: {words}")));
    if found.len() > SHOWN {
        failures.push(format!("and {} more", found.len() - SHOWN));
    }
    if !found.is_empty() {
        failures.push(format!("PTX in {}", texts(order, check.name).display()));
    }
    failures
}

/// The words of a bad end, with the last lines of its log.
fn words(end: &End, log: &Path) -> Option<String> {
    let words = match end {
        End::Well => return None,
        End::Badly(words) => words.clone(),
        End::Late => "it took too long and was ended".into(),
    };
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with("note: run with")).collect();
    let last = lines[lines.len().saturating_sub(12)..].join("\n");
    Some(format!("{words}, log {}:\n{last}", log.display()))
}

/// Removes the results of an earlier run.
fn clear(order: &Order, name: &str, side: &str) {
    let bits = bits(order, name, side);
    for path in [bits.with_extension("begun"), bits] {
        let _ = std::fs::remove_file(path);
    }
}
