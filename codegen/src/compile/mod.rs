//! From a pipeline and a schedule to code that runs: compile once, bind to buffers, run many times.
//!
//! ```text
//! Compiled::new(pipeline, schedule, target) -> bind(buffers, params) -> Bound -> run(pool), run(pool), ...
//! ```
//! Extents and strides that the code asks for are taken from the bound buffers.

pub mod aot;
mod bind;
mod device;
mod first_schedule;
mod kept;
mod signature;

use crate::backend::abi::Arguments;
pub use crate::backend::llvm::tick;
use crate::backend::llvm::{self, Kernel};
pub use crate::backend::{ENDED, GRID_LOOP, Phase, ended, gated, grid_loop};
use crate::cache::{Cache, Key};
use crate::error::Error;
use crate::expr::Name;
use crate::func::Pipeline;
use crate::ir::stmt::LoweredFunction;
use crate::jobs::in_parallel;
use crate::limits::Limits;
use crate::lower::segments::segments;
use crate::lower::{LowerOptions, lower};
use crate::nests::bounds_query::{BoundsQuery, Region};
use crate::runtime::cuda::{Device, Function};
use crate::runtime::{Buffer, FloatEnvironment, Pool, Scalar};
use crate::schedule::Schedule;
use crate::stack::{on_large_stack, stack_for};
use crate::target::Target;
use bind::{Look, Plan, failed_call};
pub(crate) use device::Recorded;
use device::{DeviceCode, Locals};
pub use first_schedule::first_schedule;
use indexmap::IndexMap;
use kept::{Place, Unloaded};
pub use kept::{cache, key};
pub use signature::{BufferSlot, Signature};
use std::cmp::Reverse;
use std::sync::Arc;

/// The PTX of the kernels of a pipeline under a schedule, one module, for a GPU that need not be here.
///
/// # Errors
/// What lowering refuses; a schedule without a kernel.
pub fn ptx(pipeline: &Pipeline, schedule: &Schedule, target: &Target) -> Result<String, Error> {
    ptx_within(pipeline, schedule, target, Limits::default())
}

/// As [`ptx`], within limits.
///
/// # Errors
/// As for [`ptx`]; what exceeds them.
pub fn ptx_within(
    pipeline: &Pipeline,
    schedule: &Schedule,
    target: &Target,
    limits: Limits,
) -> Result<String, Error> {
    let lowered = lower(pipeline, schedule, &LowerOptions { limits, ..LowerOptions::default() })?;
    on_large_stack(|| {
        let cut = segments(&lowered)?;
        if cut.kernels.is_empty() {
            let message = "its schedule has no gpu_blocks: there is no kernel".to_string();
            return Err(Error::Backend { pipeline: pipeline.name.clone(), message });
        }
        llvm::ptx(&pipeline.name, &cut.kernels, target, &limits)
    })
}

/// A pipeline as machine code. Cheap to clone.
///
/// ```
/// use sumsq_codegen::{Buffer, BufferSpec, Compiled, Pipeline, Pool, ScalarType, Schedule, Target, Var};
///
/// let x = Var::new("x");
/// let mut p = Pipeline::new("table");
/// let squares = p.define("squares", [x], x * x);
/// p.output(&squares);
///
/// let compiled = Compiled::new(&p, &Schedule::new(), &Target::host())?;
/// let out = Buffer::new(BufferSpec::new(ScalarType::I32, &[5]))?;
/// compiled.run(&Pool::new(2), &[("squares", &out)], &[])?;
/// assert_eq!(out.to_vec::<i32>(), [0, 1, 4, 9, 16]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Compiled(Arc<Inner>);

/// The code of a pipeline.
enum Code {
    /// Of the CPU.
    Host(Kernel),
    /// Of a GPU, and of its host.
    Device(Box<DeviceCode>),
}

impl Code {
    fn name(&self) -> &str {
        match self {
            Code::Host(kernel) => &kernel.name,
            Code::Device(code) => code.name(),
        }
    }
}

struct Inner {
    code: Code,
    /// The regions of inputs that it reads.
    required: BoundsQuery,
    plan: Plan,
    /// The key under which a cache has it.
    key: Option<Key>,
}

/// Nodes of a pipeline from which on its instructions are counted before LLVM is given any pipeline: it may take seconds for such a one, and is
/// not interrupted.
const COUNTED: usize = 5000;

