//! A large stack for whatever recurses as deep as expressions or chains of Funcs are: passes, LLVM, the evaluators.

use std::cell::Cell;

/// Room for depths of 100,000, also for the frames of a build that is not optimised; the memory is only reserved.
pub const STACK_BYTES: usize = if cfg!(debug_assertions) { 1 << 30 } else { 512 << 20 };

/// Bytes of stack for expressions of so many nodes, which cannot be deeper.
pub fn stack_for(nodes: usize) -> usize {
    (STACK_BYTES / 100_000).saturating_mul(nodes).clamp(STACK_BYTES / 8, STACK_BYTES)
}

thread_local! {
    /// Does this thread have such a stack?
    static LARGE: Cell<bool> = const { Cell::new(false) };
}

/// The result of `f` on a stack of [`STACK_BYTES`]: that of this thread if it is one, else of a thread that is waited for. Should
/// none start, `f` has what is left of this stack.
pub fn on_large_stack<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    if LARGE.get() {
        return f();
    }
    // The thread takes `f` from here, so that it is still there if none starts.
    let mut work = Some(f);
    let mut result = None;
    std::thread::scope(|scope| {
        let (work, result) = (&mut work, &mut result);
        let on_thread = move || *result = work.take().map(mark_large);
        let thread = std::thread::Builder::new().name("sumsq-deep".into()).stack_size(STACK_BYTES);
        if let Ok(thread) = thread.spawn_scoped(scope, on_thread)
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
    });
    match (result, work) {
        (Some(r), _) => r,
        (None, Some(f)) => f(),
        (None, None) => unreachable!("what was taken has given a result, or has panicked"),
    }
}

/// Runs `f` on a thread that was started with [`STACK_BYTES`].
pub fn mark_large<R>(f: impl FnOnce() -> R) -> R {
    LARGE.set(true);
    f()
}
