//! Profiles: time and memory of compiled pipelines, per Func.
//!
//! A pipeline that is lowered with [`crate::lower::LowerOptions::profile`] ([`enable`], or `SUMSQ_PROFILE=1`) says which Func it computes,
//! whenever that changes, and what it allocates for whom. Time belongs to the innermost Func that is being computed, inlined
//! ones to whoever they are part of; on several threads it is the sum over threads, without what a thread waits for others. A change costs a
//! reading of the clock, which is taken off again; where Funcs are computed inside of innermost loops, what it does to their code still tells.
//! Who computes first is charged for memory that is touched first: [`uncounted`] is for a run before.
//!
//! On a GPU kernels are told apart in place of Funcs, each of which may compute several. The host waits for each, and loops of programs are its
//! own, so that a profiled run takes longer as a whole.
//!
//! Nothing is printed here: [`report`] gives the table.

use crate::environment::asked;
use std::cell::{Cell, OnceCell};
use std::fmt::{self, Display};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Funcs that are told apart; what comes later is counted as the last.
const SLOTS: usize = 1024;
/// Operations on float32 that most devices do in the time of one on float64; those for computing centres do two.
const SLOW: f64 = 64.0;
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
    /// In the order of their first launches.
    kernels: Mutex<Vec<Kernel>>,
    /// Bytes per second, read and written, of a copy on the device.
    copy: Mutex<Option<f64>>,
    start: Instant,
    /// Nanoseconds that a reading of the clock takes.
    clock: u64,
    /// Is nothing counted?
    paused: AtomicBool,
    enabled: AtomicBool,
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
        kernels: Mutex::default(),
        copy: Mutex::default(),
        start: Instant::now(),
        clock: clock(),
        paused: AtomicBool::new(false),
        enabled: AtomicBool::new(false),
    })
}

/// The cost of a reading of the clock in nanoseconds: the least of some rounds, which nothing interrupted.
fn clock() -> u64 {
    const READINGS: u64 = 64;
    let round = |_| {
        let start = Instant::now();
        for _ in 1..READINGS {
            std::hint::black_box(start.elapsed());
        }
        start.elapsed().as_nanos() as u64 / READINGS
    };
    (0..16).map(round).min().unwrap_or(0)
}

/// Runs profiled code without counting what it does, on any thread.
pub fn uncounted<T>(run: impl FnOnce() -> T) -> T {
    struct Paused(bool);
    // Also where `run` panics.
    impl Drop for Paused {
        fn drop(&mut self) {
            registry().paused.store(self.0, Ordering::SeqCst);
        }
    }
    let _paused = Paused(registry().paused.swap(true, Ordering::SeqCst));
    run()
}

