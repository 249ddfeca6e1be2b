//! The remaining calls, each once with what it should do.

mod common;

use common::{INVALID_VALUE, Program, add_kernel, alone, cu};
use cudarc::driver::sys::{
    CUdevice_attribute, CUfunction_attribute, CUgraphExecUpdateResultInfo, CUpointer_attribute,
};
use std::ffi::c_void;
use std::ptr::null_mut;

#[test]
fn memory_in_the_order_of_a_stream() {
    let (_alone, control) = alone();
    let p = Program::start().unwrap();
    let mut x = 0;
    cu!(cuMemAllocAsync(&mut x, 64, p.stream)).unwrap();
    p.launch("store", p.stream, 1, &mut [x, 5]).unwrap();
    cu!(cuMemFreeAsync(x, p.stream)).unwrap();
    // It is there until the stream comes to where it was freed.
    assert_eq!(control.counters().allocations, 1);
    cu!(cuStreamSynchronize(p.stream)).unwrap();
    assert_eq!((control.counters().allocations, p.download(x)), (0, Err(1)));
    // A kernel behind the free strays.
    cu!(cuMemAllocAsync(&mut x, 64, p.stream)).unwrap();
    cu!(cuMemFreeAsync(x, p.stream)).unwrap();
    p.launch("store", p.stream, 1, &mut [x, 5]).unwrap();
    assert_eq!(cu!(cuStreamSynchronize(p.stream)), common::ILLEGAL_ADDRESS);
    p.end();
}

#[test]
fn fills_and_copies_keep_what_was_not_written() {
    let (_alone, _control) = alone();
    let p = Program::start().unwrap();
    let (x, y) = (p.alloc(256).unwrap(), p.upload(&[1; 64]).unwrap());
    cu!(cuMemsetD8_v2(x, 0x11, 4)).unwrap();
    cu!(cuMemsetD32_v2(x + 4, 7, 2)).unwrap();
    assert_eq!(cu!(cuMemsetD32_v2(x + 2, 7, 1)), INVALID_VALUE);
    assert_eq!((p.download(x), p.download(x + 8)), (Ok(0x1111_1111), Ok(7)));
    // Poison where nobody wrote; a kernel that reads a copy of it fails.
    assert_eq!(p.download(x + 12), Ok(u32::MAX));
    cu!(cuMemcpyDtoD_v2(y, x, 256)).unwrap();
    p.launch("axpy", null_mut(), 64, &mut [y, y, 3, 0]).unwrap();
    assert_eq!(
        cu!(cuCtxSynchronize()),
        common::LAUNCH_FAILED,
        "x and y are one, which the kernel's promises exclude"
    );
    p.end();
    let p = Program::start().unwrap();
    let (x, y, z) = (p.alloc(256).unwrap(), p.upload(&[0; 64]).unwrap(), p.alloc(256).unwrap());
    cu!(cuMemsetD32_v2(x, 0, 3)).unwrap();
    cu!(cuMemcpyDtoD_v2(z, x, 256)).unwrap();
    p.launch("axpy", null_mut(), 64, &mut [z, y, 3, 0]).unwrap();
    assert_eq!(cu!(cuCtxSynchronize()), Ok(()));
    p.launch("axpy", null_mut(), 64, &mut [z, y, 4, 0]).unwrap();
    assert_eq!(cu!(cuCtxSynchronize()), common::LAUNCH_FAILED);
    p.end();
}

#[test]
fn questions_about_pointers() {
    let (_alone, _control) = alone();
    let p = Program::start().unwrap();
    let x = p.upload(&[1, 2, 3, 4]).unwrap();
    let mut own = [0u64; 4];
    let registered: *mut c_void = own.as_mut_ptr().cast();
    let ask = |pointer: u64| {
        let (mut kind, mut start, mut bytes) = (9u32, 9u64, 9usize);
        let mut attributes = [
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            CUpointer_attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        ];
        let mut data: [*mut c_void; 3] =
            [(&raw mut kind).cast(), (&raw mut start).cast(), (&raw mut bytes).cast()];
        cu!(cuPointerGetAttributes(3, attributes.as_mut_ptr(), data.as_mut_ptr(), pointer)).unwrap();
        let alone = cu!(cuPointerGetAttribute((&raw mut kind).cast(), attributes[0], pointer));
        (alone.is_ok(), kind, start, bytes)
    };
    assert_eq!(ask(x + 8), (true, 2, x, 16));
    assert_eq!(ask(x + 16), (false, 0, 0, 0));
    assert_eq!(ask(registered as u64), (false, 0, 0, 0));
    cu!(cuMemHostRegister_v2(registered, 32, 0)).unwrap();
    assert_eq!(cu!(cuMemHostRegister_v2(registered, 32, 0)), Err(712));
    assert_eq!(ask(registered as u64 + 8), (true, 1, registered as u64, 32));
    cu!(cuMemHostUnregister(registered)).unwrap();
    assert_eq!(cu!(cuMemHostUnregister(registered)), Err(713));
    assert_eq!(cu!(cuMemFreeHost(registered)), INVALID_VALUE);
    p.end();
}

