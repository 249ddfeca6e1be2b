//! Loops that a device runs by itself.
//!
//! A `Repeat` of pipelines that one GPU runs alone, and of exchanges, becomes a graph: a loop whose turn is two iterations, since buffers
//! that are exchanged are back behind the second, and a kernel behind each iteration that counts it and decides ([`crate::backend::llvm::tick`]).
//! The host waits once, for the number of iterations: behind an odd number it exchanges the buffers once.
//!
//! `Host` steps are asked before every [`Device::loop_turns`] iterations, not before each.
//!
//! A graph holds sizes, addresses and arguments as they were when it was made; parameters that are floats lie in memory, so that it runs with
//! others, too. A loop keeps the last [`GRAPHS`] graphs: behind an odd number of iterations, or an exchange elsewhere, it comes back to one that
//! it had.

use super::{Prepared, Table};
use crate::backend::llvm;
use crate::compile::Recorded;
use crate::error::{CudaError, Error};
use crate::program::step::{BufferId, Flow};
use crate::runtime::cuda::{Device, Function, Graph, Module, ReadyGraph, Shape};
use crate::runtime::{Access, Buffer, Pool, profile};
use crate::types::ScalarType;

/// A loop on a device.
pub(super) struct DeviceLoop {
    device: Device,
    tick: Function,
    /// Iterations of a run, an i32.
    count: Buffer,
    /// The latest first.
    made: Vec<Made>,
}

/// A graph, and what it was made of.
struct Made {
    iterations: [Vec<Recorded>; 2],
    /// Most iterations; addresses of the condition and of the count.
    rest: (usize, u64, u64),
    graph: ReadyGraph,
}

/// The loop of these steps, if one device can run it alone.
pub(super) fn device_loop(
    body: &[Prepared],
    until: BufferId,
    table: &Table,
) -> Option<Result<DeviceLoop, Error>> {
    let mut device: Option<&Device> = None;
    let mut exchanged = vec![];
    for step in body {
        match step {
            Prepared::Run { call, .. } => device = Some(call.device_alone()?),
            Prepared::Swap(a, b) => exchanged.extend([*a, *b]),
            Prepared::Host(_) => {}
            Prepared::Repeat { .. } => return None,
        }
    }
    // Disjoint pairs are back after two iterations; what tells the end keeps its place.
    let apart = (0..exchanged.len()).all(|i| !exchanged[..i].contains(&exchanged[i]));
    let plain = table.buffer(until).spec().ty == ScalarType::I32 && table.scalar(until).is_some();
    // A profile tells launches apart.
    let may = |d: &&Device| d.has_loops() && d.loop_turns() > 0 && !profile::enabled();
    let device = device.filter(|d| may(d) && apart && plain && !exchanged.contains(&until))?;
    Some(DeviceLoop::new(device))
}

impl DeviceLoop {
    fn new(device: &Device) -> Result<DeviceLoop, Error> {
        let (ptx, name) = llvm::tick(&device.info().target())?;
        let tick = Module::load(device, &ptx).and_then(|module| module.function(name)).map_err(failed)?;
        let count =
            Buffer::scalar(0i32).map_err(|e| Error::Run { pipeline: LOOP.into(), message: e.to_string() })?;
        Ok(DeviceLoop { device: device.clone(), tick, count, made: vec![] })
    }

    /// Runs the steps until `until` is not 0 behind them, at most `max` times.
    pub(super) fn run(
        &mut self,
        body: &mut [Prepared],
        (until, max): (BufferId, usize),
        table: &mut Table,
        pool: &Pool,
        host: &mut dyn FnMut(&str, &mut Table) -> Result<Flow, Error>,
    ) -> Result<Flow, Error> {
        let mut left = max;
        // An even number: behind it all buffers are back in their places.
        let turns = self.device.loop_turns().max(2) & !1;
        while left > 0 {
            for step in body.iter() {
                let Prepared::Host(name) = step else { continue };
                match host(name, table)? {
                    Flow::Continue => {}
                    Flow::Break => return Ok(Flow::Continue),
                    Flow::Stop => return Ok(Flow::Stop),
                }
            }
            let most = left.min(turns);
            let done = self.chunk(body, (until, most), table, pool)?;
            left = left.saturating_sub(done);
            // The count says so, but for the last iteration.
            if done < most || table.scalar(until).is_none_or(|done| done != 0.0) {
                break;
            }
        }
        Ok(Flow::Continue)
    }

