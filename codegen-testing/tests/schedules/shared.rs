//! compute_with: what several of the stages read, at a joint loop.

use crate::support::{in_order, plane, refused, schedule};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Var};
use sumsq_codegen_testing::check::{Ran, bindings, check, pattern};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::Realization;

const I32: ScalarType = ScalarType::I32;

/// `q = 2 in`, rows of which are clamped, `p = q(x, y) + q(x, y + 1)`, and outputs `f = p(x, y - 1) + p(x, y + 1)`, `g = in(x, y)` to
/// which an update adds `p(x, y) + q(x, y)`, and `k(x, y) = p(x, y) + y`.
fn fork() -> Pipeline {
    let (mut q, i, vars) = plane("fork");
    let at = [vars[0].expr(), vars[1].expr()];
    let [x, y] = at.clone();
    let row = |y: Expr| y.max(0).min(i.extent(1) - 1);
    let double = q.func(Func::new("q", &vars, vec![i.at(&[x.clone(), row(y.clone())], 0) * 2]));
    let sum = double.at(&at, 0) + double.at(&[x.clone(), &y + 1], 0);
    let p = q.func(Func::new("p", &vars, vec![sum]));
    let f =
        q.func(Func::new("f", &vars, vec![p.at(&[x.clone(), &y - 1], 0) + p.at(&[x.clone(), &y + 1], 0)]));
    let g = Func::new("g", &vars, vec![i.at(&at, 0)]);
    let more = g.at(&at, 0) + p.at(&at, 0) + double.at(&at, 0);
    let g = q.func(g.update(at.to_vec(), vec![more], RDom::default()));
    let k = q.func(Func::new("k", &vars, vec![p.at(&at, 0) + y]));
    for f in [&f, &g, &k] {
        q.output(f);
    }
    q
}

fn run_over(text: &str, domains: [[usize; 2]; 3]) -> Ran {
    // No column more than is needed, where nothing asks for whole vectors: a region that grows is noticed.
    let spare = if text.contains("round_up") { 3 } else { 0 };
    let widest = domains.iter().map(|d| d[0]).max().unwrap_or(0) + spare;
    let b = bindings(vec![("in", pattern(&[I32], &[widest, 8], 3))], vec![]);
    let extents: Vec<Vec<usize>> = domains.iter().map(|d| d.to_vec()).collect();
    check(&fork(), &schedule(text), &b, &extents, 0.0)
}

/// Over different domains, and last over equal ones.
fn run(text: &str) -> Ran {
    for domains in [[[9, 6], [4, 8], [3, 3]], [[1, 1], [7, 2], [8, 7]], [[4, 8], [9, 1], [2, 2]]] {
        run_over(text, domains);
    }
    let extents: Vec<Vec<usize>> = vec![vec![9, 6], vec![4, 8], vec![3, 3]];
    let b = bindings(vec![("in", pattern(&[I32], &[12, 8], 3))], vec![]);
    agree(&fork(), &schedule(text), &b, &extents);
    run_over(text, [[9, 6]; 3])
}

/// A Func is computed once per joint iteration for all that read it there, before any of them runs.
#[test]
fn once_for_all() {
    let with = "g.update(0): compute_with(f, y) k: compute_with(g.update(0), x)";
    for level in ["f, y", "g.update(0), y", "k, y"] {
        let ran = run(&format!("{with} p: compute_at({level})"));
        let order = [
            "for f.s0.y.joint",
            "produce p {",
            "f.out(f.s0.x",
            "for g.s1.x.joint",
            "g.out(g.s1.x",
            "k.out(k.s0.x",
        ];
        in_order(&ran.nests, &order);
        // Three rows for each of six.
        assert_eq!(ran.counters.of("p").stores, 3 * 6 * 9);
    }
    // With it goes what it reads.
    let ran = run(&format!("{with} p: compute_at(f, y) q: compute_at(k, y)"));
    in_order(&ran.nests, &["for f.s0.y.joint", "produce q {", "produce p {", "f.out("]);
    assert_eq!((ran.counters.of("p").stores, ran.counters.of("q").stores), (3 * 6 * 9, 4 * 6 * 9));
}

