//! Loops that a device runs by itself.
//!
//! A `Repeat` of pipelines that one GPU runs alone, and of exchanges, becomes a graph: a loop whose turn is two iterations, since buffers
//! that are exchanged are back behind the second, and a kernel behind each iteration that counts it and decides ([`crate::backend::llvm::tick`]).
//! The host waits for nothing: the loop is *open* ([`Table`]) until somebody asks for the number of iterations, behind an odd number of which
//! buffers have changed places.
//!
//! Graphs of older drivers hold no loops. There the graph is a *chunk*: [`CHUNK`] iterations, of kernels behind a gate that lets them do nothing
//! once the loop has ended. Two chunks are under way at any time; the host waits for the older one and looks whether a further one is wanted.
//!
//! Where that is wanted the loop is one kernel instead, whose blocks wait for each other between what were kernels ([`crate::compile::grid_loop`]).
//!
//! `Host` steps in front of all pipelines are asked before every graph that is run, not before each iteration. A loop with others is run by the
//! host.
//!
//! A graph holds sizes, addresses and arguments as they were when it was made; parameters that are floats lie in memory, so that it runs with
//! others, too. A loop keeps the last [`GRAPHS`] graphs: behind an odd number of iterations, or an exchange elsewhere, it comes back to one that
//! it had.

use super::{Prepared, Table};
use crate::backend::{gated, llvm};
use crate::compile::{ENDED, GRID_LOOP, Phase, Recorded, ended, grid_loop};
use crate::error::{CudaError, Error};
use crate::program::step::{BufferId, Flow};
use crate::runtime::cuda::{Body, Device, Function, Graph, Mailbox, Module, ReadyGraph, Shape};
use crate::runtime::{Access, Buffer, BufferError, Pool, profile};
use crate::types::ScalarType;
use rustc_hash::FxHashSet;

/// A loop on a device.
pub(super) struct DeviceLoop {
    device: Device,
    /// The module of the kernel that counts an iteration, and the kernel's name.
    tick: (String, &'static str),
    chunks: Option<Chunks>,
    /// Is it one kernel, where it can be?
    together: bool,
    /// The latest first.
    made: Vec<Made>,
}

/// Things that a loop has besides where it runs in chunks.
struct Chunks {
    /// Every kernel, and the same behind a gate.
    kernels: Vec<(Function, Function)>,
    /// Places to look how far the chunks are that are under way.
    looks: [Mailbox; 2],
}

/// A graph, and what it was made of.
struct Made {
    iterations: [Vec<Recorded>; 2],
    /// Most iterations; addresses of the condition and of the count.
    rest: (usize, u64, u64),
    ready: Ready,
}

/// Iterations that can be asked for again and again.
enum Ready {
    Graph(ReadyGraph),
    /// A kernel whose blocks wait for each other.
    Kernel(Recorded),
}

impl Ready {
    fn run(&self) -> Result<(), CudaError> {
        match self {
            Ready::Graph(graph) => graph.run(),
            // SAFETY: the arguments are those of `together`, of which the same holds as of `graph`.
            Ready::Kernel(k) => unsafe { k.function.launch_together(k.shape, &k.arguments) },
        }
    }
}

/// The answers of the host at its steps.
type Ask<'a> = &'a mut dyn FnMut(&str, &mut Table) -> Result<Flow, Error>;

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
            Prepared::Host(_) if device.is_none() => {}
            // What pipelines have written is wanted in every iteration.
            Prepared::Host(_) | Prepared::Repeat { .. } => return None,
        }
    }
    // Disjoint pairs are back after two iterations; what tells the end keeps its place.
    let apart = (0..exchanged.len()).all(|i| !exchanged[..i].contains(&exchanged[i]));
    let plain = table.buffer(until).spec().ty == ScalarType::I32 && table.scalar(until).is_some();
    // A profile tells launches apart.
    let may = |d: &&Device| d.loop_turns() > 0 && !profile::enabled();
    let device = device.filter(|d| may(d) && apart && plain && !exchanged.contains(&until))?;
    Some(DeviceLoop::new(device, body))
}

impl DeviceLoop {
    fn new(device: &Device, body: &[Prepared]) -> Result<DeviceLoop, Error> {
        let in_chunks = device.loops_in_chunks();
        let (ptx, name) = llvm::tick(&device.info().target(), in_chunks)?;
        let ptx = if in_chunks { gated(&ptx) } else { ptx };
        let chunks = if in_chunks { Some(Chunks::new(device, body)?) } else { None };
        let together = chunks.is_none() && device.loops_together();
        Ok(DeviceLoop { device: device.clone(), tick: (ptx, name), chunks, together, made: vec![] })
    }

