//! Domains that are ragged, empty, far away or many; names that meet; passes over a pipeline that has adjoints already.

use crate::check::Case;
use crate::{N, line, on_line};
use sumsq_codegen::ScalarType::{F64, I32, I64};
use sumsq_codegen::gradient::{propagate_adjoints, propagate_tangents};
use sumsq_codegen::{Constraint, Expr, Func, Input, Pipeline, RDom, Source, Var};
use sumsq_codegen_testing::rng::Rng;

/// The names of all Funcs of the adjoint pipeline.
fn names(case: &Case) -> Vec<String> {
    case.adjoint().expect("adjoints").0.funcs.keys().map(|n| n.to_string()).collect()
}

fn is_stepped(case: &Case) -> bool {
    names(case).iter().any(|n| n.contains("_steps"))
}

/// A condition may be asked in a row of a ragged domain that is empty, at a point that lies nowhere.
#[test]
fn conditions_on_data_over_empty_rows() {
    let case = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", Expr::from(0), x.expr())]);
        let r = r.clone().filter(g.of(r.var(0)).gt(0.6));
        let s = p.sum("s", &r, f.of(r.var(0)) * f.of(x));
        p.define("out", [x], s)
    };
    on_line(case, (0, N as usize)).check_exact();
    let replaced = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", Expr::from(0), x.expr())]);
        let r = r.clone().filter(g.of(r.var(0)).gt(0.6));
        let s = p.maximum("s", &r, f.of(r.var(0)) * f.of(x));
        let s = p.define("finite", [x], Expr::select(s.lt(-1e9), g.of(x), s));
        p.define("out", [x], s.of(x))
    };
    on_line(replaced, (0, N as usize)).check_exact();
    let stepped = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", Expr::from(0), x.expr())]);
        let r = r.clone().filter(g.of(r.var(0)).gt(0.6));
        let s = p.product("s", &r, f.of(r.var(0)) * f.of(x));
        p.define("out", [x], s)
    };
    on_line(stepped, (0, N as usize)).check_exact();
}

/// A domain whose length is data: it is asked for nowhere but where the pipeline does.
#[test]
fn lengths_that_are_data() {
    let (mut p, f, g, x) = line();
    let mut lengths = Input::strided("lengths", &[I32], 1);
    lengths.value_range = Some((Expr::from(0), Expr::from(8)));
    let lengths = p.input(lengths);
    let r = RDom::new([("r", Expr::from(0), lengths.of(x))]);
    let s = p.sum("s", &r, f.of(r.var(0)) * g.of(x));
    let out = p.define("out", [x], s);
    let mut rng = Rng::new(4);
    let case = Case::new(p, &out, &[(0, 6)], &["f", "g"]);
    let case = case.bind("f", &[(0, 12)], &mut rng).bind("g", &[(-3, 20)], &mut rng);
    case.bind("lengths", &[(0, 6)], &mut rng).check();
}

/// No iteration at all leaves everything as it is.
#[test]
fn lengths_below_zero() {
    for n in [-2, 0, 3] {
        let (mut p, f, g, x) = line();
        let n_ = p.param("n", I32);
        let r = RDom::new([("r", Expr::from(0), n_.clone()), ("q", Expr::from(0), n_)]);
        let h = p.define("h", [x], f.of(x) * 3.0);
        let h = p.update(&h, x, h.of(x) * h.of(x) * g.of(x), &r);
        let out = p.define("out", [x], h.of(x));
        let mut rng = Rng::new(4);
        let case = Case::new(p, &out, &[(0, 3)], &["f", "g"]).count("n", n);
        case.bind("f", &[(0, 3)], &mut rng).bind("g", &[(0, 3)], &mut rng).check_exact();
    }
}

/// The last writer of an element is known by a number, which a large domain counts in i64.
#[test]
fn more_iterations_than_an_i32_counts() {
    for (n, wide) in [(3, false), (2048, true)] {
        let greatest = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
            let r = RDom::new([("a", 0, n), ("b", 0, n), ("c", 0, n)]);
            let s = p.maximum("s", &r, f.of(r.var(0) + r.var(1)) * g.of(r.var(2)) + f.of(x));
            p.define("out", [x], s)
        };
        let case = on_line(greatest, (0, N as usize));
        let (p, ..) = case.adjoint().unwrap();
        let last = p.funcs.values().find(|f| f.name.contains("_last")).unwrap();
        assert_eq!(last.types().last(), Some(&if wide { I64 } else { I32 }));
        if !wide {
            case.check();
        }
    }
}

