//! A fixed pool of workers for parallel loops.
//!
//! A loop of n iterations on t threads sets the range `[n k / t, n (k+1) / t)` aside for thread k, so that a thread finds in its caches what it
//! touched in the loop before. A thread takes its own range piece by piece, then pieces of the others': what one does not come to, since its
//! iterations take longer or the system runs something else on its core, others do. So strips stay with their threads from loop to loop, and from
//! run to run, as long as no thread is done before another has begun the last piece of its range; more is not promised. A loop inside of a loop's iterations, or of another
//! caller, is a loop like any other, and has the help of all threads that find nothing to do elsewhere.
//!
//! Results do not depend on who computes what: iterations are independent, and reductions are cut by sizes alone. Between
//! loops a worker spins for a while, as sweeps of a solver follow each other closely, and then sleeps. A call
//! allocates nothing. Iterations run in the standard floating-point environment, whatever the caller's is.

use crate::runtime::float_environment::FloatEnvironment;
use crate::runtime::profile;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The body of a parallel loop: a context that it passes on, captured values, loop variable.
pub type BodyFn = unsafe extern "C" fn(*const c_void, *const c_void, i32);

/// Time that a waiting thread spins before it sleeps: longer than the loops of a solver are apart, and than one of them takes where two
/// threads share a core. Where all cores were busy a moment ago, Linux wakes a sleeping thread on the core of the one that wakes it. If both
/// slept again after shorter waits, they would go on taking turns on that core, until its load balancer parts them some ten milliseconds later.
const SPIN: Duration = Duration::from_micros(200);

/// Address space that is free before a thread is started: its stack, and what it maps before it runs, without which it would abort the process.
/// Only when it runs is the next one started.
const ROOM: usize = 64 << 20;

/// A thread takes this part of what is left of a range at a time: what the others may have to wait for at the end is short, and long loops
/// are taken in few pieces.
const PIECE: u32 = 4;

/// Worker threads, to be shared by all who compute. Dropping it joins them.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

thread_local! {
    /// Number of this thread among those of its pool; 0 where it is no worker.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
    /// Number of loops around what this thread runs.
    static LEVEL: Cell<u32> = const { Cell::new(0) };
}

struct Shared {
    /// Loops that run at once; others run on their callers' threads alone.
    loops: Box<[Loop]>,
    /// Bit k: workers may find something to do in loop k.
    open: AtomicU64,
    /// Of the workers.
    gates: Box<[Gate]>,
    stop: AtomicBool,
}

/// A place for a loop while it runs.
struct Loop {
    /// A caller has this place.
    used: AtomicBool,
    /// 1 for an outermost loop, 2 for one in its iterations, ...
    level: AtomicU32,
    /// Number of threads that came in to help, and [`OPEN`] while they are let in.
    inside: AtomicU32,
    job: UnsafeCell<Job>,
    /// The threads' ranges, as far as nobody has taken them.
    shares: Box<[Share]>,
    /// Of the caller, which waits until nobody is inside.
    finished: Gate,
}

const OPEN: u32 = 1 << 31;

// SAFETY: `job` is written by the caller that has the place, after the last helper of the loop before has left and before the next ones are
// let in, and read by that caller and by helpers that were let in. `inside`, on which all of this hangs, is SeqCst.
unsafe impl Sync for Loop {}

/// Iterations that nobody has taken yet, counted from the loop's first: the next one in the lower half, in the upper half their end. On
/// cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Share(AtomicU64);

#[derive(Clone, Copy)]
struct Job {
    body: BodyFn,
    context: *const c_void,
    closure: *const c_void,
    min: i32,
}

// SAFETY: what the pointers lead to is alive and shareable during the loop, by the contract of `Pool::run_body`.
unsafe impl Send for Job {}

