//! Requests to end a solve early: they are heeded between any two iterations of PCG.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A request to end a solve, made from any thread. Clones are the same request.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks for the end of every solve whose options hold this request.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Takes the request back.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Tells whether the end was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The request that a flag makes once it is true: one that a signal handler sets, say.
impl From<Arc<AtomicBool>> for Cancel {
    fn from(flag: Arc<AtomicBool>) -> Cancel {
        Cancel(flag)
    }
}

/// Equal if they are the same request.
impl PartialEq for Cancel {
    fn eq(&self, other: &Cancel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Reasons to end a solve between two iterations of PCG.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    cancel: Option<Cancel>,
    deadline: Option<Instant>,
}

impl Watch {
    /// A request, and the end of the time of a solve that starts now.
    pub(crate) fn new(cancel: Option<Cancel>, max_time: Option<Duration>) -> Watch {
        let deadline = max_time.and_then(|limit| Instant::now().checked_add(limit));
        Watch { cancel, deadline }
    }

    /// Tells whether the solve is to end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_cancelled() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Tells whether it is to end by request.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(Cancel::is_cancelled)
    }
}
