//! From a pipeline and a schedule to code that runs: compile once, bind to buffers, run many times.
//!
//! ```text
//! Compiled::new(pipeline, schedule, target) -> bind(buffers, params) -> Bound -> run(pool), run(pool), ...
//! ```
//! Extents and strides that the code asks for are taken from the bound buffers.

mod bind;
mod signature;

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::backend::HostTarget;
use crate::backend::abi::{Context, Failure, OUT_OF_MEMORY};
use crate::backend::llvm::Kernel;
use crate::error::Error;
use crate::expr::Name;
use crate::runtime::{Buffer, Pool, Scalar};
use crate::stmt::LoweredFunction;

use bind::Plan;
pub use signature::{BufferSlot, Signature};

/// Stack of a compiling thread: passes and LLVM may recurse as deep as expressions are.
const STACK: usize = 256 << 20;

/// A pipeline as machine code. Cheap to clone.
#[derive(Clone)]
pub struct Compiled(Arc<Inner>);

struct Inner {
    kernel: Kernel,
    signature: Signature,
    plan: Plan,
}

impl Compiled {
    /// Compiles a lowered function, to be called with the buffers and parameters of `signature`.
    pub fn from_lowered(
        f: &LoweredFunction,
        signature: Signature,
        target: &HostTarget,
    ) -> Result<Compiled, Error> {
        let plan = Plan::new(f, &signature)?;
        let kernel = Kernel::compile(f, target)?;
        Ok(Compiled(Arc::new(Inner { kernel, signature, plan })))
    }

    /// Compiles several lowered functions on all cores, each in an LLVM context of its own. Results come in the order of
    /// the jobs; of several errors the first is given.
    pub fn all_from_lowered(
        jobs: Vec<(LoweredFunction, Signature)>,
        target: &HostTarget,
    ) -> Result<Vec<Compiled>, Error> {
        in_parallel(jobs, |(f, signature)| Compiled::from_lowered(&f, signature, target))
    }

    /// The name of the pipeline.
    pub fn name(&self) -> &str {
        &self.0.kernel.name
    }

    /// Buffers and parameters that it takes.
    pub fn signature(&self) -> &Signature {
        &self.0.signature
    }

    /// Checks buffers and parameters, once, for many runs. Every buffer and parameter of the signature is needed, in any
    /// order.
    pub fn bind<'b>(
        &self,
        buffers: &[(&str, &'b Buffer)],
        params: &[(&str, Scalar)],
    ) -> Result<Bound<'b>, Error> {
        let inner = &self.0;
        let slots = inner.plan.match_buffers(buffers)?;
        let mut call = Call::new(self.clone());
        inner.plan.fill_sizes(&mut call.scalars, &slots);
        inner.plan.fill_params(&mut call.scalars, params)?;
        inner.plan.fill_pointers(&mut call.pointers, |slot| slots[slot]);
        inner.plan.check_values(&slots, &call.scalars)?;
        Ok(Bound { call, buffers: PhantomData })
    }

    /// Binds and runs once.
    pub fn run(
        &self,
        pool: &Pool,
        buffers: &[(&str, &Buffer)],
        params: &[(&str, Scalar)],
    ) -> Result<(), Error> {
        self.bind(buffers, params)?.run(pool)
    }
}

/// A compiled pipeline with the arguments of its next call. The buffers stay borrowed.
pub struct Bound<'b> {
    call: Call,
    buffers: PhantomData<&'b Buffer>,
}

impl Bound<'_> {
    /// Runs the pipeline.
    pub fn run(&self, pool: &Pool) -> Result<(), Error> {
        // SAFETY: the pointers are those of buffers that were checked by `bind` and are borrowed since; they are written to
        // as cells, by this thread and by workers that it waits for (see `runtime::buffer`).
        unsafe { self.call.run(pool) }
    }

    /// Changes a parameter for the following runs.
    pub fn set_param(&mut self, name: &str, value: Scalar) -> Result<(), Error> {
        let plan = &self.call.compiled.0.plan;
        plan.set_param(&mut self.call.scalars, name, value)
    }
}

