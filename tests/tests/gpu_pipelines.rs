//! Applications by their schedules for a GPU, counted by the stand-in for the driver, and their kernels assembled. `docs/gpu_pipelines.md` has
//! the counts, which may not change unseen: `SUMSQ_UPDATE=1` rewrites it.

use sumsq::codegen::compile::ptx;
use sumsq::codegen::limits::{Effort, Limits};
use sumsq::codegen::runtime::Pool;
use sumsq::codegen::{Schedule, Target};
use sumsq::ptxas::{Usage, assemble};
use sumsq_examples::pipelines::{ALL, Algorithm, Application, Planar, Prepared, Values};
use sumsq_libcuda::{Control, preload};
use sumsq_tests::{hold_page, workspace_root};

/// The compute capability of the table.
const SHOWN: u32 = 90;

const HEAD: &str = "\
# Pipelines on a GPU

Counts of every application of `sumsq pipeline` under its schedule `gpu`, in one run. Counted by the interpreter that stands in for a GPU: kernels launched, copies
back to the host before the output is there, PTX instructions of all threads for each value of the output, and bytes of global memory that threads load and
store for each such value, those that a cache would answer among them. `ptxas` 12.9 says for a multiprocessor of compute capability 9.0 how many bytes of shared memory
a block takes, how many registers a thread, and how many bytes it spills: the most of any kernel. The test `gpu_pipelines` holds this page to both, and
the outputs to those of the schedule `root` of a processor. `SUMSQ_UPDATE=1 cargo test -p sumsq-tests --test gpu_pipelines` rewrites it.

| application | output | launches | copies back | instructions | loaded | stored | shared | registers | spills |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|
";

