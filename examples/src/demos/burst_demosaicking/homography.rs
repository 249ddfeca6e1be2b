//! Homographies near the identity, eight numbers each, all in pixels: the distances by which they move what is half a picture's width away
//! from its centre.
//!
//! With X = x - cx, Y = y - cy and h half of the width:
//! u = cx + (X + a0 X/h + a1 Y/h + a2) / d, v = cy + (Y + a3 X/h + a4 Y/h + a5) / d, d = 1 + (a6 X/h + a7 Y/h) / h.

use sumsq::codegen::{Expr, ScalarType};

/// The eight numbers; zeros are the identity.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Homography(pub [f64; 8]);

impl Homography {
    /// The point that (x, y) goes to, in a picture of this size.
    pub fn apply(&self, [x, y]: [f64; 2], [width, height]: [usize; 2]) -> [f64; 2] {
        let a = &self.0;
        let half = 0.5 * width as f64;
        let centre = [width, height].map(|n| 0.5 * (n as f64 - 1.0));
        let (dx, dy) = (x - centre[0], y - centre[1]);
        let (nx, ny) = (dx / half, dy / half);
        let d = 1.0 + (a[6] * nx + a[7] * ny) / half;
        [
            centre[0] + (dx + a[0] * nx + a[1] * ny + a[2]) / d,
            centre[1] + (dy + a[3] * nx + a[4] * ny + a[5]) / d,
        ]
    }

    /// The same in a picture of `factor` times the size.
    pub fn scaled(&self, factor: f64) -> Homography {
        Homography(self.0.map(|a| factor * a))
    }
}

/// The same as expressions: where (x, y) of a picture of this size goes, for `a(k)` the k-th number.
pub(super) fn moved(a: &dyn Fn(i32) -> Expr, [x, y]: [&Expr; 2], [width, height]: [&Expr; 2]) -> [Expr; 2] {
    let float = |e: &Expr| e.cast(ScalarType::F32);
    let half = float(width) * 0.5;
    let centre = [width, height].map(|n| (float(n) - 1.0) * 0.5);
    let (dx, dy) = (float(x) - &centre[0], float(y) - &centre[1]);
    let (nx, ny) = (&dx / &half, &dy / &half);
    let d = (a(6) * &nx + a(7) * &ny) / half + 1.0;
    let u = (dx + a(0) * &nx + a(1) * &ny + a(2)) / &d;
    let v = (dy + a(3) * &nx + a(4) * &ny + a(5)) / &d;
    [u + &centre[0], v + &centre[1]]
}
