//! Applications by their schedules for a GPU, counted by the stand-in for the driver, and their kernels assembled. `docs/gpu_pipelines.md` has
//! the counts, which may not change unseen: `SUMSQ_UPDATE=1` rewrites it.

use sumsq::codegen::compile::ptx;
use sumsq::codegen::limits::Effort;
use sumsq::codegen::runtime::Pool;
use sumsq::codegen::{Schedule, Target};
use sumsq::ptxas::{Usage, assemble};
use sumsq_examples::pipelines::{ALL, Application, Planar, Prepared};
use sumsq_libcuda::{Control, preload};
use sumsq_tests::pipelines::{self, Size, numbers};
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

/// An application, compiled under a schedule, and its inputs.
fn prepared(
    application: &'static Application,
    schedule: &Schedule,
    target: &Target,
    effort: Effort,
) -> (Prepared, Vec<Planar>) {
    let made = pipelines::prepared(application, schedule, target, effort, Size::Small);
    made.unwrap_or_else(|e| panic!("{}: {e}", application.name))
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
    pipelines::same(&came, &expected).unwrap_or_else(|e| panic!("{name}: {e}"));
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
