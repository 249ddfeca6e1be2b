//! Jobs of compilation on all cores.

use crate::error::Error;
use crate::stack::mark_large;
use std::sync::Mutex;

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |c| c.get())
}

/// Applies `f` to every job, in their order, on threads of its own with stacks of so many bytes, as many as there are cores. Behind an error no
/// job begins; the first in the order of the jobs wins, whatever the threads.
pub(crate) fn in_parallel<J: Send, R: Send>(
    jobs: Vec<J>,
    stack: usize,
    f: impl Fn(J) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let n = jobs.len();
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let results = Mutex::new((0..n).map(|_| None).collect::<Vec<Option<Result<R, Error>>>>());
    let work = || {
        loop {
            let next = queue.lock().unwrap_or_else(|e| e.into_inner()).next();
            let Some((i, job)) = next else { return };
            let r = f(job);
            if r.is_err() {
                queue.lock().unwrap_or_else(|e| e.into_inner()).by_ref().for_each(drop);
            }
            results.lock().unwrap_or_else(|e| e.into_inner())[i] = Some(r);
        }
    };
    let large = || mark_large(work);
    let threads = cores().min(n);
    let none = std::thread::scope(|s| {
        let spawn = || {
            std::thread::Builder::new().name("sumsq-compile".into()).stack_size(stack).spawn_scoped(s, large)
        };
        let (mut started, mut refused) = (0, None);
        (0..threads).for_each(|_| match spawn() {
            Ok(_) => started += 1,
            Err(error) => refused = Some(error),
        });
        refused.filter(|_| started == 0)
    });
    if let Some(error) = none {
        let message = format!("no thread with a stack of {} MiB to compile on ({error})", stack >> 20);
        return Err(Error::Backend { pipeline: "compilation".into(), message });
    }
    let results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn behind_an_error_no_job_begins() {
        let (begun, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let error = |job: usize| Error::Limit { pipeline: job.to_string(), message: "too much".into() };
        let run = |job: usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            match job {
                3 => failed.store(true, Ordering::Release),
                _ if job > 3 => {
                    // Jobs behind it fail, too, if they have begun, and later.
                    while !failed.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                _ => return Ok(job),
            }
            Err(error(job))
        };
        let came = in_parallel((0..100_000).collect(), 1 << 20, run);
        assert_eq!(came.unwrap_err().to_string(), error(3).to_string());
        assert!(begun.into_inner() < 1000);
        let all = in_parallel((0..100).collect(), 1 << 20, Ok).unwrap();
        assert!(all.into_iter().eq(0..100), "results come in the order of the jobs");
    }
}
