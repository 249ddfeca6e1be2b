//! Faults of programs, and faults that come without them: codes, and what is held afterwards.

mod common;

use common::{
    Code, ILLEGAL_ADDRESS, INVALID_VALUE, KERNELS, LAUNCH_FAILED, OUT_OF_MEMORY, Program, add_kernel,
    add_while, alone, cu,
};
use cudarc::driver::sys::CUjit_option;
use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;

#[test]
fn nothing_goes_before_the_start() {
    let (_alone, control) = alone();
    // Changing the machine asks for another start.
    control.set("DEVICES", "2");
    let mut count = 0;
    assert_eq!(cu!(cuDeviceGetCount(&mut count)), Err(3));
    assert_eq!(cu!(cuInit(1)), INVALID_VALUE);
    assert_eq!(cu!(cuInit(0)), Ok(()));
    assert_eq!((cu!(cuDeviceGetCount(&mut count)), count), (Ok(()), 2));
    let mut device = 0;
    assert_eq!(cu!(cuDeviceGet(&mut device, 2)), Err(101));
    let mut context = null_mut();
    assert_eq!(cu!(cuCtxGetCurrent(&mut context)), Ok(()));
    assert!(context.is_null());
    assert_eq!(cu!(cuCtxSynchronize()), Err(201));
    control.set("DEVICES", "0");
    assert_eq!(cu!(cuInit(0)), Err(100));
    control.set("DEVICES", "1");
    control.set("COMPUTE_MODE", "2");
    cu!(cuInit(0)).unwrap();
    assert_eq!(cu!(cuDevicePrimaryCtxRetain(&mut context, 0)), Err(46));
    control.set("COMPUTE_MODE", "0");
}

#[test]
fn pointers_that_are_none() {
    let (_alone, _control) = alone();
    let p = Program::start().unwrap();
    let x = p.upload(&[1, 2, 3, 4]).unwrap();
    let mut value = 0u32;
    let here: *mut c_void = (&raw mut value).cast();
    for wrong in [0, x + 16, x - 4, here as u64, 1 << 46] {
        assert_eq!(cu!(cuMemcpyDtoH_v2(here, wrong, 4)), INVALID_VALUE, "{wrong:#x}");
        assert_eq!(cu!(cuMemcpyHtoD_v2(wrong, here, 4)), INVALID_VALUE);
        assert_eq!(cu!(cuMemcpyDtoDAsync_v2(x, wrong, 4, p.stream)), INVALID_VALUE);
        assert_eq!(cu!(cuMemsetD32Async(wrong, 0, 1, p.stream)), INVALID_VALUE);
        if wrong != 0 {
            assert_eq!(cu!(cuMemFree_v2(wrong)), INVALID_VALUE);
        }
    }
    // One byte too many; device memory for the host's; null for a place of the host.
    assert_eq!(cu!(cuMemcpyDtoH_v2(here, x + 13, 4)), INVALID_VALUE);
    assert_eq!(cu!(cuMemcpyDtoH_v2(x as *mut c_void, x, 4)), INVALID_VALUE);
    assert_eq!(cu!(cuMemcpyDtoH_v2(null_mut(), x, 4)), INVALID_VALUE);
    assert_eq!(cu!(cuMemAlloc_v2(null_mut(), 4)), INVALID_VALUE);
    assert_eq!(p.alloc(0), Err(1));
    // Freed memory, and freed again.
    assert_eq!(cu!(cuMemFree_v2(x + 4)), INVALID_VALUE);
    assert_eq!(cu!(cuMemFree_v2(0)), Ok(()));
    assert_eq!(cu!(cuMemFree_v2(x)), Ok(()));
    assert_eq!(cu!(cuMemFree_v2(x)), INVALID_VALUE);
    assert_eq!(p.download(x), Err(1));
    p.end();
}

#[test]
fn handles_that_are_none() {
    let (_alone, _control) = alone();
    let p = Program::start().unwrap();
    let mut stream = null_mut();
    cu!(cuStreamCreate(&mut stream, 1)).unwrap();
    cu!(cuStreamDestroy_v2(stream)).unwrap();
    assert_eq!(cu!(cuStreamSynchronize(stream)), Err(400));
    assert_eq!(cu!(cuStreamDestroy_v2(stream)), Err(400));
    assert_eq!(cu!(cuEventDestroy_v2(p.stream.cast())), Err(400));
    assert_eq!(cu!(cuModuleUnload(p.stream.cast())), Err(400));
    assert_eq!(cu!(cuGraphLaunch(p.module.cast(), p.stream)), Err(400));
    assert_eq!(cu!(cuCtxSetCurrent(p.stream.cast())), Err(201));
    assert_eq!(p.function("nobody"), Err(500));
    p.end();
}

