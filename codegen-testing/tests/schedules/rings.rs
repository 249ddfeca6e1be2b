//! Storage that is folded without being told to, and storage that is not.

use crate::folding::{Row, STEADY, pipeline, right, run};
use crate::support::schedule;
use sumsq_codegen::{Error, Expr, Func, Input, Pipeline, ScalarType, Source, Var};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::Value;

const I32: ScalarType = ScalarType::I32;
/// A strip of more rows than any domain here has.
const ROWS: &str = "out: split(y, yo, yi, 64, guard) f: store_at(out, yo) compute_at(out, yi)";

/// Returns what the storage of `f` is, in the words of the loop nest.
fn stored(p: &Pipeline, text: &str) -> String {
    let nest = p.print_loop_nest(&schedule(text)).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let line = nest.lines().find_map(|l| l.trim().strip_prefix("store f")?.strip_suffix(':'));
    let storage = line.map(|l| l.split_once(" (").map_or(l, |(storage, _)| storage));
    storage.unwrap_or("without a line").to_string()
}

/// Two rows instead of all; each value is still computed once, forwards, backwards and in leaps.
#[test]
fn a_window_that_slides() {
    let rows: [(Row, usize); 4] =
        [(STEADY, 1), (|_, y| y * -1 + 5, 1), (|_, y| y * 3, 2), (|_, y| y * -2 + 5, 2)];
    for (row, leap) in rows {
        let p = pipeline(row, false);
        right(&p, ROWS, &|w, _| 2 * (w + 1));
        assert_eq!(stored(&p, ROWS), ", y modulo 2");
        let once = |text: &str, [w, h]: [usize; 2]| {
            let c = run(&p, text, [w, h]).expect("legal").counters.of("f");
            assert_eq!(c.stores, (w + 1) * (2 + (h - 1) * leap), "{text}");
            c.allocated
        };
        once(ROWS, [7, 5]);
        let whole = format!("{ROWS} store_whole");
        assert!(once(&whole, [7, 5]) >= 8 * 6);
        assert_eq!(stored(&p, &whole), "");
    }
}

/// The last block of a split, whatever becomes of it, and blocks of the Func itself.
#[test]
fn tails() {
    let p = pipeline(STEADY, false);
    for tail in ["guard", "predicate", "shift_inwards"] {
        for own in ["", "split(x, fo, fi, 4, shift_inwards) vectorize(fi)", "split(y, fo, fi, 2, guard)"] {
            let text = format!(
                "out: split(y, yo, yi, 4, {tail}) split(x, xo, xi, 4, {tail}) vectorize(xi)
                 f: store_at(out, yo) compute_at(out, yi) {own}"
            );
            right(&p, &text, &|w, _| 2 * (w + 1));
        }
    }
    // Rounded up, three rows are in use; nothing slides.
    right(&p, &format!("{ROWS} split(y, fo, fi, 3, round_up)"), &|w, _| 4 * (w + 1));
    // With align_bounds, rows from an even to an odd one.
    right(&p, &format!("{ROWS} align_bounds(y, 2)"), &|w, _| 4 * (w + 1));
}

/// Columns move with one loop and rows with another, around it: rows slide, so that all columns are kept for the next ones.
#[test]
fn two_dimensions() {
    let p = pipeline(STEADY, false);
    let text = "out: split(x, xo, xi, 4, guard) split(y, yo, yi, 16, guard) reorder(xi, xo, yi, yo)
                f: store_at(out, yo) compute_at(out, xo)";
    right(&p, text, &|w, _| 2 * (w + 1));
    assert_eq!(stored(&p, text), ", y modulo 2");
    // What the schedule says of one dimension leaves the other as it would be.
    right(&p, &format!("{text} fold_storage(y, 4)"), &|w, _| 4 * (w + 1));
    right(&p, &format!("{text} fold_storage(x, 8)"), &|_, _| 2 * 8);
    right(&p, &format!("{text} fold_storage(y, 4) store_whole"), &|w, _| 4 * (w + 1));
}

/// All definitions of a Func with updates compute what is new.
#[test]
fn updates() {
    let p = pipeline(STEADY, true);
    right(&p, ROWS, &|w, _| 2 * (w + 1));
    let c = run(&p, ROWS, [16, 9]).expect("legal").counters.of("f");
    assert_eq!(c.stores, 2 * (9 + 1) * 17);
}

