//! A pipeline on a GPU: the walk over its segments.
//!
//! Kernels are loaded when the pipeline is compiled, by the device that its target names. A run evaluates the scalars of the host's part, brings
//! the buffers of each launch to the device, launches, and does not wait: values come back when somebody asks a buffer for them. A host
//! function in between has the buffers that it touches brought to the host first.

use super::bind::{Plan, failed, failed_call};
use super::signature::Signature;
use crate::analysis::evaluate::{Known, constant};
use crate::backend::abi::Arguments;
use crate::backend::llvm::{self, Kernel};
use crate::error::{CudaError, Error};
use crate::expr::{Expr, Flat, Name, Param};
use crate::ir::args::Arg;
use crate::ir::segments::{Segment, outer_name};
use crate::ir::stmt::LoweredFunction;
use crate::limits::Limits;
use crate::lower::segments::segments;
use crate::runtime::cuda::{Device, Function, Module, Shape};
use crate::runtime::{Access, Buffer, BufferError, BufferSpec, FloatEnvironment, Pool};
use crate::target::Target;
use crate::types::{ScalarType, f16};
use rustc_hash::FxHashMap;

/// The code of a pipeline with kernels.
pub(super) struct DeviceCode {
    name: String,
    root: Segment,
    launches: Vec<Launch>,
    calls: Vec<HostCall>,
    device: Device,
    /// Parameters of the whole, in the order of the scalar arguments.
    scalars: Vec<(Param, ScalarType)>,
    ptx: String,
}

/// A kernel, loaded, with the sources of its arguments.
struct Launch {
    function: Function,
    threads: u32,
    arguments: Vec<Source>,
}

/// A function of the host.
struct HostCall {
    kernel: Kernel,
    arguments: Vec<Source>,
}

/// The source of an argument.
enum Source {
    /// The plane of a slot of the signature.
    Slot { slot: usize, plane: usize, written: bool },
    /// An allocation.
    Local { buffer: Flat, written: bool },
    /// A scalar argument of the whole, by its number.
    Scalar(usize),
    /// A name that the walk has bound.
    Name(Name),
}

/// Allocations of a call, kept for its next run.
pub(super) type Locals = FxHashMap<Flat, Buffer>;

/// Facts that hold at the present place of the walk.
struct State<'a, 'b> {
    known: Known,
    scalars: &'a [u64],
    locals: &'a mut Locals,
    slot: &'a dyn Fn(usize) -> &'b Buffer,
    pool: &'a Pool,
    /// Takes launches in place of the device.
    recorded: Option<&'a mut Vec<Recorded>>,
}

/// A launch that was not made.
#[derive(Clone, PartialEq)]
pub(crate) struct Recorded {
    /// The kernel.
    pub function: Function,
    /// Sizes of grid and block.
    pub shape: Shape,
    /// One value per parameter.
    pub arguments: Vec<u64>,
}

impl DeviceCode {
    /// Compiles a lowered function and loads its kernels.
    pub(super) fn new(
        f: &LoweredFunction,
        plan: &Plan,
        signature: &Signature,
        target: &Target,
        limits: &Limits,
    ) -> Result<DeviceCode, Error> {
        let cut = segments(f)?;
        let failed = |error: CudaError| Error::Device { pipeline: f.name.clone(), error };
        let device = Device::shared(target.gpu.map_or(0, |gpu| gpu.ordinal)).map_err(failed)?;
        let scalars: Vec<(Param, ScalarType)> = f
            .args
            .iter()
            .filter_map(|a| match a {
                Arg::Scalar { param, ty } => Some((param.clone(), *ty)),
                Arg::Buffer { .. } => None,
            })
            .collect();
        debug_assert_eq!(scalars.len(), plan.scalar_count());
        let sources =
            |of: &LoweredFunction| of.args.iter().map(|a| Source::of(a, f, signature, &scalars)).collect();
        let mut ptx = String::new();
        let mut launches = vec![];
        if !cut.kernels.is_empty() {
            ptx = llvm::ptx(&f.name, &cut.kernels, target, limits)?;
            let module = Module::load(&device, &ptx).map_err(failed)?;
            for k in &cut.kernels {
                let function = module.function(&k.function.name).map_err(failed)?;
                launches.push(Launch { function, threads: k.threads, arguments: sources(&k.function) });
            }
        }
        let host = Target::host();
        let compiled = |h: &LoweredFunction| {
            Ok(HostCall { kernel: Kernel::compile(h, &host, limits)?, arguments: sources(h) })
        };
        let calls = cut.hosts.iter().map(compiled).collect::<Result<_, Error>>()?;
        Ok(DeviceCode { name: f.name.clone(), root: cut.root, launches, calls, device, scalars, ptx })
    }

    /// The name of the pipeline.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The kernels as PTX, none if there are none.
    pub(super) fn ptx(&self) -> &str {
        &self.ptx
    }