    /// Runs the steps until `until` is not 0 behind them, at most `max` times.
    pub(super) fn run(
        &mut self,
        body: &mut [Prepared],
        (until, max): (BufferId, usize),
        table: &mut Table,
        pool: &Pool,
        host: Ask<'_>,
    ) -> Result<Flow, Error> {
        if self.chunks.is_some() {
            return self.in_chunks(body, (until, max), table, pool, host);
        }
        let (mut left, turns) = (max, self.turns(body, table));
        while left > 0 {
            if let Some(end) = ask(body, table, host)? {
                return Ok(end);
            }
            let most = left.min(turns);
            self.turn(body, (until, most), table, pool)?;
            let done = table.close()?.max(1);
            left = left.saturating_sub(done);
            // The count says so, but for the last iteration.
            if done < most || table.scalar(until).is_none_or(|done| done != 0.0) {
                break;
            }
        }
        Ok(Flow::Continue)
    }

    /// As [`DeviceLoop::run`], up to the first look of the host, for which it does not wait: the loop is open.
    pub(super) fn start(
        &mut self,
        body: &mut [Prepared],
        (until, max): (BufferId, usize),
        table: &mut Table,
        pool: &Pool,
        host: Ask<'_>,
    ) -> Result<(), Error> {
        if self.chunks.is_some() {
            return self.in_chunks(body, (until, max), table, pool, host).map(|_| ());
        }
        if ask(body, table, host)?.is_some() {
            return Ok(());
        }
        let most = max.min(self.turns(body, table));
        self.turn(body, (until, most), table, pool)
    }

    /// Iterations between two looks of the host: an even number, behind which all buffers are back in their places.
    fn turns(&self, body: &[Prepared], table: &Table) -> usize {
        let slots = body.iter().flat_map(|step| match step {
            Prepared::Run { slots, .. } => &slots[..],
            _ => &[],
        });
        let buffers: FxHashSet<BufferId> = slots.copied().collect();
        let bytes: usize = buffers.into_iter().map(|id| table.buffer(id).bytes()).sum();
        self.device.loop_turns().min((BETWEEN / bytes.max(1)).max(LEAST)).max(2) & !1
    }

    /// Asks the device for at most `max` iterations, the first in any case.
    fn turn(
        &mut self,
        body: &mut [Prepared],
        (until, max): (BufferId, usize),
        table: &mut Table,
        pool: &Pool,
    ) -> Result<(), Error> {
        self.ready(body, (until, max), table, pool)?.run().map_err(failed)?;
        table.open(exchanges(body));
        Ok(())
    }

    /// Iterations in chunks, until the loop ends.
    fn in_chunks(
        &mut self,
        body: &mut [Prepared],
        (until, max): (BufferId, usize),
        table: &mut Table,
        pool: &Pool,
        host: Ask<'_>,
    ) -> Result<Flow, Error> {
        self.ready(body, (until, max), table, pool)?;
        let (DeviceLoop { made, chunks: Some(Chunks { looks, .. }), .. }, pairs) = (self, exchanges(body))
        else {
            return Ok(Flow::Continue);
        };
        let Made { ready, rest: (_, _, count), .. } = &made[0];
        let mut flow = Flow::Continue;
        table.open(pairs);
        for n in 0.. {
            if let Some(end) = ask(body, table, host)? {
                flow = end;
                break;
            }
            ready.run().map_err(failed)?;
            // SAFETY: the table has two numbers there, and keeps them until it has closed the loop.
            unsafe { looks[n % 2].post(*count) }.map_err(failed)?;
            // The chunk before: this one is under way meanwhile.
            if n > 0 && looks[(n + 1) % 2].read().map_err(failed)?[1] != 0 {
                break;
            }
        }
        table.close()?;
        Ok(flow)
    }

