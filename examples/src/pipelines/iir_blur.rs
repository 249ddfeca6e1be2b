//! A recursive blur: each column is filtered down and up again, then each row, by way of a transpose.

use super::application::{Application, Planes, Slot, as_first};
use super::setup::{Parameter, Setup};
use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, RDom, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "iir_blur",
    about: "recursive blur, down and up each column, then each row",
    slots: &[Slot::new("input", "the picture", Planes::Colour)],
    parameters: &[Parameter::real(
        "alpha",
        "share of the pixel itself, the rest is of those before",
        0.1,
        0.0,
        1.0,
    )],
    build,
    extents: as_first,
    schedules: schedules!("iir_blur"),
};

fn build(_: &Setup) -> Pipeline {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let mut p = Pipeline::new("iir_blur");
    let input = p.input(Input::strided("input", &[F32], 3));
    let alpha = p.param("alpha", F32);
    let columns = pass(&mut p, "columns", &input, input.extent(1), &alpha);
    let turned = p.define("turned", [x, y, c], columns.of((y, x, c)));
    let rows = pass(&mut p, "rows", &turned, input.extent(0), &alpha);
    let output = p.define("output", [x, y, c], rows.of((y, x, c)));
    p.output_strided(&output, Constraint::defaults(3));
    p
}

/// Filters the columns of `of`, which are `n` high, down and then up.
fn pass(p: &mut Pipeline, name: &str, of: &impl Source, n: Expr, alpha: &Expr) -> Func {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let rest = 1.0f32 - alpha;
    let f = p.define(name, [x, y, c], of.of((x, y, c)));
    let after_first = RDom::new([(format!("{name}_down"), 1, n.clone() - 1)]);
    let row = after_first.var(0);
    let value = f.of((x, &row - 1, c)) * &rest + f.of((x, &row, c)) * alpha;
    let f = p.update(&f, (x, &row, c), value, &after_first);
    let before_last = RDom::new([(format!("{name}_up"), 0, n.clone() - 1)]);
    let row = n - 2 - before_last.var(0);
    let value = f.of((x, &row + 1, c)) * &rest + f.of((x, &row, c)) * alpha;
    p.update(&f, (x, &row, c), value, &before_last)
}
