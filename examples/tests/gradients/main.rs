//! Values and J^T w against golden vectors in float64 from JAX: every operator and function, and the constructs of the language
//! (`data/gradients`).

mod golden;
mod layers;
mod themes;

use golden::check;
use sumsq::codegen::ScalarType::{F64, I32};
use sumsq::codegen::gradient::propagate_adjoints;
use sumsq::codegen::{Expr, Func, Input, Pipeline, RDom, Source, Var, boundary};

/// Extent of most dimensions.
const N: i32 = 9;

/// A value for each x, made of `f(x)` and `g(x)`.
fn pointwise(name: &'static str, value: impl Fn(Expr, Expr) -> Expr) {
    check(name, |p, inputs| {
        let x = Var::new("x");
        p.define("out", [x], value(inputs[0].of(x), inputs[1].of(x)))
    });
}

#[test]
fn operators() {
    pointwise("add", |f, g| f + g);
    pointwise("sub", |f, g| f - g);
    pointwise("mul", |f, g| f * g);
    pointwise("div", |f, g| f / g);
    pointwise("modulo", |f, g| (&f * 5.0).modulo(&g) - (f * -5.0).modulo(g));
    pointwise("neg", |f, g| -f * g);
    pointwise("min", |f, g| f.min(g));
    pointwise("max", |f, g| f.max(g));
    pointwise("select", |f, g| Expr::select(f.lt(&g), &f * &f, g * 3.0));
    pointwise("clamp", |f, g| f.clamp(Expr::from(0.5), g + 0.2));
    pointwise("lerp", |f, g| Expr::lerp(f, &g * 2.0, g));
    pointwise("floor", |f, g| (f * 4.0).floor() * g);
    pointwise("ceil", |f, g| (f * 4.0).ceil() * g);
    pointwise("round", |f, g| (f * 4.0).round() * g);
    pointwise("trunc", |f, g| (f * -4.0).trunc() * g);
    pointwise("to_integer", |f, g| (&f * 100.0).cast(I32).cast(F64) * g + f);
    pointwise("powi", |f, g| f.powi(3) - g.powi(-2));
    check("mux", |p, inputs| {
        let x = Var::new("x");
        let (f, g) = (inputs[0].of(x), inputs[1].of(x));
        p.define("out", [x], Expr::mux(x % 3, [f.clone(), g.clone(), f * g]))
    });
}

#[test]
fn functions() {
    pointwise("abs", |f, g| (f - g).abs());
    pointwise("acos", |f, _| (f * 0.7).acos());
    pointwise("acosh", |f, _| (f + 1.0).acosh());
    pointwise("asin", |f, _| (f * 0.7).asin());
    pointwise("asinh", |f, _| (f * 3.0 - 2.0).asinh());
    pointwise("atan", |f, _| (f * 3.0 - 2.0).atan());
    pointwise("atanh", |f, _| (f * 0.7).atanh());
    pointwise("cos", |f, _| (f * 7.0).cos());
    pointwise("cosh", |f, _| (f * 3.0 - 2.0).cosh());
    pointwise("exp", |f, _| (f * 3.0 - 2.0).exp());
    pointwise("log", |f, _| f.log());
    pointwise("log10", |f, _| f.log10());
    pointwise("sin", |f, _| (f * 7.0).sin());
    pointwise("sinh", |f, _| (f * 3.0 - 2.0).sinh());
    pointwise("sqrt", |f, _| f.sqrt());
    pointwise("tan", |f, _| f.tan());
    pointwise("tanh", |f, _| (f * 3.0 - 2.0).tanh());
    pointwise("atan2", |f, g| (f - 0.7).atan2(g - 0.6));
    pointwise("pow", |f, g| f.pow(g));
}

