//! Validity of the folds that a schedule names: the right result or a refusal, and never a value that was overwritten too early.

use crate::support::schedule;
use sumsq_codegen::{Error, Expr, Func, Input, Pipeline, RDom, ScalarType, Var};
use sumsq_codegen_testing::check::{Ran, bindings, pattern, try_check};
use sumsq_codegen_testing::native::agree;

const I32: ScalarType = ScalarType::I32;
/// The row that is read, and the one after it, in terms of x and y.
pub type Row = fn(&Expr, &Expr) -> Expr;
const DOMAINS: [[usize; 2]; 4] = [[1, 1], [7, 5], [16, 9], [21, 13]];

/// `out(x, y) = f(x, row(y)) + f(x + 1, row(y) + 1)`, `f(x, y) = 3 in(x, y)` with its edges repeated, in an update doubled.
pub fn pipeline(row: Row, update: bool) -> Pipeline {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let (x, y) = (vx.expr(), vy.expr());
    let vars = [vx, vy];
    let mut p = Pipeline::new("folded");
    let i = p.input(Input::new("in", &[I32], 2));
    let inside = [x.clone().max(0).min(i.extent(0) - 1), y.clone().max(0).min(i.extent(1) - 1)];
    let mut f = Func::new("f", &vars, vec![i.at(&inside, 0) * 3]);
    if update {
        let own = f.at(&[x.clone(), y.clone()], 0);
        f = f.update(vec![x.clone(), y.clone()], vec![own * 2], RDom::default());
    }
    let f = p.func(f);
    let row = row(&x, &y);
    let value = f.at(&[x.clone(), row.clone()], 0) + f.at(&[&x + 1, row + 1], 0);
    let out = p.func(Func::new("out", &vars, vec![value]));
    p.output(&out);
    p
}

pub fn run(p: &Pipeline, text: &str, [w, h]: [usize; 2]) -> Result<Ran, Error> {
    let b = bindings(vec![("in", pattern(&[I32], &[w, h], 3))], vec![]);
    let s = schedule(text);
    let ran = try_check(p, &s, &b, &[vec![w, h]], 0.0)?;
    agree(p, &s, &b, &[vec![w, h]]);
    Ok(ran)
}

/// Right over all domains, each with storage of so many elements over a domain.
pub fn right(p: &Pipeline, text: &str, allocated: &dyn Fn(usize, usize) -> usize) {
    for domain in DOMAINS {
        match run(p, text, domain) {
            Ok(ran) => {
                assert_eq!(
                    ran.counters.of("f").allocated,
                    allocated(domain[0], domain[1]),
                    "{text}\n{}",
                    ran.nests
                )
            }
            Err(e) => panic!("{e}\n{text}"),
        }
    }
}

/// The rule with which a schedule is refused.
fn rule(p: &Pipeline, text: &str) -> String {
    match run(p, text, DOMAINS[1]) {
        Err(Error::Schedule { rule, .. }) => rule,
        Err(e) => panic!("{e}"),
        Ok(ran) => panic!("legal\n{text}\n{}", ran.nests),
    }
}

pub const STEADY: Row = |_, y| y.clone();

/// Rows slide, columns are folded: all columns of a tile are live.
#[test]
fn a_dimension_that_does_not_slide() {
    let p = pipeline(STEADY, false);
    let tiles = "out: split(x, xo, xi, 7, guard) reorder(xi, y, xo) f: store_at(out, xo) compute_at(out, y) store_whole";
    right(&p, &format!("{tiles} fold_storage(x, 8)"), &|_, h| 8 * (h + 1));
    right(&p, &format!("{tiles} fold_storage(x, 8) fold_storage(y, 2)"), &|_, _| 16);
    assert_eq!(
        rule(&p, &format!("{tiles} fold_storage(x, 4)")),
        "8 coordinates are live at once, in [out.s0.x.base, f.x.max]"
    );
    let rows = "out: split(x, xo, xi, 64, guard) reorder(xi, xo, y) split(y, yo, yi, 64, guard)
                f: store_at(out, yo) compute_at(out, yi)";
    assert!(
        rule(&p, &format!("{rows} fold_storage(x, 8)")).starts_with("an unbounded number of coordinates")
    );
}

/// With two loops between storage and computation each dimension slides over its own, and every value is computed once; not over one around a
/// loop that moves what is folded.
#[test]
fn two_loops_between() {
    let p = pipeline(STEADY, false);
    let text = "out: split(x, xo, xi, 4, guard) split(y, yo, yi, 16, guard) reorder(xi, xo, yi, yo)
                f: store_at(out, yo) compute_at(out, xo) store_whole";
    right(&p, &format!("{text} fold_storage(y, 2) fold_storage(x, 8)"), &|_, _| 16);
    let (w, h) = (16, 9);
    let c = run(&p, &format!("{text} fold_storage(y, 2)"), [w, h]).expect("legal").counters.of("f");
    assert_eq!(c.stores, (w + 1) * (h + 1));
    let c = run(&p, &format!("{text} fold_storage(y, 2) fold_storage(x, 8)"), [w, h])
        .expect("legal")
        .counters
        .of("f");
    assert_eq!(c.stores, (w + 1) * h * 2);
    assert!(rule(&p, &format!("{text} fold_storage(x, 4)")).starts_with("5 coordinates are live at once"));
    assert!(rule(&p, &format!("{text} fold_storage(y, 1)")).starts_with("2 coordinates are live at once"));
}

/// A Func with updates slides, too: all of its definitions compute what is new.
#[test]
fn updates() {
    let p = pipeline(STEADY, true);
    let text = "out: split(y, yo, yi, 16, guard) f: store_at(out, yo) compute_at(out, yi)";
    right(&p, &format!("{text} fold_storage(y, 2)"), &|w, _| 2 * (w + 1));
    let c = run(&p, &format!("{text} fold_storage(y, 2)"), [16, 9]).expect("legal").counters.of("f");
    assert_eq!(c.stores, 2 * (9 + 1) * 17);
    assert!(rule(&p, &format!("{text} fold_storage(y, 1)")).starts_with("2 coordinates are live at once"));
}

/// Regions that jump, forwards, backwards and to and fro.
#[test]
fn jumps() {
    let rows: [Row; 5] = [
        |_, y| y * 3,
        |_, y| y * -2 + 5,
        |_, y| y.modulo(4) * 5,
        |_, y| Expr::select(y.gt(3), y - 2, y + 0),
        |_, y| (y / 3) * 2,
    ];
    for (k, row) in rows.into_iter().enumerate() {
        let p = pipeline(row, false);
        let text = "out: split(y, yo, yi, 16, guard) f: store_at(out, yo) compute_at(out, yi)";
        // Of a select both arms are live.
        let live = if k == 3 { 4 } else { 2 };
        right(&p, &format!("{text} fold_storage(y, {live})"), &|w, _| live * (w + 1));
        let rule = rule(&p, &format!("{text} fold_storage(y, {})", live / 2));
        assert!(rule.starts_with(&format!("{live} coordinates are live at once")), "{rule}");
    }
}
