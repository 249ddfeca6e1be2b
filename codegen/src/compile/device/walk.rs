//! The walk over the segments of a pipeline.
//!
//! It takes many times what its launches do, so it is gone once: a call keeps the launches that it came to. They are those of every later run
//! with the same parameters, but for such as only kernels read, wherever its buffers lie: sizes are parameters, and assertions depend on nothing
//! else. Pipelines with host functions, or with allocations that begin as zeros, are walked each time.

use super::traffic::{Traffic, copy_rate};
use super::{DeviceCode, HostCall, Launch, Recorded, Source};
use crate::analysis::evaluate::{Known, bits, constant, of_bits};
use crate::backend::abi::Arguments;
use crate::compile::bind::{failed, failed_call};
use crate::error::{CudaError, Error};
use crate::expr::walk::any;
use crate::expr::{Expr, ExprKind, Flat, Name, Param};
use crate::ir::segments::{Segment, parameters};
use crate::runtime::cuda::Shape;
use crate::runtime::{Access, Buffer, BufferSpec, FloatEnvironment, Pool, profile};
use crate::types::ScalarType;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// Things that a call keeps for its next run.
#[derive(Default)]
pub(in crate::compile) struct Locals {
    /// Allocations.
    buffers: FxHashMap<Flat, Buffer>,
    /// Scalar arguments as those among the buffers that hold parameters have them.
    parameters: Vec<u64>,
    known: Option<Launches>,
}

/// The launches of a walk.
struct Launches {
    /// Parameters, as they were.
    scalars: Vec<u64>,
    all: Vec<Planned>,
}

/// A launch, up to addresses and parameters.
struct Planned {
    kernel: usize,
    shape: Shape,
    /// Values of the names among its arguments, in their order.
    names: Vec<u64>,
}

/// Facts that hold at the present place of the walk.
struct State<'a, 'b> {
    known: Known,
    scalars: &'a [u64],
    buffers: &'a mut FxHashMap<Flat, Buffer>,
    slot: &'a dyn Fn(usize) -> &'b Buffer,
    pool: &'a Pool,
    /// The launches so far.
    planned: Vec<Planned>,
    /// Takes launches in place of the device.
    recorded: Option<&'a mut Vec<Recorded>>,
}

/// Tells of each parameter whether the host's part depends on it.
pub(super) fn deciding(root: &Segment, scalars: &[(Param, ScalarType)]) -> Vec<bool> {
    let mut decides = vec![false; scalars.len()];
    root.visit_exprs(&mut |e| {
        for (decides, (param, _)) in decides.iter_mut().zip(scalars).filter(|(d, _)| !**d) {
            *decides = any(e, |n| matches!(n.kind(), ExprKind::Param(p) if p == param));
        }
    });
    decides
}

/// True if every walk comes to launches alone, which follow from parameters.
pub(super) fn is_launches(root: &Segment) -> bool {
    match root {
        Segment::Block(list) => list.iter().all(is_launches),
        Segment::Let { body, .. } | Segment::For { body, .. } => is_launches(body),
        Segment::Allocate { zeroed, body, .. } => !zeroed && is_launches(body),
        Segment::If { then, otherwise, .. } => {
            is_launches(then) && otherwise.as_deref().is_none_or(is_launches)
        }
        Segment::Assert { .. } | Segment::Launch { .. } => true,
        Segment::Host { .. } => false,
    }
}

impl Launches {
    /// Would a walk with these parameters come to the same?
    fn hold(&self, decides: &[bool], scalars: &[u64]) -> bool {
        let both = self.scalars.iter().zip(scalars);
        both.zip(decides).all(|((then, now), decides)| !decides || then == now)
    }
}

