//! Smoothing that keeps edges, by a bilateral grid (Chen, Paris, Durand 2007): pixels are gathered in cells of 8 x 8 pixels and a range of
//! brightness, the cells are blurred, and each pixel reads its cell again.

use super::application::{Application, Planes, Slot, as_first};
use super::setup::{Parameter, Setup};
use sumsq::codegen::ScalarType::{F32, I32};
use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, RDom, Source, Var, boundary};

pub(super) const APPLICATION: Application = Application {
    name: "bilateral_grid",
    about: "smoothing that keeps edges, channel by channel",
    slots: &[Slot::new("input", "the picture", Planes::Each)],
    parameters: &[Parameter::real("r_sigma", "difference in brightness that is an edge", 0.1, 0.02, 1.0)],
    build,
    extents: as_first,
    schedules: schedules!("bilateral_grid"),
};

/// Width and height of a cell, in pixels.
const CELL: i32 = 8;

fn build(_: &Setup) -> Pipeline {
    let [x, y, z, c] = Var::all(["x", "y", "z", "c"]);
    let mut p = Pipeline::new("bilateral_grid");
    let input = p.input(Input::strided("input", &[F32], 2));
    let per_bin = 1.0f32 / p.param("r_sigma", F32);
    let edge = p.func(boundary::repeat_edge("edge", &input, &input.domain()));

    let cell = RDom::new([("rx", 0, CELL), ("ry", 0, CELL)]);
    let at = |v: Var, r: Expr| v * CELL + r - CELL / 2;
    let value = edge.of((at(x, cell.var(0)), at(y, cell.var(1)))).clamp(0.0, 1.0);
    let bin = (&value * &per_bin + 0.5f32).cast(I32);
    let grid = p.define("grid", [x, y, z, c], 0.0f32);
    let grid = p.add_to(&grid, (x, y, bin, c), Expr::select(Expr::from(c).eq_(0), value, 1.0f32), &cell);

    let blur = |p: &mut Pipeline, name: &str, of: &Func, d: usize| {
        let tap = |k: i32| {
            let mut at = [x, y, z, c].map(Expr::from);
            at[d] = &at[d] + k;
            of.at(&at, 0)
        };
        p.define(name, [x, y, z, c], tap(-2) + tap(-1) * 4.0 + tap(0) * 6.0 + tap(1) * 4.0 + tap(2))
    };
    let blurz = blur(&mut p, "blurz", &grid, 2);
    let blurx = blur(&mut p, "blurx", &blurz, 0);
    let blury = blur(&mut p, "blury", &blurx, 1);

    let depth = input.of((x, y)).clamp(0.0, 1.0) * per_bin;
    let bin = depth.cast(I32);
    let share = |v: Var| (v % CELL).cast(F32) / CELL as f32;
    let weights = [share(x), share(y), depth - bin.cast(F32)];
    let (left, top) = (x / CELL, y / CELL);
    let sampled = |c: i32| {
        let corner = |dx: i32, dy: i32, dz: i32| blury.of((&left + dx, &top + dy, &bin + dz, c));
        let along_x = |dy: i32, dz: i32| Expr::lerp(corner(0, dy, dz), corner(1, dy, dz), &weights[0]);
        let along_y = |dz: i32| Expr::lerp(along_x(0, dz), along_x(1, dz), &weights[1]);
        Expr::lerp(along_y(0), along_y(1), &weights[2])
    };
    let output = p.define("output", [x, y], sampled(0) / sampled(1));
    p.output_strided(&output, Constraint::defaults(2));
    p
}
