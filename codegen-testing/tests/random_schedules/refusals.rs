//! Are refusals that only a run can tell justified?
//!
//! A `bound` is too small, or a consumer ranges over something else than its sink's domain: the message names coordinates that say so, and
//! the same schedule without that directive computes those coordinates. Or others read a sink beyond its domain, where they would compute it
//! for themselves if it were none. Or an output is rounded up whose extent is no multiple.

use std::ops::RangeInclusive;
use sumsq_codegen::{Directive, Error, Name, Schedule, StageId};
use sumsq_codegen_testing::checked::run_nests_over;
use sumsq_codegen_testing::random::program::Case;
use sumsq_codegen_testing::reference::eval_scalar;

const BOUND: &str = ": needed from, to, given from, to ";
const SINK: [&str; 2] = [" must range over its domain in dimension ", ": from, to, last of the domain "];
const BEYOND: [&str; 2] = [
    " is read beyond dimension ",
    ": from, to, first readable, last readable, missing before, missing behind ",
];

const ROUNDED: [&str; 3] = [": extent of dimension ", " must be a multiple of ", ", as round_up of "];

/// Claim of a refusal.
struct Claim {
    /// The Func whose coordinates are meant.
    func: Name,
    dim: usize,
    needed: RangeInclusive<i64>,
    /// The directive without which they are computed.
    without: Directive,
    of: Name,
}

/// Is it a schedule's fault that only a run can tell?
pub fn at_run_time(e: &Error) -> bool {
    let text = e.to_string();
    [BOUND, SINK[0], BEYOND[0], ROUNDED[1]].iter().any(|t| text.contains(t))
}

/// Says what is wrong with a refusal, as far as that can be told; true if what it says was seen.
pub fn check(case: &Case, e: &Error) -> Result<bool, String> {
    let text = e.to_string();
    let line = text.lines().next().unwrap_or_default();
    if beyond(case, line)? {
        return Ok(false);
    }
    if rounded(case, line)? {
        return Ok(true);
    }
    let Some(claim) = bound(case, line)?.or(sink(case, line)?) else {
        return Err(format!("no directive is refused: {line}"));
    };
    let mut schedule = case.schedule.clone();
    for (_, all) in schedule.stages.iter_mut().filter(|(s, _)| s.func == claim.of) {
        // What is no sink is an output at root.
        all.retain(|d| claim.without != Directive::Sink && *d != claim.without);
    }
    let Some(computed) = computed(case, &schedule, &claim) else { return Ok(false) };
    let inside = [claim.needed.start(), claim.needed.end()].into_iter().all(|c| computed.contains(c));
    match inside {
        true => Ok(true),
        false => Err(format!("{:?} is needed, without {} {computed:?}: {line}", claim.needed, claim.without)),
    }
}

/// An output that is rounded up, whose extent is no multiple of what the message says.
fn rounded(case: &Case, line: &str) -> Result<bool, String> {
    let wrong = || format!("that is no reason: {line}");
    let Some((before, rest)) = line.split_once(ROUNDED[1]) else { return Ok(false) };
    let (func, dim) = before.split_once(ROUNDED[0]).ok_or_else(wrong)?;
    let (unit, rest) = rest.split_once(ROUNDED[2]).ok_or_else(wrong)?;
    let func = func.rsplit(": ").next().unwrap_or_default();
    let output = case.pipeline.outputs.iter().position(|o| *o.func == *func).ok_or_else(wrong)?;
    let dim: usize = dim.parse().map_err(|_| wrong())?;
    let extent = case.domains[output][dim].1 as i64;
    let said: Option<i64> = rest.rsplit([' ']).next().and_then(|n| n.parse().ok());
    // One that is no constant is a parameter, or made of some.
    let given = |n: &str| case.bindings.params.get(n).and_then(|v| v.as_int());
    let unit = unit.parse().ok().or_else(|| given(unit));
    let is_whole = unit.is_some_and(|unit| extent % unit == 0);
    if said != Some(extent) || is_whole { Err(wrong()) } else { Ok(true) }
}