#[test]
fn questions_about_devices_and_functions() {
    let (_alone, control) = alone();
    control.set("CAPABILITY", "8.6");
    control.set("MULTIPROCESSORS", "3");
    let p = Program::start().unwrap();
    let device = |attribute| {
        let mut value = 0;
        cu!(cuDeviceGetAttribute(&mut value, attribute, 0)).map(|()| value)
    };
    assert_eq!(device(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), Ok(8));
    assert_eq!(device(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), Ok(6));
    assert_eq!(device(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE), Ok(32));
    assert_eq!(device(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO), Ok(64));
    assert_eq!(device(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH), Ok(1));
    let axpy = p.function("axpy").unwrap();
    let function = |attribute| {
        let mut value = 0;
        cu!(cuFuncGetAttribute(&mut value, attribute, axpy)).map(|()| value)
    };
    assert_eq!(function(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), Ok(64));
    assert_eq!(function(CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION), Ok(75));
    assert_eq!(function(CUfunction_attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION), Ok(86));
    let mut blocks = 0;
    cu!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, axpy, 64, 0)).unwrap();
    assert_eq!(blocks, 32);
    let (mut address, mut bytes) = (0, 0);
    cu!(cuModuleGetGlobal_v2(&mut address, &mut bytes, p.module, c"table".as_ptr())).unwrap();
    assert_eq!((bytes, p.download(address + 4)), (16, Ok(2f32.to_bits())));
    assert_eq!(cu!(cuMemFree_v2(address)), INVALID_VALUE);
    // Blocks that wait for each other must all be there at once.
    let (x, y) = (p.upload(&[0; 64]).unwrap(), p.upload(&[0; 64]).unwrap());
    let mut args = [x, y, 64, 0];
    let mut pointers: Vec<*mut c_void> = args.iter_mut().map(|a| (&raw mut *a).cast()).collect();
    let mut together = |blocks| {
        cu!(cuLaunchCooperativeKernel(axpy, blocks, 1, 1, 64, 1, 1, 0, p.stream, pointers.as_mut_ptr()))
    };
    assert_eq!((together(97), together(96)), (Err(720), Ok(())));
    cu!(cuStreamSynchronize(p.stream)).unwrap();
    p.end();
    control.set("MULTIPROCESSORS", "132");
}

#[test]
fn a_graph_takes_the_arguments_of_another() {
    let (_alone, _control) = alone();
    let p = Program::start().unwrap();
    let (store, x) = (p.function("store").unwrap(), p.upload(&[0]).unwrap());
    let graph_of = |values: &[u64]| {
        let mut graph = null_mut();
        cu!(cuGraphCreate(&mut graph, 0)).unwrap();
        let mut last = vec![];
        for value in values {
            last = vec![add_kernel(graph, &last, store, &mut [x, *value]).unwrap()];
        }
        graph
    };
    let mut ready = null_mut();
    cu!(cuGraphInstantiateWithFlags(&mut ready, graph_of(&[1]), 0)).unwrap();
    // SAFETY: all of it are numbers, and its enumeration begins with zero.
    let mut info: CUgraphExecUpdateResultInfo = unsafe { std::mem::zeroed() };
    assert_eq!(cu!(cuGraphExecUpdate_v2(ready, graph_of(&[2]), &mut info)), Ok(()));
    assert_eq!(cu!(cuGraphExecUpdate_v2(ready, graph_of(&[3, 4]), &mut info)), Err(910));
    cu!(cuGraphLaunch(ready, p.stream)).unwrap();
    cu!(cuStreamSynchronize(p.stream)).unwrap();
    assert_eq!(p.download(x), Ok(2));
    p.end();
}

#[test]
fn functions_of_the_host_take_their_turn() {
    extern "C" fn note(data: *mut c_void) {
        // SAFETY: the test gives a place that lives until it has waited.
        unsafe { *data.cast::<u32>() += 1 };
    }
    let (_alone, _control) = alone();
    let p = Program::start().unwrap();
    let mut turns = 0u32;
    let at: *mut u32 = &raw mut turns;
    cu!(cuLaunchHostFunc(p.stream, Some(note), at.cast())).unwrap();
    // SAFETY: nobody writes meanwhile.
    assert_eq!(unsafe { at.read() }, 0);
    cu!(cuStreamSynchronize(p.stream)).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { at.read() }, 1);
    assert_eq!(cu!(cuLaunchHostFunc(p.stream, None, at.cast())), INVALID_VALUE);
    p.end();
}

#[test]
fn a_kernel_without_end_times_out() {
    let (_alone, control) = alone();
    control.set("ENDLESS", "1000");
    let p = Program::start().unwrap();
    let (mut graph, mut ready, mut condition) = (null_mut(), null_mut(), 0);
    cu!(cuGraphCreate(&mut graph, 0)).unwrap();
    cu!(cuGraphConditionalHandleCreate(&mut condition, graph, p.context, 1, 1)).unwrap();
    let (_, body) = common::add_while(graph, &[], condition, p.context).unwrap();
    // Zero doubled stays below every limit.
    let x = p.upload(&[0]).unwrap();
    add_kernel(body, &[], p.function("double_until").unwrap(), &mut [x, 1, condition]).unwrap();
    cu!(cuGraphInstantiateWithFlags(&mut ready, graph, 0)).unwrap();
    cu!(cuGraphLaunch(ready, p.stream)).unwrap();
    assert_eq!(cu!(cuStreamSynchronize(p.stream)), Err(702));
    p.end();
    control.set("ENDLESS", "2147483648");
}
