//! The statement after every pass, as text, for a few small pipelines under schedules that use the passes.
//!
//! `tests/golden/passes/<case>.ir` holds the schedule, the plan that comes of it, and then the statement after each pass that
//! changed it. Every pass changes some case.
//! `SUMSQ_UPDATE=1` rewrites the files; look at the difference before committing it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use sumsq_codegen::boundary::repeat_edge;
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, UnaryOp, Var};

const I32: ScalarType = ScalarType::I32;

fn blur() -> Pipeline {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let (x, y) = (vx.expr(), vy.expr());
    let vars = [vx, vy];
    let mut p = Pipeline::new("blur");
    let i = p.input(Input::new("in", &[I32], 2));
    let at = |dx: i64| i.at(&[(&x + dx).max(0).min(i.extent(0) - 1), y.clone()], 0);
    let bx = p.func(Func::new("bx", &vars, vec![at(-1) + at(1)]));
    let by = |dy: i64| bx.at(&[x.clone(), (&y + dy).max(0).min(i.extent(1) - 1)], 0);
    let out = p.func(Func::new("out", &vars, vec![by(-1) + by(1)]));
    p.output(&out);
    p
}

fn row() -> Pipeline {
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("row");
    let scale = p.param("scale", I32);
    let i = p.input(Input::new("in", &[I32], 1));
    let vars = [v];
    let f = p.func(Func::new("f", &vars, vec![i.at(std::slice::from_ref(&x), 0) * scale]));
    let out = p.func(Func::new("out", &vars, vec![f.at(std::slice::from_ref(&x), 0) + f.at(&[x + 2], 0)]));
    p.output(&out);
    p
}

fn total() -> Pipeline {
    let mut p = Pipeline::new("total");
    let i = p.input(Input::new("in", &[I32], 2));
    let r = RDom::new([("rx", Expr::from(0), i.extent(0)), ("ry", Expr::from(0), i.extent(1))]);
    let sum = p.func(Func::sum("sum", &[], r.clone(), vec![i.at(&[r.var(0), r.var(1)], 0)]));
    p.output(&sum);
    p
}

fn histogram() -> Pipeline {
    let b = Var::new("b");
    let mut p = Pipeline::new("histogram");
    let i = p.input(Input::new("in", &[I32], 1));
    let r = RDom::new([("r", Expr::from(0), i.extent(0))]);
    let bin = i.at(&[r.var(0)], 0).max(0).min(15);
    let f = Func::new("hist", std::slice::from_ref(&b), vec![Expr::from(0)]);
    let value = f.at(std::slice::from_ref(&bin), 0) + 1;
    let hist = p.func(f.update(vec![bin], vec![value], r));
    p.output(&hist);
    p
}

/// `out(x, y) = sqrt(gain) * sin(in(x, y))`.
fn waves() -> Pipeline {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let at = [vx.expr(), vy.expr()];
    let mut p = Pipeline::new("waves");
    let gain = p.param("gain", ScalarType::F32);
    let i = p.input(Input::new("in", &[ScalarType::F32], 2));
    let value = gain.unary(UnaryOp::Sqrt) * i.at(&at, 0).unary(UnaryOp::Sin);
    let out = p.func(Func::new("out", &[vx, vy], vec![value]));
    p.output(&out);
    p
}

/// `out(x) = table(x mod 4, in(x))` with 16 rows of 4 products.
fn lookup() -> Pipeline {
    let [vx, vj, vk] = ["x", "j", "k"].map(Var::new);
    let x = vx.expr();
    let mut p = Pipeline::new("lookup");
    let i = p.input(Input::new("in", &[I32], 1));
    let product = vj.expr() * vk.expr();
    let table = p.func(Func::new("table", &[vj, vk], vec![product]));
    let row = i.at(std::slice::from_ref(&x), 0).max(0).min(15);
    let out = p.func(Func::new("out", &[vx], vec![table.at(&[x.modulo(4), row], 0)]));
    p.output(&out);
    p
}

/// `out(x) = f(x)` from 8 on, and the input before.
fn late() -> Pipeline {
    let v = Var::new("x");
    let x = [v.expr()];
    let mut p = Pipeline::new("late");
    let i = p.input(Input::new("in", &[I32], 1));
    let vars = [v];
    let f = p.func(Func::new("f", &vars, vec![i.at(&x, 0) * 3]));
    let value = Expr::select(x[0].ge(8), f.at(&x, 0), i.at(&x, 0));
    let out = p.func(Func::new("out", &vars, vec![value]));
    p.output(&out);
    p
}

