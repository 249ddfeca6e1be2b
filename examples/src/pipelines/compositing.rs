//! Six layers with transparency, combined from the lowest to the highest by operators that are data.

use super::application::{Application, Planes, Slot, as_first};
use super::run::{Planar, Values};
use super::setup::Setup;
use sumsq::codegen::ScalarType::{I32, U8, U16, U32};
use sumsq::codegen::{Constraint, Expr, Input, Pipeline, ScalarType, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "compositing",
    about: "six layers with transparency, combined by operators of Porter and Duff",
    slots: &[
        Slot::new("layer0", "the lowest layer, 8 bits a sample", Planes::Transparent),
        Slot::new("layer1", "the next one", Planes::Transparent),
        Slot::new("layer2", "the next one", Planes::Transparent),
        Slot::new("layer3", "the next one", Planes::Transparent),
        Slot::new("layer4", "the next one", Planes::Transparent),
        Slot::new("layer5", "the highest layer", Planes::Transparent),
        Slot::new(
            "ops",
            "operators of layers 1 to 5, all 0 if none are given: 0 over, 1 atop, 2 xor, 3 in, 4 out",
            Planes::Array,
        )
        .or(|| Planar { extents: vec![5], values: Values::Int(vec![0; 5]) }),
    ],
    parameters: &[],
    build,
    extents: |setup, inputs| match inputs.split_last() {
        Some((ops, layers)) if ops[0] == 5 && layers.iter().all(|l| *l == layers[0] && l[2] == 4) => {
            as_first(setup, inputs)
        }
        _ => Err("the layers are not of one size with four channels, or there are not five operators".into()),
    },
    schedules: schedules!("compositing"),
};

/// `a b / 255`, rounded: both may have 8 bits, or `a` 16.
fn scale(a: &Expr, b: &Expr) -> Expr {
    let wide: ScalarType = if a.ty().scalar == U8 { U16 } else { U32 };
    let product = a.cast(wide) * b.cast(wide);
    let product = &product + ((&product + 128).shr(8));
    (product + 128).shr(8).cast(a.ty().scalar)
}

/// Component `a` of what lies below, with transparency `under`, and `b` of the layer, with `over`: combined by operator `op`. `is_colour`: else it
/// is the transparency itself.
fn combine(op: &Expr, (a, under): (&Expr, &Expr), (b, over): (&Expr, &Expr), is_colour: bool) -> Expr {
    let rest = |alpha: &Expr| 255 - alpha.clone();
    let hidden = scale(a, &rest(over));
    let atop = if is_colour { scale(b, under) + &hidden } else { a.clone() };
    let over_it = b + &hidden;
    let either = scale(b, &rest(under)) + &hidden;
    let inside = Expr::select(op.eq_(3), scale(a, over), hidden);
    let either = Expr::select(op.eq_(2), either, inside);
    Expr::select(op.eq_(0), over_it, Expr::select(op.eq_(1), atop, either))
}

fn build(_: &Setup) -> Pipeline {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let mut p = Pipeline::new("compositing");
    let layers: Vec<Input> = (0..6).map(|l| p.input(Input::strided(format!("layer{l}"), &[U8], 3))).collect();
    let ops = p.input(Input::strided("ops", &[I32], 1));
    let alpha = |l: usize| layers[l].of((x, y, 3));
    let colour = |l: usize| layers[l].of((x, y, c)).cast(U16) * alpha(l).cast(U16);
    let (mut shade, mut cover) = (colour(0), alpha(0));
    for l in 1..6 {
        let op = ops.of(l as i32 - 1);
        let (next_shade, next_cover) = (colour(l), alpha(l));
        shade = combine(&op, (&shade, &cover), (&next_shade, &next_cover), true);
        cover = combine(&op, (&cover, &cover), (&next_cover, &next_cover), false);
        shade = p.define(format!("shade{l}"), [x, y, c], shade).of((x, y, c));
        cover = p.define(format!("cover{l}"), [x, y], cover).of((x, y));
    }
    let opaque = cover.cast(U16);
    let by = Expr::select(opaque.eq_(0), Expr::int(U16, 256), &opaque);
    let even = ((shade + &opaque / 2) / by).min(255).cast(U8);
    let output = p.define("output", [x, y, c], Expr::select(Expr::from(c).lt(3), even, cover));
    p.output_strided(&output, Constraint::defaults(3));
    p
}
