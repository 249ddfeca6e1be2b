//! A fixed pool of workers for parallel loops.
//!
//! A loop of n iterations on t threads gives thread k the range `[n k / t, n (k+1) / t)`; thread 0 is the caller.
//! Results do not depend on this mapping: iterations are independent, and reductions are cut by sizes alone. Between
//! loops a worker spins for a while, as sweeps of a solver follow each other closely, and then sleeps. A call
//! allocates nothing. Iterations run in the standard floating-point environment, whatever the caller's is.

use crate::runtime::float_environment::FloatEnvironment;
use crate::runtime::profile;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The body of a parallel loop: a context that it passes on, captured values, loop variable.
pub type BodyFn = unsafe extern "C" fn(*const c_void, *const c_void, i32);

/// Time that a waiting thread spins before it sleeps: longer than the loops of a solver are apart, and than one of them takes where two
/// threads share a core. Where all cores were busy a moment ago, Linux wakes a sleeping thread on the core of the one that wakes it. If both
/// slept again after shorter waits, they would go on taking turns on that core, until its load balancer parts them some ten milliseconds later.
const SPIN: Duration = Duration::from_micros(200);

/// Worker threads, to be shared by all who compute. Dropping it joins them.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held by the thread whose loop runs.
    turn: Mutex<()>,
}

