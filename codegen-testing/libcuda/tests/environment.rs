//! Programs that know nothing of the stand-in find it by its name, and it takes its settings from their environment.

use cudarc::driver::CudaContext;
use std::process::Command;

/// Part of a test: the program that is started, which does nothing in the tests' own process.
#[test]
fn program() {
    if std::env::var_os("SUMSQ_LIBCUDA_REPORT").is_none() {
        return;
    }
    let device = CudaContext::new(1).unwrap();
    println!("{} with {} bytes", device.name().unwrap(), device.total_mem().unwrap());
    let stream = device.default_stream();
    let kept = stream.clone_htod(&[1u8; 100]).unwrap();
    stream.synchronize().unwrap();
    std::mem::forget((device, kept));
}

#[test]
fn a_program_is_given_the_stand_in() {
    let report = std::env::temp_dir().join(format!("sumsq-libcuda-report-{}", std::process::id()));
    let run = |settings: &[(&str, &str)]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "program", "--nocapture"]);
        command.env("LD_LIBRARY_PATH", sumsq_libcuda::folder().unwrap());
        command.env("SUMSQ_LIBCUDA_REPORT", &report);
        command.envs(settings.iter().map(|(name, value)| (format!("SUMSQ_LIBCUDA_{name}"), value)));
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    };
    let settings = [("DEVICES", "2"), ("CAPABILITY", "8.6"), ("MEMORY", "1000000")];
    let (ended, output) = run(&settings);
    assert!(ended && output.contains("sumsq interpreter of PTX, as sm_86 with 1000000 bytes"), "{output}");
    let counts = std::fs::read_to_string(&report).unwrap();
    std::fs::remove_file(&report).unwrap();
    assert!(counts.contains("bytes_to_device 100\n") && counts.contains("allocations 1\n"), "{counts}");
    let (ended, output) = run(&[("DEVICES", "2"), ("FAIL_CALL", "cuMemAlloc_v2:2"), ("CHECKS", "off")]);
    // cudarc asks for memory by another call.
    assert!(ended, "{output}");
    let (ended, output) = run(&[("DEVICES", "2"), ("FAIL_CALL", "cuMemAllocAsync:2")]);
    assert!(!ended && output.contains("OUT_OF_MEMORY"), "{output}");
    let (ended, output) = run(&[("DEVICES", "many")]);
    assert!(!ended && output.contains("SUMSQ_LIBCUDA_DEVICES=many is not understood"), "{output}");
    let _ = std::fs::remove_file(&report);
}

#[test]
fn both_names_lead_to_all_functions() {
    let folder = sumsq_libcuda::folder().unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        // SAFETY: the library is this crate's own; loading it runs nothing.
        let library = unsafe { libloading::Library::new(folder.join(name)) }.unwrap();
        for function in
            ["cuInit", "cuMemAlloc_v2", "cuLaunchKernel", "cuGraphAddNode_v2", "cuModuleLoadDataEx"]
        {
            // SAFETY: the symbol is only looked for.
            let symbol = unsafe { library.get::<unsafe extern "C" fn()>(function.as_bytes()) };
            assert!(symbol.is_ok(), "{function} in {name}");
        }
    }
}
