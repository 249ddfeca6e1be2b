//! Corners after Harris and Stephens 1988: det - 0.04 trace^2 of the structure tensor of the luminance.

use super::application::{Application, Planes, Slot, flat};
use super::luminance;
use super::setup::Setup;
use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "harris",
    about: "response of the Harris corner detector, one channel",
    slots: &[Slot::new("input", "the picture", Planes::Colour)],
    parameters: &[],
    build,
    extents: flat,
    schedules: schedules!("harris", narrow),
};

fn build(_: &Setup) -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("harris");
    let input = p.input(Input::strided("input", &[F32], 3));
    let gray = p.define("gray", [x, y], luminance(|c| input.of((x, y, c))));
    // Weights of a difference along one axis, smoothed along the other: 1, 2, 1 of twelve.
    let slope = |across: &dyn Fn(i32, i32) -> Expr| {
        let weighted = |d: i32, w: f32| (across(d, 1) - across(d, -1)) * (w / 12.0);
        weighted(-1, 1.0) + weighted(0, 2.0) + weighted(1, 1.0)
    };
    let iy = p.define("iy", [x, y], slope(&|dx, dy| gray.of((x + dx, y + dy))));
    let ix = p.define("ix", [x, y], slope(&|dy, dx| gray.of((x + dx, y + dy))));
    let mut summed = |name: &str, a: &Func, b: &Func| {
        let product = p.define(format!("{name}_"), [x, y], a.of((x, y)) * b.of((x, y)));
        let at = |k: i32| product.of((x + (k % 3 - 1), y + (k / 3 - 1)));
        p.define(name, [x, y], (1..9).fold(at(0), |sum, k| sum + at(k)))
    };
    let (sxx, syy, sxy) = (summed("sxx", &ix, &ix), summed("syy", &iy, &iy), summed("sxy", &ix, &iy));
    let at = |f: &Func| f.of((x, y));
    let det = at(&sxx) * at(&syy) - at(&sxy) * at(&sxy);
    let trace = at(&sxx) + at(&syy);
    let output = p.define("output", [x, y], det - &trace * &trace * 0.04);
    p.output_strided(&output, Constraint::defaults(2));
    p
}
