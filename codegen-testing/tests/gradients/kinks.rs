//! Points where a slope is a matter of choice, factors that are 0, and NaN or infinities where nothing looks: exact adjoints.

use crate::check::{Case, flat};
use crate::{N, on_line};
use sumsq_codegen::ScalarType::{F32, F64, I32};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, Source, Var, boundary};
use sumsq_codegen_testing::reference::evaluate_over;
use sumsq_codegen_testing::rng::Rng;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;
const NINE: usize = N as usize;

/// The case of `out(x)` = `value` of `f(x)` and `g(x)`, which have these values.
fn at_points(f: [f64; NINE], g: [f64; NINE], value: impl Fn(Expr, Expr) -> Expr) -> Case {
    let point =
        |p: &mut Pipeline, f: &Input, g: &Input, x: Var| p.define("out", [x], value(f.of(x), g.of(x)));
    on_line(point, (0, NINE)).with("f", &f).with("g", &g)
}

/// The weights where `is`, else 0.
fn where_(w: &[f64], is: impl Fn(usize) -> bool) -> Vec<f64> {
    w.iter().enumerate().map(|(i, w)| if is(i) { *w } else { 0.0 }).collect()
}

/// The sum over all x of the weights at which `winner(x)` is i, for i in 0..n.
fn to_winners(w: &[f64], n: usize, winner: impl Fn(usize) -> usize) -> Vec<f64> {
    let mut all = vec![0.0; n];
    for (x, w) in w.iter().enumerate() {
        all[winner(x)] += w;
    }
    all
}

#[test]
fn of_equal_operands_the_second_has_everything() {
    let f = [1.0, 1.0, 0.0, -0.0, 2.0, 1.0, -3.0, 7.0, 0.5];
    let g = [1.0, 2.0, -0.0, 0.0, 1.0, 1.0, -3.0, 7.0, 0.25];
    at_points(f, g, |f, g| f.min(&g)).gives(|w| vec![where_(w, |i| i == 1), where_(w, |i| i != 1)]);
    at_points(f, g, |f, g| f.max(&g))
        .gives(|w| vec![where_(w, |i| i == 4 || i == 8), where_(w, |i| i != 4 && i != 8)]);
    // An operand that is both counts once.
    at_points(f, g, |f, g| f.max(&f) + g * 0.0).gives(|w| vec![w.to_vec(), vec![0.0; NINE]]);
    // At its ends a clamped value is the end, which does not move.
    let f = [0.25, 0.5, 0.75, 1.0, 1.25, 0.5, 1.0, 0.5000001, 0.9999999];
    at_points(f, g, |f, g| f.clamp(0.5, 1.0) + g * 0.0)
        .gives(|w| vec![where_(w, |i| [2, 7, 8].contains(&i)), vec![0.0; NINE]]);
}

/// The value that is a number is returned; what is none has no slope.
#[test]
fn operands_that_are_no_numbers() {
    let f = [NAN, 1.0, NAN, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0];
    let g = [1.0, NAN, 2.0, NAN, 3.0, 3.0, 3.0, 3.0, 3.0];
    at_points(f, g, |f, g| f.min(&g))
        .gives(|w| vec![where_(w, |i| ![0, 2].contains(&i)), where_(w, |i| [0, 2].contains(&i))]);
    at_points(f, g, |f, g| f.max(&g))
        .gives(|w| vec![where_(w, |i| [1, 3].contains(&i)), where_(w, |i| ![1, 3].contains(&i))]);
}

#[test]
fn points_without_a_slope_have_the_one_of_the_table() {
    let f = [0.0, -0.0, 4.0, 0.0, 4.0, 0.0, 4.0, 0.0, 4.0];
    let g = [0.0; NINE];
    let zero = || vec![0.0; NINE];
    at_points(f, g, |f, g| f.abs() + g * 0.0).gives(|w| vec![w.to_vec(), zero()]);
    at_points(f, g, |f, g| f.sqrt() + g * 0.0)
        .gives(|w| vec![where_(w, |i| f[i] == 4.0).iter().map(|w| w * 0.25).collect(), zero()]);
    at_points(f, g, |f, g| f.pow(0.5) + g * 0.0)
        .gives(|w| vec![where_(w, |i| f[i] == 4.0).iter().map(|w| w * 0.25).collect(), zero()]);
    at_points([0.0; NINE], g, |f, g| f.atan2(g)).gives(|_| vec![zero(), zero()]);
}

