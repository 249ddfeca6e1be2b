//! Pipelines compiled ahead of time, linked into a C program with the small runtime, and run: the same results to the bit as in
//! this process, and errors in words.

use std::path::{Path, PathBuf};
use std::process::Command;
use sumsq_codegen::backend::HostTarget;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::compile::aot::{compile_to_object, write_runtime};
use sumsq_codegen::expr::UnaryOp;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_codegen::{Error, Expr, Func, Input, LoopLevel, Pipeline, RDom, ScalarType, Schedule, Tail, Var};

const F32: ScalarType = ScalarType::F32;
const I32: ScalarType = ScalarType::I32;
/// Domain of `smooth`.
const SIZE: [i32; 2] = [37, 21];

/// A blur in parallel strips with a ring on the heap, of values with a maths function; and their sum.
fn smooth() -> (Pipeline, Schedule) {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());
    let mut p = Pipeline::new("smooth");
    let mut input = Input::new("image", &[F32], 2);
    input.halo = vec![1, 1];
    let i = p.input(input);
    let gain = p.param("gain", F32);
    let wave = |dx: i64| (i.at(&[&x + dx, y.clone()], 0) * &gain).unary(UnaryOp::Cosh);
    let rows = p.func(Func::new("rows", &[vx.clone(), vy.clone()], vec![wave(-1) + wave(1)]));
    let at = |dy: i64| rows.at(&[x.clone(), &y + dy], 0);
    let out = p.func(Func::new("result", &[vx, vy], vec![at(-1) + at(1), at(0)]));
    let r = RDom::new([("r", Expr::from(0), i.extent(0)), ("q", Expr::from(0), i.extent(1))]);
    let here = [r.var(0), r.var(1)];
    let total = p.func(Func::sum("total", &[], r, vec![i.at(&here, 0).cast(ScalarType::F64)]));
    p.output(&out);
    p.output(&total);
    let mut s = Schedule::new();
    s.func("result")
        .split("y", "strip", "row", 4, Tail::GuardWithIf)
        .vectorize("x", 8, Tail::Predicate)
        .parallel("strip");
    let (store, compute) = (LoopLevel::pure("result", "strip"), LoopLevel::pure("result", "row"));
    s.func("rows").store_at(store).compute_at(compute).fold_storage("y", 4).vectorize(
        "x",
        8,
        Tail::Predicate,
    );
    (p, s)
}

/// out(v) = v n, n promised to be a digit.
fn times() -> Pipeline {
    let v = Var::new("v");
    let mut p = Pipeline::new("times");
    let n = p.param_in("n", I32, 0, 9);
    let out = p.func(Func::new("out", std::slice::from_ref(&v), vec![v.expr() * n]));
    p.output(&out);
    p
}

/// out(v) = table(ids(v)), ids promised to be in the table.
fn gather() -> Pipeline {
    let v = Var::new("v");
    let mut p = Pipeline::new("gather");
    let n = sumsq_codegen::func::extent_param("table", 0);
    let mut ids = Input::new("ids", &[I32], 1);
    ids.value_range = Some((Expr::from(0), n - 1));
    let ids = p.input(ids);
    let table = p.input(Input::new("table", &[F32], 1));
    let out =
        p.func(Func::new("out", std::slice::from_ref(&v), vec![table.at(&[ids.at(&[v.expr()], 0)], 0)]));
    p.output(&out);
    p
}

const PROGRAM: &str = r#"
#include "smooth.h"
#include "gather.h"
#include "times.h"
#include <stdio.h>

static void run_smooth(int threads) {
    int32_t size[] = { 37, 21 }, halo[] = { 1, 1 };
    sumsq_buffer image = sumsq_new(SUMSQ_F32, 1, 2, size, halo);
    sumsq_buffer result = sumsq_new(SUMSQ_F32, 2, 2, size, NULL);
    sumsq_buffer total = sumsq_new(SUMSQ_F64, 1, 0, NULL, NULL);
    for (int32_t y = -1; y <= size[1]; y++)
        for (int32_t x = -1; x <= size[0]; x++) {
            int32_t at[] = { x, y };
            *(float *)sumsq_at(&image, at, 0) = (float)((x * 7 + y * 3) % 11) * 0.25f;
        }
    sumsq_set_threads(threads);
    if (smooth(&image, &result, &total, 0.5f)) printf("smooth failed: %s\n", sumsq_message());
    for (int32_t k = 0; k < 2; k++)
        for (int32_t y = 0; y < size[1]; y++)
            for (int32_t x = 0; x < size[0]; x++) {
                int32_t at[] = { x, y };
                uint32_t bits;
                memcpy(&bits, sumsq_at(&result, at, k), sizeof bits);
                printf("%08x\n", (unsigned)bits);
            }
    printf("%.17g\n", *(double *)sumsq_at(&total, NULL, 0));
    if (smooth(&image, &image, &total, 0.5f)) printf("%s\n", sumsq_message());
    if (smooth(&result, &result, &total, 0.5f)) printf("%s\n", sumsq_message());
    sumsq_delete(&image);
    sumsq_delete(&result);
    sumsq_delete(&total);
}

