//! Sharpening: the luminance less a Gaussian of it is added to the luminance, and colours are scaled alike.

use super::application::{Application, Planes, Slot, as_first};
use super::luminance;
use super::setup::{Parameter, Setup};
use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::{Constraint, Input, Pipeline, Source, Var, boundary};

pub(super) const APPLICATION: Application = Application {
    name: "unsharp",
    about: "unsharp masking of the luminance",
    slots: &[Slot::new("input", "the picture", Planes::Colour)],
    parameters: &[Parameter::real("sigma", "width of the Gaussian, in pixels", 1.5, 0.1, 10.0)],
    build,
    extents: as_first,
    schedules: schedules!("unsharp", narrow),
};

fn build(setup: &Setup) -> Pipeline {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let mut p = Pipeline::new("unsharp");
    let input = p.input(Input::strided("input", &[F32], 3));
    let edge = p.func(boundary::repeat_edge("edge", &input, &input.domain()));
    let gray = p.define("gray", [x, y], luminance(|c| edge.of((x, y, c))));
    let sigma = setup.real("sigma");
    let k = |i: i32| {
        let i = f64::from(i);
        ((-i * i / (2.0 * sigma * sigma)).exp() / ((2.0 * std::f64::consts::PI).sqrt() * sigma)) as f32
    };
    let taps = |f: &dyn Fn(i32) -> sumsq::codegen::Expr| {
        (1..4).fold(f(0) * k(0), |sum, i| sum + (f(-i) + f(i)) * k(i))
    };
    let down = p.define("down", [x, y], taps(&|i| gray.of((x, y + i))));
    let smooth = p.define("smooth", [x, y], taps(&|i| down.of((x + i, y))));
    let sharp = p.define("sharp", [x, y], gray.of((x, y)) * 2 - smooth.of((x, y)));
    let ratio = p.define("ratio", [x, y], sharp.of((x, y)) / gray.of((x, y)));
    let output = p.define("output", [x, y, c], ratio.of((x, y)) * input.of((x, y, c)));
    p.output_strided(&output, Constraint::defaults(3));
    p
}
