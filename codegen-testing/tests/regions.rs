//! Required regions against brute force: affine coordinates, clamps, quotients and remainders, through chains of Funcs and
//! under schedules that must not change them.

use std::collections::HashMap;
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::nests::bounds_query::BoundsQuery;
use sumsq_codegen::{
    Error, Expr, Func, Input, LoopLevel, Name, Pipeline, RDom, ScalarType, Schedule, Tail, Type, Var,
};
use sumsq_codegen_testing::reference::eval_scalar;

const I32: ScalarType = ScalarType::I32;

/// xorshift64*.
struct Rng(u64);

impl Rng {
    fn range(&mut self, low: i64, high: i64) -> i64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        low + (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as i64 % (high - low + 1)
    }
}

impl Rng {
    fn pick(&mut self, from: &[i32]) -> i32 {
        from[self.range(0, from.len() as i64 - 1) as usize]
    }
}

/// A monotone or periodic coordinate over one variable: the class in which intervals are exact.
fn coordinate(r: &mut Rng, v: &Expr, depth: i64) -> Expr {
    let e = if depth == 0 { v.clone() } else { coordinate(r, v, depth - 1) };
    match r.range(0, 10) {
        0 => e + r.range(-7, 7),
        1 => e * r.range(-3, 3),
        2 => e / r.range(1, 5),
        7 => e / r.range(-5, -1),
        8 => e.abs(),
        9 => e.shl(r.range(0, 3) as i32),
        10 => e.shr(r.range(0, 3) as i32),
        3 => e.max(r.range(-9, 0) as i32).min(r.range(1, 12) as i32),
        4 => e.min(r.range(-4, 9) as i32),
        5 => Expr::from(r.range(-5, 20) as i32) - e,
        _ => e,
    }
}

/// Least and greatest value of `e` for `v` in `[lo, hi]`.
fn brute(e: &Expr, v: &str, lo: i64, hi: i64) -> (i64, i64) {
    let values = (lo..=hi)
        .map(|x| eval_scalar(e, &[(v.into(), x)], &[]).expect("closed").as_int().expect("an integer"));
    values.fold((i64::MAX, i64::MIN), |(a, b), x| (a.min(x), b.max(x)))
}

/// out(x) = in(e(x)), as a pipeline.
fn gather(e: &Expr, v: &Var) -> Pipeline {
    let mut p = Pipeline::new("gather");
    let i = p.input(Input::new("in", &[I32], 1));
    let out = p.func(Func::new("out", std::slice::from_ref(v), vec![i.at(std::slice::from_ref(e), 0)]));
    p.output(&out);
    p
}

fn query(p: &Pipeline, s: &Schedule, extents: &[i32]) -> Vec<(i64, i64)> {
    let q = BoundsQuery::of(p, s).expect("legal");
    q.regions(&[("out", extents)], &[]).expect("all is known")["in"].clone()
}

#[test]
fn regions_of_one_access_are_exact() {
    let v = Var::new("x");
    let mut r = Rng(99);
    for case in 0..2000 {
        let depth = r.range(0, 3);
        let mut e = coordinate(&mut r, &v.expr(), depth);
        // A remainder of something affine is exact within one period and [0, d) beyond, which is exact if the values
        // are consecutive.
        if r.range(0, 3) == 0 {
            let sum = v.expr() + r.range(-9, 9);
            let rest = match r.range(0, 2) {
                0 => sum.modulo(r.range(1, 7) as i32),
                1 => sum.modulo(r.range(-7, -1) as i32),
                _ => sum.and(r.pick(&[0, 1, 3, 7])),
            };
            e = rest + r.range(-3, 3);
        }
        let n = r.range(1, 30);
        let want = brute(&e, "x", 0, n - 1);
        let came = query(&gather(&e, &v), &Schedule::new(), &[n as i32]);
        assert_eq!(came, [want], "case {case}: {e} for x in [0, {n})");
    }
}

