//! Outputs inside of nests and in place of inputs: what is refused, by rule.

use crate::support::{plane, refused, schedule};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Source, Var};
use sumsq_codegen_testing::check::bindings;
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::Value;

const I32: ScalarType = ScalarType::I32;

/// `g = in(x, y)`, updated by + 1, `k = 2 in(x, y)`, `l = k`, `h = l(x + by, y) + g(x, y)`, and `t` the sum of row 0 of k; g, h
/// and k are outputs, and t unless `by` is 0.
fn outputs(by: i64) -> Pipeline {
    let (mut p, i, vars) = plane("p");
    let at = [vars[0].expr(), vars[1].expr()];
    let g = p.func(Func::new("g", &vars, vec![i.at(&at, 0)]));
    let g = p.func(g.clone().update(at.to_vec(), vec![g.at(&at, 0) + 1], RDom::default()));
    let k = p.func(Func::new("k", &vars, vec![i.at(&at, 0) * 2]));
    let l = p.func(Func::new("l", &vars, vec![k.at(&at, 0)]));
    let h = p.func(Func::new("h", &vars, vec![l.at(&[&at[0] + by, at[1].clone()], 0) + g.at(&at, 0)]));
    let r = RDom::new([("r", Expr::from(0), i.extent(0))]);
    let t = Func::sum("t", &[], r.clone(), vec![k.at(&[r.var(0), 0.into()], 0)]);
    p.output(&g);
    p.output(&h);
    if by != 0 {
        let t = p.func(t);
        p.output(&t);
    }
    p.output(&k);
    p
}

#[test]
fn sinks() {
    for (by, text, message) in [
        (
            1,
            "k: compute_at(t.update(0), r) sink",
            "k: sink, compute_at(t.update(0), r): t.update(0) iterates over (r), which is not the space of k",
        ),
        (
            0,
            "h: split(x, xo, xi, 4, shift_inwards) g: compute_at(h, y) sink",
            "g: sink, compute_at(h, y): each point is stored once, but ShiftInwards makes h visit some points twice",
        ),
        (
            0,
            "g: compute_at(h, x) store_at(h, y) sink",
            "g: sink, compute_at(h, x): a sink with update definitions must be stored where it is computed",
        ),
        (
            0,
            "l: compute_at(h, y) k: compute_at(l, y) sink",
            "k: sink, compute_at(l, y): each point is stored once, but l is itself computed in a nest, which may visit a point twice",
        ),
        (
            0,
            "l: compute_root align_bounds(x, 4) k: compute_at(l, y) sink",
            "k: sink, compute_at(l, y): each point is stored once, but the loops of l cover more than its domain",
        ),
        (
            0,
            "h: specialize(in.extent.0 > 4) { parallel(y) } g: compute_at(h, y) sink",
            "g: compute_at(h, y): a sink lies in a stage without special versions",
        ),
        (
            0,
            "g: compute_at(h, y) bound_extent(x, 8) sink",
            "g: bound(x): a sink covers what its consumer needs",
        ),
    ] {
        assert_eq!(refused(&outputs(by), &schedule(text)), message);
    }
}

/// A consumer that reads its neighbour only.
#[test]
fn footprints() {
    let v = Var::new("x");
    let x = v.expr();
    let vars = [v];
    let mut p = Pipeline::new("p");
    let i = p.input(Input::new("in", &[I32], 1));
    let g = p.func(Func::new("g", &vars, vec![i.at(&[x.clamp(0, i.extent(0) - 1)], 0)]));
    let h = p.func(Func::new("h", &vars, vec![g.at(&[&x + 1], 0)]));
    p.output(&g);
    p.output(&h);
    let s = schedule("g: compute_at(h, x) sink");
    assert_eq!(
        refused(&p, &s),
        "g: sink: what the consumer reads may not cover the points it stores, in dimension x"
    );
}

#[test]
fn in_place() {
    let start = |value: &dyn Fn(&Input, &Expr) -> Expr| {
        let v = Var::new("x");
        let x = v.expr();
        let vars = [v];
        let mut p = Pipeline::new("p");
        let i = p.input(Input::new("in", &[I32], 1));
        let f = p.func(Func::new("f", &vars, vec![value(&i, &x)]));
        let g = p.func(Func::new("g", &vars, vec![x]));
        p.output(&f);
        p.output(&g);
        p
    };
    let own = start(&|i, x| i.at(std::slice::from_ref(x), 0) + 1);
    let neighbour = start(&|i, x| i.at(&[x + 1], 0));
    let float = start(&|i, x| i.at(std::slice::from_ref(x), 0).cast(ScalarType::F32));
    for (p, text, message) in [
        (&own, "f: in_place_of(q)", "f: in_place_of(q): there is no such input"),
        (
            &own,
            "f: in_place_of(in) g: in_place_of(in)",
            "f: in_place_of(in): two outputs overwrite the input",
        ),
        (&own, "g: in_place_of(in)", "g: in_place_of(in): f reads the input, too"),
        (
            &neighbour,
            "f: in_place_of(in)",
            "f: in_place_of(in): the input is read at other coordinates than those that are written",
        ),
        (
            &float,
            "f: in_place_of(in)",
            "f: in_place_of(in): layout, halo, types or dimensions differ from the input's",
        ),
    ] {
        assert_eq!(refused(p, &schedule(text)), message);
    }
}

/// A versioned sink, with a Func computed in its own loops.
#[test]
fn what_is_computed_inside_of_versions() {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("versions");
    let scale = p.param("scale", ScalarType::I32);
    let first = p.define("first", [x, y], x + y * 3 + scale);
    let sink = p.define("sink", [x, y], first.of((x, y)) * 2);
    let out = p.define("out", [x, y], sink.of((x, y)));
    let sum = p.define("sum", [x, y], out.of((x, y)) + 1);
    p.output(&sink);
    p.output(&out);
    p.output(&sum);
    let text = "sink: compute_at(out, y) sink specialize(scale > 0) { split(x, x, si, 4, auto) unroll(si) }
first: compute_at(sink, y)";
    for scale in [0, 1] {
        let b = bindings(vec![], vec![("scale", Value::Int(scale))]);
        agree(&p, &schedule(text), &b, &[vec![9, 5], vec![9, 5], vec![9, 5]]);
    }
}
