//! The mean of 3 x 3 pixels, in two passes: the example of Ragan-Kelley et al. 2013, section 2.

use super::application::{Application, Planes, Slot, as_first};
use super::setup::Setup;
use sumsq::codegen::ScalarType::{U16, U32};
use sumsq::codegen::{Input, Pipeline, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "blur",
    about: "mean of 3 x 3 pixels, whose upper left one is the pixel itself",
    slots: &[Slot::new("input", "the picture", Planes::Each)],
    parameters: &[],
    build,
    extents: as_first,
    schedules: schedules!("blur"),
};

fn build(setup: &Setup) -> Pipeline {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("blur");
    let input = p.input(Input::strided("input", &[U16], 2));
    // Three samples of 14 bits fit into 16.
    let sums = if setup.bits <= 14 { U16 } else { U32 };
    let tap = |dx: i32| input.of((x + dx, y)).cast(sums);
    let across = p.define("across", [x, y], ((tap(0) + tap(1) + tap(2)) / 3).cast(U16));
    let tap = |dy: i32| across.of((x, y + dy)).cast(sums);
    let output = p.define("output", [x, y], ((tap(0) + tap(1) + tap(2)) / 3).cast(U16));
    p.output_strided(&output, sumsq::codegen::Constraint::defaults(2));
    p
}
