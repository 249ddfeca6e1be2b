//! GPUs: listed, asked for, and the reasons why there is none. The driver is the stand-in, which reads `SUMSQ_LIBCUDA_*`.

use crate::bench::{Bench, Run, fit};
use sumsq::ArrayData;
use sumsq::ptxas::{assemble, capability};

/// Runs the tool on a machine with the stand-in driver.
pub fn with_driver(bench: &Bench, machine: &[(&str, &str)], args: &[&str]) -> Run {
    let folder = sumsq_libcuda::folder().unwrap();
    let variables = [&[("LD_LIBRARY_PATH", folder.to_str().unwrap())], machine].concat();
    bench.sumsq_where(&variables, args)
}

#[test]
fn devices_or_the_reason_why_there_is_none() {
    let bench = fit();
    let listed = bench.sumsq(&["devices"]);
    listed.succeeds();
    let text = &listed.stdout;
    assert!(text.starts_with("device  name") || text.starts_with("GPU not used: "), "{text}");
    let devices = |machine: &[(&str, &str)]| {
        let run = with_driver(&bench, machine, &["devices"]);
        run.succeeds();
        run.stdout
    };
    let two = devices(&[
        ("SUMSQ_LIBCUDA_DEVICES", "2"),
        ("SUMSQ_LIBCUDA_CAPABILITY", "8.9"),
        ("SUMSQ_LIBCUDA_MEMORY", "3221225472"),
    ]);
    let rows: Vec<&str> = two.lines().collect();
    assert_eq!(rows.len(), 4, "{two}");
    for (row, ordinal) in rows[1..3].iter().zip(["0 ", "1 "]) {
        assert!(row.starts_with(ordinal) && row.contains(" 8.9 "), "{two}");
        assert!(row.contains(" 3.0 GiB ") && row.ends_with("CUDA 12.8"), "{two}");
    }
    let old = devices(&[("SUMSQ_LIBCUDA_CAPABILITY", "6.1")]);
    assert!(old.contains("has compute capability 6.1, at least 7.5 is needed\n"), "{old}");
    let none = devices(&[("SUMSQ_LIBCUDA_DEVICES", "0")]);
    assert!(none.starts_with("GPU not used: the CUDA driver finds no device"), "{none}");
}

#[test]
fn a_gpu_that_cannot_be_used_is_no_back_end() {
    let bench = fit();
    let solve = |machine: &[(&str, &str)], more: &[&str], said: &str| {
        let args = ["solve", "energy.t", "--inputs", "inputs.npz", "--output", "o.npz", "--backend", "cuda"];
        let run = with_driver(&bench, machine, &[&args[..], more].concat());
        run.fails_with(3, said);
        run.fails_with(3, "use --backend cpu");
        assert!(!bench.path("o.npz").exists());
    };
    solve(&[("SUMSQ_LIBCUDA_DEVICES", "0")], &[], "GPU not used: the CUDA driver finds no device");
    let old = "the driver supports CUDA 11.4, at least 12.0 is needed: update the driver";
    solve(&[("SUMSQ_LIBCUDA_DRIVER_VERSION", "11040")], &[], old);
    let old = "has compute capability 7.0, at least 7.5 is needed";
    solve(&[("SUMSQ_LIBCUDA_CAPABILITY", "7.0")], &[], old);
    let taken = ("SUMSQ_LIBCUDA_FAIL_CALL", "cuDevicePrimaryCtxRetain:46");
    solve(&[taken], &[], "is taken by another process");
    solve(&[], &["--device", "3"], "there is no CUDA device 3: devices are numbered from 0 to 0");
}

#[test]
fn a_gpu_that_fails() {
    let bench = fit();
    let solve = |machine: &[(&str, &str)]| {
        let args = ["solve", "energy.t", "--inputs", "inputs.npz", "--output", "o.npz", "--backend", "cuda"];
        with_driver(&bench, machine, &args)
    };
    let report = bench.path("counts.txt");
    let counting = ("SUMSQ_LIBCUDA_REPORT", report.to_str().unwrap());
    let count = |name: &str| {
        let counts = std::fs::read_to_string(&report).unwrap();
        let line = counts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap().parse::<u64>().unwrap()
    };
    solve(&[("SUMSQ_LIBCUDA_MEMORY", "2048"), counting]).fails_with(2, "not enough memory on the GPU: ");
    assert_eq!((count("launches"), count("bytes_to_device")), (0, 0), "before anything is computed");
    let bogus = ("SUMSQ_LIBCUDA_FAIL_CALL", "cuModuleLoadDataEx:218");
    solve(&[bogus]).fails_with(1, "the CUDA driver refuses the generated code: CUDA_ERROR_INVALID_PTX (218)");
    assert!(!bench.path("o.npz").exists());
    solve(&[counting]).succeeds();
    // In the midst of the solve: kernels are loaded before it, and freed behind it.
    let late = count("calls") / 2;
    let failed = solve(&[("SUMSQ_LIBCUDA_FAIL_CALL", &format!("{late}:700"))]);
    failed.fails_with(1, "the GPU failed: illegal address (in kernel `");
    failed.fails_with(1, "the unknowns are those from before the solve: ");
    let ArrayData::F64(x) = bench.read("o.npz").remove(0).data else { panic!() };
    assert_eq!(x, [0.0, 5.0, -1.0]);
}

#[test]
fn kernels_are_shown_without_a_device() {
    let bench = fit();
    let show = |more: &[&str]| {
        let run = bench.sumsq(&[&["show", "energy.t", "--stage"], more].concat());
        run.succeeds();
        run.stdout
    };
    let modules = show(&["ptx", "--target", "sm_90"]);
    assert!(modules.starts_with(".version "), "{modules:.100}");
    for module in modules.split(".version ").skip(1) {
        let module = format!(".version {module}");
        assert_eq!(capability(&module), 90);
        assert!(!assemble(&module, 90).unwrap().is_empty());
    }
    assert!(show(&["sass", "--target", "sm_80"]).contains("EXIT"));
}

/// Kernels are told apart by time, and by what they move; without a GPU, Funcs by time.
#[test]
fn profiles_of_kernels() {
    let bench = fit();
    let args = ["solve", "energy.t", "--inputs", "inputs.npz", "--profile"];
    let run = with_driver(&bench, &[], &[&args[..], &["--backend", "cuda"]].concat());
    run.succeeds();
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!(said.contains("copy on the device: "), "{said}");
    let row = said.lines().find(|l| l.contains(" k_pcg_b_0 ")).unwrap_or_else(|| panic!("{said}"));
    for word in [" launches", " MB ", " GB/s ", " % of copy", " % float64"] {
        assert!(row.contains(word), "{row}");
    }
    let cache = bench.path("cache");
    for start in ["first", "second"] {
        let run = bench.sumsq_where(&[("SUMSQ_CACHE", cache.to_str().unwrap())], &args);
        run.succeeds();
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(said.contains("pcg_b: ") && said.contains(" ms of all threads"), "{start}: {said}");
    }
}
