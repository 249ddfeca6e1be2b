//! Generated code on a device: modules of PTX, their functions, launches.

use super::device::Device;
use super::driver::{self, Handle};
use crate::error::CudaError;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUjit_option, CUresult};
use smallvec::SmallVec;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Weak};

/// Most blocks along each dimension of a grid.
const MOST_BLOCKS: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// Most threads of a block.
const MOST_THREADS: u32 = 1024;
/// Bytes of the driver's words on a module that are kept.
const LOG: usize = 16 << 10;

/// Functions that a device can run. Cheap to clone; unloaded with the last clone and the last of its functions.
#[derive(Clone, Debug)]
pub struct Module(Arc<Loaded>);

#[derive(Debug)]
pub(super) struct Loaded {
    device: Device,
    handle: Handle<sys::CUmod_st>,
    log: String,
}

impl Module {
    /// Compiles PTX for a device; what is loaded already is not compiled again.
    ///
    /// # Errors
    /// [`CudaError::Refused`] with the driver's words, or the device fails.
    pub fn load(device: &Device, ptx: &str) -> Result<Module, CudaError> {
        let key = *blake3::hash(ptx.as_bytes()).as_bytes();
        let known = |device: &Device| device.modules().get(&key).and_then(Weak::upgrade);
        if let Some(loaded) = known(device) {
            return Ok(Module(loaded));
        }
        // Unlocked: other threads may compile other modules, and of two that compile the same one wins.
        let made = Arc::new(Loaded::compile(device, ptx)?);
        if let Some(loaded) = known(device) {
            return Ok(Module(loaded));
        }
        let mut modules = device.modules();
        modules.retain(|_, loaded| loaded.strong_count() > 0);
        modules.insert(key, Arc::downgrade(&made));
        Ok(Module(made))
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The driver's remarks when it compiled the module; mostly none.
    pub fn log(&self) -> &str {
        &self.0.log
    }

    /// A function that can be launched.
    ///
    /// # Errors
    /// [`CudaError::NoKernel`], or the device fails.
    pub fn function(&self, name: &str) -> Result<Function, CudaError> {
        let unknown = || CudaError::NoKernel { name: name.to_owned() };
        let text = CString::new(name).map_err(|_| unknown())?;
        let device = &self.0.device;
        let _entered = device.enter()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name ends in a zero.
        match unsafe { sys::cuModuleGetFunction(&mut handle, self.0.handle.0, text.as_ptr()) } {
            CUresult::CUDA_ERROR_NOT_FOUND => Err(unknown()),
            code => {
                device.check("cuModuleGetFunction", code.result())?;
                Ok(Function { module: self.clone(), handle: Handle(handle), name: name.into() })
            }
        }
    }
}

impl Loaded {
    fn compile(device: &Device, ptx: &str) -> Result<Loaded, CudaError> {
        let refused = |log: String| CudaError::Refused { log };
        let text = CString::new(ptx).map_err(|_| refused("it holds a zero byte".into()))?;
        let (mut errors, mut remarks) = (vec![0u8; LOG], vec![0u8; LOG]);
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            CUjit_option::CU_JIT_INFO_LOG_BUFFER,
            CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        ];
        // Sizes are passed in the place of pointers; the driver is told of one byte less than there are.
        let size = (LOG - 1) as *mut c_void;
        let mut values = [errors.as_mut_ptr().cast(), size, remarks.as_mut_ptr().cast(), size];
        let _entered = device.enter()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the text ends in a zero; there are four options with a value each, and the buffers have the sizes that these say.
        let code = unsafe {
            sys::cuModuleLoadDataEx(
                &mut handle,
                text.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        match code.result() {
            Ok(()) => Ok(Loaded { device: device.clone(), handle: Handle(handle), log: words(&remarks) }),
            Err(error) if is_about_code(error) => {
                Err(refused(format!("{}: {}", driver::name(error), words(&errors))))
            }
            Err(error) => device.check("cuModuleLoadDataEx", Err(error)),
        }
    }
}

/// Tells whether the text is at fault, or what compiles it.
fn is_about_code(error: DriverError) -> bool {
    use CUresult::*;
    matches!(
        error.0,
        CUDA_ERROR_INVALID_PTX
            | CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | CUDA_ERROR_INVALID_IMAGE
            | CUDA_ERROR_INVALID_SOURCE
            | CUDA_ERROR_NO_BINARY_FOR_GPU
            | CUDA_ERROR_JIT_COMPILER_NOT_FOUND
            | CUDA_ERROR_JIT_COMPILATION_DISABLED
            | CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND
    )
}

/// Text up to the first zero.
fn words(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&c| c == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // Its kernels may still be on their way.
        // SAFETY: the stream lives.
        self.device.free(|| unsafe { result::stream::synchronize(self.device.stream()) });
        // SAFETY: loaded once, unloaded once.
        self.device.free(|| unsafe { result::module::unload(self.handle.0) });
    }
}

/// A function of a module.
#[derive(Clone, Debug)]
pub struct Function {
    module: Module,
    handle: Handle<sys::CUfunc_st>,
    name: Arc<str>,
}

impl PartialEq for Function {
    /// The same function of one loaded module.
    fn eq(&self, other: &Function) -> bool {
        self.handle.0 == other.handle.0
    }
}

/// The sizes of a launch: blocks along each dimension, and threads of each block, which form a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
}