    /// The graph of a loop that begins now.
    fn ready(
        &mut self,
        body: &mut [Prepared],
        (until, max): (BufferId, usize),
        table: &mut Table,
        pool: &Pool,
    ) -> Result<&Ready, Error> {
        table.close()?;
        let iterations = [record(body, table, pool)?, record(body, table, pool)?];
        let address = |b: &Buffer, access| b.on_device(&self.device, 0, access);
        let of_buffer = |e: BufferError| Error::Run { pipeline: LOOP.into(), message: e.to_string() };
        let until = address(table.buffer(until), Access::Read).map_err(of_buffer)?;
        let turns = table.turns().map_err(of_buffer)?;
        turns.clear();
        let rest = (max, until, address(turns, Access::Write).map_err(of_buffer)?);
        match self.made.iter().position(|m| m.rest == rest && m.iterations == iterations) {
            Some(i) => self.made[..=i].rotate_right(1),
            None => {
                self.made.truncate(GRAPHS - 1);
                let ready = match &self.chunks {
                    Some(chunks) => self.chunk(&chunks.kernels, &iterations, rest).map(Ready::Graph),
                    None => match self.together(body, &iterations, rest).map_err(failed)? {
                        Some(kernel) => Ok(Ready::Kernel(kernel)),
                        None => self.graph(body, &iterations, rest).map(Ready::Graph),
                    },
                };
                self.made.insert(0, Made { iterations, rest, ready: ready.map_err(failed)? });
            }
        }
        Ok(&self.made[0].ready)
    }

    fn graph(
        &self,
        body: &[Prepared],
        iterations: &[Vec<Recorded>; 2],
        (max, until, count): (usize, u64, u64),
    ) -> Result<ReadyGraph, CudaError> {
        let ended = self.ended(body, iterations)?;
        let alone = if ended.is_none() { Some(self.alone()?) } else { None };
        let mut graph = Graph::new(&self.device)?;
        let (turn, second) = (graph.condition()?, graph.condition()?);
        let tick = |first| [until, count, most(max), turn.number(), second.number(), first];
        // SAFETY: the launches are those that the pipelines would make, and the tick has its six parameters, also behind the last of them. Buffers
        // of the table live as long as the program, and the graph is made again where one of them has another address.
        let add = |inside: &mut Body<'_>, launches: &[Recorded], first| unsafe {
            let plain = launches.len() - usize::from(ended.is_some());
            launches[..plain].iter().try_for_each(|l| inside.launch(&l.function, l.shape, &l.arguments))?;
            if let (Some(function), Some(last)) = (&ended, launches.last()) {
                inside.launch(function, last.shape, &[&last.arguments[..], &tick(first)].concat())?;
            }
            alone.iter().try_for_each(|function| inside.launch(function, ONCE, &tick(first)))
        };
        let [one, two] = iterations;
        let mut turns = graph.repeat_while(turn)?;
        add(&mut turns, one, 1)?;
        add(&mut turns.only_if(second)?, two, 0)?;
        graph.ready()
    }

    /// The kernel that counts an iteration, for where no other does.
    fn alone(&self) -> Result<Function, CudaError> {
        Module::load(&self.device, &self.tick.0)?.function(self.tick.1)
    }

    /// The last kernel of an iteration with the tick behind it, if that is one block.
    fn ended(
        &self,
        body: &[Prepared],
        [one, two]: &[Vec<Recorded>; 2],
    ) -> Result<Option<Function>, CudaError> {
        let (Some(last), Some(other)) = (one.last(), two.last()) else { return Ok(None) };
        let one_block = last.shape.grid == [1; 3] && last.shape == other.shape;
        let Some(ptx) =
            text_of(body, &last.function).filter(|_| one_block && last.function == other.function)
        else {
            return Ok(None);
        };
        let phase = |ptx, name, n| Phase { ptx, name, changes: vec![false; n] };
        let kernel = phase(ptx, last.function.name(), last.arguments.len());
        match ended(&kernel, last.shape.block, &phase(&self.tick.0, self.tick.1, TICKS)) {
            Some(ptx) => Module::load(&self.device, &ptx)?.function(ENDED).map(Some),
            None => Ok(None),
        }
    }

    /// The loop as one kernel, if it is to be and can be.
    fn together(
        &self,
        body: &[Prepared],
        [one, two]: &[Vec<Recorded>; 2],
        (max, until, count): (usize, u64, u64),
    ) -> Result<Option<Recorded>, CudaError> {
        let Some(block) = one.first().filter(|_| self.together).map(|l| l.shape.block) else {
            return Ok(None);
        };
        let (mut phases, mut most_blocks) = (vec![], 0);
        let mut arguments = vec![count, until, most(max)];
        for (a, b) in one.iter().zip(two) {
            let Some(ptx) = text_of(body, &a.function) else { return Ok(None) };
            let [x, y, z] = a.shape.grid.map(u64::from);
            let blocks = x.saturating_mul(y).saturating_mul(z);
            most_blocks = blocks.max(most_blocks);
            arguments.extend([x, y, blocks]);
            let changes: Vec<bool> = a.arguments.iter().zip(&b.arguments).map(|(a, b)| a != b).collect();
            for ((a, b), changes) in a.arguments.iter().zip(&b.arguments).zip(&changes) {
                arguments.push(*a);
                arguments.extend(changes.then_some(*b));
            }
            phases.push(Phase { ptx, name: a.function.name(), changes });
        }
        if arguments.len() > MOST_ARGUMENTS || most_blocks > MOST_BLOCKS {
            return Ok(None);
        }
        let Some(ptx) = grid_loop(&phases, block) else { return Ok(None) };
        let function = Module::load(&self.device, &ptx)?.function(GRID_LOOP)?;
        let blocks = most_blocks.min(function.resident(block)?.into()) as u32;
        Ok((blocks > 0).then_some(Recorded {
            function,
            shape: Shape { grid: [blocks, 1, 1], block },
            arguments,
        }))
    }

    /// The graph of a chunk.
    fn chunk(
        &self,
        kernels: &[(Function, Function)],
        iterations: &[Vec<Recorded>; 2],
        (max, until, count): (usize, u64, u64),
    ) -> Result<ReadyGraph, CudaError> {
        let (mut graph, tick) = (Graph::new(&self.device)?, self.alone()?);
        let gate = count + ScalarType::I32.bytes() as u64;
        let behind_gate = |of: &Function| kernels.iter().find(|(open, _)| open == of).map(|(_, gated)| gated);
        for launches in iterations.iter().cycle().take(CHUNK) {
            for Recorded { function, shape, arguments } in launches {
                let missing = || CudaError::NoKernel { name: function.name().into() };
                let function = behind_gate(function).ok_or_else(missing)?;
                // SAFETY: as for `graph`; the gate is the last parameter.
                unsafe { graph.launch(function, *shape, &[&arguments[..], &[gate]].concat())? };
            }
            // SAFETY: the tick has its three parameters, and the gate.
            unsafe { graph.launch(&tick, ONCE, &[until, count, most(max), gate])? };
        }
        graph.ready()
    }
}

