//! Kernels of the example energies, those of multigrid and aggregation too, assembled for every compute capability that code is made for. `docs/kernels.md` has what they take of a
//! multiprocessor, and may not change unseen: `SUMSQ_UPDATE=1` rewrites it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use sumsq::codegen::Target;
use sumsq::codegen::compile::{ENDED, Phase, ended, gated, grid_loop, tick};
use sumsq::matrix_free::preconditioner::kinds;
use sumsq::ptxas::{Usage, assemble};
use sumsq::{Backend, CompileOptions, Precision, Preconditioner, SolveOptions, Solver};
use sumsq_libcuda::{Control, preload};
use sumsq_tests::{Case, example_energy, hold_page};

/// The energies, in the order of the table, each with a case, if there is one.
const ENERGIES: [(&str, Option<&str>); 12] = [
    ("laplacian", Some("laplacian")),
    ("poisson_image_editing", Some("poisson_image_editing_small")),
    ("curveFitting", Some("curveFitting")),
    ("image_warping", Some("image_warping_small")),
    ("optical_flow", Some("optical_flow_flower")),
    ("shape_from_shading", Some("shape_from_shading_small")),
    ("intrinsic_image_decomposition", None),
    ("volumetric_mesh_deformation", Some("volumetric_mesh_deformation")),
    ("arap_mesh_deformation", Some("arap_hand")),
    ("cotangent_mesh_smoothing", None),
    ("embedded_deformation", None),
    ("robust_nonrigid_alignment", None),
];

/// The compute capability of the table.
const SHOWN: u32 = 90;

const HEAD: &str = "\
# Kernels

What the kernels of the example energies take of a multiprocessor of compute capability 9.0, in mixed precision: registers and bytes of
stack of a thread, bytes that it spills for want of registers, bytes of shared memory of a block. `ptxas` 12.9 says so of generated code. The last
column has the PTX instructions of a launch, those of all threads, for each unknown number: counted by the interpreter that stands in for a GPU, in one step
of the energy's case in `data/cases`, `k_pcg_b_1` with what counts iterations behind it; cases are small, so that blocks at the border count for much. The test `kernels` holds this page to
both, and assembles the same energies for 7.5 and 10.0. The sweeps of PCG, which are in float32, spill nothing on any of the three.
Rows of `multigrid` and `aggregation` are the kernels of levels, couplings of elements apart; of these nothing is counted.

Kernels outside of PCG spill 16 to 48 bytes a thread where `ptxas` aims at more blocks for each multiprocessor than it has registers for. None of them
does so where it is told that one block is enough (`.minnctapersm 1`): then they take 52 to 146 registers in place of 32 to 128, and `k_damping_0` of
`embedded_deformation` 254 in place of 255. But nothing in their text tells them from the others, of which 177 would take more registers, too, for
nothing; so that is asked for only of kernels with very many buffers.

| energy | kernel | registers | stack | spills | shared | instructions |
|---|---|---|---|---|---|---|
";

/// An energy by its number, with a preconditioner, for a compute capability.
type Job = (usize, Preconditioner, u32);

/// All that are assembled: with levels, which take most of the time, only of a few for any but the table's capability.
fn jobs() -> Vec<Job> {
    let mut all = vec![];
    for (i, (name, _)) in ENERGIES.iter().enumerate() {
        let energy = example_energy(name);
        for sm in [75, SHOWN, 100] {
            all.push((i, Preconditioner::Auto, sm));
            let wanted =
                sm == SHOWN || ["laplacian", "image_warping", "arap_mesh_deformation"].contains(name);
            let levels = [Preconditioner::Multigrid, Preconditioner::Aggregation].into_iter();
            let levels = levels.filter(|kind| wanted && kinds::chosen(*kind, &energy).is_ok());
            all.extend(levels.map(|kind| (i, kind, sm)));
        }
    }
    all
}

