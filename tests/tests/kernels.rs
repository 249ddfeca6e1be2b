//! Kernels of the example energies, assembled for every compute capability that code is made for. `docs/kernels.md` has what they take of a
//! multiprocessor, and may not change unseen: `SUMSQ_UPDATE=1` rewrites it.

use std::fmt::Write;
use std::sync::Mutex;
use sumsq::codegen::ptxas::{Usage, assemble};
use sumsq::{CompileOptions, Precision};
use sumsq_tests::{example_energy, workspace_root};

/// The energies, in the order of the table.
const ENERGIES: [&str; 12] = [
    "laplacian",
    "poisson_image_editing",
    "curveFitting",
    "image_warping",
    "optical_flow",
    "shape_from_shading",
    "intrinsic_image_decomposition",
    "volumetric_mesh_deformation",
    "arap_mesh_deformation",
    "cotangent_mesh_smoothing",
    "embedded_deformation",
    "robust_nonrigid_alignment",
];

/// The compute capability of the table.
const SHOWN: u32 = 90;

const HEAD: &str = "\
# Kernels

What the kernels of the example energies take of a multiprocessor of compute capability 9.0, in mixed precision: registers and bytes of
stack of a thread, bytes that it spills for want of registers, bytes of shared memory of a block. `ptxas` 12.9 says so of generated code; the test
`kernels` holds this page to it, and assembles the same energies for 7.5, 8.0 and 10.0.

| energy | kernel | registers | stack | spills | shared |
|---|---|---|---|---|---|
";

const SPILLS: &str = "
Sweeps of PCG that spill, by compute capability:

| energy | kernel | capability | bytes |
|---|---|---|---|
";

/// The kernels of an energy for a compute capability.
fn kernels(energy: &str, sm: u32) -> Vec<Usage> {
    let options =
        CompileOptions { precision: Precision::Mixed, capability: Some(sm), ..CompileOptions::default() };
    let all = sumsq::ptx(&example_energy(energy), &options).unwrap_or_else(|e| panic!("{energy}: {e}"));
    let assembled = |(name, text): (String, String)| {
        let bare = ["add", "sub", "mul", "fma"]
            .iter()
            .flat_map(|op| ["f32", "f64"].map(|ty| format!("\t{op}.{ty} ")));
        for op in bare {
            assert!(!text.contains(&op), "{energy}, {name}: `{op}` has no rounding: ptxas may fuse it");
        }
        assemble(&text, sm).unwrap_or_else(|e| panic!("{energy}, {name}, sm_{sm}: {e}"))
    };
    all.into_iter().flat_map(assembled).collect()
}

#[test]
fn kernels_assemble_and_take_what_the_page_says() {
    let jobs: Vec<(usize, u32)> =
        [75, 80, 90, 100].iter().flat_map(|&sm| (0..ENERGIES.len()).map(move |i| (i, sm))).collect();
    let (queue, rows) = (Mutex::new(jobs.into_iter()), Mutex::new(vec![vec![]; ENERGIES.len()]));
    let spilling = Mutex::new(vec![]);
    let work = || {
        loop {
            let next = queue.lock().expect("no job panics").next();
            let Some((i, sm)) = next else { return };
            let usages = kernels(ENERGIES[i], sm);
            // The sweeps of PCG are in float32.
            for u in usages.iter().filter(|u| u.kernel.contains("pcg") && u.spills > 0) {
                let row =
                    format!("| {} | `{}` | {}.{} | {} |", ENERGIES[i], u.kernel, sm / 10, sm % 10, u.spills);
                spilling.lock().expect("no job panics").push((i, sm, row));
            }
            if sm == SHOWN {
                rows.lock().expect("no job panics")[i] = usages;
            }
        }
    };
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..2).map(|_| s.spawn(work)).collect();
        threads.into_iter().for_each(|t| t.join().expect("every kernel assembles"));
    });
    let mut page = HEAD.to_string();
    for (energy, usages) in ENERGIES.iter().zip(rows.into_inner().expect("no job panics")) {
        for u in usages {
            let Usage { kernel, registers, stack, spills, shared } = u;
            let _ = writeln!(page, "| {energy} | `{kernel}` | {registers} | {stack} | {spills} | {shared} |");
        }
    }
    page.push_str(SPILLS);
    let mut spilling = spilling.into_inner().expect("no job panics");
    spilling.sort();
    spilling.into_iter().for_each(|(_, _, row)| page += &(row + "\n"));
    let path = workspace_root().join("docs/kernels.md");
    if std::env::var_os("SUMSQ_UPDATE").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let was = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = was.lines().zip(page.lines()).find(|(was, is)| was != is);
    assert!(was == page, "docs/kernels.md differs, {differs:?}: SUMSQ_UPDATE=1 rewrites it");
}
