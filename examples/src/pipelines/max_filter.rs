//! The maximum in a disc. Columns of 2, 4, 8, 16 and 32 pixels are computed once for all; the disc is a row of columns, each of which is the
//! maximum of two of those that overlap.

use super::application::{Application, Planes, Slot, as_first};
use super::edge;
use super::setup::{Parameter, Setup};
use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::{Constraint, Expr, Input, Pipeline, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "max_filter",
    about: "maximum in a disc around each pixel",
    slots: &[Slot::new("input", "the picture", Planes::Colour)],
    // Radii whose longest column is made of columns of 32, which the schedules name.
    parameters: &[Parameter::whole("radius", "of the disc, in pixels", 26, 15, 30)],
    build,
    extents: as_first,
    schedules: schedules!("max_filter"),
};

/// Columns in a part of the disc.
const PART: usize = 4;

/// Half the height of the disc's column at distance `dx` from its centre.
fn half_height(radius: i32, dx: i32) -> i32 {
    let edge = f64::from(radius) + 0.25;
    (0..=radius).filter(|dy| f64::from(dx * dx + dy * dy) < edge * edge).count() as i32
}

/// The greatest of some values.
fn greatest(of: &[Expr]) -> Expr {
    of[1..].iter().fold(of[0].clone(), |most, value| most.max(value))
}

fn build(setup: &Setup) -> Pipeline {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let radius = setup.whole("radius");
    let mut p = Pipeline::new("max_filter");
    let input = p.input(Input::strided("input", &[F32], 3));
    let edge = edge(&mut p, "v0", &input);
    let mut columns = vec![edge];
    for t in 1..=(2 * half_height(radius, 0) + 1).ilog2() {
        let half = &columns[t as usize - 1];
        let both = half.of((x, y, c)).max(half.of((x, y + (1 << (t - 1)), c)));
        columns.push(p.define(format!("v{t}"), [x, y, c], both));
    }
    let column = |dx: i32| -> Expr {
        let h = half_height(radius, dx);
        let t = (2 * h + 1).ilog2();
        let of = &columns[t as usize];
        of.of((x + dx, y - h, c)).max(of.of((x + dx, y + (h + 1 - (1 << t)), c)))
    };
    // In parts, which a gradient stores: whether a column has the greatest value depends on all that its maximum is taken of.
    let columns: Vec<Expr> = (-radius..=radius).map(column).collect();
    let part = |(k, columns)| p.define(format!("part{k}"), [x, y, c], greatest(columns)).of((x, y, c));
    let parts: Vec<Expr> = columns.chunks(PART).enumerate().map(part).collect();
    let disc = greatest(&parts);
    let output = p.define("output", [x, y, c], disc);
    p.output_strided(&output, Constraint::defaults(3));
    p
}