/// Nobody is charged for the time of `wait`, in which this thread waits for others.
pub(crate) fn waiting(wait: impl FnOnce()) {
    let (slot, _) = NOW.get();
    if slot == NOTHING {
        return wait();
    }
    enter(NOTHING);
    wait();
    enter(slot);
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for profiles of what this process compiles from now on.
pub fn enable() {
    registry().enabled.store(true, Ordering::Relaxed);
}

/// Has somebody asked for profiles, here or in the environment (`SUMSQ_PROFILE`)?
pub fn enabled() -> bool {
    registry().enabled.load(Ordering::Relaxed) || asked("SUMSQ_PROFILE")
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
    if r.paused.load(Ordering::Relaxed) {
        return NOTHING;
    }
    let (before, since) = NOW.get();
    // It goes on otherwise: the iterations of a parallel loop begin one after the other on the thread that called it.
    if before != slot {
        let now = r.start.elapsed().as_nanos() as u64;
        NOW.set((slot, now));
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
    let r = registry();
    if r.paused.load(Ordering::Relaxed) {
        return;
    }
    let h = &r.heap[slot as usize];
    let live = h.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if bytes > 0 {
        h.allocations.fetch_add(1, Ordering::Relaxed);
        h.total.fetch_add(bytes, Ordering::Relaxed);
        h.peak.fetch_max(live, Ordering::Relaxed);
    }
}

/// A launch of `kernel` took `time` and moved at least so many bytes; of its operations on floats that share was in float64.
pub(crate) fn launched(pipeline: &str, kernel: &str, time: Duration, bytes: u64, doubles: f64) {
    if registry().paused.load(Ordering::Relaxed) {
        return;
    }
    let mut kernels = lock(&registry().kernels);
    let at = kernels.iter().position(|k| k.pipeline == pipeline && k.kernel == kernel);
    let at = at.unwrap_or_else(|| {
        let (pipeline, kernel) = (pipeline.into(), kernel.into());
        kernels.push(Kernel { pipeline, kernel, time: Duration::ZERO, launches: 0, bytes: 0, doubles });
        kernels.len() - 1
    });
    let k = &mut kernels[at];
    (k.time, k.launches, k.bytes) = (k.time + time, k.launches + 1, k.bytes + bytes);
}

/// A copy on a device moves so many bytes per second: asked for once.
pub(crate) fn copies(measure: impl FnOnce() -> Option<f64>) {
    let mut copy = lock(&registry().copy);
    if copy.is_none() {
        *copy = Some(measure().unwrap_or(0.0));
    }
}

/// Time of one kernel of a GPU.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// The pipeline.
    pub pipeline: String,
    /// Its name in the PTX.
    pub kernel: String,
    /// Time of all launches, on the device.
    pub time: Duration,
    /// Number of launches.
    pub launches: u64,
    /// The least that they moved: every buffer that is read once, and every one that is written once.
    pub bytes: u64,
    /// Share of float64 among the operations on floats, as they stand in the code.
    pub doubles: f64,
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
    /// The slowest first.
    pub kernels: Vec<Kernel>,
    /// Bytes per second that a copy on the device reads and writes, if kernels ran and it could be measured.
    pub copy: Option<f64>,
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
        let entries = sum(&|t| &t.entries[i]);
        let row = Row {
            pipeline,
            func,
            time: Duration::from_nanos(sum(&|t| &t.nanoseconds[i]).saturating_sub(entries * r.clock)),
            entries,
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
    let mut kernels = lock(&r.kernels).clone();
    kernels.sort_by_key(|k| std::cmp::Reverse(k.time));
    let copy = lock(&r.copy).filter(|&rate| rate > 0.0);
    Profile { rows, kernels, copy }
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
        if let Some(rate) = self.copy {
            writeln!(f, "copy on the device: {:.0} GB/s, read and written", rate * 1e-9)?;
        }
        self.kernels.iter().try_for_each(|k| self.kernel(k, f))?;
        let all: f64 = self.kernels.iter().map(|k| k.time.as_secs_f64()).sum();
        let doubles: f64 = self.kernels.iter().map(|k| k.time.as_secs_f64() * k.doubles).sum::<f64>() / all;
        if doubles > 0.0 {
            // Of operations that take 1 and SLOW.
            let saved = 1.0 - 1.0 / (1.0 - doubles + SLOW * doubles);
            writeln!(
                f,
                "{:.0} % of the operations on floats are in float64, weighed by the times of kernels; on a device that does {SLOW} in float32 \
                 meanwhile, --precision f32 would save {:.0} % of the time of operations",
                100.0 * doubles,
                100.0 * saved
            )?;
        }
        Ok(())
    }
}

impl Profile {
    fn kernel(&self, k: &Kernel, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, bytes) = (k.time.as_secs_f64(), k.bytes as f64);
        let name = format!("{} {}", k.pipeline, k.kernel);
        write!(f, "  {name:<32} {:>12.3} ms {:>8} launches", seconds * 1e3, k.launches)?;
        let rate = if seconds > 0.0 { bytes / seconds } else { 0.0 };
        write!(f, " {:>10.1} MB {:>8.0} GB/s", bytes * 1e-6, rate * 1e-9)?;
        if let Some(copy) = self.copy {
            write!(f, " {:>4.0} % of copy", 100.0 * rate / copy)?;
        }
        writeln!(f, " {:>4.0} % float64", 100.0 * k.doubles)
    }
}