/// A pipeline half way to its code.
enum Half<'a> {
    /// A cache had it.
    Kept(Compiled),
    /// Ready for LLVM.
    Lowered(Box<(LoweredFunction, Signature, Option<Place<'a>>)>),
}

impl Compiled {
    /// Lowers and compiles a pipeline under a schedule.
    pub fn new(pipeline: &Pipeline, schedule: &Schedule, target: &Target) -> Result<Compiled, Error> {
        let job = (pipeline.clone(), schedule.clone());
        let mut all = Compiled::all(vec![job], target)?;
        all.pop()
            .ok_or_else(|| Error::Backend { pipeline: pipeline.name.clone(), message: "not compiled".into() })
    }

    /// Lowers and compiles several pipelines on all cores, each in an LLVM context of its own, large ones first. All are lowered before one is
    /// compiled, so that what is refused is refused soon. Results come in the order of the jobs; an error ends it, and of several that of the
    /// largest pipeline is given.
    pub fn all(jobs: Vec<(Pipeline, Schedule)>, target: &Target) -> Result<Vec<Compiled>, Error> {
        Compiled::all_within(jobs, target, Limits::default())
    }

    /// As [`Compiled::all`], within limits, the time being that of all jobs together. What the user's [`Cache`] has is loaded, and what it
    /// has not is kept there; dumps are of what is compiled, so it is not asked while `SUMSQ_DUMP` is set.
    pub fn all_within(
        jobs: Vec<(Pipeline, Schedule)>,
        target: &Target,
        limits: Limits,
    ) -> Result<Vec<Compiled>, Error> {
        Compiled::all_kept(jobs, target, limits, cache().as_ref())
    }

    /// As [`Compiled::all_within`], with this cache in place of the user's.
    pub fn all_kept(
        jobs: Vec<(Pipeline, Schedule)>,
        target: &Target,
        limits: Limits,
        cache: Option<&Cache>,
    ) -> Result<Vec<Compiled>, Error> {
        let options = LowerOptions { limits, ..LowerOptions::default() };
        let mut jobs: Vec<_> = jobs.into_iter().enumerate().map(|(i, job)| (job.0.nodes(), i, job)).collect();
        jobs.sort_by_key(|&(nodes, i, _)| (Reverse(nodes), i));
        let stack = stack_for(jobs.first().map_or(0, |&(nodes, ..)| nodes));
        let order: Vec<usize> = jobs.iter().map(|&(_, i, _)| i).collect();
        let made = in_parallel(jobs, stack, |(nodes, _, (pipeline, schedule))| {
            let place = cache.map(|cache| Place::new(cache, (&pipeline, &schedule), limits.effort, target));
            if let Some(kept) = place.as_ref().and_then(Place::load) {
                return Ok(Half::Kept(kept));
            }
            let signature = Signature::of(&pipeline, &schedule)?;
            let lowered = lower(&pipeline, &schedule, &options)?;
            if nodes > COUNTED && target.gpu.is_none() {
                llvm::admit(&lowered, target, &limits)?;
            }
            Ok(Half::Lowered(Box::new((lowered, signature, place))))
        })?;
        let compiled = in_parallel(made, stack, |half| match half {
            Half::Kept(kept) => Ok(kept),
            Half::Lowered(half) => {
                let (lowered, signature, place) = *half;
                Compiled::within(&lowered, signature, target, &limits, place)
            }
        })?;
        let mut all: Vec<_> = order.into_iter().zip(compiled).collect();
        all.sort_by_key(|&(i, _)| i);
        Ok(all.into_iter().map(|(_, compiled)| compiled).collect())
    }

    /// The pipelines that a cache has under these keys, in their order; none if one of them is missing.
    pub fn kept(keys: &[Key], cache: &Cache) -> Option<Vec<Compiled>> {
        keys.iter().map(|&key| Place::of(cache, key).load()).collect()
    }

    /// The key under which a cache has it, if one was asked.
    pub fn key(&self) -> Option<Key> {
        self.0.key
    }

    /// Compiles a lowered function, to be called with the buffers and parameters of `signature`.
    pub fn from_lowered(
        f: &LoweredFunction,
        signature: Signature,
        target: &Target,
    ) -> Result<Compiled, Error> {
        Compiled::from_lowered_within(f, signature, target, &Limits::default())
    }

    /// As [`Compiled::from_lowered`], within limits.
    pub fn from_lowered_within(
        f: &LoweredFunction,
        signature: Signature,
        target: &Target,
        limits: &Limits,
    ) -> Result<Compiled, Error> {
        Compiled::within(f, signature, target, limits, None)
    }

    fn within(
        f: &LoweredFunction,
        signature: Signature,
        target: &Target,
        limits: &Limits,
        place: Option<Place>,
    ) -> Result<Compiled, Error> {
        let plan = Plan::new(f, signature)?;
        let key = place.as_ref().map(|place| place.key);
        let mut made = on_large_stack(|| Unloaded::compile(f, plan, target, limits, key))?;
        let bytes = place.as_ref().and_then(|_| made.bytes());
        let compiled = made.load(key)?;
        if let (Some(place), Some(bytes)) = (place, bytes) {
            place.keep(&bytes);
        }
        Ok(compiled)
    }

    /// The name of the pipeline.
    pub fn name(&self) -> &str {
        self.0.code.name()
    }

    /// Its kernels as PTX, if it is compiled for a GPU.
    pub fn ptx(&self) -> Option<&str> {
        match &self.0.code {
            Code::Host(_) => None,
            Code::Device(code) => Some(code.ptx()),
        }
    }

    /// Buffers and parameters that it takes.
    pub fn signature(&self) -> &Signature {
        &self.0.plan.signature
    }

    /// Returns which region of each input is read for buffers of these extents and these parameters; see [`BoundsQuery::regions`].
    pub fn required_regions(
        &self,
        extents: &[(&str, &[i32])],
        params: &[(&str, Scalar)],
    ) -> Result<IndexMap<Name, Region>, Error> {
        self.0.required.regions(extents, params)
    }

    /// As [`Compiled::required_regions`] over domains, `(min, extent)` per dimension; see [`BoundsQuery::regions_over`].
    pub fn required_regions_over(
        &self,
        domains: &[(&str, &[(i32, i32)])],
        params: &[(&str, Scalar)],
    ) -> Result<IndexMap<Name, Region>, Error> {
        self.0.required.regions_over(domains, params)
    }

    /// Checks buffers and parameters, once, for many runs. Every buffer and parameter of the signature is needed, in any
    /// order.
    pub fn bind<'b>(
        &self,
        buffers: &[(&str, &'b Buffer)],
        params: &[(&str, Scalar)],
    ) -> Result<Bound<'b>, Error> {
        let plan = &self.0.plan;
        let slots = plan.match_buffers(buffers)?;
        let mut call = Call::new(self.clone());
        plan.fill_params(&mut call.arguments.scalars, params)?;
        call.set_buffers(|slot| slots[slot])?;
        Ok(Bound { call, slots })
    }

    /// Checks named buffers as [`Compiled::bind`] does, their values apart.
    pub fn check_buffers(&self, buffers: &[(&str, &Buffer)]) -> Result<(), Error> {
        self.0.plan.match_buffers(buffers).map(|_| ())
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
    slots: Vec<&'b Buffer>,
}

impl Bound<'_> {
    /// Runs the pipeline.
    pub fn run(&mut self, pool: &Pool) -> Result<(), Error> {
        let slots = &self.slots;
        self.call.run(|slot| slots[slot], pool)
    }

    /// Changes a parameter for the following runs.
    pub fn set_param(&mut self, name: &str, value: Scalar) -> Result<(), Error> {
        self.call.set_param(name, value)
    }
}

/// A compiled pipeline with the arguments of its calls.
pub(crate) struct Call {
    compiled: Compiled,
    arguments: Arguments,
    /// Allocations on a device, and its launches.
    locals: Box<Locals>,
    /// Looks of the buffers that sizes were taken from.
    looks: Vec<Look>,
    promises: Option<Promises>,
    /// Per slot: version of the values that were last found to keep their range, and that range.
    in_range: Vec<Option<(u64, i64, i64)>>,
}

/// Promises about buffers for given sizes and parameters: the same in the runs of a loop.
struct Promises {
    /// The sizes, where they are arguments, and parameters.
    scalars: Vec<u64>,
    /// Slots whose values keep a range, with that range.
    ranges: Vec<(usize, i64, i64)>,
}

impl Call {
    /// With null pointers and zeros.
    pub(crate) fn new(compiled: Compiled) -> Call {
        let plan = &compiled.0.plan;
        let (n, m) = (plan.pointer_count(), plan.scalar_count());
        let in_range = vec![None; plan.signature.buffers.len()];
        let arguments = Arguments::new(n, m);
        let locals = Box::default();
        Call { compiled, arguments, locals, looks: vec![], promises: None, in_range }
    }

    /// Takes sizes from the given buffers, one per slot of the signature, after checking that they fit.
    fn set_buffers<'a>(&mut self, slot: impl Fn(usize) -> &'a Buffer) -> Result<(), Error> {
        let inner = &self.compiled.0;
        let slots: Vec<&Buffer> = (0..inner.plan.signature.buffers.len()).map(&slot).collect();
        inner.plan.check_slots(&slots)?;
        inner.plan.fill_sizes(&mut self.arguments.scalars, &slots);
        self.looks = slots.iter().map(|b| Look::of(b)).collect();
        self.promises = None;
        self.check_values(|i| slots[i])
    }

    /// Makes the call fit these buffers: usually those of the last time, or others that look alike.
    fn refresh<'a>(&mut self, slot: impl Fn(usize) -> &'a Buffer) -> Result<(), Error> {
        let n = self.compiled.0.plan.signature.buffers.len();
        let alike = self.looks.len() == n && self.looks.iter().enumerate().all(|(i, l)| l.is_of(slot(i)));
        if alike {
            self.check_values(&slot)?
        } else {
            self.set_buffers(&slot)?
        }
        Ok(())
    }

    /// Checks the constraints of buffers, and the promised ranges of integer inputs, which the code relies on to stay inside
    /// other buffers. Costs a pass over those whose values changed.
    fn check_values<'a>(&mut self, slot: impl Fn(usize) -> &'a Buffer) -> Result<(), Error> {
        let (plan, scalars) = (&self.compiled.0.plan, &self.arguments.scalars);
        let promises = match self.promises.take().filter(|p| p.scalars == *scalars) {
            Some(known) => known,
            None => {
                plan.check_constraints(&self.looks, scalars)?;
                let ranges = plan.ranges(&self.looks, scalars)?;
                Promises { scalars: scalars.clone(), ranges }
            }
        };
        for &(i, low, high) in &self.promises.insert(promises).ranges {
            let now = Some((slot(i).version(), low, high));
            if self.in_range[i] != now {
                plan.check_range(i, slot(i), low, high)?;
                self.in_range[i] = now;
            }
        }
        Ok(())
    }

    /// Sets one parameter.
    pub(crate) fn set_param(&mut self, name: &str, value: Scalar) -> Result<(), Error> {
        self.compiled.0.plan.set_param(&mut self.arguments.scalars, name, value)
    }

    /// The device that runs it, if nothing of it is left for the host but launches.
    pub(crate) fn device_alone(&self) -> Option<&Device> {
        match &self.compiled.0.code {
            Code::Host(_) => None,
            Code::Device(code) => code.device_alone(),
        }
    }

    /// Its kernels, each with the same one behind a gate: see [`DeviceCode::gated`]. None of the host's.
    pub(crate) fn gated(&self) -> Result<Vec<(Function, Function)>, Error> {
        match &self.compiled.0.code {
            Code::Host(_) => Ok(vec![]),
            Code::Device(code) => code.gated(),
        }
    }

    /// The PTX that has a kernel, if it is one of these.
    pub(crate) fn text_of(&self, kernel: &Function) -> Option<&str> {
        match &self.compiled.0.code {
            Code::Host(_) => None,
            Code::Device(code) => code.text_of(kernel),
        }
    }

    /// As [`Call::run`] of what a device runs alone, up to its launches, which are appended to a list: whoever has it makes them, in order,
    /// before anybody looks at the buffers.
    pub(crate) fn record<'a>(
        &mut self,
        slot: impl Fn(usize) -> &'a Buffer,
        pool: &Pool,
        launches: &mut Vec<Recorded>,
    ) -> Result<(), Error> {
        self.refresh(&slot)?;
        match &self.compiled.0.code {
            Code::Host(_) => Ok(()),
            Code::Device(code) => {
                code.run(&self.arguments.scalars, &mut self.locals, &slot, pool, Some(launches))
            }
        }
    }

    /// Runs the pipeline on the given buffers, one per slot of the signature, after checking that they fit.
    pub(crate) fn run<'a>(&mut self, slot: impl Fn(usize) -> &'a Buffer, pool: &Pool) -> Result<(), Error> {
        self.refresh(&slot)?;
        let Inner { code, plan, .. } = &*self.compiled.0;
        let written = || (0..).zip(&plan.signature.buffers).filter(|(_, s)| s.written).map(|(i, _)| slot(i));
        let kernel = match code {
            Code::Host(kernel) => kernel,
            Code::Device(code) => {
                code.run(&self.arguments.scalars, &mut self.locals, &slot, pool, None)?;
                return written().try_for_each(Buffer::sync_borrowed).map_err(|e| plan.device_error(e));
            }
        };
        plan.fill_pointers(&mut self.arguments, &slot)?;
        let _standard = FloatEnvironment::standard();
        // SAFETY: `Plan` gave the arguments their number, and they are those of buffers that were checked just now and stay
        // borrowed; these are written to as cells, by this thread and by workers that it waits for (see `runtime::buffer`).
        let done = unsafe { self.arguments.call(kernel.entry(), pool) };
        // The outputs have other values now.
        written().for_each(Buffer::touch);
        done.map_err(|failure| failed_call(kernel, failure))
    }
}
