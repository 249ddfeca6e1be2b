//! Profiles: time and memory of compiled pipelines, per Func.
//!
//! A pipeline that is lowered with [`crate::lower::LowerOptions::profile`] (`SUMSQ_PROFILE=1`) says which Func it computes,
//! whenever that changes, and what it allocates for whom. Time belongs to the innermost Func that is being computed, inlined
//! ones to whoever they are part of; on several threads it is the sum over threads. A change costs two readings of the clock,
//! some 50 ns, which tells where Funcs are computed inside of innermost loops.
//!
//! Nothing is printed here: [`report`] gives the table.

use std::cell::{Cell, OnceCell};
use std::fmt::{self, Display};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Funcs that are told apart; what comes later is counted as the last.
const SLOTS: usize = 1024;
/// Slot of a thread that computes nothing.
const NOTHING: u32 = 0;

/// Time that one thread spent.
struct Thread {
    nanoseconds: [AtomicU64; SLOTS],
    entries: [AtomicU64; SLOTS],
}

/// Heap memory of one Func.
#[derive(Default)]
struct Heap {
    allocations: AtomicU64,
    total: AtomicI64,
    live: AtomicI64,
    peak: AtomicI64,
}

struct Registry {
    /// Pipeline and Func by slot.
    names: Mutex<Vec<(String, String)>>,
    threads: Mutex<Vec<Arc<Thread>>>,
    heap: Box<[Heap]>,
    start: Instant,
}

thread_local! {
    static THREAD: OnceCell<Arc<Thread>> = const { OnceCell::new() };
    /// The Func that this thread computes, and since when (in nanoseconds after the start).
    static NOW: Cell<(u32, u64)> = const { Cell::new((NOTHING, 0)) };
}

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| Registry {
        names: Mutex::new(vec![(String::new(), String::new())]),
        threads: Mutex::new(vec![]),
        heap: (0..SLOTS).map(|_| Heap::default()).collect(),
        start: Instant::now(),
    })
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does the environment ask for profiles (`SUMSQ_PROFILE`, neither empty nor 0)?
pub fn enabled() -> bool {
    std::env::var_os("SUMSQ_PROFILE").is_some_and(|v| !v.is_empty() && v != "0")
}

/// The slot of a Func; the same for all code of one name.
pub(crate) fn slot(pipeline: &str, func: &str) -> u32 {
    let mut names = lock(&registry().names);
    let found = names.iter().position(|n| n.0 == pipeline && n.1 == func);
    found.unwrap_or_else(|| {
        if names.len() < SLOTS {
            names.push((pipeline.into(), func.into()));
        }
        names.len() - 1
    }) as u32
}

/// This thread computes `slot` from now on; returns what it computed before. Called by generated code.
pub(crate) extern "C" fn enter(slot: u32) -> u32 {
    let r = registry();
    let now = r.start.elapsed().as_nanos() as u64;
    let (before, since) = NOW.replace((slot, now));
    if before != slot {
        THREAD.with(|t| {
            let t = t.get_or_init(|| {
                let zeros = || [const { AtomicU64::new(0) }; SLOTS];
                let t = Arc::new(Thread { nanoseconds: zeros(), entries: zeros() });
                lock(&r.threads).push(t.clone());
                t
            });
            t.nanoseconds[before as usize].fetch_add(now - since, Ordering::Relaxed);
            t.entries[slot as usize].fetch_add(1, Ordering::Relaxed);
        });
    }
    before
}

/// `bytes` were allocated for `slot`, or freed (negative). Called by generated code.
pub(crate) extern "C" fn allocate(slot: u32, bytes: i64) {
    let h = &registry().heap[slot as usize];
    let live = h.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if bytes > 0 {
        h.allocations.fetch_add(1, Ordering::Relaxed);
        h.total.fetch_add(bytes, Ordering::Relaxed);
        h.peak.fetch_max(live, Ordering::Relaxed);
    }
}

/// Time and memory of one Func.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The pipeline.
    pub pipeline: String,
    /// The Func.
    pub func: String,
    /// Time of all threads.
    pub time: Duration,
    /// Number of times that a thread came to compute it, also back from a producer inside.
    pub entries: u64,
    /// Heap allocations for its values.
    pub allocations: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Most bytes at a time.
    pub peak: u64,
}

/// Time and memory of profiled pipelines so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Profile {
    /// By pipeline in order of compilation, the slowest Func first.
    pub rows: Vec<Row>,
}

/// The table so far. Funcs that did nothing are left out.
pub fn report() -> Profile {
    let r = registry();
    let names = lock(&r.names).clone();
    let threads = lock(&r.threads);
    let mut rows = vec![];
    for (i, (pipeline, func)) in names.into_iter().enumerate().skip(1) {
        let sum = |of: &dyn Fn(&Thread) -> &AtomicU64| -> u64 {
            threads.iter().map(|t| of(t).load(Ordering::Relaxed)).sum()
        };
        let h = &r.heap[i];
        let row = Row {
            pipeline,
            func,
            time: Duration::from_nanos(sum(&|t| &t.nanoseconds[i])),
            entries: sum(&|t| &t.entries[i]),
            allocations: h.allocations.load(Ordering::Relaxed),
            bytes: h.total.load(Ordering::Relaxed).max(0) as u64,
            peak: h.peak.load(Ordering::Relaxed).max(0) as u64,
        };
        if row.entries + row.allocations > 0 {
            rows.push(row);
        }
    }
    let mut order: Vec<String> = vec![];
    rows.iter().for_each(|r| {
        if !order.contains(&r.pipeline) {
            order.push(r.pipeline.clone());
        }
    });
    let place = |r: &Row| order.iter().position(|p| *p == r.pipeline);
    rows.sort_by_key(|r| (place(r), std::cmp::Reverse(r.time)));
    Profile { rows }
}

impl Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pipeline = None;
        for r in &self.rows {
            if pipeline != Some(&r.pipeline) {
                let all: Duration =
                    self.rows.iter().filter(|o| o.pipeline == r.pipeline).map(|o| o.time).sum();
                writeln!(f, "{}: {:.3} ms of all threads", r.pipeline, all.as_secs_f64() * 1e3)?;
                pipeline = Some(&r.pipeline);
            }
            write!(f, "  {:<32} {:>12.3} ms {:>10} entries", r.func, r.time.as_secs_f64() * 1e3, r.entries)?;
            if r.allocations > 0 {
                write!(f, " {:>8} allocations, {} bytes, at most {}", r.allocations, r.bytes, r.peak)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