impl DeviceCode {
    /// Runs the pipeline; see the module's description. Launches go to `recorded`, if that is given, and are not made.
    pub(in crate::compile) fn run<'b>(
        &self,
        scalars: &[u64],
        locals: &mut Locals,
        slot: &dyn Fn(usize) -> &'b Buffer,
        pool: &Pool,
        recorded: Option<&mut Vec<Recorded>>,
    ) -> Result<(), Error> {
        let _entered = self.device.enter().map_err(|e| self.device_error(e))?;
        self.place_parameters(scalars, locals)?;
        let Locals { buffers, known: launches, .. } = locals;
        let (known, planned) = (Known::default(), vec![]);
        let mut state = State { known, scalars, buffers, slot, pool, planned, recorded };
        if let Some(launches) = launches.as_ref().filter(|l| l.hold(&self.decides, scalars)) {
            return launches.all.iter().try_for_each(|l| self.launch(l, &mut state));
        }
        for ((param, ty), bits) in self.scalars.iter().zip(scalars) {
            state.known.params.insert(param.clone(), of_bits(*ty, *bits));
        }
        *launches = None;
        self.walk(&self.root, &mut state)?;
        let all = state.planned;
        *launches = self.is_launches.then(|| Launches { scalars: scalars.to_vec(), all });
        Ok(())
    }

    /// Gives kernels the parameters that they read from memory, where these have changed.
    fn place_parameters(&self, scalars: &[u64], locals: &mut Locals) -> Result<(), Error> {
        if self.in_memory.is_empty() || locals.parameters == scalars {
            return Ok(());
        }
        for &ty in &self.in_memory {
            let spec = BufferSpec::new(ty, &[scalars.len() as i32]);
            let block = match locals.buffers.entry(parameters(ty)) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(Buffer::new(spec).map_err(|e| self.buffer_error(e))?),
            };
            for (at, &bits) in scalars.iter().enumerate().filter(|(at, _)| self.scalars[*at].1 == ty) {
                match ty {
                    ScalarType::F32 => block.set(&[at as i32], 0, f32::from_bits(bits as u32)),
                    _ => block.set(&[at as i32], 0, f64::from_bits(bits)),
                };
            }
        }
        locals.parameters = scalars.to_vec();
        Ok(())
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
                // Kernels may read the first element for nothing.
                let n = self.integer(extent, state)?.max(1);
                self.allocate(buffer, *ty, n, *zeroed, state)?;
                self.walk(body, state)
            }
            Segment::Launch { kernel, grid } => {
                let Some(planned) = self.planned(*kernel, grid, state)? else { return Ok(()) };
                self.launch(&planned, state)?;
                state.planned.push(planned);
                Ok(())
            }
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
        if !state.buffers.get(buffer).is_some_and(fits) {
            let made = Buffer::new(BufferSpec::new(ty, &[extent])).map_err(|e| self.error(e.to_string()))?;
            state.buffers.insert(buffer.clone(), made);
        }
        Ok(())
    }

    /// A launch of a kernel on so many blocks; `None` if one of the numbers is 0.
    fn planned(&self, kernel: usize, grid: &[Expr], state: &State) -> Result<Option<Planned>, Error> {
        let launch = &self.launches[kernel];
        let mut shape = Shape { grid: [1; 3], block: launch.threads };
        for (to, n) in shape.grid.iter_mut().zip(grid) {
            *to = self.integer(n, state)?.clamp(0, u32::MAX as i64) as u32;
        }
        if shape.is_empty() {
            return Ok(None);
        }
        let names = launch.arguments.iter().filter(|a| matches!(a, Source::Name(_)));
        let names = names.map(|source| self.scalar(source, state)).collect::<Result<_, _>>()?;
        Ok(Some(Planned { kernel, shape, names }))
    }

    fn launch(&self, planned: &Planned, state: &mut State) -> Result<(), Error> {
        let (launch, shape) = (&self.launches[planned.kernel], planned.shape);
        let mut names = planned.names.iter().copied();
        let mut arguments = Vec::with_capacity(launch.arguments.len());
        for source in &launch.arguments {
            let on_device = |b: &Buffer, plane, written| {
                let access = if written { Access::Write } else { Access::Read };
                b.on_device(&self.device, plane, access).map_err(|e| self.buffer_error(e))
            };
            arguments.push(match source {
                Source::Slot { slot, plane, written } => on_device((state.slot)(*slot), *plane, *written)?,
                Source::Local { buffer, written } => on_device(self.local(buffer, state)?, 0, *written)?,
                Source::Scalar(i) => state.scalars[*i],
                Source::Name(_) => names.next().expect("a value of each name"),
            });
        }
        if let Some(recorded) = &mut state.recorded {
            recorded.push(Recorded { function: launch.function.clone(), shape, arguments });
            return Ok(());
        }
        // SAFETY: the arguments are those of the kernel, in its order; buffers live at least as long as the device is at work for
        // them, since freeing them waits for its stream; regions were checked by the assertions that a walk has passed.
        let launched = || unsafe { launch.function.launch(shape, &arguments) };
        match &launch.traffic {
            None => launched().map_err(|e| self.device_error(e)),
            Some(traffic) => self.profiled(launch, traffic, launched, state),
        }
    }

    /// Launches and waits, for the time that it takes.
    fn profiled(
        &self,
        launch: &Launch,
        traffic: &Traffic,
        launched: impl FnOnce() -> Result<(), CudaError>,
        state: &State,
    ) -> Result<(), Error> {
        profile::copies(|| copy_rate(&self.device));
        let timed = || {
            let start = self.device.mark()?;
            launched()?;
            self.device.mark()?.since(&start)
        };
        let time = timed().map_err(|e| self.device_error(e))?;
        let buffers = launch.arguments.iter().filter_map(|source| match source {
            Source::Slot { slot, .. } => Some((state.slot)(*slot)),
            Source::Local { buffer, .. } => state.buffers.get(buffer),
            Source::Scalar(_) | Source::Name(_) => None,
        });
        profile::launched(&self.name, launch.function.name(), time, traffic.bytes(buffers), traffic.doubles);
        Ok(())
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
        state.buffers.get(buffer).ok_or_else(|| self.error(format!("{buffer} is not allocated")))
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
}

/// Puts back what a name meant outside.
fn restore(state: &mut State, name: &Name, outer: Option<Expr>) {
    match outer {
        Some(value) => state.known.vars.insert(name.clone(), value),
        None => state.known.vars.remove(name),
    };
}
