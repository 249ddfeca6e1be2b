//! A pipeline on a GPU: the walk over its segments.
//!
//! Compilation makes an [`UnloadedDevice`], whose kernels are loaded by the device that its target names. A run evaluates the scalars of the
//! host's part, brings the buffers of each launch to the device, launches, and does not wait: values come back when somebody asks a buffer for
//! them. A host function in between has the buffers that it touches brought to the host first. Where the next run has the same sizes, what the
//! host's part came to is known ([`walk`]).

mod traffic;
mod walk;

pub(super) use walk::Locals;

use super::signature::Signature;
use crate::backend::gated;
use crate::backend::llvm::{self, Kernel, Relocatable};
use crate::error::{CudaError, Error};
use crate::expr::{Flat, Name, Param};
use crate::ir::args::Arg;
use crate::ir::segments::{self, Segment, outer_name, parameters};
use crate::ir::stmt::LoweredFunction;
use crate::limits::Limits;
use crate::lower::segments::segments as cut_at_root;
use crate::runtime::cuda::{Device, Function, Module, Shape};
use crate::runtime::{BufferError, profile};
use crate::target::Target;
use crate::types::ScalarType;
use serde::{Deserialize, Serialize};
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
    /// Types of parameters that kernels read from memory.
    in_memory: Vec<ScalarType>,
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
#[derive(Serialize, Deserialize)]
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

/// The code of a pipeline with kernels before it is loaded.
#[derive(Serialize, Deserialize)]
pub(super) struct UnloadedDevice {
    name: String,
    /// Number of the device that runs it.
    ordinal: usize,
    root: Segment,
    launches: Vec<UnloadedLaunch>,
    calls: Vec<(Relocatable, Vec<Source>)>,
    scalars: Vec<(Param, ScalarType)>,
    /// The kernels, which are kept apart from the rest.
    #[serde(skip)]
    ptx: Vec<u8>,
}

/// A kernel of the PTX, by name.
#[derive(Serialize, Deserialize)]
struct UnloadedLaunch {
    name: String,
    threads: u32,
    arguments: Vec<Source>,
    traffic: Option<Traffic>,
}

impl UnloadedDevice {
    /// Compiles a lowered function; objects of the host have these symbols.
    pub(super) fn compile(
        f: &LoweredFunction,
        signature: &Signature,
        target: &Target,
        limits: &Limits,
        symbol: &dyn Fn(&str) -> Option<String>,
    ) -> Result<UnloadedDevice, Error> {
        let cut = cut_at_root(f)?;
        let scalars: Vec<(Param, ScalarType)> = f
            .args
            .iter()
            .filter_map(|a| match a {
                Arg::Scalar { param, ty } => Some((param.clone(), *ty)),
                Arg::Buffer { .. } => None,
            })
            .collect();
        let sources =
            |of: &LoweredFunction| of.args.iter().map(|a| Source::of(a, f, signature, &scalars)).collect();
        let ptx = match cut.kernels.is_empty() {
            true => String::new(),
            false => llvm::ptx(&f.name, &cut.kernels, target, limits)?,
        };
        let launch = |k: &segments::Kernel| UnloadedLaunch {
            name: k.function.name.clone(),
            threads: k.threads,
            arguments: sources(&k.function),
            traffic: profile::enabled().then(|| Traffic::of(&k.function)),
        };
        let host = Target::host();
        let call =
            |h: &LoweredFunction| Ok((Relocatable::compile(h, symbol(&h.name), &host, limits)?, sources(h)));
        Ok(UnloadedDevice {
            name: f.name.clone(),
            ordinal: target.gpu.map_or(0, |gpu| gpu.ordinal),
            launches: cut.kernels.iter().map(launch).collect(),
            calls: cut.hosts.iter().map(call).collect::<Result<_, Error>>()?,
            root: cut.root,
            scalars,
            ptx: ptx.into_bytes(),
        })
    }

    /// PTX and objects, which its text leaves out.
    pub(super) fn pieces(&mut self) -> Vec<&mut Vec<u8>> {
        let objects = self.calls.iter_mut().flat_map(|call| call.0.pieces());
        std::iter::once(&mut self.ptx).chain(objects).collect()
    }

    /// Loads objects and kernels.
    pub(super) fn load(self) -> Result<DeviceCode, Error> {
        let UnloadedDevice { name, ordinal, root, launches: all, calls, scalars, ptx } = self;
        let failed = |error: CudaError| Error::Device { pipeline: name.clone(), error };
        let device = Device::shared(ordinal).map_err(failed)?;
        let ptx = String::from_utf8_lossy(&ptx).into_owned();
        let mut launches = vec![];
        if !all.is_empty() {
            let module = Module::load(&device, &ptx).map_err(failed)?;
            for UnloadedLaunch { name, threads, arguments, traffic } in all {
                let function = module.function(&name).map_err(failed)?;
                launches.push(Launch { function, threads, arguments, traffic });
            }
        }
        let call = |(object, arguments): (Relocatable, _)| Ok(HostCall { kernel: object.load()?, arguments });
        let calls = calls.into_iter().map(call).collect::<Result<_, Error>>()?;
        let (decides, is_launches) = (walk::deciding(&root, &scalars), walk::is_launches(&root));
        let read = |ty: &ScalarType| {
            let is = |a: &Source| matches!(a, Source::Local { buffer, .. } if *buffer == parameters(*ty));
            launches.iter().any(|l: &Launch| l.arguments.iter().any(is))
        };
        let in_memory = [ScalarType::F32, ScalarType::F64].into_iter().filter(read).collect();
        let code =
            DeviceCode { name, root, launches, calls, device, scalars, decides, in_memory, is_launches, ptx };
        Ok(code)
    }
}

impl DeviceCode {
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

    /// The PTX of its kernels, if this is one of them.
    pub(super) fn text_of(&self, kernel: &Function) -> Option<&str> {
        self.launches.iter().any(|l| l.function == *kernel).then_some(&self.ptx)
    }

    /// Its kernels, each with the same one behind a gate: that takes the address of an i32 besides, and does nothing where it is not 0.
    pub(super) fn gated(&self) -> Result<Vec<(Function, Function)>, Error> {
        let pairs = || -> Result<Vec<_>, CudaError> {
            let module = Module::load(&self.device, &gated(&self.ptx))?;
            let pair = |l: &Launch| Ok((l.function.clone(), module.function(l.function.name())?));
            self.launches.iter().map(pair).collect()
        };
        pairs().map_err(|error| self.device_error(error))
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