#[test]
fn sums_of_two_variables_are_exact() {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let mut r = Rng(7);
    for case in 0..500 {
        let (a, b, c) = (r.range(-3, 3), r.range(-3, 3), r.range(-9, 9));
        let d = r.range(1, 4);
        let sum = vx.expr() * a + vy.expr() * b + c;
        let e = if r.range(0, 1) == 0 { sum } else { (sum / d).max(-5) };
        let mut p = Pipeline::new("gather");
        let i = p.input(Input::new("in", &[I32], 1));
        let out = p.func(Func::new("out", &[vx, vy], vec![i.at(std::slice::from_ref(&e), 0)]));
        p.output(&out);
        let (w, h) = (r.range(1, 9), r.range(1, 9));
        let points = (0..h).flat_map(|y| (0..w).map(move |x| (x, y)));
        let values = points.map(|(x, y)| {
            let at: [(Name, i64); 2] = [("x".into(), x), ("y".into(), y)];
            eval_scalar(&e, &at, &[]).expect("closed").as_int().expect("an integer")
        });
        let want = values.fold((i64::MAX, i64::MIN), |(a, b), x| (a.min(x), b.max(x)));
        assert_eq!(query(&p, &Schedule::new(), &[w as i32, h as i32]), [want], "case {case}: {e}");
    }
}

/// A coordinate of two variables and of data with values of its type, in a class in which intervals are a superset.
fn any_coordinate(r: &mut Rng, leaves: &[Expr], depth: i64) -> Expr {
    let leaf = leaves[r.range(0, leaves.len() as i64 - 1) as usize].clone();
    if depth == 0 {
        return leaf + r.range(-5, 5);
    }
    let a = any_coordinate(r, leaves, depth - 1);
    let below = r.range(0, depth - 1);
    let b = any_coordinate(r, leaves, below);
    match r.range(0, 9) {
        0 => a + b,
        1 => a - b,
        2 => a.max(-30).min(30) * b.max(-30).min(30),
        3 => Expr::select(leaf.gt(r.range(-4, 9) as i32), a, b),
        4 => a.min(&b),
        5 => a.modulo(r.pick(&[-6, -1, 2, 5, 9])),
        6 => a / i64::from(r.pick(&[-5, -2, 1, 3])),
        7 => a.abs().and(r.pick(&[5, 7, 12, 31])),
        8 => a.shr(r.range(0, 3) as i32),
        _ => a.abs(),
    }
}

/// Selects, products of variables, and coordinates that are values of an input or of a Func of it: what is required holds all
/// that is read, whatever the values.
#[test]
fn regions_elsewhere_hold_what_is_read() {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let mut r = Rng(2024);
    for case in 0..400 {
        let mut p = Pipeline::new("gather");
        let data = p.input(Input::new("data", &[ScalarType::I8], 1));
        let i = p.input(Input::new("in", &[I32], 1));
        let direct = data.at(&[vx.expr()], 0).cast(I32);
        let double = p.func(Func::new("double", std::slice::from_ref(&vx), vec![&direct * 2]));
        let known = Expr::var("known");
        // For brute force the data is a variable.
        let (leaves, closed) = match r.range(0, 2) {
            0 => (vec![vx.expr(), vy.expr()], vec![vx.expr(), vy.expr()]),
            1 => (vec![vx.expr(), direct], vec![vx.expr(), known]),
            _ => (vec![vy.expr(), double.at(&[vx.expr()], 0)], vec![vy.expr(), known * 2]),
        };
        let (seed, depth) = (r.range(1, i64::from(i32::MAX)) as u64, r.range(1, 3));
        let e = any_coordinate(&mut Rng(seed), &leaves, depth);
        let closed = any_coordinate(&mut Rng(seed), &closed, depth);
        let vars = [vx, vy];
        let out = p.func(Func::new("out", &vars, vec![i.at(std::slice::from_ref(&e), 0)]));
        p.output(&out);
        let (w, h) = (r.range(1, 7), r.range(1, 7));
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for data in (-128..128).step_by(15) {
            for at in 0..w * h {
                let at: [(Name, i64); 3] =
                    [("x".into(), at % w), ("y".into(), at / w), ("known".into(), data)];
                let v = eval_scalar(&closed, &at, &[]).expect("closed").as_int().expect("an integer");
                (low, high) = (low.min(v), high.max(v));
            }
        }
        let [(first, last)] = query(&p, &Schedule::new(), &[w as i32, h as i32])[..] else {
            panic!("one dimension");
        };
        assert!(first <= low && high <= last, "case {case}: {e}: [{low}, {high}] in [{first}, {last}]");
    }
}

