//! The state behind all calls, and the frame of each: it counts, fails where it should, and answers for a broken context.

use crate::counters::{Counters, KernelCounters};
use crate::objects::*;
use crate::settings::{Direction, Settings, Which};
use crate::status::{self, *};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use sumsq_ptx::{Memory, Workspace};

/// Address of the first device's memory: none of the host's, so that one is never taken for the other.
const FIRST_ADDRESS: u64 = 0x7_0000_0000;

/// Addresses between the memories of two devices.
const DEVICE_STRIDE: u64 = 1 << 40;

/// First handle; no pointer of the host has these bits.
const FIRST_HANDLE: Handle = 0x00cd_0000_0000_0000;

/// `CU_COMPUTEMODE_PROHIBITED`.
const PROHIBITED: i32 = 2;

static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| Mutex::new(Driver::default()));

thread_local! {
    /// Contexts of this thread: the last is current.
    static CONTEXTS: RefCell<Vec<Handle>> = const { RefCell::new(vec![]) };
}

pub struct Device {
    pub memory: Memory,
    pub workspace: Workspace,
    /// The primary context and how often it was retained.
    pub context: Option<Handle>,
    pub retained: u32,
}

#[derive(Default)]
pub struct Driver {
    pub settings: Settings,
    pub initialized: bool,
    environment_read: bool,
    pub devices: Vec<Device>,
    pub contexts: Table<Context>,
    pub streams: Table<Stream>,
    pub events: Table<Event>,
    pub modules: Table<LoadedModule>,
    pub functions: Table<Function>,
    pub graphs: Table<crate::graph::Graph>,
    pub executables: Table<crate::graph::Instance>,
    pub conditions: BTreeMap<u64, crate::graph::Condition>,
    pub host: BTreeMap<usize, HostMemory>,
    /// Addresses of managed memory.
    pub managed: BTreeSet<u64>,
    pub counters: Counters,
    /// Those of each kernel, by its name.
    pub kernel_counters: BTreeMap<String, KernelCounters>,
    /// Calls since a fault was asked for.
    armed: u64,
    /// Copies of each direction since a missed one was asked for.
    copies: [u64; 3],
    handles: usize,
}

/// Gives access to the state.
pub fn driver() -> MutexGuard<'static, Driver> {
    DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The frame of a call.
pub fn call(name: &str, body: impl FnOnce(&mut Driver) -> Done) -> Status {
    let mut driver = driver();
    driver.counters.calls += 1;
    driver.armed += 1;
    let due = driver.due(name);
    if let Some(code) = due
        && !gives_back(name)
    {
        return driver.broke(code);
    }
    if !driver.initialized && !["cuInit", "cuDriverGetVersion"].contains(&name) {
        return NOT_INITIALIZED;
    }
    match catch_unwind(AssertUnwindSafe(|| body(&mut driver))) {
        Ok(_) if due.is_some() => driver.broke(due.unwrap_or(UNKNOWN)),
        Ok(Ok(())) => SUCCESS,
        Ok(Err(code)) => driver.broke(code),
        Err(_) => {
            eprintln!("sumsq-libcuda: {name} has panicked");
            UNKNOWN
        }
    }
}

/// True for calls that give something back: those do it also where they are made to fail, as a program could not ask again.
fn gives_back(name: &str) -> bool {
    ["Free", "Destroy", "Unload", "Unregister", "Release", "PopCurrent"]
        .iter()
        .any(|word| name.contains(word))
}

/// Prints a sentence about what a program did wrong.
pub fn complain(sentence: &str) {
    eprintln!("sumsq-libcuda: {sentence}");
}

impl Driver {
    /// The code with which this call has to fail, if it has.
    fn due(&self, name: &str) -> Option<Status> {
        let fail = self.settings.fail.as_ref()?;
        let now = match &fail.which {
            Which::Number(n) => *n == self.armed,
            Which::Name(of) => of == name,
        };
        now.then_some(fail.code)
    }

    /// Counts a copy; true where it is the one that is missed.
    pub fn misses(&mut self, direction: Direction) -> bool {
        let c = &mut self.counters;
        match direction {
            Direction::ToDevice => c.copies_to_device += 1,
            Direction::ToHost => c.copies_to_host += 1,
            Direction::WithinDevice => c.copies_within_device += 1,
        }
        let at = direction as usize;
        self.copies[at] += 1;
        self.settings.missed == Some((direction, self.copies[at]))
    }

