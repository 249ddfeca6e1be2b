//! Every theme of Halide's own test of gradients (`test/correctness/autodiff.cpp`), by the golden case that has it.
//!
//! | theme there | case here |
//! |---|---|
//! | scalars: `+ - * /`, constants | `add`, `sub`, `mul`, `div`, `neg` |
//! | scalars: functions | `sin` .. `atanh`, one each; `pow` by base and exponent |
//! | scalars: fast inverses | no golden case: `fast_inverses` of the engine's tests of kinks |
//! | scalars: ceil, floor, round, trunc | `ceil`, `floor`, `round`, `trunc` |
//! | scalars: max, min | `max`, `min` |
//! | scalars: abs | `abs` |
//! | scalars: select | `select` |
//! | scalars: lerp | `lerp` |
//! | box in 1-D, not clamped | `box` |
//! | box in 1-D | `clamped_box` |
//! | box in 2-D | `box_2d` |
//! | update | `update` |
//! | update, not linear | `columns`, `squared_twice` |
//! | convolution by an RDom | `convolution` |
//! | Horner's polynomial | `horner_scan`, `horner` |
//! | RDom whose order matters | `recurrence`, `order_matters` |
//! | 1-D to 2-D | `one_to_two` |
//! | linear resampling in 1-D | `sampled`, `resampled` |
//! | linear resampling in 2-D | `sampled_2d` |
//! | sparse update | `sparse_update` |
//! | histogram | `histogram` |
//! | histogram without bounds | `bins_of_a_func` |
//! | histogram of many updates | `many_updates`, `histograms` |
//! | updates over RDoms | `parts_replaced`, `part_updated` |
//! | repeated edge | `repeat_edge` |
//! | constant exterior | `constant_exterior` |
//! | repeated image | `repeat_image` |
//! | mirrored image | `mirror_image` |
//! | mirrored interior | `mirror_interior` |
//! | second order | `second_order` |
//! | second order of a convolution | `second_order_convolution` |
//! | implicit variables | `other_variables`: all variables have names here |
//! | tuples | `tuples` |
//! | coordinates by floor and ceil | `floor_and_ceil` |
//! | downsampling | `downsampled` |
//! | upsampling | `upsampled` |
//! | transposes | `transposed` |
//! | changed variables | `other_variables` |
//! | predicate of an RDom | `scaled_disc`, `disc` |
//! | reversed scan | `reversed_in_place`, `backward_scan` |
//! | diagonal | `diagonal_store`, `diagonal` |
//! | guards by select | `select_guards`, `guarded` |
//! | parameters | `parameter_and_extent`, `parameters` |

use crate::golden::check_in;
use sumsq::codegen::ScalarType::{F64, I32};
use sumsq::codegen::{Expr, Func, Input, Pipeline, RDom, Source, Var};

fn check(name: &'static str, build: impl Fn(&mut Pipeline, &[Input]) -> Func) {
    check_in("themes", name, build);
}

#[test]
fn stores_in_place() {
    let [x, y] = Var::all(["x", "y"]);
    check("reversed_in_place", |p, i| {
        let r = RDom::new([("r", 0, 5)]);
        let h = p.define("h", [x], i[0].of(x));
        let h = p.update(&h, r.var(0), h.of(4 - r.var(0)), &r);
        p.define("out", [x], h.of(x) * i[0].of(x))
    });
    check("scaled_disc", |p, i| {
        let r = RDom::new([("rx", 0, 7), ("ry", 0, 7)]);
        let (across, down) = (r.var(0) - 3, r.var(1) - 3);
        let r = r.clone().filter((&across * &across + &down * &down).le(10));
        let at = (r.var(0), r.var(1));
        let h = p.define("h", [x, y], i[0].of((x, y)));
        p.update(&h, at.clone(), h.of(at) * 2.0, &r)
    });
    check("diagonal_store", |p, i| {
        let r = RDom::new([("r", 0, 5)]);
        let h = p.define("h", [x, y], i[0].of((x, y)));
        let h = p.update(&h, (r.var(0), r.var(0)), i[1].of(r.var(0)) * i[1].of(r.var(0) + 1), &r);
        p.define("out", [x, y], h.of((x, y)) * h.of((x, y)))
    });
    check("parts_replaced", |p, i| {
        let (r, s) = (RDom::new([("r", 1, 2)]), RDom::new([("s", 3, 4)]));
        let h = p.define("h", [x], i[0].of(x));
        let h = p.update(&h, r.var(0), i[0].of(r.var(0) - 1), &r);
        let h = p.update(&h, s.var(0), 0.0, &s);
        p.define("out", [x], h.of(x) * i[0].of(x))
    });
}

