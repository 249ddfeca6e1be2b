//! Pictures of another size, by a cubic or a Lanczos kernel (Keys 1981; Duchon 1979), one axis after the other.

use super::application::{Application, Planes, Slot};
use super::setup::{LAYOUT, Parameter, Setup};
use std::f64::consts::PI;
use sumsq::codegen::ScalarType::{F32, I32};
use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, RDom, ScalarType, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "resize",
    about: "pictures of another size",
    slots: &[Slot::new("input", "the picture", Planes::All)],
    parameters: &[
        Parameter::real("scale", "of width and height", 0.5, 0.01, 100.0),
        Parameter::word("kernel", "of the interpolation", &["cubic", "lanczos"]),
        Parameter::word(
            "way",
            "down: the kernel grows with what becomes a pixel; up: it does not",
            &["down", "up"],
        ),
        Parameter::word(
            "type",
            "of samples: that of the picture, or floats from 0 to 1",
            &["sample", "float"],
        ),
        Parameter::word(
            LAYOUT,
            "of the code's arrays: planes, or for its callers in C and Rust all channels of a pixel side by side",
            &["planar", "rgb", "rgba"],
        ),
    ],
    build,
    extents: sizes,
    schedules: schedules!("resize", packed),
};

/// The order of pixels in memory.
fn layout(setup: &Setup) -> Vec<Constraint> {
    let packed = |channels: i32| {
        let new = Constraint::new;
        vec![new().stride(channels), new(), new().stride(1).min(0).extent(channels)]
    };
    match setup.word(LAYOUT) {
        "rgb" => packed(3),
        "rgba" => packed(4),
        _ => Constraint::defaults(3),
    }
}

/// Pixels that a kernel reads where the picture keeps its size.
fn taps(setup: &Setup) -> i32 {
    if setup.word("kernel") == "lanczos" { 6 } else { 4 }
}

fn is_up(setup: &Setup) -> bool {
    setup.word("way") == "up"
}

fn sizes(setup: &Setup, inputs: &[Vec<i32>]) -> Result<Vec<i32>, String> {
    let [input] = inputs else { return Err("expected one picture".into()) };
    let scale = setup.real("scale");
    let least = if is_up(setup) { f64::from(taps(setup)) } else { (f64::from(taps(setup)) / scale).ceil() };
    if inputs[0][..2].iter().any(|&n| f64::from(n) < least) {
        return Err(format!("the picture is smaller than the kernel, which reads {least} pixels"));
    }
    let scaled = |n: i32| ((f64::from(n) * scale) as i32).max(1);
    Ok([vec![scaled(input[0]), scaled(input[1])], input[2..].to_vec()].concat())
}

/// The kernel at distance `t`.
fn kernel(setup: &Setup, t: Expr) -> Expr {
    let t = t.abs();
    if setup.word("kernel") == "lanczos" {
        let sinc = |t: Expr| t.sin() / t;
        let inside = sinc(&t * PI as f32) * sinc(&t * (PI / 3.0) as f32);
        let value = Expr::select(t.gt(3.0), 0.0f32, inside);
        return Expr::select(t.eq_(0.0), 1.0f32, value);
    }
    let square = &t * &t;
    let near = &square * &t * 1.5 - &square * 2.5 + 1.0;
    let far = &square * &t * -0.5 + square * 2.5 - &t * 4.0 + 2.0;
    Expr::select(t.lt(1.0), near, Expr::select(t.lt(2.0), far, 0.0f32))
}

/// One axis: where the kernel of output x begins, and its weights.
struct Axis {
    first: Func,
    weights: Func,
    taps: Expr,
}

fn axis(p: &mut Pipeline, setup: &Setup, name: &str, n: Expr, scale: &Expr) -> Axis {
    let [x, k] = Var::all(["x", "k"]);
    let width = taps(setup);
    let step = 1.0f32 / scale;
    let (shrink, grown) = match is_up(setup) {
        true => (Expr::from(1.0f32), Expr::from(1.0f32)),
        false => (scale.clone(), step.clone()),
    };
    let radius = &grown * (0.5 * width as f32);
    let count = if is_up(setup) { Expr::from(width) } else { (&grown * width as f32).ceil().cast(I32) };
    let source = |x: Expr| (x.cast(F32) + 0.5f32) * &step - 0.5f32;
    let begin = (source(x.into()) - radius).ceil().cast(I32).clamp(0, n - &count);
    let first = p.define(format!("{name}_first"), [x], begin);
    let place = (Expr::from(k) + first.of(x)).cast(F32) - source(x.into());
    let raw = p.define(format!("{name}_raw"), [x, k], kernel(setup, place * shrink));
    let r = RDom::new([(format!("{name}_k"), Expr::from(0), count.clone())]);
    let sum = p.define(format!("{name}_sum"), [x], 0.0f32);
    let sum = p.add_to(&sum, x, raw.of((x, r.var(0))), &r);
    let weights = p.define(format!("{name}_weights"), [x, k], raw.of((x, k)) / sum.of(x));
    Axis { first, weights, taps: count }
}

/// `of` by its coordinate along an axis, weighted and summed for each `v` there.
fn filtered(p: &mut Pipeline, name: &str, v: Var, axis: &Axis, of: &dyn Fn(Expr) -> Expr) -> Func {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let r = RDom::new([(format!("{name}_k"), Expr::from(0), axis.taps.clone())]);
    let f = p.define(name, [x, y, c], 0.0f32);
    let value = of(axis.first.of(v) + r.var(0)).cast(F32);
    p.add_to(&f, (x, y, c), axis.weights.of((v, r.var(0))) * value, &r)
}

fn build(setup: &Setup) -> Pipeline {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let mut p = Pipeline::new("resize");
    let ty = if setup.word("type") == "float" { F32 } else { setup.sample() };
    let input = layout(setup).into_iter().enumerate();
    let input = p.input(input.fold(Input::strided("input", &[ty], 3), |input, (d, c)| input.constrain(d, c)));
    let scale = p.param("scale", F32);
    let across = axis(&mut p, setup, "x", input.extent(0), &scale);
    let along = axis(&mut p, setup, "y", input.extent(1), &scale);
    // The axis first along which more is left out later: what lies between is smaller.
    let scaled = if is_up(setup) {
        let first = filtered(&mut p, "first", x, &across, &|x| input.of((x, y, c)));
        filtered(&mut p, "second", y, &along, &|y| first.of((x, y, c)))
    } else {
        let first = filtered(&mut p, "first", y, &along, &|y| input.of((x, y, c)));
        filtered(&mut p, "second", x, &across, &|x| first.of((x, y, c)))
    };
    let value = scaled.of((x, y, c));
    let value = match ty {
        ScalarType::F32 => value.clamp(0.0, 1.0),
        ScalarType::U8 => value.clamp(0.0, 255.0).cast(ty),
        _ => value.clamp(0.0, 65535.0).cast(ty),
    };
    let output = p.define("output", [x, y, c], value);
    p.output_strided(&output, layout(setup));
    p
}