#[test]
fn stencils() {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    check("box", |p, i| {
        let f = &i[0];
        p.define("out", [x], f.of(x) + f.of(x + 1) * 2.0 + f.of(x + 2) * f.of(x + 4))
    });
    check("clamped_box", |p, i| {
        let at = |k: i32| i[0].of((x + k).clamp(0, N - 1));
        let blurred = p.define("blurred", [x], at(-1) + at(0) + at(1));
        p.define("out", [x], blurred.of(x) * blurred.of(x))
    });
    check("box_2d", |p, i| {
        let near = p.func(boundary::repeat_edge("near", &i[0], &i[0].domain()));
        let wide = near.of((x - 1, y)) + near.of((x, y)) + near.of((x + 1, y));
        let wide = p.define("wide", [x, y], wide);
        // Rows beyond the image are those of its edge.
        let row = |k: i32| wide.of((x, (y + k).clamp(0, 5)));
        p.define("out", [x, y], row(-1) + row(0) + row(1))
    });
    check("convolution", |p, i| {
        let r = RDom::new([("r", 0, 5)]);
        let sum = p.sum("sum", &r, i[0].of(x + r.var(0)) * i[1].of(r.var(0)));
        p.define("out", [x], sum)
    });
    check("convolution_2d", |p, i| {
        let r = RDom::new([("rx", 0, 3), ("ry", 0, 3)]);
        let sum = p.sum("sum", &r, i[0].of((x + r.var(0), y + r.var(1))) * i[1].of((r.var(0), r.var(1))));
        p.define("out", [x, y], sum)
    });
    check("layer", |p, i| {
        let r = RDom::new([("rx", 0, 3), ("ry", 0, 3), ("rc", 0, 2)]);
        let (rx, ry, rc) = (r.var(0), r.var(1), r.var(2));
        let term = i[0].of((x + &rx, y + &ry, &rc)) * i[1].of((&rx, &ry, &rc, c));
        let sum = p.sum("sum", &r, term);
        p.define("out", [x, y, c], (sum - 4.5).max(0.0))
    });
}

#[test]
fn index_maps() {
    let [x, y] = Var::all(["x", "y"]);
    check("one_to_two", |p, i| p.define("out", [x, y], i[0].of(x + y) * i[0].of(x)));
    let line = |place: Expr, of: &Input| {
        let left = place.floor();
        let share = &place - &left;
        let left = left.cast(I32).clamp(0, N - 1);
        let right = (&left + 1).min(N - 1);
        of.of(left) * (1.0 - &share) + of.of(right) * share
    };
    check("resampled", |p, i| {
        let value = line(x.expr().cast(F64) * 0.71, &i[0]);
        p.define("out", [x], value)
    });
    check("sampled", |p, i| {
        let value = line(((i[1].of(x) - 0.25) * 7.3).clamp(0.0, f64::from(N - 1)), &i[0]);
        p.define("out", [x], value)
    });
    check("sampled_2d", |p, i| {
        let place = |of: &Input, scale: f64, shift: f64, last: i32| {
            let place = (of.of((x, y)) * scale - shift).clamp(0.0, f64::from(last));
            let first = place.floor();
            let share = &place - &first;
            (first.cast(I32).clamp(0, last), share, last)
        };
        let (across, down) = (place(&i[1], 5.1, 0.7, 6), place(&i[2], 4.3, 0.4, 5));
        let tap = |k: i32, l: i32| i[0].of(((&across.0 + k).min(across.2), (&down.0 + l).min(down.2)));
        let row = |l: i32| tap(0, l) * (1.0 - &across.1) + tap(1, l) * &across.1;
        p.define("out", [x, y], row(0) * (1.0 - &down.1) + row(1) * &down.1)
    });
    check("downsampled", |p, i| {
        p.define("out", [x], i[0].of(x * 2) + i[0].of(x * 2 + 1) * i[0].of(x * 2 + 2))
    });
    check("upsampled", |p, i| p.define("out", [x], i[0].of(x / 4) * (x % 4 + 1).cast(F64)));
    check("strided", |p, i| p.define("out", [x], i[0].of((x * 3 + 1) / 2).powi(2)));
    check("transposed", |p, i| p.define("out", [x, y], i[0].of((y, x)) * i[0].of((y, x))));
    check("diagonal", |p, i| p.define("out", [x], i[0].of((x, x)) * i[1].of((6 - x.expr(), x))));
    check("reversed", |p, i| p.define("out", [x], i[0].of(N - 1 - x.expr()) * i[0].of(x)));
    check("one_element", |p, i| p.define("out", [x], i[0].of(3) * i[0].of(x) + i[0].of(0)));
}

