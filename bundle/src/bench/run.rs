//! Runs pieces, each in a process of its own, until the time is over, and writes what they found.

use super::facts::Facts;
use super::{COPY_RATE, COPY_VARIABLE, Done, Extent, PIECES, Piece, Work, iteration, peers};
use crate::children::{End, own, run};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sumsq::codegen::runtime::cuda::devices;

/// A run that is asked for.
#[derive(Clone, Debug)]
pub struct Order {
    /// Folder for logs and results.
    pub out: PathBuf,
    /// Extent of the run: a quick one is a rehearsal on tiny problems.
    pub extent: Extent,
    /// The one piece that runs.
    pub only: Option<String>,
    /// Time after which no piece begins, and those at work are ended.
    pub time: Duration,
}

/// A piece that has ended, or was left out.
struct Ended {
    piece: &'static Piece,
    facts: Facts,
    seconds: f64,
    /// Reason why it is not whole.
    failure: Option<String>,
}

/// Measures, and writes `gpu.json` and `gpu.txt`; false if a piece failed or was left out.
pub fn bench(order: &Order) -> Done<bool> {
    let until = Instant::now() + order.time;
    std::fs::create_dir_all(&order.out)?;
    let device = devices()?.remove(0);
    let machine = format!("{}, sm_{}, driver of CUDA {}", device.name, device.sm, device.driver);
    println!("{machine}");
    let all: Vec<Ended> = std::thread::scope(|scope| {
        // The compiler of the peer takes seconds, and no device.
        let built = scope.spawn(|| build(order));
        let mut built = Some(built);
        let mut copy = None;
        let mut ended = vec![];
        for piece in PIECES.iter().filter(|p| order.only.as_deref().is_none_or(|only| only == p.name)) {
            if matches!(piece.work, Work::Peer(_)) {
                built.take().into_iter().for_each(|b| drop(b.join()));
            }
            let one = one(piece, order, until, copy);
            copy = copy.or(one.facts.find(COPY_RATE));
            ended.push(one);
        }
        ended
    });
    let build = std::env::var("SUMSQ_BUNDLE_BUILD").unwrap_or_else(|_| "unknown commit".into());
    let (json, text) =
        (json(&all, &machine, &build, order.extent), text(&all, &machine, &build, order.extent));
    std::fs::write(order.out.join("gpu.json"), format!("{json:#}\n"))?;
    std::fs::write(order.out.join("gpu.txt"), text)?;
    println!("results: {}", order.out.join("gpu.txt").display());
    Ok(all.iter().all(|e| e.failure.is_none()))
}

/// Builds the peer's program, and keeps what its compiler says.
fn build(order: &Order) {
    if let Err(words) = peers::build(&order.out, order.extent) {
        let _ = std::fs::write(order.out.join("peer_build.log"), words);
    }
}

/// Runs one piece in this process, for [`bench()`]. Its numbers are written as they come.
pub fn child(name: &str, order: &Order) -> Done<()> {
    let piece = PIECES.iter().find(|p| p.name == name).ok_or("there is no such piece")?;
    let mut facts = Facts::kept(file(order, name));
    match piece.work {
        Work::Plain(work) => work(&mut facts, order.extent),
        Work::Energy => iteration::large_one(&mut facts, name, order.extent),
        Work::Peer(work) => work(&mut facts, &order.out, order.extent),
    }
}

fn file(order: &Order, name: &str) -> PathBuf {
    order.out.join(format!("{name}.piece.json"))
}

/// Runs a piece, unless the time is over.
fn one(piece: &'static Piece, order: &Order, until: Instant, copy: Option<f64>) -> Ended {
    let left = until.saturating_duration_since(Instant::now());
    if left < Duration::from_secs(2) {
        println!("{}: left out, the time is over", piece.name);
        let failure = Some("left out, the time is over".to_string());
        return Ended { piece, facts: Facts::default(), seconds: 0.0, failure };
    }
    let (path, log) = (file(order, piece.name), order.out.join(format!("{}.log", piece.name)));
    let _ = std::fs::remove_file(&path);
    let limit = left.min(Duration::from_secs(piece.limit * order.extent.of(1, 10)));
    let mut seconds = 0.0;
    let failure = match own(&["one-piece", piece.name, "--out", &order.out.to_string_lossy()]) {
        Ok(mut command) => {
            if order.extent == Extent::Quick {
                command.arg("--rehearse");
            }
            command.envs(copy.map(|rate| (COPY_VARIABLE, rate.to_string())));
            // The driver would keep what it has compiled before.
            command.env("CUDA_CACHE_DISABLE", "1");
            let ended = run(&mut command, &log, limit);
            seconds = ended.seconds;
            words(&ended.end, &log)
        }
        Err(e) => Some(e.to_string()),
    };
    let read = std::fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let facts = read.map(|v| Facts::of_json(&v)).unwrap_or_default();
    println!("{:<32} {seconds:>7.1} s  {} numbers", piece.name, facts.all.len());
    failure.iter().flat_map(|f| f.lines()).for_each(|line| println!("    {line}"));
    Ended { piece, facts, seconds, failure }
}

fn words(end: &End, log: &Path) -> Option<String> {
    let words = match end {
        End::Well => return None,
        End::Badly(words) => words.clone(),
        End::Late => "it took too long and was ended".into(),
    };
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    Some(format!("{words}: {}", lines[lines.len().saturating_sub(3)..].join("\n")))
}

fn json(all: &[Ended], machine: &str, build: &str, extent: Extent) -> Value {
    let piece = |e: &Ended| {
        let mut v = e.facts.json();
        v["piece"] = json!(e.piece.name);
        v["seconds"] = json!(e.seconds);
        v["failure"] = json!(e.failure);
        v
    };
    json!({
        "benchmark": "gpu", "machine": machine, "build": build, "rehearsal": extent == Extent::Quick,
        "pieces": all.iter().map(piece).collect::<Vec<_>>(),
    })
}

fn text(all: &[Ended], machine: &str, build: &str, extent: Extent) -> String {
    let kind = if extent == Extent::Quick { "gpu, a rehearsal: tiny problems" } else { "gpu" };
    let mut text = format!("{kind}\n{machine}\n{build}\n");
    for e in all {
        text += &format!("\n{} ({:.1} s)\n", e.piece.name, e.seconds);
        e.facts.all.iter().for_each(|f| text += &format!("{}\n", f.line()));
        e.facts.notes.iter().for_each(|n| text += &format!("{n}\n"));
        e.failure.iter().for_each(|f| text += &format!("not whole: {f}\n"));
    }
    text
}