/// A row that an iteration before computed for any of the nests is there for all.
#[test]
fn rings() {
    let rows = |stage: &str| format!("{stage}: split(y, yo, yi, 4, guard)");
    let all = ["f", "g.update(0)", "k"].map(rows).join(" ");
    let with = format!("{all} g.update(0): compute_with(f, yi) k: compute_with(f, yi)");
    let ran = run(&format!("{with} p: store_at(f, yo) compute_at(f, yi) fold_storage(y, 4)"));
    // Of six rows in two blocks: four and two more around, two and two more around.
    assert_eq!(ran.counters.of("p").stores, (6 + 4) * 9);
    let ran = run(&format!(
        "{with} p: store_at(g.update(0), yo) compute_at(k, yi) q: store_at(f, yo) compute_at(f, yi)"
    ));
    assert_eq!(ran.counters.of("p").stores, (6 + 4) * 9);
    assert_eq!(ran.counters.of("q").stores, (7 + 5) * 9);
}

/// A shared producer, under other directives of its own and of the joint loops.
#[test]
fn with_other_directives() {
    let both = |at: &str| format!("g.update(0): compute_with(f, {at}) k: compute_with(f, {at})");
    for text in [
        format!("{} p: compute_at(g.update(0), x) q: compute_at(f, y)", both("x")),
        format!("{} p: compute_at(f, y) split(x, xo, xi, 4, round_up) vectorize(xi) align_bounds(y, 2)", both("y")),
        format!("f: parallel(y) g.update(0): parallel(y) k: parallel(y) {} p: compute_at(f, y) q: compute_at(f, y)", both("y")),
        // k stands in another joint loop than f and g further in.
        "k: compute_with(g.update(0), y) g.update(0): compute_with(f, x) p: compute_at(f, x) clone_in(k, as pk) \
         pk: compute_at(k, x)"
            .into(),
        "f: split(y, yo, yi, 4, shift_inwards) g.update(0): split(y, yo, yi, 2, guard) compute_with(f, yi) \
         k: split(y, yo, yi, 3, predicate) compute_with(f, yi) p: store_at(f, yo) compute_at(f, yi)"
            .into(),
        "f: fuse(x, y, both) g.update(0): fuse(x, y, both) compute_with(f, both) k: fuse(x, y, both) compute_with(f, both) \
         p: compute_at(f, both)"
            .into(),
        "f: specialize(f.extent.0 > 4) { split(x, xo, xi, 4, guard) vectorize(xi) } g.update(0): compute_with(f, y) \
         k: compute_with(f, y) specialize(k.extent.0 > 2) { rename(x, z) } p: compute_at(f, y)"
            .into(),
        "f: split(y, yo, yi, 4, guard) specialize(f.extent.0 > 4) { split(x, xo, xi, 4, guard) vectorize(xi) } \
         g.update(0): split(y, yo, yi, 4, guard) compute_with(f, yi) k: split(y, yo, yi, 4, guard) compute_with(g.update(0), yi) \
         p: store_at(f, yo) compute_at(f, yi) q: compute_at(f, yi)"
            .into()
    ] {
        run(&text);
    }
}