/// Strides prime to each other are solved by an inverse modulo one of them, which no product with a coordinate may overflow.
#[test]
fn long_strides() {
    let (mut p, f, _, x) = line();
    let gamma = p.param("gamma", F64);
    let y = Var::new("y");
    let h = p.define("h", [x], gamma * (x.expr() % 10).cast(F64));
    let out = p.define("out", [x, y], h.of(x * 100_003 + y * 3) * f.of(x));
    let case = Case::new(p, &out, &[(0, 9), (0, 5)], &["f", "gamma"]).param("gamma", 1.5);
    case.bind("f", &[(0, 9)], &mut Rng::new(1)).bind("g", &[(0, 9)], &mut Rng::new(1)).check();
    // The inverse of the least modulo the greatest is found at once.
    let (mut p, f, _, x) = line();
    let out = p.define("out", [x, y], f.of((x * 1_000_000_007 + y * 3) % 5));
    let case = Case::new(p, &out, &[(0, 2), (0, 2)], &["f"]);
    case.bind("f", &[(0, 5)], &mut Rng::new(1)).bind("g", &[(0, 5)], &mut Rng::new(1)).check();
}

#[test]
fn names_that_meet() {
    let dotted = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("a.b", 0, 3), ("a_b", 0, 2)]);
        let s = p.sum("s", &r, f.of(r.var(0) + 2) * g.of(r.var(1)) * f.of(x));
        p.define("out", [x], s)
    };
    on_line(dotted, (0, N as usize)).check();
    let taken = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let d = p.define("d_f", [x], f.of(x) * 2.0);
        let t = p.define("t_out", [x], d.of(x) * g.of(x));
        let h = p.define("h", [x], t.of(x));
        let before = p.define("h_before0", [x], 1.0);
        let h = p.update(&h, x, h.of(x) * h.of(x) * before.of(x), &RDom::default());
        p.define("out", [x], h.of(x) * d.of(x))
    };
    on_line(taken, (0, N as usize)).check();
}

/// A second pass adds Funcs of its own and gives the same.
#[test]
fn two_passes() {
    let (mut p, f, _, x) = line();
    let out = p.define("out", [x], f.of(x) * f.of(x));
    p.output_strided(&out, Constraint::defaults(1));
    p.input(Input::strided("w", &[F64], 1));
    let first = propagate_adjoints(&mut p, &[("out", "w")], &["f"]).unwrap();
    let second = propagate_adjoints(&mut p, &[("out", "w")], &["f"]).unwrap();
    let (a, b) = (first.of("f").unwrap(), second.of("f").unwrap());
    assert_eq!((&*a.name, &*b.name), ("d_f", "d_f_"));
    let text = |f: &Func| f.values[0].to_string().replace("d_out_", "d_out");
    assert_eq!(text(a), text(b));
}

/// A name that is given twice is derived for once; two seeds or directions of one are refused.
#[test]
fn named_twice() {
    let (mut p, f, _, x) = line();
    let out = p.define("out", [x], f.of(x) * f.of(x));
    p.output_strided(&out, Constraint::defaults(1));
    p.input(Input::strided("w", &[F64], 1));
    p.input(Input::strided("v", &[F64], 1));
    let refusal = propagate_adjoints(&mut p, &[("out", "w"), ("out", "v")], &["f"]).unwrap_err();
    let text = "pipeline line: out has two seeds, w and v: add them up in a Func";
    assert_eq!(refusal.to_string(), text);
    let refusal = propagate_tangents(&mut p, &[("f", "w"), ("f", "v")]).unwrap_err();
    let text = "pipeline line: f has two directions, w and v: add them up in a Func";
    assert_eq!(refusal.to_string(), text);
    let twice = propagate_adjoints(&mut p, &[("out", "w")], &["f", "f"]).unwrap();
    assert_ne!(twice.of("f").unwrap().values[0].as_float(), Some(0.0));
}