#[test]
fn what_belongs_to_another_device() {
    let (_alone, control) = alone();
    control.set("DEVICES", "2");
    let p = Program::start().unwrap();
    let x = p.upload(&[1]).unwrap();
    let store = p.function("store").unwrap();
    let mut other = null_mut();
    cu!(cuDevicePrimaryCtxRetain(&mut other, 1)).unwrap();
    cu!(cuCtxPushCurrent_v2(other)).unwrap();
    assert_eq!(cu!(cuStreamSynchronize(p.stream)), Err(400));
    let mut args = [x, 5];
    let mut pointers: Vec<*mut c_void> = args.iter_mut().map(|a| (&raw mut *a).cast()).collect();
    assert_eq!(
        cu!(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, null_mut(), pointers.as_mut_ptr(), null_mut())),
        Err(400)
    );
    let mut facts = [0u64; 2];
    cu!(cuPointerGetAttribute(
        (&raw mut facts[0]).cast(),
        cudarc::driver::sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        x
    ))
    .unwrap();
    assert_eq!(facts[0], 0);
    // The same kernel there, with memory of here.
    let mut module = null_mut();
    let text = CString::new(KERNELS).unwrap();
    cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())).unwrap();
    let there = Program { context: other, stream: null_mut(), module };
    there.launch("store", null_mut(), 1, &mut [x, 5]).unwrap();
    assert_eq!(cu!(cuCtxSynchronize()), ILLEGAL_ADDRESS);
    let mut popped = null_mut();
    cu!(cuCtxPopCurrent_v2(&mut popped)).unwrap();
    assert_eq!(popped, other);
    // The first device is as it was.
    assert_eq!(p.download(x), Ok(1));
    cu!(cuDevicePrimaryCtxRelease_v2(1)).unwrap();
    p.end();
}

#[test]
fn a_stray_kernel_breaks_the_context_until_it_is_given_back() {
    let (_alone, control) = alone();
    let p = Program::start().unwrap();
    let x = p.upload(&[1]).unwrap();
    p.launch("store", p.stream, 1, &mut [x + 4096, 5]).unwrap();
    p.launch("store", p.stream, 1, &mut [x, 5]).unwrap();
    assert_eq!(cu!(cuStreamSynchronize(p.stream)), ILLEGAL_ADDRESS);
    // Everything says so from now on.
    assert_eq!(cu!(cuStreamSynchronize(p.stream)), ILLEGAL_ADDRESS);
    assert_eq!(p.download(x), Err(700));
    assert_eq!(p.alloc(4), Err(700));
    assert_eq!(p.launch("store", p.stream, 1, &mut [x, 5]), ILLEGAL_ADDRESS);
    assert_eq!(cu!(cuMemFree_v2(x)), ILLEGAL_ADDRESS);
    p.end();
    assert_eq!(
        (control.counters().leaked, control.counters().allocated_bytes),
        (0, 0),
        "the program let go of all"
    );
    let p = Program::start().unwrap();
    let x = p.upload(&[1]).unwrap();
    assert_eq!(p.download(x), Ok(1));
    p.end();
    assert_eq!(control.counters().leaked, 1, "the context took what the program forgot");
}

#[test]
fn a_check_that_fails_is_a_failed_launch() {
    let (_alone, _control) = alone();
    let p = Program::start().unwrap();
    let (x, y) = (p.alloc(4 * 64).unwrap(), p.upload(&[0; 64]).unwrap());
    // x was never written.
    p.launch("axpy", p.stream, 64, &mut [x, y, 64, 0]).unwrap();
    assert_eq!(cu!(cuStreamSynchronize(p.stream)), LAUNCH_FAILED);
    p.end();
}

#[test]
fn sizes_that_do_not_fit() {
    let (_alone, control) = alone();
    control.set("MEMORY", "4096");
    let p = Program::start().unwrap();
    assert_eq!(p.alloc(8192), Err(2));
    let held = p.alloc(2000).unwrap();
    assert_eq!(cu!(cuMemAlloc_v2(&mut 0, 4096)), OUT_OF_MEMORY);
    let (mut free, mut total) = (0, 0);
    cu!(cuMemGetInfo_v2(&mut free, &mut total)).unwrap();
    // The module's table of four words is there too.
    assert_eq!((free, total), (4096 - 2000 - 16, 4096));
    assert_eq!(p.launch("axpy", p.stream, 32, &mut [held, held, 0, 0]), INVALID_VALUE);
    assert_eq!(p.launch("axpy", p.stream, 2048, &mut [held, held, 0, 0]), Err(701));
    p.end();
}

fn load(text: &str) -> (Code, String) {
    let (mut module, mut log) = (null_mut(), [1u8; 200]);
    let text = CString::new(text).unwrap();
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), log.len() as *mut c_void];
    let loaded = cu!(cuModuleLoadDataEx(
        &mut module,
        text.as_ptr().cast(),
        2,
        options.as_mut_ptr(),
        values.as_mut_ptr()
    ));
    let log = CStr::from_bytes_until_nul(&log).map_or(String::new(), |l| l.to_string_lossy().into_owned());
    (loaded, log)
}

