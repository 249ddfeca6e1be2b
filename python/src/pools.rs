//! Threads that compute, shared by all calls.

use crate::error::Refused;
use std::sync::{Arc, Mutex, PoisonError};
use sumsq::codegen::runtime::Pool;

/// A pool with the process that its threads live in.
struct Kept {
    process: u32,
    threads: usize,
    pool: Arc<Pool>,
}

/// Those of a process that this one is a fork of stay here: their threads are gone, and nobody waits for them.
static POOLS: Mutex<Vec<Kept>> = Mutex::new(vec![]);

/// A pool of so many threads, without a number one for each core.
///
/// # Errors
/// Fewer than one thread, or more than 1024.
pub fn pool(threads: Option<i64>) -> Result<Arc<Pool>, Refused> {
    let threads = match threads {
        None => std::thread::available_parallelism().map_or(1, |n| n.get()),
        Some(n) if (1..=1024).contains(&n) => n as usize,
        Some(n) => return Err(Refused::Threads(n)),
    };
    let process = std::process::id();
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = pools.iter().find(|kept| (kept.process, kept.threads) == (process, threads)) {
        return Ok(kept.pool.clone());
    }
    let pool = Arc::new(Pool::new(threads));
    pools.push(Kept { process, threads, pool: pool.clone() });
    Ok(pool)
}
