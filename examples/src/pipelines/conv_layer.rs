//! A layer of a convolutional network: 3 x 3 pixels, all channels, then a threshold at zero. Channels are the fastest dimension.

use super::application::{Application, Planes, Slot};
use super::setup::Setup;
use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::{Constraint, Expr, Input, Pipeline, RDom, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "conv_layer",
    about: "layer of a network: 3 x 3 convolution of all channels, bias, threshold",
    slots: &[
        Slot::new(
            "input",
            "images with a border of 2, in an archive of shape (N, H + 2, W + 2, CI)",
            Planes::Array,
        ),
        Slot::new("filter", "weights, of shape (CI, 3, 3, CO)", Planes::Array),
        Slot::new("bias", "of shape (CO)", Planes::Array),
    ],
    parameters: &[],
    build,
    extents: sizes,
    schedules: schedules!("conv_layer", narrow),
};

fn sizes(_: &Setup, inputs: &[Vec<i32>]) -> Result<Vec<i32>, String> {
    match inputs {
        [i, f, b] if i[1] > 2 && i[2] > 2 && f[1..3] == [3, 3] && f[3] == i[0] && b[0] == f[0] => {
            Ok(vec![f[0], i[1] - 2, i[2] - 2, i[3]])
        }
        _ => Err(format!("sizes of input, filter and bias do not fit each other: {inputs:?}, x first")),
    }
}

fn build(_: &Setup) -> Pipeline {
    let [c, x, y, n] = Var::all(["c", "x", "y", "n"]);
    let mut p = Pipeline::new("conv_layer");
    let input = p.input(Input::strided("input", &[F32], 4));
    let filter = p.input(Input::strided("filter", &[F32], 4));
    let bias = p.input(Input::strided("bias", &[F32], 1));
    let r = RDom::new([
        ("ci", Expr::from(0), input.extent(0)),
        ("i", 0.into(), 3.into()),
        ("j", 0.into(), 3.into()),
    ]);
    let (ci, i, j) = (r.var(0), r.var(1), r.var(2));
    let sum = p.define("sum", [c, x, y, n], bias.of(c));
    let term = filter.of((c, &i, &j, &ci)) * input.of((&ci, x + &i, y + &j, n));
    let sum = p.add_to(&sum, (c, x, y, n), term, &r);
    let output = p.define("output", [c, x, y, n], sum.of((c, x, y, n)).max(0.0));
    p.output_strided(&output, Constraint::defaults(4));
    p
}
