//! One thread: its frames, and the loop that executes its instructions until it ends or waits.

use super::access::{Access, Elements, element};
use super::block::Shared;
use super::device::{Device, LOCAL_START};
use crate::code::{Code, NONE, Op};
use crate::error::{Area, Fault};
use crate::memory::{Region, UNWRITTEN};

/// Most calls within each other.
const DEPTH: usize = 64;

/// Reasons for a thread to stop running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    /// At a barrier of the block.
    Barrier,
    /// At an instruction that lanes of the warp execute together.
    Lanes,
    Ended,
}

/// A call.
pub struct Frame {
    pub function: u32,
    /// The next instruction, or the one that waits.
    pub pc: usize,
    pub registers: Vec<u64>,
    pub params: Vec<u8>,
    /// Address of its local memory.
    pub local: u64,
}

pub struct Thread {
    /// Number in the block.
    pub id: u32,
    pub state: State,
    pub frames: Vec<Frame>,
    /// Frames that ended, for their memory.
    spare: Vec<Frame>,
    /// Local memory of all frames.
    pub local: Region,
}

impl Default for Thread {
    fn default() -> Thread {
        let local = Region::new(Area::Local, LOCAL_START, 0, UNWRITTEN);
        Thread { id: 0, state: State::Ready, frames: vec![], spare: vec![], local }
    }
}

impl Thread {
    /// Puts the thread before the first instruction of a kernel.
    pub fn start(&mut self, function: u32, code: &Code, params: &[u8]) {
        while let Some(frame) = self.frames.pop() {
            self.spare.push(frame);
        }
        self.local.truncate(0);
        self.state = State::Ready;
        self.enter(function, code);
        if let Some(frame) = self.frames.last_mut() {
            frame.params[..params.len()].copy_from_slice(params);
        }
    }

    fn enter(&mut self, function: u32, code: &Code) {
        let mut frame = self.spare.pop().unwrap_or(Frame {
            function,
            pc: 0,
            registers: vec![],
            params: vec![],
            local: 0,
        });
        frame.function = function;
        frame.pc = 0;
        frame.registers.clear();
        frame.registers.extend_from_slice(&code.registers);
        frame.params.clear();
        frame.params.resize(code.params, crate::memory::POISON);
        frame.local = self.local.grow(code.local.0, code.local.1);
        self.frames.push(frame);
    }

    /// The instruction at which the thread stands: its function and place.
    pub fn place(&self) -> (u32, usize) {
        self.frames.last().map_or((0, 0), |f| (f.function, f.pc))
    }

