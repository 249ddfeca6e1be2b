//! Modules, functions and launches.

use super::exports;
use crate::driver::Driver;
use crate::objects::*;
use crate::raw::{In, Out};
use crate::status::*;
use cudarc::driver::sys::CUlaunchConfig;
use std::ffi::{c_char, c_int, c_uint};
use std::sync::Arc;
use sumsq_ptx::{Fault, Geometry, Kernel, Module};

/// `CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES`, `CU_JIT_ERROR_LOG_BUFFER` and its size.
const INFO_LOG_BYTES: c_uint = 4;
const ERROR_LOG: c_uint = 5;
const ERROR_LOG_BYTES: c_uint = 6;

/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`.
const COOPERATIVE: u32 = 2;

exports! {
    fn cuModuleLoadData(driver, module: Out<Handle>, image: In<c_char>) {
        let handle = driver.load(image, |_| {})?;
        module.put(handle)
    }

    fn cuModuleLoadDataEx(
        driver,
        module: Out<Handle>,
        image: In<c_char>,
        count: c_uint,
        options: In<c_uint>,
        values: In<usize>,
    ) {
        let options = options.all(count as usize)?;
        let given = values.all(count as usize)?;
        let option = |wanted| options.iter().position(|o| *o == wanted).map_or(0, |k| given[k]);
        let room = option(ERROR_LOG_BYTES) as c_uint as usize;
        let log = option(ERROR_LOG);
        let handle = driver.load(image, |text| {
            crate::raw::out_at::<c_char>(log).put_text(text, room);
        })?;
        // What was written of the log for information: nothing.
        if let Some(k) = options.iter().position(|o| *o == INFO_LOG_BYTES) {
            crate::raw::out_at::<usize>(values.address() + k * size_of::<usize>()).put(0)?;
        }
        module.put(handle)
    }

    fn cuModuleUnload(driver, module: Handle) {
        let context = driver.modules.get(module)?.context;
        let outcome = driver.current().and_then(|_| driver.drain_context(context));
        driver.unload(module)?;
        outcome
    }

    fn cuModuleGetFunction(driver, function: Out<Handle>, module: Handle, name: In<c_char>) {
        driver.current()?;
        let name = name.text()?;
        let loaded = driver.modules.get(module)?;
        let kernel = loaded.module.kernel(&name).ok_or(NOT_FOUND)?;
        if let Some((_, handle)) = loaded.functions.iter().find(|f| f.0 == kernel) {
            return function.put(*handle);
        }
        let handle = driver.handle();
        driver.modules.get_mut(module)?.functions.push((kernel, handle));
        driver.functions.insert(handle, Function { module, kernel });
        function.put(handle)
    }

    fn cuModuleGetGlobal_v2(driver, address: Out<u64>, bytes: Out<usize>, module: Handle, name: In<c_char>) {
        driver.current()?;
        let found = driver.modules.get(module)?.module.variable(&name.text()?).ok_or(NOT_FOUND)?;
        address.offer(found.0);
        bytes.offer(found.1 as usize);
        Ok(())
    }

    fn cuFuncGetAttribute(driver, value: Out<c_int>, attribute: c_uint, function: Handle) {
        driver.current()?;
        let (module, kernel) = driver.kernel_of(function)?;
        let k = &module.kernels()[kernel];
        let (major, minor) = driver.settings.capability;
        value.put(match attribute {
            0 => k.reqntid.map_or(k.most_threads, |n| n.iter().product()) as c_int,
            1 => k.shared as c_int,
            2 | 7 | 8 => 0,
            3 => k.local as c_int,
            4 => 32,
            5 => (module.target()) as c_int,
            6 => 10 * major + minor,
            9 => -1,
            _ => return Err(INVALID_VALUE),
        })
    }

    fn cuFuncSetAttribute(driver, function: Handle, attribute: c_uint, value: c_int) {
        driver.current()?;
        driver.kernel_of(function)?;
        match attribute {
            8 if value == 0 => Ok(()),
            9 => Ok(()),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuFuncSetCacheConfig(driver, function: Handle, _config: c_uint) {
        driver.current()?;
        driver.kernel_of(function).map(drop)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        driver,
        blocks: Out<c_int>,
        function: Handle,
        threads: c_int,
        dynamic_shared: usize,
    ) {
        let most = driver.occupancy(function, threads, dynamic_shared)?;
        blocks.put(most)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        driver,
        blocks: Out<c_int>,
        function: Handle,
        threads: c_int,
        dynamic_shared: usize,
        _flags: c_uint,
    ) {
        let most = driver.occupancy(function, threads, dynamic_shared)?;
        blocks.put(most)
    }

    fn cuLaunchKernel(
        driver,
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: Handle,
        params: In<In<u8>>,
        extra: In<u8>,
    ) {
        let stream = driver.stream(stream)?;
        let geometry = Geometry { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z] };
        let work = driver.kernel_work(function, geometry, shared, (params, extra), false)?;
        driver.enqueue(stream, Work::Kernel(work))
    }

    fn cuLaunchCooperativeKernel(
        driver,
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: Handle,
        params: In<In<u8>>,
    ) {
        let stream = driver.stream(stream)?;
        let geometry = Geometry { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z] };
        let none = In::of(std::ptr::null());
        let work = driver.kernel_work(function, geometry, shared, (params, none), true)?;
        driver.enqueue(stream, Work::Kernel(work))
    }

    fn cuLaunchKernelEx(
        driver,
        config: In<CUlaunchConfig>,
        function: Handle,
        params: In<In<u8>>,
        extra: In<u8>,
    ) {
        let c = config.get()?;
        let stream = driver.stream(c.hStream as usize)?;
        let attributes = In::of(c.attrs).all(c.numAttrs as usize)?;
        // Other attributes ask for what is not imitated.
        if attributes.iter().any(|a| a.id as u32 != COOPERATIVE) {
            return Err(NOT_SUPPORTED);
        }
        let grid = [c.gridDimX, c.gridDimY, c.gridDimZ];
        let geometry = Geometry { grid, block: [c.blockDimX, c.blockDimY, c.blockDimZ] };
        let cooperative = !attributes.is_empty();
        let work = driver.kernel_work(function, geometry, c.sharedMemBytes, (params, extra), cooperative)?;
        driver.enqueue(stream, Work::Kernel(work))
    }
}

impl Driver {
    /// Loads a text; where it is refused the sentence goes to `log` and to standard error.
    fn load(&mut self, image: In<c_char>, log: impl FnOnce(&str)) -> Result<Handle, Status> {
        let context = self.current()?;
        let mut text = image.text()?;
        if let Some((from, to)) = &self.settings.edit {
            text = text.replace(from, to);
        }
        if !text.trim_start().starts_with("//") && !text.contains(".version") {
            return Err(INVALID_IMAGE);
        }
        match Module::load(&text, self.memory(context)?) {
            Ok(module) => self.accept(context, module, log),
            Err(e) => {
                log(&format!("ptxas application ptx input, {e}"));
                crate::driver::complain(&format!("a module is refused: {e}"));
                let out_of_memory = e.refusal == sumsq_ptx::Refusal::Memory;
                Err(if out_of_memory { OUT_OF_MEMORY } else { INVALID_PTX })
            }
        }
    }

    fn accept(&mut self, context: Handle, module: Module, log: impl FnOnce(&str)) -> Result<Handle, Status> {
        let (major, minor) = self.settings.capability;
        let device = (10 * major + minor) as u32;
        let newest = newest_ptx(self.settings.driver_version);
        let refusal = if module.version() > newest {
            let ((a, b), (c, d)) = (module.version(), newest);
            Some((
                UNSUPPORTED_PTX_VERSION,
                format!("Unsupported .version {a}.{b}; current version is '{c}.{d}'"),
            ))
        } else if module.target() > device {
            let target = module.target();
            Some((NO_BINARY_FOR_GPU, format!("target sm_{target} needs a newer device than sm_{device}")))
        } else {
            None
        };
        if let Some((code, sentence)) = refusal {
            log(&sentence);
            module.free_variables(self.memory(context)?);
            return Err(code);
        }
        let handle = self.handle();
        self.modules.insert(handle, LoadedModule { context, module: Arc::new(module), functions: vec![] });
        Ok(handle)
    }

    /// The module of a function and the kernel's place in it; the function must be one of the thread's context.
    fn kernel_of(&self, function: Handle) -> Result<(Arc<Module>, usize), Status> {
        let f = self.functions.get(function)?;
        let loaded = self.modules.get(f.module)?;
        if loaded.context != self.current()? {
            return Err(INVALID_HANDLE);
        }
        Ok((loaded.module.clone(), f.kernel))
    }

    /// A launch with copies of its arguments.
    pub fn kernel_work(
        &self,
        function: Handle,
        geometry: Geometry,
        shared: c_uint,
        (params, extra): (In<In<u8>>, In<u8>),
        cooperative: bool,
    ) -> Result<KernelWork, Status> {
        let (module, kernel) = self.kernel_of(function)?;
        if extra.address() != 0 {
            return Err(NOT_SUPPORTED);
        }
        let params = arguments(&module.kernels()[kernel], params)?;
        let work =
            KernelWork { module, kernel, geometry, dynamic_shared: shared as usize, params, cooperative };
        self.validate(&work)?;
        Ok(work)
    }

    fn validate(&self, work: &KernelWork) -> Done {
        crate::streams::launch_of(&self.settings, work).validate().map_err(|e| {
            crate::driver::complain(&e.to_string());
            if matches!(e.fault, Fault::Threads(_)) { LAUNCH_OUT_OF_RESOURCES } else { INVALID_VALUE }
        })?;
        if !work.cooperative {
            return Ok(());
        }
        let kernel = &work.module.kernels()[work.kernel];
        let threads = work.geometry.block.iter().product::<u32>() as c_int;
        let at_once = i64::from(resident(kernel, threads, work.dynamic_shared))
            * i64::from(self.settings.multiprocessors);
        let blocks: i64 = work.geometry.grid.iter().map(|n| i64::from(*n)).product();
        if blocks > at_once { Err(COOPERATIVE_LAUNCH_TOO_LARGE) } else { Ok(()) }
    }

    fn occupancy(&self, function: Handle, threads: c_int, dynamic_shared: usize) -> Result<c_int, Status> {
        let (module, kernel) = self.kernel_of(function)?;
        if threads <= 0 {
            return Err(INVALID_VALUE);
        }
        Ok(resident(&module.kernels()[kernel], threads, dynamic_shared))
    }
}

/// Blocks that a multiprocessor holds at once, by threads and shared memory; registers are taken to be 32 a thread.
fn resident(kernel: &Kernel, threads: c_int, dynamic_shared: usize) -> c_int {
    let threads = (threads + 31) / 32 * 32;
    let shared = kernel.shared + dynamic_shared + 1024;
    (2048 / threads).min((233_472 / shared) as c_int).min(32)
}

/// Bytes of the arguments, each behind a pointer.
fn arguments(kernel: &Kernel, params: In<In<u8>>) -> Result<Vec<u8>, Status> {
    let mut block = vec![0; kernel.params_bytes()];
    for (k, (at, bytes)) in kernel.params.iter().enumerate() {
        block[*at..at + bytes].copy_from_slice(&params.at(k)?.all(*bytes)?);
    }
    Ok(block)
}

/// The newest PTX that a driver takes.
fn newest_ptx(driver: i32) -> (u32, u32) {
    let (major, minor) = ((driver / 1000) as u32, (driver % 1000 / 10) as u32);
    match major {
        ..=10 => (6, 3 + minor),
        11 => (7, minor),
        // CUDA 12.7 was never published; 12.8 came with PTX 8.7.
        12 => (8, if minor >= 8 { minor - 1 } else { minor }),
        _ => (major - 4, minor),
    }
}
