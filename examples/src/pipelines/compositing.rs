//! Six layers with transparency, combined from the lowest to the highest by operators that are data.

use super::application::{Application, Planes, Slot, as_first};
use super::planar::{Planar, Values};
use super::setup::Setup;
use sumsq::codegen::ScalarType::{I32, U8, U16, U32, U64};
use sumsq::codegen::{Constraint, Expr, Input, Pipeline, RDom, ScalarType, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "compositing",
    about: "six layers with transparency, combined by operators of Porter and Duff",
    slots: &[
        Slot::new("layer0", "the lowest layer", Planes::Transparent),
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
        .or(|_| Planar { extents: vec![5], values: Values::Int(vec![0; 5]) }),
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

/// The type of products.
fn doubled(ty: ScalarType) -> ScalarType {
    match ty {
        U8 => U16,
        U16 => U32,
        _ => U64,
    }
}

/// The greatest value of samples of this type.
fn white(sample: ScalarType) -> i32 {
    sample.greatest() as i32
}

/// `a b` by the greatest of the samples that `b` is of, rounded: `a` is one as well, or a product of two.
fn scale(a: &Expr, b: &Expr) -> Expr {
    let bits = b.ty().scalar.bits() as i32;
    let half = 1 << (bits - 1);
    let wide = doubled(a.ty().scalar);
    let product = a.cast(wide) * b.cast(wide);
    let product = &product + ((&product + half).shr(bits));
    (product + half).shr(bits).cast(a.ty().scalar)
}

/// A pixel `b` put onto `a` in each of the five ways, by number. Pixels are colours times transparency, then the transparency.
fn ways(a: &[Expr; 4], b: &[Expr; 4]) -> [[Expr; 4]; 5] {
    let rest = |p: &[Expr; 4]| white(p[3].ty().scalar) - p[3].clone();
    let each = |of: &dyn Fn(usize) -> Expr| std::array::from_fn(of);
    let hidden = |i: usize| scale(&a[i], &rest(b));
    let atop = |i: usize| if i == 3 { a[3].clone() } else { scale(&b[i], &a[3]) + hidden(i) };
    let either = |i: usize| scale(&b[i], &rest(a)) + hidden(i);
    let inside = |i: usize| scale(&a[i], &b[3]);
    [each(&|i| &b[i] + hidden(i)), each(&atop), each(&either), each(&inside), each(&hidden)]
}

fn build(setup: &Setup) -> Pipeline {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let mut p = Pipeline::new("compositing");
    let (sample, product) = (setup.sample(), doubled(setup.sample()));
    let layers: Vec<Input> =
        (0..6).map(|l| p.input(Input::strided(format!("layer{l}"), &[sample], 3))).collect();
    let ops = p.input(Input::strided("ops", &[I32], 1));
    let pixel = |at: &dyn Fn(i32) -> Expr| {
        let colour = |i: i32| at(i).cast(product) * at(3).cast(product);
        [colour(0), colour(1), colour(2), at(3)]
    };
    let bottom = pixel(&|i| layers[0].of((x, y, i)));
    let blended = p.define_tuple("blended", [x, y], bottom.to_vec());
    // All ways of all layers, of which those that are wanted run: one test for many pixels.
    let r = RDom::new([("way", 0, 5), ("layer", 0, 5)]);
    let (way, layer) = (r.var(0), r.var(1));
    let r = r.filter(way.eq_(ops.of(&layer)));
    let above = |i: i32| Expr::mux(&layer, layers[1..].iter().map(|l| l.of((x, y, i))));
    let below = std::array::from_fn(|i| blended.at(&[x.into(), y.into()], i));
    let ways = ways(&below, &pixel(&above));
    let chosen = (0..4).map(|i| Expr::mux(&way, ways.each_ref().map(|w| w[i].clone()))).collect();
    let blended = p.func(blended.update(vec![x.into(), y.into()], chosen, r));

    let [r, g, b, opaque] = std::array::from_fn(|i| blended.at(&[x.into(), y.into()], i));
    let wide = opaque.cast(product);
    let white = white(sample);
    let by = Expr::select(wide.eq_(0), Expr::int(product, i64::from(white) + 1), &wide);
    let even = |colour: Expr| ((colour + &wide / 2) / &by).min(white).cast(sample);
    let output = p.define("output", [x, y, c], Expr::mux(c, [even(r), even(g), even(b), opaque]));
    p.output_strided(&output, Constraint::defaults(3));
    p
}
