//! Threads that stay alive between parallel sections, which begin and end with a spinning barrier.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Spins before a waiting thread gives its core away.
const SPINS: usize = 1 << 14;

/// A team of threads, the calling one included.
pub struct Team {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// A job: called once per member with its number. The lifetime is erased; see [`Team::run`].
type Job = &'static (dyn Fn(usize) + Sync);

#[derive(Default)]
struct Shared {
    job: Mutex<Option<Job>>,
    /// Counts the jobs started; a worker that sees it change takes part.
    epoch: AtomicUsize,
    /// Workers that have finished the current job.
    finished: AtomicUsize,
    panicked: AtomicBool,
    quit: AtomicBool,
}

impl Team {
    /// A team of `threads` members (at least one).
    pub fn new(threads: usize) -> Team {
        let shared = Arc::new(Shared::default());
        let workers = (1..threads)
            .map(|t| {
                let shared = shared.clone();
                std::thread::spawn(move || worker(t, &shared))
            })
            .collect();
        Team { shared, workers }
    }

    /// Number of members.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `f(t)` on every member `t` and waits for all.
    pub fn run(&mut self, f: &(dyn Fn(usize) + Sync)) {
        // SAFETY: the reference outlives its use: this function returns, also by unwinding, only after every
        // worker has finished with it (`Wait` below), and removes it from the shared slot first.
        let job: Job = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), Job>(f) };
        *self.shared.job.lock().expect("nobody panics with the lock held") = Some(job);
        self.shared.finished.store(0, Ordering::Relaxed);
        self.shared.epoch.fetch_add(1, Ordering::Release);
        self.workers.iter().for_each(|w| w.thread().unpark());
        {
            let _wait = Wait { shared: &self.shared, workers: self.workers.len() };
            f(0);
        }
        assert!(!self.shared.panicked.load(Ordering::Relaxed), "a member of the team panicked");
    }

    /// Runs `f(t, part)` on every member, each with its own part; one part per member.
    pub fn each<T: Send>(&mut self, parts: Vec<T>, f: impl Fn(usize, T) + Sync) {
        assert_eq!(parts.len(), self.threads(), "one part per member");
        let parts: Vec<Mutex<Option<T>>> = parts.into_iter().map(|p| Mutex::new(Some(p))).collect();
        self.run(&|t| {
            let part = parts[t].lock().expect("nobody panics with the lock held").take();
            if let Some(part) = part {
                f(t, part);
            }
        });
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Release);
        self.shared.epoch.fetch_add(1, Ordering::Release);
        for w in self.workers.drain(..) {
            w.thread().unpark();
            // A worker catches the panics of its jobs; there is nothing to report here.
            let _ = w.join();
        }
    }
}

/// Waits for the workers when dropped, so that an unwinding job keeps its captures alive for them.
struct Wait<'a> {
    shared: &'a Shared,
    workers: usize,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut spins = 0;
        while self.shared.finished.load(Ordering::Acquire) < self.workers {
            relax(&mut spins);
        }
        *self.shared.job.lock().expect("nobody panics with the lock held") = None;
    }
}

/// Spins at first, then yields.
fn relax(spins: &mut usize) {
    *spins += 1;
    if *spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
}

fn worker(t: usize, shared: &Shared) {
    let mut seen = 0;
    loop {
        let mut spins = 0;
        while shared.epoch.load(Ordering::Acquire) == seen {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::park() }
        }
        // Epochs advance one at a time: the next job starts only when this one has finished everywhere.
        seen += 1;
        if shared.quit.load(Ordering::Acquire) {
            return;
        }
        let job = *shared.job.lock().expect("nobody panics with the lock held");
        if let Some(job) = job
            && std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(t))).is_err()
        {
            shared.panicked.store(true, Ordering::Relaxed);
        }
        shared.finished.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_gets_its_part_every_time() {
        let mut team = Team::new(3);
        let mut sums = [0usize; 3];
        for round in 0..1000 {
            let parts = sums.iter_mut().collect();
            team.each(parts, |t, sum: &mut usize| *sum += round * (t + 1));
        }
        assert_eq!(sums, [499_500, 999_000, 1_498_500]);
    }

    #[test]
    #[should_panic(expected = "a member of the team panicked")]
    fn a_panic_of_a_worker_arrives() {
        Team::new(2).run(&|t| assert_eq!(t, 0));
    }
}
