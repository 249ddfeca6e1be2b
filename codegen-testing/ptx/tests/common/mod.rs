//! A device with memory for the tests, and kernels around a few lines of PTX.

#![allow(dead_code, reason = "each test file uses some of it")]

pub use sumsq_ptx::instructions::kernel;
use sumsq_ptx::{Fault, Geometry, Launch, LaunchError, Memory, Module, Order, Outcome, Workspace};

/// Orders that every test runs through.
pub const ORDERS: [Order; 4] = [Order::Ascending, Order::Descending, Order::Shuffled(1), Order::Shuffled(77)];

/// A module on a device.
pub struct Machine {
    pub memory: Memory,
    pub module: Module,
    workspace: Workspace,
}

/// An argument of a kernel.
pub enum Arg {
    Pointer(u64),
    Int(u32),
    Long(u64),
}

impl Machine {
    pub fn new(text: &str) -> Machine {
        let mut memory = Memory::new(0x1_0000, 64 << 20);
        let module = Module::load(text, &mut memory).unwrap_or_else(|e| panic!("{e}\n{text}"));
        Machine { memory, module, workspace: Workspace::default() }
    }

    /// Memory that holds values.
    pub fn upload(&mut self, bytes: &[u8]) -> u64 {
        let address = self.unwritten(bytes.len());
        self.memory.write(address, bytes).unwrap();
        address
    }

    pub fn upload_u32(&mut self, values: &[u32]) -> u64 {
        self.upload(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
    }

    pub fn upload_f32(&mut self, values: &[f32]) -> u64 {
        self.upload(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// New memory.
    pub fn unwritten(&mut self, bytes: usize) -> u64 {
        self.memory.allocate(bytes as u64).unwrap()
    }

    pub fn download(&mut self, address: u64, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.memory.read(address, &mut data).unwrap();
        data
    }

    pub fn download_u32(&mut self, address: u64, count: usize) -> Vec<u32> {
        let bytes = self.download(address, 4 * count);
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub fn download_f32(&mut self, address: u64, count: usize) -> Vec<f32> {
        self.download_u32(address, count).into_iter().map(f32::from_bits).collect()
    }

    pub fn launch(
        &mut self,
        kernel: &str,
        blocks: u32,
        threads: u32,
        args: &[Arg],
        order: Order,
    ) -> Result<Outcome, LaunchError> {
        self.launch_shaped(kernel, [blocks, 1, 1], [threads, 1, 1], args, order)
    }

    pub fn launch_shaped(
        &mut self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        args: &[Arg],
        order: Order,
    ) -> Result<Outcome, LaunchError> {
        self.launch_any(kernel, Geometry { grid, block }, args, order, false)
    }

    /// A launch whose blocks may wait for each other.
    pub fn launch_together(
        &mut self,
        kernel: &str,
        blocks: u32,
        threads: u32,
        args: &[Arg],
        order: Order,
    ) -> Result<Outcome, LaunchError> {
        let geometry = Geometry { grid: [blocks, 1, 1], block: [threads, 1, 1] };
        self.launch_any(kernel, geometry, args, order, true)
    }

    fn launch_any(
        &mut self,
        kernel: &str,
        geometry: Geometry,
        args: &[Arg],
        order: Order,
        cooperative: bool,
    ) -> Result<Outcome, LaunchError> {
        let kernel = self.module.kernel(kernel).unwrap();
        let shape = &self.module.kernels()[kernel];
        let mut params = vec![0; shape.params_bytes()];
        for ((at, bytes), arg) in shape.params.iter().zip(args) {
            let value = match arg {
                Arg::Pointer(v) | Arg::Long(v) => *v,
                Arg::Int(v) => u64::from(*v),
            };
            params[*at..at + bytes].copy_from_slice(&value.to_le_bytes()[..*bytes]);
        }
        Launch {
            module: &self.module,
            kernel,
            geometry,
            dynamic_shared: 0,
            params: &params,
            order,
            checks: true,
            cooperative,
            endless: 1 << 24,
        }
        .run(&mut self.memory, &mut self.workspace)
    }
}

/// Runs that kernel on two arrays of 4096 words, the second not written, in every order; all must agree.
pub fn outcome(threads: u32, blocks: u32, shared: &str, body: &str) -> Result<Vec<u32>, Fault> {
    let text = kernel(threads, shared, body);
    let mut outcomes = vec![];
    for order in ORDERS {
        let mut m = Machine::new(&text);
        let a = m.upload_u32(&(0..4096).collect::<Vec<u32>>());
        let b = m.unwritten(4 * 4096);
        let result = m.launch("k", blocks, threads, &[Arg::Pointer(a), Arg::Pointer(b)], order);
        outcomes.push(result.map(|_| m.download_u32(b, 4096)).map_err(|e| e.fault));
    }
    let kinds: Vec<_> = outcomes.iter().map(|o| o.as_ref().map_err(std::mem::discriminant)).collect();
    assert!(kinds.windows(2).all(|w| w[0] == w[1]), "the order decides: {kinds:?}\n{text}");
    outcomes.swap_remove(0)
}
