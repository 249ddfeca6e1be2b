//! The C programs of `examples/c` and those of this folder, one of them in C++ with both headers, built by the system's compilers against the library that cargo
//! built, against the Rust path. `SUMSQ_VALGRIND` is a command that runs the programs: `cargo xtask nightly valgrind` has it look for errors of memory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use sumsq::energy::Energy;
use sumsq::{ArrayData, CompileOptions, NamedArray, Options, Precision, ProblemData, Solver};
use sumsq_tests::one_exact_step;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder that holds the libraries: that of this test or one above it.
fn libraries() -> PathBuf {
    let exe = std::env::current_exe().expect("the test's own path");
    let found = exe.ancestors().skip(1).find(|d| d.join(shared_library()).is_file());
    found.unwrap_or_else(|| panic!("no {} above {}", shared_library(), exe.display())).to_path_buf()
}

fn shared_library() -> &'static str {
    if cfg!(target_os = "macos") { "libsumsq_capi.dylib" } else { "libsumsq_capi.so" }
}

/// Ways to link a program.
enum Link {
    Shared,
    Static,
}

/// The system's compiler for a standard of C or C++, with all warnings as errors.
fn compiler(standard: &str) -> Command {
    let (variable, usual) = if standard.starts_with("c++") { ("CXX", "c++") } else { ("CC", "cc") };
    let mut cc = Command::new(std::env::var_os(variable).unwrap_or_else(|| usual.into()));
    cc.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-I"]);
    cc.arg(root().join("capi/include"));
    cc
}

/// Compiles `source`, a path below the workspace, runs it, and returns what it printed: its exit code, stdout and stderr.
fn run(source: &str, link: Link, args: &[&str]) -> (i32, String, String) {
    run_with(compiler("c99"), source, link, args)
}

fn run_with(cc: Command, source: &str, link: Link, args: &[&str]) -> (i32, String, String) {
    run_on(cc, source, link, args, &[])
}

/// As [`run_with`], with these variables; of them `LD_LIBRARY_PATH` is looked at after the libraries.
fn run_on(
    mut cc: Command,
    source: &str,
    link: Link,
    args: &[&str],
    machine: &[(&str, &str)],
) -> (i32, String, String) {
    let folder = tempfile::tempdir().expect("a folder for the program");
    let program = folder.path().join("program");
    let libraries = libraries();
    cc.arg(root().join(source)).arg("-o").arg(&program);
    match link {
        Link::Shared => cc.arg("-L").arg(&libraries).args(["-lsumsq_capi", "-lm"]),
        // What `rustc --print native-static-libs` names: LLVM's own needs.
        // Without what debuggers read: Valgrind may be older than that.
        Link::Static => cc.arg(libraries.join("libsumsq_capi.a")).args([
            "-Wl,-S",
            "-lstdc++",
            "-lzstd",
            "-lz",
            "-lffi",
            "-lm",
            "-ldl",
            "-lpthread",
        ]),
    };
    let built = cc.output().expect("a compiler");
    assert!(built.status.success(), "{source}: {}", String::from_utf8_lossy(&built.stderr));
    let checked = std::env::var("SUMSQ_VALGRIND").unwrap_or_default();
    let line: Vec<&OsStr> = checked.split_whitespace().map(OsStr::new).chain([program.as_os_str()]).collect();
    let mut ran = Command::new(line[0]);
    ran.args(&line[1..]).args(args).env("LD_LIBRARY_PATH", &libraries);
    for (name, value) in machine {
        match *name {
            "LD_LIBRARY_PATH" => ran.env(name, format!("{}:{value}", libraries.display())),
            _ => ran.env(name, value),
        };
    }
    let ran = ran.output().expect("the program");
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    (ran.status.code().unwrap_or(-1), text(&ran.stdout), text(&ran.stderr))
}