impl Shape {
    /// True if there is nothing to do.
    pub fn is_empty(self) -> bool {
        self.grid.contains(&0) || self.block == 0
    }

    /// The limit that it exceeds, in words.
    fn fault(self) -> Option<String> {
        let Shape { grid, block } = self;
        let too_many = (0..3).find(|&d| grid[d] > MOST_BLOCKS[d]);
        if let Some(d) = too_many {
            return Some(format!(
                "{} blocks along dimension {d}, a device takes {}: split the loop over blocks",
                grid[d], MOST_BLOCKS[d]
            ));
        }
        let text = || format!("{block} threads in a block, a device takes {MOST_THREADS}");
        (block > MOST_THREADS).then(text)
    }
}

impl Function {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        self.module.device()
    }

    /// Its name, as a device keeps it in mind.
    pub(super) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn handle(&self) -> sys::CUfunction {
        self.handle.0
    }

    /// Checks the sizes of a launch.
    ///
    /// # Errors
    /// [`CudaError::Launch`].
    pub(super) fn check(&self, shape: Shape) -> Result<(), CudaError> {
        let error = |message| CudaError::Launch { kernel: self.name.to_string(), message };
        shape.fault().map_or(Ok(()), |message| Err(error(message)))
    }

    /// Most blocks of so many threads that its device holds at once.
    pub fn resident(&self, threads: u32) -> Result<u32, CudaError> {
        let (device, mut blocks) = (self.device(), 0);
        let _entered = device.enter()?;
        // SAFETY: the function is loaded; writes a number.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, self.handle.0, threads as i32, 0)
        };
        device.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code.result())?;
        Ok(blocks.max(0) as u32 * device.info().multiprocessors)
    }

    /// Launches it, behind everything that was asked for before, and does not wait. Nothing is launched if the shape is empty.
    ///
    /// # Errors
    /// [`CudaError::Launch`], or the device fails; failures of the kernel itself come with what waits for it.
    ///
    /// # Safety
    /// `arguments` has one value per parameter, in its low bytes. Addresses among them are those of memory of this device which lives until
    /// the kernel is done, and the kernel keeps inside of it.
    pub unsafe fn launch(&self, shape: Shape, arguments: &[u64]) -> Result<(), CudaError> {
        // SAFETY: the caller says so.
        unsafe { self.start(shape, arguments, false) }
    }

    /// As [`Function::launch`], with all blocks at once, which may wait for each other: at most [`Function::resident`] ones.
    ///
    /// # Errors
    /// As of [`Function::launch`].
    ///
    /// # Safety
    /// As of [`Function::launch`].
    pub unsafe fn launch_together(&self, shape: Shape, arguments: &[u64]) -> Result<(), CudaError> {
        // SAFETY: the caller says so.
        unsafe { self.start(shape, arguments, true) }
    }

    /// # Safety
    /// As of [`Function::launch`].
    unsafe fn start(&self, shape: Shape, arguments: &[u64], together: bool) -> Result<(), CudaError> {
        self.check(shape)?;
        if shape.is_empty() {
            return Ok(());
        }
        let device = self.device();
        let _entered = device.enter()?;
        let mut pointers = pointers(arguments);
        let ([x, y, z], threads) = (shape.grid, shape.block);
        device.count_launch(&self.name);
        let (function, stream, arguments) = (self.handle.0, device.stream(), pointers.as_mut_ptr());
        // SAFETY: the function is loaded; of the arguments the caller says so. The driver copies them before it returns.
        let (call, code) = unsafe {
            if together {
                let call = sys::cuLaunchCooperativeKernel;
                ("cuLaunchCooperativeKernel", call(function, x, y, z, threads, 1, 1, 0, stream, arguments))
            } else {
                let (call, none) = (sys::cuLaunchKernel, std::ptr::null_mut());
                ("cuLaunchKernel", call(function, x, y, z, threads, 1, 1, 0, stream, arguments, none))
            }
        };
        device.check(call, code.result())
    }
}

/// The addresses of the arguments, as the driver takes them.
pub(super) fn pointers(arguments: &[u64]) -> SmallVec<[*mut c_void; 32]> {
    arguments.iter().map(|a| std::ptr::from_ref(a).cast_mut().cast()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_launches() {
        let fault = |grid, block| Shape { grid, block }.fault();
        assert_eq!(fault([i32::MAX as u32, 65_535, 65_535], 1024), None);
        let text = "65536 blocks along dimension 2, a device takes 65535: split the loop over blocks";
        assert_eq!(fault([1, 1, 65_536], 32).as_deref(), Some(text));
        assert!(fault([1 << 31, 1, 1], 32).is_some() && fault([1, 65_536, 1], 32).is_some());
        assert_eq!(fault([1; 3], 1025).as_deref(), Some("1025 threads in a block, a device takes 1024"));
        assert!(
            Shape { grid: [4, 0, 1], block: 32 }.is_empty() && !Shape { grid: [1; 3], block: 32 }.is_empty()
        );
    }

    #[test]
    fn logs_end_at_a_zero() {
        assert_eq!(words(b"ptxas error\n\0garbage"), "ptxas error");
        assert_eq!(words(b"\0\0"), "");
    }
}
