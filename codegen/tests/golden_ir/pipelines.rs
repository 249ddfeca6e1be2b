//! Small pipelines.

use sumsq_codegen::boundary::{constant_exterior, repeat_edge};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Source, UnaryOp, Var};

const I32: ScalarType = ScalarType::I32;

pub fn blur() -> Pipeline {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let (x, y) = (vx.expr(), vy.expr());
    let vars = [vx, vy];
    let mut p = Pipeline::new("blur");
    let i = p.input(Input::new("in", &[I32], 2));
    let at = |dx: i64| i.at(&[(&x + dx).max(0).min(i.extent(0) - 1), y.clone()], 0);
    let bx = p.func(Func::new("bx", &vars, vec![at(-1) + at(1)]));
    let by = |dy: i64| bx.at(&[x.clone(), (&y + dy).max(0).min(i.extent(1) - 1)], 0);
    let out = p.func(Func::new("out", &vars, vec![by(-1) + by(1)]));
    p.output(&out);
    p
}

pub fn binomial() -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("binomial");
    let i = p.input(Input::new("in", &[ScalarType::U16], 2));
    let tap = |k: i32| i.of((x + k % 2, y + k / 2)) * ((k / 2 + 2) * (k % 2 * 2 + 1));
    let out = p.define("out", [x, y], (1..4).fold(tap(0), |sum, k| sum + tap(k)));
    p.output(&out);
    p
}

pub fn row() -> Pipeline {
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("row");
    let scale = p.param("scale", I32);
    let i = p.input(Input::new("in", &[I32], 1));
    let vars = [v];
    let f = p.func(Func::new("f", &vars, vec![i.at(std::slice::from_ref(&x), 0) * scale]));
    let out = p.func(Func::new("out", &vars, vec![f.at(std::slice::from_ref(&x), 0) + f.at(&[x + 2], 0)]));
    p.output(&out);
    p
}

/// `out(x) = in(x / 2)`.
pub fn enlarged() -> Pipeline {
    let [x] = Var::all(["x"]);
    let mut p = Pipeline::new("enlarged");
    let i = p.input(Input::new("in", &[I32], 1));
    let out = p.define("out", [x], i.of(x / 2));
    p.output(&out);
    p
}

pub fn total() -> Pipeline {
    let mut p = Pipeline::new("total");
    let i = p.input(Input::new("in", &[I32], 2));
    let r = RDom::new([("rx", Expr::from(0), i.extent(0)), ("ry", Expr::from(0), i.extent(1))]);
    let sum = p.func(Func::sum("sum", &[], r.clone(), vec![i.at(&[r.var(0), r.var(1)], 0)]));
    p.output(&sum);
    p
}

pub fn histogram() -> Pipeline {
    let b = Var::new("b");
    let mut p = Pipeline::new("histogram");
    let i = p.input(Input::new("in", &[I32], 1));
    let r = RDom::new([("r", Expr::from(0), i.extent(0))]);
    let bin = i.at(&[r.var(0)], 0).max(0).min(15);
    let f = Func::new("hist", std::slice::from_ref(&b), vec![Expr::from(0)]);
    let value = f.at(std::slice::from_ref(&bin), 0) + 1;
    let hist = p.func(f.update(vec![bin], vec![value], r));
    p.output(&hist);
    p
}

/// `out(x, y) = sqrt(gain) * sin(in(x, y))`.
pub fn waves() -> Pipeline {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let at = [vx.expr(), vy.expr()];
    let mut p = Pipeline::new("waves");
    let gain = p.param("gain", ScalarType::F32);
    let i = p.input(Input::new("in", &[ScalarType::F32], 2));
    let value = gain.unary(UnaryOp::Sqrt) * i.at(&at, 0).unary(UnaryOp::Sin);
    let out = p.func(Func::new("out", &[vx, vy], vec![value]));
    p.output(&out);
    p
}

/// `out(x) = table(x mod 4, in(x))` with 16 rows of 4 products.
pub fn lookup() -> Pipeline {
    let [vx, vj, vk] = ["x", "j", "k"].map(Var::new);
    let x = vx.expr();
    let mut p = Pipeline::new("lookup");
    let i = p.input(Input::new("in", &[I32], 1));
    let product = vj.expr() * vk.expr();
    let table = p.func(Func::new("table", &[vj, vk], vec![product]));
    let row = i.at(std::slice::from_ref(&x), 0).max(0).min(15);
    let out = p.func(Func::new("out", &[vx], vec![table.at(&[x.modulo(4), row], 0)]));
    p.output(&out);
    p
}

/// `out(x) = f(x)` from 8 on, and the input before.
pub fn late() -> Pipeline {
    let v = Var::new("x");
    let x = [v.expr()];
    let mut p = Pipeline::new("late");
    let i = p.input(Input::new("in", &[I32], 1));
    let vars = [v];
    let f = p.func(Func::new("f", &vars, vec![i.at(&x, 0) * 3]));
    let value = Expr::select(x[0].ge(8), f.at(&x, 0), i.at(&x, 0));
    let out = p.func(Func::new("out", &vars, vec![value]));
    p.output(&out);
    p
}

/// `out(x) = in(x - 1) + in(x + 1)` with its edges repeated.
pub fn edges() -> Pipeline {
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("edges");
    let i = p.input(Input::new("in", &[I32], 1));
    let inside = p.func(repeat_edge("inside", &i, &i.domain()));
    let out = p.func(Func::new("out", &[v], vec![inside.at(&[&x - 1], 0) + inside.at(&[&x + 1], 0)]));
    p.output(&out);
    p
}

