//! Refusals about placement, storage and whole schedules: exact texts. Those about one directive are with its tests.

use crate::support::{plane, ran, refused, schedule};
use sumsq_codegen::Target;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::func::extent_param;
use sumsq_codegen::lower::lower;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_codegen::{BinaryOp, Constraint, Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Var};
use sumsq_codegen_testing::check::{bindings, pattern};
use sumsq_codegen_testing::checked::run_lowered;

const I32: ScalarType = ScalarType::I32;

/// `f = in(x, y)`, `g = f(x, y - 1) + f(x, y + 1)` summed over a row of three by an update, `h = f(x, y) + g(x, y)`; g
/// and h are outputs.
fn fork() -> Pipeline {
    let (mut p, i, vars) = plane("fork");
    let (x, y) = (vars[0].expr(), vars[1].expr());
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
    let (mut p, i, vars) = plane("chain");
    let (x, y) = (vars[0].expr(), vars[1].expr());
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
        (
            "f: store_at(h, y) compute_at(h, x)",
            "f: store_at(h, y): it is read outside that loop, by g, g.update(0)",
        ),
        ("f: compute_at(h, z)", "f: compute_at(h, z): z is not a loop here; the loops are x y"),
        ("f: compute_at(q, x)", "f: compute_at(q, x): there is no such stage, or it is inlined"),
        ("q: compute_root", "q: directives: there is no such Func"),
        ("g.update(1): parallel(y)", "g.update(1): directives: there is no such update definition"),
        (
            "g.update(0): compute_root",
            "g.update(0): compute_root: placement and storage are directives of the pure definition",
        ),
        ("f: compute_at(f, x)", "f: compute_at(f, x): a Func cannot be computed inside of itself: f in f"),
        (
            "f: compute_at(g.update(0), y) g: compute_at(f, x) sink",
            "f: compute_at(g.update(0), y): a Func cannot be computed inside of itself: f in g in f",
        ),
        (
            "f: compute_at(g, y) g: compute_at(g, y) sink",
            "g: compute_at(g, y): a Func cannot be computed inside of itself: g in g",
        ),
        ("f: compute_at(h, y) store_at(f, y)", "f: store_at: is not at or outside of compute_at"),
        (
            "f: compute_at(f, x) g.update(0): compute_with(h, y)",
            "f: compute_at(f, x): a Func cannot be computed inside of itself: f in f",
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
        (
            "f: store_at(h, x) compute_at(h, x) store_at(h, q)",
            "f: store_at(h, q): q is not a loop here; the loops are x y",
        ),
        ("h: sink", "h: sink: needs compute_at; an output at root is stored anyway"),
        ("h: vectorize(x)", "h: vectorize(x): the extent has no small constant bound; split the loop first"),
        (
            "h: split(y, yo, yi, 67108865, predicate)",
            "h: split(y, yo, yi, 67108865, predicate): the factor must be at most 2^26",
        ),
        (
            "h: split(y, yo, yi, 0, predicate)",
            "h: split(y, yo, yi, 0, predicate): the factor must be an i32 of at least 1",
        ),
        (
            "h: split(y, yo, yi, -4, predicate)",
            "h: split(y, yo, yi, -4, predicate): the factor must be an i32 of at least 1",
        ),
        (
            "f: compute_root store_in(register)",
            "f: store_in(register): the extent of x has no constant bound",
        ),
        ("h: unroll(y)", "h: unroll(y): the extent has no small constant bound; split the loop first"),
        ("h: parallel(z)", "h: parallel(z): z is not a loop here; the loops are x y"),
        (
            "h: split(x, xo, xi, 32, predicate) gpu_lanes(xi) f: compute_at(h, xi)",
            "f: compute_at(h, xi): the level is inside of a loop of lanes",
        ),
    ] {
        assert_eq!(refused(&chain(), &schedule(text)), message);
    }
}

fn algorithm_error(p: &Pipeline) -> String {
    lower(p, &Schedule::new(), &Default::default()).expect_err("illegal").to_string()
}

/// Mistakes that no schedule can make right.
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
        "p: in is read beyond dimension 0 by out: from, to, first readable, last readable, missing before, missing behind: 2, 9, 0, 8, 0, 1"
    );
}

