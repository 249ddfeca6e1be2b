//! Promises of schedules in numbers: values computed once, storage as small as folded, loads and operations per element of
//! a loop's interior.

use sumsq_codegen::schedule::Memory;
use sumsq_codegen::{Expr, Func, Input, LoopLevel, Pipeline, RDom, ScalarType, Schedule, Tail, Var};
use sumsq_codegen_testing::check::{Ran, bindings, check, pattern, with_halo};
use sumsq_codegen_testing::reference::Value;

const I32: ScalarType = ScalarType::I32;

/// bx(x, y) = in(x-1..x+1, y), out = bx(x, y-reach..y+reach), on an input with a wide halo.
fn blur(reach: i64) -> Pipeline {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());
    let mut p = Pipeline::new("blur");
    let mut input = Input::new("in", &[I32], 2);
    input.halo = vec![40, 40];
    let i = p.input(input);
    let at = |dx: i64| i.at(&[&x + dx, y.clone()], 0);
    let bx = p.func(Func::new("bx", &[vx, vy], vec![at(-1) + at(0) * 2 + at(1)]));
    let by = |dy: i64| bx.at(&[x.clone(), &y + dy], 0);
    let sum = (-reach..=reach).map(by).reduce(|a, b| a + b).expect("some tap");
    let out = p.func(Func::new("out", &[vx, vy], vec![sum]));
    p.output(&out);
    p
}

fn run(p: &Pipeline, s: &Schedule, w: usize, h: usize) -> Ran {
    let b = bindings(vec![("in", with_halo(&pattern(&[I32], &[w, h], 3), &[40, 40]))], vec![]);
    check(p, s, &b, &[vec![w, h]], 0.0)
}

fn at(var: &str) -> LoopLevel {
    LoopLevel::pure("out", var)
}

#[test]
fn a_sliding_window_computes_each_value_once() {
    for reach in [1, 2, 3] {
        for (w, h) in [(1, 1), (8, 5), (13, 17)] {
            let p = blur(reach);
            let mut s = Schedule::new();
            s.func("out").split("y", "all", "row", 64, Tail::GuardWithIf);
            s.func("bx").store_at(at("all")).compute_at(at("row")).fold_storage("y", 8);
            let c = run(&p, &s, w, h).counters.of("bx");
            assert_eq!((c.stores, c.points), (w * (h + 2 * reach as usize), c.stores));
            assert_eq!((c.allocations, c.allocated), (1, 8 * w));
        }
    }
}

/// `out(x, y) = f(x, a - k y) + ... + f(x, a - k y + reach)`: the region falls as the rows advance.
fn falling(k: i64, reach: i64) -> Pipeline {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());
    let mut p = Pipeline::new("falling");
    let mut input = Input::new("in", &[I32], 2);
    input.halo = vec![40, 40];
    let i = p.input(input);
    let vars = [vx, vy];
    let f = p.func(Func::new("f", &vars, vec![i.at(&[x.clone(), y.clone()], 0) * 3]));
    let tap = |dy: i64| f.at(&[x.clone(), i.extent(1) - 1 - &y * k + dy], 0);
    let out =
        p.func(Func::new("out", &vars, vec![(0..=reach).map(tap).reduce(|a, b| a + b).expect("a tap")]));
    p.output(&out);
    p
}

#[test]
fn a_window_that_slides_backwards_computes_each_value_once() {
    for (k, reach, fold) in [(1, 1, 2), (1, 2, 4), (1, 4, 8), (2, 2, 4), (3, 1, 2), (2, 5, 8)] {
        for (w, h) in [(1, 1), (8, 5), (13, 17)] {
            let p = falling(k, reach);
            for text in
                ["", " split(y, yo, yi, 2, guard)", " split(x, xo, xi, 4, shift_inwards) vectorize(xi)"]
            {
                let mut s = Schedule::parse(&format!("f:{text}")).expect("text");
                s.func("out").split("y", "all", "row", 64, Tail::GuardWithIf);
                s.func("f").store_at(at("all")).compute_at(at("row")).fold_storage("y", fold);
                let ran = run(&p, &s, w, h);
                let c = ran.counters.of("f");
                // Of a region that jumps, k > reach + 1, only what is needed.
                let rows = (h - 1) * k.min(reach + 1) as usize + 1 + reach as usize;
                let stores = if text.contains("shift_inwards") && w > 4 { c.stores } else { w * rows };
                assert_eq!(
                    (c.points, c.stores),
                    (w * rows, stores),
                    "{k} {reach} {w} {h}{text}\n{}",
                    ran.nests
                );
                assert_eq!((c.allocations, c.allocated), (1, fold as usize * w));
            }
        }
    }
}