/// A producer that nests share inside of a tile may be stored outside of them.
#[test]
fn inside_of_a_tile() {
    let mut q = fork();
    let [vx, vy] = ["x", "y"].map(Var::new);
    let at = [vx.expr(), vy.expr()];
    let [f, g] = ["f", "g"].map(|n| q.funcs[n].clone());
    let h = q.func(Func::new("h", &[vx, vy], vec![f.at(&at, 0) - g.at(&at, 0)]));
    q.outputs.clear();
    q.output(&h);
    let with = "h: split(y, yo, yi, 3, guard) f: compute_at(h, yo) g: compute_at(h, yo) g.update(0): compute_with(f, y)";
    for (place, rows) in
        [("compute_at(f, y)", 3 * 8), ("store_at(h, yo) compute_at(g.update(0), y)", 5 + 5 + 4)]
    {
        let b = bindings(vec![("in", pattern(&[I32], &[9, 8], 3))], vec![]);
        let s = schedule(&format!("{with} p: {place}"));
        let ran = check(&q, &s, &b, &[vec![9, 8]], 0.0);
        assert_eq!(ran.counters.of("p").stores, rows * 9, "{}", ran.nests);
        // The stages cover the same tile: none is guarded.
        let joint = &ran.nests[ran.nests.find("for f.s0.y.joint").expect("the nest")..];
        assert!(!joint[..joint.find("for h.s0").expect("its consumer")].contains("if "), "{joint}");
        agree(&q, &s, &b, &[vec![9, 8]]);
    }
}

/// Further in, a loop is one stage's own.
#[test]
fn refusals() {
    for (text, message) in [
        (
            "g.update(0): compute_with(f, y) p: compute_at(f, x)",
            "g.update(0): compute_with(f, y): g needs the values of p, which is computed in the nest of f",
        ),
        (
            "g.update(0): compute_with(f, y) p: compute_at(f, y)",
            "p: compute_at(f, y): it is read outside that loop, by k",
        ),
        (
            "f: split(y, yo, yi, 4, guard) parallel(yi) g.update(0): split(y, yo, yi, 4, guard) parallel(yi) compute_with(f, yi) \
             k: split(y, yo, yi, 4, guard) parallel(yi) compute_with(f, yi) p: store_at(f, yo) compute_at(f, yi)",
            "p: store_at: iterations of the parallel loop yi would share the storage",
        ),
        (
            "f: split(y, yo, yi, 4, guard) g.update(0): split(y, yo, yi, 4, guard) compute_with(f, yi) \
             k: split(y, yo, yi, 4, guard) compute_with(f, yi) p: store_at(f, yo) compute_at(f, yi) fold_storage(y, 2)",
            "p: fold_storage(y, 2): 3 coordinates are live at once, in [p.y.min, p.y.max]",
        ),
    ] {
        assert_eq!(refused(&fork(), &schedule(text)), message);
    }
}

/// A stage may have no iteration; the memory that its region is read from may then not be there.
#[test]
fn bounds_in_memory() {
    let (mut p, i, [vx, vy]) = plane("ragged");
    let (x, y) = (vx.expr(), vy.expr());
    let mut len = Input::new("len", &[I32], 1);
    len.value_range = Some((Expr::from(0), Expr::from(4)));
    let len = p.input(len);
    let row = p.func(Func::new("row", &[vx, vy], vec![i.at(&[x, y.clone()], 0) * 2]));
    let r = RDom::new([("r", Expr::from(0), len.at(&[y.clone()], 0))]);
    let term = row.at(&[r.var(0), y.clone()], 0);
    let f = p.func(Func::sum("f", &[vy], r, vec![term]));
    let g = p.func(Func::new("g", &[vy], vec![row.at(&[Expr::from(0), y], 0)]));
    p.output(&f);
    p.output(&g);
    let (lens, input) = (pattern(&[I32], &[6], 3), pattern(&[I32], &[5, 6], 1));
    let lens = Realization::from_fn(&[I32], &[6], |at, k| {
        lens.get(at, k).map_or(0.0, |v| v.as_f64()).clamp(0.0, 4.0)
    });
    let b = bindings(vec![("in", input), ("len", lens)], vec![]);
    for (bounds, rule) in [
        ("bound(y, 0, 6)", None),
        ("", Some("a bound that reads memory lies behind a condition between the loops")),
    ] {
        let s = schedule(&format!(
            "f: {bounds} g: {bounds} compute_with(f.update(0), y) row: compute_at(f.update(0), y)"
        ));
        match rule {
            None => drop(check(&p, &s, &b, &[vec![6], vec![6]], 0.0)),
            Some(rule) => assert_eq!(refused(&p, &s), format!("g: compute_with(f.update(0), y): {rule}")),
        }
    }
}