/// `out` of two rows of `g` of two rows of `f`, all of which slide: the first iteration needs three rows of `f`, of which two come ahead of it.
#[test]
fn a_chain() {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let (x, y) = (vx.expr(), vy.expr());
    let vars = [vx, vy];
    let mut p = Pipeline::new("chain");
    let i = p.input(Input::new("in", &[I32], 2));
    let f = p.func(Func::new("f", &vars, vec![x.clone() * 3 + y.clone() * 7 + i.extent(0)]));
    let two = |f: &Func| f.at(&[x.clone(), y.clone()], 0) * 2 + f.at(&[x.clone(), &y + 1], 0);
    let g = p.func(Func::new("g", &vars, vec![two(&f)]));
    let out = p.func(Func::new("out", &vars, vec![two(&g)]));
    p.output(&out);
    let text = format!("{ROWS} g: store_at(out, yo) compute_at(out, yi)");
    for [w, h] in [[1usize, 1usize], [7, 9]] {
        let b = bindings(vec![("in", pattern(&[I32], &[2, 2], 3))], vec![]);
        let c = check(&p, &schedule(&text), &b, &[vec![w, h]], 0.0).counters;
        let (f, g) = (c.of("f"), c.of("g"));
        assert_eq!((f.stores, g.stores), (w * (h + 2), w * (h + 1)));
        assert_eq!((f.allocated, g.allocated), (2 * w, 2 * w));
    }
}

/// A chain of stencils, of which each keeps what the next one reads at once, however long the chain: whole, in strips, and where every stage takes
/// two rows for one. Each value is computed once, and nothing beyond what is needed.
#[test]
fn a_long_chain() {
    let [x, y] = Var::all(["x", "y"]);
    for (leap, windows) in [(1, [4, 4, 4, 4]), (2, [32, 16, 8, 4])] {
        let mut p = Pipeline::new("chain");
        let i = p.input(Input::new("in", &[I32], 2));
        let mut last = p.define("f0", [x, y], i.of((x % 2, y % 2)) + x * 3 + y * 7);
        for n in 1..5 {
            let name = if n == 4 { "out".to_string() } else { format!("f{n}") };
            let row = |k: i32| last.of((x, y * leap + k));
            last = p.define(name, [x, y], row(-1) + row(0) * 3 - row(1));
        }
        p.output(&last);
        let at = |strip: usize| {
            let stages: Vec<String> =
                (0..4).map(|n| format!("f{n}: store_at(out, yo) compute_at(out, yi)")).collect();
            format!("out: split(y, yo, yi, {strip}, guard) {}", stages.join(" "))
        };
        for [w, h] in [[3usize, 1usize], [5, 9], [4, 14]] {
            let b = bindings(vec![("in", pattern(&[I32], &[2, 2], 3))], vec![]);
            let text = at(64);
            let c = check(&p, &schedule(&text), &b, &[vec![w, h]], 0.0).counters;
            let mut rows = h;
            for n in (0..4).rev() {
                rows = if leap == 1 { rows + 2 } else { 2 * (rows - 1) + 3 };
                let f = c.of(&format!("f{n}"));
                assert_eq!(f.stores, w * rows, "f{n} {text}");
                assert!(f.allocated <= w * windows[n], "f{n} {f:?}");
            }
            check(&p, &schedule(&at(4)), &b, &[vec![w, h]], 0.0);
            agree(&p, &schedule(&at(4)), &b, &[vec![w, h]]);
        }
    }
}

/// Storage is folded alike in all versions of a nest: by what the greediest needs.
#[test]
fn versions() {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let (x, y) = (vx.expr(), vy.expr());
    let vars = [vx, vy];
    let mut p = Pipeline::new("versions");
    let many = p.param("many", I32);
    let f = p.func(Func::new("f", &vars, vec![x.clone() * 3 + y.clone() * many]));
    let value = f.at(&[x.clone(), y.clone()], 0) - f.at(&[x, y + 1], 0);
    let out = p.func(Func::new("out", &vars, vec![value]));
    p.output(&out);
    let s = schedule(
        "out: specialize(many > 4) { split(y, yo, yi, 64, guard) split(yi, ya, yb, 4, guard) }
              split(y, yo, ya, 64, guard)
         f: store_at(out, yo) compute_at(out, ya)",
    );
    for (many, h) in [(1, 9), (5, 9), (5, 1)] {
        let b = bindings(vec![], vec![("many", Value::Int(many))]);
        let c = check(&p, &s, &b, &[vec![7, h]], 0.0).counters.of("f");
        assert_eq!((c.stores, c.allocated), (7 * (h + 1), 7 * 8), "{many}");
        agree(&p, &s, &b, &[vec![7, h]]);
    }
}

