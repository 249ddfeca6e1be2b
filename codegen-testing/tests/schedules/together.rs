//! compute_with.

use crate::support::{in_order, plane, refused, schedule};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Var};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::native::agree;

const I32: ScalarType = ScalarType::I32;

/// Of an input, not connected: `f = p(x, y - 1) + p(x, y + 1)`, `g`, in two updates the input doubled and a count added, and
/// `h = f + g`; all but p are outputs.
fn fork() -> Pipeline {
    let (mut q, i, vars) = plane("fork");
    let at = [vars[0].expr(), vars[1].expr()];
    let [x, y] = at.clone();
    let p =
        q.func(Func::new("p", &vars, vec![i.at(&[x.clone(), y.clone().max(0).min(i.extent(1) - 1)], 0) * 3]));
    let f = Func::new("f", &vars, vec![p.at(&[x.clone(), &y - 1], 0) + p.at(&[x.clone(), &y + 1], 0)]);
    let f = q.func(f);
    let g = Func::new("g", &vars, vec![i.at(&at, 0)]);
    let twice = g.at(&at, 0) * 2;
    let g = g.update(at.to_vec(), vec![twice], RDom::default());
    let r = RDom::new([("r", Expr::from(0), Expr::from(3))]);
    let more = g.at(&at, 0) + r.var(0) * &x;
    let g = q.func(g.update(at.to_vec(), vec![more], r));
    let h = q.func(Func::new("h", &vars, vec![f.at(&at, 0) + g.at(&at, 0)]));
    for f in [&f, &g, &h] {
        q.output(f);
    }
    q
}

/// The nests, after runs over equal domains and over different ones.
fn run(text: &str) -> String {
    let mut last = String::new();
    for domains in [[[9, 6]; 3], [[9, 6], [4, 8], [5, 3]], [[1, 1], [7, 2], [7, 1]]] {
        let input = pattern(&[I32], &[9, 8], 3);
        let b = bindings(vec![("in", input)], vec![]);
        let extents: Vec<Vec<usize>> = domains.iter().map(|d| d.to_vec()).collect();
        last = check(&fork(), &schedule(text), &b, &extents, 0.0).nests;
        agree(&fork(), &schedule(text), &b, &extents);
    }
    last
}

/// In each joint iteration the named stage comes first.
#[test]
fn bodies_alternate() {
    let nests = run("g: compute_with(f, y) f: parallel(y) g: parallel(y)");
    in_order(
        &nests,
        &["parallel for f.s0.y.joint", "produce f {", "for f.s0.x", "produce g {", "for g.s0.x"],
    );
    let nests = run("f: compute_with(g, x)");
    in_order(
        &nests,
        &["for g.s0.y.joint", "for g.s0.x.joint", "produce g {", "produce f {", "produce g.update(0)"],
    );
    let text = fork().print_loop_nest(&schedule("g: compute_with(f, y)")).expect("legal");
    let expected = "\
for y:
  produce f:
    for x:
      f(...) = ...
      f.out(...) = ...
  produce g:
    for x:
      g(...) = ...
";
    assert!(text.contains(expected), "{text}");
}

/// Loops of the same range need no conditions.
#[test]
fn equal_loops_are_not_guarded() {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let at = [vx.expr(), vy.expr()];
    let mut p = Pipeline::new("pair");
    let i = p.input(Input::new("in", &[I32], 2));
    let f = p.func(Func::new("f", &[vx, vy], vec![i.at(&at, 0) + 1]));
    let g = p.func(Func::new("g", &[vx, vy], vec![i.at(&at, 0) * 2]));
    let h = p.func(Func::new("h", &[vx, vy], vec![f.at(&at, 0) - g.at(&at, 0)]));
    p.output(&h);
    let b = bindings(vec![("in", pattern(&[I32], &[9, 6], 1))], vec![]);
    let tiles = "split(x, xo, xi, 4, guard) reorder(xi, y, xo)";
    let text = format!("h: {tiles} f: compute_at(h, xo) g: compute_at(h, xo) compute_with(f, x)");
    let ran = check(&p, &schedule(&text), &b, &[vec![9, 6]], 0.0);
    let nests = &ran.nests[ran.nests.find("for h.s0.xo").expect("the nest")..];
    in_order(
        nests,
        &["for f.s0.y.joint", "for f.s0.x.joint", "f(f.s0.x, f.s0.y)", "g(g.s0.x, g.s0.y)", "for h.s0.y"],
    );
    assert!(!nests.contains("if "), "{nests}");
}

