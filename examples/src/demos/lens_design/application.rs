//! The spots of a lens as an application: rays at the sensor against the centres of their fields' spots, by the lens's numbers.

use super::design::spots;
use super::trace::Tracer;
use crate::pipelines::{Application, Parameter, Planes, Setup, Slot};
use sumsq::codegen::{Constraint, Expr, Input, Pipeline, Var};

pub(crate) const APPLICATION: Application = Application {
    name: "lens_design",
    about: "residuals of a lens: where rays meet the sensor against the middle of their spot",
    slots: &[
        array("curvature", "of each surface, of shape (S,); float64, as all arrays here"),
        array("least", "gap behind each surface, of shape (S,)"),
        array("more", "what each gap has beyond that, of shape (S,)"),
        array(
            "index",
            "of refraction before the first surface, behind each, and behind the sensor, of shape (S + 2,)",
        ),
        array("sample", "points of the pupil, its radius 1, of shape (I, 2)"),
        array("field", "tangent of each field's angle and height of its beam, of shape (J, 2)"),
    ],
    parameters: &[
        Parameter::real("pupil", "distance of the entrance pupil behind the first surface", 0.0, 0.0, 1e6),
        Parameter::real("aperture", "diameter of the entrance pupil", 1.0, 1e-6, 1e6),
    ],
    build,
    extents: |_, inputs| match inputs {
        [curvature, least, more, index, sample, field]
            if least == curvature
                && more == curvature
                && index[0] == curvature[0] + 2
                && [sample[0], field[0]] == [2, 2] =>
        {
            Ok(vec![2, sample[1], field[1]])
        }
        _ => Err(format!("sizes of the arrays do not fit each other: {inputs:?}, x first")),
    },
    schedules: &[],
};

const fn array(name: &'static str, about: &'static str) -> Slot {
    Slot::new(name, about, Planes::Array)
}

fn build(_: &Setup) -> Pipeline {
    let [c, i, j] = Var::all(["c", "i", "j"]);
    let mut p = Pipeline::new("lens_design");
    let tracer = Tracer::add_to(&mut p);
    let (_, spot) = spots(&mut p, &tracer);
    for (name, input) in &mut p.inputs {
        *input = Input::strided(name.clone(), &input.types, input.dims);
    }
    let across = |d: usize| spot.at(&[i.expr(), j.expr()], d);
    let output = p.define("output", [c, i, j], Expr::mux(c, [across(0), across(1)]));
    p.output_strided(&output, Constraint::defaults(3));
    p
}