#[test]
fn boundary_conditions() {
    let x = Var::new("x");
    type Condition = fn(&Input) -> Func;
    let conditions: [(&'static str, Condition); 5] = [
        ("repeat_edge", |f| boundary::repeat_edge("near", f, &f.domain())),
        ("constant_exterior", |f| boundary::constant_exterior("near", f, &f.domain(), &[Expr::from(0.5)])),
        ("repeat_image", |f| boundary::repeat_image("near", f, &f.domain())),
        ("mirror_image", |f| boundary::mirror_image("near", f, &f.domain())),
        ("mirror_interior", |f| boundary::mirror_interior("near", f, &f.domain())),
    ];
    for (name, condition) in conditions {
        check(name, |p, i| {
            let near = p.func(condition(&i[0]));
            p.define("out", [x], near.of(x - 6).powi(2))
        });
    }
}

#[test]
fn updates() {
    let x = Var::new("x");
    let none = RDom::default();
    check("update", |p, i| {
        let h = p.define("h", [x], i[0].of(x));
        p.update(&h, x, h.of(x) + i[1].of(x) * i[0].of(x), &none)
    });
    check("squared_twice", |p, i| {
        let h = p.define("h", [x], i[0].of(x));
        let h = p.update(&h, x, h.of(x) * h.of(x) + i[0].of(x), &none);
        p.update(&h, x, h.of(x) * h.of(x), &none)
    });
    check("horner", |p, i| {
        let r = RDom::new([("r", 0, 4)]);
        let h = p.define("h", [x], i[0].of(x));
        p.update(&h, x, h.of(x) * i[0].of(x) + i[1].of(r.var(0)), &r)
    });
    check("order_matters", |p, i| {
        let r = RDom::new([("r", 0, 5)]);
        let h = p.define("h", [x], i[0].of(x));
        p.update(&h, x, h.of(x) * h.of(x) * 0.3 + i[1].of(r.var(0)), &r)
    });
    check("sparse_update", |p, i| {
        let h = p.define("h", [x], i[0].of(x));
        let h = p.update(&h, 0, 0.0, &none);
        p.update(&h, 5, i[1].of(3) * 2.0, &none)
    });
    check("part_updated", |p, i| {
        let r = RDom::new([("r", 1, 4)]);
        let h = p.define("h", [x], i[0].of(x));
        let h = p.add_to(&h, r.var(0), i[1].of(r.var(0)) * 3.0, &r);
        p.define("out", [x], h.of(x) * i[0].of(x))
    });
    check("tuples", |p, i| {
        let r = RDom::new([("r", 0, 3)]);
        let h = Func::new("h", &[x], vec![i[0].of(x), i[1].of(x)]);
        let at = [x.expr()];
        let (a, b) = (h.at(&at, 0), h.at(&at, 1));
        let h = p.func(h.update(at.to_vec(), vec![&b * 0.5 + &a * i[0].of(x), a * b], r));
        p.define("out", [x], h.at(&at, 0) - h.at(&at, 1))
    });
}

#[test]
fn histograms() {
    let x = Var::new("x");
    let r = RDom::new([("r", 0, 12)]);
    let bin = |v: Expr| v.floor().cast(I32).clamp(0, N - 1);
    check("histogram", |p, i| {
        let h = p.define("h", [x], i[0].of(x));
        let h = p.add_to(&h, bin(i[1].of(r.var(0)) * 8.0 - 2.0), i[2].of(r.var(0)), &r);
        p.define("out", [x], h.of(x) * i[0].of(x))
    });
    check("histograms", |p, i| {
        let (f, weight) = (i[0].of(r.var(0)), i[1].of(r.var(0)));
        let h = p.define("h", [x], 0.0);
        let h = p.add_to(&h, bin(&f * 8.0 - 2.0), &weight, &r);
        p.add_to(&h, bin(f * 5.0), &weight * &weight, &r)
    });
    check("fading_histogram", |p, i| {
        let (f, g) = (i[0].of(r.var(0)), i[1].of(r.var(0)));
        let h = p.define("h", [x], 1.0);
        let at = bin(&g * 4.0);
        p.update(&h, at.clone(), h.of(at) * 0.9 * g + f, &r)
    });
}

#[test]
fn reductions() {
    let [x, y] = Var::all(["x", "y"]);
    check("row_sums", |p, i| {
        let r = RDom::new([("r", 0, N)]);
        let sum = p.sum("sum", &r, i[0].of((r.var(0), x)));
        p.define("out", [x], sum.powi(2))
    });
    check("norm", |p, i| {
        let r = RDom::new([("rx", 0, N), ("ry", 0, 7)]);
        let value = i[0].of((r.var(0), r.var(1)));
        let sum = p.sum("sum", &r, &value * &value);
        p.define("out", [], sum.sqrt())
    });
    let r = RDom::new([("r", 0, 4)]);
    check("products", |p, i| {
        let all = p.product("all", &r, i[0].of(x + r.var(0)));
        p.define("out", [x], all)
    });
    check("maxima", |p, i| {
        let all = p.maximum("all", &r, i[0].of(x + r.var(0)));
        p.define("out", [x], all)
    });
    check("minima", |p, i| {
        let all = p.minimum("all", &r, i[0].of(x + r.var(0)));
        p.define("out", [x], all)
    });
    check("max_pooling", |p, i| {
        let r = RDom::new([("rx", 0, 2), ("ry", 0, 2)]);
        let all = p.maximum("all", &r, i[0].of((x * 2 + r.var(0), y * 2 + r.var(1))));
        p.define("out", [x, y], all)
    });
    check("argmax", |p, i| {
        let r = RDom::new([("r", 0, 5)]);
        let best = p.argmax("best", &r, i[0].of((r.var(0), x)));
        let at = best[0].clamp(0, 4);
        p.define("out", [x], i[0].of((&at, x)) * i[1].of((&at, x)))
    });
    check("triangle", |p, i| {
        let r = RDom::new([("r", Expr::from(0), x + 1)]);
        let sum = p.sum("sum", &r, i[0].of((r.var(0).clamp(0, 6), x)));
        p.define("out", [x], sum)
    });
    check("disc", |p, i| {
        let r = RDom::new([("r", 0, 8)]);
        let (across, down) = (x - 4, r.var(0) - 3);
        let r = r.clone().filter((&across * &across + &down * &down).lt(10));
        let value = i[0].of((x, r.var(0)));
        let sum = p.sum("sum", &r, &value * &value);
        p.define("out", [x], sum)
    });
}

#[test]
fn scans() {
    let [x, y] = Var::all(["x", "y"]);
    let r = RDom::new([("r", 1, N - 1)]);
    check("prefix_sum", |p, i| {
        let h = p.define("h", [x], i[0].of(x));
        let h = p.update(&h, r.var(0), h.of(r.var(0) - 1) + i[0].of(r.var(0)), &r);
        p.define("out", [x], h.of(x) * i[0].of(x))
    });
    check("summed_area", |p, i| {
        let h = p.define("h", [x, y], i[0].of((x, y)));
        let h = p.add_to(&h, (r.var(0), y), h.of((r.var(0) - 1, y)), &r);
        let down = RDom::new([("s", 1, 4)]);
        p.add_to(&h, (x, down.var(0)), h.of((x, down.var(0) - 1)), &down)
    });
    check("recursive_filter", |p, i| {
        let share = i[1].of(0);
        let h = p.define("h", [x], i[0].of(x));
        let value = h.of(r.var(0) - 1) * (1.0 - &share) + i[0].of(r.var(0)) * share;
        p.update(&h, r.var(0), value, &r)
    });
    check("backward_scan", |p, i| {
        let h = p.define("h", [x], i[0].of(x));
        let at = N - 1 - r.var(0);
        p.update(&h, at.clone(), h.of(&at + 1).sin() * i[1].of(at.clone()) + i[0].of(at), &r)
    });
}

#[test]
fn guards_and_parameters() {
    let x = Var::new("x");
    check("guarded", |p, i| {
        let (f, g) = (i[0].of(x), i[1].of(x));
        p.define("out", [x], Expr::select(f.gt(0.6), (f - 0.6).log() * &g, &g))
    });
    check("parameters", |p, i| {
        let (gamma, gain) = (p.param("gamma", F64), p.param("gain", F64));
        p.define("out", [x], gain * i[0].of(x).pow(gamma))
    });
}

/// The gradient of an energy, as a pipeline whose own gradient is asked for.
fn derived(p: &mut Pipeline, energy: Expr, by: &str) -> Func {
    let e = p.define("energy", [], energy);
    p.output(&e);
    let d = propagate_adjoints(p, &[], &[by]).expect("a scalar has a gradient");
    p.outputs.clear();
    d.of(by).expect("it is derived for").clone()
}

#[test]
fn second_order() {
    check("second_order", |p, i| {
        let r = RDom::new([("r", 0, N - 1)]);
        let energy = p.sum("sum", &r, (i[0].of(r.var(0) + 1) * i[0].of(r.var(0))).sin().powi(2));
        derived(p, energy, "f")
    });
    check("second_order_convolution", |p, i| {
        let x = Var::new("x");
        let k = RDom::new([("k", 0, 3)]);
        let sum = p.sum("sum", &k, i[0].of(x + k.var(0)) * i[1].of(k.var(0)));
        let filtered = p.define("filtered", [x], sum);
        let r = RDom::new([("r", 0, N)]);
        let energy = p.sum("cubes", &r, filtered.of(r.var(0)).powi(3));
        derived(p, energy, "f")
    });
}