/// Mistakes that show only by the sizes of a run.
#[test]
fn too_large_a_factor_or_a_product() {
    let v = Var::new("x");
    let mut p = Pipeline::new("p");
    let (n, m) = (p.param("n", I32), p.param("m", I32));
    let i = p.input(Input::new("in", &[I32], 1));
    let r = RDom::new([("r", Expr::from(0), m.clone()), ("s", Expr::from(0), m)]);
    let value = i.at(&[0.into()], 0) + r.var(0) * r.var(1) + n;
    let out = p.func(Func::sum("out", std::slice::from_ref(&v), r, vec![value]));
    p.output(&out);
    let run = |text: &str, n: i32, m: i32| {
        let compiled = Compiled::new(&p, &schedule(text), &Target::host()).expect("legal");
        let buffer = |n: &[i32]| Buffer::new(BufferSpec::new(I32, n)).expect("memory");
        let (input, out) = (buffer(&[3]), buffer(&[5]));
        let params = [("n", Scalar::I32(n)), ("m", Scalar::I32(m))];
        let outcome = compiled.run(&Pool::new(1), &[("in", &input), ("out", &out)], &params);
        outcome.map_err(|e| e.to_string())
    };
    let split = "out: split(x, xo, xi, n, guard) out.update(0): split(r, ro, ri, n, predicate)";
    let fused = "out.update(0): specialize(n > 0) { fuse(r, s, p) }";
    for n in [1, 1 << 26] {
        assert_eq!(run(split, n, 7), Ok(()));
    }
    assert_eq!(run(fused, 1, 50), Ok(()));
    let factor = |rule: &str| Err(format!("p: out: split factor of x must be at {rule}"));
    assert_eq!(run(split, 0, 7), factor("least 1, it is: 0"));
    assert_eq!(run(split, -3, 7), factor("least 1, it is: -3"));
    assert_eq!(run(split, (1 << 26) + 1, 7), factor("most 2^26, it is: 67108865"));
    assert_eq!(run(split, i32::MAX, 7), factor("most 2^26, it is: 2147483647"));
    let points = "p: out.update(0): fused loop p has more than 2^31 - 1 points: of: 65536, 65536";
    assert_eq!(run(fused, 1, 1 << 16), Err(points.into()));
}

/// Fused loops of a Func that is computed inside of another's.
#[test]
fn too_large_a_product_in_a_nest() {
    let v = Var::new("x");
    let build = |m: &mut dyn FnMut(&mut Pipeline) -> Expr| {
        let mut p = Pipeline::new("p");
        let m = m(&mut p);
        let i = p.input(Input::new("in", &[I32], 1));
        let r = RDom::new([("r", Expr::from(0), m.clone()), ("s", Expr::from(0), m)]);
        let value = i.at(&[v.expr()], 0) + r.var(0) * r.var(1);
        let f = p.func(Func::sum("f", std::slice::from_ref(&v), r, vec![value]));
        let out = Func::new("out", std::slice::from_ref(&v), vec![f.at(&[v.expr()], 0)]);
        let out = p.func(out);
        p.output(&out);
        p
    };
    let p = build(&mut |p| p.param("m", I32));
    let s = schedule("out: parallel(x) f: compute_at(out, x) f.update(0): fuse(r, s, q)");
    let compiled = Compiled::new(&p, &s, &Target::host()).expect("legal");
    let run = |m: i32| {
        let buffer = || Buffer::new(BufferSpec::new(I32, &[5])).expect("memory");
        let (input, out) = (buffer(), buffer());
        let outcome = compiled.run(&Pool::new(2), &[("in", &input), ("out", &out)], &[("m", Scalar::I32(m))]);
        outcome.map(|()| out.get::<i32>(&[4], 0)).map_err(|e| e.to_string())
    };
    assert_eq!(run(4), Ok(Some(36)));
    for m in [46_341, 65_536, i32::MAX] {
        let points = format!("p: f.update(0): fused loop q has more than 2^31 - 1 points: of: {m}, {m}");
        assert_eq!(run(m), Err(points));
    }
    // Nothing is checked of what is known.
    let lowered = lower(&build(&mut |_| 9.into()), &s, &Default::default()).expect("legal").to_string();
    assert!(!lowered.contains("points"), "{lowered}");
}

