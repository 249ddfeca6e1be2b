//! One block: its threads take turns, warp by warp, until all have ended.

use super::device::Device;
use super::lanes;
use super::order::Order;
use super::thread::{State, Thread};
use super::{Dims, Geometry};
use crate::code::Special;
use crate::error::{Fault, Missing};
use crate::memory::{GUARD, POISON, Region, UNWRITTEN, Who};
use crate::module::{Kernel, Module};

/// Instructions that a thread may run before others get a turn.
const FUEL: u64 = 1 << 20;

/// The same where blocks may wait for each other, each in a loop.
const FUEL_TOGETHER: u64 = 1 << 10;

/// Things that the threads of a block share.
pub struct Shared {
    pub memory: Region,
    pub index: Dims,
    pub geometry: Geometry,
    /// Number of the block in its launch.
    pub number: u32,
    pub section: u32,
    /// The first section behind the last barrier.
    interval: u32,
    first_section: u32,
    launch_section: u32,
    /// Of each warp.
    epochs: Vec<u16>,
    /// Of each thread: sections of other blocks below this one are behind it.
    pub floors: Vec<u32>,
    /// Of each thread, the section of its last fence.
    pub fences: Vec<u32>,
    /// The thread that alone has made plain accesses in the section, or [`NOBODY`] or [`MANY`], the latter where releases are not noted.
    pub touched: u32,
}

/// No thread has made a plain access.
pub const NOBODY: u32 = u32::MAX;
/// Several threads have, or anybody may.
pub const MANY: u32 = u32::MAX - 1;

impl Shared {
    /// The next access of a thread, as races see it.
    pub fn who(&self, thread: u32) -> Who {
        Who {
            section: self.section,
            interval: self.interval,
            began: self.launch_section,
            floor: self.floors[thread as usize],
            block: self.number,
            thread: thread as u16,
            epoch: self.epochs[thread as usize / 32],
            access: 0,
        }
    }

    /// The same for memory of the block alone, which others had before.
    pub fn who_shared(&self, who: Who) -> Who {
        Who { began: self.first_section, floor: self.first_section, ..who }
    }

    /// Ends the epoch of a warp: what its lanes did before is ordered before what they do from now on.
    pub fn end_epoch(&mut self, warp: usize) {
        self.epochs[warp] = self.epochs[warp].wrapping_add(1);
    }

    pub fn special(&self, which: Special, thread: u32, local: u64) -> u64 {
        let lane = thread % 32;
        let below = (1u64 << lane) - 1;
        let equal = 1u64 << lane;
        match which {
            Special::Tid(axis) => self.geometry.thread(thread)[usize::from(axis)].into(),
            Special::Ntid(axis) => self.geometry.block[usize::from(axis)].into(),
            Special::Ctaid(axis) => self.index[usize::from(axis)].into(),
            Special::Nctaid(axis) => self.geometry.grid[usize::from(axis)].into(),
            Special::Lane => lane.into(),
            Special::Warp => (thread / 32).into(),
            Special::Warps => self.geometry.threads().div_ceil(32).into(),
            Special::LanesEqual => equal,
            Special::LanesBelow => below,
            Special::LanesUpTo => below | equal,
            Special::LanesAbove => !(below | equal) & 0xffff_ffff,
            Special::LanesFrom => !below & 0xffff_ffff,
            Special::Local(at) => local + u64::from(at),
        }
    }
}

pub struct Block {
    pub threads: Vec<Thread>,
    pub shared: Shared,
    /// Instructions of the launch before it began.
    pub started_at: u64,
    warps: Vec<u32>,
    lanes: Vec<u32>,
    fuel: u64,
}

/// A fault and the thread that met it.
pub type Failed = (u32, Fault);

impl Block {
    /// A block without threads' state, to be started; its threads are taken from those that are spare, as far as they go.
    pub fn new(geometry: Geometry, module: &Module, spare: &mut Vec<Thread>) -> Block {
        let end = module.shared.last().map_or(0x400, |s| s.address + s.bytes as u64);
        let memory = Region::new(crate::error::Area::Shared, 0x400, (end - 0x400) as usize, GUARD);
        let threads = geometry.threads();
        let fresh = |id| {
            let mut thread = spare.pop().unwrap_or_default();
            thread.id = id;
            thread
        };
        let all = (0..threads).map(fresh).collect();
        let shared = Shared {
            memory,
            index: [0; 3],
            geometry,
            number: 0,
            section: 0,
            interval: 0,
            first_section: 0,
            launch_section: 0,
            epochs: vec![0; threads.div_ceil(32) as usize],
            floors: vec![0; threads as usize],
            fences: vec![0; threads as usize],
            touched: MANY,
        };
        Block { threads: all, shared, started_at: 0, warps: vec![], lanes: vec![], fuel: FUEL }
    }

