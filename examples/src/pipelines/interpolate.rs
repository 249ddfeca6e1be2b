//! Colours that are known at some pixels alone, spread over the rest: a pyramid of means, weighted by what is known, is filled in from its
//! coarsest level down.

use super::application::{Application, Planes, Slot, flat};
use super::edge;
use super::setup::Setup;
use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "interpolate",
    about: "fills transparent pixels with the colours around them",
    slots: &[Slot::new("input", "the picture, transparent where nothing is known", Planes::Transparent)],
    parameters: &[],
    build,
    extents: |setup, inputs| match inputs {
        [input] if input[2] == 4 => flat(setup, inputs).map(|n| [n, vec![3]].concat()),
        _ => Err(format!("expected four channels: {inputs:?}, x first")),
    },
    schedules: schedules!("interpolate"),
};

/// Number of levels, which the schedules name one by one.
const LEVELS: i32 = 10;

fn build(_: &Setup) -> Pipeline {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let mut p = Pipeline::new("interpolate");
    let input = p.input(Input::strided("input", &[F32], 3));
    let edge = edge(&mut p, "edge", &input);
    let known = edge.of((x, y, 3));
    let weighted = Expr::select(Expr::from(c).lt(3), edge.of((x, y, c)) * &known, &known);
    let mut down = vec![p.define("d0", [x, y, c], weighted)];
    for l in 1..LEVELS {
        let mut finer = down[l as usize - 1].clone();
        if l == 4 {
            // Coarser levels reach far out: they see the edge of this one, repeated.
            let within = |v: Var, d: usize| Expr::from(v).clamp(0, input.extent(d) / 8);
            finer = p.define("near", [x, y, c], finer.of((within(x, 0), within(y, 1), c)));
        }
        let mean = |a: Expr, b: Expr, c: Expr| (a + b * 2.0 + c) * 0.25;
        let tap = |k: i32| finer.of((x * 2 + k, y, c));
        let across = p.define(format!("dx{l}"), [x, y, c], mean(tap(-1), tap(0), tap(1)));
        let tap = |k: i32| across.of((x, y * 2 + k, c));
        down.push(p.define(format!("d{l}"), [x, y, c], mean(tap(-1), tap(0), tap(1))));
    }
    let mut filled: Option<Func> = None;
    for l in (0..LEVELS).rev() {
        let own = &down[l as usize];
        let Some(coarse) = filled else {
            filled = Some(own.clone());
            continue;
        };
        let across = (coarse.of((x / 2, y, c)) + coarse.of(((x + 1) / 2, y, c))) / 2.0;
        let across = p.define(format!("ux{l}"), [x, y, c], across);
        let up = (across.of((x, y / 2, c)) + across.of((x, (y + 1) / 2, c))) / 2.0;
        let up = p.define(format!("u{l}"), [x, y, c], up);
        let value = own.of((x, y, c)) + (1.0f32 - own.of((x, y, 3))) * up.of((x, y, c));
        filled = Some(p.define(format!("i{l}"), [x, y, c], value));
    }
    let finest = filled.unwrap_or_else(|| down[0].clone());
    let output = p.define("output", [x, y, c], finest.of((x, y, c)) / finest.of((x, y, 3)));
    p.output_strided(&output, Constraint::defaults(3));
    p
}