/// `out = select(choice > 0, f.., g) + ..`; h is needed by f and, under the same condition, by out. With `both`, g is needed anyway.
fn choice(both: bool) -> Pipeline {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let at = [vx.expr(), vy.expr()];
    let vars = [vx, vy];
    let mut p = Pipeline::new("choice");
    let choice = p.param("choice", I32);
    let mut input = Input::new("in", &[I32], 2);
    input.halo = vec![40, 40];
    let i = p.input(input);
    let h = p.func(Func::new("h", &vars, vec![i.at(&at, 0) * 3]));
    let f = p.func(Func::new("f", &vars, vec![h.at(&at, 0) + h.at(&[&at[0] + 1, at[1].clone()], 0)]));
    let twice = i.at(&at, 0) * 2;
    let mut g = Func::new("g", &vars, vec![twice]);
    let own = g.at(&at, 0);
    g = p.func(g.update(at.to_vec(), vec![own + 1], RDom::default()));
    let rest = if both { g.at(&at, 0) } else { i.at(&at, 0) };
    let above = f.at(&[at[0].clone(), &at[1] + 1], 0);
    let value = Expr::select(choice.gt(0), f.at(&at, 0) + above, g.at(&at, 0)) + rest;
    let deep = Expr::select(choice.gt(4).not_(), h.at(&at, 0), Expr::from(0));
    let value = value + Expr::select(choice.gt(0), deep, Expr::from(0));
    let out = p.func(Func::new("out", &vars, vec![value]));
    p.output(&out);
    p
}

/// Stages that no condition of parameters asks for are not computed; the results are the same.
#[test]
fn stages_are_skipped_where_they_are_not_needed() {
    let (w, h) = (13, 9);
    let input = || with_halo(&pattern(&[I32], &[w, h], 3), &[40, 40]);
    for both in [false, true] {
        let p = choice(both);
        for (text, rows) in [
            ("f: compute_root g: compute_root h: compute_root", h + 1),
            ("f: compute_root h: compute_root g: compute_at(out, y)", h + 1),
            (
                "f: compute_root split(x, xo, xi, 4, predicate) vectorize(xi) h: compute_root g: compute_root
                 out: parallel(y) split(x, xo, xi, 8, guard) vectorize(xi)",
                h + 1,
            ),
            (
                "out: split(y, yo, yi, 16, guard) f: store_at(out, yo) compute_at(out, yi) fold_storage(y, 2)
                 h: compute_root g: compute_root",
                h + 1,
            ),
        ] {
            let s = Schedule::parse(text).expect("text");
            for value in [-1, 0, 1, 3, 5] {
                let b = bindings(vec![("in", input())], vec![("choice", Value::Int(value))]);
                let ran = check(&p, &s, &b, &[vec![w, h]], 0.0);
                let stores = |name: &str| ran.lowered.of(name).stores;
                let (f, g) = if value > 0 { (w * rows, 0) } else { (0, 2 * w * h) };
                let g = if both { 2 * w * h } else { g };
                assert_eq!((stores("f.0"), stores("g.0")), (f, g), "{value}\n{s}{}", ran.body);
                assert_eq!(stores("h.0") > 0, value > 0, "{value}\n{s}{}", ran.body);
            }
        }
    }
}

/// Of conditions that depend on coordinates, too, what does not decides whether a stage is needed: f where `a && b` may hold, g
/// where `c` may fail with others.
#[test]
fn parts_of_conditions_skip_stages() {
    let (w, h) = (13, 9);
    let [vx, vy] = ["x", "y"].map(Var::new);
    let at = [vx.expr(), vy.expr()];
    let vars = [vx, vy];
    let mut p = Pipeline::new("parts");
    let [a, b, c] = ["a", "b", "c"].map(|n| p.param(n, I32));
    let i = p.input(Input::new("in", &[I32], 2));
    let f = p.func(Func::new("f", &vars, vec![i.at(&at, 0) * 3]));
    let g = p.func(Func::new("g", &vars, vec![i.at(&at, 0) + 7]));
    let here = &at[0] + &at[1];
    let both = a.gt(0).and(here.lt(11).and(b.gt(0))).and(i.at(&at, 0).ne_(4));
    let value = Expr::select(both, f.at(&at, 0), at[0].clone());
    let any = at[0].lt(3).or(c.gt(0)).or(at[1].gt(5));
    let value = value + Expr::select(any, Expr::from(1), g.at(&at, 0));
    let out = p.func(Func::new("out", &vars, vec![value]));
    p.output(&out);
    for text in [
        "f: compute_root g: compute_root",
        "f: compute_root split(x, xo, xi, 4, predicate) vectorize(xi) g: compute_at(out, y)
         out: parallel(y) split(x, xo, xi, 8, guard) vectorize(xi)",
    ] {
        let s = Schedule::parse(text).expect("text");
        for (a, b, c) in [(0, 0, 0), (1, 0, 1), (0, 1, 1), (1, 1, 0), (1, 1, 1)] {
            let params = [("a", a), ("b", b), ("c", c)].map(|(n, v)| (n, Value::Int(v))).to_vec();
            let given = bindings(vec![("in", pattern(&[I32], &[w, h], 3))], params);
            let ran = check(&p, &s, &given, &[vec![w, h]], 0.0);
            let stores = |name: &str| ran.lowered.of(name).stores;
            let needed = |yes: bool| if yes { w * h } else { 0 };
            let want = (needed(a > 0 && b > 0), needed(c <= 0));
            assert_eq!((stores("f.0"), stores("g.0")), want, "{a} {b} {c}\n{s}{}", ran.body);
        }
    }
}

