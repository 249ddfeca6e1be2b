//! Refusals about placement, storage and whole schedules: exact texts. Those about one directive are with its tests.

use crate::support::{ran, refused};
use sumsq_codegen::lower::lower;
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Var};

const I32: ScalarType = ScalarType::I32;

fn schedule(text: &str) -> Schedule {
    Schedule::parse(text).expect("text")
}

/// `f = in(x, y)`, `g = f(x, y - 1) + f(x, y + 1)` summed over a row of three by an update, `h = f(x, y) + g(x, y)`; g
/// and h are outputs.
fn fork() -> Pipeline {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let (x, y) = (vx.expr(), vy.expr());
    let vars = [vx, vy];
    let mut p = Pipeline::new("fork");
    let i = p.input(Input::new("in", &[I32], 2));
    let inside = |e: &Expr, d: usize| e.clone().max(0).min(i.extent(d) - 1);
    let f = p.func(Func::new("f", &vars, vec![i.at(&[inside(&x, 0), inside(&y, 1)], 0)]));
    let g = Func::new("g", &vars, vec![f.at(&[x.clone(), &y - 1], 0) + f.at(&[x.clone(), &y + 1], 0)]);
    let r = RDom::new([("r", Expr::from(0), Expr::from(3))]);
    let value = g.at(&[x.clone(), y.clone()], 0) + f.at(&[&x + &r.var(0), y.clone()], 0);
    let g = p.func(g.update(vec![x.clone(), y.clone()], vec![value], r));
    let h = p.func(Func::new("h", &vars, vec![f.at(&[x.clone(), y.clone()], 0) + g.at(&[x, y], 0)]));
    p.output(&g);
    p.output(&h);
    p
}

/// A chain of two, `h = f(x, y - 1) + f(x, y + 1)`.
fn chain() -> Pipeline {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let (x, y) = (vx.expr(), vy.expr());
    let vars = [vx, vy];
    let mut p = Pipeline::new("chain");
    let i = p.input(Input::new("in", &[I32], 2));
    let inside = |e: &Expr, d: usize| e.clone().max(0).min(i.extent(d) - 1);
    let f = p.func(Func::new("f", &vars, vec![i.at(&[inside(&x, 0), inside(&y, 1)], 0)]));
    let h = p.func(Func::new("h", &vars, vec![f.at(&[x.clone(), &y - 1], 0) + f.at(&[x, &y + 1], 0)]));
    p.output(&h);
    p
}

#[test]
fn levels_that_do_not_hold_all_uses() {
    for (text, message) in [
        ("f: compute_at(h, y)", "f: compute_at(h, y): it is read outside that loop, by g, g.update(0)"),
        (
            "f: compute_at(g.update(0), y)",
            "f: compute_at(g.update(0), y): it is read outside that loop, by g, h",
        ),
        ("f: compute_at(h, z)", "f: compute_at(h, z): z is not a loop here; the loops are x y"),
        ("f: compute_at(q, x)", "f: compute_at(q, x): there is no such stage, or it is inlined"),
        ("q: compute_root", "q: directives: there is no such Func"),
        ("g.update(1): parallel(y)", "g.update(1): directives: there is no such update definition"),
        (
            "g.update(0): compute_root",
            "g.update(0): compute_root: placement and storage are directives of the pure definition",
        ),
        ("g: inline", "g: inline: an output must be computed"),
        ("g: compute_at(h, y)", "g: compute_at: an output computed in a consumer's nest needs `sink`"),
    ] {
        assert_eq!(refused(&fork(), &schedule(text)), message);
    }
}

#[test]
fn storage() {
    for (text, message) in [
        ("f: compute_root store_at(h, y)", "f: store_at: needs a compute_at inside it"),
        ("f: store_at(h, x) compute_at(h, y)", "f: store_at: is not at or outside of compute_at"),
        (
            "h: split(y, yo, yi, 4, predicate) parallel(yi) f: store_at(h, yo) compute_at(h, yi)",
            "f: store_at: iterations of the parallel loop yi would share the storage",
        ),
        (
            "f: store_at(h, y) compute_at(h, x) fold_storage(y, 2)",
            "f: fold_storage(y, 2): 3 coordinates are live at once, in [h.s0.y - 1, h.s0.y + 1]",
        ),
        ("f: compute_root fold_storage(y, 3)", "f: fold_storage(y, 3): the factor is not a power of two"),
        ("f: compute_root store_in(stack)", "f: store_in(stack): the extent of x has no constant bound"),
        ("f: compute_root align_bounds(x, 0)", "f: align_bounds(x, 0): the modulus must be in 1..=2^20"),
        ("f: compute_root sink", "f: sink: only an output has an output buffer"),
        ("f: compute_root in_place_of(in)", "f: in_place_of(in): only an output has an output buffer"),
        ("h: sink", "h: sink: needs compute_at; an output at root is stored anyway"),
        ("h: vectorize(x)", "h: vectorize(x): the extent has no small constant bound; split the loop first"),
        ("h: unroll(y)", "h: unroll(y): the extent has no small constant bound; split the loop first"),
        ("h: parallel(z)", "h: parallel(z): z is not a loop here; the loops are x y"),
        (
            "h: split(x, xo, xi, 8, predicate) vectorize(xi) f: compute_at(h, xi)",
            "f: compute_at(h, xi): the level is inside a vectorised loop",
        ),
    ] {
        assert_eq!(refused(&chain(), &schedule(text)), message);
    }
}