/// Expressions in directives are held to the rules of those in definitions.
#[test]
fn expressions() {
    let mut p = chain();
    p.param("n", I32);
    p.param("gain", ScalarType::F32);
    let specialize = |cond: &str| format!("h: specialize({cond}) {{ parallel(y) }}");
    for (text, rule) in [
        (specialize("m > 4"), "the expression: parameter m: i32 is not declared"),
        (specialize("n > gain"), "the expression: operands of Gt are i32 and f32: n > gain"),
        (specialize("in.extent.2 > 4"), "the expression: parameter in.extent.2: i32 is not declared"),
        (specialize("q(n) > 4"), "the expression calls q, which is neither a Func nor an input"),
        (specialize("in(n, 1) > 4"), "the condition must be made of constants and parameters"),
        (
            "h: skip_unless(y, q(x) != 0)".into(),
            "the expression calls q, which is neither a Func nor an input",
        ),
        ("h: skip_unless(y, z > 0)".into(), "the expression: variable z is not one of its own"),
        ("h: skip_unless(y, in(x) > 0)".into(), "the expression calls in with 1 coordinates, it has 2"),
        (
            "h: skip_unless(y, f(x, y) > 0)".into(),
            "the expression calls f, which is neither a Func nor an input",
        ),
        ("h: split(y, yo, yi, m, guard)".into(), "the expression: parameter m: i32 is not declared"),
        ("h: bound(y, 0, m)".into(), "the expression: parameter m: i32 is not declared"),
        ("h: bound_extent(y, gain)".into(), "gain is no i32 made of constants and parameters"),
        ("h: non_temporal(m)".into(), "the expression: parameter m: i32 is not declared"),
        ("h: non_temporal(f32(n))".into(), "the condition is f32, neither bool nor an integer"),
    ] {
        let message = refused(&p, &schedule(&text));
        assert!(message.ends_with(&format!(": {rule}")), "{message}");
    }
    let (n, gain) = (Expr::param("n", I32), Expr::param("gain", ScalarType::F32));
    let ill = Expr::binary(BinaryOp::Lt, n, gain);
    let mut s = Schedule::new();
    s.func("h").specialize(ill, |h| {
        h.parallel("y");
    });
    let text =
        "h: specialize(n < gain) { parallel(y) }: the expression: operands of Lt are i32 and f32: n < gain";
    assert_eq!(refused(&p, &s), text);
}

#[test]
fn directives_without_a_loop_to_be_about() {
    let rule = "it is inlined: say where it is computed, or leave this out";
    for (text, message) in [
        ("f: vectorize(x)", format!("f: vectorize(x): {rule}")),
        ("f: store_at(h, y)", format!("f: store_at(h, y): {rule}")),
        ("f: compute_root parallel(y) inline", format!("f: parallel(y): {rule}")),
        ("f.update(0): parallel(y)", "f.update(0): directives: there is no such update definition".into()),
    ] {
        assert_eq!(refused(&chain(), &schedule(text)), message);
    }
    for text in ["f: inline", "f: compute_root inline", "f: set_estimate(x, 0, 100)", "f.update(0):"] {
        assert!(lower(&chain(), &schedule(text), &Default::default()).is_ok(), "{text}");
    }
}

#[test]
fn names_of_parts() {
    let v = Var::new("x");
    let vars = std::slice::from_ref(&v);
    let start = |other: &str| {
        let mut p = Pipeline::new("p");
        let f = p.func(Func::new("f", vars, vec![v.expr()]));
        let g = p.func(Func::new(other, vars, vec![f.at(&[v.expr()], 0)]));
        p.output(&f);
        p.output(&g);
        p
    };
    assert!(lower(&start("g.out"), &Schedule::new(), &Default::default()).is_ok());
    for name in ["f.out", "f.s0.x"] {
        let text = format!("pipeline p: the name {name} is one of those for parts of f");
        assert_eq!(algorithm_error(&start(name)), text);
    }
    let mut p = start("g");
    p.param("f.extent.0", ScalarType::F32);
    assert_eq!(algorithm_error(&p), "pipeline p: the name f.extent.0 is one of those for parts of f");
    let mut p = start("g");
    p.param("h.extent.0", ScalarType::I32);
    assert_eq!(algorithm_error(&p), "pipeline p: the name h.extent.0 is one of those for parts of buffers");
    let wrapped = lower(&start("g"), &schedule("f: in_(g, as f.out)"), &Default::default());
    let text = "pipeline p: the name f.out is one of those for parts of f";
    assert_eq!(wrapped.expect_err("taken").to_string(), text);
    let text = "g: rfactor into h.out: the name is one of those for parts of h";
    assert_eq!(refused(&fork(), &schedule("g.update(0): rfactor(r as u, into h.out)")), text);
}

