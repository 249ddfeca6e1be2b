//! Launches: blocks after blocks, each a set of threads that take turns.

mod access;
mod block;
mod device;
mod grid;
mod lanes;
mod order;
mod thread;

pub use order::Order;

use crate::error::{Fault, LaunchError, Other, Place};
use crate::memory::Memory;
use crate::module::{Kernel, Module, SHARED_MOST};
use block::Block;
use device::Device;
use grid::Grid;

/// Sizes or coordinates in three dimensions.
pub type Dims = [u32; 3];

/// Sizes of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub grid: Dims,
    pub block: Dims,
}

impl Geometry {
    fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Coordinates of a thread.
    fn thread(&self, id: u32) -> Dims {
        unravel(id, self.block)
    }

    fn linear(&self, block: Dims) -> u32 {
        block[0] + self.grid[0] * (block[1] + self.grid[1] * block[2])
    }
}

fn unravel(id: u32, sizes: Dims) -> Dims {
    [id % sizes[0], id / sizes[0] % sizes[1], id / sizes[0] / sizes[1]]
}

/// A kernel with its sizes and arguments.
#[derive(Clone)]
pub struct Launch<'a> {
    pub module: &'a Module,
    /// Index among [`Module::kernels`].
    pub kernel: usize,
    pub geometry: Geometry,
    /// Bytes of dynamic shared memory, which no kernel here can name.
    pub dynamic_shared: usize,
    /// Arguments as [`Kernel::params`] lays them out.
    pub params: &'a [u8],
    pub order: Order,
    /// False where only bounds and alignment are checked.
    pub checks: bool,
    /// True where blocks may wait for each other: then all are there at once.
    pub cooperative: bool,
    /// Instructions of a block, on average where they run together, after which it counts as endless.
    pub endless: u64,
}

/// Memory that launches use one after the other, to be kept between them.
#[derive(Default)]
pub struct Workspace {
    threads: Vec<thread::Thread>,
}

/// Bytes of global memory that all threads of a launch ask for, each of every access; an atomic one loads and stores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    pub loaded: u64,
    pub stored: u64,
}

/// Results of a launch beside those in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub instructions: u64,
    pub traffic: Traffic,
    /// Values given to handles of conditional graph nodes, in order.
    pub conditionals: Vec<(u64, u32)>,
}

