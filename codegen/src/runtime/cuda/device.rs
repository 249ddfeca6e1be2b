//! Devices: what each is, and one that is opened.

use super::driver::{self, Handle};
use super::module::Loaded;
use crate::error::{CudaError, Unavailable, Version};
use crate::target::{Gpu, Target};
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUcomputemode, CUdevice, CUdevice_attribute, CUresult};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// A device of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Its number, from 0 on.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Its compute capability without the point: 90 is 9.0.
    pub sm: u32,
    /// Its memory in bytes.
    pub memory: u64,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// The version of CUDA that the driver supports.
    pub driver: Version,
}

impl DeviceInfo {
    /// The machine that code for this device is made for.
    pub fn target(&self) -> Target {
        Target::cuda(self.sm).on(self.ordinal)
    }

    /// The reason why it cannot be used, if there is one that shows before it is opened.
    pub fn obstacle(&self) -> Option<Unavailable> {
        let &DeviceInfo { ordinal, ref name, sm: found, .. } = self;
        let old = || Unavailable::OldDevice { ordinal, name: name.clone(), found, least: Gpu::LEAST };
        (found < Gpu::LEAST).then(old)
    }

    fn of(ordinal: usize, driver: Version) -> Result<(DeviceInfo, CUdevice), CudaError> {
        let read = || {
            let device = result::device::get(ordinal as i32)?;
            // SAFETY: the device is the driver's.
            let attribute = |a| unsafe { result::device::get_attribute(device, a) }.map(i32::unsigned_abs);
            let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
            let minor = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
            let info = DeviceInfo {
                ordinal,
                name: name_of(device)?,
                sm: 10 * major + minor,
                // SAFETY: as above.
                memory: unsafe { result::device::total_mem(device) }? as u64,
                multiprocessors: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
                driver,
            };
            Ok((info, device))
        };
        read().map_err(driver::not_started)
    }
}

/// The name of a device, as much of it as fits.
fn name_of(device: CUdevice) -> Result<String, DriverError> {
    let mut name = [0u8; 128];
    // SAFETY: the driver writes within the given length.
    unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32 - 1, device) }.result()?;
    let end = name.iter().position(|&c| c == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// All devices of this machine, those too that are too old: at least one.
///
/// # Errors
/// [`Unavailable`]: no driver, one that is too old or does not start, or no device.
pub fn devices() -> Result<Vec<DeviceInfo>, CudaError> {
    let driver = driver::start()?;
    (0..count()?).map(|ordinal| DeviceInfo::of(ordinal, driver).map(|(info, _)| info)).collect()
}

/// The number of devices, at least 1.
fn count() -> Result<usize, CudaError> {
    match result::device::get_count() {
        Ok(n @ 1..) => Ok(n as usize),
        Ok(_) => Err(Unavailable::NoDevice.into()),
        Err(error) => Err(driver::not_started(error)),
    }
}

/// An opened device with a stream of its own, on which everything happens in order. Cheap to clone; closed with the last clone
/// and the last of what lies on it. It may be used on all threads.
#[derive(Clone, Debug)]
pub struct Device(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    info: DeviceInfo,
    /// Differs from that of any other opened device.
    id: u64,
    device: CUdevice,
    /// The context that all libraries of the process share.
    context: Handle<sys::CUctx_st>,
    stream: Handle<sys::CUstream_st>,
    counters: Counters,
    /// The kernel that was launched last.
    last: Mutex<Arc<str>>,
    /// The failure that ended its use.
    fault: OnceLock<CudaError>,
    modules: Mutex<FxHashMap<[u8; 32], Weak<Loaded>>>,
    /// Most iterations of a loop between two looks of the host.
    turns: AtomicUsize,
    /// Does it do without loops in graphs?
    in_chunks: AtomicBool,
    /// Are loops one kernel?
    together: AtomicBool,
    /// Bytes that are on their way to it, or were when somebody waited last.
    sent: Mutex<Vec<Vec<u8>>>,
}

/// Most copies to a device that nobody has waited for.
const SENT: usize = 256;

/// Numbers of events so far.
#[derive(Default, Debug)]
struct Counters {
    to_device: AtomicU64,
    to_host: AtomicU64,
    launches: AtomicU64,
    graphs: AtomicU64,
    waits: AtomicU64,
}

/// Events on a device since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Bytes that were copied to it.
    pub to_device: u64,
    /// Bytes that were copied from it.
    pub to_host: u64,
    /// Kernels and graphs that were launched.
    pub launches: u64,
    /// Graphs that were made.
    pub graphs: u64,
    /// Times that the host waited for it.
    pub waits: u64,
}

/// Bytes of a device's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeMemory {
    /// Those that nobody uses.
    pub free: u64,
    /// All of them.
    pub total: u64,
}

