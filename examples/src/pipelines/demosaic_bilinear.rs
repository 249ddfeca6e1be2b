//! Demosaicking, each channel by itself: a missing value is the mean of its channel's nearest ones.

use super::application::Application;
use super::demosaic::{MOSAIC, by_green, by_pixel, coloured, mosaic};
use super::setup::Setup;
use sumsq::codegen::{Constraint, Expr, Pipeline, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "demosaic_bilinear",
    about: "a sensor's mosaic of colours to a picture: means of the nearest values",
    slots: &[MOSAIC],
    parameters: &[],
    build,
    extents: coloured,
    schedules: schedules!("demosaic_bilinear"),
};

fn build(_: &Setup) -> Pipeline {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let mut p = Pipeline::new("demosaic_bilinear");
    let near = mosaic(&mut p);
    let pair = |dx: i32, dy: i32| (near.of((x + dx, y + dy)) + near.of((x - dx, y - dy))) * 0.5;
    let own = near.of((x, y));
    let (beside, below) = (pair(1, 0), pair(0, 1));
    let cross = (&beside + &below) * 0.5;
    let diagonal = (pair(1, 1) + pair(1, -1)) * 0.5;
    let red = by_pixel(own.clone(), beside.clone(), below.clone(), diagonal.clone());
    let green = by_green(own.clone(), cross);
    let blue = by_pixel(diagonal, below, beside, own);
    let output = p.define("output", [x, y, c], Expr::mux(c, [red, green, blue]));
    p.output_strided(&output, Constraint::defaults(3));
    p
}
