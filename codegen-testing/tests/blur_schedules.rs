//! The five schedules of `examples/blur_schedules.rs`: one output, and the table in `docs/`.

#[path = "../examples/blur_schedules.rs"]
mod blur_schedules;

use blur_schedules::{HEIGHT, WIDTH, bindings, blur, document, measure, schedules};
use sumsq_codegen::ScalarType;
use sumsq_codegen::Target;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool};
use sumsq_codegen_testing::checked::run_lowered;
use sumsq_codegen_testing::reference::{Value, evaluate};

/// Of the definitions themselves, of lowered statements on checked memory, and of machine code on three threads.
#[test]
fn all_schedules_give_identical_output() {
    let (p, b, extents) = (blur(), bindings(), [vec![WIDTH, HEIGHT]]);
    let want = evaluate(&p, &b, &extents).expect("well formed");
    let input = &b.inputs["in"];
    let spec = BufferSpec::new(ScalarType::I32, &[WIDTH as i32, HEIGHT as i32]);
    let source = Buffer::new(spec.clone().halo(&[1, 1])).expect("memory");
    for x in -1..=WIDTH as i32 {
        for y in -1..=HEIGHT as i32 {
            let v = input.get(&[x, y], 0).and_then(Value::as_int).expect("in the halo");
            assert!(source.set(&[x, y], 0, v));
        }
    }
    for (name, s) in schedules() {
        let run = run_lowered(&p, &s, &b, &extents).expect("legal");
        assert!(run.outputs == want, "{name}: lowered");
        let compiled = Compiled::new(&p, &s, &Target::host()).expect("compiles");
        let out = Buffer::new(spec.clone()).expect("memory");
        compiled.run(&Pool::new(3), &[("in", &source), ("out", &out)], &[]).expect("runs");
        for (at, v) in want[0].points().iter().zip(&want[0].planes[0]) {
            assert_eq!(out.get::<i64>(at, 0), v.as_int(), "{name} at {at:?}");
        }
    }
}

/// The paper's judgement of each strategy, in its own terms.
#[test]
fn each_strategy_is_weak_in_its_own_way() {
    let all = measure().expect("legal");
    let [root, fused, sliding, tiled, strips] = &all[..] else { panic!("five schedules") };
    let (w, h) = (WIDTH as f64, HEIGHT as f64);
    let amplification =
        |c: &sumsq_codegen_testing::checked::Counters| c.operations as f64 / root.2.operations as f64;
    let per_point = |c: &sumsq_codegen_testing::checked::Counters| {
        c.of("blurx").stores as f64 / c.of("blurx").points as f64
    };
    // Breadth-first: every point at once, and all of blurx between a value and its reader.
    assert!(root.2.span() >= w * h && root.2.reuse_distance() as f64 >= 2.0 * w * h);
    // Fusion: three times the work of blurx.
    assert!(fused.2.span() >= w * h && fused.2.reuse_distance() <= 6);
    assert_eq!(fused.2.of("blurx").stores, 3 * WIDTH * HEIGHT);
    // Sliding: nothing twice, three rows between a value and its reader, a few rows at a time.
    assert_eq!(amplification(&sliding.2), 1.0);
    assert!(sliding.2.span() <= 4.0 * w, "{}", sliding.2.span());
    assert!(sliding.2.reuse_distance() as f64 <= 3.0 * 4.0 * w);
    // Tiles and strips: a little more work, independent of each other.
    assert_eq!(per_point(&tiled.2), (2.0 * 34.0) / (h + 2.0));
    assert_eq!(per_point(&strips.2), (8.0 * 10.0) / (h + 2.0));
    assert!(tiled.2.span() >= w * h && tiled.2.reuse_distance() <= 2 * (34 + 32) * 32);
    assert!(strips.2.span() >= 4.0 * sliding.2.span());
}

#[test]
fn the_table_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/blur_schedules.md");
    let text = document().expect("legal");
    if std::env::var_os("SUMSQ_UPDATE").is_some() {
        std::fs::write(path, &text).expect("writable");
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(stored == text, "docs/blur_schedules.md is out of date: SUMSQ_UPDATE=1 rewrites it");
}