/// Numbers that look like noise, the same in every run: in [0, 1).
fn noise(extents: &[i32]) -> Vec<f32> {
    let mut state = 1u32;
    let next = || {
        state = state.wrapping_mul(0x915f_77f5).wrapping_add(1);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    std::iter::repeat_with(next).take(extents.iter().product::<i32>() as usize).collect()
}

fn real(extents: &[i32]) -> Planar {
    Planar { extents: extents.to_vec(), values: Values::F32(noise(extents)) }
}

fn bytes(extents: &[i32]) -> Planar {
    let values = noise(extents).iter().map(|v| (v * 256.0) as u8).collect();
    Planar { extents: extents.to_vec(), values: Values::U8(values) }
}

fn whole(extents: &[i32], below: u16) -> Planar {
    let values = noise(extents).iter().map(|v| (v * f32::from(below)) as u16).collect();
    Planar { extents: extents.to_vec(), values: Values::U16(values) }
}

/// Inputs of an application that give its kernels some blocks, and parameters that keep the work small.
fn small(name: &str) -> (Vec<Planar>, &'static [(&'static str, &'static str)]) {
    match name {
        "blur" => (vec![whole(&[128, 96], 4096)], &[]),
        "stencil_chain" => (vec![whole(&[64, 64], 4096)], &[]),
        "bilateral_grid" => (vec![real(&[128, 96])], &[]),
        "hist" => (vec![bytes(&[128, 96, 3])], &[]),
        "local_laplacian" => (vec![whole(&[384, 256, 3], u16::MAX)], &[("levels", "4")]),
        "interpolate" => (vec![real(&[128, 96, 4])], &[]),
        "camera_pipe" => (vec![whole(&[160, 144], 1023), real(&[4, 3]), real(&[4, 3])], &[]),
        "demosaic_bilinear" | "demosaic_ahd" => (vec![real(&[128, 96])], &[]),
        "demosaic_learned" => {
            let filters = [&[5, 5, 2][..], &[5, 5, 2], &[2, 3], &[3, 2], &[2, 2]].map(real);
            ([&[real(&[128, 96])], &filters[..]].concat(), &[])
        }
        "nl_means" => (vec![real(&[64, 64, 3])], &[("patch", "5"), ("search", "5")]),
        "max_filter" => (vec![real(&[64, 64, 3])], &[]),
        "resize" => (vec![bytes(&[256, 192, 3])], &[]),
        "lens_blur" => (
            vec![bytes(&[64, 64, 3]), bytes(&[64, 64, 3])],
            &[("slices", "8"), ("focus", "3"), ("samples", "8")],
        ),
        "guided_upsampling" => {
            let small = real(&[48, 32, 3]);
            (vec![real(&[192, 128, 3]), small.clone(), small], &[("s_sigma", "8")])
        }
        "compositing" => {
            let ways = Planar { extents: vec![5], values: Values::Int(vec![0, 1, 2, 3, 4]) };
            ((0..6).map(|_| bytes(&[128, 96, 4])).chain([ways]).collect(), &[])
        }
        "conv_layer" => (vec![real(&[32, 34, 18, 1]), real(&[64, 3, 3, 32]), real(&[64])], &[]),
        "depthwise_separable_conv" => {
            (vec![real(&[32, 32, 16, 1]), real(&[1, 32, 3, 3]), real(&[32, 32]), real(&[32])], &[])
        }
        "sgemm" => (vec![real(&[128, 64]), real(&[64, 128]), real(&[128, 128])], &[]),
        "fft" => (vec![real(&[32, 32, 4]), real(&[32, 32, 4])], &[]),
        "bilateral_slice" => {
            (vec![real(&[16, 12, 8, 12, 1]), real(&[128, 96, 1]), real(&[128, 96, 3, 1])], &[("cell", "8")])
        }
        "bilateral_slice_3d" => {
            let volume = [real(&[32, 16, 8, 1]), real(&[32, 16, 8, 3, 1])];
            ([&[real(&[4, 2, 1, 8, 12, 1])], &volume[..]].concat(), &[("cell", "8")])
        }
        "spatial_transformer" => (vec![real(&[128, 96, 3, 1]), real(&[3, 2, 1])], &[]),
        "flow_warp" | "bicubic_warp" => (vec![real(&[128, 96, 3, 1]), real(&[128, 96, 2, 1])], &[]),
        _ => (vec![real(&[128, 96, 3])], &[]),
    }
}

/// An application, compiled under a schedule, and its inputs.
fn prepared(
    application: &'static Application,
    schedule: &Schedule,
    target: &Target,
    effort: Effort,
) -> (Prepared, Vec<Planar>) {
    let (inputs, params) = small(application.name);
    let params: Vec<(String, String)> = params.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let bits = if matches!(inputs[0].values, Values::U8(_)) { 8 } else { 16 };
    let setup = application.setup(&params, bits).expect("the parameters are taken");
    let limits = Limits { effort, ..Limits::default() };
    let prepared = Prepared::within(Algorithm::new(application, setup), schedule, target, limits);
    (prepared.unwrap_or_else(|e| panic!("{}: {e}", application.name)), inputs)
}

/// All values of an output.
fn numbers(of: &Planar) -> Vec<f64> {
    match &of.values {
        Values::U8(v) => v.iter().map(|&v| v.into()).collect(),
        Values::U16(v) => v.iter().map(|&v| v.into()).collect(),
        Values::F32(v) => v.iter().map(|&v| v.into()).collect(),
        other => panic!("{other:?} is no output"),
    }
}

/// The row of an application under a schedule, whose outputs must be those of its plainest one for a CPU.
fn row(machine: &Control, application: &'static Application, schedule: &Schedule) -> String {
    let (name, pool, host) = (application.name, Pool::new(2), Target::host());
    let root = application.schedule("root").expect("it is listed").expect("it is a schedule");
    let (on_cpu, inputs) = prepared(application, &root, &host, Effort::Least);
    let expected = on_cpu.run(&pool, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
    let target = Target::cuda(SHOWN);
    let (on_gpu, inputs) = prepared(application, schedule, &target, Effort::Full);
    machine.reset_counters();
    let came = on_gpu.run(&pool, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
    let counted = machine.counters();
    for ((output, came), (_, expected)) in came.iter().zip(&expected) {
        let (came, expected) = (numbers(came), numbers(expected));
        let most = expected.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        assert!(came.len() == expected.len() && most > 0.0, "{name}: {output}");
        for (i, (a, b)) in came.iter().zip(&expected).enumerate() {
            assert!((a - b).abs() <= 1e-4 * most, "{name}: {output}, value {i}: {a}, expected {b}");
        }
    }
    let text = ptx(&on_gpu.algorithm.pipeline, schedule, &target).unwrap_or_else(|e| panic!("{name}: {e}"));
    let usages = assemble(&text, SHOWN).unwrap_or_else(|e| panic!("{name}: {e}"));
    let most = |of: fn(&Usage) -> u32| usages.iter().map(of).max().unwrap_or(0);
    let values: u64 = came.iter().map(|(_, output)| numbers(output).len() as u64).sum();
    let each = |n: u64| format!("{:.1}", n as f64 / values as f64);
    let extents: Vec<String> = came[0].1.extents.iter().map(i32::to_string).collect();
    format!(
        "| `{name}` | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        extents.join(" x "),
        counted.launches,
        counted.copies_to_host - came.len() as u64,
        each(counted.instructions),
        each(counted.bytes_loaded),
        each(counted.bytes_stored),
        most(|u| u.shared),
        most(|u| u.registers),
        most(|u| u.spills),
    )
}

/// The two schedules of `unsharp` that `docs/pipelines.md` shows, and what it says of them.
fn example(machine: &Control) {
    let page = std::fs::read_to_string(workspace_root().join("docs/pipelines.md")).expect("the page");
    let blocks: Vec<&str> =
        page.split("```schedule\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let unsharp = Application::find("unsharp").expect("the application is listed");
    let own = unsharp.schedule("gpu").expect("a schedule of a GPU").expect("it is a schedule");
    let [first, now] = [0, 1].map(|k| Schedule::parse(blocks[k]).expect("it is a schedule"));
    assert_eq!(now.to_string(), own.to_string(), "docs/pipelines.md shows another schedule");
    let table = row(machine, unsharp, &first) + &row(machine, unsharp, &own);
    assert!(page.contains(&table), "docs/pipelines.md has not\n{table}");
}

#[test]
fn pipelines_take_what_the_page_says() {
    // Before any thread asks for a driver.
    let machine = preload().expect("the stand-in of the driver is there");
    let mut page = HEAD.to_string();
    for application in ALL {
        let schedule = application.schedule("gpu").expect("a schedule of a GPU").expect("it is a schedule");
        page += &row(&machine, application, &schedule);
    }
    hold_page("docs/gpu_pipelines.md", &page);
    example(&machine);
}