    /// At most `max` iterations, the first in any case; returns how many there were.
    fn chunk(
        &mut self,
        body: &mut [Prepared],
        (until, max): (BufferId, usize),
        table: &mut Table,
        pool: &Pool,
    ) -> Result<usize, Error> {
        let iterations = [record(body, table, pool)?, record(body, table, pool)?];
        self.count.set(&[], 0, 0i32);
        let address = |b: &Buffer, access| {
            b.on_device(&self.device, 0, access)
                .map_err(|e| Error::Run { pipeline: LOOP.into(), message: e.to_string() })
        };
        let rest = (max, address(table.buffer(until), Access::Read)?, address(&self.count, Access::Write)?);
        match self.made.iter().position(|m| m.rest == rest && m.iterations == iterations) {
            Some(i) => self.made[..=i].rotate_right(1),
            None => {
                self.made.truncate(GRAPHS - 1);
                let graph = self.graph(&iterations, rest).map_err(failed)?;
                self.made.insert(0, Made { iterations, rest, graph });
            }
        }
        self.made[0].graph.run().map_err(failed)?;
        // This waits; failures of the kernels come with it.
        self.count.sync_host().map_err(failed)?;
        let done = self.count.get::<i32>(&[], 0).unwrap_or(0).max(0) as usize;
        if done % 2 == 1 {
            exchange(body, table)?;
        }
        Ok(done.max(1))
    }

    fn graph(
        &self,
        [one, two]: &[Vec<Recorded>; 2],
        rest: (usize, u64, u64),
    ) -> Result<ReadyGraph, CudaError> {
        let mut graph = Graph::new(&self.device)?;
        let (turn, second) = (graph.condition()?, graph.condition()?);
        let (max, until, count) = (rest.0.min(i32::MAX as usize) as u64, rest.1, rest.2);
        let tick = |first| [until, count, max, turn.number(), second.number(), first];
        let once = Shape { grid: [1; 3], block: 1 };
        let mut body = graph.repeat_while(turn)?;
        // SAFETY: the launches are those that the pipelines would make, and the tick has its six parameters. Buffers of the table live as long as
        // the program, and the graph is made again where one of them has another address.
        unsafe {
            one.iter().try_for_each(|l| body.launch(&l.function, l.shape, &l.arguments))?;
            body.launch(&self.tick, once, &tick(1))?;
            let mut rest = body.repeat_while(second)?;
            two.iter().try_for_each(|l| rest.launch(&l.function, l.shape, &l.arguments))?;
            rest.launch(&self.tick, once, &tick(0))?;
        }
        graph.ready()
    }
}

/// The launches of one iteration.
fn record(body: &mut [Prepared], table: &mut Table, pool: &Pool) -> Result<Vec<Recorded>, Error> {
    let mut launches = vec![];
    for step in body {
        match step {
            Prepared::Run { call, slots, params } => {
                for (name, id) in params.iter() {
                    call.set_param(name, table.param(*id))?;
                }
                let table = &*table;
                call.record(|slot| table.buffer(slots[slot]), pool, &mut launches)?;
            }
            Prepared::Swap(a, b) => table.swap(*a, *b)?,
            Prepared::Repeat { .. } | Prepared::Host(_) => {}
        }
    }
    Ok(launches)
}

/// The exchanges of one iteration.
fn exchange(body: &[Prepared], table: &mut Table) -> Result<(), Error> {
    body.iter().try_for_each(|step| match step {
        Prepared::Swap(a, b) => table.swap(*a, *b),
        _ => Ok(()),
    })
}

fn failed(error: CudaError) -> Error {
    Error::Device { pipeline: LOOP.into(), error }
}

/// Graphs that a loop keeps: two pairs of buffers, each one way or the other.
const GRAPHS: usize = 4;

/// The name of loops in errors.
const LOOP: &str = "loop";
