//! A pipeline on a GPU: the walk over its segments.
//!
//! Kernels are loaded when the pipeline is compiled, by the device that its target names. A run evaluates the scalars of the host's part, brings
//! the buffers of each launch to the device, launches, and does not wait: values come back when somebody asks a buffer for them. A host
//! function in between has the buffers that it touches brought to the host first. Where the next run has the same sizes, what the host's part came
//! to is known ([`walk`]).

mod traffic;
mod walk;

pub(super) use walk::Locals;

use super::bind::Plan;
use super::signature::Signature;
use crate::backend::llvm::{self, Kernel};
use crate::error::{CudaError, Error};
use crate::expr::{Flat, Name, Param};
use crate::ir::args::Arg;
use crate::ir::segments::{Segment, outer_name};
use crate::ir::stmt::LoweredFunction;
use crate::limits::Limits;
use crate::lower::segments::segments;
use crate::runtime::cuda::{Device, Function, Module, Shape};
use crate::runtime::{BufferError, profile};
use crate::target::Target;
use crate::types::ScalarType;
use traffic::Traffic;

/// The code of a pipeline with kernels.
pub(super) struct DeviceCode {
    name: String,
    root: Segment,
    launches: Vec<Launch>,
    calls: Vec<HostCall>,
    device: Device,
    /// Parameters of the whole, in the order of the scalar arguments.
    scalars: Vec<(Param, ScalarType)>,
    /// Does the host's part depend on these parameters?
    decides: Vec<bool>,
    /// Is all that it comes to launches?
    is_launches: bool,
    ptx: String,
}

/// A kernel, loaded, with the sources of its arguments.
struct Launch {
    function: Function,
    threads: u32,
    arguments: Vec<Source>,
    /// Of a kernel that is profiled.
    traffic: Option<Traffic>,
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
                let traffic = profile::enabled().then(|| Traffic::of(&k.function));
                let (threads, arguments) = (k.threads, sources(&k.function));
                launches.push(Launch { function, threads, arguments, traffic });
            }
        }
        let host = Target::host();
        let compiled = |h: &LoweredFunction| {
            Ok(HostCall { kernel: Kernel::compile(h, &host, limits)?, arguments: sources(h) })
        };
        let calls = cut.hosts.iter().map(compiled).collect::<Result<_, Error>>()?;
        let decides = walk::deciding(&cut.root, &scalars);
        let is_launches = walk::is_launches(&cut.root);
        let (name, root) = (f.name.clone(), cut.root);
        Ok(DeviceCode { name, root, launches, calls, device, scalars, decides, is_launches, ptx })
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
        self.is_launches.then_some(&self.device)
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
