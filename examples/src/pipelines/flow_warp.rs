//! The warping layer of FlowNet 2 (Ilg et al. 2017): each pixel looks where its flow points, and samples bilinearly what is there. Outside of the
//! image its edge counts.

use super::application::{Application, Planes, Slot};
use super::setup::{FLOATS, Setup};
use super::tensor;
use sumsq::codegen::ScalarType::I32;
use sumsq::codegen::{Constraint, Expr, Pipeline, RDom, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "flow_warp",
    about: "layer of a network: features warped backwards by a flow field",
    slots: &[
        Slot::new("input", "features, of shape (N, C, H, W)", Planes::Array),
        Slot::new("flow", "way to the right and down, in pixels, of shape (N, 2, H, W)", Planes::Array),
    ],
    parameters: &[FLOATS],
    build,
    extents: |_, inputs| match inputs {
        [input, flow] if flow[2] == 2 && [0, 1, 3].iter().all(|&d| flow[d] == input[d]) => Ok(input.clone()),
        _ => Err(format!("sizes of input and flow do not fit each other: {inputs:?}, x first")),
    },
    schedules: schedules!("flow_warp", gradient),
};

fn build(setup: &Setup) -> Pipeline {
    let [x, y, c, n] = Var::all(["x", "y", "c", "n"]);
    let (ty, mut p) = (setup.floats(), Pipeline::new("flow_warp"));
    let [input, flow] = ["input", "flow"].map(|name| tensor(&mut p, name, ty, 4));
    let last = [0, 1].map(|d| input.extent(d) - 1);
    let place = [(x, 0), (y, 1)].map(|(v, d)| {
        let place = v.expr().cast(ty) + flow.of((x, y, d, n));
        place.clamp(Expr::constant(ty, 0.0), last[d as usize].cast(ty))
    });
    let place = p.define_tuple("place", [x, y, n], place.to_vec());
    let r = RDom::new([("i", 0, 2), ("j", 0, 2)]);
    let [(i, by_i), (j, by_j)] = [0, 1].map(|d: usize| {
        let place = place.at(&[x, y, n].map(Expr::from), d);
        let (first, share) = (place.floor(), &place - place.floor());
        let weight = Expr::select(r.var(d).eq_(0), 1.0 - &share, share);
        ((first.cast(I32) + r.var(d)).clamp(0, &last[d]), weight)
    });
    let sampled = p.sum("sampled", &r, input.of((i, j, c, n)) * by_i * by_j);
    let output = p.define("output", [x, y, c, n], sampled);
    p.output_strided(&output, Constraint::defaults(4));
    p
}
