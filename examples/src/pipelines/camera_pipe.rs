//! Raw sensor data to a picture, as phones do it (Adams et al. 2010, the Frankencamera): hot pixels, demosaicking, colour, tone, sharpening.

use super::application::{Application, Planes, Slot};
use super::planar::{Planar, Values};
use super::setup::{Parameter, Setup};
use sumsq::codegen::ScalarType::{F32, I16, I32, U8, U16};
use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "camera_pipe",
    about: "a sensor's mosaic of colours, 10 bits, to a picture",
    slots: &[
        Slot::new(
            "input",
            "the mosaic: rows of green and red, then of blue and green, below 1024",
            Planes::One,
        ),
        Slot::new("matrix_3200", "colours of light of 3200 K, of shape (3, 4)", Planes::Array).or(warm),
        Slot::new("matrix_7000", "colours of light of 7000 K, of shape (3, 4)", Planes::Array).or(cold),
    ],
    parameters: &[
        Parameter::real("color_temp", "colour of the light, in kelvin", 3700.0, 1000.0, 20000.0),
        Parameter::real("gamma", "of the screen", 2.0, 0.1, 10.0),
        Parameter::real("contrast", "0 for none, 100 for much", 50.0, 0.0, 100.0),
        Parameter::real("sharpen", "0 for none", 1.0, 0.0, 7.0),
        Parameter::whole("black", "greatest value that is black", 25, 0, 1022),
        Parameter::whole("white", "value that is white", 1023, 1, 1023),
    ],
    build,
    extents: |_, inputs| match inputs {
        [mosaic, ..] if mosaic[0] > 32 && mosaic[1] > 48 => Ok(vec![mosaic[0] - 32, mosaic[1] - 48, 3]),
        _ => Err("the mosaic is smaller than its border: 16 columns and 24 rows on each side".into()),
    },
    schedules: schedules!("camera_pipe", narrow),
};

fn matrix(values: [f32; 12]) -> Planar {
    Planar { extents: vec![4, 3], values: Values::F32(values.to_vec()) }
}

fn warm(_: &Setup) -> Planar {
    matrix([
        1.6697, -0.2693, -0.4004, -42.4346, -0.3576, 1.0615, 1.5949, -37.1158, -0.2175, -1.8751, 6.9640,
        -26.6970,
    ])
}

fn cold(_: &Setup) -> Planar {
    matrix([
        2.2997, -0.4478, 0.1706, -39.0923, -0.3826, 1.5906, -0.2080, -25.4311, -0.0888, -0.7344, 2.2832,
        -20.0826,
    ])
}

fn build(_: &Setup) -> Pipeline {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let mut p = Pipeline::new("camera_pipe");
    let input = p.input(Input::strided("input", &[U16], 2));
    let shifted = |dx: i32, dy: i32| input.of((x + (16 + dx), y + (12 + dy)));
    let around = shifted(-2, 0).max(shifted(2, 0)).max(shifted(0, -2)).max(shifted(0, 2));
    let clean = p.define("clean", [x, y], shifted(0, 0).min(around));
    let colours = demosaicked(&mut p, &clean);
    let corrected = corrected(&mut p, colours);
    let tone = toned(&mut p, &corrected);

    let strength = (p.param("sharpen", F32) * 32.0).clamp(0.0, 255.0).cast(U8).cast(I16);
    let b121 = |tap: &dyn Fn(i32) -> Expr| tap(-1).rounding_halving_add(tap(1)).rounding_halving_add(tap(0));
    let tall = p.define("tall", [x, y, c], b121(&|k| tone.of((x, y + k, c))));
    let smooth = b121(&|k| tall.of((x + k, y, c)));
    let here = tone.of((x, y, c)).cast(I16);
    let detail = &here - smooth.cast(I16);
    let sharp = (here + (detail * strength) / 32).clamp(0, 255).cast(U8);
    let output = p.define("output", [x, y, c], sharp);
    p.output_strided(&output, Constraint::defaults(3));
    p
}

