//! Modules: what a text becomes on a device.

use crate::code::Code;
use crate::decode;
use crate::error::LoadError;
use crate::memory::Memory;
use crate::text;

/// Most bytes of static shared memory.
pub const SHARED_MOST: usize = 48 * 1024;

/// A module whose variables lie in a device's memory.
pub struct Module {
    pub(crate) functions: Vec<Code>,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) shared: Vec<SharedVariable>,
    /// Lines of the functions' accesses, each of which has a place to remember its last allocation.
    pub(crate) accesses: Vec<u32>,
    /// Name, address and bytes of variables of global and constant memory.
    pub(crate) variables: Vec<(String, u64, u64)>,
    version: (u32, u32),
    target: u32,
}

/// A function that can be launched.
#[derive(Debug)]
pub struct Kernel {
    pub name: String,
    /// Offset and bytes of each parameter in the launch's block.
    pub params: Vec<(usize, usize)>,
    /// Bytes of static shared memory.
    pub shared: usize,
    /// Bytes of local memory, calls not counted.
    pub local: usize,
    /// Threads of a block that it insists on.
    pub reqntid: Option<[u32; 3]>,
    /// Most threads of a block.
    pub most_threads: u32,
    pub(crate) function: u32,
    /// Indices of its shared variables.
    pub(crate) shared_variables: Vec<u32>,
}

impl Kernel {
    /// Bytes of the launch's block of parameters.
    pub fn params_bytes(&self) -> usize {
        self.params.last().map_or(0, |(at, bytes)| at + bytes)
    }
}

/// A variable of shared memory at an address that no other of the module has.
#[derive(Debug)]
pub(crate) struct SharedVariable {
    pub address: u64,
    pub bytes: usize,
    pub align: usize,
}

impl Module {
    /// Understands a text and places its variables in memory.
    ///
    /// # Errors
    /// Returns what of the text is unknown, refused or too large, with its line; then no memory is taken.
    pub fn load(text: &str, memory: &mut Memory) -> Result<Module, LoadError> {
        let unit = text::parse(text)?;
        let mut module = Module {
            functions: vec![],
            kernels: vec![],
            shared: vec![],
            accesses: vec![],
            variables: vec![],
            version: unit.version,
            target: unit.target,
        };
        match decode::decode(&unit, &mut module, memory) {
            Ok(()) => Ok(module),
            Err(e) => {
                module.free_variables(memory);
                Err(e)
            }
        }
    }

    /// Gives the memory of the variables back, as the module is unloaded.
    pub fn free_variables(&self, memory: &mut Memory) {
        self.variables.iter().for_each(|(_, address, _)| {
            memory.free(*address);
        });
    }

    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// Index of a kernel.
    pub fn kernel(&self, name: &str) -> Option<usize> {
        self.kernels.iter().position(|k| k.name == name)
    }

    /// Address and bytes of a variable of global or constant memory.
    pub fn variable(&self, name: &str) -> Option<(u64, u64)> {
        self.variables.iter().find(|v| v.0 == name).map(|v| (v.1, v.2))
    }

    /// Number of variables of global and constant memory, each an allocation.
    pub fn variables(&self) -> usize {
        self.variables.len()
    }

    /// True for the address of a variable of global or constant memory.
    pub fn holds_variable(&self, address: u64) -> bool {
        self.variables.iter().any(|v| v.1 == address)
    }

    /// Version of the PTX language, `(6, 3)`.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Compute capability of the target, times ten.
    pub fn target(&self) -> u32 {
        self.target
    }
}
