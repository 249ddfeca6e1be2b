//! Local Laplacian filters (Paris, Hasinoff, Kautz 2011; Aubry et al. 2014): details are made stronger or weaker, edges stay. The luminance is
//! remapped around some intensities, each with a pyramid of its own; the output's pyramid is picked from these by brightness.

use super::application::{Application, Planes, Slot, as_first};
use super::setup::{Parameter, Setup};
use super::{edge, halved, luminance};
use sumsq::codegen::ScalarType::{F32, I32, U16};
use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "local_laplacian",
    about: "local contrast, by Laplacian pyramids of several intensities",
    slots: &[Slot::new("input", "the picture", Planes::Colour)],
    parameters: &[
        Parameter::whole("levels", "number of intensities", 8, 2, 32),
        Parameter::real("alpha", "strength of details", 1.0 / 7.0, -10.0, 10.0),
        Parameter::real("beta", "strength of large differences", 1.0, 0.0, 10.0),
    ],
    build,
    extents: as_first,
    schedules: schedules!("local_laplacian"),
};

/// Levels of the pyramids, which the schedules name one by one.
const PYRAMID: usize = 8;

/// Half of `f` in x and y, whose other dimension is `rest`, if there is one.
fn down(p: &mut Pipeline, name: &str, f: &Func, rest: &[Var]) -> Func {
    let [x, y] = Var::all(["x", "y"]);
    let vars = [&[x, y], rest].concat();
    let at = |x: Expr, y: Expr| [vec![x, y], rest.iter().map(Expr::from).collect()].concat();
    let rows = halved(&|k| f.at(&at(x.into(), y * 2 + k), 0));
    let rows = p.define(format!("{name}y"), &vars, rows);
    let both = halved(&|k| rows.at(&at(x * 2 + k, y.into()), 0));
    p.define(name, &vars, both)
}

/// Twice `f` in x and y.
fn up(p: &mut Pipeline, name: &str, f: &Func, rest: &[Var]) -> Func {
    let [x, y] = Var::all(["x", "y"]);
    let vars = [&[x, y], rest].concat();
    let at = |x: Expr, y: Expr| [vec![x, y], rest.iter().map(Expr::from).collect()].concat();
    let share = |v: Var| ((v % 2) * 2 + 1).cast(F32) / 4.0;
    let column = |by: i32| f.at(&at((x + by) / 2, y.into()), 0);
    let across = Expr::lerp(column(1), column(-1), share(x));
    let across = p.define(format!("{name}x"), &vars, across);
    let row = |by: i32| across.at(&at(x.into(), (y + by) / 2), 0);
    let both = Expr::lerp(row(1), row(-1), share(y));
    p.define(name, &vars, both)
}

fn build(setup: &Setup) -> Pipeline {
    let [x, y, c, k] = Var::all(["x", "y", "c", "k"]);
    let mut p = Pipeline::new("local_laplacian");
    let input = p.input(Input::strided("input", &[U16], 3));
    let levels = p.param_in("levels", I32, 2, 32);
    let (alpha, beta) = (p.param("alpha", F32), p.param("beta", F32));
    let top = levels - 1;
    let white = setup.white() as f32;

    let table = Expr::from(x).cast(F32) / 256.0;
    let table = p.define("remap", [x], alpha * &table * (-(&table * &table) / 2.0).exp());
    let edge = edge(&mut p, "edge", &input);
    let gray = p.define("gray", [x, y], luminance(|c| edge.of((x, y, c)).cast(F32) / white));

    let here = gray.of((x, y));
    let steps = &top * 256;
    let bin = (&here * steps.cast(F32)).cast(I32).clamp(0, steps);
    let level = Expr::from(k).cast(F32) * (1.0f32 / top.cast(F32));
    let value = beta * (here - &level) + level + table.of(bin - k * 256);
    let mut remapped = vec![p.define("g0", [x, y, k], value)];
    let mut bright = vec![gray.clone()];
    for j in 1..PYRAMID {
        remapped.push(down(&mut p, &format!("g{j}"), &remapped[j - 1], &[k]));
        bright.push(down(&mut p, &format!("in{j}"), &bright[j - 1], &[]));
    }

    let mut result: Option<Func> = None;
    for j in (0..PYRAMID).rev() {
        let own = &remapped[j];
        let detail = match remapped.get(j + 1) {
            Some(coarser) => {
                let base = up(&mut p, &format!("gu{j}"), coarser, &[k]);
                p.define(format!("l{j}"), [x, y, k], own.of((x, y, k)) - base.of((x, y, k)))
            }
            None => own.clone(),
        };
        let depth = bright[j].of((x, y)) * top.cast(F32);
        let bin = depth.cast(I32).clamp(0, &top - 1);
        let share = depth - bin.cast(F32);
        let picked = Expr::lerp(detail.of((x, y, &bin)), detail.of((x, y, bin + 1)), share);
        let value = match result {
            Some(coarser) => up(&mut p, &format!("ru{j}"), &coarser, &[]).of((x, y)) + picked,
            None => picked,
        };
        result = Some(p.define(format!("r{j}"), [x, y], value));
    }
    let result = result.unwrap_or_else(|| gray.clone());
    let colour = input.of((x, y, c)).cast(F32) * (result.of((x, y)) + 0.01) / (gray.of((x, y)) + 0.01);
    let output = p.define("output", [x, y, c], colour.clamp(0.0, white).cast(U16));
    p.output_strided(&output, Constraint::defaults(3));
    p
}