impl Chunks {
    fn new(device: &Device, body: &[Prepared]) -> Result<Chunks, Error> {
        let mut kernels = vec![];
        for step in body {
            if let Prepared::Run { call, .. } = step {
                kernels.extend(call.gated()?);
            }
        }
        let looks = || Ok([Mailbox::new(device)?, Mailbox::new(device)?]);
        Ok(Chunks { kernels, looks: looks().map_err(failed)? })
    }
}

/// Asks the host at its steps. Returns how the loop ends, if it is to.
fn ask(body: &[Prepared], table: &mut Table, host: Ask<'_>) -> Result<Option<Flow>, Error> {
    for step in body {
        let Prepared::Host(name) = step else { continue };
        match host(name, table)? {
            Flow::Continue => {}
            Flow::Break => return Ok(Some(Flow::Continue)),
            Flow::Stop => return Ok(Some(Flow::Stop)),
        }
    }
    Ok(None)
}

/// The module of a kernel.
fn text_of<'a>(body: &'a [Prepared], kernel: &Function) -> Option<&'a str> {
    body.iter().find_map(|step| match step {
        Prepared::Run { call, .. } => call.text_of(kernel),
        _ => None,
    })
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
fn exchanges(body: &[Prepared]) -> Vec<(BufferId, BufferId)> {
    let exchange = |step: &Prepared| match step {
        Prepared::Swap(a, b) => Some((*a, *b)),
        _ => None,
    };
    body.iter().filter_map(exchange).collect()
}

/// A number of iterations as kernels count them.
fn most(max: usize) -> u64 {
    max.min(i32::MAX as usize) as u64
}

fn failed(error: CudaError) -> Error {
    Error::Device { pipeline: LOOP.into(), error }
}

/// Most arguments of a kernel: 4 KiB.
const MOST_ARGUMENTS: usize = 512;

/// Most blocks of a launch that those of one kernel count through, up to a number of 32 bits.
const MOST_BLOCKS: u64 = 1 << 30;

/// Parameters of the tick of a graph with a loop.
const TICKS: usize = 6;

/// A launch of one thread.
const ONCE: Shape = Shape { grid: [1; 3], block: 1 };

/// Iterations of a chunk, an even number.
const CHUNK: usize = 8;

/// Bytes that a device moves between two looks of the host, where it moves each buffer once an iteration: a third of a second of a slow one.
const BETWEEN: usize = 1 << 36;

/// Least iterations between two looks of the host.
const LEAST: usize = 64;

/// Graphs that a loop keeps: two pairs of buffers, each one way or the other.
const GRAPHS: usize = 4;

/// The name of loops in errors.
const LOOP: &str = "loop";
