//! Counts of what a process asked for.

/// Counts since the start, or since they were set to zero. The layout is shared with tests that steer the library.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Driver calls, those for the texts of errors left out.
    pub calls: u64,
    /// Kernels run, those of graphs among them.
    pub launches: u64,
    /// Graphs run.
    pub graphs: u64,
    /// Calls that made the host wait for work.
    pub waits: u64,
    pub bytes_to_device: u64,
    pub bytes_to_host: u64,
    pub bytes_within_device: u64,
    /// Copies, those of graphs among them.
    pub copies_to_device: u64,
    pub copies_to_host: u64,
    pub copies_within_device: u64,
    /// Bytes that a copy which was missed on purpose would have changed.
    pub missed_bytes: u64,
    /// PTX instructions of all threads.
    pub instructions: u64,
    /// Bytes of global memory that all threads load and store, each of every access.
    pub bytes_loaded: u64,
    pub bytes_stored: u64,
    /// Device allocations that the program has to give back.
    pub allocations: u64,
    pub allocated_bytes: u64,
    /// Pinned host allocations, streams, events, modules and graphs that the program has to give back.
    pub objects: u64,
    /// Allocations and objects that their context took with it.
    pub leaked: u64,
}

/// Sums over the launches of one kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounters {
    pub launches: u64,
    /// PTX instructions of all threads of all launches.
    pub instructions: u64,
}

impl Counters {
    /// One line for each count.
    pub fn text(&self) -> String {
        let all = [
            ("calls", self.calls),
            ("launches", self.launches),
            ("graphs", self.graphs),
            ("waits", self.waits),
            ("bytes_to_device", self.bytes_to_device),
            ("bytes_to_host", self.bytes_to_host),
            ("bytes_within_device", self.bytes_within_device),
            ("copies_to_device", self.copies_to_device),
            ("copies_to_host", self.copies_to_host),
            ("copies_within_device", self.copies_within_device),
            ("missed_bytes", self.missed_bytes),
            ("instructions", self.instructions),
            ("bytes_loaded", self.bytes_loaded),
            ("bytes_stored", self.bytes_stored),
            ("allocations", self.allocations),
            ("allocated_bytes", self.allocated_bytes),
            ("objects", self.objects),
            ("leaked", self.leaked),
        ];
        all.iter().map(|(name, n)| format!("{name} {n}\n")).collect()
    }
}
