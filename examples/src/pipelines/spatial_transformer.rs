//! The layer of Jaderberg, Simonyan, Zisserman and Kavukcuoglu 2015: features are warped by an affine map for each image and sampled
//! bilinearly. It computes what PyTorch's `grid_sample(input, affine_grid(theta, input.shape))` does by default: coordinates from -1 to 1 are
//! those of the image's edges, and outside of it all is 0.

use super::application::{Application, Planes, Slot};
use super::setup::{FLOATS, Setup};
use super::tensor;
use sumsq::codegen::ScalarType::I32;
use sumsq::codegen::{Constraint, Expr, Pipeline, RDom, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "spatial_transformer",
    about: "layer of a network: features warped by an affine map",
    slots: &[
        Slot::new("input", "features, of shape (N, C, H, W)", Planes::Array),
        Slot::new(
            "theta",
            "rows of the maps from places of the output to those of the input, of shape (N, 2, 3)",
            Planes::Array,
        ),
    ],
    parameters: &[FLOATS],
    build,
    extents: |_, inputs| match inputs {
        [input, theta] if theta[..2] == [3, 2] && theta[2] == input[3] => Ok(input.clone()),
        _ => Err(format!("sizes of input and theta do not fit each other: {inputs:?}, x first")),
    },
    schedules: schedules!("spatial_transformer", gradient),
};

fn build(setup: &Setup) -> Pipeline {
    let [x, y, c, n] = Var::all(["x", "y", "c", "n"]);
    let (ty, mut p) = (setup.floats(), Pipeline::new("spatial_transformer"));
    let input = tensor(&mut p, "input", ty, 4);
    let theta = tensor(&mut p, "theta", ty, 3);
    let size = |d: usize| input.extent(d).cast(ty);
    let [u, v] = [(x, 0), (y, 1)].map(|(v, d)| (v * 2 + 1).cast(ty) / size(d) - 1.0);
    // The place in the input, in pixels from the centre of the first one; beyond -1 and the size all taps are outside.
    let place = [0, 1].map(|d: usize| {
        let entry = |k: i32| theta.of((k, d as i32, n));
        let place = ((entry(0) * &u + entry(1) * &v + entry(2) + 1.0) * size(d) - 1.0) * 0.5;
        place.clamp(Expr::constant(ty, -1.0), size(d))
    });
    let place = p.define_tuple("place", [x, y, n], place.to_vec());
    let r = RDom::new([("i", 0, 2), ("j", 0, 2)]);
    let taps = [0, 1].map(|d: usize| {
        let place = place.at(&[x, y, n].map(Expr::from), d);
        let (at, share) = (place.floor().cast(I32) + r.var(d), &place - place.floor());
        let weight = Expr::select(r.var(d).eq_(0), 1.0 - &share, share);
        let inside = at.ge(0).and(at.lt(input.extent(d)));
        (at.clamp(0, input.extent(d) - 1), weight, inside)
    });
    let [(i, by_i, in_i), (j, by_j, in_j)] = taps;
    let value = Expr::select(in_i.and(in_j), input.of((i, j, c, n)), 0.0);
    let sampled = p.sum("sampled", &r, value * by_i * by_j);
    let output = p.define("output", [x, y, c, n], sampled);
    p.output_strided(&output, Constraint::defaults(4));
    p
}