/// The kernels of a job; with levels those of levels alone, without couplings of elements.
fn kernels((energy, preconditioner, sm): Job) -> Vec<Usage> {
    let energy = ENERGIES[energy].0;
    let options = CompileOptions {
        precision: Precision::Mixed,
        capability: Some(sm),
        preconditioner,
        ..CompileOptions::default()
    };
    let auto = preconditioner == Preconditioner::Auto;
    let own = |name: &str| auto || name.contains('@') || name.contains("aggregates");
    let all = sumsq::ptx_of(&example_energy(energy), &options, own);
    let all = all.unwrap_or_else(|e| panic!("{energy}: {e}"));
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

/// Runs a step of a case; afterwards the machine has counts of its kernels. Returns the number of unknown scalars.
fn step(machine: &Control, case: &str) -> u64 {
    let case = Case::open(case);
    let options = CompileOptions {
        precision: Precision::Mixed,
        backend: Backend::Cuda,
        threads: Some(1),
        ..CompileOptions::default()
    };
    let solve = SolveOptions { iterations: Some(1), linear_iterations: Some(2), ..SolveOptions::default() };
    let mut data = case.data();
    machine.reset_counters();
    let solver =
        Solver::compile(case.energy.clone(), &options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let solved = solver.plan(&data).unwrap_or_else(|e| panic!("{}: {e}", case.name)).solve(&mut data, &solve);
    solved.unwrap_or_else(|e| panic!("{}: {e}", case.name));
    data.x().len() as u64
}

/// Rows of the table: per kernel what it takes, and instructions for each unknown where those of a step are counted.
fn rows(machine: &Control, (energy, case): (&str, Option<&str>), usages: &[Usage]) -> String {
    let unknowns = case.map(|case| step(machine, case));
    let instructions = |kernel: &str| {
        let own = machine.kernel_counters(kernel);
        // The last one of an iteration runs with what counts iterations behind it.
        let is_last = own.launches == 0 && kernel.starts_with("k_pcg_b_");
        let counts = if is_last { machine.kernel_counters(ENDED) } else { own };
        let per = unknowns.filter(|_| counts.launches > 0)? * counts.launches;
        Some(counts.instructions.div_ceil(per).to_string())
    };
    let row = |Usage { kernel, registers, stack, spills, shared }: &Usage| {
        let instructions = instructions(kernel).unwrap_or_default();
        format!("| {energy} | `{kernel}` | {registers} | {stack} | {spills} | {shared} | {instructions} |\n")
    };
    usages.iter().map(row).collect()
}

#[test]
fn kernels_assemble_and_take_what_the_page_says() {
    // Before any thread asks for a driver.
    let machine = preload().expect("the stand-in of the driver is there");
    let (queue, shown) = (Mutex::new(jobs().into_iter()), Mutex::new(BTreeMap::new()));
    let spilling = Mutex::new(vec![]);
    let work = || {
        loop {
            let next = queue.lock().expect("no job panics").next();
            let Some(job) = next else { return };
            let (usages, (i, kind, sm)) = (kernels(job), job);
            // The sweeps of PCG are in float32.
            for u in usages.iter().filter(|u| u.kernel.contains("pcg") && u.spills > 0) {
                let one = format!("{}, {}, sm_{sm}: {} bytes", ENERGIES[i].0, u.kernel, u.spills);
                spilling.lock().expect("no job panics").push(one);
            }
            if sm == SHOWN {
                shown.lock().expect("no job panics").insert((i, kind as usize), usages);
            }
        }
    };
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..2).map(|_| s.spawn(work)).collect();
        threads.into_iter().for_each(|t| t.join().expect("every kernel assembles"));
    });
    let spilling = spilling.into_inner().expect("no job panics");
    let mut page = HEAD.to_string();
    for ((i, kind), usages) in shown.into_inner().expect("no job panics") {
        let (energy, case) = ENERGIES[i];
        match Preconditioner::ALL[kind] {
            (Preconditioner::Auto, _) => page += &rows(&machine, (energy, case), &usages),
            (_, kind) => page += &rows(&machine, (&format!("{energy}, {kind}"), None), &usages),
        }
    }
    hold_page("docs/kernels.md", &page);
    assert!(spilling.is_empty(), "sweeps of PCG spill: {spilling:?}");
}