/// The number after `label` in a line of its own.
#[track_caller]
fn number(out: &str, label: &str) -> f64 {
    let line = out.lines().find_map(|l| l.strip_prefix(label)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no line `{label}` in:\n{out}"));
    line.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no number in `{line}`"))
}

#[track_caller]
fn close(what: &str, came: f64, expected: f64, tolerance: f64) {
    assert!(
        (came - expected).abs() <= tolerance * expected.abs(),
        "{what}: came {came}, expected {expected}"
    );
}

/// The noisy disc of `examples/c/laplacian.c`.
fn disc() -> (Energy, Vec<NamedArray>) {
    let (w, h) = (64, 48);
    let pixel = |i: i32| {
        let (x, y) = (i % w, i / w);
        let inside = (x - 32).pow(2) + (y - 24).pow(2) < 15 * 15;
        f64::from(u8::from(inside)) + 0.0625 * f64::from((x * 7 + y * 13) % 11 - 5)
    };
    let image = |name: &str, values: Vec<f64>| {
        let (shape, data) = (vec![h as usize, w as usize], ArrayData::F64(values));
        NamedArray { name: name.into(), shape, data }
    };
    let energy = Energy::from_file(root().join("examples/energies/laplacian.t")).expect("laplacian.t");
    let pixels: Vec<f64> = (0..w * h).map(pixel).collect();
    (energy, vec![image("X", vec![0.0; pixels.len()]), image("A", pixels)])
}

#[test]
fn the_published_interface_smooths_a_disc() {
    let (energy, arrays) = disc();
    let mut data = ProblemData::bind(&energy, &arrays).unwrap();
    // The energy is quadratic.
    let options = one_exact_step();
    let solver = Solver::compile(energy, &options.compile).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    let report = problem.solve(&mut data, &options.solve).unwrap();

    let path = root().join("examples/energies/laplacian.t");
    for link in [Link::Shared, Link::Static] {
        let (code, out, err) = run("examples/c/laplacian.c", link, &[path.to_str().unwrap()]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        close("start", number(&out, "start"), report.energy_initial / 2.0, 1e-8);
        close("cost", number(&out, "cost"), report.energy_final / 2.0, 1e-8);
        close("centre", number(&out, "centre"), data.unknowns()[0][24 * 64 + 32], 1e-5);
        assert_eq!(out.lines().filter(|l| l.starts_with("step ")).count(), 3, "{out}");
    }
}

#[test]
fn errors_of_the_published_interface() {
    let (code, out, err) = run("examples/c/laplacian.c", Link::Shared, &["no/such/file.t"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("no/such/file.t"), "{err}");
}

#[test]
fn sumsqs_own_interface_fits_a_curve() {
    let path = root().join("examples/energies/curveFitting.t");
    let n = 200;
    let x = |i: usize| 0.0625 * i as f64;
    let points = (0..n).flat_map(|i| [x(i), (2.0 * x(i)).cos() + 2.0 * x(i).sin()]).collect();
    let floats = |name: &str, shape: [usize; 2], values| NamedArray {
        name: name.into(),
        shape: shape.into(),
        data: ArrayData::F64(values),
    };
    let indices = |name: &str, values| NamedArray {
        name: name.into(),
        shape: vec![n],
        data: ArrayData::Int(values, "int32"),
    };
    let arrays = [
        floats("funcParams", [1, 2], vec![1.1, 1.9]),
        floats("data", [n, 2], points),
        indices("G.d", (0..n as i64).collect()),
        indices("G.p", vec![0; n]),
    ];
    let energy = Energy::from_file(&path).unwrap();
    let mut data = ProblemData::bind(&energy, &arrays).unwrap();
    let options = Options {
        compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
        ..Options::default()
    };
    let solver = Solver::compile(energy, &options.compile).unwrap();
    let report = solver.plan(&data).unwrap().solve(&mut data, &options.solve).unwrap();

    let (code, out, err) = run("examples/c/curve_fitting.c", Link::Shared, &[path.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let steps: Vec<f64> = out.lines().filter(|l| l.starts_with("step ")).map(energy_of).collect();
    assert_eq!(steps.len(), report.iterations.len());
    // C's sin and cos may round the points otherwise, which shows once the energy is rounding itself.
    steps.iter().zip(&report.iterations).for_each(|(came, step)| {
        assert!(
            (came - step.energy).abs() <= 1e-6 * step.energy + 1e-25,
            "came {came}, expected {}",
            step.energy
        )
    });
    assert!(out.contains(&format!("iterations {} {}", steps.len(), report.termination.name())), "{out}");
    close("a", number(&out, "a"), 1.0, 1e-11);
    close("b", number(&out, "b"), 2.0, 1e-11);

    let (code, out, err) = run("examples/c/curve_fitting.c", Link::Shared, &["no/such/file.t"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("no/such/file.t"), "{err}");
}

#[cfg(unix)]
#[test]
fn another_thread_of_a_c_program_cancels_its_solve() {
    let mut cc = compiler("c99");
    cc.arg("-pthread");
    let (code, out, err) = run_with(cc, "capi/tests/cancel.c", Link::Shared, &[]);
    assert_eq!((code, err.as_str(), out.as_str()), (0, "", "interrupted\niterations 0\nmoved 0\n"));
}

/// A host that flushes subnormals and rounds to 0 gets the bits that others get, and its environment back.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_c_hosts_floating_point_environment_has_no_say() {
    let [plain, flushing] = [&[][..], &["flush"]].map(|args| run("capi/tests/flush.c", Link::Shared, args));
    assert_eq!((plain.0, plain.2.as_str()), (0, "kept\n"), "{}", plain.1);
    assert!(plain.1.lines().filter(|l| l.starts_with("step")).count() > 2, "{}", plain.1);
    assert_eq!(flushing, plain);
}

/// Runs a program on the stand-in of a GPU, with these of its settings.
fn with_gpu(source: &str, args: &[&str], settings: &[(&str, &str)]) -> (i32, String, String) {
    let folder = sumsq_libcuda::folder().expect("the stand-in");
    let machine = [&[("LD_LIBRARY_PATH", folder.to_str().unwrap())], settings].concat();
    run_on(compiler("c99"), source, Link::Shared, args, &machine)
}

fn on_gpu(args: &[&str], settings: &[(&str, &str)]) -> (i32, String, String) {
    with_gpu("capi/tests/cuda.c", args, settings)
}

/// Memory of the GPU by descriptor and by DLPack, with a stream of the program's; what cannot be bound. Nothing is left on the device.
#[test]
fn arrays_on_a_gpu_are_bound_and_exported() {
    let counts = tempfile::NamedTempFile::new().unwrap();
    let report = [("SUMSQ_LIBCUDA_REPORT", counts.path().to_str().unwrap())];
    // X in with the plan and the solve and out behind each of three steps, A and M in.
    for (mode, said) in [("gpu", "solved, 7 copies\n"), ("refused", "refused\n")] {
        let (code, out, err) = with_gpu("capi/tests/arrays.c", &[mode], &report);
        assert_eq!((code, out.as_str(), err.as_str()), (0, said, ""));
        let counts = std::fs::read_to_string(counts.path()).unwrap();
        let left = |name: &str| number(&counts, name);
        assert_eq!(
            (left("allocations"), left("objects"), left("leaked")),
            (0.0, 0.0, 0.0),
            "{mode}:\n{counts}"
        );
    }
}

#[test]
fn tensors_of_the_host_are_set_and_exported() {
    let (code, out, err) = run("capi/tests/arrays.c", Link::Shared, &["cpu"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "solved\n", ""));
}

#[test]
fn a_gpu_solves_for_a_c_program() {
    let (code, out, err) = on_gpu(&["solve"], &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(out, "status 0\nstep 1\nstep 2\nx 0.5 1 1.5 2\nlast solve: status 0\n");
}

/// Every reason why no GPU is used is a status and a sentence; the CPU works in the same process.
#[test]
fn a_gpu_that_cannot_be_used_is_a_status() {
    let said = |out: &str, status: i32, words: &str| {
        let (first, last) = (format!("status {status}\n"), "\nlast solve: status 0\n");
        assert!(out.starts_with(&first) && out.contains(words) && out.ends_with(last), "{out}");
    };
    // A folder without a driver comes first, where one is installed.
    let (code, out, _) = run_on(compiler("c99"), "capi/tests/cuda.c", Link::Shared, &["solve"], &[]);
    assert_eq!(code, 0, "{out}");
    said(&out, 4, "GPU not used: ");
    for (setting, value, words) in [
        ("SUMSQ_LIBCUDA_DEVICES", "0", "no device on this machine"),
        ("SUMSQ_LIBCUDA_DRIVER_VERSION", "11080", "supports CUDA 11.8, at least 12.0 is needed"),
        ("SUMSQ_LIBCUDA_CAPABILITY", "7.0", "has compute capability 7.0, at least 7.5 is needed"),
        ("SUMSQ_LIBCUDA_FAIL_CALL", "cuDevicePrimaryCtxRetain:46", "is taken by another process"),
    ] {
        said(&on_gpu(&["solve"], &[(setting, value)]).1, 4, words);
    }
    said(&on_gpu(&["solve", "7"], &[]).1, 4, "there is no CUDA device 7");
    said(&on_gpu(&["solve"], &[("SUMSQ_LIBCUDA_MEMORY", "4096")]).1, 3, "not enough memory on the GPU");
}

/// A device that fails in mid-solve: its own status, the unknowns as last handed out, and the CPU goes on.
#[test]
fn a_gpu_that_fails_in_mid_solve_leaves_the_last_step() {
    let (code, out, err) = on_gpu(&["fault"], &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(
        out,
        "status 0\nstep 1\nstatus 8: the GPU failed: illegal address\nafter 1 steps, one step is lost\n\
         x is that of step 1\nlast solve: status 0\n"
    );
}

/// Each header stands alone in any standard; both together, in either order, make one program.
#[test]
fn both_headers_serve_c_and_cpp() {
    for standard in ["c99", "c11", "c++98", "c++11", "c++20"] {
        for headers in [&["Opt.h"][..], &["sumsq.h"], &["Opt.h", "sumsq.h"], &["sumsq.h", "Opt.h"]] {
            let language = if standard.starts_with("c++") { "c++" } else { "c" };
            let included = headers.iter().flat_map(|header| ["-include", header]);
            let mut cc = compiler(standard);
            cc.args(included).args(["-fsyntax-only", "-x", language, "/dev/null"]);
            let built = cc.output().expect("a compiler");
            assert!(
                built.status.success(),
                "{standard} {headers:?}: {}",
                String::from_utf8_lossy(&built.stderr)
            );
        }
    }
    for order in [&[][..], &["-DOPT_LAST"]] {
        let mut cc = compiler("c++98");
        cc.args(order);
        let (code, out, err) = run_with(cc, "capi/tests/both.cpp", Link::Shared, &[]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(out.contains("refused: threadsPerBlock: expected 0 or a multiple of 32, came 5\n"), "{out}");
        assert!(out.contains("\nx 1 2 3\n"), "{out}");
        assert!(number(&out, "steps") >= 1.0, "{out}");
    }
}

fn energy_of(step: &str) -> f64 {
    step.split(' ').nth(3).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no energy in `{step}`"))
}