/// One reason each.
#[test]
fn what_is_not_folded() {
    let steady = pipeline(STEADY, false);
    // Not stored outside of a loop that computes it.
    assert_eq!(stored(&steady, "out: split(y, yo, yi, 64, guard) f: compute_at(out, yi)"), "without a line");
    assert_eq!(
        stored(&steady, "out: split(y, yo, yi, 1, guard) f: store_at(out, yo) compute_at(out, yi)"),
        ""
    );
    // All rows up to the present one are in use.
    let growing = pipeline(|x, y| Expr::select(x.gt(3), Expr::from(0), y.clone()), false);
    assert_eq!(stored(&growing, ROWS), "");
    right(&growing, ROWS, &|w, h| (w + 1) * (h + 1));
    // Four rows, of which three are in use.
    let three = pipeline(|x, y| Expr::select(x.gt(3), y + 1, y + 0), false);
    let strips = "out: split(y, yo, yi, 2, guard) f: store_at(out, yo) compute_at(out, yi)";
    assert_eq!(stored(&three, strips), "");
    assert_eq!(stored(&three, ROWS), ", y modulo 4");
    // Lanes along the columns; each row is one of its own storage.
    let columns = "out: split(x, xo, xi, 4, guard) f: store_at(out, y) compute_at(out, xo)";
    assert_eq!(stored(&steady, columns), ", x modulo 8");
    assert_eq!(stored(&steady, &columns.replace("guard)", "guard) vectorize(xi)")), "");
    assert_eq!(stored(&steady, &format!("{columns} split(x, fo, fi, 2, guard) vectorize(fi)")), "");
    // Columns of a constant number, less than sixteen, lie dense: fewer take less.
    let tiles = "out: split(x, xa, xr, 8, guard) split(xr, xb, xi, 2, guard) f: store_at(out, xa) compute_at(out, xb)";
    assert_eq!(stored(&steady, tiles), ", x modulo 4, on the stack");
    // Registers have no places that a run chooses: what they hold moves.
    let small = "out: split(x, xo, xi, 4, guard) split(y, yo, yi, 4, guard) reorder(xi, yi, xo, yo)
                 f: store_at(out, xo) compute_at(out, yi)";
    assert_eq!(stored(&steady, small), ", y modulo 2, on the stack");
    assert_eq!(
        stored(&steady, &format!("{small} store_in(register)")),
        ", a window of 2 along y, in registers"
    );
}

/// Storage that has no constant size unless it is folded.
#[test]
fn a_ring_in_the_frame() {
    let p = pipeline(STEADY, false);
    let text = "out: split(x, xo, xi, 7, guard) reorder(xi, y, xo)
                f: store_at(out, xo) compute_at(out, y) store_in(stack)";
    right(&p, text, &|_, _| 2 * 8);
    let Err(Error::Schedule { func, directive, rule }) = run(&p, &format!("{text} store_whole"), [7, 5])
    else {
        panic!("legal")
    };
    assert_eq!(
        format!("{func}: {directive}: {rule}"),
        "f: store_in(stack): the extent of y has no constant bound"
    );
}

/// Storage that iterations of a parallel loop would share is refused, and so is reading it behind the loop.
#[test]
fn what_is_refused_anyway() {
    let p = pipeline(STEADY, false);
    let refused = |p: &Pipeline, text: &str| match p.print_loop_nest(&schedule(text)) {
        Err(e) => e.to_string(),
        Ok(nest) => panic!("legal\n{nest}"),
    };
    assert_eq!(
        refused(&p, &ROWS.replace("guard)", "guard) parallel(yi)")),
        "f: store_at: iterations of the parallel loop yi would share the storage"
    );
    let mut p = pipeline(STEADY, false);
    let [vx, vy] = ["x", "y"].map(Var::new);
    let at = [vx.expr(), vy.expr()];
    let later = p.funcs["f"].at(&at, 0) + p.funcs["out"].at(&at, 0);
    let later = p.func(Func::new("later", &[vx, vy], vec![later]));
    p.output(&later);
    assert_eq!(refused(&p, ROWS), "f: store_at(out, yo): it is read outside that loop, by later");
}