/// A chain of three stages: stencils, a downsampling and an upsampling, and a windowed sum.
fn chain() -> Pipeline {
    let (vx, vy) = (Var::new("x"), Var::new("y"));
    let (x, y) = (vx.expr(), vy.expr());
    let vars = [vx, vy];
    let mut p = Pipeline::new("chain");
    let i = p.input(Input::new("in", &[I32], 2));
    let at = |f: &Func, dx: i64, dy: i64| f.at(&[&x + dx, &y + dy], 0);
    let value = i.at(&[&x - 1, y.clone()], 0) + i.at(&[&x + 2, &y + 1], 0);
    let a = p.func(Func::new("a", &vars, vec![value]));
    let half = |dx: i64| a.at(&[&x * 2 + dx, &y * 2], 0);
    let b = p.func(Func::new("b", &vars, vec![half(0) + half(1)]));
    let r = RDom::new([("r", Expr::from(-1), Expr::from(3))]);
    let c = p.func(Func::sum("c", &vars, r.clone(), vec![b.at(&[&x + r.var(0), y.clone()], 0)]));
    let up = c.at(&[&x / 2, &y / 2], 0);
    let out = p.func(Func::new("out", &vars, vec![up + at(&a, 0, -3)]));
    p.output(&out);
    p
}

/// Points that the definitions of [`chain`] read, by following them.
fn chain_reads(w: i64, h: i64) -> Vec<(i64, i64)> {
    let mut seen: HashMap<(i64, i64), ()> = HashMap::new();
    let mut a = |x: i64, y: i64| {
        seen.insert((x - 1, y), ());
        seen.insert((x + 2, y + 1), ());
    };
    for y in 0..h {
        for x in 0..w {
            a(x, y - 3);
            for r in -1..2 {
                let (bx, by) = (x.div_euclid(2) + r, y.div_euclid(2));
                a(2 * bx, 2 * by);
                a(2 * bx + 1, 2 * by);
            }
        }
    }
    let bounds = |f: fn(&(i64, i64)) -> i64| {
        let v: Vec<i64> = seen.keys().map(f).collect();
        (*v.iter().min().expect("some"), *v.iter().max().expect("some"))
    };
    vec![bounds(|p| p.0), bounds(|p| p.1)]
}

