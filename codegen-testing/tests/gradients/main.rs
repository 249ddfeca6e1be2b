//! Gradients of pipelines: adjoints against tangents against central differences, construct by construct.

mod check;
mod edges;
mod explained;
mod gathered;
mod halves;
mod kinks;
mod near;
mod programs;
mod refused;
mod scattered;
mod scheduled;
mod shrink;
mod swept;

use check::{Case, text_of};
use shrink::{Check, failure, shrink};
use sumsq_codegen::ScalarType::{F64, I32};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, Source, Var, boundary};
use sumsq_codegen_testing::rng::{Rng, setting};

pub const N: i32 = 9;

/// A pipeline with the inputs `f` and `g` of one dimension, and `x`.
pub fn line() -> (Pipeline, Input, Input, Var) {
    let mut p = Pipeline::new("line");
    let f = p.input(Input::strided("f", &[F64], 1));
    let g = p.input(Input::strided("g", &[F64], 1));
    (p, f, g, Var::new("x"))
}

/// The case of an output `out(x)` = `value` over 0 .. N, where inputs `f` and `g` cover `around`.
pub fn on_line(make: impl Fn(&mut Pipeline, &Input, &Input, Var) -> Func, around: (i32, usize)) -> Case {
    let (mut p, f, g, x) = line();
    let out = make(&mut p, &f, &g, x);
    let mut rng = Rng::new(3);
    let domain: Vec<(i32, usize)> = out.vars.iter().map(|_| (0, N as usize)).collect();
    Case::new(p, &out, &domain, &["f", "g"]).bind("f", &[around], &mut rng).bind("g", &[around], &mut rng)
}

fn pointwise(make: impl Fn(Expr, Expr) -> Expr) {
    let point = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| p.define("out", [x], make(f.of(x), g.of(x)));
    on_line(point, (0, N as usize)).check();
}

#[test]
fn operators() {
    pointwise(|f, g| &f * 3.0 + g / (f + 1.0) - 2.0);
    pointwise(|f, g| f.sin() * g.exp() + (f + 1.0).log());
    pointwise(|f, g| f.sqrt() + g.atan2(&f) + f.pow(&g));
    pointwise(|f, g| f.max(&g) * f.min(&g));
    pointwise(|f, g| Expr::select(f.lt(&g), &f * 2.0, &g * &g));
    pointwise(|f, g| (f - g).abs());
    pointwise(|f, g| (&f * 5.0).modulo(&g) + f);
    pointwise(|f, g| f.cast(F64) + (g * 100.0).cast(I32).cast(F64) * f);
    pointwise(|f, g| {
        (&f * 0.5).asin() + (&g * 0.5).acos() + f.atan() + g.tanh() + f.sinh() + g.cosh() + f.tan()
    });
    pointwise(|f, g| (&f + 1.0).acosh() + g.asinh() + (&f * 0.5).atanh() + g.log10());
}

#[test]
fn stencils_and_resampling() {
    let wide = (-12, 40);
    on_line(|p, f, g, x| p.define("out", [x], f.of(x - 1) * g.of(x + 1) + f.of(x + 2)), wide).check();
    on_line(|p, f, g, x| p.define("out", [x], f.of(x / 4) * g.of(x + x)), wide).check();
    on_line(|p, f, g, x| p.define("out", [x], f.of((x + 1) / 2) * g.of(2 * x.expr() + 1)), wide).check();
    on_line(|p, f, g, x| p.define("out", [x], f.of(x % 3) * g.of(-x.expr())), wide).check();
    on_line(|p, f, g, x| p.define("out", [x], f.of(3) * g.of((3 * x.expr() + 1) / 2)), wide).check();
    let pyramid = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let down = p.define("down", [x], f.of(x * 2 - 1) + f.of(x * 2) * 2.0 + g.of(x * 2 + 1));
        let up = p.define("up", [x], down.of(x / 2) + down.of((x + 1) / 2));
        p.define("out", [x], up.of(x) * f.of(x))
    };
    on_line(pyramid, wide).check();
}