/// Indices beyond a tuple, a domain or the dimensions of a buffer.
#[test]
fn indices() {
    let v = Var::new("x");
    let x = v.expr();
    let r = RDom::new([("r", Expr::from(0), Expr::from(3)), ("s", Expr::from(0), Expr::from(3))]);
    let one = |value: &dyn Fn(&Func, &Input) -> Expr, input: Input| {
        let mut p = Pipeline::new("p");
        let i = p.input(input);
        let vars = std::slice::from_ref(&v);
        let f = p.func(Func::new("f", vars, vec![v.expr()]));
        let g = p.func(Func::sum("g", vars, r.clone(), vec![value(&f, &i)]));
        p.output(&g);
        algorithm_error(&p)
    };
    let input = || Input::new("in", &[I32], 1);
    let strided = || Input::strided("in", &[I32], 1);
    let at = std::slice::from_ref(&x);
    assert_eq!(
        one(&|f, _| f.at(at, 1), input()),
        "pipeline p: g.update(0) reads f element 1 as i32, it has [I32]"
    );
    assert_eq!(
        one(&|_, i| i.at(at, 7), input()),
        "pipeline p: g.update(0) reads in element 7 as i32, it has [I32]"
    );
    assert_eq!(
        one(&|_, _| r.var(2), input()),
        "pipeline p: g.update(0): variable 2 of (r, s) is not one of its own"
    );
    let first = |_: &Func, i: &Input| i.at(&[0.into()], 0);
    assert_eq!(
        one(&first, strided().constrain(1, Constraint::new())),
        "pipeline p: in needs 1 constraints, it has 2"
    );
    assert_eq!(
        one(&first, input().constrain(0, Constraint::new())),
        "pipeline p: in needs 0 constraints, it has 1"
    );
    let extent = extent_param("q", 0);
    let mut p = Pipeline::new("p");
    p.func(Func::new("f", std::slice::from_ref(&v), vec![extent]));
    p.output(&Func::new("q", std::slice::from_ref(&v), vec![x.clone()]));
    assert_eq!(algorithm_error(&p), "pipeline p: f: parameter q.extent.0: i32 is not declared");
}

/// Funcs and inputs that are tuples of nothing, wherever a pipeline goes in.
#[test]
fn no_values() {
    let v = Var::new("x");
    let vars = std::slice::from_ref(&v);
    for (types, values, culprit) in [(vec![], vec![v.expr()], "in"), (vec![I32], vec![], "f")] {
        let mut p = Pipeline::new("p");
        p.input(Input::new("in", &types, 1));
        let f = p.func(Func::new("f", vars, values));
        p.output(&f);
        let text = format!("pipeline p: {culprit} has no value");
        assert_eq!(algorithm_error(&p), text);
        let compiled = Compiled::new(&p, &Schedule::new(), &Target::host());
        assert_eq!(compiled.err().map(|e| e.to_string()), Some(text));
    }
}

/// Copies, lanes and circles of calls.
#[test]
fn too_many_and_circular() {
    for (text, message) in [
        (
            "h: split(x, xo, xi, 5000, predicate) unroll(xi)",
            "h: unroll(xi): the extent has no small constant bound; split the loop first",
        ),
        (
            "h: split(x, xo, xi, 257, predicate) vectorize(xi)",
            "h.s0.xi: vectorize(h.s0.xi): 257 lanes are not possible: 1 to 256",
        ),
    ] {
        assert_eq!(refused(&chain(), &schedule(text)), message);
    }
    let v = Var::new("x");
    let vars = std::slice::from_ref(&v);
    let mut p = Pipeline::new("p");
    let g = Func::new("g", vars, vec![v.expr()]);
    let f = p.func(Func::new("f", vars, vec![g.at(&[v.expr()], 0)]));
    let g = p.func(Func::new("g", vars, vec![f.at(&[v.expr()], 0)]));
    p.output(&g);
    assert_eq!(algorithm_error(&p), "pipeline p: these Funcs call each other in a circle: g, f");
}

/// Sizes that memory decides are read behind the checks that it may be read.
#[test]
fn what_bounds_read_is_checked_first() {
    let (v, z) = (Var::new("x"), Var::new("z"));
    for divide in [false, true] {
        let mut p = Pipeline::new("p");
        let i = p.input(Input::new("in", &[I32], 1));
        let k = i.at(&[Expr::from(900)], 0).clamp(0, 3);
        let f = p.func(Func::new("f", &[z], vec![z.expr() * 3]));
        let at = if divide { v.expr() / k } else { v.expr() * k };
        let out = p.func(Func::new("out", &[v], vec![f.at(&[at], 0)]));
        p.output(&out);
        let s = schedule("f: compute_root");
        assert_eq!(ran(&p, &s, &[901], &[8]), Ok(()));
        let message = "p: in is read beyond dimension 0 by out: from, to, first readable, last readable, missing before, missing behind: 900, 900, 0, 899, 0, 1";
        assert_eq!(ran(&p, &s, &[900], &[8]).expect_err("one is missing").to_string(), message);
        let b = bindings(vec![("in", pattern(&[I32], &[900], 3))], vec![]);
        let e = run_lowered(&p, &s, &b, &[vec![8]]).err().expect("one is missing").to_string();
        assert!(e.contains("assertion: in is read beyond"), "{}", e.lines().next().unwrap_or_default());
    }
}
