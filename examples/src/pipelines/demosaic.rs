//! Pieces of demosaicking that its applications share. The sensor's pattern is RGGB: red where x and y are even, blue where both are odd,
//! green between. Beyond its edge a mosaic goes on as its mirror image about the outermost pixels, which keeps the pattern.

use super::application::{Planes, Slot};
use super::setup::Setup;
use sumsq::codegen::ScalarType::F32;
use sumsq::codegen::{Expr, Func, Input, Pipeline, Var, boundary};

/// The input of all of them.
pub(super) const MOSAIC: Slot =
    Slot::new("mosaic", "the mosaic: rows of red and green, then of green and blue", Planes::One);

/// Colours of the size of the mosaic, which must have a mirror image.
pub(super) fn coloured(_: &Setup, inputs: &[Vec<i32>]) -> Result<Vec<i32>, String> {
    match inputs {
        [mosaic, ..] if mosaic[0] > 1 && mosaic[1] > 1 => Ok(vec![mosaic[0], mosaic[1], 3]),
        _ => Err("the mosaic is smaller than 2 x 2 pixels".into()),
    }
}

/// The mosaic over the whole plane, as Func `near`.
pub(super) fn mosaic(p: &mut Pipeline) -> Func {
    let input = p.input(Input::strided(MOSAIC.name, &[F32], 2));
    p.func(boundary::mirror_interior("near", &input, &input.domain()))
}

/// A value that is `red` at red pixels, `beside` at the green ones beside them, `below` at the green ones below them, and `blue` at blue ones.
pub(super) fn by_pixel(red: Expr, beside: Expr, below: Expr, blue: Expr) -> Expr {
    let [x, y] = Var::all(["x", "y"]);
    let even = (x % 2).eq_(0);
    Expr::select((y % 2).eq_(0), Expr::select(&even, red, beside), Expr::select(even, below, blue))
}

/// A value that is `green` at green pixels and `other` at the others.
pub(super) fn by_green(green: Expr, other: Expr) -> Expr {
    let [x, y] = Var::all(["x", "y"]);
    Expr::select((x % 2).eq_(y % 2), other, green)
}