    /// Changes a setting while no context is there, or counts towards another fault.
    pub fn configure(&mut self, name: &str, value: &str) -> Done {
        self.read_environment()?;
        let anytime =
            ["FAIL_CALL", "ORDER", "CHECKS", "ENDLESS", "EDIT", "MISSED_COPY", "STALE_ARGUMENTS", "REPORT"]
                .contains(&name);
        if !anytime && self.contexts.iter().next().is_some() {
            return Err(ILLEGAL_STATE);
        }
        self.settings.set(name, value).ok_or(INVALID_VALUE)?;
        self.armed = 0;
        if name == "MISSED_COPY" {
            self.copies = [0; 3];
        }
        if !anytime {
            self.initialized = false;
        }
        Ok(())
    }

    pub fn read_environment(&mut self) -> Done {
        if !self.environment_read {
            self.settings = Settings::from_environment().map_err(|sentence| {
                complain(&sentence);
                INVALID_VALUE
            })?;
            self.environment_read = true;
            crate::report::at_exit();
        }
        Ok(())
    }

    /// A code on its way out: one that sticks breaks the context of this thread.
    fn broke(&mut self, code: Status) -> Status {
        let context = self.current_any();
        if is_sticky(code) && self.contexts.get(context).is_ok() {
            self.give_up(context, code);
        }
        code
    }

    pub fn initialize(&mut self) -> Done {
        if self.initialized {
            return Ok(());
        }
        self.read_environment()?;
        if self.settings.devices == 0 {
            return Err(NO_DEVICE);
        }
        self.devices = (0..self.settings.devices as u64)
            .map(|k| Device {
                memory: Memory::new(FIRST_ADDRESS + k * DEVICE_STRIDE, self.settings.memory),
                workspace: Workspace::default(),
                context: None,
                retained: 0,
            })
            .collect();
        self.initialized = true;
        Ok(())
    }

    /// A handle for a new thing.
    pub fn handle(&mut self) -> Handle {
        self.handles += 1;
        FIRST_HANDLE + 16 * self.handles
    }

    pub fn device(&mut self, ordinal: i32) -> Result<&mut Device, Status> {
        usize::try_from(ordinal).ok().and_then(|k| self.devices.get_mut(k)).ok_or(INVALID_DEVICE)
    }

    /// The context of this thread, whatever its state.
    pub fn current_any(&self) -> Handle {
        CONTEXTS.with_borrow(|all| all.last().copied().unwrap_or(0))
    }

    /// Replaces the context of this thread; zero takes it away.
    pub fn set_current(&self, context: Handle) {
        CONTEXTS.with_borrow_mut(|all| {
            all.pop();
            if context != 0 {
                all.push(context);
            }
        });
    }

    pub fn push_current(&self, context: Handle) {
        CONTEXTS.with_borrow_mut(|all| all.push(context));
    }

    pub fn pop_current(&self) -> Result<Handle, Status> {
        CONTEXTS.with_borrow_mut(Vec::pop).ok_or(INVALID_CONTEXT)
    }

    /// The context of this thread.
    ///
    /// # Errors
    /// Returns the code that broke it.
    pub fn current(&self) -> Result<Handle, Status> {
        let handle = self.current_any();
        let context = self
            .contexts
            .get(handle)
            .map_err(|_| if handle == 0 { INVALID_CONTEXT } else { CONTEXT_IS_DESTROYED })?;
        context.broken.map_or(Ok(handle), Err)
    }

    /// Number of the device of a context.
    pub fn device_of(&self, context: Handle) -> Result<usize, Status> {
        Ok(self.contexts.get(context).map_err(|_| INVALID_CONTEXT)?.device)
    }

    /// Memory of a context's device.
    pub fn memory(&mut self, context: Handle) -> Result<&mut Memory, Status> {
        let device = self.device_of(context)?;
        Ok(&mut self.devices[device].memory)
    }

    /// The device that holds some bytes.
    pub fn holder(&self, address: u64, bytes: usize) -> Result<usize, Status> {
        self.devices.iter().position(|d| d.memory.holds(address, bytes)).ok_or(INVALID_VALUE)
    }