#[test]
fn sums_over_domains() {
    let convolution = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 5)]);
        let s = p.sum("s", &r, f.of(x + r.var(0)) * g.of(r.var(0)));
        p.define("out", [x], s)
    };
    on_line(convolution, (-12, 40)).check();
    let downsample = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 3)]);
        let s = p.sum("s", &r, f.of(x * 2 + r.var(0)) * g.of(x * 3 + r.var(0)));
        p.define("out", [x], s)
    };
    on_line(downsample, (-2, 40)).check();
    let total = |p: &mut Pipeline, f: &Input, g: &Input, _: Var| {
        let r = RDom::new([("r", 0, N)]).filter(Expr::var("r").modulo(3).ne_(1));
        let s = p.sum("s", &r, (f.of(r.var(0)) - g.of(N - 1 - r.var(0))).pow(2.0));
        p.define("out", [], s)
    };
    on_line(total, (0, N as usize)).check();
    let ragged = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", Expr::from(0), x.expr())]);
        let s = p.sum("s", &r, f.of(r.var(0)) * g.of(x - r.var(0)));
        p.define("out", [x], s)
    };
    on_line(ragged, (-12, 40)).check();
}

/// A boundary condition of one dimension.
type Condition = fn(&str, &Input, &[Option<(Expr, Expr)>]) -> Func;

#[test]
fn boundaries() {
    let conditions: [Condition; 4] = [
        |n, f, d| boundary::repeat_edge(n, f, d),
        |n, f, d| boundary::repeat_image(n, f, d),
        |n, f, d| boundary::mirror_image(n, f, d),
        |n, f, d| boundary::mirror_interior(n, f, d),
    ];
    for condition in conditions {
        let stencil = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
            let c = p.func(condition("c", f, &f.domain()));
            p.define("out", [x], c.of(x - 3) * g.of(x) + c.of(x + 2))
        };
        let case = on_line(stencil, (0, N as usize));
        case.check();
        let (p, ..) = case.adjoint().unwrap();
        let d = &p.funcs["d_f"];
        assert!(
            d.updates.iter().all(|u| u.args.iter().all(|a| !u.rdom.vars.iter().any(|r| uses(a, &r.name)))),
            "{}",
            text_of(d)
        );
    }
    let outside = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let c = p.func(boundary::constant_exterior("c", f, &f.domain(), &[Expr::from(2.0)]));
        p.define("out", [x], c.of(x - 3) * g.of(x) + c.of(x + 2))
    };
    on_line(outside, (0, N as usize)).check();
}

fn uses(e: &Expr, name: &str) -> bool {
    sumsq_codegen::expr::walk::uses_var(e, name)
}

#[test]
fn two_dimensions() {
    let mut rng = Rng::new(5);
    let [x, y] = Var::all(["x", "y"]);
    let make = |value: &dyn Fn(&mut Pipeline, &Func, &Input) -> Expr| {
        let mut p = Pipeline::new("plane");
        let f = p.input(Input::strided("f", &[F64], 2));
        let g = p.input(Input::strided("g", &[F64], 1));
        let c = p.func(boundary::repeat_edge("c", &f, &f.domain()));
        let value = value(&mut p, &c, &g);
        let out = p.define("out", [x, y], value);
        Case::new(p, &out, &[(0, 7), (0, 6)], &["f", "g"])
    };
    let cases = [
        make(&|_, f, g| f.of((x, y)) * g.of(x + y)),
        make(&|_, f, g| f.of((y, x)) * g.of(x)),
        make(&|_, f, g| f.of((x, x)) * f.of((x + y, 2)) * g.of(y)),
        make(&|_, f, g| f.of((x + y, x - y)) + g.of(y)),
        make(&|_, f, g| f.of((x * 2 + y * 3, y)) + g.of(x * 2 + y)),
        make(&|_, f, g| f.of((x / 2 + 1, (y + 3) / 2 * 2)) * g.of(x % 2)),
        make(&|p, f, g| {
            let r = RDom::new([("rx", -1, 3), ("ry", -1, 3)]);
            p.sum("s", &r, f.of((x + r.var(0), y + r.var(1))) * g.of(r.var(0) + 1 + r.var(1) + 1))
        }),
    ];
    for case in cases {
        case.bind("f", &[(0, 7), (0, 6)], &mut rng).bind("g", &[(0, 40)], &mut rng).check();
    }
}

#[test]
fn coordinates_that_are_data() {
    let gather = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let at = (g.of(x) * 8.0).cast(I32).clamp(0, N - 1);
        p.define("out", [x], f.of(at) * g.of(x))
    };
    on_line(gather, (0, N as usize)).check();
    let histogram = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, N)]);
        let h = p.define("h", [x], 0.0);
        let bin = (g.of(r.var(0)) * 8.0).cast(I32).clamp(0, N - 1);
        let h = p.add_to(&h, bin, f.of(r.var(0)) * f.of(r.var(0)), &r);
        p.define("out", [x], h.of(x) * g.of(x))
    };
    on_line(histogram, (0, N as usize)).check();
}