/// Other schedules of the two nests, inside and outside of the joint loops.
#[test]
fn with_other_directives() {
    for text in [
        "f: split(y, yo, yi, 4, guard) split(x, xo, xi, 4, predicate) vectorize(xi) \
         g: split(y, yo, yi, 3, predicate) compute_with(f, yi) split(x, xo, xi, 8, auto) vectorize(xi)",
        "f: split(y, yo, yi, 4, shift_inwards) g: split(y, yo, yi, 2, guard) compute_with(f, yo)",
        "p: store_at(f, y) compute_at(f, x) f: compute_with(g.update(1), y)",
        "p: store_at(f, y) compute_at(f, x) g: compute_with(f, x)",
        "p: compute_at(f, y) split(x, xo, xi, 4, predicate) vectorize(xi) g.update(1): reorder(r, x, y) compute_with(f, x)",
        "p: compute_root compute_with(g, y) split(x, a, b, 4, guard) f: compute_with(g.update(1), y)",
        "p: compute_root compute_with(g, y) f: compute_with(g.update(0), x)",
        // What one reads may be computed where another one is named.
        "p: compute_at(g, x) g: compute_with(f, x)",
        "f: split(y, t, ty, 4, guard) reorder(ty, x, t) parallel(t) g: split(y, t, ty, 4, predicate) reorder(ty, x, t) \
         parallel(t) compute_with(f, x)",
    ] {
        run(text);
    }
}

/// Of an input and a mask per row and column, `p = 3 in` where both are positive, else 0, at rows and columns that are clamped;
/// outputs `f = p(x, y - 1) + p(x + 1, y)` and `g = 2 in`.
fn masked() -> Pipeline {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let (x, y) = (vx.expr(), vy.expr());
    let vars = [vx, vy];
    let mut q = Pipeline::new("masked");
    let i = q.input(Input::new("in", &[I32], 2));
    let [rows, columns] = ["rows", "columns"].map(|n| q.input(Input::new(n, &[I32], 1)));
    let [cx, cy] = [0, 1].map(|d| [&x, &y][d].clone().max(0).min(i.extent(d) - 1));
    let on = rows.at(&[cy.clone()], 0).gt(0).and(columns.at(&[cx.clone()], 0).gt(0));
    let value = Expr::select(on, i.at(&[cx, cy], 0) * 3, Expr::from(0));
    let p = q.func(Func::new("p", &vars, vec![value]));
    let f = p.at(&[x.clone(), &y - 1], 0) + p.at(&[&x + 1, y.clone()], 0);
    let f = q.func(Func::new("f", &vars, vec![f]));
    let g = q.func(Func::new("g", &vars, vec![i.at(&[x, y], 0) * 2]));
    q.output(&f);
    q.output(&g);
    q
}

/// Joint loops store zeros where a condition fails; what the values need is not computed there.
#[test]
fn zeros_of_what_is_skipped() {
    let row = "skip_unless(y, rows(max(0, min(y, in.extent.1 - 1))) > 0)";
    let column = "skip_unless(x, columns(max(0, min(x, in.extent.0 - 1))) > 0)";
    for (text, zeros) in [
        (format!("p: compute_root {row} g: compute_with(p, y)"), 1),
        (format!("p: compute_root {row} {column} g: compute_with(p, x)"), 2),
        (format!("g: compute_root p: compute_root {column} compute_with(g, y)"), 1),
        (
            format!(
                "p: compute_root split(x, xo, xi, 4, predicate) vectorize(xi) split(y, s, r, 3, guard) {} \
                 g: split(y, s, r, 3, guard) compute_with(p, r)",
                row.replace("(y, rows", "(r, rows")
            ),
            1,
        ),
        (
            format!(
                "p: compute_root {row} partition(y, never) g: compute_with(p, y) in: in_(p, as copy) copy: compute_at(p, y)"
            ),
            1,
        ),
        (
            format!(
                "p: compute_root {row} specialize(in.extent.0 > 6) {{ split(x, xo, xi, 4, guard) }} g: compute_with(p, y)"
            ),
            1,
        ),
    ] {
        let s = schedule(&text);
        for extents in [[[9, 6], [9, 8]], [[4, 8], [7, 3]], [[1, 1], [7, 2]]] {
            let [rows, columns] = [8, 9].map(|n| pattern(&[I32], &[n], 5));
            let b = bindings(
                vec![("in", pattern(&[I32], &[9, 8], 3)), ("rows", rows), ("columns", columns)],
                vec![],
            );
            let extents: Vec<Vec<usize>> = extents.iter().map(|d| d.to_vec()).collect();
            let nests = check(&masked(), &s, &b, &extents, 0.0).nests;
            agree(&masked(), &s, &b, &extents);
            let versions = 1 + text.matches("specialize").count();
            let stores = nests.lines().filter(|l| l.trim().starts_with("p(") && l.ends_with("= 0"));
            assert_eq!(stores.count(), zeros * versions, "{nests}");
        }
    }
}