thread_local! {
    /// True while this thread runs iterations of a parallel loop.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

struct Shared {
    mailboxes: Box<[Mailbox]>,
    /// Workers that have not finished the current loop.
    running: AtomicUsize,
    finished: Gate,
    stop: AtomicBool,
}

/// Place where one worker finds its share of a loop; on cache lines of its own.
#[repr(align(128))]
struct Mailbox {
    /// Number of shares put in so far.
    posted: AtomicU64,
    job: UnsafeCell<Job>,
    gate: Gate,
}

// SAFETY: `job` is written only by the thread that holds `turn`, before `posted` is raised (release), while the worker
// waits; and read only by the worker after it saw that (acquire), before it lowers `running`, for which the writer waits.
unsafe impl Sync for Mailbox {}

/// A share of a loop: iterations `from..to`.
#[derive(Clone, Copy)]
struct Job {
    body: BodyFn,
    context: *const c_void,
    closure: *const c_void,
    from: i32,
    to: i32,
}

// SAFETY: what the pointers lead to is alive and shareable during the loop, by the contract of `Pool::run_body`.
unsafe impl Send for Job {}

impl Pool {
    /// A pool of `threads` threads (at least one), the caller's among them.
    pub fn new(threads: usize) -> Pool {
        let n = threads.max(1) - 1;
        let shared = Arc::new(Shared {
            mailboxes: (0..n).map(|_| Mailbox::new()).collect(),
            running: AtomicUsize::new(0),
            finished: Gate::default(),
            stop: AtomicBool::new(false),
        });
        let start = |k: usize| {
            let shared = shared.clone();
            let name = format!("sumsq-{}", k + 1);
            std::thread::Builder::new().name(name).spawn(move || shared.work(k)).ok()
        };
        // If the system refuses a thread, the pool has fewer: results do not depend on it.
        let workers = (0..n).map_while(start).collect();
        Pool { shared, workers, turn: Mutex::new(()) }
    }

    /// A pool with one thread per core that this process may use.
    pub fn with_all_cores() -> Pool {
        Pool::new(std::thread::available_parallelism().map_or(1, |n| n.get()))
    }

    /// Number of threads, the caller's included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `f(i)` for every `i` in `[0, n)`, in any order on any thread, and returns when all are done. A panic in `f`
    /// aborts the process.
    pub fn for_each<F: Fn(i32) + Sync>(&self, n: i32, f: F) {
        unsafe extern "C" fn call<F: Fn(i32) + Sync>(_: *const c_void, f: *const c_void, i: i32) {
            // SAFETY: `f` is the closure below, borrowed during the loop.
            unsafe { (*f.cast::<F>())(i) }
        }
        let f: *const F = &f;
        // SAFETY: `f` is `Sync` and outlives the loop; `call` ignores the context.
        unsafe { self.run_body(ptr::null(), call::<F>, f.cast(), 0, n) }
    }

    /// Calls `body(context, closure, i)` for every `i` in `[min, min + extent)` and returns when all are done. In a
    /// loop of the same or another pool it runs on the calling thread alone.
    ///
    /// # Safety
    /// `body` may be called with `context` and `closure` from several threads at once for distinct `i`, and does not
    /// unwind; `min + extent` does not overflow.
    pub unsafe fn run_body(
        &self,
        context: *const c_void,
        body: BodyFn,
        closure: *const c_void,
        min: i32,
        extent: i32,
    ) {
        let job = |from, to| Job { body, context, closure, from: min + from, to: min + to };
        let threads = (self.threads() as i32).min(extent);
        if threads <= 1 || INSIDE.get() {
            // SAFETY: by this function's contract.
            unsafe { job(0, extent.max(0)).run() };
            return;
        }
        let _turn = lock(&self.turn);
        let bound = |k: i32| (extent as i64 * k as i64 / threads as i64) as i32;
        let shared = &*self.shared;
        shared.running.store(threads as usize - 1, Ordering::Relaxed);
        for (k, mailbox) in (1..threads).zip(&shared.mailboxes) {
            // SAFETY: the worker is waiting, as the loop before is finished, and we hold the turn: see `Mailbox`.
            unsafe { *mailbox.job.get() = job(bound(k), bound(k + 1)) };
            mailbox.posted.fetch_add(1, Ordering::SeqCst);
            mailbox.gate.wake();
        }
        // SAFETY: by this function's contract.
        unsafe { job(0, bound(1)).run() };
        profile::waiting(|| shared.finished.wait_until(|| shared.running.load(Ordering::SeqCst) == 0));
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for mailbox in &self.shared.mailboxes {
            mailbox.gate.wake();
        }
        for w in self.workers.drain(..) {
            let _ = w.join();
        }
    }
}

impl Shared {
    /// The life of worker `k`.
    fn work(&self, k: usize) {
        let mailbox = &self.mailboxes[k];
        let mut taken = 0;
        loop {
            let stopped = || self.stop.load(Ordering::SeqCst);
            mailbox.gate.wait_until(|| mailbox.posted.load(Ordering::SeqCst) != taken || stopped());
            if stopped() {
                return;
            }
            taken += 1;
            // SAFETY: the mailbox was filled for us: see `Mailbox`. The job is as `run_body` was given it.
            unsafe { (*mailbox.job.get()).run() };
            if self.running.fetch_sub(1, Ordering::SeqCst) == 1 {
                self.finished.wake();
            }
        }
    }
}

impl Mailbox {
    fn new() -> Mailbox {
        unsafe extern "C" fn nothing(_: *const c_void, _: *const c_void, _: i32) {}
        let job = Job { body: nothing, context: ptr::null(), closure: ptr::null(), from: 0, to: 0 };
        Mailbox { posted: AtomicU64::new(0), job: UnsafeCell::new(job), gate: Gate::default() }
    }
}

impl Job {
    /// Runs the share on this thread.
    ///
    /// # Safety
    /// As for [`Pool::run_body`].
    unsafe fn run(self) {
        let _standard = FloatEnvironment::standard();
        let outer = INSIDE.replace(true);
        for i in self.from..self.to {
            // SAFETY: by this function's contract.
            unsafe { (self.body)(self.context, self.closure, i) }
        }
        INSIDE.set(outer);
    }
}

/// A place to wait for a condition that another thread makes true.
#[derive(Default)]
struct Gate {
    sleeping: AtomicBool,
    mutex: Mutex<()>,
    condvar: Condvar,
}

impl Gate {
    /// Returns once `condition` holds. One thread at a time may wait at a gate.
    fn wait_until(&self, condition: impl Fn() -> bool) {
        let start = Instant::now();
        loop {
            // Reading the clock is slow against the few cycles that a spin should take.
            for _ in 0..64 {
                if condition() {
                    return;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() >= SPIN {
                break;
            }
            // The thread that makes it true may be waiting for this core.
            std::thread::yield_now();
        }
        let mut guard = lock(&self.mutex);
        // Either `wake` sees this flag, or the condition below sees what was done before `wake`: both are SeqCst.
        self.sleeping.store(true, Ordering::SeqCst);
        while !condition() {
            guard = self.condvar.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleeping.store(false, Ordering::SeqCst);
    }

    /// Wakes the waiting thread, if it sleeps. Call after the condition was made true, with SeqCst.
    fn wake(&self) {
        if self.sleeping.load(Ordering::SeqCst) {
            let _guard = lock(&self.mutex);
            self.condvar.notify_one();
        }
    }
}

fn lock(m: &Mutex<()>) -> MutexGuard<'_, ()> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI32;

    #[test]
    fn every_iteration_runs_once() {
        for threads in [1, 2, 3, 5, 8] {
            let pool = Pool::new(threads);
            for n in [0, 1, 2, 7, 8, 100] {
                let counts: Vec<AtomicI32> = (0..n).map(|_| AtomicI32::new(0)).collect();
                pool.for_each(n, |i| {
                    counts[i as usize].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1), "{threads} threads, {n}");
            }
        }
    }

    #[test]
    fn many_short_loops_neither_hang_nor_lose_work() {
        let pool = Pool::new(3);
        let sum = AtomicI32::new(0);
        // Under miri a round takes some thousand times as long.
        let rounds = if cfg!(miri) { 50 } else { 5000 };
        for round in 0..rounds {
            pool.for_each(3, |i| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
            if round % 1000 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(sum.into_inner(), 3 * rounds);
    }

    #[test]
    fn nested_and_concurrent_loops() {
        let pool = Pool::new(3);
        let sum = AtomicI32::new(0);
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    pool.for_each(10, |_| {
                        pool.for_each(10, |_| {
                            sum.fetch_add(1, Ordering::Relaxed);
                        })
                    })
                });
            }
        });
        assert_eq!(sum.into_inner(), 300);
    }
}