/// The bins of a histogram reach as far as a parameter says: their ends are expressions with constants that are no numbers.
#[test]
fn bins_by_a_parameter() {
    let mut p = Pipeline::new("bins");
    let f = p.input(Input::strided("f", &[F64], 1));
    let per_bin = 1.0 / p.param("width", F64);
    let [x, z] = Var::all(["x", "z"]);
    let bin = |x: Expr| (f.of(x).clamp(0.0, 1.5) * &per_bin).cast(I32);
    let r = RDom::new([("r", 0, 4)]);
    let at = x * 2 + r.var(0);
    let h = p.define("h", [x, z], 0.0);
    let h = p.add_to(&h, (x, bin(at.clone())), f.of(at.clone()) * f.of(at), &r);
    let out = p.define("out", [x], h.of((x / 2, bin(x.expr()))));
    let case = Case::new(p, &out, &[(0, 7)], &["f"]).bind("f", &[(0, 16)], &mut Rng::new(4));
    case.param("width", 0.3).check();
}

#[test]
fn overwriting() {
    let fixed = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let h = p.define("h", [x], f.of(x) * f.of(x));
        let h = p.update(&h, 1, g.of(2) * 2.0, &RDom::default());
        p.define("out", [x], h.of(x) * 2.0)
    };
    on_line(fixed, (0, N as usize)).check();
    let lattice = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 4)]);
        let h = p.define("h", [x], f.of(x) * f.of(x));
        let h = p.update(&h, r.var(0) * 2, g.of(r.var(0)) * f.of(r.var(0)), &r);
        p.define("out", [x], h.of(x) * 2.0)
    };
    on_line(lattice, (0, N as usize)).check();
    let colliding = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, N)]);
        let h = p.define("h", [x], f.of(x) * f.of(x));
        let h = p.update(&h, r.var(0) * r.var(0) % 5, g.of(r.var(0)) * f.of(r.var(0)), &r);
        p.define("out", [x], h.of(x) * 2.0)
    };
    on_line(colliding, (0, N as usize)).check();
}

#[test]
fn extrema() {
    let pooling = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 4)]);
        let greatest = p.maximum("greatest", &r, f.of(x * 2 + r.var(0)) * g.of(r.var(0)));
        let least = p.minimum("least", &r, f.of(x + r.var(0)));
        p.define("out", [x], greatest * least)
    };
    on_line(pooling, (0, 40)).check();
    let place = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 4)]);
        let best = p.argmax("best", &r, f.of(x + r.var(0)) * f.of(x + r.var(0)));
        p.define("out", [x], &best[1] * g.of(best[0].clone()))
    };
    on_line(place, (0, 40)).check();
}

#[test]
fn scans() {
    let filter = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 2, N - 2)]);
        let h = p.define("h", [x], f.of(x) * f.of(x));
        let value =
            f.of(r.var(0)) + h.of(r.var(0) - 1) * g.of(0) + h.of(r.var(0) - 2) * h.of(r.var(0) - 1) * 0.1;
        let h = p.update(&h, r.var(0), value, &r);
        p.define("out", [x], h.of(x) * g.of(x))
    };
    on_line(filter, (0, N as usize)).check();
    let backwards = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 1, N - 1)]);
        let h = p.define("h", [x], f.of(x));
        let at = N - 1 - r.var(0);
        let h = p.update(&h, at.clone(), h.of(at.clone() + 1) * 0.5 + g.of(at), &r);
        p.define("out", [x], h.of(x) * h.of(x))
    };
    on_line(backwards, (0, N as usize)).check();
}

#[test]
fn steps_in_place() {
    let square = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let h = p.define("h", [x], f.of(x));
        let h = p.update(&h, x, h.of(x) * h.of(x) + g.of(x), &RDom::default());
        let h = p.update(&h, x, h.of(x) * h.of(x), &RDom::default());
        p.define("out", [x], h.of(x) * 2.0)
    };
    on_line(square, (0, N as usize)).check();
    let horner = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 4)]);
        let h = p.define("h", [x], f.of(x));
        let h = p.update(&h, x, h.of(x) * f.of(x) + g.of(r.var(0)), &r);
        p.define("out", [x], h.of(x))
    };
    on_line(horner, (0, N as usize)).check();
    let product = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 4)]);
        let s = p.product("s", &r, f.of(x + r.var(0)) - 0.5);
        p.define("out", [x], s * g.of(x))
    };
    on_line(product, (0, 40)).check();
    let fading = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, N)]);
        let h = p.define("h", [x], 1.0);
        let bin = (g.of(r.var(0)) * 4.0).cast(I32).clamp(0, N - 1);
        let h = p.update(&h, bin.clone(), h.of(bin) * 0.9 * g.of(r.var(0)) + f.of(r.var(0)), &r);
        p.define("out", [x], h.of(x))
    };
    on_line(fading, (0, N as usize)).check();
    let swap = |p: &mut Pipeline, f: &Input, g: &Input, x: Var| {
        let r = RDom::new([("r", 0, 5)]);
        let h = Func::new("h", &[x], vec![f.of(x), g.of(x), Expr::from(0)]);
        let at = [x.expr()];
        let (a, b, n) = (h.at(&at, 0), h.at(&at, 1), h.at(&at, 2));
        let values = vec![&b * 0.5 + &a * f.of(x), a * &b, n + 1];
        let h = p.func(h.update(at.to_vec(), values, r));
        p.define("out", [x], h.at(&at, 0) + h.at(&at, 1) * h.at(&at, 2).cast(F64))
    };
    on_line(swap, (0, N as usize)).check();
}

