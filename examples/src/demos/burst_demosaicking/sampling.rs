//! The values of pixels of a frame from a picture of other pixels.
//!
//! Both samplers read four pixels each way, with weights that have a derivative everywhere.

use sumsq::codegen::{Expr, ScalarType};

/// Values of pixels lie at their centres.
#[derive(Clone, Copy)]
pub(super) enum Sampler {
    /// Between pixels of the same size: the kernel of Keys, "Cubic convolution interpolation for digital image processing", 1981, with
    /// a = -1/2.
    Cubic,
    /// The mean over a square of twice a pixel's width, the picture linear between its pixels.
    Mean,
}

impl Sampler {
    /// Weights of pixels -1, 0, 1, 2 at a way of `f` from pixel 0 to 1.
    fn weights(self, f: &Expr) -> [Expr; 4] {
        match self {
            Sampler::Cubic => [
                f * (f * (1.0 - f * 0.5) - 0.5),
                f * f * (f * 1.5 - 2.5) + 1.0,
                f * (f * (2.0 - f * 1.5) + 0.5),
                f * f * (f * 0.5 - 0.5),
            ],
            Sampler::Mean => {
                let far = [1.0 - f, f.clone()].map(|f| &f * &f * 0.25);
                let [left, right] = &far;
                [left.clone(), 0.5 - right, 0.5 - left, right.clone()]
            }
        }
    }

    /// The value at `place`, floats, of a picture with the value `pixel(x, y)` in each of its `extents` pixels, at least four each way; and
    /// whether all pixels that count are in it.
    pub fn sample(
        self,
        [u, v]: &[Expr; 2],
        [width, height]: [&Expr; 2],
        pixel: impl Fn(Expr, Expr) -> Expr,
    ) -> (Expr, Expr) {
        let (x, across, sees_x) = self.axis(u, width);
        let (y, down, sees_y) = self.axis(v, height);
        let sum = |weights: &[Expr; 4], term: &dyn Fn(i32) -> Expr| {
            let term = |k: usize| &weights[k] * term(k as i32);
            term(0) + term(1) + term(2) + term(3)
        };
        let value = sum(&down, &|j| sum(&across, &|i| pixel(&x + i, &y + j)));
        (value, sees_x.and(sees_y))
    }

    /// Of one coordinate: the first of four pixels, their weights, and whether all are in the picture.
    fn axis(self, u: &Expr, extent: &Expr) -> (Expr, [Expr; 4], Expr) {
        let first = (u.floor().cast(ScalarType::I32) - 1).clamp(0, extent - 4);
        let weights = self.weights(&(u - (&first + 1).cast(ScalarType::F32)));
        let sees = u.ge(1.0f32).and(u.lt((extent - 2).cast(ScalarType::F32)));
        (first, weights, sees)
    }
}
