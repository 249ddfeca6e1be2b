//! The threads of the assembled path.

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Threads for rayon's loops, in a pool of their own.
pub(crate) struct Threads(Option<ThreadPool>);

impl Threads {
    /// So many, or one per core without a number: results do not depend on it. Where the system refuses threads there are fewer.
    pub fn new(threads: Option<usize>) -> Threads {
        let wanted = threads.or_else(|| std::thread::available_parallelism().ok().map(|n| n.get()));
        let pool = |n: usize| ThreadPoolBuilder::new().num_threads(n).build().ok();
        Threads((1..=wanted.unwrap_or(1)).rev().find_map(pool))
    }

    /// Their number.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(1, ThreadPool::current_num_threads)
    }

    /// Runs `f`, with its loops on these threads.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            Some(pool) => pool.install(f),
            None => f(),
        }
    }
}
