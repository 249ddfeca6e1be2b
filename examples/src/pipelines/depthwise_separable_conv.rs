//! A layer of a small network in two steps: each channel is convolved with 3 x 3 weights of its own, then channels are mixed. Channels are the
//! fastest dimension.

use super::application::{Application, Planes, Slot};
use super::setup::{Parameter, Setup};
use sumsq::codegen::ScalarType::{F32, I64};
use sumsq::codegen::{Constraint, Expr, Input, Pipeline, RDom, Source, Var, boundary};

pub(super) const APPLICATION: Application = Application {
    name: "depthwise_separable_conv",
    about: "layer of a network: 3 x 3 convolution of each channel, then channels are mixed",
    slots: &[
        Slot::new("input", "images, in an archive of shape (N, H, W, CI)", Planes::Array),
        Slot::new("depthwise", "weights of the channels, of shape (3, 3, CI M, M)", Planes::Array),
        Slot::new("pointwise", "weights of the mixture, of shape (CI M, CO)", Planes::Array),
        Slot::new("bias", "of shape (CO)", Planes::Array),
    ],
    parameters: &[Parameter::whole(
        "multiplier",
        "channels M that each channel becomes before they are mixed",
        1,
        1,
        64,
    )],
    build,
    extents: sizes,
    schedules: schedules!("depthwise_separable_conv", narrow),
};

fn sizes(setup: &Setup, inputs: &[Vec<i32>]) -> Result<Vec<i32>, String> {
    match inputs {
        [_, d, ..] if d[0] != setup.whole("multiplier") => {
            Err(format!("depthwise has {} weights for each channel: say multiplier={}", d[0], d[0]))
        }
        [i, d, p, b] if d[1..] == [i[0] * d[0], 3, 3] && p[1] == d[1] && b[0] == p[0] => {
            Ok(vec![p[0], i[1], i[2], i[3]])
        }
        _ => Err(format!("sizes of input and weights do not fit each other: {inputs:?}, x first")),
    }
}

fn build(setup: &Setup) -> Pipeline {
    let [c, x, y, n] = Var::all(["c", "x", "y", "n"]);
    let mut p = Pipeline::new("depthwise_separable_conv");
    let input = p.input(Input::strided("input", &[F32], 4));
    // A constant: nothing is divided by it while the pipeline runs, and weights of channels lie beside each other.
    let each = Expr::from(setup.whole("multiplier"));
    let dense = Constraint::new().stride(each.cast(I64));
    let depthwise = p.input(Input::strided("depthwise", &[F32], 4).constrain(1, dense));
    let pointwise = p.input(Input::strided("pointwise", &[F32], 2));
    let bias = p.input(Input::strided("bias", &[F32], 1));
    // Tiles of one size may stick out of the channels.
    let mut domain = input.domain();
    domain[3] = None;
    let zero = Expr::float(F32, 0.0);
    let around = p.func(boundary::constant_exterior("around", &input, &domain, &[zero]));
    let mut channels = depthwise.domain();
    [0, 2, 3].into_iter().for_each(|d| channels[d] = None);
    let weights = p.func(boundary::repeat_edge("weights", &depthwise, &channels));

    let r =
        RDom::new([("m", Expr::from(0), each.clone()), ("i", 0.into(), 3.into()), ("j", 0.into(), 3.into())]);
    let (m, i, j) = (r.var(0), r.var(1), r.var(2));
    let apart = p.define("apart", [c, x, y, n], 0.0f32);
    let value = around.of((Expr::from(c) / each, x + &i - 1, y + &j - 1, n));
    let apart = p.add_to(&apart, (c, x, y, n), weights.of((&m, c, &i, &j)) * value, &r);

    let all = RDom::new([("e", Expr::from(0), pointwise.extent(1))]);
    let e = all.var(0);
    let mixed = p.define("mixed", [c, x, y, n], bias.of(c));
    let mixed = p.add_to(&mixed, (c, x, y, n), pointwise.of((c, &e)) * apart.of((&e, x, y, n)), &all);
    let output = p.define("output", [c, x, y, n], mixed.of((c, x, y, n)).max(0.0));
    p.output_strided(&output, Constraint::defaults(4));
    p
}
