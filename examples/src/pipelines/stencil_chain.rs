//! Stencils of 5 x 5 after each other, in wrapping 16-bit arithmetic: a test of fusion rather than a filter.

use super::application::{Application, Planes, Slot, as_first};
use super::setup::Setup;
use sumsq::codegen::ScalarType::U16;
use sumsq::codegen::{Constraint, Input, Pipeline, Source, Var, boundary};

pub(super) const APPLICATION: Application = Application {
    name: "stencil_chain",
    about: "stencils of 5 x 5 after each other, in wrapping 16-bit arithmetic",
    slots: &[Slot::new("input", "the picture", Planes::Each)],
    parameters: &[],
    build,
    extents: as_first,
    schedules: schedules!("stencil_chain", narrow),
};

/// Number of stencils, which the schedules name one by one.
const STAGES: i32 = 32;

fn build(_: &Setup) -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("stencil_chain");
    let input = p.input(Input::strided("input", &[U16], 2));
    let mut last = p.func(boundary::repeat_edge("s0", &input, &input.domain()));
    for n in 1..=STAGES {
        let tap = |k: i32| last.of((x + (k / 5 - 2), y + (k % 5 - 2))) * ((k / 5 + 1) * (k % 5 + 1));
        let name = if n == STAGES { "output".to_string() } else { format!("s{n}") };
        last = p.define(name, [x, y], (1..25).fold(tap(0), |sum, k| sum + tap(k)));
    }
    p.output_strided(&last, Constraint::defaults(2));
    p
}
