//! Memory stays flat: of the device and of the process, over many solves, some of which compile and load anew.

use super::Extent;
use sumsq::codegen::runtime::cuda::Device;
use sumsq::{Backend, CompileOptions, SolveOptions, Solver};
use sumsq_tests::Case;

/// Solves before memory is looked at first: caches of the driver and of the allocator fill. A process on an H100 grows by 4 MB in the first 400, by
/// half a megabyte in the next 400.
const FIRST: (usize, usize) = (500, 10);

/// Bytes that the process may grow by: two kilobytes a solve.
const GROWTH: u64 = 2 << 20;

pub fn memory(extent: Extent) {
    let device = Device::shared(0).unwrap_or_else(|e| panic!("{e}"));
    let case = Case::open("laplacian_small");
    let compile = CompileOptions { backend: Backend::Cuda, threads: Some(1), ..CompileOptions::default() };
    let solve = SolveOptions { iterations: Some(2), ..SolveOptions::default() };
    let anew = || Solver::compile(case.energy.clone(), &compile).unwrap_or_else(|e| panic!("{e}"));
    let (first, solves) = (extent.of(FIRST.0, FIRST.1), extent.of(1000, 20));
    let mut solver = anew();
    let mut energies = vec![];
    let mut start = None;
    for n in 0..solves + first {
        if n % 50 == 5 {
            solver = anew();
        }
        if n == first {
            start = Some(used(&device));
        }
        if n % 100 == 10 {
            println!("{n} solves: bytes of the device and of the process {:?}", used(&device));
        }
        let mut data = case.data();
        let mut problem = solver.plan(&data).unwrap_or_else(|e| panic!("{e}"));
        energies.push(problem.solve(&mut data, &solve).unwrap_or_else(|e| panic!("{e}")).energy_final);
    }
    let (start, end) = (start.expect("a first look"), used(&device));
    println!("bytes of the device and of the process: {start:?}, {end:?} after {solves} solves");
    assert!(energies.iter().all(|e| *e == energies[0]), "the same E each time");
    assert!(end.0 <= start.0, "the device has {} bytes less", end.0 - start.0);
    // Of few solves nothing is seen among what the allocator keeps.
    let most = start.1 + extent.of(GROWTH, 16 * GROWTH);
    assert!(end.1 <= most, "the process has grown by {} bytes", end.1.saturating_sub(start.1));
}

/// Bytes in use on the device and in the process.
fn used(device: &Device) -> (u64, u64) {
    let memory = device.memory().unwrap_or_else(|e| panic!("{e}"));
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    (memory.total - memory.free, 1024 * kilobytes.unwrap_or(0))
}
