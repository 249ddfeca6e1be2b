//! Profiles: who computes, on which threads, and what is allocated for whom.

use std::time::{Duration, Instant};
use sumsq_codegen::Target;
use sumsq_codegen::compile::{Compiled, Signature};
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::runtime::profile::{Row, report, uncounted};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool};
use sumsq_codegen::{Error, Expr, Func, Input, LoopLevel, Pipeline, RDom, ScalarType, Schedule, Tail, Var};

const SIZE: [i32; 2] = [64, 40];
const STRIP: i32 = 8;

/// A blur in strips, the first stage at root.
fn blur() -> (Pipeline, Schedule) {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());
    let vars = [vx, vy];
    let mut p = Pipeline::new("profiled");
    let mut input = Input::new("in", &[ScalarType::F32], 2);
    input.halo = vec![2, 2];
    let i = p.input(input);
    let first = p.func(Func::new("first", &vars, vec![i.at(&[&x - 1, y.clone()], 0) * 2]));
    let at = |f: &Func, dy: i64| f.at(&[x.clone(), &y + dy], 0);
    let rows = p.func(Func::new("rows", &vars, vec![at(&first, 0) + at(&first, 1)]));
    let out = p.func(Func::new("out", &vars, vec![at(&rows, -1) + at(&rows, 1)]));
    p.output(&out);
    let mut s = Schedule::new();
    s.func("first").compute_root().vectorize("x", 8, Tail::Predicate);
    s.func("out").split("y", "strip", "row", STRIP, Tail::GuardWithIf).parallel("strip");
    s.func("rows").compute_at(LoopLevel::pure("out", "strip"));
    (p, s)
}

fn compiled(profile: bool) -> Compiled {
    let (p, s) = blur();
    let options = LowerOptions { profile, verify: true, ..LowerOptions::default() };
    let f = lower(&p, &s, &options).expect("legal");
    Compiled::from_lowered(&f, Signature::of(&p, &s).expect("well formed"), &Target::host())
        .expect("compiles")
}

fn run(c: &Compiled, extents: &[i32; 2]) -> (Buffer, Result<(), Error>) {
    let spec = BufferSpec::new(ScalarType::F32, &SIZE);
    let input = Buffer::new(spec.clone().halo(&[2, 2])).expect("memory");
    for y in 0..SIZE[1] {
        for x in 0..SIZE[0] {
            input.set(&[x, y], 0, (x * y % 7) as f32);
        }
    }
    let out = Buffer::new(BufferSpec::new(ScalarType::F32, extents)).expect("memory");
    let done = c.run(&Pool::new(2), &[("in", &input), ("out", &out)], &[]);
    (out, done)
}

/// One test, since the counts are those of the process.
#[test]
fn funcs_are_told_apart() {
    let (plain, done) = run(&compiled(false), &SIZE);
    done.expect("runs");
    assert!(report().rows.iter().all(|r| r.pipeline != "profiled"), "nothing is counted unless asked for");
    let c = compiled(true);
    let (out, done) = run(&c, &SIZE);
    done.expect("runs");
    for y in 0..SIZE[1] {
        for x in 0..SIZE[0] {
            assert_eq!(out.get::<f32>(&[x, y], 0), plain.get::<f32>(&[x, y], 0));
        }
    }
    let row = |name: &str| -> Row {
        let rows = report().rows;
        rows.into_iter()
            .find(|r| r.pipeline == "profiled" && r.func == name)
            .unwrap_or_else(|| panic!("{name}"))
    };
    let (first, rows, out) = (row("first"), row("rows"), row("out"));
    let strips = (SIZE[1] / STRIP) as u64;
    assert_eq!((first.entries, first.allocations), (1, 1));
    assert_eq!((rows.entries, rows.allocations), (strips, strips));
    // The consumer is entered at the start, by workers, and after each producer inside.
    assert!(out.entries > strips && out.allocations == 0, "{out:?}");
    let bytes = 4 * SIZE[0] as u64;
    assert!(first.bytes >= bytes * (SIZE[1] as u64 + 2) && first.peak == first.bytes, "{first:?}");
    let one = rows.bytes / strips;
    assert!(one >= bytes * (STRIP as u64 + 2) && one <= 2 * bytes * (STRIP as u64 + 2), "{rows:?}");
    assert!(rows.peak == one || rows.peak == 2 * one, "on two threads: {rows:?}");
    let before = report();
    uncounted(|| run(&c, &SIZE)).1.expect("runs");
    assert_eq!(report(), before, "what is not counted leaves no trace");
    let all = [&first, &rows, &out];
    assert!(all.iter().all(|r| r.time.as_nanos() > 0), "{all:?}");
    let text = report().to_string();
    assert!(
        text.starts_with("profiled: ") && text.contains("  rows ") && text.contains(" bytes, at most "),
        "{text}"
    );

    // A call that fails leaves nothing running and nothing allocated.
    let (_, done) = run(&c, &[SIZE[0], SIZE[1] + 5]);
    assert!(
        matches!(&done, Err(Error::Run { message, .. }) if message.contains("in is read beyond")),
        "{done:?}"
    );
    assert_eq!((row("first").entries, row("first").allocations), (1, 1));

    // The second of two iterations takes nearly all the time, on whichever thread; who waits for it computes nothing.
    let c = uneven();
    let out = Buffer::new(BufferSpec::new(ScalarType::F32, &[2])).expect("memory");
    let counted =
        || -> Duration { report().rows.iter().filter(|r| r.pipeline == "waits").map(|r| r.time).sum() };
    for threads in [1, 2] {
        let (before, start) = (counted(), Instant::now());
        c.run(&Pool::new(threads), &[("uneven", &out)], &[]).expect("runs");
        let (wall, time) = (start.elapsed(), counted() - before);
        // A million sums, each of which waits for the one before; were waiting counted, it would be nearly twice the whole.
        let least = Duration::from_micros(200);
        assert!(time > least && time < wall * 3 / 2, "{time:?} of {threads} threads in {wall:?}");
    }
}

/// One term at 0 and a million at 1, in a parallel loop.
fn uneven() -> Compiled {
    let [y] = Var::all(["y"]);
    let mut p = Pipeline::new("waits");
    let terms = RDom::new([("k", 0, 1_000_001)]);
    let k = terms.var(0);
    let terms = terms.filter(k.le(Expr::from(y) * 1_000_000));
    let f = p.define("uneven", [y], 0.0f32);
    let f = p.add_to(&f, y, k.cast(ScalarType::F32).sqrt(), &terms);
    p.output(&f);
    let s = Schedule::parse("uneven.update(0): parallel(y)").expect("text");
    let options = LowerOptions { profile: true, ..LowerOptions::default() };
    let lowered = lower(&p, &s, &options).expect("legal");
    Compiled::from_lowered(&lowered, Signature::of(&p, &s).expect("well formed"), &Target::host())
        .expect("compiles")
}
