//! Windows in registers: what slides over one loop and is read again moves from place to place.

use crate::support::{in_order, plane, schedule};
use sumsq_codegen::{Expr, Func, Pipeline, ScalarType, Source};
use sumsq_codegen_testing::assembly::{Loop, avx2, avx512};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::native::agree;

/// `out(x, y)`, a sum over three rows of `wide`, which sums three columns of `in`.
fn blur() -> Pipeline {
    let (mut p, i, [x, y]) = plane("blur");
    let wide = p.define("wide", [x, y], i.of((x, y)) + i.of((x + 1, y)) + i.of((x + 2, y)));
    let rows: Vec<Expr> = (0..3).map(|k| wide.of((x, y + k))).collect();
    let out = p.define("out", [x, y], rows.into_iter().reduce(|a, b| a + b).expect("rows"));
    p.output(&out);
    p
}

/// Columns of vectors, from top to bottom.
const COLUMNS: &str = "out: split(x, x, xi, 16, predicate) reorder(xi, y, x) vectorize(xi) \
                       wide: vectorize(x, 16, predicate) store_at(out, x) compute_at(out, y) ";

/// Runs it on both machines, with whole and broken vectors and fewer rows than a window; the printed nests and the lowered body.
fn run(p: &Pipeline, text: &str) -> (String, String) {
    let mut last = (String::new(), String::new());
    for (w, h) in [(1, 1), (16, 2), (37, 9)] {
        let input = pattern(&[ScalarType::I32], &[2 * w + 8, 2 * h + 8], 3);
        let b = bindings(vec![("in", input)], vec![]);
        let r = check(p, &schedule(text), &b, &[vec![w, h]], 0.0);
        agree(p, &schedule(text), &b, &[vec![w, h]]);
        last = (r.nests, r.body);
    }
    last
}

#[test]
fn rows_move_behind_their_consumer() {
    let text = format!("{COLUMNS} wide: store_in(register)");
    let (_, body) = run(&blur(), &text);
    let moves = [
        "allocate wide.0: i32[48:i64] in registers",
        "wide.0[ramp(32:i64, 1:i64, 16)] = in.0",
        "wide.0[ramp(0:i64, 1:i64, 16)] + wide.0[ramp(16:i64, 1:i64, 16)] + wide.0[ramp(32:i64, 1:i64, 16)]",
        "wide.0[ramp(0:i64, 1:i64, 16)] = wide.0[ramp(16:i64, 1:i64, 16)]",
        "wide.0[ramp(16:i64, 1:i64, 16)] = wide.0[ramp(32:i64, 1:i64, 16)]",
    ];
    in_order(&body, &moves);
    let nest = blur().print_loop_nest(&schedule(&text)).expect("legal");
    in_order(&nest, &["store wide, a window of 3 along y, in registers (slides along y over y)"]);
}

/// Machine code keeps them in registers: a row of `in` is summed once, nothing goes to memory but the output.
#[test]
fn machine_code_touches_no_memory_for_them() {
    for (target, vectors) in [(avx2(), 2), (avx512(), 1)] {
        let found =
            Loop::innermost(&blur(), &schedule(&format!("{COLUMNS} wide: store_in(register)")), &target);
        assert_eq!(found.spills(), 0, "{found}");
        // Two sums of columns, two of rows.
        assert_eq!(found.count("vpaddd"), 4 * vectors, "{found}");
    }
}

/// Windows that feed each other, of values in pairs.
#[test]
fn chains_of_windows() {
    let (mut p, i, [x, y]) = plane("chain");
    let a = Func::new("a", &[x, y], vec![i.of((x, y)) * 3, i.of((x, y + 1)) - 5]);
    let a = p.func(a);
    let both = |k: i32| a.at(&[x.expr(), y + k], 0) + a.at(&[x.expr(), y + k], 1);
    let b = p.define("b", [x, y], both(0) - both(3));
    let out = p.define("out", [x, y], b.of((x, y)) + b.of((x, y + 2)));
    p.output(&out);
    let (_, body) = run(
        &p,
        "out: split(x, x, xi, 8, guard) reorder(xi, y, x) vectorize(xi) \
         a: vectorize(x, 8, predicate) store_at(out, x) compute_at(out, y) store_in(register) \
         b: vectorize(x, 8, predicate) store_at(out, x) compute_at(out, y) store_in(register)",
    );
    in_order(&body, &["allocate a.0: i32[32:i64] in registers", "allocate b.0: i32[24:i64] in registers"]);
}

/// Rows go on by two, of which one is needed again; columns of scalars move along a row.
#[test]
fn steps_and_scalars() {
    let (mut p, i, [x, y]) = plane("half");
    let f = p.define("f", [x, y], i.of((x, y)) * 7);
    let rows: Vec<Expr> = (0..3).map(|k| f.of((x, y * 2 + k))).collect();
    let out = p.define("out", [x, y], rows.into_iter().reduce(|a, b| a + b).expect("rows"));
    p.output(&out);
    let columns = COLUMNS.replace("wide", "f");
    let (_, body) = run(&p, &format!("{columns} f: store_in(register)"));
    in_order(&body, &["allocate f.0: i32[48:i64] in registers"]);
    let (mut p, i, [x, y]) = plane("row");
    let f = p.define("f", [x, y], i.of((x, y)) * 7);
    let out = p.define("out", [x, y], f.of((x, y)) + f.of((x + 2, y)));
    p.output(&out);
    let (_, body) = run(&p, "f: store_at(out, y) compute_at(out, x) store_in(register)");
    in_order(&body, &["allocate f.0: i32[3:i64] in registers", "f.0[0:i64] = f.0[1:i64]"]);
}
