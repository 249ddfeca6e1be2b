//! Adaptive homogeneity-directed demosaicking (Hirakawa and Parks 2005): the mosaic is filled in twice, along rows and along columns; at each pixel
//! counts the one that is more alike its surroundings in CIELAB. Medians of the differences between channels then take away what is left of
//! wrong choices.

use super::application::Application;
use super::demosaic::{MOSAIC, by_green, by_pixel, coloured, mosaic};
use super::setup::Setup;
use sumsq::codegen::ScalarType::I32;
use sumsq::codegen::{Constraint, Expr, Func, Pipeline, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "demosaic_ahd",
    about: "a sensor's mosaic of colours to a picture: along rows or columns, where colours change less",
    slots: &[MOSAIC],
    parameters: &[],
    build,
    extents: coloured,
    schedules: schedules!("demosaic_ahd"),
};

/// Pixels that a pixel is compared with.
const BALL: [(i32, i32); 4] = [(-1, 0), (1, 0), (0, -1), (0, 1)];
/// The white of the screen (D65) in the colours of CIE 1931, and the red, green and blue of sRGB, row by row.
const WHITE: [f64; 3] = [0.950456, 1.0, 1.088754];
const XYZ: [[f64; 3]; 3] =
    [[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]];

fn build(_: &Setup) -> Pipeline {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let mut p = Pipeline::new("demosaic_ahd");
    let near = mosaic(&mut p);
    let both = filled(&mut p, &near);
    let alike = homogeneity(&mut p, &both);
    let (along, across) = (alike.of((x, y, 0)), alike.of((x, y, 1)));
    let share = Expr::select(along.gt(&across), 1.0f32, Expr::select(along.lt(across), 0.0f32, 0.5f32));
    let share = p.define("share", [x, y], share);
    let chosen = Expr::lerp(both.of((x, y, c, 1)), both.of((x, y, c, 0)), share.of((x, y)));
    let chosen = p.define("chosen", [x, y, c], chosen);
    let smoothed = smoothed(&mut p, &chosen, &near);
    let output = p.define("output", [x, y, c], smoothed);
    p.output_strided(&output, Constraint::defaults(3));
    p
}

/// All colours (x, y, c, d), filled in along rows (d = 0) and along columns (1).
fn filled(p: &mut Pipeline, near: &Func) -> Func {
    let [x, y, c, d] = Var::all(["x", "y", "c", "d"]);
    let along = |k: i32| Expr::select(Expr::from(d).eq_(0), near.of((x + k, y)), near.of((x, y + k)));
    let (before, after) = (along(-1), along(1));
    let own = near.of((x, y));
    let bent = &own * 2.0 - along(-2) - along(2);
    // No further than the two greens beside.
    let green = ((&before + &after) * 0.5 + bent * 0.25).clamp(before.min(&after), before.max(after));
    let green = p.define("green", [x, y, d], by_green(own.clone(), green));
    let apart = p.define("apart", [x, y, d], own - green.of((x, y, d)));
    let green = green.of((x, y, d));
    let pair = |dx: i32, dy: i32| (apart.of((x + dx, y + dy, d)) + apart.of((x - dx, y - dy, d))) * 0.5;
    let (beside, below) = (&green + pair(1, 0), &green + pair(0, 1));
    let diagonal = &green + (pair(1, 1) + pair(1, -1)) * 0.5;
    let own = near.of((x, y));
    let red = by_pixel(own.clone(), beside.clone(), below.clone(), diagonal.clone());
    let blue = by_pixel(diagonal, below, beside, own);
    p.define("filled", [x, y, c, d], Expr::mux(c, [red, green, blue]))
}

