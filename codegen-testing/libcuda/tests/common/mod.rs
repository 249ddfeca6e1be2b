//! A program's side of the driver: a context with a stream and the kernels of the tests.

#![allow(dead_code, reason = "each test file uses some of it")]

use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use sumsq_libcuda::Control;

pub const KERNELS: &str = include_str!("../kernels/kernels.ptx");

/// Result of a call, by its number.
pub type Code = Result<(), u32>;

pub const INVALID_VALUE: Code = Err(1);
pub const OUT_OF_MEMORY: Code = Err(2);
pub const NOT_READY: Code = Err(600);
pub const ILLEGAL_ADDRESS: Code = Err(700);
pub const LAUNCH_FAILED: Code = Err(719);

/// Calls of the driver as they are, without arguments of null or foreign pointers unless a test wants them.
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the library checks handles and device pointers; pointers of the host are of values that live.
        common::code(unsafe { cudarc::driver::sys::$name($($argument),*) })
    };
}
pub(crate) use cu;

/// Takes the library for one test: settings and counts are the process's.
pub fn alone() -> (MutexGuard<'static, ()>, Control) {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let control = sumsq_libcuda::preload().unwrap();
    control.fail_none();
    // What a test that failed has left.
    use crate::common;
    (0..2).for_each(|device| while cu!(cuDevicePrimaryCtxRelease_v2(device)).is_ok() {});
    control.set("COMPUTE_MODE", "0");
    for (name, value) in [
        ("DEVICES", "1"),
        ("CAPABILITY", "9.0"),
        ("MEMORY", "2147483648"),
        ("MULTIPROCESSORS", "132"),
        ("DRIVER_VERSION", "12080"),
    ] {
        control.set(name, value);
    }
    control.set("ORDER", "0");
    control.set("ENDLESS", "2147483648");
    control.reset_counters();
    (guard, control)
}

pub fn code(result: CUresult) -> Code {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        other => Err(other as u32),
    }
}

/// A context that is current, a stream that does not wait for the default one, and a loaded module.
pub struct Program {
    pub context: sys::CUcontext,
    pub stream: sys::CUstream,
    pub module: sys::CUmodule,
}

impl Program {
    pub fn start() -> Result<Program, u32> {
        let mut p = Program { context: null_mut(), stream: null_mut(), module: null_mut() };
        match p.open() {
            Ok(()) => Ok(p),
            Err(code) => {
                p.end();
                Err(code)
            }
        }
    }

    fn open(&mut self) -> Code {
        use crate::common;
        cu!(cuInit(0))?;
        cu!(cuDevicePrimaryCtxRetain(&mut self.context, 0))?;
        cu!(cuCtxSetCurrent(self.context))?;
        cu!(cuStreamCreate(&mut self.stream, 1))?;
        let text = CString::new(KERNELS).unwrap();
        cu!(cuModuleLoadData(&mut self.module, text.as_ptr().cast()))
    }

    pub fn function(&self, name: &str) -> Result<sys::CUfunction, u32> {
        use crate::common;
        let (mut function, name) = (null_mut(), CString::new(name).unwrap());
        cu!(cuModuleGetFunction(&mut function, self.module, name.as_ptr()))?;
        Ok(function)
    }

    pub fn alloc(&self, bytes: usize) -> Result<u64, u32> {
        use crate::common;
        let mut address = 0;
        cu!(cuMemAlloc_v2(&mut address, bytes))?;
        Ok(address)
    }

    pub fn upload(&self, values: &[u32]) -> Result<u64, u32> {
        use crate::common;
        let address = self.alloc(4 * values.len())?;
        match cu!(cuMemcpyHtoD_v2(address, values.as_ptr().cast(), 4 * values.len())) {
            Ok(()) => Ok(address),
            Err(code) => {
                let _ = cu!(cuMemFree_v2(address));
                Err(code)
            }
        }
    }

    pub fn download(&self, address: u64) -> Result<u32, u32> {
        use crate::common;
        let mut value = 0u32;
        cu!(cuMemcpyDtoH_v2((&raw mut value).cast(), address, 4))?;
        Ok(value)
    }

    /// Launches one block of a kernel.
    pub fn launch(&self, name: &str, stream: sys::CUstream, threads: u32, args: &mut [u64]) -> Code {
        use crate::common;
        let function = self.function(name)?;
        let mut pointers: Vec<*mut c_void> = args.iter_mut().map(|a| (&raw mut *a).cast()).collect();
        cu!(cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, pointers.as_mut_ptr(), null_mut()))
    }

    /// Lets go of the context, and of what a broken one did not take back.
    pub fn end(self) {
        use crate::common;
        if !self.module.is_null() {
            let _ = cu!(cuModuleUnload(self.module));
        }
        if !self.stream.is_null() {
            let _ = cu!(cuStreamDestroy_v2(self.stream));
        }
        if !self.context.is_null() {
            let _ = cu!(cuDevicePrimaryCtxRelease_v2(0));
        }
        let _ = cu!(cuCtxSetCurrent(null_mut()));
    }
}

/// Parameters of a kernel node of one thread.
pub fn kernel_node(function: sys::CUfunction, pointers: &mut [*mut c_void]) -> sys::CUDA_KERNEL_NODE_PARAMS {
    sys::CUDA_KERNEL_NODE_PARAMS {
        func: function,
        gridDimX: 1,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: 1,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: 0,
        kernelParams: pointers.as_mut_ptr(),
        extra: null_mut(),
        kern: null_mut(),
        ctx: null_mut(),
    }
}

/// Adds a kernel of one thread to a graph.
pub fn add_kernel(
    graph: sys::CUgraph,
    after: &[sys::CUgraphNode],
    function: sys::CUfunction,
    args: &mut [u64],
) -> Result<sys::CUgraphNode, u32> {
    use crate::common;
    let mut pointers: Vec<*mut c_void> = args.iter_mut().map(|a| (&raw mut *a).cast()).collect();
    let (params, mut node) = (kernel_node(function, &mut pointers), null_mut());
    let first = if after.is_empty() { null() } else { after.as_ptr() };
    cu!(cuGraphAddKernelNode_v2(&mut node, graph, first, after.len(), &params))?;
    Ok(node)
}

/// Adds a while node and returns it with its body.
pub fn add_while(
    graph: sys::CUgraph,
    after: &[sys::CUgraphNode],
    condition: u64,
    context: sys::CUcontext,
) -> Result<(sys::CUgraphNode, sys::CUgraph), u32> {
    use crate::common;
    // SAFETY: numbers and null pointers are valid everywhere in it.
    let mut params: sys::CUgraphNodeParams = unsafe { std::mem::zeroed() };
    params.type_ = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.__bindgen_anon_1.conditional = sys::CUDA_CONDITIONAL_NODE_PARAMS {
        handle: condition,
        type_: sys::CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE,
        size: 1,
        phGraph_out: null_mut(),
        ctx: context,
    };
    let mut node = null_mut();
    let first = if after.is_empty() { null() } else { after.as_ptr() };
    cu!(cuGraphAddNode_v2(&mut node, graph, first, null(), after.len(), &mut params))?;
    // SAFETY: the driver has put a list of one graph there.
    Ok((node, unsafe { *params.__bindgen_anon_1.conditional.phGraph_out }))
}