/// Reductions go on from what they have: of equal terms the last stays of a minimum or maximum, the first of argmin and argmax.
#[test]
fn equal_terms_of_extrema() {
    // Three terms from x on.
    let f = [2.0, 2.0, 1.0, 1.0, 1.0, 3.0, 3.0, 0.0, 3.0, 3.0, 3.0];
    let winner = |x: usize, better: &dyn Fn(f64, f64) -> bool| {
        (x..x + 3).reduce(|best, i| if better(f[i], f[best]) { i } else { best }).unwrap()
    };
    let over = |reduce: fn(&mut Pipeline, &RDom, Expr) -> Expr| {
        let make = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
            let r = RDom::new([("r", 0, 3)]);
            let value = reduce(p, &r, f.of(x + r.var(0)));
            p.define("out", [x], value + g.of(x) * 0.0)
        };
        on_line(make, (0, NINE)).with("f", &f)
    };
    let zero = || vec![0.0; NINE];
    over(|p, r, t| p.maximum("most", r, t))
        .gives(|w| vec![to_winners(w, f.len(), |x| winner(x, &|a, b| a >= b)), zero()]);
    over(|p, r, t| p.minimum("least", r, t))
        .gives(|w| vec![to_winners(w, f.len(), |x| winner(x, &|a, b| a <= b)), zero()]);
    over(|p, r, t| p.argmax("most", r, t)[1].clone())
        .gives(|w| vec![to_winners(w, f.len(), |x| winner(x, &|a, b| a > b)), zero()]);
    over(|p, r, t| p.argmin("least", r, t)[1].clone())
        .gives(|w| vec![to_winners(w, f.len(), |x| winner(x, &|a, b| a < b)), zero()]);
}

/// Of the products of four factors from x on, by each: that of the other three, as powers of 2.
#[test]
fn factors_that_are_0() {
    let f = [2.0, 0.0, 0.5, 4.0, 0.0, 0.0, 2.0, 1.0, -0.5, 0.0, 8.0, 0.25];
    let expected = |w: &[f64]| {
        let mut d = vec![0.0; f.len()];
        for (x, w) in w.iter().enumerate() {
            for (i, d) in d.iter_mut().enumerate().skip(x).take(4) {
                *d += w * (x..x + 4).filter(|k| *k != i).map(|k| f[k]).product::<f64>();
            }
        }
        vec![d, vec![0.0; NINE]]
    };
    let product = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 4)]);
        let value = p.product("all", &r, f.of(x + r.var(0)));
        p.define("out", [x], value + g.of(x) * 0.0)
    };
    on_line(product, (0, NINE)).with("f", &f).gives(expected);
    let in_place = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let mut h = p.define("h", [x], f.of(x));
        for k in 1..4 {
            h = p.update(&h, x, h.of(x) * f.of(x + k), &RDom::default());
        }
        p.define("out", [x], h.of(x) + g.of(x) * 0.0)
    };
    on_line(in_place, (0, NINE)).with("f", &f).gives(expected);
    // All of them into one element.
    let total = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 6, 3)]);
        let h = p.define("h", [x], f.of(9) + g.of(x) * 0.0);
        let h = p.update(&h, 2, h.of(2) * f.of(r.var(0)), &r);
        p.define("out", [x], h.of(x))
    };
    on_line(total, (0, NINE)).with("f", &f).gives(|w| {
        let mut d = vec![0.0; f.len()];
        d[9] = w.iter().enumerate().map(|(x, w)| if x == 2 { -*w } else { *w }).sum();
        vec![d, vec![0.0; NINE]]
    });
}