#[test]
fn strips_repeat_only_what_they_share() {
    let (w, h, strip) = (16, 21, 5);
    let p = blur(1);
    let mut s = Schedule::new();
    s.func("out").split("y", "strip", "row", strip as i32, Tail::GuardWithIf).parallel("strip");
    s.func("bx").store_at(at("strip")).compute_at(at("row")).fold_storage("y", 4);
    let ran = run(&p, &s, w, h);
    let c = ran.counters.of("bx");
    let strips = h.div_ceil(strip);
    assert_eq!((c.points, c.stores), (w * (h + 2), w * (h + 2 * strips)));
    assert_eq!((c.allocations, c.allocated), (strips, 4 * w));
    // Flat: rows start at multiples of 16 elements, and of no multiple of a page.
    assert_eq!(ran.lowered.of("bx.0").allocated % (4 * 16), 0);
    assert!(ran.lowered.of("bx.0").allocated < 4 * (w + 32));
}

#[test]
fn storage_at_a_tile_is_that_of_a_tile() {
    let p = blur(1);
    let mut s = Schedule::new();
    s.func("out").tile("x", "y", "xo", "yo", "xi", "yi", 8, 4, Tail::GuardWithIf);
    s.func("bx").compute_at(at("xo"));
    let c = run(&p, &s, 32, 16).counters.of("bx");
    assert_eq!((c.allocations, c.allocated, c.stores), (16, 8 * 6, 16 * 8 * 6));
    // An outer split of the tiles changes nothing about what one tile needs.
    s.func("out").split("yo", "yoo", "yoi", 3, Tail::GuardWithIf).split(
        "xo",
        "xoo",
        "xoi",
        2,
        Tail::GuardWithIf,
    );
    s.func("out").reorder(&["xi", "yi", "xoi", "yoi", "xoo", "yoo"]);
    let mut t = Schedule::new();
    t.stages.insert(s.stages.get_index(0).expect("out").0.clone(), s.stages[0].clone());
    t.func("bx").compute_at(at("xoi"));
    let c = run(&p, &t, 32, 16).counters.of("bx");
    assert_eq!((c.allocations, c.allocated, c.stores), (16, 8 * 6, 16 * 8 * 6));
}

#[test]
fn storage_in_the_frame_has_the_size_of_its_bound() {
    let p = blur(1);
    let mut s = Schedule::new();
    s.func("out").split("x", "xo", "xi", 8, Tail::GuardWithIf);
    s.func("bx").compute_at(at("xo")).store_in(Memory::Stack);
    let ran = run(&p, &s, 19, 3);
    assert_eq!(ran.counters.of("bx").allocated, 8 * 3);
    assert!(ran.body.contains("on stack"), "{}", ran.body);
}

/// A Laplacian that reads zeros outside of the domain; the conditions are likely.
fn laplacian() -> Pipeline {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());
    let mut p = Pipeline::new("laplacian");
    let mut input = Input::new("in", &[I32], 2);
    input.halo = vec![40, 40];
    let i = p.input(input);
    let (w, h) = (i.extent(0), i.extent(1));
    let inside =
        |c: Expr, dx: i64, dy: i64| Expr::select(c.likely(), i.at(&[&x + dx, &y + dy], 0), Expr::from(0));
    let value = i.at(&[x.clone(), y.clone()], 0) * 4
        - inside((&x + 1).lt(&w), 1, 0)
        - inside((&x - 1).ge(0), -1, 0)
        - inside((&y + 1).lt(&h), 0, 1)
        - inside((&y - 1).ge(0), 0, -1);
    let out = p.func(Func::new("out", &[vx, vy], vec![value]));
    p.output(&out);
    p
}