impl Launch<'_> {
    fn kernel(&self) -> &Kernel {
        &self.module.kernels[self.kernel]
    }

    /// Refuses sizes that no device takes.
    ///
    /// # Errors
    /// Returns the fault of the launch, of no block and no thread.
    pub fn validate(&self) -> Result<(), LaunchError> {
        let kernel = self.kernel();
        let Geometry { grid, block } = self.geometry;
        let threads = block.iter().map(|n| u64::from(*n)).product::<u64>();
        let most = [1024, 1024, 64];
        let blocks_most = [i32::MAX as u32, 65_535, 65_535];
        let shared = kernel.shared + self.dynamic_shared;
        let blocks = grid.iter().map(|n| u64::from(*n)).product::<u64>();
        let outside = |sizes: Dims, most: Dims| sizes.iter().zip(most).any(|(n, most)| *n == 0 || *n > most);
        let fault = if outside(block, most) || threads > u64::from(kernel.most_threads) {
            Fault::Threads(Place(block))
        } else if outside(grid, blocks_most) || blocks > u64::from(u32::MAX) {
            Fault::Grid(Place(grid))
        } else if let Some(wanted) = kernel.reqntid.filter(|n| *n != block) {
            Fault::BlockSize { came: Place(block), wanted: Place(wanted) }
        } else if shared > SHARED_MOST {
            Fault::Shared { bytes: shared, most: SHARED_MOST }
        } else if self.params.len() != kernel.params_bytes() {
            Fault::Parameters { came: self.params.len(), wanted: kernel.params_bytes() }
        } else {
            return Ok(());
        };
        Err(LaunchError {
            kernel: kernel.name.clone(),
            line: 0,
            block: Place::default(),
            thread: Place::default(),
            fault,
        })
    }

    /// Runs the kernel to its end.
    ///
    /// # Errors
    /// Returns the first rule that a thread broke; memory is then as it left it.
    pub fn run(&self, memory: &mut Memory, workspace: &mut Workspace) -> Result<Outcome, LaunchError> {
        self.validate()?;
        memory.begin_launch();
        let mut device = Device {
            module: self.module,
            memory,
            hints: vec![u32::MAX; self.module.accesses.len()],
            grid: None,
            checks: self.checks,
            executed: 0,
            traffic: Traffic::default(),
            conditionals: vec![],
        };
        let launch_section = device.memory.section();
        let blocks = self.geometry.grid.iter().product();
        device.grid = (self.cooperative && self.checks).then(|| Grid::new(blocks));
        let order = self.order.of(blocks, 0);
        if self.cooperative {
            self.run_together(&order, &mut device, launch_section, workspace)?;
        } else {
            self.run_in_turn(&order, &mut device, launch_section, workspace)?;
        }
        Ok(Outcome {
            instructions: device.executed,
            traffic: device.traffic,
            conditionals: device.conditionals,
        })
    }

    fn start(&self, block: &mut Block, id: u32, device: &mut Device, section: u32) {
        let index = unravel(id, self.geometry.grid);
        block.start(self.kernel(), device, index, section, self.order, self.params);
    }

    fn run_in_turn(
        &self,
        order: &[u32],
        device: &mut Device,
        section: u32,
        workspace: &mut Workspace,
    ) -> Result<(), LaunchError> {
        let mut block = Block::new(self.geometry, self.module, &mut workspace.threads);
        for id in order {
            self.start(&mut block, *id, device, section);
            while !self.advance(&mut block, device)? {}
        }
        workspace.threads.append(&mut block.threads);
        Ok(())
    }

    fn run_together(
        &self,
        order: &[u32],
        device: &mut Device,
        section: u32,
        workspace: &mut Workspace,
    ) -> Result<(), LaunchError> {
        let mut open: Vec<Block> = vec![];
        for id in order {
            let mut block = Block::new(self.geometry, self.module, &mut workspace.threads);
            self.start(&mut block, *id, device, section);
            block.join_grid(self.checks);
            open.push(block);
        }
        while !open.is_empty() {
            let mut still = vec![];
            for mut block in open {
                if self.advance(&mut block, device)? {
                    workspace.threads.append(&mut block.threads);
                } else {
                    still.push(block);
                }
            }
            open = still;
        }
        Ok(())
    }

    fn advance(&self, block: &mut Block, device: &mut Device) -> Result<bool, LaunchError> {
        let ended = block.advance(device);
        let ended = ended.map_err(|(thread, fault)| self.error(block, thread, fault))?;
        let blocks =
            if self.cooperative { self.geometry.grid.iter().map(|n| u64::from(*n)).product() } else { 1 };
        let executed = device.executed - block.started_at;
        if !ended && executed / blocks > self.endless {
            return Err(self.error(block, 0, Fault::Endless(executed)));
        }
        Ok(ended)
    }

    fn error(&self, block: &Block, thread: u32, mut fault: Fault) -> LaunchError {
        if let Fault::Race { other, line, .. } = &mut fault {
            // So far it is the number of the access, and that of the block.
            *line = self.module.accesses[*line as usize];
            if let Other::Block { block, .. } = other {
                *block = Place(unravel(block.0[0], self.geometry.grid));
            }
        }
        let (function, pc) = block.threads[thread as usize].place();
        LaunchError {
            kernel: self.kernel().name.clone(),
            line: self.module.functions[function as usize].insts[pc].line,
            block: Place(block.shared.index),
            thread: Place(self.geometry.thread(thread)),
            fault,
        }
    }
}
