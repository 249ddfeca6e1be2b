//! Powers as products, and functions of f32 that trade digits for time.
//!
//! All are plain arithmetic: no table, no instruction that gives another number on another processor. So their values are the same to
//! the bit everywhere, but where a pipeline is `relaxed`, as of any expression.
//!
//! | function | largest error (tested bound) | for |
//! |---|---|---|
//! | `fast_exp` | 5e-7 of the value | -87.3 to 88.7; 0 below, infinite above, 0 of NaN |
//! | `fast_log` | 5e-7 of the value | normal numbers above 0; lesser ones, and NaN, count as 1.18e-38 |
//! | `fast_pow` | (1 + abs(y log x)) 5e-7 of the value | x above 0, as `fast_log`; 0 of other x |
//! | `fast_inverse` | 3e-7 of the value | magnitudes from 2^-125 to 2^125; of others some number |
//! | `fast_inverse_sqrt` | 1e-6 of the value | normal numbers above 0; of others, some number |
//!
//! Of f64 and f16 they are the function itself.

use crate::expr::Expr;
use crate::types::ScalarType::{self, F32, I32, U32};

impl Expr {
    /// `self` to the power of `n`, as products: those of squares (squares of squares, ..) of `self` that `n` says in binary, the lowest first. For
    /// negative `n` the reciprocal of that; 1 for 0.
    pub fn powi(&self, n: i32) -> Expr {
        let one = Expr::whole(self.ty(), 1);
        let (mut rest, mut square, mut product) = (n.unsigned_abs(), self.clone(), None::<Expr>);
        while rest > 0 {
            if rest & 1 == 1 {
                product = Some(product.map_or(square.clone(), |p| p * &square));
            }
            rest >>= 1;
            if rest > 0 {
                square = &square * &square;
            }
        }
        match product {
            None => one,
            Some(p) if n < 0 => one / p,
            Some(p) => p,
        }
    }

    /// About the exponential function: e^x = 2^k e^r with |r| at most log(2) / 2, of which a polynomial is taken.
    pub fn fast_exp(&self) -> Expr {
        if !is_single(self) {
            return self.exp();
        }
        let x = self.max(-88.0f32).min(89.0f32);
        let k = (&x * std::f32::consts::LOG2_E).round();
        // log(2) in two parts, of which the first has so few digits that its product is exact.
        let r = x - &k * 0.693_359_4f32 - &k * -2.121_944_4e-4f32;
        let p = polynomial(&r, &[0.008_312_501, 0.041_890_33, 0.166_671_16, 0.499_992_3]);
        let value = &r * &r * p + &r + 1.0f32;
        let biased = (k + 127.0f32).cast(I32).clamp(0, 255);
        value * biased.shl(23).reinterpret(F32)
    }

    /// About the natural logarithm: that of 2^k m is k log(2) + log(m), for m from 2/3 to 4/3 a polynomial.
    pub fn fast_log(&self) -> Expr {
        if !is_single(self) {
            return self.log();
        }
        let bits = self.max(f32::MIN_POSITIVE).reinterpret(I32);
        let two_thirds = (2.0f32 / 3.0).to_bits() as i32;
        let above = bits - two_thirds;
        let k = above.shr(23).cast(F32);
        let f = (above.and(0x7f_ffff) + two_thirds).reinterpret(F32) - 1.0f32;
        let p = polynomial(
            &f,
            &[
                -0.152_668_1,
                0.169_905_51,
                -0.164_408_12,
                0.198_181_7,
                -0.250_063_24,
                0.333_367_35,
                -0.499_999_6,
            ],
        );
        &f * &f * p + f + k * std::f32::consts::LN_2
    }

    /// About `self` to the power of `y`, by [`Expr::fast_log`] and [`Expr::fast_exp`].
    pub fn fast_pow(&self, y: impl Into<Expr>) -> Expr {
        let y = y.into();
        if !is_single(self) {
            return self.pow(y);
        }
        let value = (self.fast_log() * y).fast_exp();
        Expr::select(self.gt(0.0f32), value, 0.0f32)
    }

    /// About `1 / self`: a guess by the exponent, and two steps of Newton's method, the first with constants that fit the guess (Moroz, Samotyy,
    /// "Efficient floating-point division for digital signal processing application", 2019).
    pub fn fast_inverse(&self) -> Expr {
        if !is_single(self) {
            return Expr::whole(self.ty(), 1) / self;
        }
        let y = (Expr::int(U32, 0x7eb5_3567) - self.reinterpret(U32)).reinterpret(F32);
        let y = &y * 1.939_597_4f32 * (Expr::from(1.436_142f32) - self * &y);
        &y * (Expr::from(2.0f32) - self * &y)
    }

    /// About `1 / sqrt(self)`: as [`Expr::fast_inverse`] (Moroz, Walczyk, Hrynchyshyn, Holimath, Cieslinski, "Fast calculation of inverse square root
    /// with the use of magic constant", 2018).
    pub fn fast_inverse_sqrt(&self) -> Expr {
        if !is_single(self) {
            return Expr::whole(self.ty(), 1) / self.sqrt();
        }
        let y = (Expr::int(U32, 0x5f1f_fff9) - self.reinterpret(U32).shr(1)).reinterpret(F32);
        let y = &y * (Expr::from(2.389_244_6f32) - self * &y * &y) * 0.703_952_25f32;
        &y * (Expr::from(1.5f32) - self * 0.5f32 * &y * &y)
    }
}

fn is_single(e: &Expr) -> bool {
    e.ty().scalar == ScalarType::F32
}

/// The polynomial with these coefficients, that of the highest power first.
fn polynomial(x: &Expr, coefficients: &[f32]) -> Expr {
    let Some((&first, rest)) = coefficients.split_first() else { return Expr::from(0.0f32) };
    rest.iter().fold(Expr::from(first), |p, &c| p * x + c)
}
