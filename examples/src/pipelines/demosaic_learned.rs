//! Demosaicking by filters that are learned (Li et al., "Differentiable programming for image processing and deep learning in Halide", 2018, section
//! 5.2.1): AHD relaxed. In place of two directions there are some filters that fill in green, and beside each a filter of edges: the
//! weaker its response around a pixel, the more its green counts there. Red and blue follow from their difference to green.

use super::application::{Application, Planes, Slot};
use super::demosaic::{MOSAIC, by_green, by_pixel, coloured, mosaic};
use super::demosaic_filters::Filters;
use super::planar::Planar;
use super::setup::{Parameter, Setup};
use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, RDom, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "demosaic_learned",
    about: "a sensor's mosaic of colours to a picture: by filters that were trained on photographs",
    slots: &[
        MOSAIC,
        array("green", "filters of green, of shape (K, 5, 5); K = 15: (15, 7, 7)").or(|s| trained(s, 0)),
        array("edges", "filters of edges, one for each of green, of the same shape").or(|s| trained(s, 1)),
        array("beside", "filter of red in rows of red, of blue in its own, of shape (3, 2); K = 15: (3, 4)")
            .or(|s| trained(s, 2)),
        array(
            "below",
            "filter of red in columns of red, of blue in its own, of shape (2, 3); K = 15: (4, 3)",
        )
        .or(|s| trained(s, 3)),
        array("diagonal", "filter of red at blue, of blue at red, of shape (2, 2); K = 15: (4, 4)")
            .or(|s| trained(s, 4)),
    ],
    parameters: &[Parameter::word("filters", "how many (K)", &["2", "9", "15"])],
    build,
    extents: |setup, inputs| {
        for ((name, expected), came) in Filters::arrays(count(setup)).iter().zip(inputs.iter().skip(1)) {
            if came != expected {
                return Err(format!("{name}: expected sizes {expected:?}, came {came:?}, x first"));
            }
        }
        coloured(setup, inputs)
    },
    schedules: schedules!("demosaic_learned"),
};

/// Response to edges, squared and summed, below which no filter is preferred.
const FAINT: f32 = 1e-3;

const fn array(name: &'static str, about: &'static str) -> Slot {
    Slot::new(name, about, Planes::Array)
}

/// Number of the filters.
fn count(setup: &Setup) -> i32 {
    setup.word("filters").parse().unwrap_or(2)
}

fn trained(setup: &Setup, k: usize) -> Planar {
    Filters::trained(count(setup)).array(k)
}

/// An array of filters, of constant size.
fn filters(p: &mut Pipeline, (name, extents): &(&'static str, Vec<i32>)) -> Input {
    let sized = |input: Input, (d, &n): (usize, &i32)| {
        let size = Constraint::defaults(extents.len())[d].clone().min(0).extent(n);
        input.constrain(d, size)
    };
    p.input(extents.iter().enumerate().fold(Input::strided(*name, &[F32], extents.len()), sized))
}

fn build(setup: &Setup) -> Pipeline {
    let [x, y, c, k] = Var::all(["x", "y", "c", "k"]);
    let mut p = Pipeline::new("demosaic_learned");
    let near = mosaic(&mut p);
    let arrays = Filters::arrays(count(setup));
    let [green, edges, beside, below, diagonal] = std::array::from_fn(|k| filters(&mut p, &arrays[k]));
    let mut filtered = |name: &str, taps: &Input, (_, extents): &(&str, Vec<i32>)| {
        let (width, height) = (extents[0], extents[1]);
        let r = RDom::new([("i", 0, width), ("j", 0, height)]);
        let (i, j) = (r.var(0), r.var(1));
        let at = near.of((x + &i - width / 2, y + &j - height / 2));
        let sum = p.define(name, [x, y, k], 0.0f32);
        p.add_to(&sum, (x, y, k), at * taps.of((i, j, k)), &r)
    };
    let candidate = filtered("candidate", &green, &arrays[0]);
    let response = filtered("response", &edges, &arrays[1]);
    let square = |dx: i32, dy: i32| response.of((x + dx, y + dy, k)) * response.of((x + dx, y + dy, k));
    let tall = p.define("tall", [x, y, k], square(0, -1) + square(0, 0) + square(0, 1));
    let around = tall.of((x - 1, y, k)) + tall.of((x, y, k)) + tall.of((x + 1, y, k));
    let weight = p.define("share", [x, y, k], 1.0f32 / (around + FAINT));
    let r = RDom::new([("n", 0, count(setup))]);
    let of = |f: &Func| f.of((x, y, r.var(0)));
    let sums = p.define_tuple("sums", [x, y], vec![0.0f32.into(), 0.0f32.into()]);
    let at = [x.expr(), y.expr()];
    let terms = [of(&weight) * of(&candidate), of(&weight)];
    let terms = (0..2).zip(terms).map(|(n, term)| sums.at(&at, n) + term).collect();
    let sums = p.func(sums.update(at.to_vec(), terms, r));
    let mean = sums.at(&at, 0) / sums.at(&at, 1);
    let own = near.of((x, y));
    let green = p.define("filled", [x, y], by_green(own.clone(), mean));
    let apart = p.define("apart", [x, y], &own - green.of((x, y)));

    // Where there is one colour, it is in every other pixel: taps lie two pixels apart.
    let mut coloured = |name: &str, taps: &Input, (_, extents): &(&str, Vec<i32>)| {
        let (width, height) = (extents[0], extents[1]);
        let tap = |n: i32| {
            let (i, j) = (n % width, n / width);
            apart.of((x + (2 * i + 1 - width), y + (2 * j + 1 - height))) * taps.of((i, j))
        };
        p.define(name, [x, y], (1..width * height).fold(tap(0), |sum, n| sum + tap(n)) + green.of((x, y)))
    };
    let beside = coloured("of_beside", &beside, &arrays[2]).of((x, y));
    let below = coloured("of_below", &below, &arrays[3]).of((x, y));
    let diagonal = coloured("of_diagonal", &diagonal, &arrays[4]).of((x, y));
    let red = by_pixel(own.clone(), beside.clone(), below.clone(), diagonal.clone());
    let blue = by_pixel(diagonal, below, beside, own);
    let output = p.define("output", [x, y, c], Expr::mux(c, [red, green.of((x, y)), blue]));
    p.output_strided(&output, Constraint::defaults(3));
    p
}