fn algorithm_error(p: &Pipeline) -> String {
    lower(p, &Schedule::new(), &Default::default()).expect_err("illegal").to_string()
}

/// What no schedule can make right.
#[test]
fn algorithms() {
    let v = Var::new("x");
    let x = v.expr();
    let start = || (Pipeline::new("p"), Input::new("in", &[I32], 1));
    let vars = std::slice::from_ref(&v);

    let (mut p, i) = start();
    let i = p.input(i);
    let g = p.func(Func::new("g", vars, vec![i.at(&[i.at(&[x.clone()], 0)], 0)]));
    p.output(&g);
    assert_eq!(
        algorithm_error(&p),
        "pipeline p: g reads in at coordinate 0, which has no bounds because of the value of input in (clamp it, or give its \
         value range); clamp the coordinate"
    );

    // An update that needs ever more of itself.
    let (mut p, _) = start();
    let f = Func::new("f", vars, vec![Expr::from(0)]);
    let value = f.at(&[&x - 1], 0) + 1;
    let f = p.func(f.update(vec![x.clone()], vec![value], RDom::default()));
    p.output(&f);
    assert_eq!(
        algorithm_error(&p),
        "pipeline p: f.update(0): pure variable x must stand in its own place in every access to f; use an RDom"
    );

    let (mut p, _) = start();
    let f = Func::new("f", vars, vec![Expr::from(0)]);
    let own = f.at(&[&x - 1], 0);
    let f = p.func(Func::new("f", vars, vec![own]));
    p.output(&f);
    assert_eq!(
        algorithm_error(&p),
        "pipeline p: the pure definition of f calls itself: use an update definition"
    );

    let (mut p, _) = start();
    let f = p.func(Func::new("f", vars, vec![Expr::from(0)]));
    p.func(Func::new("f", vars, vec![Expr::from(1)]));
    p.output(&f);
    assert_eq!(algorithm_error(&p), "pipeline p: f is defined twice");

    // Defined after it is used.
    let (mut p, _) = start();
    let f = p.func(Func::new("f", vars, vec![Expr::from(0)]));
    let more = |f: Func| {
        let value = f.at(&[x.clone()], 0) + 1;
        f.update(vec![x.clone()], vec![value], RDom::default())
    };
    let f = p.func(more(f));
    let g = p.func(Func::new("g", vars, vec![f.at(&[x.clone()], 0)]));
    p.output(&g);
    assert!(lower(&p, &Schedule::new(), &Default::default()).is_ok());
    p.func(more(f));
    assert_eq!(algorithm_error(&p), "pipeline p: f is updated after g called it: define it whole first");

    // Called, but never added to the pipeline.
    let (mut p, _) = start();
    let f = Func::new("f", vars, vec![Expr::from(0)]);
    let g = p.func(Func::new("g", vars, vec![f.at(&[x], 0)]));
    p.output(&g);
    assert_eq!(algorithm_error(&p), "pipeline p: g calls f, which is neither a Func nor an input");
}

#[test]
fn too_small_an_input() {
    let v = Var::new("x");
    let mut p = Pipeline::new("p");
    let i = p.input(Input::new("in", &[I32], 1));
    let out = p.func(Func::new("out", std::slice::from_ref(&v), vec![i.at(&[v.expr() + 2], 0)]));
    p.output(&out);
    assert_eq!(ran(&p, &Schedule::new(), &[10], &[8]), Ok(()));
    assert_eq!(
        ran(&p, &Schedule::new(), &[9], &[8]).expect_err("one is missing").to_string(),
        "p: in is read beyond dimension 0: from, to, first readable, last readable: 2, 9, 0, 8"
    );
}