/// The arguments of an entry point. Pointers are only as good as whoever filled them in.
pub(crate) struct Call {
    compiled: Compiled,
    pointers: Vec<*mut c_void>,
    scalars: Vec<u64>,
}

impl Call {
    /// With null pointers and zeros.
    pub(crate) fn new(compiled: Compiled) -> Call {
        let plan = &compiled.0.plan;
        let (n, m) = (plan.pointer_count(), plan.scalar_count());
        Call { compiled, pointers: vec![std::ptr::null_mut(); n], scalars: vec![0; m] }
    }

    /// Takes sizes and pointers from the given buffers, one per slot of the signature, after checking that they fit.
    pub(crate) fn set_buffers(&mut self, slots: &[&Buffer]) -> Result<(), Error> {
        let inner = &self.compiled.0;
        inner.plan.check_slots(slots)?;
        inner.plan.fill_sizes(&mut self.scalars, slots);
        inner.plan.check_values(slots, &self.scalars)
    }

    /// Takes the addresses of buffers that look like those of [`Call::set_buffers`].
    pub(crate) fn set_pointers<'a>(&mut self, slot: impl Fn(usize) -> &'a Buffer) {
        self.compiled.0.plan.fill_pointers(&mut self.pointers, slot);
    }

    /// Sets one parameter.
    pub(crate) fn set_param(&mut self, name: &str, value: Scalar) -> Result<(), Error> {
        self.compiled.0.plan.set_param(&mut self.scalars, name, value)
    }

    /// Calls the entry point.
    ///
    /// # Safety
    /// The pointers are those of live buffers that fit the signature and that nobody else touches during the call.
    pub(crate) unsafe fn run(&self, pool: &Pool) -> Result<(), Error> {
        let kernel = &self.compiled.0.kernel;
        let context = Context::new(pool);
        // SAFETY: by this function's contract; `Plan` gave both arrays the lengths that the entry point reads.
        let code = unsafe { kernel.entry()(&context, self.pointers.as_ptr(), self.scalars.as_ptr()) };
        if code == 0 {
            return Ok(());
        }
        Err(failure_error(
            kernel,
            context.into_failure().unwrap_or(Failure { code, args: Default::default() }),
        ))
    }
}

/// The failure in words: the assertion's message with its values.
fn failure_error(kernel: &Kernel, f: Failure) -> Error {
    let args = f.args.iter().map(|a| a.to_string()).collect::<Vec<_>>().join(", ");
    let message = if f.code == OUT_OF_MEMORY {
        format!("out of memory: cannot allocate {args} bytes")
    } else {
        let text = kernel.assertions.get(f.code as usize - 1).map_or("an assertion failed", |s| s);
        if args.is_empty() { text.to_string() } else { format!("{text}: {args}") }
    };
    Error::Run { pipeline: kernel.name.clone(), message }
}

/// Applies `f` to every job on threads of its own with deep stacks, as many as there are cores. The first error wins.
pub(crate) fn in_parallel<J: Send, R: Send>(
    jobs: Vec<J>,
    f: impl Fn(J) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    use std::sync::Mutex;
    let n = jobs.len();
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let results = Mutex::new((0..n).map(|_| None).collect::<Vec<Option<Result<R, Error>>>>());
    let work = || {
        loop {
            let next = queue.lock().unwrap_or_else(|e| e.into_inner()).next();
            let Some((i, job)) = next else { return };
            let r = f(job);
            results.lock().unwrap_or_else(|e| e.into_inner())[i] = Some(r);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |c| c.get()).min(n);
    std::thread::scope(|s| {
        let spawn = || {
            std::thread::Builder::new().name("sumsq-compile".into()).stack_size(STACK).spawn_scoped(s, &work)
        };
        // Should no thread start, the caller does the work.
        if (0..threads).filter_map(|_| spawn().ok()).count() == 0 {
            work();
        }
    });
    let results = results.into_inner().unwrap_or_else(|e| e.into_inner());
    results.into_iter().flatten().collect()
}

/// Name of a buffer or parameter that an argument belongs to, for messages.
pub(crate) fn bind_error(pipeline: &str, name: impl Into<Name>, message: impl Into<String>) -> Error {
    Error::Bind { pipeline: pipeline.into(), name: name.into(), message: message.into() }
}