/// `out(x) = in(x - 1) + in(x + 1)` with its edges repeated.
fn edges() -> Pipeline {
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("edges");
    let i = p.input(Input::new("in", &[I32], 1));
    let inside = p.func(repeat_edge("inside", &i, &i.domain()));
    let out = p.func(Func::new("out", &[v], vec![inside.at(&[&x - 1], 0) + inside.at(&[&x + 1], 0)]));
    p.output(&out);
    p
}

/// `out(x) = f(x)` if the run asks for it, else the input.
fn asked() -> Pipeline {
    let v = Var::new("x");
    let x = [v.expr()];
    let mut p = Pipeline::new("asked");
    let wanted = p.param("wanted", I32).gt(0);
    let i = p.input(Input::new("in", &[I32], 1));
    let vars = [v];
    let f = p.func(Func::new("f", &vars, vec![i.at(&x, 0) * 3]));
    let out = p.func(Func::new("out", &vars, vec![Expr::select(wanted, f.at(&x, 0), i.at(&x, 0))]));
    p.output(&out);
    p
}

/// Two outputs of one input.
fn pair() -> Pipeline {
    let v = Var::new("x");
    let x = [v.expr()];
    let mut p = Pipeline::new("pair");
    let i = p.input(Input::new("in", &[I32], 1));
    let vars = [v];
    for (name, value) in [("f", i.at(&x, 0) + 1), ("g", i.at(&x, 0) * 2)] {
        let f = p.func(Func::new(name, &vars, vec![value]));
        p.output(&f);
    }
    p
}

/// Name, pipeline, schedule.
type Case = (&'static str, fn() -> Pipeline, &'static str);

const CASES: [Case; 16] = [
    (
        "sliding_strips",
        blur,
        "out: split(y, yo, yi, 8, predicate) split(x, xo, xi, 4, predicate) vectorize(xi) parallel(yo)
         bx: store_at(out, yo) compute_at(out, yi) fold_storage(y, 4) split(x, xo, xi, 4, predicate) vectorize(xi)",
    ),
    (
        "fused_tiles",
        blur,
        "out: split(x, xo, xi, 4, shift_inwards) split(y, yo, yi, 2, shift_inwards) reorder(xi, yi, xo, yo)
              fuse(xo, yo, tile) unroll(yi) vectorize(xi)
         bx: compute_at(out, tile) reorder_storage(y, x)",
    ),
    (
        "versions",
        row,
        "out: specialize(scale == 1) { split(x, xo, xi, 4, auto) vectorize(xi) } bound_extent(x, 64)
         in: in_(f, as copy)
         copy: compute_root split(_0, a, b, 8, round_up) vectorize(b)
         f: compute_root",
    ),
    (
        "strip_sums",
        total,
        "sum.update(0): split(ry, strip, row, 4, predicate) rfactor(strip as s, into parts)
         parts.update(0): split(rx, rxo, rxi, 4, predicate) parallel(s) rfactor(rxi as l, into lanes)
         lanes: compute_at(parts.update(0), s) store_in(register) vectorize(l)
         lanes.update(0): reorder(l, rxo, row) vectorize(l)",
    ),
    (
        "atomic_lanes",
        histogram,
        "hist.update(0): atomic split(r, ro, ri, 4, predicate) vectorize(ri) parallel(ro)",
    ),
    (
        "factored_bins",
        histogram,
        "hist.update(0): split(r, ro, ri, 64, guard) rfactor(ro as k, into parts)
         parts.update(0): parallel(k)",
    ),
    // expand_math makes polynomials of the sine; hoist takes the root out of both loops.
    ("sine_rows", waves, "out: split(x, xo, xi, 4, predicate) vectorize(xi) parallel(y)"),
    // interleave stores even and odd columns at once.
    (
        "interleaved_columns",
        row,
        "out: split(x, xo, xi, 8, guard) split(xi, lane, odd, 2, guard) reorder(odd, lane, xo) unroll(odd) vectorize(lane)",
    ),
    // build_nests folds the storage of f by itself.
    ("ring", row, "out: split(x, xo, xi, 64, guard) f: store_at(out, xo) compute_at(out, xi)"),
    // narrow halves the indices of the gather.
    (
        "stack_table",
        lookup,
        "table: compute_root bound(j, 0, 4) bound(k, 0, 16) store_in(stack)
         out: split(x, xo, xi, 4, predicate) vectorize(xi)",
    ),
    // dead_allocations takes f away.
    ("unread_values", late, "f: compute_root out: bound(x, 0, 8)"),
    // skip_stages computes f where it is asked for.
    ("skipped_stage", asked, "f: compute_root"),
    ("two_together", pair, "g: compute_with(f, x)"),
    ("fetched_ahead", pair, "f: split(x, xo, xi, 16, guard) prefetch(in, xo, 2)"),
    // partition gives tiles an inner body without clamps, which the last simplify cleans up.
    (
        "clamped_interior",
        edges,
        "out: split(x, xo, xi, 4, guard) unroll(xi)",
    ),
    ("clones", blur, "bx: clone_in(out, as twin) twin: compute_at(out, y) store_in(heap)"),
];