impl Pool {
    /// A pool of `threads` threads (at least one), the caller's among them.
    pub fn new(threads: usize) -> Pool {
        let threads = threads.max(1);
        let shared = Arc::new(Shared {
            loops: (0..(2 * threads).min(64)).map(|_| Loop::new(threads)).collect(),
            open: AtomicU64::new(0),
            gates: (1..threads).map(|_| Gate::default()).collect(),
            stop: AtomicBool::new(false),
        });
        let start = |k: usize| {
            let shared = shared.clone();
            let builder = std::thread::Builder::new().name(format!("sumsq-{k}"));
            let (runs, it_runs) = std::sync::mpsc::channel();
            let work = move || {
                let _ = runs.send(());
                shared.work(k)
            };
            let worker = memmap2::MmapMut::map_anon(ROOM).and_then(|_| builder.spawn(work)).ok()?;
            it_runs.recv().ok().map(|()| worker)
        };
        // If the system refuses a thread, the pool has fewer: results do not depend on it.
        let workers = (1..threads).map_while(start).collect();
        Pool { shared, workers }
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

    /// Calls `body(context, closure, i)` for every `i` in `[min, min + extent)` and returns when all are done.
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
        let job = Job { body, context, closure, min };
        let extent = extent.max(0) as u32;
        let threads = (self.threads() as u32).min(extent);
        let place = if threads > 1 { self.shared.place() } else { None };
        match place {
            // SAFETY: by this function's contract; the place is ours.
            Some(place) => unsafe { self.shared.run(place, job, threads, extent) },
            None => {
                let _standard = FloatEnvironment::standard();
                // SAFETY: by this function's contract.
                unsafe { job.run(0..extent) }
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.gates.iter().for_each(Gate::wake);
        for w in self.workers.drain(..) {
            let _ = w.join();
        }
    }
}

impl Shared {
    /// A free place, which is the caller's from now on.
    fn place(&self) -> Option<usize> {
        self.loops.iter().position(|l| !l.used.swap(true, Ordering::Acquire))
    }

    /// Runs a loop in a place that the caller has, and gives the place back.
    ///
    /// # Safety
    /// As for [`Pool::run_body`].
    unsafe fn run(&self, place: usize, job: Job, threads: u32, extent: u32) {
        let (this, level) = (&self.loops[place], LEVEL.get() + 1);
        this.level.store(level, Ordering::Relaxed);
        // SAFETY: the place is ours, and nobody is let in: see `Loop`.
        unsafe { *this.job.get() = job };
        for (k, share) in (0..).zip(&this.shares) {
            let bound = |k: u32| (extent as u64 * k.min(threads) as u64 / threads as u64) as u32;
            share.set(bound(k)..bound(k + 1));
        }
        this.inside.fetch_or(OPEN, Ordering::SeqCst);
        self.open.fetch_or(1 << place, Ordering::SeqCst);
        self.wake(level, threads as usize - 1);
        // SAFETY: by this function's contract.
        unsafe { this.take_part() };
        self.close(place);
        this.inside.fetch_and(!OPEN, Ordering::SeqCst);
        let left = || this.inside.load(Ordering::SeqCst) == 0;
        profile::waiting(|| {
            while !left() {
                this.finished.wait_until(|| left() || self.open_within(level).is_some());
                self.help(level);
            }
        });
        this.used.store(false, Ordering::Release);
    }

    /// Wakes up to `most` of those that sleep and may help in a loop of this level.
    fn wake(&self, level: u32, most: usize) {
        let waiting = self.loops.iter().filter(|l| l.level.load(Ordering::Relaxed) < level);
        let gates = self.gates.iter().chain(waiting.map(|l| &l.finished));
        gates.filter(|gate| gate.sleeping.load(Ordering::SeqCst)).take(most).for_each(Gate::wake);
    }

    /// The life of worker `k`.
    fn work(&self, k: usize) {
        NUMBER.set(k);
        let stopped = || self.stop.load(Ordering::SeqCst);
        while !stopped() {
            self.gates[k - 1].wait_until(|| self.open_within(0).is_some() || stopped());
            self.help(0);
        }
    }

    /// Nothing is left to take of a loop that the calling thread takes part in.
    fn close(&self, place: usize) {
        // The other threads of a short loop come here at the same time: one of them writes.
        if self.open.load(Ordering::SeqCst) & (1 << place) != 0 {
            self.open.fetch_and(!(1 << place), Ordering::SeqCst);
        }
    }

    /// The place of a loop of a higher level that lets threads in.
    fn open_within(&self, level: u32) -> Option<usize> {
        let mut open = self.open.load(Ordering::SeqCst);
        while open != 0 {
            let place = open.trailing_zeros() as usize;
            if self.loops[place].level.load(Ordering::Relaxed) > level {
                return Some(place);
            }
            open &= open - 1;
        }
        None
    }

    /// Takes part in a loop of a higher level, if there is one. Those who wait for a loop help in loops of higher levels alone, so
    /// that they have no more calls on their stacks than loops are nested.
    fn help(&self, level: u32) {
        let Some(place) = self.open_within(level) else { return };
        let this = &self.loops[place];
        let open = this.inside.fetch_add(1, Ordering::SeqCst) & OPEN != 0;
        if open && this.level.load(Ordering::Relaxed) > level {
            // SAFETY: we were let in, and the caller waits until we have left. The job is as `run_body` was given it.
            unsafe { this.take_part() };
            self.close(place);
        }
        if this.inside.fetch_sub(1, Ordering::SeqCst) == 1 {
            this.finished.wake();
        }
    }
}

impl Loop {
    fn new(threads: usize) -> Loop {
        unsafe extern "C" fn nothing(_: *const c_void, _: *const c_void, _: i32) {}
        Loop {
            used: AtomicBool::new(false),
            level: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            job: UnsafeCell::new(Job { body: nothing, context: ptr::null(), closure: ptr::null(), min: 0 }),
            shares: (0..threads).map(|_| Share::default()).collect(),
            finished: Gate::default(),
        }
    }

    /// Runs pieces of this thread's range, then of the others', until nothing is left to take.
    ///
    /// # Safety
    /// As for [`Pool::run_body`]. The thread has the place, or is inside.
    unsafe fn take_part(&self) {
        let _standard = FloatEnvironment::standard();
        // SAFETY: nobody writes it while the caller, or one of those inside, reads it: see `Loop`.
        let job = unsafe { *self.job.get() };
        let outer = LEVEL.replace(self.level.load(Ordering::Relaxed));
        let first = NUMBER.get() % self.shares.len();
        let (others, own) = self.shares.split_at(first);
        for share in own.iter().chain(others) {
            while let Some(piece) = share.take() {
                // SAFETY: by this function's contract; a piece is taken once.
                unsafe { job.run(piece) };
            }
        }
        LEVEL.set(outer);
    }
}

impl Share {
    fn set(&self, left: Range<u32>) {
        self.0.store((left.end as u64) << 32 | left.start as u64, Ordering::Relaxed);
    }

    /// A piece of what is left, if anything is. What an iteration wrote is seen through `inside`, not through this.
    fn take(&self) -> Option<Range<u32>> {
        let mut piece = 0..0;
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            let (next, end) = (left as u32, (left >> 32) as u32);
            piece = next..next + (end - next).div_ceil(PIECE);
            (next < end).then_some(left + piece.len() as u64)
        });
        taken.ok().map(|_| piece)
    }
}

