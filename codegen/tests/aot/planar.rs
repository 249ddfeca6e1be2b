//! Planar buffers, promises about values, names.

use crate::{assert_lines, run_program};
use sumsq_codegen::Target;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::compile::aot::compile_to_object;
use sumsq_codegen::expr::UnaryOp;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_codegen::{
    Constraint, Error, Expr, Func, Input, LoopLevel, Pipeline, RDom, ScalarType, Schedule, Tail, Var,
};

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
    let rows = p.func(Func::new("rows", &[vx, vy], vec![wave(-1) + wave(1)]));
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

/// Returns what the program prints of `smooth`, computed in this process.
fn smooth_here() -> Vec<String> {
    let (p, s) = smooth();
    let compiled = Compiled::new(&p, &s, &Target::host()).expect("compiles");
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
    lines.push("smooth: result: expected 2 channels, got 1".into());
    lines.push("smooth: image: expected 1 channels, got 2".into());
    lines
}

#[test]
fn a_c_program_gives_the_same_results() {
    let jobs = [smooth(), (gather(), Schedule::new()), (times(), Schedule::new())];
    let printed = run_program("planar", include_str!("planar.c"), &jobs);
    let here = smooth_here();
    let mut want = here.clone();
    want.extend(here);
    want.extend([
        "1 5 2 1 ".into(),
        "gather: ids is read beyond dimension 0 by out: from, to, first readable, last readable, missing before, missing behind: 0, 4, 0, 3, 0, 1".into(),
        "gather: ids: value 3 is not in [0, 2]".into(),
        "gather: table: no buffer is bound to it".into(),
        "18".into(),
        "times: n must be in [0, 9], it is: 10".into(),
        "times: n must be in [0, 9], it is: -1".into(),
    ]);
    assert_lines(&printed, &want);
}

#[test]
fn names_that_c_cannot_say_are_refused() {
    let no_identifier = "is no C identifier; give it another name for use from C";
    for name in ["2nd", "sumsq_call", "double"] {
        let mut p = gather();
        p.name = name.into();
        let e = compile_to_object(&p, &Schedule::new(), &Target::host()).err();
        let message = format!("{name}: {name}: {no_identifier}");
        assert!(matches!(&e, Some(e @ Error::Bind { .. }) if e.to_string() == message), "{e:?}");
    }
}

/// Element 1 of the tuple `pair` and a parameter would both be `pair_1`.
#[test]
fn names_that_c_cannot_tell_apart_are_refused() {
    let v = Var::new("v");
    let mut p = Pipeline::new("twice");
    let n = p.param("pair_1", I32);
    let pair = p.func(Func::new("pair", &[v], vec![n, Expr::from(0.5f32)]));
    p.output_strided(&pair, Constraint::defaults(1));
    let e = compile_to_object(&p, &Schedule::new(), &Target::host()).err();
    let message = "twice: pair_1: is the name of two arguments in C";
    assert!(matches!(&e, Some(e @ Error::Bind { .. }) if e.to_string() == message), "{e:?}");
}

/// The header's function would take the address of the argument instead.
#[test]
fn names_of_the_header_are_refused() {
    let mut p = gather();
    let n = p.param("gather_pipeline", I32);
    let v = Var::new("v");
    let more = p.func(Func::new("more", &[v], vec![n]));
    p.output(&more);
    let e = compile_to_object(&p, &Schedule::new(), &Target::host()).err();
    let message =
        "gather: gather_pipeline: is a name of the header's own; give it another name for use from C";
    assert!(matches!(&e, Some(e @ Error::Bind { .. }) if e.to_string() == message), "{e:?}");
}

/// A promise about values that is a tree of 2^60 parts takes a line of C for each part that differs.
#[test]
fn what_promises_share_is_written_once() {
    let mut p = gather();
    let n = p.param("n", I32).cast(ScalarType::I64);
    let high = (0..60).fold(n, |e, _| &e + &e);
    p.inputs["ids"].value_range = Some((Expr::from(0), high.cast(I32)));
    // SAFETY: the code is not run.
    p.inputs["table"] = unsafe { p.inputs["table"].clone().trusted() };
    let library = compile_to_object(&p, &Schedule::new(), &Target::host()).expect("compiles");
    assert_eq!(library.header.matches("sumsq_add").count(), 60);
}