/// The context of a device, current on this thread as long as this lives; behind it the one that was current before.
pub struct Entered {
    /// The one before, where it was another, or none.
    before: Option<sys::CUcontext>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: it was current on this thread, so whoever made it so keeps it; null is none.
            let _ = unsafe { result::ctx::set_current(before) };
        }
    }
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Unavailable`], also where another process has the device to itself; [`CudaError::NoSuchDevice`].
    pub fn open(ordinal: usize) -> Result<Device, CudaError> {
        let driver = driver::start()?;
        let there = count()?;
        if ordinal >= there {
            return Err(CudaError::NoSuchDevice { asked: ordinal, last: there - 1 });
        }
        let (info, device) = DeviceInfo::of(ordinal, driver)?;
        if let Some(obstacle) = info.obstacle() {
            return Err(obstacle.into());
        }
        // SAFETY: the device is the driver's.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(|e| closed(e, &info, device))?;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut opened = Opened {
            info,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            device,
            context: Handle(context),
            stream: Handle(std::ptr::null_mut()),
            counters: Counters::default(),
            last: Mutex::new("none".into()),
            fault: OnceLock::new(),
            modules: Mutex::default(),
            turns: AtomicUsize::new(usize::MAX),
            in_chunks: AtomicBool::new(false),
            together: AtomicBool::new(false),
            sent: Mutex::default(),
        };
        let entered = opened.enter()?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
        drop(entered);
        opened.stream = Handle(stream.map_err(|e| opened.failure("cuStreamCreate", e))?);
        Ok(Device(Arc::new(opened)))
    }

    /// The device that compiled pipelines run on: opened by the first that asks for it, and closed with the last. Where it has failed,
    /// another one is opened.
    ///
    /// # Errors
    /// As [`Device::open`].
    pub fn shared(ordinal: usize) -> Result<Device, CudaError> {
        static OPEN: Mutex<BTreeMap<usize, Weak<Opened>>> = Mutex::new(BTreeMap::new());
        let mut open = lock(&OPEN);
        let there = open.get(&ordinal).and_then(Weak::upgrade);
        if let Some(device) = there.filter(|device| device.fault.get().is_none()) {
            return Ok(Device(device));
        }
        let device = Device::open(ordinal)?;
        open.insert(ordinal, Arc::downgrade(&device.0));
        Ok(device)
    }

    /// Its description.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// A number that no other opened device has.
    pub(super) fn number(&self) -> u64 {
        self.0.id
    }

    /// Its memory now.
    pub fn memory(&self) -> Result<FreeMemory, CudaError> {
        let _entered = self.enter()?;
        let (free, total) = self.check("cuMemGetInfo", result::mem_get_info())?;
        Ok(FreeMemory { free: free as u64, total: total as u64 })
    }

    /// Numbers of what happened so far.
    pub fn counts(&self) -> Counts {
        let Counters { to_device, to_host, launches, graphs, waits } = &self.0.counters;
        let [to_device, to_host, launches, graphs, waits] =
            [to_device, to_host, launches, graphs, waits].map(|n| n.load(Ordering::Relaxed));
        Counts { to_device, to_host, launches, graphs, waits }
    }

    /// Most iterations that a program's loop makes on the device before the host looks at it, but for measurements as many as time allows. With 0
    /// the host runs the loops of programs that are made from then on.
    pub fn loop_turns(&self) -> usize {
        self.0.turns.load(Ordering::Relaxed)
    }

    /// True if loops are run in chunks: on drivers whose graphs hold none, and where that is wanted for measurements.
    pub fn loops_in_chunks(&self) -> bool {
        !self.has_loops() || self.0.in_chunks.load(Ordering::Relaxed)
    }

    /// Wants loops in chunks, of programs that are made from then on, or as the driver allows.
    #[doc(hidden)]
    pub fn set_loops_in_chunks(&self, wanted: bool) {
        self.0.in_chunks.store(wanted, Ordering::Relaxed);
    }

    /// True if a loop is one kernel, whose blocks wait for each other, where it can be: where that is wanted for measurements.
    pub fn loops_together(&self) -> bool {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH;
        // SAFETY: the device is the driver's.
        let can = || unsafe { result::device::get_attribute(self.0.device, attribute) };
        self.0.together.load(Ordering::Relaxed) && can().is_ok_and(|can| can != 0)
    }

    /// Wants loops as one kernel, of programs that are made from then on, or not.
    #[doc(hidden)]
    pub fn set_loops_together(&self, wanted: bool) {
        self.0.together.store(wanted, Ordering::Relaxed);
    }

    /// Sets [`Device::loop_turns`].
    #[doc(hidden)]
    pub fn set_loop_turns(&self, turns: usize) {
        self.0.turns.store(turns, Ordering::Relaxed);
    }

    /// Waits until everything is done that was asked for so far.
    ///
    /// # Errors
    /// The failures of all that.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        let _entered = self.enter()?;
        self.wait()
    }

    /// As [`Device::synchronize`], of a device that is entered.
    pub(super) fn wait(&self) -> Result<(), CudaError> {
        self.count_wait();
        // Behind the wait these have arrived.
        let _sent = std::mem::take(&mut *lock(&self.0.sent));
        // SAFETY: the stream lives.
        self.check("cuStreamSynchronize", unsafe { result::stream::synchronize(self.stream()) })
    }

    /// Starts a copy of a few bytes to the device, from memory that lives until somebody has waited, as is done here where many are on their
    /// way.
    pub(super) fn send(
        &self,
        bytes: &[u8],
        start: impl FnOnce(&[u8]) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let kept = bytes.to_vec();
        let started = start(&kept);
        self.count_copy(true, bytes.len());
        let mut sent = lock(&self.0.sent);
        sent.push(kept);
        let many = sent.len() >= SENT;
        drop(sent);
        started?;
        if many { self.wait() } else { Ok(()) }
    }

    /// Makes its context the current one of this thread, as all calls do by themselves: of many in a row each costs less then.
    ///
    /// # Errors
    /// The device has failed before.
    pub fn enter(&self) -> Result<Entered, CudaError> {
        self.0.enter()
    }

    /// Frees something, also where the device has failed.
    pub(super) fn free(&self, call: impl Fn() -> Result<(), DriverError>) {
        self.0.free(call);
    }

    /// Gives a result its words, and keeps in mind that the device has failed, if so: it answers every call by that from then on.
    pub(super) fn check<T>(
        &self,
        call: &'static str,
        result: Result<T, DriverError>,
    ) -> Result<T, CudaError> {
        result.map_err(|error| self.0.failure(call, error))
    }

    pub(super) fn stream(&self) -> sys::CUstream {
        self.0.stream.0
    }

    pub(super) fn context(&self) -> sys::CUcontext {
        self.0.context.0
    }

    pub(super) fn count_copy(&self, to_device: bool, bytes: usize) {
        let counters = &self.0.counters;
        let of = if to_device { &counters.to_device } else { &counters.to_host };
        of.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_wait(&self) {
        self.0.counters.waits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_graph(&self) {
        self.0.counters.graphs.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_launch(&self, kernel: &Arc<str>) {
        self.0.counters.launches.fetch_add(1, Ordering::Relaxed);
        *lock(&self.0.last) = kernel.clone();
    }

    /// The modules that are loaded, by their text's hash.
    pub(super) fn modules(&self) -> MutexGuard<'_, FxHashMap<[u8; 32], Weak<Loaded>>> {
        lock(&self.0.modules)
    }
}

impl Opened {
    fn enter(&self) -> Result<Entered, CudaError> {
        match self.fault.get() {
            Some(fault) => Err(fault.clone()),
            None => self.make_current().map_err(|error| self.failure("cuCtxSetCurrent", error)),
        }
    }

    /// Frees something. A call that does may report the failure of earlier work instead: it is made again.
    fn free(&self, call: impl Fn() -> Result<(), DriverError>) {
        let _entered = self.make_current().or_else(|_| self.make_current());
        let _ = call().or_else(|_| call());
    }

    fn make_current(&self) -> Result<Entered, DriverError> {
        let before = result::ctx::get_current()?.unwrap_or(std::ptr::null_mut());
        if before == self.context.0 {
            return Ok(Entered { before: None });
        }
        // SAFETY: the context is retained.
        unsafe { result::ctx::set_current(self.context.0) }?;
        Ok(Entered { before: Some(before) })
    }

    /// The failure in words. Whatever has failed, what it should have done is not done: nothing may be built on it.
    fn failure(&self, call: &'static str, error: DriverError) -> CudaError {
        let words = || match driver::fault(error) {
            Some(fault) => CudaError::Fault { fault, kernel: lock(&self.last).to_string() },
            None => CudaError::Call { call, code: driver::name(error) },
        };
        self.fault.get_or_init(words).clone()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if !self.stream.0.is_null() {
            // SAFETY: created when the device was opened; nothing lies on the device any more.
            self.free(|| unsafe { result::stream::destroy(self.stream.0) });
        }
        // SAFETY: retained when the device was opened; nobody uses it afterwards.
        let release = || unsafe { result::primary_ctx::release(self.device) };
        let _ = release().or_else(|_| release());
    }
}

/// The reason why a device does not open.
fn closed(error: DriverError, info: &DeviceInfo, device: CUdevice) -> CudaError {
    let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE;
    // SAFETY: the device is the driver's.
    let mode = unsafe { result::device::get_attribute(device, attribute) }.unwrap_or_default();
    let (ordinal, name) = (info.ordinal, info.name.clone());
    if mode == CUcomputemode::CU_COMPUTEMODE_PROHIBITED as i32 {
        return Unavailable::Closed { ordinal, name }.into();
    }
    match error.0 {
        CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => Unavailable::Taken { ordinal, name }.into(),
        _ => driver::not_started(error),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