/// Schedules that compute exactly what is needed: none may change the region of the input, whatever the splits.
fn schedules() -> Vec<(&'static str, Schedule)> {
    let mut all = vec![];
    let mut add = |name, build: &dyn Fn(&mut Schedule)| {
        let mut s = Schedule::new();
        build(&mut s);
        all.push((name, s));
    };
    let at = |v| LoopLevel::pure("out", v);
    add("inlined", &|_| {});
    add("roots", &|s| {
        for f in ["a", "b", "c"] {
            s.func(f).compute_root();
        }
    });
    for (name, tail) in [("guarded tiles", Tail::GuardWithIf), ("predicated tiles", Tail::Predicate)] {
        add(name, &|s| {
            s.func("out").tile("x", "y", "xo", "yo", "xi", "yi", 7, 5, tail);
            for f in ["a", "b", "c"] {
                s.func(f).compute_at(at("xo"));
            }
        });
    }
    add("nested splits that do not divide", &|s| {
        let out = s.func("out").split("x", "xo", "xi", 7, Tail::GuardWithIf).split(
            "xo",
            "xoo",
            "xoi",
            3,
            Tail::Predicate,
        );
        out.split("xi", "xio", "xii", 2, Tail::GuardWithIf).split("y", "yo", "yi", 3, Tail::GuardWithIf);
        s.func("c").compute_at(at("xio")).split("x", "xo", "xi", 5, Tail::Predicate);
        s.func("a").compute_at(at("xoi")).split("y", "yo", "yi", 4, Tail::GuardWithIf);
    });
    add("nested blocks that shift inwards", &|s| {
        let out = s.func("out").split("x", "xo", "xi", 7, Tail::ShiftInwards);
        let out = out.split("xi", "xio", "xii", 3, Tail::ShiftInwards);
        out.split("y", "yo", "yi", 4, Tail::ShiftInwards).split("yi", "yio", "yii", 3, Tail::ShiftInwards);
        s.func("c").compute_at(at("xo")).split("x", "xo", "xi", 5, Tail::ShiftInwards).split(
            "xo",
            "xoo",
            "xoi",
            2,
            Tail::ShiftInwards,
        );
        s.func("a").compute_at(at("xo")).split("y", "yo", "yi", 4, Tail::ShiftInwards);
    });
    add("a ring", &|s| {
        s.func("out").split("y", "strip", "row", 6, Tail::GuardWithIf);
        s.func("a").store_at(at("strip")).compute_at(at("row")).vectorize("x", 4, Tail::Predicate);
        s.func("b").compute_at(at("row"));
        s.func("c").compute_at(at("row"));
    });
    add("vectors in parallel", &|s| {
        s.func("out").vectorize("x", 8, Tail::Predicate).parallel("y");
        s.func("c").compute_at(at("y"));
    });
    all
}

#[test]
fn no_schedule_grows_the_required_region() {
    let p = chain();
    for (w, h) in [(1, 1), (2, 3), (7, 5), (8, 8), (13, 9), (40, 17)] {
        let want = chain_reads(w, h);
        for (name, s) in schedules() {
            assert_eq!(query(&p, &s, &[w as i32, h as i32]), want, "{name}, {w} x {h}\n{s}");
        }
    }
}

/// RoundUp says that more is computed: the region grows to whole blocks and no further.
#[test]
fn rounding_up_grows_regions_by_whole_blocks() {
    let v = Var::new("x");
    let mut p = Pipeline::new("round");
    let i = p.input(Input::new("in", &[I32], 1));
    let a = p.func(Func::new("a", std::slice::from_ref(&v), vec![i.at(&[v.expr()], 0)]));
    let out = p.func(Func::new("out", std::slice::from_ref(&v), vec![a.at(&[v.expr()], 0)]));
    p.output(&out);
    let mut s = Schedule::new();
    s.func("a").compute_root().vectorize("x", 8, Tail::RoundUp);
    assert_eq!(query(&p, &s, &[13]), [(0, 15)]);
    assert_eq!(query(&p, &s, &[16]), [(0, 15)]);
}

/// Inputs that a strided output anywhere needs, and what is missing where only its size is given.
#[test]
fn regions_over_a_shifted_domain() {
    let v = Var::new("x");
    let mut p = Pipeline::new("shifted");
    let i = p.input(Input::strided("in", &[I32], 1));
    let a = p.func(Func::new("a", std::slice::from_ref(&v), vec![i.at(&[(v.expr() * 2 - 1).max(-20)], 0)]));
    let out =
        Func::new("out", std::slice::from_ref(&v), vec![a.at(&[v.expr() - 1], 0) + a.at(&[v.expr() + 1], 0)]);
    let out = p.func(out);
    p.output_strided(&out, sumsq_codegen::Constraint::defaults(1));
    for text in ["", "a: compute_root", "out: split(x, xo, xi, 4, shift_inwards) a: compute_at(out, xo)"] {
        let q = BoundsQuery::of(&p, &Schedule::parse(text).expect("text")).expect("legal");
        for (min, n) in [(0, 5), (-7, 9), (-40, 40), (100, 1)] {
            let at = |x: i32| i64::from((x * 2 - 1).max(-20));
            let came = q.regions_over(&[("out", &[(min, n)])], &[]).expect("all is known");
            assert_eq!(came["in"], [(at(min - 1), at(min + n))], "{text}: {n} from {min}");
        }
        let e = q.regions(&[("out", &[5])], &[]).expect_err("no minimum");
        let why = "the required regions depend on what is unknown: out.min.0 is not given";
        assert_eq!(e.to_string(), format!("pipeline shifted: {why}"));
    }
}