impl Job {
    /// Runs some iterations on this thread.
    ///
    /// # Safety
    /// As for [`Pool::run_body`].
    unsafe fn run(self, iterations: Range<u32>) {
        for i in iterations {
            // SAFETY: by this function's contract.
            unsafe { (self.body)(self.context, self.closure, self.min.wrapping_add_unsigned(i)) }
        }
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

    /// Waits until `n` have come, or for ten seconds.
    fn meet(come: &AtomicI32, n: i32) -> bool {
        let start = Instant::now();
        come.fetch_add(1, Ordering::SeqCst);
        while come.load(Ordering::SeqCst) < n && start.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        come.load(Ordering::SeqCst) >= n
    }

    #[test]
    fn who_is_held_up_holds_up_nobody_else() {
        let (pool, done) = (Pool::new(2), AtomicI32::new(0));
        pool.for_each(64, |i| {
            // The piece that begins here cannot go on before all others are done.
            if i == 32 {
                assert!(meet(&done, 65 - 32 / PIECE as i32), "{done:?}");
            } else {
                done.fetch_add(1, Ordering::SeqCst);
            }
        });
    }

    /// Every thread begins its next strip when all have begun the one before: none is done early enough to take of another's range.
    #[test]
    fn strips_stay_with_their_threads_where_nobody_is_ahead() {
        let pool = Pool::new(3);
        let (threads, own) = (pool.threads(), PIECE as usize);
        for run in 0..20 {
            let strips: Vec<AtomicI32> = (0..threads * own).map(|_| AtomicI32::new(-1)).collect();
            let rounds: Vec<AtomicI32> = (0..own).map(|_| AtomicI32::new(0)).collect();
            pool.for_each(strips.len() as i32, |i| {
                strips[i as usize].store(NUMBER.get() as i32, Ordering::Relaxed);
                assert!(meet(&rounds[i as usize % own], threads as i32), "{rounds:?}");
            });
            let ran: Vec<i32> = strips.into_iter().map(AtomicI32::into_inner).collect();
            let expected: Vec<i32> = (0..ran.len()).map(|i| (i / own) as i32).collect();
            assert_eq!(ran, expected, "run {run}");
            if run % 5 == 0 {
                // The workers fall asleep.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn threads_that_wait_help_in_nested_loops() {
        let (pool, inner) = (Pool::new(2), AtomicI32::new(0));
        // One of the two is done with the outer loop.
        pool.for_each(2, |i| {
            if i == 1 {
                pool.for_each(2, |_| assert!(meet(&inner, 2), "{inner:?}"));
            }
        });
    }

    #[test]
    fn callers_need_not_wait_for_each_other() {
        let (pool, come) = (Pool::new(2), AtomicI32::new(0));
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| pool.for_each(2, |i| assert!(i > 0 || meet(&come, 3), "{come:?}")));
            }
        });
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