/// A sum, product or extremum over the part of a domain where a condition holds; beyond it, terms are NaN or infinite.
#[test]
fn nothing_leaks_from_points_that_a_condition_leaves_out() {
    let f = [1.0, INF, NAN, 2.0, -INF, 0.5, NAN, NAN, 4.0];
    let g = [1.0, -1.0, 0.0, 2.0, 0.0, 1.0, -1.0, 0.0, 1.0];
    let holds = [true, false, false, true, false, true, false, false, true];
    type Reduce = fn(&mut Pipeline, &RDom, Expr) -> Expr;
    let over = |reduce: Reduce| {
        let make = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
            let r = RDom::new([("r", 0, N)]);
            let r = r.clone().filter(g.of(r.var(0)).gt(0.0));
            // The slope of the logarithm at 0 is infinite, its value below 0 NaN.
            let value = reduce(p, &r, f.of(r.var(0)) + g.of(r.var(0)).log());
            p.define("out", [x], value)
        };
        on_line(make, (0, NINE)).with("f", &f).with("g", &g)
    };
    let total = |w: &[f64]| w.iter().sum::<f64>();
    let by = |w: &[f64], by: &dyn Fn(usize) -> f64| -> Vec<f64> {
        (0..NINE).map(|i| if holds[i] { total(w) * by(i) } else { 0.0 }).collect()
    };
    over(|p, r, t| p.sum("sum", r, t)).gives(|w| vec![by(w, &|_| 1.0), by(w, &|i| 1.0 / g[i])]);
    let term = |i: usize| f[i] + g[i].ln();
    let others = |i: usize| (0..NINE).filter(|k| holds[*k] && *k != i).map(term).product::<f64>();
    over(|p, r, t| p.product("all", r, t)).gives(|w| vec![by(w, &others), by(w, &|i| others(i) / g[i])]);
    let only = |best: usize| move |i: usize| if i == best { 1.0 } else { 0.0 };
    over(|p, r, t| p.maximum("most", r, t)).gives(|w| vec![by(w, &only(8)), by(w, &only(8))]);
    over(|p, r, t| p.argmin("least", r, t)[1].clone()).gives(|w| vec![by(w, &only(5)), by(w, &only(5))]);
}

/// Terms that lose may have slopes without end.
#[test]
fn nothing_leaks_from_terms_that_lose() {
    let f = [0.0f64, 1.0, 0.0, 2.0, 0.0, 0.0, 4.0, 0.0, 1.0, 0.0, 8.0];
    let make = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 3)]);
        let value = p.maximum("most", &r, f.of(x + r.var(0)).log());
        p.define("out", [x], value + g.of(x) * 0.0)
    };
    let winner = |x: usize| (x..x + 3).max_by(|a, b| f[*a].total_cmp(&f[*b])).unwrap();
    on_line(make, (0, NINE)).with("f", &f).gives(|w| {
        let mut d = to_winners(w, f.len(), winner);
        d.iter_mut().zip(f).filter(|(_, f)| *f > 0.0).for_each(|(d, f)| *d /= f);
        vec![d, vec![0.0; NINE]]
    });
}

/// Replaced values reach nobody, whatever they were.
#[test]
fn nothing_leaks_from_what_is_replaced() {
    let f = [1.0, 0.0, 2.0, 0.0, 4.0, 0.0, 1.0, 0.0, 2.0];
    let expected = |w: &[f64]| {
        let own =
            where_(w, |i| i % 2 == 0).iter().zip(f).map(|(w, f)| if f > 0.0 { w / f } else { 0.0 }).collect();
        let by = (0..NINE).map(|i| if i < 4 { w[2 * i + 1] } else { 0.0 }).collect();
        vec![own, by]
    };
    let lattice = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 4)]);
        let h = p.define("h", [x], f.of(x).log());
        let h = p.update(&h, r.var(0) * 2 + 1, g.of(r.var(0)), &r);
        p.define("out", [x], h.of(x))
    };
    on_line(lattice, (0, NINE)).with("f", &f).gives(expected);
    let chosen = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let h = p.define("h", [x], f.of(x).log());
        let odd = Expr::select((x % 2).eq_(1), g.of(x / 2), h.of(x));
        let h = p.update(&h, x, odd, &RDom::default());
        p.define("out", [x], h.of(x))
    };
    on_line(chosen, (0, NINE)).with("f", &f).gives(expected);
}

/// Row x sums over r < x: beyond the end of its row, which the other rows are read around, there are no numbers.
#[test]
fn nothing_leaks_from_beyond_the_end_of_a_ragged_row() {
    let f: Vec<f64> = (0..NINE).map(|i| if i < 8 { 1.0 + i as f64 } else { NAN }).collect();
    let make = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", Expr::from(0), x.expr())]);
        let term = f.of(r.var(0)) * g.of(x - 1 - r.var(0)).log();
        let sum = p.sum("sum", &r, term);
        p.define("out", [x], sum)
    };
    let g = [1.0f64, 2.0, 4.0, 1.0, 2.0, 4.0, 1.0, 2.0, -1.0];
    let all: Vec<f64> = [0.0, -1.0, NAN, INF, 0.0, -1.0, NAN, INF].into_iter().chain(g).collect();
    on_line(make, (0, NINE)).with("f", &f).with_from("g", -8, &all).gives(|w| {
        let (mut df, mut dg) = (vec![0.0; NINE], vec![0.0; all.len()]);
        for (x, w) in w.iter().enumerate() {
            for r in 0..x {
                df[r] += w * g[x - 1 - r].ln();
                dg[8 + x - 1 - r] += w * f[r] / g[x - 1 - r];
            }
        }
        vec![df, dg]
    });
}