/// The promised range of a parameter bounds storage and regions, and is checked by the code itself.
#[test]
fn ranges_of_parameters_are_facts() {
    let v = Var::new("x");
    let build = |range: bool| {
        let mut p = Pipeline::new("window");
        let n = if range { p.param_in("n", I32, 1, 4) } else { p.param("n", I32) };
        let i = p.input(Input::new("in", &[I32], 1));
        let f =
            p.func(Func::new("f", std::slice::from_ref(&v), vec![i.at(&[v.expr().max(0).min(30)], 0) * 2]));
        let r = RDom::new([("r", Expr::from(0), n)]);
        let sum =
            Func::sum("out", std::slice::from_ref(&v), r.clone(), vec![f.at(&[v.expr() + r.var(0)], 0)]);
        let out = p.func(sum);
        p.output(&out);
        p
    };
    let s = Schedule::parse("f: compute_at(out.update(0), x) store_in(stack)").expect("text");
    let e = lower(&build(false), &s, &LowerOptions::default()).expect_err("no bound");
    assert_eq!(e.to_string(), "f: store_in(stack): the extent of x has no constant bound");
    let body = lower(&build(true), &s, &LowerOptions::default()).expect("legal").body.to_string();
    assert!(body.contains("allocate f.0: i32[4:i64] on stack"), "{body}");
    assert!(body.contains("\"n must be in [1, 4], it is\""), "{body}");
}

/// A coordinate that is a value of an input: bounded by a clamp, by the promise of the input, or by its type.
#[test]
fn data_dependent_coordinates() {
    let v = Var::new("x");
    let build = |ty: ScalarType, range: Option<(Expr, Expr)>, index: &dyn Fn(Expr) -> Expr| {
        let mut p = Pipeline::new("data");
        let mut ids = Input::new("ids", &[ty], 1);
        ids.value_range = range;
        let ids = p.input(ids);
        let i = p.input(Input::new("in", &[I32], 1));
        let at = index(ids.at(&[v.expr()], 0).cast(I32));
        let out = p.func(Func::new("out", std::slice::from_ref(&v), vec![i.at(&[at], 0)]));
        p.output(&out);
        p
    };
    let region = |p: &Pipeline| query(p, &Schedule::new(), &[10]);
    let n = Expr::param("n", Type::I32);
    assert_eq!(region(&build(I32, None, &|e| e.max(2).min(9))), [(2, 9)]);
    assert_eq!(region(&build(ScalarType::U8, None, &|e| e)), [(0, 255)]);
    assert_eq!(region(&build(ScalarType::I8, None, &|e| e / 4 + 1)), [(-31, 32)]);
    assert_eq!(region(&build(ScalarType::U16, None, &|e| e.min(99))), [(0, 99)]);
    assert_eq!(region(&build(I32, Some((Expr::from(0), Expr::from(41))), &|e| e * 2 - 1)), [(-1, 81)]);
    assert_eq!(region(&build(I32, None, &|e| e.modulo(7))), [(0, 6)]);
    let bound = |e: &Expr| Some((Expr::from(0), e.clone()));
    let mut p = build(I32, bound(&(n.clone() - 1)), &|e| e);
    p.params.insert("n".into(), I32);
    let q = BoundsQuery::of(&p, &Schedule::new()).expect("legal");
    let came = q.regions(&[("out", &[10])], &[("n", 5i32.into())]).expect("all is known");
    assert_eq!(came["in"], [(0, 4)]);
    let e = q.regions(&[("out", &[10])], &[]).expect_err("n is missing");
    assert_eq!(
        e.to_string(),
        "pipeline data: the required regions depend on what is unknown: n is not given"
    );
    let e = BoundsQuery::of(&build(I32, None, &|e| e), &Schedule::new()).expect_err("unbounded");
    let text = "pipeline data: out reads in at coordinate 0, which has no bounds because of the value of input ids \
                (clamp it, or give its value range); clamp the coordinate";
    assert!(matches!(&e, Error::Pipeline { .. }) && e.to_string() == text, "{e}");
}

