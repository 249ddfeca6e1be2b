//! Non-local means (Buades, Coll, Morel 2005): each pixel becomes a mean of those around it, weighted by how alike the patches around both are.

use super::application::{Application, Planes, Slot, as_first};
use super::edge;
use super::setup::{Parameter, Setup};
use sumsq::codegen::ScalarType::{F32, I32};
use sumsq::codegen::{Constraint, Expr, Input, Pipeline, RDom, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "nl_means",
    about: "denoising by the mean of pixels with similar patches around them",
    slots: &[Slot::new("input", "the picture", Planes::Colour)],
    parameters: &[
        Parameter::whole("patch", "width of the patches that are compared, in pixels", 7, 1, 31),
        Parameter::whole("search", "width of the region that is searched, in pixels", 7, 1, 31),
        Parameter::real("sigma", "difference of patches that halves a weight or so", 0.12, 1e-3, 10.0),
    ],
    build,
    extents: as_first,
    schedules: schedules!("nl_means"),
};

fn build(_: &Setup) -> Pipeline {
    let [x, y, c, dx, dy] = Var::all(["x", "y", "c", "dx", "dy"]);
    let mut p = Pipeline::new("nl_means");
    let input = p.input(Input::strided("input", &[F32], 3));
    let patch = p.param_in("patch", I32, 1, 31);
    let search = p.param_in("search", I32, 1, 31);
    let sigma = p.param("sigma", F32);
    let edge = edge(&mut p, "edge", &input);

    let difference = |c: i32| edge.of((x, y, c)) - edge.of((x + dx, y + dy, c));
    let squares = (1..3).fold(difference(0) * difference(0), |sum, c| sum + difference(c) * difference(c));
    let apart = p.define("apart", [x, y, dx, dy], squares);
    let along = |name: &str| RDom::new([(name.to_string(), 0 - patch.clone() / 2, patch.clone())]);
    let (over_y, over_x) = (along("py"), along("px"));
    let tall = p.define("tall", [x, y, dx, dy], 0.0f32);
    let tall = p.add_to(&tall, (x, y, dx, dy), apart.of((x, y + over_y.var(0), dx, dy)), &over_y);
    let patches = p.define("patches", [x, y, dx, dy], 0.0f32);
    let patches = p.add_to(&patches, (x, y, dx, dy), tall.of((x + over_x.var(0), y, dx, dy)), &over_x);
    let area = (&patch * &patch).cast(F32);
    let scale = Expr::float(F32, -1.0) / (area * &sigma * &sigma);
    let weight = p.define("weight", [x, y, dx, dy], (patches.of((x, y, dx, dy)) * scale).exp());

    let first = 0 - search.clone() / 2;
    let region = RDom::new([("sx", first.clone(), search.clone()), ("sy", first, search)]);
    let (sx, sy) = (region.var(0), region.var(1));
    let value = edge.of((x + &sx, y + &sy, c));
    let value = Expr::select(Expr::from(c).eq_(3), 1.0f32, value);
    let sums = p.define("sums", [x, y, c], 0.0f32);
    let sums = p.add_to(&sums, (x, y, c), weight.of((x, y, &sx, &sy)) * value, &region);
    let mean = sums.of((x, y, c)) / sums.of((x, y, 3));
    let output = p.define("output", [x, y, c], mean.clamp(0.0, 1.0));
    p.output_strided(&output, Constraint::defaults(3));
    p
}
