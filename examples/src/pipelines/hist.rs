//! Histogram equalisation of the luminance: counted row by row, since rows do not meet, then over the rows. There are 256 bins; of 16 bits each is crossed
//! by a straight line.

use super::application::{Application, Planes, Slot, as_first};
use super::luminance;
use super::setup::Setup;
use sumsq::codegen::ScalarType::{F32, I32, U8};
use sumsq::codegen::{Constraint, Expr, Input, Pipeline, RDom, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "hist",
    about: "histogram equalisation of the luminance, colours kept",
    slots: &[Slot::new("input", "the picture", Planes::Colour)],
    parameters: &[],
    build,
    extents: as_first,
    schedules: schedules!("hist"),
};

fn build(setup: &Setup) -> Pipeline {
    let [x, y, c, b] = Var::all(["x", "y", "c", "b"]);
    let mut p = Pipeline::new("hist");
    let (sample, deep) = (setup.sample(), setup.sample() != U8);
    let white = sample.greatest() as f32;
    let input = p.input(Input::strided("input", &[sample], 3));
    let (width, height) = (input.extent(0), input.extent(1));
    let bright = p.define("bright", [x, y], luminance(|c| input.of((x, y, c)).cast(F32)));
    let lum = bright.of((x, y));
    let cr = p.define("cr", [x, y], (input.of((x, y, 0)).cast(F32) - &lum) * 0.713 + 128.0);
    let cb = p.define("cb", [x, y], (input.of((x, y, 2)).cast(F32) - &lum) * 0.564 + 128.0);
    let shade = lum.clamp(0.0, white);
    let shade = if deep { shade * (1.0 / 256.0) } else { shade };
    let bin = p.define("bin", [x, y], shade.cast(U8));

    let along = RDom::new([("rx", input.min(0), width.clone())]);
    let rows = p.define("rows", [b, y], Expr::int(I32, 0));
    let place = bin.of((along.var(0), y)).cast(I32);
    let rows = p.add_to(&rows, (place, y), 1, &along);
    let down = RDom::new([("ry", input.min(1), height.clone())]);
    let counts = p.define("counts", [b], Expr::int(I32, 0));
    let counts = p.add_to(&counts, b, rows.of((b, down.var(0))), &down);
    let below = p.define("below", [b], counts.of(0));
    let bins = RDom::new([("rb", 1, 255)]);
    let next = below.of(bins.var(0) - 1) + counts.of(bins.var(0));
    let below = p.update(&below, bins.var(0), next, &bins);

    let scale = white / (width * height).cast(F32);
    let own = bin.of((x, y)).cast(I32);
    let mut rank = below.of(&own).cast(F32);
    if deep {
        rank = rank - counts.of(&own).cast(F32) * (1.0f32 - (shade - own.cast(F32)));
    }
    let level = p.define("level", [x, y], (rank * scale).clamp(0.0, white));
    let (even, cr, cb) = (level.of((x, y)), cr.of((x, y)) - 128.0, cb.of((x, y)) - 128.0);
    let red = &even + &cr * 1.4;
    let green = &even - &cb * 0.343 - cr * 0.711;
    let blue = even + cb * 1.765;
    let colour = Expr::mux(c, [red, green, blue]);
    let output = p.define("output", [x, y, c], colour.clamp(0.0, white).cast(sample));
    p.output_strided(&output, Constraint::defaults(3));
    p
}