static void run_gather(void) {
    int32_t four = 4, five = 5, three = 3;
    sumsq_buffer ids = sumsq_new(SUMSQ_I32, 1, 1, &four, NULL);
    sumsq_buffer table = sumsq_new(SUMSQ_F32, 1, 1, &three, NULL);
    sumsq_buffer out = sumsq_new(SUMSQ_F32, 1, 1, &four, NULL), more = sumsq_new(SUMSQ_F32, 1, 1, &five, NULL);
    for (int32_t i = 0; i < 3; i++) ((float *)table.origin)[i] = (float)(i * i + 1);
    for (int32_t i = 0; i < 4; i++) ((int32_t *)ids.origin)[i] = (i * 2) % 3;
    if (gather(&ids, &table, &out)) printf("gather failed: %s\n", sumsq_message());
    for (int32_t i = 0; i < 4; i++) printf("%g ", (double)((float *)out.origin)[i]);
    printf("\n");
    if (gather(&ids, &table, &more)) printf("%s\n", sumsq_message());
    ((int32_t *)ids.origin)[2] = 3;
    if (gather(&ids, &table, &out)) printf("%s\n", sumsq_message());
    if (gather(&ids, NULL, &out)) printf("%s\n", sumsq_message());
    sumsq_delete(&ids);
    sumsq_delete(&table);
    sumsq_delete(&out);
    sumsq_delete(&more);
}

static void run_times(void) {
    int32_t three = 3;
    sumsq_buffer out = sumsq_new(SUMSQ_I32, 1, 1, &three, NULL);
    if (times(&out, 9)) printf("times failed: %s\n", sumsq_message());
    printf("%d\n", (int)((int32_t *)out.origin)[2]);
    if (times(&out, 10)) printf("%s\n", sumsq_message());
    if (times(&out, -1)) printf("%s\n", sumsq_message());
    sumsq_delete(&out);
}

int main(void) {
    run_smooth(1);
    run_smooth(3);
    run_gather();
    run_times();
    return 0;
}
"#;

fn folder() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("aot");
    std::fs::create_dir_all(&dir).expect("a folder for the test");
    dir
}

/// Compiles and runs the program; its output.
fn run_program(dir: &Path) -> String {
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let run = |command: &mut Command| {
        let out = command.current_dir(dir).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{command:?}: {}\n{errors}", out.status);
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", "program"];
    let files = ["program.c", "smooth.o", "gather.o", "times.o", "sumsq_runtime.c", "-lm", "-lpthread"];
    run(Command::new(cc).args(flags).args(files));
    run(&mut Command::new(dir.join("program")))
}

/// What the program prints of `smooth`, computed in this process.
fn smooth_here() -> Vec<String> {
    let (p, s) = smooth();
    let compiled = Compiled::new(&p, &s, &HostTarget::host()).expect("compiles");
    let new = |ty, channels, extents: &[i32], halo: &[u32]| {
        Buffer::new(BufferSpec::new(ty, extents).channels(channels).halo(halo)).expect("memory")
    };
    let image = new(F32, 1, &SIZE, &[1, 1]);
    for y in -1..=SIZE[1] {
        for x in -1..=SIZE[0] {
            assert!(image.set(&[x, y], 0, ((x * 7 + y * 3) % 11) as f32 * 0.25));
        }
    }
    let (result, total) = (new(F32, 2, &SIZE, &[0, 0]), new(ScalarType::F64, 1, &[], &[]));
    let buffers = [("image", &image), ("result", &result), ("total", &total)];
    compiled.run(&Pool::new(2), &buffers, &[("gain", Scalar::F32(0.5))]).expect("runs");
    let mut lines = vec![];
    for k in 0..2 {
        for y in 0..SIZE[1] {
            for x in 0..SIZE[0] {
                lines.push(format!("{:08x}", result.get::<f32>(&[x, y], k).expect("inside").to_bits()));
            }
        }
    }
    lines.push(format!("{}", total.get::<f64>(&[], 0).expect("inside")));
    lines.push("smooth: result: the buffer has another number of channels".into());
    lines.push("smooth: image: the buffer has another number of channels".into());
    lines
}

#[test]
fn a_c_program_gives_the_same_results() {
    let dir = folder();
    let target = HostTarget::host();
    let (p, s) = smooth();
    compile_to_object(&p, &s, &target).expect("compiles").write(&dir).expect("written");
    compile_to_object(&gather(), &Schedule::new(), &target).expect("compiles").write(&dir).expect("written");
    compile_to_object(&times(), &Schedule::new(), &target).expect("compiles").write(&dir).expect("written");
    write_runtime(&dir).expect("written");
    std::fs::write(dir.join("program.c"), PROGRAM).expect("written");
    let printed = run_program(&dir);
    let here = smooth_here();
    let mut want = here.clone();
    want.extend(here);
    want.extend([
        "1 5 2 1 ".into(),
        "gather: ids is read beyond dimension 0: from, to, first readable, last readable: 0, 4, 0, 3".into(),
        "gather: ids: value 3 is not in [0, 2]".into(),
        "gather: table: no buffer is bound to it".into(),
        "18".into(),
        "times: n must be in [0, 9], it is: 10".into(),
        "times: n must be in [0, 9], it is: -1".into(),
    ]);
    for (i, (a, b)) in printed.lines().zip(&want).enumerate() {
        assert_eq!(a, b, "line {i}");
    }
    assert_eq!(printed.lines().count(), want.len());
}

#[test]
fn names_that_c_cannot_say_are_refused() {
    let mut p = gather();
    p.name = "2nd".into();
    let e = compile_to_object(&p, &Schedule::new(), &HostTarget::host()).err();
    let message = "2nd: 2nd: is no C identifier; give it another name for use from C";
    assert!(matches!(&e, Some(e @ Error::Bind { .. }) if e.to_string() == message), "{e:?}");
}