/// The number of pixels around one (x, y, d) that are alike, summed over 3 x 3 pixels.
fn homogeneity(p: &mut Pipeline, both: &Func) -> Func {
    let [x, y, d] = Var::all(["x", "y", "d"]);
    let colour = |row: usize| {
        let sum = (0..3).map(|c| both.of((x, y, c as i32, d)) * ((XYZ[row][c] / WHITE[row]) as f32));
        let t = sum.reduce(|a, b| a + b).unwrap_or_else(|| Expr::from(0));
        let root = t.max(0.008f32).pow(1.0f32 / 3.0);
        Expr::select(t.gt(0.008856f32), root, t * 7.787f32 + (16.0f32 / 116.0))
    };
    let [fx, fy, fz] = [0, 1, 2].map(|row| p.define(["fx", "fy", "fz"][row], [x, y, d], colour(row)));
    let at = |f: &Func| f.of((x, y, d));
    let lab = vec![at(&fy) * 116.0 - 16.0, (at(&fx) - at(&fy)) * 500.0, (at(&fy) - at(&fz)) * 200.0];
    let lab = p.define_tuple("lab", [x, y, d], lab);
    // The change of brightness, and of colour, squared, to a pixel of the ball.
    let change = |k: usize, d: &Expr| {
        let (dx, dy) = BALL[k];
        let part = |n| lab.at(&[x + dx, y + dy, d.clone()], n) - lab.at(&[x.expr(), y.expr(), d.clone()], n);
        (part(0).abs(), part(1) * part(1) + part(2) * part(2))
    };
    // What counts as alike: the larger change along the direction in which it is smaller.
    let along = |d: i32| {
        let (a, b) = (change(2 * d as usize, &d.into()), change(2 * d as usize + 1, &d.into()));
        (a.0.max(b.0), a.1.max(b.1))
    };
    let (rows, columns) = (along(0), along(1));
    let most = p.define_tuple("most", [x, y], vec![rows.0.min(columns.0), rows.1.min(columns.1)]);
    let is_alike = |k: usize| {
        let (bright, coloured) = change(k, &d.expr());
        let most = |n| most.at(&[x.expr(), y.expr()], n);
        bright.le(most(0)).and(coloured.le(most(1))).cast(I32)
    };
    let count = (1..BALL.len()).fold(is_alike(0), |sum, k| sum + is_alike(k));
    let count = p.define("count", [x, y, d], count);
    let column = |k: i32| count.of((x, y + k, d));
    let tall = p.define("tall", [x, y, d], column(-1) + column(0) + column(1));
    let row = |k: i32| tall.of((x + k, y, d));
    p.define("alike", [x, y, d], row(-1) + row(0) + row(1))
}

/// Medians of 3 x 3 differences between the channels: of red and blue to green, then of green to both; what the sensor measured stays.
fn smoothed(p: &mut Pipeline, picture: &Func, near: &Func) -> Expr {
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let of = |c: i32| picture.of((x, y, c));
    let from_green = p.define_tuple("from_green", [x, y], vec![of(0) - of(1), of(2) - of(1)]);
    let own = near.of((x, y));
    let shifted = |f: &Func, n: usize| {
        median(std::array::from_fn(|k| f.at(&[x + (k as i32 % 3 - 1), y + (k as i32 / 3 - 1)], n)))
    };
    let (red, blue) = (of(1) + shifted(&from_green, 0), of(1) + shifted(&from_green, 1));
    let red = by_pixel(own.clone(), red.clone(), red.clone(), red);
    let blue = by_pixel(blue.clone(), blue.clone(), blue, own.clone());
    let others = p.define_tuple("others", [x, y], vec![red, blue]);
    let here = [x.expr(), y.expr()];
    let to_green = vec![of(1) - others.at(&here, 0), of(1) - others.at(&here, 1)];
    let to_green = p.define_tuple("to_green", [x, y], to_green);
    let green = [0, 1].map(|n| others.at(&here, n) + shifted(&to_green, n));
    let green = by_green(own, (&green[0] + &green[1]) * 0.5);
    let all = [others.at(&here, 0), green, others.at(&here, 1)];
    Expr::mux(c, all)
}

/// The median of nine: 19 exchanges of neighbours in place of a sort (Paeth, "Median finding on a 3 x 3 grid", 1990).
fn median(mut v: [Expr; 9]) -> Expr {
    const EXCHANGES: [(usize, usize); 19] = [
        (1, 2),
        (4, 5),
        (7, 8),
        (0, 1),
        (3, 4),
        (6, 7),
        (1, 2),
        (4, 5),
        (7, 8),
        (0, 3),
        (5, 8),
        (4, 7),
        (3, 6),
        (1, 4),
        (2, 5),
        (4, 7),
        (4, 2),
        (6, 4),
        (4, 2),
    ];
    for (a, b) in EXCHANGES {
        (v[a], v[b]) = (v[a].min(&v[b]), v[a].max(&v[b]));
    }
    v[4].clone()
}
