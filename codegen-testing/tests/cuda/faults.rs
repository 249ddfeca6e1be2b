//! Machines without a device that can be used, and drivers of which any call fails.

use crate::kernels::{ADD, Lists};
use crate::machine::Machine;
use sumsq_codegen::runtime::cuda::{CudaError, Device, Graph, Module, devices};

#[test]
fn reasons_why_no_device_is_used() {
    let machine = Machine::new();
    let refused = |setting: (&str, &str)| {
        let machine = &machine;
        let usual = match setting.0 {
            "DEVICES" => "1",
            "DRIVER_VERSION" => "12080",
            "CAPABILITY" => "9.0",
            _ => "",
        };
        machine.set(setting.0, setting.1);
        let error = Device::open(0).unwrap_err();
        machine.set(setting.0, usual);
        assert!(matches!(error, CudaError::Unavailable(_)), "{error:?}");
        let text = error.to_string();
        text.strip_prefix("GPU not used: ").unwrap().to_owned()
    };
    assert_eq!(
        refused(("DEVICES", "0")),
        "the CUDA driver finds no device on this machine, or CUDA_VISIBLE_DEVICES hides them"
    );
    assert_eq!(
        refused(("DRIVER_VERSION", "11080")),
        "the driver supports CUDA 11.8, at least 12.0 is needed: update the driver"
    );
    let name = &devices().unwrap()[0].name;
    let old = refused(("CAPABILITY", "7.0"));
    assert!(
        old.starts_with("device 0 (")
            && old.ends_with(") has compute capability 7.0, at least 7.5 is needed")
    );
    assert_eq!(
        refused(("FAIL_CALL", "cuDevicePrimaryCtxRetain:46")),
        format!(
            "device 0 ({name}) is taken by another process, which has it to itself: wait until that ends, or use another \
             device"
        )
    );
    assert_eq!(
        refused(("FAIL_CALL", "cuInit:803")),
        "the CUDA driver does not start: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): its parts have different versions; \
         restart the machine"
    );
    assert!(Device::open(0).is_ok() && machine.is_clean());
}

/// Everything that the runtime does, once.
fn everything() -> Result<Vec<f32>, CudaError> {
    let lists = Lists::new(300);
    let device = Device::open(0)?;
    let function = Module::load(&device, ADD)?.function("add")?;
    device.memory()?;
    let start = device.mark()?;
    lists.add(&function)?;
    lists.sum()?;
    let arguments = lists.arguments(&device)?;
    let mut graph = Graph::new(&device)?;
    // SAFETY: as of `Lists::add`.
    unsafe { graph.launch(&function, lists.shape(), &arguments) }?;
    let condition = graph.condition()?;
    graph.repeat_while(condition)?;
    drop(graph);
    let mut graph = Graph::new(&device)?;
    // SAFETY: as of `Lists::add`.
    unsafe { graph.launch(&function, lists.shape(), &arguments) }?;
    let ready = graph.ready()?;
    let scratch = device.zeroed(64)?;
    ready.run()?;
    device.mark()?.since(&start)?;
    scratch.download(0, &mut [0; 64])?;
    lists.sum()
}

/// Whichever call fails, and however: a typed error or the right values, nothing is left, and all works again afterwards.
#[test]
fn any_call_may_fail() {
    let machine = Machine::new();
    let expected = Lists::new(300).expected();
    // Out of memory, device gone, ECC error, illegal address, timeout, unknown; sticky ones take the context with them.
    for (code, sticky) in [(2, false), (46, false), (214, true), (700, true), (702, true), (999, false)] {
        let mut failed = 0;
        for n in 1.. {
            let (done, calls) = machine.failing(n, code, everything);
            match &done {
                Ok(values) => assert_eq!(values, &expected, "call {n} with {code}"),
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    failed += 1;
                }
            }
            let counters = machine.counters();
            assert_eq!((counters.allocations, counters.objects), (0, 0), "call {n} with {code}: {done:?}");
            assert!(sticky || counters.leaked == 0, "call {n} with {code}: {done:?}");
            if calls < n {
                assert!(done.is_ok());
                break;
            }
        }
        assert!(failed > 30, "{failed} of the calls with {code}");
        assert_eq!(everything().as_ref(), Ok(&expected));
    }
}

#[test]
fn a_device_that_failed_is_opened_again() {
    let machine = Machine::new();
    let device = Device::shared(0).unwrap();
    assert_eq!(Device::shared(0).unwrap().zeroed(8).unwrap().device().counts(), device.counts());
    let (failed, _) = machine.failing(3, 1, || device.synchronize());
    let text = "the CUDA driver's cuStreamSynchronize failed: CUDA_ERROR_INVALID_VALUE (1)";
    assert_eq!(failed.as_ref().unwrap_err().to_string(), text);
    assert_eq!(device.synchronize(), failed, "nothing is built on it");
    let another = Device::shared(0).unwrap();
    another.synchronize().unwrap();
    assert_eq!((another.counts().waits, Device::shared(0).unwrap().counts().waits), (1, 1));
    drop((device, another));
    assert!(machine.is_clean());
}

#[test]
fn a_mended_machine_is_opened_while_somebody_holds_what_failed() {
    let machine = Machine::new();
    let held = Device::shared(0).unwrap();
    machine.set("FAIL_CALL", "cuStreamSynchronize:700");
    assert!(held.synchronize().is_err());
    machine.set("FAIL_CALL", "");
    assert!(Device::shared(0).is_err());
    machine.mend();
    let device = Device::shared(0).unwrap();
    device.synchronize().unwrap();
    assert!(held.synchronize().is_err(), "what has failed stays so");
    drop((device, held));
    assert!(machine.is_clean());
}
