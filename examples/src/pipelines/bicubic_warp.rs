//! `flow_warp` with cubic instead of linear interpolation: the kernel of Keys, "Cubic convolution interpolation for digital image processing",
//! 1981, with a = -1/2, which reproduces polynomials of degree two. Outside of the image its edge counts.

use super::application::{Application, Planes, Slot};
use super::setup::{FLOATS, Setup};
use super::tensor;
use sumsq::codegen::ScalarType::I32;
use sumsq::codegen::{Constraint, Expr, Pipeline, RDom, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "bicubic_warp",
    about: "layer of a network: features warped backwards by a flow field, sampled bicubically",
    slots: &[
        Slot::new("input", "features, of shape (N, C, H, W)", Planes::Array),
        Slot::new("flow", "way to the right and down, in pixels, of shape (N, 2, H, W)", Planes::Array),
    ],
    parameters: &[FLOATS],
    build,
    extents: super::flow_warp::APPLICATION.extents,
    schedules: schedules!("bicubic_warp"),
};

fn build(setup: &Setup) -> Pipeline {
    let [x, y, c, n] = Var::all(["x", "y", "c", "n"]);
    let (ty, mut p) = (setup.floats(), Pipeline::new("bicubic_warp"));
    let [input, flow] = ["input", "flow"].map(|name| tensor(&mut p, name, ty, 4));
    let last = [0, 1].map(|d| input.extent(d) - 1);
    let place = [(x, 0), (y, 1)].map(|(v, d)| {
        let place = v.expr().cast(ty) + flow.of((x, y, d, n));
        place.clamp(Expr::constant(ty, 0.0), last[d as usize].cast(ty))
    });
    let place = p.define_tuple("place", [x, y, n], place.to_vec());
    let r = RDom::new([("i", 0, 4), ("j", 0, 4)]);
    let [(i, by_i), (j, by_j)] = [0, 1].map(|d: usize| {
        let place = place.at(&[x, y, n].map(Expr::from), d);
        let (first, tap) = (place.floor(), r.var(d) - 1);
        let s = (&place - &first - tap.cast(ty)).abs();
        let near = &s * &s * (&s * 1.5 - 2.5) + 1.0;
        let weight = Expr::select(s.le(1.0), near, &s * (&s * (2.5 - &s * 0.5) - 4.0) + 2.0);
        ((first.cast(I32) + tap).clamp(0, &last[d]), weight)
    });
    let sampled = p.sum("sampled", &r, input.of((i, j, c, n)) * by_i * by_j);
    let output = p.define("output", [x, y, c, n], sampled);
    p.output_strided(&output, Constraint::defaults(4));
    p
}