/// Each version of one stage stands beside each of the others, up to a limit.
#[test]
fn versions_multiply() {
    let versions =
        |n: i32| (0..n).map(|k| format!(" specialize(in.extent.0 == {k}) {{ }}")).collect::<String>();
    let text = |n: i32, m: i32| format!("f:{} g: compute_with(f, y){}", versions(n), versions(m));
    assert!(fork().print_loop_nest(&schedule(&text(7, 7))).is_ok());
    let rule = "9 times 8 are 72 versions of the joint nest, more than 64; specialize fewer of the stages";
    assert_eq!(refused(&fork(), &schedule(&text(8, 7))), format!("g: compute_with(f, y): {rule}"));
}

#[test]
fn refusals() {
    for (text, message) in [
        ("h: compute_with(f, y)", "h: compute_with(f, y): h needs the values of f"),
        ("f: compute_with(h, y)", "f: compute_with(h, y): h needs the values of f"),
        ("p: compute_root compute_with(f, y)", "p: compute_with(f, y): f needs the values of p"),
        ("g: compute_with(q, y)", "g: compute_with(q, y): there is no such stage, or it is inlined"),
        ("g: compute_with(p, y)", "g: compute_with(p, y): there is no such stage, or it is inlined"),
        ("g: compute_with(f, z)", "g: compute_with(f, z): z is not a loop here; the loops are x y"),
        (
            "g.update(0): compute_with(g, y)",
            "g.update(0): compute_with(g, y): the stages of one Func come one after the other",
        ),
        (
            "g: compute_with(f, x) reorder(y, x)",
            "g: compute_with(f, x): the outer loops differ: x, y and y, x",
        ),
        (
            "g: compute_with(f, y) parallel(y)",
            "g: compute_with(f, y): the outer loops differ: parallel y and y",
        ),
        (
            "p: compute_at(f, y) g: compute_with(p, y)",
            "g: compute_with(p, y): g and p are computed at different levels",
        ),
        (
            "f: specialize(f.extent.0 > 4) { parallel(y) } g: compute_with(f, y)",
            "g: compute_with(f, y): in the version for f.extent.0 > 4: the outer loops differ: parallel y and y",
        ),
        (
            "g: compute_with(f, x) specialize(f.extent.0 > 4) { specialize(f.extent.0 > 8) { reorder(y, x) } }",
            "g: compute_with(f, x): in the version for f.extent.0 > 4: the outer loops differ: x, y and y, x",
        ),
        (
            "f: compute_with(g, y) g: compute_with(f, y)",
            "f: compute_with(g, y): a stage cannot run with itself: f with g with f",
        ),
        ("h: compute_with(g, y) g: compute_with(f, y)", "h: compute_with(g, y): h needs the values of f"),
        (
            "g.update(1): compute_with(f, y) f: compute_with(g.update(0), x)",
            "g.update(1): compute_with(f, y): the stages of one Func come one after the other",
        ),
    ] {
        assert_eq!(refused(&fork(), &schedule(text)), message);
    }
}

/// Stages of each Func in their order, and nests in an order at all.
#[test]
fn crossing() {
    let v = Var::new("x");
    let at = [v.expr()];
    let mut p = Pipeline::new("cross");
    let i = p.input(Input::new("in", &[I32], 1));
    let two = |name: &str, k: i64| {
        let f = Func::new(name, std::slice::from_ref(&v), vec![i.at(&at, 0) + k]);
        let more = f.at(&at, 0) * 2;
        f.update(at.to_vec(), vec![more], RDom::default())
    };
    let (f, g) = (p.func(two("f", 1)), p.func(two("g", 2)));
    let a = p.func(Func::new("a", std::slice::from_ref(&v), vec![f.at(&at, 0)]));
    let b = p.func(Func::new("b", std::slice::from_ref(&v), vec![i.at(&at, 0)]));
    for f in [&f, &g, &a, &b] {
        p.output(f);
    }
    let rule = "crosses another compute_with: each of the nests would have to come before the other";
    let s = schedule("g: compute_with(f.update(0), x) g.update(0): compute_with(f, x)");
    assert_eq!(refused(&p, &s), format!("g.update(0): compute_with(f, x): {rule}"));
    // In their order they are legal.
    let extents = [vec![5], vec![6], vec![5], vec![4]];
    let input = bindings(vec![("in", pattern(&[I32], &[6], 1))], vec![]);
    let s = schedule("g: compute_with(f, x) g.update(0): compute_with(f.update(0), x) b: compute_with(a, x)");
    agree(&p, &s, &input, &extents);
    // b would have to come with a, which is after f, but with g before it.
    let c = p.func(Func::new("c", std::slice::from_ref(&v), vec![b.at(&at, 0)]));
    p.output(&c);
    let s = schedule("b: compute_with(a, x) c: compute_with(f, x)");
    assert_eq!(refused(&p, &s), format!("c: compute_with(f, x): {rule}"));
}
