//! Depth of field from two views: depth by the best match of both, filled in by a pyramid; then each pixel gathers those around it that a
//! lens would spread over it.

use super::application::{Application, Planes, Slot, as_first};
use super::setup::{Parameter, Setup};
use super::{edge, halved};
use sumsq::codegen::ScalarType::{F32, I32, U32};
use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, RDom, Source, Var, boundary};

pub(super) const APPLICATION: Application = Application {
    name: "lens_blur",
    about: "blurs what is out of focus, by two views of it",
    slots: &[
        Slot::new("left", "the left view: the one that is blurred", Planes::Colour),
        Slot::new("right", "the right view, of the same size", Planes::Colour),
    ],
    parameters: &[
        Parameter::whole("slices", "depths that are tried, two pixels of shift apart", 32, 2, 128),
        Parameter::whole("focus", "depth that is sharp", 13, 0, 127),
        Parameter::real("scale", "radius of the blur in pixels, for each depth out of focus", 0.5, 0.0, 4.0),
        Parameter::whole("samples", "pixels that each pixel gathers", 32, 1, 1024),
    ],
    build,
    extents: |setup, inputs| match inputs {
        [left, right] if left == right => as_first(setup, inputs),
        _ => Err("the views differ in size".to_string()),
    },
    schedules: schedules!("lens_blur"),
};

/// Levels of the pyramid, which the schedules name one by one.
const LEVELS: i32 = 8;

/// Half of `f` in x and y, whose other dimensions are z and c.
fn down(p: &mut Pipeline, level: i32, f: &Func) -> Func {
    let [x, y, z, c] = Var::all(["x", "y", "z", "c"]);
    let rows = p.define(format!("px{level}"), [x, y, z, c], halved(&|k| f.of((x * 2 + k, y, z, c))));
    p.define(format!("half{level}"), [x, y, z, c], halved(&|k| rows.of((x, y * 2 + k, z, c))))
}

/// Twice `f` in x and y.
fn up(p: &mut Pipeline, level: i32, f: &Func) -> Expr {
    let [x, y, z, c] = Var::all(["x", "y", "z", "c"]);
    let other = |v: Var| v / 2 - 1 + (v % 2) * 2;
    let across = f.of((other(x), y, z, c)) * 0.25 + f.of((x / 2, y, z, c)) * 0.75;
    let across = p.define(format!("qx{level}"), [x, y, z, c], across);
    across.of((x, other(y), z, c)) * 0.25 + across.of((x, y / 2, z, c)) * 0.75
}

/// A number in [0, 1) that looks like noise, for sample `s` of a pixel.
fn random(seed: i64, s: &Expr) -> Expr {
    let whole = |v: i64| Expr::int(U32, v);
    let mix = |t: Expr| (&t * whole(0x2545_F490) + whole(0x9E37_79B1)) * &t + whole(0x7F4A_7C15);
    let [x, y] = Var::all(["x", "y"]).map(|v| Expr::from(v).cast(U32));
    let h = mix(mix(mix(x + whole(seed)) + y) + s.cast(U32));
    h.shr(8).cast(F32) / (1 << 24) as f32
}