/// The passes: `lower` logs these.
const PASSES: [&str; 16] = [
    "apply_schedule",
    "build_nests",
    "skip_stages",
    "trim",
    "simplify",
    "flatten",
    "expand_math",
    "unroll",
    "vectorize",
    "simplify",
    "dead_allocations",
    "hoist",
    "partition",
    "simplify",
    "interleave",
    "narrow",
];

/// The schedule, and the statement after each pass that changed it.
fn passes(p: &Pipeline, schedule: &str, dir: &Path) -> String {
    let s = Schedule::parse(schedule).expect("text");
    let options = LowerOptions { dump: Some(dir.to_path_buf()), verify: true, ..LowerOptions::default() };
    lower(p, &s, &options).expect("legal");
    let folder = dir.join(&p.name);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("dumps").map(|f| f.expect("a file").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "ir"));
    files.sort();
    let (mut text, mut before) = (s.to_string(), String::new());
    for file in files {
        let after = std::fs::read_to_string(&file).expect("readable");
        let name = file.file_stem().and_then(|n| n.to_str()).expect("a name");
        let pass = name.split_once("_after_").expect("NN_after_PASS").1;
        match after == before {
            true => writeln!(text, "\n; {pass}: no change"),
            false => write!(text, "\n; {pass}\n{after}"),
        }
        .expect("a String");
        before = after;
    }
    std::fs::remove_dir_all(dir).expect("ours");
    text
}

#[test]
fn every_pass_leaves_the_statement_that_is_on_file() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/passes");
    let update = std::env::var_os("SUMSQ_UPDATE").is_some();
    let (mut wrong, mut changed) = (vec![], [false; PASSES.len()]);
    for (name, pipeline, schedule) in CASES {
        let dir = std::env::temp_dir().join(format!("sumsq-golden-{}-{name}", std::process::id()));
        let came = passes(&pipeline(), schedule, &dir);
        let headings: Vec<&str> = came.lines().filter_map(|l| l.strip_prefix("; ")).collect();
        assert_eq!(headings.iter().map(|h| h.trim_end_matches(": no change")).collect::<Vec<_>>(), PASSES);
        changed.iter_mut().zip(headings).for_each(|(c, h)| *c |= !h.ends_with(": no change"));
        let file = golden.join(format!("{name}.ir"));
        if update {
            std::fs::create_dir_all(&golden).expect("writable");
            std::fs::write(&file, &came).expect("writable");
        }
        let want = std::fs::read_to_string(&file).unwrap_or_default();
        if came != want {
            let line = came.lines().zip(want.lines()).position(|(a, b)| a != b);
            wrong.push(format!("{}: line {:?} differs; came\n{came}", file.display(), line.map(|l| l + 1)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let idle: Vec<_> = PASSES.iter().zip(changed).filter(|(_, changed)| !changed).map(|(p, _)| p).collect();
    assert!(idle.is_empty(), "no case shows what these passes do: {idle:?}");
    let known = |file: &str| CASES.iter().any(|(name, ..)| file == format!("{name}.ir"));
    for entry in std::fs::read_dir(&golden).expect("the golden files") {
        let file = entry.expect("a file").file_name().into_string().expect("a name");
        assert!(known(&file), "tests/golden/passes/{file} belongs to no case");
    }
}