/// A refusal leaves the pipeline as it was.
#[test]
fn refusals_change_nothing() {
    let (mut p, f, g, x) = line();
    let h = p.define("h", [x], f.of(x).sin());
    let at = (g.of(x) * 100.0).cast(I32);
    let out = p.define("out", [x], h.of(x) * h.of(x) + f.of(at));
    p.output_strided(&out, Constraint::defaults(1));
    p.input(Input::strided("w", &[F64], 1));
    let before = p.clone();
    propagate_adjoints(&mut p, &[("out", "w")], &["f", "nobody"]).unwrap_err();
    assert_eq!(p, before);
    propagate_tangents(&mut p, &[("f", "w"), ("g", "nobody")]).unwrap_err();
    assert_eq!(p, before);
}

#[test]
fn a_parameter_as_seed() {
    let (mut p, f, _, _) = line();
    let r = RDom::new([("r", 0, 4)]);
    let e = p.sum("e", &r, f.of(r.var(0)) * f.of(r.var(0)));
    let e = p.define("energy", [], e);
    p.output(&e);
    p.param("weight", F64);
    let d = propagate_adjoints(&mut p, &[("energy", "weight")], &["f"]).unwrap();
    let d = d.of("f").unwrap().clone();
    let case = Case::new(p, &d, &[(0, 4)], &["f", "weight"]).param("weight", 1.5);
    case.bind("f", &[(0, 4)], &mut Rng::new(1)).bind("g", &[(0, 4)], &mut Rng::new(1)).check();
}

#[test]
fn scalars() {
    let product = |p: &mut Pipeline, f: &Input, g: &Input, _: Var| {
        let r = RDom::new([("r", 0, N)]);
        let s = p.define("s", [], g.of(0));
        let s = p.update(&s, (), s.of(()) * f.of(r.var(0)) + g.of(r.var(0)), &r);
        let s = p.update(&s, (), s.of(()).sin(), &RDom::default());
        let s = p.update(&s, (), s.of(()).max(f.of(r.var(0)) * 0.3), &r);
        p.define("out", [], s.of(()) * s.of(()))
    };
    on_line(product, (0, N as usize)).check();
}

/// A sum may be written in any way: its adjoint needs no states.
#[test]
fn sums_in_other_words() {
    let chain = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 3)]);
        let h = p.define("h", [x], g.of(x) * g.of(x));
        let h = p.update(&h, x, h.of(x) + f.of(x + r.var(0)) * g.of(x) - g.of(x), &r);
        let h = p.update(&h, x, f.of(x) + (f.of(x) + (h.of(x) - g.of(r.var(0)))), &r);
        p.define("out", [x], h.of(x) * h.of(x))
    };
    let case = on_line(chain, (0, 40));
    case.check();
    assert!(!is_stepped(&case), "{:?}", names(&case));
    let chosen = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 3)]);
        let h = p.define("h", [x], g.of(x) * g.of(x));
        let sum = h.of(x) + f.of(x + r.var(0)) * g.of(x);
        let h = p.update(&h, x, Expr::select(g.of(x + r.var(0)).lt(0.7), sum, h.of(x)), &r);
        p.define("out", [x], h.of(x) * h.of(x))
    };
    let case = on_line(chosen, (0, 40));
    case.check_exact();
    assert!(!is_stepped(&case), "{:?}", names(&case));
}

/// A scan may run against its coordinate, or write every other element.
#[test]
fn scans_of_any_stride() {
    for (stride, start) in [(1, 1), (-1, N - 2), (2, 2), (-2, N - 3)] {
        let scan = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
            let r = RDom::new([("r", 0, 3)]);
            let h = p.define("h", [x], f.of(x) * f.of(x));
            let at = r.var(0) * stride + start;
            let last = h.of(&at - stride);
            let h = p.update(&h, at.clone(), &last * &last * 0.5 + g.of(at), &r);
            p.define("out", [x], h.of(x) * h.of(x))
        };
        let case = on_line(scan, (0, N as usize));
        case.check();
        assert!(!is_stepped(&case), "stride {stride}: {:?}", names(&case));
    }
    // Between those that are written: as it was.
    let between = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 3)]);
        let h = p.define("h", [x], f.of(x) * f.of(x));
        let at = r.var(0) * 2;
        let next = h.of(&at + 1);
        let h = p.update(&h, at.clone(), &next * &next * 0.5 + g.of(at), &r);
        p.define("out", [x], h.of(x) * h.of(x))
    };
    let case = on_line(between, (0, N as usize));
    case.check();
    assert!(!is_stepped(&case), "{:?}", names(&case));
}