#[test]
fn columns_of_other_columns() {
    let [x, y] = Var::all(["x", "y"]);
    let none = RDom::default();
    check("columns", |p, i| {
        let h = p.define("h", [x, y], Expr::constant(F64, 0.0));
        let h = p.update(&h, (x, 0), i[0].of((0, x)), &none);
        let first = h.of((x, 0));
        p.update(&h, (x, 1), &first * &first + i[0].of((1, x)), &none)
    });
    check("recurrence", |p, i| {
        let r = RDom::new([("r", 0, 3)]);
        let h = p.define("h", [x, y], Expr::constant(F64, 0.0));
        let h = p.update(&h, (x, 0), i[0].of((x, 0)), &none);
        let last = h.of((x, r.var(0)));
        p.update(&h, (x, r.var(0) + 1), &last * &last * 0.5 + i[0].of((r.var(0), 1)), &r)
    });
    check("horner_scan", |p, i| {
        let r = RDom::new([("r", 0, 4)]);
        let h = p.define("h", [x, y], Expr::constant(F64, 0.0));
        let value = h.of((x, 4 - r.var(0))) * i[1].of(x) + i[0].of(r.var(0));
        p.update(&h, (x, 3 - r.var(0)), value, &r)
    });
}

#[test]
fn coordinates() {
    let [x, y, a, b] = Var::all(["x", "y", "a", "b"]);
    check("floor_and_ceil", |p, i| {
        let place = x.expr().cast(F64) / 4.0;
        p.define("out", [x], i[0].of(place.floor().cast(I32)) * i[0].of(place.ceil().cast(I32)))
    });
    check("other_variables", |p, i| {
        let copy = p.define("copy", [x, y], i[0].of((x, y)));
        let copy = p.define("again", [a, b], copy.of((a, b)));
        p.define("out", [x, y], (copy.of((x, y)) - i[1].of((x, y))).powi(2))
    });
}

/// A Func of integers that are written one by one.
fn bins(p: &mut Pipeline) -> Func {
    let mut bins = p.define("bins", [Var::new("x")], 0);
    for (at, bin) in [2, 2, 1, 3].into_iter().enumerate() {
        bins = p.update(&bins, at as i32, bin, &RDom::default());
    }
    bins
}

#[test]
fn histograms() {
    let (x, r) = (Var::new("x"), RDom::new([("r", 0, 4)]));
    check("bins_of_a_func", |p, i| {
        let bin = bins(p).of(r.var(0));
        let h = p.define("h", [x], Expr::constant(F64, 0.0));
        p.add_to(&h, bin, i[0].of(r.var(0)), &r)
    });
    check("many_updates", |p, i| {
        let bin = bins(p).of(r.var(0));
        let mut h = p.define("h", [x], Expr::constant(F64, 0.0));
        for k in 1..11 {
            h = p.add_to(&h, bin.clone(), i[0].of(r.var(0)) * f64::from(k), &r);
        }
        p.define("out", [x], h.of(x) * h.of(x))
    });
}

#[test]
fn guards_and_parameters() {
    let x = Var::new("x");
    check("select_guards", |p, i| {
        let f = i[0].of(x);
        let guard = |taken: Expr, other: Expr| Expr::select(f.gt(0.0), taken, other);
        let quotient = guard((x + 1).cast(F64) / &f, f.clone()) + guard(f.sqrt(), Expr::from(1.0));
        let angle = guard(Expr::from(1.0).atan2(&f), &f * 2.0) + guard(f.log(), &f * 3.0);
        p.define("out", [x], quotient + angle)
    });
    check("parameter_and_extent", |p, i| {
        let gain = p.param("gain", F64);
        p.define("out", [x], &gain * &gain * i[0].extent(0).cast(F64) * i[0].of(0) + i[0].of(x) * 0.0)
    });
}