fn build(setup: &Setup) -> Pipeline {
    let [x, y, z, c] = Var::all(["x", "y", "z", "c"]);
    let mut p = Pipeline::new("lens_blur");
    let sample = setup.sample();
    let white = sample.greatest() as f32;
    let left = p.input(Input::strided("left", &[sample], 3));
    let right = p.input(Input::strided("right", &[sample], 3));
    let slices = p.param_in("slices", I32, 2, 128);
    let focus = p.param_in("focus", I32, 0, 127);
    let scale = p.param("scale", F32);
    let samples = p.param_in("samples", I32, 1, 1024);
    let l = edge(&mut p, "l", &left);
    let r = edge(&mut p, "r", &right);

    let depth = depth(&mut p, &l, &r, white / 255.0, &slices, [left.extent(0), left.extent(1)]);

    let reach = ((&slices - &focus).max(&focus).cast(F32) * &scale).cast(I32);
    let radius = (depth.of((x, y)) - focus).abs().cast(F32) * scale;
    let radius = p.define("radius", [x, y], radius);
    let around = |name: &str| RDom::new([(name.to_string(), 0 - &reach, &reach * 2 + 1)]);
    let (rows, columns) = (around("wy"), around("wx"));
    let worst = p.maximum("worst_y", &rows, radius.of((x, y + rows.var(0))));
    let worst = p.define("worst_rows", [x, y], worst);
    let worst = p.maximum("worst_x", &columns, worst.of((x + columns.var(0), y)));
    let worst = p.define("worst", [x, y], worst);
    let place = |seed: i64| {
        let v = (random(seed, &z.expr()) - 0.5) * 2.0 * worst.of((x, y));
        v.cast(I32).clamp(0 - &reach, &reach)
    };
    let places = p.define_tuple("places", [x, y, z], vec![place(0x3C6E_F372), place(0xDAA6_6D2B)]);
    let at = |s: &Expr, k: usize| places.at(&[x.expr(), y.expr(), s.clone()], k);

    let opaque = Expr::select(Expr::from(c).eq_(3), 1.0f32, l.of((x, y, c)).cast(F32) * (1.0 / white));
    let opaque = p.define("opaque", [x, y, c], opaque);
    let (u, v) = (at(&z.expr(), 0), at(&z.expr(), 1));
    let distance = (&u * &u + &v * &v).cast(F32);
    let covers = |f: Expr| distance.lt(&f * &f);
    let (there, here) = (depth.of((x + &u, y + &v)), depth.of((x, y)));
    let seen = covers(radius.of((x, y))).or(there.lt(here)).and(covers(radius.of((x + &u, y + &v))));
    let weight = p.define("weight", [x, y, z], Expr::select(seen, 1.0f32, 0.0f32));

    let all = RDom::new([("s", Expr::from(0), samples)]);
    let s = all.var(0);
    let total = p.define("total", [x, y, c], opaque.of((x, y, c)));
    let value = weight.of((x, y, &s)) * opaque.of((x + at(&s, 0), y + at(&s, 1), c));
    let total = p.add_to(&total, (x, y, c), value, &all);
    let output = p.define("output", [x, y, c], total.of((x, y, c)) / total.of((x, y, 3)));
    p.output_strided(&output, Constraint::defaults(3));
    p
}

/// The depth of each pixel of the left view, of `size` pixels; `unit` is a step of 8 bits, in which samples are compared.
fn depth(p: &mut Pipeline, l: &Func, r: &Func, unit: f32, slices: &Expr, size: [Expr; 2]) -> Func {
    let [x, y, z, c] = Var::all(["x", "y", "z", "c"]);
    let match_at = |shift: i32| l.of((x, y, c)).absd(r.of((x + z * 2 + shift, y, c)));
    let apart = p.define("apart", [x, y, z, c], match_at(0).min(match_at(1)));
    let square = |k: i32| {
        let v = apart.of((x, y, z, k)).cast(F32);
        let v = if unit == 1.0 { v } else { v / unit };
        &v * &v
    };
    let cost = p.define("cost", [x, y, z], square(0) + square(1) + square(2));
    let over = |name: &str| RDom::new([(name.to_string(), Expr::from(0), slices.clone())]);
    let (first, second) = (over("z1"), over("z2"));
    let there = |r: &RDom| cost.of((x, y, r.var(0)));
    let squares = p.sum("squares", &first, there(&first) * there(&first));
    let count = slices.cast(F32);
    let mean = p.sum("mean", &second, there(&second) / &count);
    let confidence = p.define("confidence", [x, y], squares / count - &mean * &mean);

    let sure = confidence.of((x, y));
    let pair = Expr::select(Expr::from(c).eq_(0), cost.of((x, y, z)) * &sure, sure);
    let mut push = vec![p.define("p0", [x, y, z, c], pair)];
    let one = Expr::from(1);
    for level in 1..LEVELS {
        let half = down(p, level, &push[level as usize - 1]);
        let [w, h] = size.each_ref().map(|n| (n / (1 << level)).max(&one));
        let domain = [Some((0.into(), w)), Some((0.into(), h)), None, None];
        let edge = boundary::repeat_edge(format!("p{level}"), &half, &domain);
        push.push(p.func(edge));
    }
    let mut pull = push[LEVELS as usize - 1].clone();
    for level in (0..LEVELS - 1).rev() {
        let value = up(p, level, &pull) * 0.5 + push[level as usize].of((x, y, z, c)) * 0.5;
        pull = p.define(format!("q{level}"), [x, y, z, c], value);
    }
    let filtered = p.define("filtered", [x, y, z], pull.of((x, y, z, 0)) / pull.of((x, y, z, 1)));
    let all = over("z3");
    let best = p.argmin("best", &all, filtered.of((x, y, all.var(0))));
    p.define("depth", [x, y], best[0].clone())
}