#[test]
fn parameters() {
    let mut p = Pipeline::new("scaled");
    let f = p.input(Input::strided("f", &[F64], 1));
    let gamma = p.param("gamma", F64);
    let x = Var::new("x");
    let out = p.define("out", [x], (f.of(x) * &gamma).pow(&gamma));
    let case = Case::new(p, &out, &[(2, 7)], &["f", "gamma"]);
    case.bind("f", &[(0, 12)], &mut Rng::new(1)).param("gamma", 1.7).check();
}

#[test]
fn nothing_leaks_from_arms_that_are_not_taken() {
    let (mut p, f, _, x) = line();
    let value = f.of(x) - f.of(x);
    let bad = value.log() + value.pow(-1.0) + value.sqrt();
    let out = p.define("out", [x], Expr::select(f.of(x).lt(100.0), f.of(x) * 2.0, bad));
    let case = Case::new(p, &out, &[(0, 5)], &["f"]);
    let case = case.bind("f", &[(0, 5)], &mut Rng::new(1)).bind("g", &[(0, 5)], &mut Rng::new(1));
    case.check();
}

/// The gradient of a scalar is a pipeline like any other: its adjoints are the products with the Hessian, which is symmetric.
#[test]
fn second_derivatives() {
    let mut p = Pipeline::new("smooth");
    let f = p.input(Input::strided("f", &[F64], 1));
    let x = Var::new("x");
    let r = RDom::new([("r", 0, N - 1)]);
    let blurred = p.define("blurred", [x], f.of(x) * 0.5 + f.of(x + 1) * f.of(x));
    let e = p.sum("e", &r, (blurred.of(r.var(0)).sin() + f.of(r.var(0))).pow(2.0));
    let e = p.define("energy", [], e);
    p.output(&e);
    let g = sumsq_codegen::gradient::propagate_adjoints(&mut p, &[], &["f"]).unwrap();
    let gradient = g.of("f").unwrap().clone();
    Case::new(p, &gradient, &[(0, N as usize)], &["f"])
        .bind("f", &[(0, N as usize)], &mut Rng::new(2))
        .check();
}

#[test]
fn second_derivatives_of_random_pipelines() {
    for seed in 1..5 {
        Case::drawn(seed).check_symmetric();
    }
}

/// Of as many random pipelines one has its Hessian tested, which is a pipeline many times as long.
const HESSIANS: u64 = 8;

/// `SUMSQ_FUZZ_CASES` of them, from seed `SUMSQ_FUZZ_SEED` on. One that fails is made smaller.
#[test]
fn random_pipelines() {
    let (first, cases) = (setting("SUMSQ_FUZZ_SEED", 1), setting("SUMSQ_FUZZ_CASES", 4));
    let mut wrong = vec![];
    for seed in first..first + cases {
        let case = Case::drawn(seed);
        let code = |case: &Case| case.check_some_code(seed);
        let checks: [Check; 3] = [&|case| drop(case.check_values()), &code, &Case::check_symmetric];
        let own = &checks[..if seed % HESSIANS == 0 { 3 } else { 2 }];
        if let Some((check, message)) = own.iter().find_map(|c| Some((*c, failure(&case, *c)?))) {
            println!("seed {seed}: {message}\n{}", case.text());
            let (small, message) = shrink(&case, message, check);
            wrong.push(format!(
                "seed {seed}: {message}\nover {:?}, by {:?}\n{}",
                small.domain,
                small.wrt,
                small.text()
            ));
            println!("  SMALLER: {}", wrong[wrong.len() - 1]);
        }
    }
    assert!(wrong.is_empty(), "{} of {cases} gradients are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
