//! Instructions that lanes of a warp execute together.

use super::block::{Failed, Shared};
use super::thread::{State, Thread};
use crate::code::{NONE, Op, Shuffle, Vote};
use crate::error::{Fault, Missing};
use crate::module::Module;

/// Executes what all named lanes have reached; true if there was such. Where no lane can run on and one still waits, that is a fault.
pub fn resolve(
    lanes: &mut [Thread],
    shared: &mut Shared,
    module: &Module,
    warp: usize,
) -> Result<bool, Failed> {
    let mut resolved = false;
    for leader in 0..lanes.len() {
        if lanes[leader].state != State::Lanes {
            continue;
        }
        let op = op(&lanes[leader], module);
        let mask = mask(&lanes[leader], op);
        if mask >> leader & 1 == 0 {
            return Err((lanes[leader].id, Fault::NotNamed { mask, lane: leader as u32 }));
        }
        match (0..32).filter(|l| mask >> l & 1 != 0).find_map(|l| missing(lanes, l, leader, mask, module)) {
            None => {
                execute(lanes, op, mask).map_err(|fault| (lanes[leader].id, fault))?;
                if let Op::WarpBarrier { .. } = op
                    && mask.count_ones() as usize == lanes.len()
                {
                    shared.end_epoch(warp);
                }
                resolved = true;
            }
            // It may still come.
            Some(_) if resolved || lanes.iter().any(|t| t.state == State::Ready) => {}
            Some((missing, reason)) => {
                return Err((lanes[leader].id, Fault::Lanes { mask, missing, reason }));
            }
        }
    }
    Ok(resolved)
}

fn op<'m>(t: &Thread, module: &'m Module) -> &'m Op {
    let (function, pc) = t.place();
    &module.functions[function as usize].insts[pc].op
}

fn register(t: &Thread, register: u32) -> u64 {
    t.frames.last().map_or(0, |f| f.registers[register as usize])
}

fn mask(t: &Thread, op: &Op) -> u32 {
    match op {
        Op::WarpBarrier { mask } | Op::Shuffle { mask, .. } | Op::Vote { mask, .. } => {
            register(t, *mask) as u32
        }
        _ => 0,
    }
}

/// A named lane that is not at the leader's instruction with the leader's mask.
fn missing(
    lanes: &[Thread],
    lane: u32,
    leader: usize,
    named: u32,
    module: &Module,
) -> Option<(u32, Missing)> {
    let Some(t) = lanes.get(lane as usize) else { return Some((lane, Missing::Nobody)) };
    let (function, pc) = t.place();
    let here = t.state == State::Lanes
        && t.place() == lanes[leader].place()
        && t.frames.len() == lanes[leader].frames.len();
    if here && mask(t, op(t, module)) == named {
        return None;
    }
    let line = module.functions[function as usize].insts[pc].line;
    let reason = if t.state == State::Ended { Missing::Ended } else { Missing::Elsewhere(line) };
    Some((lane, reason))
}

/// Executes an instruction for the lanes of a mask, which all stand before it.
fn execute(lanes: &mut [Thread], op: &Op, mask: u32) -> Result<(), Fault> {
    let named = || (0..32usize).filter(|l| mask >> l & 1 != 0);
    match op {
        Op::Shuffle { mode, to, valid, a, b, c, .. } => {
            let mut values = [0; 32];
            values.iter_mut().zip(lanes.iter()).for_each(|(v, t)| *v = register(t, *a) & 0xffff_ffff);
            for l in named() {
                let (b, c) = (register(&lanes[l], *b) as u32, register(&lanes[l], *c) as u32);
                let (from, inside) = source(*mode, l as u32, b, c);
                if mask >> from & 1 == 0 {
                    return Err(Fault::ShuffleSource { mask, source_lane: from });
                }
                set(&mut lanes[l], *to, values[from as usize]);
                if *valid != NONE {
                    set(&mut lanes[l], *valid, inside.into());
                }
            }
        }
        Op::Vote { mode, to, a, negate, .. } => {
            let votes = named()
                .filter(|l| (register(&lanes[*l], *a) & 1 != 0) != *negate)
                .fold(0u32, |votes, l| votes | 1 << l);
            let result = match mode {
                Vote::All => u64::from(votes == mask),
                Vote::Any => u64::from(votes != 0),
                Vote::Uniform => u64::from(votes == 0 || votes == mask),
                Vote::Ballot => votes.into(),
            };
            named().for_each(|l| set(&mut lanes[l], *to, result));
        }
        _ => {}
    }
    for l in named() {
        lanes[l].state = State::Ready;
        if let Some(frame) = lanes[l].frames.last_mut() {
            frame.pc += 1;
        }
    }
    Ok(())
}

fn set(t: &mut Thread, register: u32, value: u64) {
    if let Some(frame) = t.frames.last_mut() {
        frame.registers[register as usize] = value;
    }
}

/// The lane from which a lane reads, and true where that is inside of its segment; outside it reads itself.
fn source(mode: Shuffle, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
    let most = (lane & segment) | (clamp & !segment & 31);
    let least = lane & segment;
    let (from, inside) = match mode {
        Shuffle::Up => {
            let from = lane as i32 - b as i32;
            (from, from >= most as i32)
        }
        Shuffle::Down => ((lane + b) as i32, lane + b <= most),
        Shuffle::Butterfly => ((lane ^ b) as i32, lane ^ b <= most),
        Shuffle::Index => {
            let from = least | (b & !segment & 31);
            (from as i32, from <= most)
        }
    };
    if inside { (from as u32, true) } else { (lane, false) }
}