    /// Puts all threads before the kernel's first instruction.
    pub fn start(
        &mut self,
        kernel: &Kernel,
        device: &mut Device,
        index: Dims,
        launch_section: u32,
        order: Order,
        params: &[u8],
    ) {
        let linear = u64::from(self.shared.geometry.linear(index));
        self.warps = order.of(self.threads.len().div_ceil(32) as u32, 2 * linear + 1);
        self.lanes = order.of(32, 2 * linear + 2);
        self.started_at = device.executed;
        self.shared.index = index;
        self.shared.number = linear as u32;
        self.shared.floors.fill(launch_section);
        self.shared.section = device.memory.section();
        self.shared.first_section = self.shared.section;
        self.shared.interval = self.shared.section;
        self.shared.launch_section = launch_section;
        for s in &kernel.shared_variables {
            let s = &device.module.shared[*s as usize];
            let at = (s.address - self.shared.memory.base) as usize;
            self.shared.memory.state[at..at + s.bytes].fill(UNWRITTEN);
            self.shared.memory.bytes[at..at + s.bytes].fill(POISON);
        }
        let code = &device.module.functions[kernel.function as usize];
        self.threads.iter_mut().for_each(|t| t.start(kernel.function, code, params));
    }

    /// Has the block run together with others, for which it may wait; `checks` where it is noted for which it has.
    pub fn join_grid(&mut self, checks: bool) {
        self.shared.touched = if checks { NOBODY } else { MANY };
        self.fuel = FUEL_TOGETHER;
    }

    /// Runs until all threads have ended (true), or until those that can run have each had a long turn (false).
    pub fn advance(&mut self, device: &mut Device) -> Result<bool, Failed> {
        loop {
            let mut paused = false;
            for warp in 0..self.warps.len() {
                paused |= self.run_warp(self.warps[warp] as usize, device)?;
            }
            if paused {
                return Ok(false);
            }
            if self.threads.iter().all(|t| t.state == State::Ended) {
                return Ok(true);
            }
            self.barrier(device)?;
        }
    }

    /// Runs a warp until none of its lanes can go on; true where one was only interrupted.
    fn run_warp(&mut self, warp: usize, device: &mut Device) -> Result<bool, Failed> {
        loop {
            for lane in &self.lanes {
                let id = warp * 32 + *lane as usize;
                if let Some(thread) = self.threads.get_mut(id)
                    && thread.state == State::Ready
                {
                    thread.run(device, &mut self.shared, self.fuel).map_err(|fault| (id as u32, fault))?;
                }
            }
            let lanes = warp * 32..(warp * 32 + 32).min(self.threads.len());
            let resolved =
                lanes::resolve(&mut self.threads[lanes.clone()], &mut self.shared, device.module, warp)?;
            if self.threads[lanes].iter().any(|t| t.state == State::Ready) {
                if !resolved {
                    return Ok(true);
                }
            } else {
                return Ok(false);
            }
        }
    }

    /// Lets all threads pass the barrier at which they must be.
    fn barrier(&mut self, device: &mut Device) -> Result<(), Failed> {
        let Some(first) = self.threads.iter().position(|t| t.state == State::Barrier) else { return Ok(()) };
        let line = |t: &Thread| {
            let (function, pc) = t.place();
            device.module.functions[function as usize].insts[pc].line
        };
        for t in &self.threads {
            let reason = match t.state {
                State::Ended => Missing::Ended,
                State::Barrier => {
                    // Lanes of a warp pass one barrier together; warps may come from different ones.
                    let leader = &self.threads[t.id as usize / 32 * 32];
                    if t.place() == leader.place() {
                        continue;
                    }
                    return Err((
                        leader.id,
                        Fault::Barrier { missing: t.id, reason: Missing::Elsewhere(line(t)) },
                    ));
                }
                _ => Missing::Elsewhere(line(t)),
            };
            return Err((first as u32, Fault::Barrier { missing: t.id, reason }));
        }
        self.shared.section = device.memory.section();
        self.shared.interval = self.shared.section;
        if let Some(grid) = &mut device.grid {
            grid.barrier(&mut self.shared, device.memory);
        }
        for t in &mut self.threads {
            t.state = State::Ready;
            if let Some(frame) = t.frames.last_mut() {
                frame.pc += 1;
            }
        }
        Ok(())
    }
}