    /// Makes a context for a device, or hands out the one that is there.
    pub fn retain(&mut self, ordinal: i32) -> Result<Handle, Status> {
        let prohibited = self.settings.compute_mode == PROHIBITED;
        let device = self.device(ordinal)?;
        if prohibited {
            return Err(DEVICE_UNAVAILABLE);
        }
        device.retained += 1;
        if let Some(context) = device.context {
            return Ok(context);
        }
        let context = self.handle();
        let default_stream = self.new_stream(context, true, true);
        let thread_stream = self.new_stream(context, true, true);
        let device = ordinal as usize;
        self.contexts.insert(context, Context { device, broken: None, default_stream, thread_stream });
        self.devices[device].context = Some(context);
        Ok(context)
    }

    /// Gives a context back; with the last one all goes that it holds.
    pub fn release(&mut self, ordinal: i32) -> Done {
        let device = self.device(ordinal)?;
        let context = device.context.ok_or(INVALID_CONTEXT)?;
        device.retained -= 1;
        if device.retained == 0 {
            // Work that nobody waited for is done before its memory goes.
            let _ = self.drain_context(context);
            self.destroy_context(context);
        }
        Ok(())
    }

    fn destroy_context(&mut self, context: Handle) {
        let left = self.objects_of(context) + self.allocations_of(context);
        self.counters.leaked += left;
        let Ok(dead) = self.contexts.remove(context) else { return };
        self.streams.retain(|s| s.context != context);
        self.events.retain(|e| e.context != context);
        let modules: Vec<Handle> =
            self.modules.iter().filter(|(_, m)| m.context == context).map(|m| m.0).collect();
        modules.into_iter().for_each(|m| {
            let _ = self.unload(m);
        });
        self.graphs.retain(|g| g.context != context);
        self.executables.retain(|g| g.context != context);
        self.host.retain(|_, h| h.context != context);
        let device = &mut self.devices[dead.device];
        device.memory.free_all();
        (device.context, device.retained) = (None, 0);
    }

    /// Allocations of a context's device that are the program's own.
    fn allocations_of(&self, context: Handle) -> u64 {
        let Ok(device) = self.device_of(context) else { return 0 };
        let of_modules = self.modules.iter().filter(|(_, m)| m.context == context);
        let variables: usize = of_modules.map(|(_, m)| m.module.variables()).sum();
        (self.devices[device].memory.allocations() - variables) as u64
    }

    fn objects_of(&self, context: Handle) -> u64 {
        let streams = self.streams.iter().filter(|(_, s)| s.context == context && !s.built_in).count();
        let events = self.events.iter().filter(|(_, e)| e.context == context).count();
        let modules = self.modules.iter().filter(|(_, m)| m.context == context).count();
        let graphs = self.graphs.iter().filter(|(_, g)| g.context == context && g.parent.is_none()).count();
        let executables = self.executables.iter().filter(|(_, g)| g.context == context).count();
        let host = self.host.values().filter(|h| h.context == context).count();
        (streams + events + modules + graphs + executables + host) as u64
    }

    /// The counts with what is held now.
    pub fn counts(&self) -> Counters {
        let contexts: Vec<Handle> = self.contexts.iter().map(|(h, _)| h).collect();
        Counters {
            allocations: contexts.iter().map(|c| self.allocations_of(*c)).sum(),
            allocated_bytes: self.devices.iter().map(|d| d.memory.used()).sum(),
            objects: contexts.iter().map(|c| self.objects_of(*c)).sum(),
            ..self.counters
        }
    }

    pub fn unload(&mut self, module: Handle) -> Done {
        let dead = self.modules.remove(module)?;
        self.functions.retain(|f| f.module != module);
        if let Ok(memory) = self.memory(dead.context) {
            dead.module.free_variables(memory);
        }
        Ok(())
    }

    /// The code for a status that a device met.
    pub fn code_of(error: &sumsq_ptx::LaunchError) -> Status {
        use sumsq_ptx::Fault::*;
        match error.fault {
            Outside { .. } => status::ILLEGAL_ADDRESS,
            Misaligned { .. } => status::MISALIGNED_ADDRESS,
            OtherSpace { .. } => status::INVALID_ADDRESS_SPACE,
            Endless(_) => status::LAUNCH_TIMEOUT,
            _ => status::LAUNCH_FAILED,
        }
    }
}