/// Beyond a boundary condition's domain the input has no numbers.
#[test]
fn nothing_leaks_from_beyond_a_boundary() {
    let f = [NAN, INF, 1.0, 2.0, 4.0, 8.0, NAN, -INF, NAN];
    type Condition = fn(&Input, &[Option<(Expr, Expr)>]) -> Func;
    type From = fn(i32) -> Option<i32>;
    let conditions: [(Condition, From); 5] = [
        (
            |f, of| boundary::constant_exterior("c", f, of, &[0.5.into()]),
            |x| (0..4).contains(&x).then_some(x),
        ),
        (|f, of| boundary::repeat_edge("c", f, of), |x| Some(x.clamp(0, 3))),
        (|f, of| boundary::repeat_image("c", f, of), |x| Some(x.rem_euclid(4))),
        (|f, of| boundary::mirror_image("c", f, of), |x| Some(x.rem_euclid(8).min(7 - x.rem_euclid(8)))),
        (|f, of| boundary::mirror_interior("c", f, of), |x| Some(x.rem_euclid(6).min(6 - x.rem_euclid(6)))),
    ];
    let middle = [Some((Expr::from(2), Expr::from(4)))];
    for (condition, from) in conditions {
        let make = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
            let c = p.func(condition(f, &middle));
            p.define("out", [x], c.of(x).log() + g.of(x) * 0.0)
        };
        on_line(make, (0, NINE)).with("f", &f).gives(|w| {
            let mut d = vec![0.0; NINE];
            for (x, w) in w.iter().enumerate() {
                if let Some(i) = from(x as i32 - 2).map(|i| i as usize + 2) {
                    d[i] += w / f[i];
                }
            }
            vec![d, vec![0.0; NINE]]
        });
    }
}

/// Values that a predicate leaves out of a histogram have no bin, and no weight.
#[test]
fn nothing_leaks_into_bins() {
    let f = [1.0, NAN, 2.0, INF, 4.0, NAN, 8.0, 0.0, 1.0];
    let g = [0.5, NAN, 1.5, 2.5, 0.5, 7.5, 1.5, -3.0, 0.5];
    let make = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, N)]);
        let r = r.clone().filter((r.var(0) % 2).eq_(0));
        let bin = g.of(r.var(0)).cast(I32).clamp(0, N - 1);
        let h = p.define("h", [x], Expr::constant(F64, 0.0));
        let h = p.add_to(&h, bin, f.of(r.var(0)).log(), &r);
        p.define("out", [x], h.of(x))
    };
    on_line(make, (0, NINE)).with("f", &f).with("g", &g).gives(|w| {
        let slope = |i: usize| if i.is_multiple_of(2) { w[g[i] as usize] / f[i] } else { 0.0 };
        vec![(0..NINE).map(slope).collect(), vec![0.0; NINE]]
    });
}

/// The guess from the bits of a number has no slope, and the steps of Newton's method behind it have that of what they go to.
#[test]
fn fast_inverses() {
    let mut p = Pipeline::new("fast");
    let f = p.input(Input::strided("f", &[F32], 1));
    let x = Var::new("x");
    let out = p.define("out", [x], f.of(x).fast_inverse() + f.of(x).fast_inverse_sqrt());
    let case = Case::new(p, &out, &[(0, NINE)], &["f"]).bind("f", &[(0, NINE)], &mut Rng::new(3));
    let (p, b, domains) = case.adjoint().unwrap();
    let d = evaluate_over(&p, &b, &domains).unwrap();
    for ((d, w), f) in flat(&d[0]).iter().zip(flat(&b.inputs["w"])).zip(flat(&b.inputs["f"])) {
        let expected = -w * (1.0 / (f * f) + 0.5 * f.powf(-1.5));
        assert!((d - expected).abs() <= 1e-3 * expected.abs(), "{d} instead of {expected} at {f}");
    }
}
