//! Bilateral guided upsampling (Chen, Adams, Wadhwa, Hasinoff 2016): a filter that ran on a small picture is applied to the large one, as an
//! affine map of colours for each cell of a bilateral grid, fitted to the small pictures before and after.

use super::application::{Application, Planes, Slot};
use super::edge;
use super::setup::{Parameter, Setup};
use sumsq::codegen::ScalarType::{F32, I32};
use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, RDom, Source, Var};

pub(super) const APPLICATION: Application = Application {
    name: "guided_upsampling",
    about: "a filter seen on a small picture, applied to the large one",
    slots: &[
        Slot::new("slice_loc", "the large picture", Planes::Colour),
        Slot::new("splat_loc", "the small picture", Planes::Colour),
        Slot::new("values", "the small picture, filtered", Planes::Colour),
    ],
    parameters: &[
        Parameter::real("r_sigma", "difference in brightness that is an edge", 0.125, 0.02, 1.0),
        Parameter::whole("s_sigma", "width of a cell, in pixels of the small picture", 16, 1, 256),
    ],
    build,
    extents: |_, inputs| match inputs {
        [large, small, filtered] if small == filtered => Ok(large.clone()),
        _ => Err("the small pictures differ in size".to_string()),
    },
    schedules: schedules!("guided_upsampling"),
};

fn gray(of: &impl Source, x: Expr, y: Expr) -> Expr {
    let at = |c: i32| of.of((&x, &y, c));
    at(0) * 0.25 + at(1) * 0.5 + at(2) * 0.25
}

fn build(_: &Setup) -> Pipeline {
    let [x, y, z, c, k] = Var::all(["x", "y", "z", "c", "k"]);
    let mut p = Pipeline::new("guided_upsampling");
    let slice = p.input(Input::strided("slice_loc", &[F32], 3));
    let splat = p.input(Input::strided("splat_loc", &[F32], 3));
    let values = p.input(Input::strided("values", &[F32], 3));
    let per_bin = 1.0f32 / p.param("r_sigma", F32);
    let cell = p.param_in("s_sigma", I32, 1, 256);
    let s = edge(&mut p, "s", &splat);
    let v = edge(&mut p, "v", &values);

    let r = RDom::new([("rx", Expr::from(0), cell.clone()), ("ry", Expr::from(0), cell.clone())]);
    let sx = x * cell.clone() + r.var(0) - &cell / 2;
    let sy = y * cell.clone() + r.var(1) - &cell / 2;
    let bin = (gray(&s, sx.clone(), sy.clone()).clamp(0.0, 1.0) * &per_bin).round().cast(I32);
    let (before, after) = ([0, 1, 2].map(|c| s.of((&sx, &sy, c))), [0, 1, 2].map(|c| v.of((&sx, &sy, c))));
    let one = Expr::from(1.0f32);
    // The upper triangle of the products of (before, 1) with itself, by rows; then those of each colour after.
    let [a, b, d] = &before;
    let mut products = vec![a * a, a * b, a * d, a.clone(), b * b, b * d, b.clone(), d * d, d.clone(), one];
    for colour in &after {
        products.extend(before.each_ref().map(|e| colour * e));
        products.push(colour.clone());
    }
    let grid = p.define("grid", [x, y, z, k], 0.0f32);
    let grid = p.add_to(&grid, (x, y, bin, k), Expr::mux(k, &products), &r);

    let blurz = blurred(&mut p, "blurz", &grid, 2);
    let blury = blurred(&mut p, "blury", &blurz, 1);
    let blurx = blurred(&mut p, "blurx", &blury, 0);
    let line = p.define_tuple("line", [x, y, z], fitted(&|k| blurx.of((x, y, z, k))));

    let over = |n: Expr, by: Expr| (n + &by - 1) / by;
    let wide = over(slice.extent(0), splat.extent(0)).max(over(slice.extent(1), splat.extent(1)));
    let big = (cell * wide).cast(F32);
    let along_y = Expr::from(y).cast(F32) / &big;
    let yi = along_y.floor().cast(I32);
    let share = along_y - yi.cast(F32);
    let row = |dy: i32, k: usize| line.at(&[x.expr(), &yi + dy, z.expr()], k);
    let rows = (0..12).map(|k| Expr::lerp(row(0, k), row(1, k), share.clone())).collect();
    let rows = p.define_tuple("rows", [x, y, z], rows);
    let along_x = Expr::from(x).cast(F32) / big;
    let xi = along_x.floor().cast(I32);
    let share = along_x - xi.cast(F32);
    let column = |dx: i32, k: usize| rows.at(&[&xi + dx, y.expr(), z.expr()], k);
    let columns = (0..12).map(|k| Expr::lerp(column(0, k), column(1, k), share.clone())).collect();
    let columns = p.define_tuple("columns", [x, y, z], columns);

    let depth = gray(&slice, x.into(), y.into()).clamp(0.0, 1.0) * per_bin.trunc();
    let zi = depth.cast(I32);
    let share = depth - zi.cast(F32);
    let plane = |dz: i32, k: usize| columns.at(&[x.expr(), y.expr(), &zi + dz], k);
    let map: Vec<Expr> = (0..12).map(|k| Expr::lerp(plane(0, k), plane(1, k), share.clone())).collect();
    let colour = |c: usize| {
        let linear = (0..3).map(|i| &map[4 * c + i] * slice.of((x, y, i as i32)));
        linear.fold(map[4 * c + 3].clone(), |sum, term| sum + term).clamp(0.0, 1.0)
    };
    let output = p.define("output", [x, y, c], Expr::mux(c, [0, 1, 2].map(colour)));
    p.output_strided(&output, Constraint::defaults(3));
    p
}