/// Red, green and blue at every pixel, as i16. Within a block of four, `gr` and `gb` are the greens in rows of red and of blue.
fn demosaicked(p: &mut Pipeline, clean: &Func) -> [Func; 3] {
    let [x, y] = Var::all(["x", "y"]);
    let mut plane = |name: &str, dx: i32, dy: i32| p.define(name, [x, y], clean.of((x * 2 + dx, y * 2 + dy)));
    let (gr, r, b, gb) = (plane("gr", 0, 0), plane("r", 1, 0), plane("b", 0, 1), plane("gb", 1, 1));
    let at = |f: &Func, dx: i32, dy: i32| f.of((x + dx, y + dy));
    // Along the direction with the smaller difference.
    let smoother =
        |(first, by): (Expr, Expr), (second, other): (Expr, Expr)| Expr::select(by.lt(other), first, second);
    let along = |a: Expr, b: Expr| (a.rounding_halving_add(&b), a.absd(b));
    let green_at_red = smoother(along(at(&gr, 1, 0), at(&gr, 0, 0)), along(at(&gb, 0, -1), at(&gb, 0, 0)));
    let green_at_red = p.define("green_at_red", [x, y], green_at_red);
    let green_at_blue = smoother(along(at(&gb, -1, 0), at(&gb, 0, 0)), along(at(&gr, 0, 1), at(&gr, 0, 0)));
    let green_at_blue = p.define("green_at_blue", [x, y], green_at_blue);

    // A colour between two places: their mean, corrected by what the green does between them.
    let between = |green: &Expr, greens: &Func, colour: &Func, [(ax, ay), (bx, by)]: [(i32, i32); 2]| {
        let middle = |f: &Func| at(f, ax, ay).rounding_halving_add(at(f, bx, by));
        green - middle(greens) + middle(colour)
    };
    let here = (0, 0);
    let red_at_gr = between(&at(&gr, 0, 0), &green_at_red, &r, [here, (-1, 0)]);
    let blue_at_gr = between(&at(&gr, 0, 0), &green_at_blue, &b, [here, (0, -1)]);
    let red_at_gb = between(&at(&gb, 0, 0), &green_at_red, &r, [here, (0, 1)]);
    let blue_at_gb = between(&at(&gb, 0, 0), &green_at_blue, &b, [here, (1, 0)]);
    let diagonal = |own: &Func, greens: &Func, colour: &Func, places: [(i32, i32); 2]| {
        let [(ax, ay), (bx, by)] = places;
        (between(&at(own, 0, 0), greens, colour, places), at(colour, ax, ay).absd(at(colour, bx, by)))
    };
    let red_at_blue = smoother(
        diagonal(&green_at_blue, &green_at_red, &r, [here, (-1, 1)]),
        diagonal(&green_at_blue, &green_at_red, &r, [(-1, 0), (0, 1)]),
    );
    let blue_at_red = smoother(
        diagonal(&green_at_red, &green_at_blue, &b, [here, (1, -1)]),
        diagonal(&green_at_red, &green_at_blue, &b, [(1, 0), (0, -1)]),
    );

    let mut full = |name: &str, [gr, r, b, gb]: [Expr; 4]| {
        let block = [("gr", gr), ("r", r), ("b", b), ("gb", gb)]
            .map(|(at, value)| p.define(format!("{name}_{at}"), [x, y], value));
        let [gr, r, b, gb] = block.each_ref().map(|f| f.of((x / 2, y / 2)));
        let even = (x % 2).eq_(0);
        let rows = Expr::select((y % 2).eq_(0), Expr::select(&even, gr, r), Expr::select(&even, b, gb));
        p.define(name, [x, y], rows.cast(I16))
    };
    let red = full("red", [red_at_gr, at(&r, 0, 0), red_at_blue, red_at_gb]);
    let green =
        full("green", [at(&gr, 0, 0), at(&green_at_red, 0, 0), at(&green_at_blue, 0, 0), at(&gb, 0, 0)]);
    let blue = full("blue", [blue_at_gr, blue_at_red, at(&b, 0, 0), blue_at_gb]);
    [red, green, blue]
}

/// Colours under the light's temperature, between those of two matrices, with 8 bits behind the point.
fn corrected(p: &mut Pipeline, colours: [Func; 3]) -> Func {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let warm = p.input(Input::strided("matrix_3200", &[F32], 2));
    let cold = p.input(Input::strided("matrix_7000", &[F32], 2));
    let inverse = |kelvin: f64| (1.0 / kelvin) as f32;
    let temperature = p.param("color_temp", F32);
    let share = (1.0f32 / temperature - inverse(3200.0)) / (inverse(7000.0) - inverse(3200.0));
    let entry = warm.of((x, y)) * &share + cold.of((x, y)) * (1.0f32 - &share);
    let matrix = p.define("matrix", [x, y], (entry * 256.0).cast(I16));
    let entry = |k: i32| matrix.of((k, c)).cast(I32);
    let sum = (0..3).fold(entry(3), |sum, k| sum + entry(k) * colours[k as usize].of((x, y)).cast(I32));
    p.define("corrected", [x, y, c], (sum / 256).cast(I16))
}

/// Brightness by a curve, as u8.
fn toned(p: &mut Pipeline, corrected: &Func) -> Func {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let (gamma, contrast) = (p.param("gamma", F32), p.param("contrast", F32));
    let (black, white) = (p.param_in("black", I32, 0, 1022), p.param_in("white", I32, 1, 1023));
    let q = 2.0f32 - Expr::float(F32, 2.0).pow(contrast / 100.0);
    let slope = 2.0f32 - &q * 2.0;
    let share = (x - &black).cast(F32) * (1.0f32 / (&white - &black).cast(F32));
    let g = share.clamp(0.0, 1.0).pow(1.0f32 / gamma);
    let rest = 1.0f32 - &g;
    let high = 1.0f32 - (&slope * &rest * &rest + &q * &rest);
    let low = slope * &g * &g + q * &g;
    let curve = (Expr::select(g.gt(0.5), high, low) * 255.0 + 0.5).clamp(0.0, 255.0).cast(U8);
    let level = Expr::from(x);
    let curve = Expr::select(level.gt(white), Expr::int(U8, 255), curve);
    let curve = Expr::select(level.le(black), Expr::int(U8, 0), curve);
    let curve = p.define("curve", [x], curve);
    let level = p.define("level", [x, y, c], corrected.of((x, y, c)).clamp(0, 1023));
    p.define("tone", [x, y, c], curve.of(level.of((x, y, c)).cast(I32)))
}
