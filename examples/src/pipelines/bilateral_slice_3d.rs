//! `bilateral_slice` of volumes: the grid's cells are cubes of voxels, so that an affine map is interpolated along four dimensions.

use super::application::{Application, Planes, Slot};
use super::setup::{FLOATS, Parameter, Setup};
use super::tensor;
use sumsq::codegen::ScalarType::I32;
use sumsq::codegen::{Constraint, Expr, Pipeline, RDom, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "bilateral_slice_3d",
    about: "layer of a network: affine maps of the channels of a volume, sliced from a grid",
    slots: &[
        Slot::new(
            "grid",
            "maps, of shape (N, CO (CI + 1), D, Z / cell, H / cell, W / cell): for each output the factors of the inputs, then the offset",
            Planes::Array,
        ),
        Slot::new("guide", "depth in the grid, from 0 to 1, of shape (N, Z, H, W)", Planes::Array),
        Slot::new("input", "volumes, of shape (N, CI, Z, H, W)", Planes::Array),
    ],
    parameters: &[
        Parameter::whole("cell", "edge of a cell of the grid, in voxels", 8, 1, 4096),
        Parameter::whole("channels", "of input (CI)", 3, 1, 64),
        FLOATS,
    ],
    build,
    extents: sizes,
    schedules: schedules!("bilateral_slice_3d"),
};

fn sizes(setup: &Setup, inputs: &[Vec<i32>]) -> Result<Vec<i32>, String> {
    let (cell, channels) = (setup.whole("cell"), setup.whole("channels"));
    let cells = |n: i32| (n + cell - 1) / cell;
    match inputs {
        [grid, guide, input]
            if guide[..3] == input[..3]
                && guide[3] == input[4]
                && input[3] == channels
                && (0..3).all(|d| grid[d] == cells(input[d]))
                && grid[4] % (channels + 1) == 0
                && grid[5] == input[4] =>
        {
            Ok(vec![input[0], input[1], input[2], grid[4] / (channels + 1), input[4]])
        }
        _ => Err(format!(
            "sizes of grid, guide and input do not fit each other, cells of {cell} voxels and {channels} channels: {inputs:?}, x first"
        )),
    }
}

fn build(setup: &Setup) -> Pipeline {
    let [x, y, z, d, c, n] = Var::all(["x", "y", "z", "d", "c", "n"]);
    let (cell, channels, ty) = (setup.whole("cell"), setup.whole("channels"), setup.floats());
    let mut p = Pipeline::new("bilateral_slice_3d");
    let arrays = [("grid", 6), ("guide", 4), ("input", 5)];
    let [grid, guide, input] = arrays.map(|(name, dims)| tensor(&mut p, name, ty, dims));
    // Along x, y and z: the cell whose centre lies at or before that of the voxel, and the share of the next one.
    let place = |v: Var| {
        let from = v - cell / 2;
        let share = (from.modulo(cell) * 2 + (1 - cell % 2)).cast(ty) / f64::from(2 * cell);
        (from / cell, share)
    };
    let near = |v: Expr, d: usize| v.clamp(0, grid.extent(d) - 1);
    let [(column, across), (row, down), (plane, back)] = [x, y, z].map(place);
    let plane = |k: i32| grid.of(vec![x.expr(), y.expr(), near(&plane + k, 2), d.expr(), c.expr(), n.expr()]);
    let planes = p.define("planes", [x, y, d, c, z, n], Expr::lerp(plane(0), plane(1), back));
    let row = |k: i32| planes.of(vec![x.expr(), near(&row + k, 1), d.expr(), c.expr(), z.expr(), n.expr()]);
    let rows = p.define("rows", [x, d, c, y, z, n], Expr::lerp(row(0), row(1), down));
    let depths = grid.extent(3).cast(ty);
    let depth = (guide.of((x, y, z, n)) * &depths - 0.5).clamp(Expr::constant(ty, -1.0), depths);
    let (bin, deeper) = (depth.floor().cast(I32), &depth - depth.floor());
    let r = RDom::new([("i", 0, 2), ("k", 0, 2), ("ci", 0, channels + 1)]);
    let (i, k, ci) = (r.var(0), r.var(1), r.var(2));
    let share = |of: &Expr, next: Expr| Expr::select(of.eq_(0), 1.0 - &next, next);
    let map = vec![near(column + &i, 0), near(bin + &k, 3), c * (channels + 1) + &ci];
    let factor = rows.of([map, [y, z, n].map(Expr::from).to_vec()].concat());
    let colour = Expr::select(ci.eq_(channels), 1.0, input.of((x, y, z, ci.min(channels - 1), n)));
    let mapped = p.sum("mapped", &r, factor * share(&i, across) * share(&k, deeper) * colour);
    let output = p.define("output", [x, y, z, c, n], mapped);
    p.output_strided(&output, Constraint::defaults(5));
    p
}