/// `of` blurred along a dimension.
fn blurred(p: &mut Pipeline, name: &str, of: &Func, d: usize) -> Func {
    let [x, y, z, k] = Var::all(["x", "y", "z", "k"]);
    let tap = |by: i32| {
        let mut at = [x, y, z, k].map(Expr::from);
        at[d] = &at[d] + by;
        of.at(&at, 0)
    };
    let pair = |by: i32, weight: f32| (tap(-by) + tap(by)) * weight;
    let sum = pair(3, 1.0 / 64.0) + pair(2, 1.0 / 27.0) + pair(1, 1.0 / 8.0) + tap(0);
    p.define(name, [x, y, z, k], sum)
}

/// The affine map of colours, 3 x 4 by rows, that fits the sums of products best: `A X = B` by the factors L D L^T of A, a little of the
/// identity being added to both.
fn fitted(sum: &dyn Fn(i32) -> Expr) -> Vec<Expr> {
    // Entries in and above the diagonal, by rows.
    let a = |i: usize, j: usize| {
        let e = sum(([0, 4, 7, 9][i] + j - i) as i32);
        if i == j { e + 0.1f32 } else { e }
    };
    let b = |i: usize, c: usize| {
        let e = sum((10 + 4 * c + i) as i32);
        if i == c { e + 0.1f32 } else { e }
    };
    // Rows of L left of the diagonal; D and its reciprocals.
    let mut l: [Vec<Expr>; 4] = Default::default();
    let (mut d, mut inverse) = (vec![], vec![]);
    for i in 0..4 {
        let pivot = (0..i).fold(a(i, i), |sum, k| sum - &l[i][k] * &l[i][k] * &d[k]);
        let reciprocal = 1.0f32 / &pivot;
        d.push(pivot);
        for j in i + 1..4 {
            let entry = (0..i).fold(a(i, j), |sum, k| sum - &l[j][k] * &l[i][k] * &d[k]);
            l[j].push(entry * &reciprocal);
        }
        inverse.push(reciprocal);
    }
    let column = |c: usize| {
        let mut x: Vec<Expr> = vec![];
        for (i, row) in l.iter().enumerate() {
            x.push(row.iter().zip(&x).fold(b(i, c), |sum, (l, x)| sum - l * x));
        }
        x.iter_mut().zip(&inverse).for_each(|(x, inverse)| *x = &*x * inverse);
        for i in (0..4).rev() {
            x[i] = (i + 1..4).fold(x[i].clone(), |sum, k| sum - &l[k][i] * &x[k]);
        }
        x
    };
    (0..3).flat_map(column).collect()
}