/// A region larger than the one that the schedule says.
fn bound(case: &Case, line: &str) -> Result<Option<Claim>, String> {
    for (s, d) in case.schedule.stages.iter().flat_map(|(s, all)| all.iter().map(move |d| (s, d))) {
        let Directive::Bound { var, min, extent } = d else { continue };
        let Some((_, numbers)) = line.split_once(&format!("{}: {d}{BOUND}", s.func)) else { continue };
        let [from, to, first, last] = integers(numbers)?;
        let params: Vec<_> = case.bindings.params.iter().map(|(n, v)| (n.clone().into(), *v)).collect();
        let value = |e| eval_scalar(e, &[], &params).ok().and_then(|v| v.as_int());
        let said = value(extent).is_none_or(|n| last - first + 1 == n)
            && min.as_ref().and_then(value).is_none_or(|min| first == min);
        if !said || first <= from && to <= last {
            return Err(format!("that is no reason: {line}"));
        }
        let dim =
            case.pipeline.funcs.get(&s.func).and_then(|f| f.vars.iter().position(|v| *v.name() == *var));
        let Some(dim) = dim else { continue };
        let (of, func) = (s.func.clone(), s.func.clone());
        return Ok(Some(Claim { func, dim, needed: from..=to, without: d.clone(), of }));
    }
    Ok(None)
}

/// A consumer whose coordinates are not those of its sink.
fn sink(case: &Case, line: &str) -> Result<Option<Claim>, String> {
    for (k, o) in case.pipeline.outputs.iter().enumerate() {
        let Some((_, rest)) = line.split_once(&format!("sink {}: ", o.func)) else { continue };
        let Some((func, rest)) = rest.split_once(SINK[0]) else { continue };
        let Some((dim, numbers)) = rest.split_once(SINK[1]) else { continue };
        let dim: usize = dim.parse().map_err(|_| format!("no dimension: {line}"))?;
        let ([from, to, last], domain) = (integers(numbers)?, case.domains[k][dim]);
        let (first, end) = (i64::from(domain.0), i64::from(domain.0) + domain.1 as i64 - 1);
        if last != end || (from, to) == (first, end) {
            return Err(format!("that is no reason: {line}"));
        }
        let (of, func) = (o.func.clone(), func.into());
        return Ok(Some(Claim { func, dim, needed: from..=to, without: Directive::Sink, of }));
    }
    Ok(None)
}

/// Is a sink read beyond its domain?
fn beyond(case: &Case, line: &str) -> Result<bool, String> {
    let Some((name, rest)) = line.split_once(BEYOND[0]) else { return Ok(false) };
    let Some((dim, numbers)) = rest.split_once(BEYOND[1]) else { return Ok(false) };
    let name = name.rsplit(": ").next().unwrap_or_default();
    let Some(k) = case.pipeline.outputs.iter().position(|o| *o.func == *name) else { return Ok(false) };
    let func = &case.pipeline.outputs[k].func;
    let dim = dim.split_once(" by ").and_then(|(dim, _)| dim.parse::<usize>().ok());
    let dim = dim.ok_or_else(|| format!("no dimension and readers: {line}"))?;
    let ([from, to, first, last, before, behind], domain) = (integers(numbers)?, case.domains[k][dim]);
    let halo = i64::from(case.pipeline.outputs[k].halo[dim]);
    let readable = (i64::from(domain.0) - halo, i64::from(domain.0) + domain.1 as i64 - 1 + halo);
    let missing = ((first - from).max(0), (to - last).max(0));
    if (first, last) != readable || missing == (0, 0) || (before, behind) != missing {
        return Err(format!("that is no reason: {line}"));
    }
    let own = |(s, all): (&StageId, &Vec<Directive>)| s.func == *func && all.contains(&Directive::Sink);
    Ok(case.schedule.stages.iter().any(own))
}

fn integers<const N: usize>(text: &str) -> Result<[i64; N], String> {
    let all: Option<Vec<i64>> = text.split_whitespace().map(|n| n.parse().ok()).collect();
    all.and_then(|v| v.try_into().ok()).ok_or(format!("not {N} numbers: {text}"))
}

/// The coordinates of the claim's Func that another schedule computes; none where that is not known: it is refused as well, or the
/// Func is computed further in, where not every coordinate of its region has to be, or is an update over coordinates of its own.
fn computed(case: &Case, schedule: &Schedule, claim: &Claim) -> Option<RangeInclusive<i64>> {
    let all = schedule.stages.iter().filter(|(s, _)| s.func == claim.func).flat_map(|(_, all)| all);
    if all.clone().any(|d| matches!(d, Directive::ComputeAt(_) | Directive::InPlaceOf(_))) {
        return None;
    }
    let run = run_nests_over(&case.pipeline, schedule, &case.bindings, &case.domains).ok()?;
    run.counters.region(&claim.func)?.get(claim.dim).cloned()
}