    /// Runs until the thread waits or ends, or for about `fuel` instructions. Where it fails, [`Thread::place`] says so.
    pub fn run(&mut self, device: &mut Device, shared: &mut Shared, fuel: u64) -> Result<(), Fault> {
        let mut executed = 0;
        let outcome = loop {
            match self.run_frame(device, shared, &mut executed, fuel) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(fault) => break Err(fault),
            }
        };
        device.executed += executed;
        outcome
    }

    /// Runs until the frame changes (true) or the thread stops (false).
    fn run_frame(
        &mut self,
        device: &mut Device,
        shared: &mut Shared,
        executed: &mut u64,
        fuel: u64,
    ) -> Result<bool, Fault> {
        let module = device.module;
        let Some(frame) = self.frames.last_mut() else { return Ok(false) };
        let code = &module.functions[frame.function as usize];
        let lists = &code.lists[..];
        let who = shared.who(self.id);
        let mut access = Access { device, shared, local: &mut self.local, who };
        let registers = &mut frame.registers[..];
        let mut pc = frame.pc;
        /// Leaves the loop with the fault of the instruction at `pc`.
        macro_rules! checked {
            ($e:expr) => {
                match $e {
                    Ok(value) => value,
                    Err(fault) => {
                        frame.pc = pc;
                        return Err(fault);
                    }
                }
            };
        }
        loop {
            let inst = &code.insts[pc];
            *executed += 1;
            if inst.guard != NONE {
                let value = registers[(inst.guard >> 1) as usize] & 1;
                if value == u64::from(inst.guard & 1) {
                    pc += 1;
                    continue;
                }
            }
            match &inst.op {
                Op::Pure { f, to, a, b, c } => {
                    registers[*to as usize] =
                        f(registers[*a as usize], registers[*b as usize], registers[*c as usize]);
                }
                Op::Load { to, target, sign, strength, constant } => {
                    let to = Elements { registers: *to, count: target.count, bytes: target.bytes, lists };
                    checked!(access.load(target, registers, to, *sign, (*strength, *constant)));
                }
                Op::Store { from, target, strength } => {
                    let from = Elements { registers: *from, count: target.count, bytes: target.bytes, lists };
                    checked!(access.store(target, registers, from, *strength));
                }
                Op::Branch { to } => {
                    if *executed > fuel {
                        frame.pc = *to as usize;
                        return Ok(false);
                    }
                    pc = *to as usize;
                    continue;
                }
                Op::Special { to, which } => {
                    registers[*to as usize] = access.shared.special(*which, self.id, frame.local);
                }
                Op::LoadParam { to, at, bytes, count, sign } => {
                    let to = Elements { registers: *to, count: *count, bytes: *bytes, lists };
                    let end = usize::from(*bytes) * usize::from(*count);
                    to.fill(registers, &frame.params[*at as usize..][..end], *sign);
                }
                Op::StoreParam { from, at, bytes, count } => {
                    let from = Elements { registers: *from, count: *count, bytes: *bytes, lists };
                    let end = usize::from(*bytes) * usize::from(*count);
                    from.give(registers, &mut frame.params[*at as usize..][..end]);
                }
                Op::Divide { f, to, a, b, bits } => {
                    let (a, b) = (registers[*a as usize], registers[*b as usize]);
                    if b << (64 - bits) == 0 {
                        checked!(Err(Fault::DivisionByZero));
                    }
                    registers[*to as usize] = f(a, b, 0);
                }
                Op::Quad { f, to, list } => {
                    let word = |k: u32| registers[lists[(list + k) as usize] as usize];
                    registers[*to as usize] = f([word(0), word(1), word(2), word(3)]);
                }
                Op::Atomic { f, to, b, c, target, strength } => {
                    checked!(access.atomic(target, registers, *f, [*to, *b, *c], *strength));
                }
                Op::Convert { to, from, space, to_generic } => {
                    registers[*to as usize] =
                        checked!(super::device::convert(registers[*from as usize], *space, *to_generic));
                }
                Op::IsSpace { to, from, space } => {
                    registers[*to as usize] =
                        super::device::is_space(registers[*from as usize], *space).into();
                }
                Op::BranchIndexed { index, list, count } => {
                    let index = u64::from(registers[*index as usize] as u32);
                    if index >= u64::from(*count) {
                        checked!(Err(Fault::BranchTarget { index, targets: *count as usize }));
                    }
                    pc = lists[*list as usize + index as usize] as usize;
                    continue;
                }
                Op::Call { function, copies, count, .. } => {
                    frame.pc = pc;
                    if self.frames.len() == DEPTH {
                        return Err(Fault::Depth(DEPTH));
                    }
                    self.call(
                        *function,
                        &module.functions[*function as usize],
                        &lists[*copies as usize..][..3 * *count as usize],
                    );
                    return Ok(true);
                }
                Op::SetConditional { handle, value } => {
                    let handle = element(&frame.params[*handle as usize..][..8], 0);
                    let value = element(&frame.params[*value as usize..][..4], 0) as u32;
                    access.device.conditionals.push((handle, value));
                }
                Op::Return => {
                    frame.pc = pc;
                    return Ok(self.leave(module));
                }
                Op::Exit => {
                    frame.pc = pc;
                    self.state = State::Ended;
                    return Ok(false);
                }
                Op::Barrier => {
                    frame.pc = pc;
                    self.state = State::Barrier;
                    return Ok(false);
                }
                Op::Fence => access.fence(),
                Op::WarpBarrier { .. } | Op::Shuffle { .. } | Op::Vote { .. } => {
                    frame.pc = pc;
                    self.state = State::Lanes;
                    return Ok(false);
                }
                // The lanes that are active are up to the device: at least this one.
                Op::ActiveMask { to } => registers[*to as usize] = 1 << (self.id % 32),
                Op::Nothing => {}
                Op::Trap => checked!(Err(Fault::Trap)),
            }
            pc += 1;
        }
    }

    fn call(&mut self, function: u32, code: &Code, copies: &[u32]) {
        self.enter(function, code);
        let [.., caller, callee] = &mut self.frames[..] else { return };
        for copy in copies.chunks_exact(3) {
            let (from, to, bytes) = (copy[0] as usize, copy[1] as usize, copy[2] as usize);
            callee.params[to..to + bytes].copy_from_slice(&caller.params[from..from + bytes]);
        }
    }

    /// Returns from a call; false where it was the kernel.
    fn leave(&mut self, module: &crate::module::Module) -> bool {
        if self.frames.len() == 1 {
            self.state = State::Ended;
            return false;
        }
        let Some(callee) = self.frames.pop() else { return false };
        if let Some(caller) = self.frames.last_mut() {
            let insts = &module.functions[caller.function as usize].insts;
            let result = module.functions[callee.function as usize].result;
            if let (Op::Call { result: at, .. }, Some((from, bytes))) = (&insts[caller.pc].op, result)
                && *at != NONE
            {
                let (at, from, bytes) = (*at as usize, from as usize, bytes as usize);
                caller.params[at..at + bytes].copy_from_slice(&callee.params[from..from + bytes]);
            }
            caller.pc += 1;
        }
        self.local.truncate((callee.local - LOCAL_START) as usize);
        self.spare.push(callee);
        true
    }
}