/// One more row of an image costs what its interior vectors and the two at its ends cost; one more column of vectors in
/// rows of the interior costs what the algorithm says: five loads, a product and four differences, no guard.
#[test]
fn the_interior_of_a_partitioned_loop_has_no_guards() {
    let p = laplacian();
    let mut s = Schedule::new();
    s.func("out").vectorize("x", 8, Tail::Predicate);
    let count = |w: usize, h: usize| {
        let ran = run(&p, &s, w, h);
        (ran.lowered.of("in.0").load_instructions, ran.lowered.operations)
    };
    let column = |h| {
        let (less, more) = (count(48, h), count(56, h));
        (more.0 - less.0, more.1 - less.1)
    };
    // Rows at the top and bottom have guards; two more rows of the interior tell what those cost.
    let (few, many) = (column(4), column(6));
    assert_eq!((many.0 - few.0, many.1 - few.1), (2 * 5, 2 * 5));
}

#[test]
fn a_reduction_by_lanes_loads_each_element_once() {
    let mut p = Pipeline::new("total");
    let i = p.input(Input::new("in", &[I32], 1));
    let r = RDom::new([("r", Expr::from(0), i.extent(0))]);
    let sum = p.func(Func::sum("sum", &[], r.clone(), vec![i.at(&[r.var(0)], 0)]));
    p.output(&sum);
    let mut s = Schedule::new();
    s.update("sum", 0)
        .split("r", "ro", "ri", 8, Tail::Predicate)
        .rfactor(&[("ri", "l")], "lanes")
        .vectorize_loop("ri");
    s.func("lanes").store_in(Memory::Register).vectorize_loop("l");
    s.update("lanes", 0).reorder(&["l", "ro"]).vectorize_loop("l");
    for n in [8, 40, 43] {
        let b = bindings(vec![("in", pattern(&[I32], &[n], 1))], vec![]);
        let ran = check(&p, &s, &b, &[vec![]], 0.0);
        let c = ran.lowered.of("in.0");
        assert_eq!((c.loads, c.load_instructions), (n, n.div_ceil(8)), "{}", ran.body);
        assert_eq!(ran.lowered.of("lanes.0").allocated, 8, "one vector");
    }
}

/// Sums over a triangle, and strips of rows: a loop ends where its conditions do.
#[test]
fn iterations_that_do_nothing_are_not_run() {
    let n = 13usize;
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("triangle");
    let i = p.input(Input::new("in", &[I32], 1));
    let r = RDom::new([("r", Expr::from(0), i.extent(0))]);
    let below = r.var(0).le(&x);
    let f = Func::new("f", std::slice::from_ref(&v), vec![Expr::from(0)]);
    let more = f.at(std::slice::from_ref(&x), 0) + i.at(&[r.var(0)], 0);
    let f = p.func(f.update(vec![x], vec![more], r.filter(below)));
    p.output(&f);
    let b = bindings(vec![("in", pattern(&[I32], &[n], 1))], vec![]);
    let ran = check(&p, &Schedule::new(), &b, &[vec![n]], 0.0);
    assert_eq!(ran.counters.iterations, n + n + n * (n + 1) / 2, "{}", ran.nests);
    assert!(!ran.nests.contains("if "), "{}", ran.nests);

    let (w, h, strip) = (3, 21, 5);
    let p = blur(1);
    let mut s = Schedule::new();
    s.func("out").split("y", "strip", "row", strip, Tail::GuardWithIf);
    let ran = run(&p, &s, w, h);
    assert_eq!(ran.counters.iterations, h.div_ceil(strip as usize) + h + w * h, "{}", ran.nests);
    assert!(!ran.nests.contains("if "), "{}", ran.nests);
}

/// out(x) = a(x / 2) where x is even, else b(x / 2).
#[test]
fn interleaved_columns_are_stored_together() {
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("zip");
    let [a, b] = ["a", "b"].map(|n| p.input(Input::new(n, &[I32], 1)));
    let half = [&x / 2];
    let value = Expr::select((&x % 2).eq_(0), a.at(&half, 0), b.at(&half, 0));
    let out = p.func(Func::new("out", &[v], vec![value]));
    p.output(&out);
    let mut s = Schedule::new();
    s.func("out").split("x", "pair", "odd", 2, Tail::Predicate).unroll("odd").vectorize(
        "pair",
        8,
        Tail::Predicate,
    );
    // The last vectors of a tail are masked: one for the even and one for the odd columns.
    for (n, stores, loads) in [(64usize, 4usize, 4), (70, 4 + 2, 5), (75, 4 + 2, 5), (3, 2, 1)] {
        let of = |seed| pattern(&[I32], &[n.div_ceil(2)], seed);
        let b = bindings(vec![("a", of(1)), ("b", of(2))], vec![]);
        let ran = check(&p, &s, &b, &[vec![n]], 0.0);
        let c = ran.lowered.of("out.0");
        assert_eq!((c.stores, c.store_instructions), (n, stores), "{n}: {}", ran.body);
        assert_eq!(ran.lowered.of("a.0").load_instructions, loads, "{n}: {}", ran.body);
    }
}

