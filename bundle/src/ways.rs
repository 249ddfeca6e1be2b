//! Ways to run a loop of a program on a device.

use std::fmt;
use sumsq::codegen::runtime::cuda::Device;

/// One who runs a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A while node, of at most so many iterations between two looks of the host.
    While(usize),
    /// Chunks of iterations.
    Chunks,
    /// One kernel whose blocks wait for each other.
    Kernel,
    /// The host.
    Host,
}

impl Way {
    /// Those that leave the loop to the device, with no look of the host in between that would not be needed.
    pub fn of_device(device: &Device) -> impl Iterator<Item = Way> {
        [Way::While(usize::MAX), Way::Chunks, Way::Kernel].into_iter().filter(|way| way.is_there(device))
    }

    /// Does the driver have it?
    pub fn is_there(self, device: &Device) -> bool {
        self == Way::Chunks || self == Way::Host || device.has_loops()
    }

    /// Has loops of programs that are made from now on run this way.
    pub fn choose(self, device: &Device) {
        device.set_loops_in_chunks(self == Way::Chunks);
        device.set_loops_together(self == Way::Kernel);
        device.set_loop_turns(match self {
            Way::While(turns) => turns,
            Way::Chunks | Way::Kernel => usize::MAX,
            Way::Host => 0,
        });
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::While(usize::MAX) => f.write_str("while node"),
            Way::While(turns) => write!(f, "while nodes of {turns}"),
            Way::Chunks => f.write_str("chunks"),
            Way::Kernel => f.write_str("one kernel"),
            Way::Host => f.write_str("host"),
        }
    }
}