#[test]
fn a_module_is_refused_with_a_log() {
    let (_alone, control) = alone();
    control.set("CAPABILITY", "7.0");
    control.set("DRIVER_VERSION", "12020");
    let mut p = Program { context: null_mut(), stream: null_mut(), module: null_mut() };
    cu!(cuInit(0)).unwrap();
    cu!(cuDevicePrimaryCtxRetain(&mut p.context, 0)).unwrap();
    cu!(cuCtxSetCurrent(p.context)).unwrap();
    let (code, log) = load(&KERNELS.replace("fma.rn.f32", "fma.f32").replace("mul.rn.f32", "mul.f32"));
    assert_eq!((code, log.contains("names no rounding")), (Err(218), true), "{log}");
    let (code, log) = load(&KERNELS.replacen("st.global", "frob.global", 1));
    assert_eq!((code, log.contains("`frob.global.b32` is not an instruction")), (Err(218), true), "{log}");
    assert_eq!(load("not PTX at all").0, Err(200));
    assert_eq!(load(KERNELS), (Err(209), "target sm_75 needs a newer device than sm_70".into()));
    let (code, log) = load(&KERNELS.replace(".version 6.3", ".version 8.3"));
    assert_eq!((code, log.as_str()), (Err(222), "Unsupported .version 8.3; current version is '8.2'"));
    assert_eq!(control.counters().allocated_bytes, 0);
    p.end();
}

/// A small program with all kinds of calls, which gives back what it took whatever happens.
fn program() -> Result<u32, u32> {
    let p = Program::start()?;
    let outcome = body(&p);
    p.end();
    outcome
}

fn body(p: &Program) -> Result<u32, u32> {
    let x = p.upload(&[3])?;
    let (mut graph, mut ready, mut condition) = (null_mut(), null_mut(), 0);
    let mut run = |graph: &mut _, ready: &mut _| {
        cu!(cuGraphCreate(graph, 0))?;
        cu!(cuGraphConditionalHandleCreate(&mut condition, *graph, p.context, 1, 1))?;
        let (_, inside) = add_while(*graph, &[], condition, p.context)?;
        add_kernel(inside, &[], p.function("double_until")?, &mut [x, 1000, condition])?;
        cu!(cuGraphInstantiateWithFlags(ready, *graph, 0))?;
        cu!(cuGraphLaunch(*ready, p.stream))?;
        cu!(cuStreamSynchronize(p.stream))?;
        p.download(x)
    };
    let outcome = run(&mut graph, &mut ready);
    let freed = cu!(cuMemFree_v2(x));
    for destroyed in [cu!(cuGraphExecDestroy(ready)), cu!(cuGraphDestroy(graph))] {
        // What was not made is not destroyed.
        let _ = destroyed;
    }
    outcome.and_then(|v| freed.map(|()| v))
}

#[test]
fn any_call_may_fail_with_any_code() {
    let (_alone, control) = alone();
    assert_eq!(program(), Ok(3 << 9));
    let calls = control.counters().calls;
    assert!(calls > 15);
    let mut seen = 0;
    for code in [2, 46, 214, 700, 702, 719, 999] {
        for n in 1..=calls {
            control.reset_counters();
            control.fail_call(n, code);
            match program() {
                Err(came) => {
                    assert_eq!(came, code, "call {n}");
                    seen += 1;
                }
                // Calls that only give something back are not told of.
                Ok(value) => assert_eq!(value, 3 << 9),
            }
            control.fail_none();
            assert_eq!(control.counters().allocated_bytes, 0, "call {n} with code {code}");
        }
    }
    assert!(seen as u64 > 6 * (calls - 6), "{seen} of {calls} calls");
    assert_eq!(program(), Ok(3 << 9));
    // By its name, always.
    control.set("FAIL_CALL", "cuMemAlloc_v2:2");
    assert_eq!((program(), program()), (Err(2), Err(2)));
    control.fail_none();
}

#[test]
fn a_mended_context_goes_on() {
    let (_alone, control) = alone();
    let p = Program::start().unwrap();
    let x = p.upload(&[1]).unwrap();
    p.launch("store", p.stream, 1, &mut [x + 4096, 5]).unwrap();
    // Behind the failure: it stays undone.
    p.launch("store", p.stream, 1, &mut [x, 5]).unwrap();
    assert_eq!(cu!(cuStreamSynchronize(p.stream)), ILLEGAL_ADDRESS);
    control.mend();
    assert_eq!(p.download(x), Ok(1));
    p.launch("store", p.stream, 1, &mut [x, 7]).unwrap();
    cu!(cuStreamSynchronize(p.stream)).unwrap();
    assert_eq!(p.download(x), Ok(7));
    cu!(cuMemFree_v2(x)).unwrap();
    p.end();
    assert_eq!(control.counters().leaked, 0);
}
