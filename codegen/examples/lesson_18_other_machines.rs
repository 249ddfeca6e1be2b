//! Lesson 18: code for other machines.
//!
//! A *target* is the machine that code is made for: by default this one, with all instructions that it has. A program that is shipped is
//! better made for a *level* of x86-64, which fixes the instructions: every processor that has the level runs it, with the same bits.
//! Code for a processor that is not here (of another level, or an ARM one), or for a GPU, can be made here but not run.
//!
//! ```sh
//! cargo run -p sumsq-codegen --example lesson_18_other_machines
//! ```

use std::error::Error;
use sumsq_codegen::compile::aot::compile_to_object;
use sumsq_codegen::compile::{self, Compiled};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool};
use sumsq_codegen::target::Processor;
use sumsq_codegen::{Level, Pipeline, ScalarType, Schedule, Tail, Target, Var};

const SIZE: i32 = 1000;

/// halves(x) = x / 2 + 0.25
fn pipeline() -> Pipeline {
    let [x] = Var::all(["x"]);
    let mut p = Pipeline::new("lesson_18");
    let halves = p.define("halves", [x], x.expr().cast(ScalarType::F32) * 0.5 + 0.25);
    p.output(&halves);
    p
}

/// Vectors as long as those of the target.
fn schedule(target: &Target) -> Schedule {
    let mut s = Schedule::new();
    s.func("halves").vectorize("x", target.lanes, Tail::Predicate);
    s
}

pub fn main() -> Result<(), Box<dyn Error>> {
    let pipeline = pipeline();
    let want: Vec<f32> = (0..SIZE).map(|x| x as f32 * 0.5 + 0.25).collect();
    for (level, name) in Level::ALL {
        // A level that this machine lacks is refused: what is compiled here would not run.
        let target = match level.target() {
            Ok(target) => target,
            Err(missing) => {
                println!("{missing}");
                continue;
            }
        };
        let out = Buffer::new(BufferSpec::new(ScalarType::F32, &[SIZE]))?;
        Compiled::new(&pipeline, &schedule(&target), &target)?.run(
            &Pool::new(1),
            &[("halves", &out)],
            &[],
        )?;
        assert_eq!(out.to_vec::<f32>(), want);
        println!("{name}: {} lanes of f32", target.lanes);
    }

    // An object file is not run here, so it may be for any processor that LLVM knows by name.
    let host = Target::host();
    let processor =
        Processor { name: "skylake-avx512".into(), features: String::new(), ..host.processor.clone() };
    let elsewhere = Target { processor, lanes: 16, ..host };
    let library = compile_to_object(&pipeline, &schedule(&elsewhere), &elsewhere)?;
    println!("{} bytes for {}", library.object.len(), elsewhere.processor.name);
    assert!(library.object.starts_with(b"\x7fELF"));
    let arm = Level::Aarch64.anywhere();
    let library = compile_to_object(&pipeline, &schedule(&arm), &arm)?;
    println!("{} bytes for {}", library.object.len(), arm.processor.triple);

    // Kernels for a GPU are text, PTX, until the driver of one makes instructions of them.
    let mut kernels = Schedule::new();
    kernels
        .func("halves")
        .split("x", "block", "thread", 128, Tail::GuardWithIf)
        .gpu_blocks(&["block"])
        .gpu_threads(&["thread"]);
    let ptx = compile::ptx(&pipeline, &kernels, &Target::cuda(80))?;
    assert!(ptx.contains(".target sm_80") && ptx.matches(".visible .entry").count() == 1);
    println!("{} lines of PTX", ptx.lines().count());
    Ok(())
}