/// A factor per row, and one for the image: once per row, once at all.
#[test]
fn what_does_not_change_in_a_loop_is_computed_before_it() {
    const F32: ScalarType = ScalarType::F32;
    let [vx, vy] = ["x", "y"].map(Var::new);
    let (x, y) = (vx.expr(), vy.expr());
    let mut p = Pipeline::new("rows");
    let scale = p.param("scale", F32);
    let i = p.input(Input::new("in", &[F32], 2));
    let value = i.at(&[x, y.clone()], 0) * (y.cast(F32) * scale.sqrt()).abs();
    let out = p.func(Func::new("out", &[vx, vy], vec![value]));
    p.output(&out);
    let mut s = Schedule::new();
    s.func("out").vectorize("x", 8, Tail::GuardWithIf).parallel("y");
    for (w, h) in [(32, 3), (64, 5)] {
        let b = bindings(
            vec![("in", pattern(&[F32], &[w, h], 3))],
            vec![("scale", sumsq_codegen_testing::reference::Value::Float(2.25))],
        );
        let ran = check(&p, &s, &b, &[vec![w, h]], 0.0);
        // sqrt; a product and its magnitude; a product per vector.
        assert_eq!(ran.lowered.operations, 1 + h * (2 + w / 8), "{}", ran.body);
    }
}

/// Rows that the data chooses, of a small table on the stack: places in it need no 64 bits.
#[test]
fn places_in_a_table_are_found_in_32_bits() {
    let [vx, vr] = ["x", "r"].map(Var::new);
    let mut p = Pipeline::new("table");
    let i = p.input(Input::new("in", &[I32], 1));
    let table = p.func(Func::new("table", &[vx, vr], vec![vx.expr() * 3 - vr.expr() * 7]));
    let row = i.at(&[vx.expr()], 0).max(0).min(5);
    let column = (i.at(&[vx.expr()], 0) / 2).max(0).min(9);
    let out = p.func(Func::new("out", std::slice::from_ref(&vx), vec![table.at(&[column, row], 0)]));
    p.output(&out);
    let mut s = Schedule::new();
    s.func("table").compute_root().store_in(Memory::Stack);
    s.func("out").vectorize("x", 8, Tail::Predicate);
    let b = bindings(vec![("in", pattern(&[I32], &[21], 1))], vec![]);
    let ran = check(&p, &s, &b, &[vec![21]], 0.0);
    assert_eq!(ran.lowered.of("table.0").allocated, 6 * 10);
    let gather =
        ran.body.lines().find(|l| l.contains("= table.0[i64(")).unwrap_or_else(|| panic!("{}", ran.body));
    assert!(gather.contains(" * x8(10)") && !gather.contains("x8(10:i64)"), "{gather}");
}

/// A stage whose values a condition that is never true asks for.
#[test]
fn storage_that_nobody_reads_is_not_there() {
    let v = Var::new("x");
    let mut p = Pipeline::new("dead");
    let i = p.input(Input::new("in", &[I32], 1));
    let at = |f: &Func| f.at(&[v.expr()], 0);
    let first = p.func(Func::new("first", std::slice::from_ref(&v), vec![i.at(&[v.expr()], 0) * 3]));
    let second = p.func(Func::new("second", std::slice::from_ref(&v), vec![at(&first) + 1]));
    let never = v.expr().lt(0);
    let value = Expr::select(never, at(&second), i.at(&[v.expr()], 0));
    let out = p.func(Func::new("out", std::slice::from_ref(&v), vec![value]));
    p.output(&out);
    let mut s = Schedule::new();
    s.func("first").compute_root();
    s.func("second").compute_root();
    let b = bindings(vec![("in", pattern(&[I32], &[9], 1))], vec![]);
    let ran = check(&p, &s, &b, &[vec![9]], 0.0);
    assert!(!ran.body.contains("allocate"), "{}", ran.body);
    assert_eq!(ran.lowered.of("in.0").loads, 9);
}