/// The place of a least value is one of those that were looked at, under every schedule. A sum has no bounds.
#[test]
fn the_place_of_an_extreme_is_a_coordinate() {
    let v = Var::new("x");
    let x = v.expr();
    let build = |index: &dyn Fn(&mut Pipeline, &Func, &RDom) -> Expr| {
        let mut p = Pipeline::new("match");
        let [a, b] = ["a", "b"].map(|n| p.input(Input::new(n, &[I32], 1)));
        let r = RDom::new([("r", Expr::from(-2), Expr::from(8))]);
        let apart = a.at(std::slice::from_ref(&x), 0) - b.at(&[&x + &r.var(0)], 0);
        let start = Func::new("sum", std::slice::from_ref(&v), vec![Expr::from(0)]);
        let place = match index(&mut p, &start, &r) {
            e if e.as_int() == Some(0) => p.argmin("best", &r, apart.abs())[0].clone(),
            e => e,
        };
        let out = p.func(Func::new("out", std::slice::from_ref(&v), vec![b.at(&[&x + &place], 0)]));
        p.output(&out);
        p
    };
    let p = build(&|_, _, _| Expr::from(0));
    let region = |s: &Schedule| {
        let q = BoundsQuery::of(&p, s).expect("legal");
        q.regions(&[("out", &[10])], &[]).expect("all is known")["b"].clone()
    };
    assert_eq!(region(&Schedule::new()), [(-2, 14)]);
    let mut s = Schedule::new();
    s.update("best", 0).split("r", "ro", "ri", 3, Tail::GuardWithIf).rfactor(&[("ro", "k")], "parts");
    s.func("best").compute_at(LoopLevel::pure("out", "xo"));
    s.func("out").split("x", "xo", "xi", 4, Tail::GuardWithIf);
    assert_eq!(region(&s), [(-2, 14)]);
    let sums = build(&|p, start, r| {
        let own = start.at(&[v.expr()], 0);
        p.func(start.clone().update(vec![v.expr()], vec![own + r.var(0)], r.clone())).at(&[v.expr()], 0)
    });
    let e = BoundsQuery::of(&sums, &Schedule::new()).expect_err("unbounded").to_string();
    let why = "out reads b at coordinate 0, which has no bounds because of the value of sum (clamp it)";
    assert_eq!(e, format!("pipeline match: {why}; clamp the coordinate"));
}

/// A network of minima, maxima and selects that picks a place: a tree of 2^60 parts, nearly all of them the same.
#[test]
fn a_network_picks_a_coordinate() {
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("network");
    let i = p.input(Input::new("in", &[I32], 1));
    let r = RDom::new([("r", Expr::from(0), Expr::from(4))]);
    let place = Func::new("place", std::slice::from_ref(&v), vec![Expr::from(3)]);
    let own = place.at(std::slice::from_ref(&x), 0);
    let (mut low, mut high) = (own, r.var(0) * 2 + 1);
    for _ in 0..60 {
        (low, high) = (low.min(&high), Expr::select(r.var(0).gt(1), low.max(&high), &high));
    }
    let place = p.func(place.update(vec![x.clone()], vec![low.max(high)], r));
    let at = &x + place.at(std::slice::from_ref(&x), 0);
    let out = p.func(Func::new("out", std::slice::from_ref(&v), vec![i.at(&[at], 0)]));
    p.output(&out);
    // 3 at first, then 3 or one of 1, 3, 5 and 7.
    assert_eq!(query(&p, &Schedule::new(), &[10]), [(1, 16)]);
}
