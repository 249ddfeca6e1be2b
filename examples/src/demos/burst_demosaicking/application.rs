//! The residuals of the frames as an application, which takes the picture and the homographies by name.

use super::energy::{of_others, pattern};
use crate::pipelines::{Application, Planes, Setup, Slot, tensor};
use sumsq::codegen::{Constraint, Pipeline, ScalarType::F32, Source, Var};

pub(crate) const APPLICATION: Application = Application {
    name: "burst_demosaicking",
    about: "residuals of a burst: what a picture, moved by homographies, is from raw frames",
    slots: &[
        Slot::new("picture", "of shape (3, 2 H, 2 W): twice the resolution of a frame", Planes::Array),
        Slot::new(
            "homography",
            "eight numbers for each frame, of shape (N, 8); zeros move nothing",
            Planes::Array,
        ),
        Slot::new("frames", "mosaics, red at the first pixel, of shape (N, H, W)", Planes::Array),
    ],
    parameters: &[],
    build,
    extents: |_, inputs| match inputs {
        [picture, homography, frames]
            if picture[..] == [2 * frames[0], 2 * frames[1], 3] && homography[..] == [8, frames[2]] =>
        {
            Ok(frames.clone())
        }
        _ => {
            Err(format!("sizes of picture, homography and frames do not fit each other: {inputs:?}, x first"))
        }
    },
    schedules: &[],
};

fn build(_: &Setup) -> Pipeline {
    let [x, y, n] = Var::all(["x", "y", "n"]);
    let mut p = Pipeline::new("burst_demosaicking");
    let arrays = [("picture", 3), ("homography", 2), ("frames", 3)];
    let [picture, homography, frames] = arrays.map(|(name, dims)| tensor(&mut p, name, F32, dims));
    let channel = pattern(&mut p);
    let size = [frames.extent(0), frames.extent(1)];
    let apart = of_others(&mut p, &channel, [&picture, &homography, &frames], [&size[0], &size[1]]);
    let output = p.define("output", [x, y, n], apart.of((x, y, n)));
    p.output_strided(&output, Constraint::defaults(3));
    p
}