    /// The device, if nothing is left for the host but launches.
    pub(super) fn device_alone(&self) -> Option<&Device> {
        self.calls.is_empty().then_some(&self.device)
    }

    /// Runs the pipeline; see the module's description. Launches go to `recorded`, if that is given, and are not made.
    pub(super) fn run<'b>(
        &self,
        scalars: &[u64],
        locals: &mut Locals,
        slot: &dyn Fn(usize) -> &'b Buffer,
        pool: &Pool,
        recorded: Option<&mut Vec<Recorded>>,
    ) -> Result<(), Error> {
        let _entered = self.device.enter().map_err(|e| self.device_error(e))?;
        let mut known = Known::default();
        for ((param, ty), bits) in self.scalars.iter().zip(scalars) {
            known.params.insert(param.clone(), of_bits(*ty, *bits));
        }
        self.walk(&self.root, &mut State { known, scalars, locals, slot, pool, recorded })
    }

    fn walk(&self, s: &Segment, state: &mut State) -> Result<(), Error> {
        match s {
            Segment::Block(list) => list.iter().try_for_each(|s| self.walk(s, state)),
            Segment::Let { name, value, body } => {
                let value = self.constant(value, state)?;
                let outer = state.known.vars.insert(name.clone(), value);
                self.walk(body, state)?;
                restore(state, name, outer);
                Ok(())
            }
            Segment::For { var, min, extent, body } => {
                let (first, n) = (self.integer(min, state)?, self.integer(extent, state)?);
                let outer = state.known.vars.get(var).cloned();
                for i in first..first.saturating_add(n) {
                    state.known.vars.insert(var.clone(), Expr::int(min.ty(), i));
                    self.walk(body, state)?;
                }
                restore(state, var, outer);
                Ok(())
            }
            Segment::If { cond, then, otherwise } => match (self.integer(cond, state)?, otherwise) {
                (0, None) => Ok(()),
                (0, Some(otherwise)) => self.walk(otherwise, state),
                _ => self.walk(then, state),
            },
            Segment::Assert { cond, message, args } => {
                if self.integer(cond, state)? != 0 {
                    return Ok(());
                }
                let values = args.iter().map(|a| self.integer(a, state)).collect::<Result<Vec<_>, _>>()?;
                Err(self.error(failed(message, &values)))
            }
            Segment::Allocate { buffer, ty, extent, zeroed, body } => {
                let n = self.integer(extent, state)?.max(0);
                self.allocate(buffer, *ty, n, *zeroed, state)?;
                self.walk(body, state)
            }
            Segment::Launch { kernel, grid } => self.launch(&self.launches[*kernel], grid, state),
            Segment::Host { function } => self.call(&self.calls[*function], state),
        }
    }

    /// A buffer for `n` elements: that of the last run, if it has as many.
    fn allocate(
        &self,
        buffer: &Flat,
        ty: ScalarType,
        n: i64,
        zeroed: bool,
        state: &mut State,
    ) -> Result<(), Error> {
        let fits = |b: &Buffer| b.spec().ty == ty && b.spec().extents == [n as i32] && !zeroed;
        let too_large = || self.error(format!("{buffer} has {n} elements, more than can be counted"));
        let extent = i32::try_from(n).map_err(|_| too_large())?;
        if !state.locals.get(buffer).is_some_and(fits) {
            let made = Buffer::new(BufferSpec::new(ty, &[extent])).map_err(|e| self.error(e.to_string()))?;
            state.locals.insert(buffer.clone(), made);
        }
        Ok(())
    }

    fn launch(&self, launch: &Launch, grid: &[Expr], state: &mut State) -> Result<(), Error> {
        let mut shape = Shape { grid: [1; 3], block: launch.threads };
        for (to, n) in shape.grid.iter_mut().zip(grid) {
            *to = self.integer(n, state)?.clamp(0, u32::MAX as i64) as u32;
        }
        if shape.is_empty() {
            return Ok(());
        }
        let mut arguments = Vec::with_capacity(launch.arguments.len());
        for source in &launch.arguments {
            let on_device = |b: &Buffer, plane, written| {
                let access = if written { Access::Write } else { Access::Read };
                b.on_device(&self.device, plane, access).map_err(|e| self.buffer_error(e))
            };
            arguments.push(match source {
                Source::Slot { slot, plane, written } => on_device((state.slot)(*slot), *plane, *written)?,
                Source::Local { buffer, written } => on_device(self.local(buffer, state)?, 0, *written)?,
                source => self.scalar(source, state)?,
            });
        }
        if let Some(recorded) = &mut state.recorded {
            recorded.push(Recorded { function: launch.function.clone(), shape, arguments });
            return Ok(());
        }
        // SAFETY: the arguments are those of the kernel, in its order; buffers live at least as long as the device is at work for
        // them, since freeing them waits for its stream; regions were checked by the assertions that the walk has passed.
        unsafe { launch.function.launch(shape, &arguments) }.map_err(|e| self.device_error(e))
    }

    fn call(&self, call: &HostCall, state: &mut State) -> Result<(), Error> {
        let (mut pointers, mut scalars, mut written) = (vec![], vec![], vec![]);
        for source in &call.arguments {
            let buffer = match source {
                Source::Slot { slot, .. } => (state.slot)(*slot),
                Source::Local { buffer, .. } => self.local(buffer, state)?,
                source => {
                    scalars.push(self.scalar(source, state)?);
                    continue;
                }
            };
            buffer.sync_host().map_err(|e| self.device_error(e))?;
            let (plane, writes) = match source {
                Source::Slot { plane, written, .. } => (*plane, *written),
                Source::Local { written, .. } => (0, *written),
                _ => (0, false),
            };
            pointers.push(buffer.plane_ptr(plane));
            if writes {
                written.push(buffer);
            }
        }
        let mut arguments = Arguments::new(pointers.len(), 0);
        arguments.set_pointers(pointers.into_iter());
        arguments.scalars = scalars;
        let _standard = FloatEnvironment::standard();
        // SAFETY: these are the function's arguments, in its order; the buffers hold the host's values, stay borrowed, and are written to as
        // cells, by this thread and by workers that it waits for.
        let done = unsafe { arguments.call(call.kernel.entry(), state.pool) };
        written.into_iter().for_each(Buffer::touch);
        done.map_err(|failure| failed_call(&call.kernel, failure))
    }

    fn local<'s>(&self, buffer: &Flat, state: &'s State) -> Result<&'s Buffer, Error> {
        state.locals.get(buffer).ok_or_else(|| self.error(format!("{buffer} is not allocated")))
    }

    fn scalar(&self, source: &Source, state: &State) -> Result<u64, Error> {
        match source {
            Source::Scalar(i) => Ok(state.scalars[*i]),
            Source::Name(name) => {
                let value = state.known.vars.get(name).and_then(bits);
                value.ok_or_else(|| self.error(format!("{name} has no value")))
            }
            Source::Slot { .. } | Source::Local { .. } => Err(self.error("a buffer is no scalar".into())),
        }
    }

    fn constant(&self, e: &Expr, state: &State) -> Result<Expr, Error> {
        constant(e, &state.known)
            .ok_or_else(|| self.error(format!("{e} cannot be evaluated on the host of a GPU")))
    }

    fn integer(&self, e: &Expr, state: &State) -> Result<i64, Error> {
        let value = self.constant(e, state)?;
        value.as_int().ok_or_else(|| self.error(format!("{e} is no integer")))
    }

    fn error(&self, message: String) -> Error {
        Error::Run { pipeline: self.name.clone(), message }
    }

    fn device_error(&self, error: CudaError) -> Error {
        Error::Device { pipeline: self.name.clone(), error }
    }

    fn buffer_error(&self, error: BufferError) -> Error {
        match error {
            BufferError::Device(error) => self.device_error(error),
            error => self.error(error.to_string()),
        }
    }
}