/// A kernel of a module from its name on, some of whose arguments change.
fn phase<'a>(ptx: &'a str, entry: &'a str) -> Phase<'a> {
    let (name, rest) = entry.split_once('(').expect("a kernel has parameters");
    let arguments = rest.split(')').next().unwrap_or_default().matches(".param ").count();
    Phase { ptx, name, changes: (0..arguments).map(|i| i % 4 == 1).collect() }
}

/// PCG as one kernel, some of whose arguments change from iteration to iteration.
#[test]
fn loops_of_kernels_assemble() {
    let all = [("laplacian", 75, 256), ("image_warping", 90, 256), ("arap_mesh_deformation", 100, 128)];
    for (energy, sm, threads) in all {
        let options =
            CompileOptions { precision: Precision::Mixed, capability: Some(sm), ..CompileOptions::default() };
        let of_pcg = |name: &str| name.starts_with("pcg_");
        let modules = sumsq::ptx_of(&example_energy(energy), &options, of_pcg).unwrap();
        let entries =
            modules.iter().flat_map(|(_, ptx)| ptx.split(".entry ").skip(1).map(move |rest| (ptx, rest)));
        let phases: Vec<Phase> = entries.map(|(ptx, rest)| phase(ptx, rest)).collect();
        assert!(phases.len() >= 4, "{energy}: {}", phases.len());
        let text = grid_loop(&phases, threads).unwrap_or_else(|| panic!("{energy}: the kernels are not one"));
        let usages = assemble(&text, sm).unwrap_or_else(|e| panic!("{energy}, sm_{sm}: {e}"));
        assert_eq!(usages.iter().map(|u| u.spills).collect::<Vec<_>>(), [0], "{energy}, sm_{sm}");
        // What has another number of threads is no part of it, and variables of a module have two meanings.
        assert_eq!(grid_loop(&phases, threads / 2), None);
        let (tick, name) = tick(&Target::cuda(sm), false).unwrap();
        let last = phases.iter().find(|p| p.name == "k_pcg_b_1").expect("the end of an iteration");
        let last = &Phase { changes: vec![false; last.changes.len()], ..last.clone() };
        let counts = Phase { ptx: &tick, name, changes: vec![false; 6] };
        let text =
            ended(last, threads, &counts).unwrap_or_else(|| panic!("{energy}: nothing goes behind it"));
        let usages = assemble(&text, sm).unwrap_or_else(|e| panic!("{energy}, sm_{sm}: {e}"));
        assert_eq!(usages.iter().map(|u| u.spills).collect::<Vec<_>>(), [0], "{energy}, sm_{sm}");
        assert_eq!(ended(last, threads / 2, &counts), None);
    }
    let shared = ".version 7.0\n.target sm_75\n.address_size 64\n.shared .align 4 .b8 s[4];\n\
                  .visible .entry k()\n.reqntid 256, 1, 1\n{\n\tret;\n}\n";
    assert_eq!(grid_loop(&[Phase { ptx: shared, name: "k", changes: vec![] }], 256), None);
    let function = shared.replace(".shared .align 4 .b8 s[4];", ".func f()\n{\n\tret;\n}");
    assert_eq!(grid_loop(&[Phase { ptx: &function, name: "k", changes: vec![] }], 256), None);
    let plain = shared.replace(".shared .align 4 .b8 s[4];\n", "");
    let one = grid_loop(&[Phase { ptx: &plain, name: "k", changes: vec![] }], 256).unwrap();
    assert!(assemble(&one, 75).is_ok());
}

#[test]
fn gates_assemble() {
    for sm in [75, 80, 90, 100] {
        let options = CompileOptions { capability: Some(sm), ..CompileOptions::default() };
        for (name, text) in sumsq::ptx(&example_energy("laplacian"), &options).unwrap() {
            let count = |text: &str| assemble(text, sm).unwrap_or_else(|e| panic!("{name}: {e}")).len();
            assert_eq!(count(&gated(&text)), count(&text), "{name}");
        }
    }
    // A kernel without parameters has one then.
    let plain = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n";
    assert!(assemble(&gated(plain), 75).is_ok());
}
