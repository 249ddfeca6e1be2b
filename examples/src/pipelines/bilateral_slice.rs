//! The layer of Gharbi, Chen, Barron, Hasinoff and Durand 2017 (HDRnet): a coarse grid holds an affine map of colours for each place and brightness; each
//! pixel takes the map at its place and at the brightness that its guide says, trilinearly, and applies it to its colours.

use super::application::{Application, Planes, Slot};
use super::setup::{FLOATS, Parameter, Setup};
use super::tensor;
use sumsq::codegen::ScalarType::I32;
use sumsq::codegen::{Constraint, Expr, Pipeline, RDom, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "bilateral_slice",
    about: "layer of a network: affine maps of colours, sliced from a grid",
    slots: &[
        Slot::new(
            "grid",
            "maps, of shape (N, CO (CI + 1), D, H / cell, W / cell): for each output the factors of the inputs, then the offset",
            Planes::Array,
        ),
        Slot::new("guide", "depth in the grid, from 0 to 1, of shape (N, H, W)", Planes::Array),
        Slot::new("input", "images, of shape (N, CI, H, W)", Planes::Array),
    ],
    parameters: &[
        Parameter::whole("cell", "width and height of a cell of the grid, in pixels", 16, 1, 4096),
        Parameter::whole("channels", "of input (CI)", 3, 1, 64),
        FLOATS,
    ],
    build,
    extents: sizes,
    schedules: schedules!("bilateral_slice", gradient),
};

fn sizes(setup: &Setup, inputs: &[Vec<i32>]) -> Result<Vec<i32>, String> {
    let (cell, channels) = (setup.whole("cell"), setup.whole("channels"));
    let cells = |n: i32| (n + cell - 1) / cell;
    match inputs {
        [grid, guide, input]
            if guide[..2] == input[..2]
                && guide[2] == input[3]
                && input[2] == channels
                && grid[..2] == [cells(input[0]), cells(input[1])]
                && grid[3] % (channels + 1) == 0
                && grid[4] == input[3] =>
        {
            Ok(vec![input[0], input[1], grid[3] / (channels + 1), input[3]])
        }
        _ => Err(format!(
            "sizes of grid, guide and input do not fit each other, cells of {cell} pixels and {channels} channels: {inputs:?}, x first"
        )),
    }
}

fn build(setup: &Setup) -> Pipeline {
    let [x, y, z, c, n] = Var::all(["x", "y", "z", "c", "n"]);
    let (cell, channels, ty) = (setup.whole("cell"), setup.whole("channels"), setup.floats());
    let mut p = Pipeline::new("bilateral_slice");
    let arrays = [("grid", 5), ("guide", 3), ("input", 4)];
    let [grid, guide, input] = arrays.map(|(name, dims)| tensor(&mut p, name, ty, dims));
    // Along x and y: the cell whose centre lies at or before that of the pixel, and the share of the next one.
    let place = |v: Var| {
        let share = ((v - cell / 2).modulo(cell) * 2 + (1 - cell % 2)).cast(ty) / f64::from(2 * cell);
        ((v - cell / 2) / cell, share)
    };
    let near = |v: Expr, d: usize| v.clamp(0, grid.extent(d) - 1);
    let [(column, across), (row, down)] = [x, y].map(place);
    let cells = p.define("cells", [x, y, z, c, n], grid.of((x, near(y.expr(), 1), z, c, n)));
    let row = |k: i32| cells.of((x, &row + k, z, c, n));
    let rows = p.define("rows", [x, z, c, y, n], Expr::lerp(row(0), row(1), down));
    let depths = grid.extent(2).cast(ty);
    let depth = (guide.of((x, y, n)) * &depths - 0.5).clamp(Expr::constant(ty, -1.0), depths);
    let (bin, deeper) = (depth.floor().cast(I32), &depth - depth.floor());
    let r = RDom::new([("i", 0, 2), ("k", 0, 2), ("ci", 0, channels + 1)]);
    let (i, k, ci) = (r.var(0), r.var(1), r.var(2));
    let share = |of: &Expr, next: Expr| Expr::select(of.eq_(0), 1.0 - &next, next);
    let factor = rows.of((near(column + &i, 0), near(bin + &k, 2), c * (channels + 1) + &ci, y, n));
    let colour = Expr::select(ci.eq_(channels), 1.0, input.of((x, y, ci.min(channels - 1), n)));
    let mapped = p.sum("mapped", &r, factor * share(&i, across) * share(&k, deeper) * colour);
    let output = p.define("output", [x, y, c, n], mapped);
    p.output_strided(&output, Constraint::defaults(4));
    p
}