impl Source {
    fn of(
        a: &Arg,
        whole: &LoweredFunction,
        signature: &Signature,
        scalars: &[(Param, ScalarType)],
    ) -> Source {
        match a {
            // An output may have storage of its own besides.
            Arg::Buffer { flat, written, .. } => match signature.plane(flat) {
                Some((slot, plane)) if whole.args.iter().any(|a| a.flat() == Some(flat)) => {
                    Source::Slot { slot, plane, written: *written }
                }
                _ => Source::Local { buffer: flat.clone(), written: *written },
            },
            Arg::Scalar { param, .. } => match scalars.iter().position(|s| s.0 == *param) {
                Some(i) => Source::Scalar(i),
                None => Source::Name(outer_name(param).unwrap_or_default().into()),
            },
        }
    }
}

/// Puts back what a name meant outside.
fn restore(state: &mut State, name: &Name, outer: Option<Expr>) {
    match outer {
        Some(value) => state.known.vars.insert(name.clone(), value),
        None => state.known.vars.remove(name),
    };
}

/// The constant of a type with these bits.
fn of_bits(ty: ScalarType, bits: u64) -> Expr {
    match ty {
        ScalarType::Bool => Expr::bool(bits & 1 != 0),
        ScalarType::F16 => Expr::float(ty, f16::from_bits(bits as u16).to_f64()),
        ScalarType::F32 => Expr::float(ty, f32::from_bits(bits as u32) as f64),
        ScalarType::F64 => Expr::float(ty, f64::from_bits(bits)),
        ty => Expr::int(ty, ty.wrap(bits as i64)),
    }
}

/// The bits of a constant, in the low bytes.
fn bits(e: &Expr) -> Option<u64> {
    if let Some(v) = e.as_int() {
        return Some(v as u64);
    }
    let v = e.as_float()?;
    Some(match e.ty().scalar {
        ScalarType::F16 => f16::from_f64(v).to_bits().into(),
        ScalarType::F32 => (v as f32).to_bits().into(),
        _ => v.to_bits(),
    })
}
