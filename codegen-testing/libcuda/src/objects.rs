//! Things that programs hold handles of. A handle is a number that is no address and never used twice, so that a stale one is known.

use crate::raw::Callback;
use crate::status::{INVALID_HANDLE, Status};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use sumsq_ptx::{Geometry, Module};

/// A handle; zero is none.
pub type Handle = usize;

/// Things of one kind.
pub struct Table<T>(BTreeMap<Handle, T>);

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table(BTreeMap::new())
    }
}

impl<T> Table<T> {
    pub fn get(&self, handle: Handle) -> Result<&T, Status> {
        self.0.get(&handle).ok_or(INVALID_HANDLE)
    }

    pub fn get_mut(&mut self, handle: Handle) -> Result<&mut T, Status> {
        self.0.get_mut(&handle).ok_or(INVALID_HANDLE)
    }

    pub fn insert(&mut self, handle: Handle, thing: T) {
        self.0.insert(handle, thing);
    }

    pub fn remove(&mut self, handle: Handle) -> Result<T, Status> {
        self.0.remove(&handle).ok_or(INVALID_HANDLE)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.0.iter().map(|(h, t)| (*h, t))
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.values_mut()
    }

    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.0.retain(|_, t| keep(t));
    }
}

/// The primary context of a device.
pub struct Context {
    pub device: usize,
    /// The code that every call returns since something failed on the device.
    pub broken: Option<Status>,
    /// Stream of work that names none, and the one of a thread.
    pub default_stream: Handle,
    pub thread_stream: Handle,
}

/// Work in order.
pub struct Stream {
    pub context: Handle,
    /// True where it and the default stream wait for each other.
    pub blocking: bool,
    pub queue: VecDeque<Work>,
    /// Works put in, and done, since the start.
    pub enqueued: u64,
    pub done: u64,
    /// Queries answered with "not ready" in a row.
    pub asked: u32,
    pub capture: Option<Capture>,
    /// True for the two that a context has by itself.
    pub built_in: bool,
}

/// A graph that grows instead of the queue.
pub struct Capture {
    pub graph: Handle,
    pub last: Option<Handle>,
}

pub struct Event {
    pub context: Handle,
    /// Stream and the number of its work behind which the event lies.
    pub recorded: Option<(Handle, u64)>,
    /// Time when it was reached.
    pub reached: Option<u64>,
    pub timing: bool,
    pub asked: u32,
}

pub struct LoadedModule {
    pub context: Handle,
    pub module: Arc<Module>,
    /// Handle of each kernel that was asked for.
    pub functions: Vec<(usize, Handle)>,
}

pub struct Function {
    pub module: Handle,
    pub kernel: usize,
}

pub struct HostMemory {
    pub context: Handle,
    pub bytes: usize,
    /// The allocation, or none where the program registered its own.
    pub owned: Option<Vec<u64>>,
}

/// A kernel with its arguments.
#[derive(Clone)]
pub struct KernelWork {
    pub module: Arc<Module>,
    pub kernel: usize,
    pub geometry: Geometry,
    pub dynamic_shared: usize,
    pub params: Vec<u8>,
    pub cooperative: bool,
}

/// Bytes that go to the device.
#[derive(Clone)]
pub enum Source {
    /// As they were when the program asked.
    Taken(Arc<Vec<u8>>),
    /// Read when the copy is made.
    Late(usize, usize),
}

/// A thing to be done by a device.
#[derive(Clone)]
pub enum Work {
    Kernel(KernelWork),
    ToDevice {
        to: u64,
        from: Source,
    },
    ToHost {
        to: usize,
        from: u64,
        bytes: usize,
    },
    Within {
        to: u64,
        from: u64,
        bytes: usize,
    },
    Fill {
        to: u64,
        pattern: Vec<u8>,
        bytes: usize,
    },
    Free(u64),
    Record(Handle),
    /// Waits until a stream has done so many works.
    After(Handle, u64),
    Host(Callback),
    Graph(Arc<crate::graph::Executable>),
}