/// `out(x) = in(x - 1)` with zeros around it.
pub fn zeros() -> Pipeline {
    let [x] = Var::all(["x"]);
    let mut p = Pipeline::new("zeros");
    let i = p.input(Input::new("in", &[I32], 1));
    let around = p.func(constant_exterior("around", &i, &i.domain(), &[Expr::from(0)]));
    let out = p.define("out", [x], around.of(x - 1));
    p.output(&out);
    p
}

/// `out(x) = f(x)` if the run asks for it, else the input.
pub fn asked() -> Pipeline {
    let v = Var::new("x");
    let x = [v.expr()];
    let mut p = Pipeline::new("asked");
    let wanted = p.param("wanted", I32).gt(0);
    let i = p.input(Input::new("in", &[I32], 1));
    let vars = [v];
    let f = p.func(Func::new("f", &vars, vec![i.at(&x, 0) * 3]));
    let out = p.func(Func::new("out", &vars, vec![Expr::select(wanted, f.at(&x, 0), i.at(&x, 0))]));
    p.output(&out);
    p
}

/// Two outputs of one input.
pub fn pair() -> Pipeline {
    let v = Var::new("x");
    let x = [v.expr()];
    let mut p = Pipeline::new("pair");
    let i = p.input(Input::new("in", &[I32], 1));
    let vars = [v];
    for (name, value) in [("f", i.at(&x, 0) + 1), ("g", i.at(&x, 0) * 2)] {
        let f = p.func(Func::new(name, &vars, vec![value]));
        p.output(&f);
    }
    p
}

/// `out(x, y) = f(x, y) + f(x + 1, y + 2)`, f twice the input.
pub fn corners() -> Pipeline {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let (x, y) = (vx.expr(), vy.expr());
    let vars = [vx, vy];
    let mut p = Pipeline::new("corners");
    let i = p.input(Input::new("in", &[I32], 2));
    let f = p.func(Func::new("f", &vars, vec![i.at(&[x.clone(), y.clone()], 0) * 2]));
    let sum = f.at(&[x.clone(), y.clone()], 0) + f.at(&[x + 1, y + 2], 0);
    let out = p.func(Func::new("out", &vars, vec![sum]));
    p.output(&out);
    p
}

/// `out(x) = f(from(x)) + f(to(x))`, f twice the input.
fn windows(from: fn(&Expr) -> Expr, to: fn(&Expr) -> Expr) -> Pipeline {
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("windows");
    let i = p.input(Input::new("in", &[I32], 1));
    let vars = [v];
    let f = p.func(Func::new("f", &vars, vec![i.at(std::slice::from_ref(&x), 0) * 2]));
    let out = p.func(Func::new("out", &vars, vec![f.at(&[from(&x)], 0) + f.at(&[to(&x)], 0)]));
    p.output(&out);
    p
}

/// Three values from x on.
pub fn rising() -> Pipeline {
    windows(|x| x.clone(), |x| x + 2)
}

/// Three values down from 100 - x.
pub fn falling() -> Pipeline {
    windows(|x| Expr::from(98) - x, |x| Expr::from(100) - x)
}

/// Two values of every five.
pub fn jumping() -> Pipeline {
    windows(|x| x * 5, |x| x * 5 + 1)
}

/// `out(x) = f(x - 4) + f(8)`, where f is the input, then its running sum up to 9.
pub fn running_sum() -> Pipeline {
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("running_sum");
    let i = p.input(Input::new("in", &[I32], 1));
    let r = RDom::new([("r", Expr::from(1), Expr::from(9))]);
    let vars = [v];
    let f = Func::new("f", &vars, vec![i.at(&[x.clamp(0, i.extent(0) - 1)], 0)]);
    let sum = f.at(&[r.var(0)], 0) + f.at(&[r.var(0) - 1], 0);
    let f = p.func(f.update(vec![r.var(0)], vec![sum], r));
    let out = p.func(Func::new("out", &vars, vec![f.at(&[&x - 4], 0) + f.at(&[8.into()], 0)]));
    p.output(&out);
    p
}

/// Two outputs `g(x) = f(x) + f(x + 1)` and `h(x) = f(x + 3)` of `f(x) = in(x)`, repeated at the edges.
pub fn fork() -> Pipeline {
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("fork");
    let i = p.input(Input::new("in", &[I32], 1));
    let vars = [v];
    let f = p.func(Func::new("f", &vars, vec![i.at(&[x.clamp(0, i.extent(0) - 1)], 0)]));
    let g = Func::new("g", &vars, vec![f.at(std::slice::from_ref(&x), 0) + f.at(&[&x + 1], 0)]);
    let h = Func::new("h", &vars, vec![f.at(&[&x + 3], 0)]);
    for output in [g, h] {
        let output = p.func(output);
        p.output(&output);
    }
    p
}

/// Output `g(x) = in(x)`, repeated at the edges, and output `h(x) = g(x) + g(x + 1)`.
pub fn chain() -> Pipeline {
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("chain");
    let i = p.input(Input::new("in", &[I32], 1));
    let vars = [v];
    let g = p.func(Func::new("g", &vars, vec![i.at(&[x.clamp(0, i.extent(0) - 1)], 0)]));
    let sum = g.at(std::slice::from_ref(&x), 0) + g.at(&[&x + 1], 0);
    let h = p.func(Func::new("h", &vars, vec![sum]));
    p.output(&g);
    p.output(&h);
    p
}
