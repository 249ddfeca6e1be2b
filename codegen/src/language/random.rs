//! Numbers that look random: functions of a seed and of coordinates alone, so that a place has the same number under every schedule, for every
//! number of threads and in every process.
//!
//! The coordinates go one after the other into a state of 32 bits, which a bijection mixes behind each: xors with shifts of itself and products with
//! odd numbers (those of C. Wellons' search for integer hashes of low bias). Two seeds give unrelated numbers.

use crate::expr::Expr;
use crate::func::Coordinates;
use crate::types::ScalarType::{F32, I32, U32};

impl Expr {
    /// An integer of 32 bits that looks random at these coordinates, u32; all are equally likely.
    ///
    /// ```
    /// use sumsq_codegen::{Expr, Pipeline, Var};
    ///
    /// let [x, y] = Var::all(["x", "y"]);
    /// let mut p = Pipeline::new("noise");
    /// let noise = p.define("noise", [x, y], Expr::random_f32(7, (x, y)) - 0.5f32);
    /// p.output(&noise);
    /// ```
    pub fn random_u32(seed: u32, at: impl Coordinates) -> Expr {
        let start = mixed(constant(seed));
        at.list()
            .into_iter()
            .fold(start, |state, c| mixed(state * constant(0x9e37_79b9) + c.cast(I32).cast(U32)))
    }

    /// As [`Expr::random_u32`], a multiple of 2^-24 in [0, 1), f32.
    pub fn random_f32(seed: u32, at: impl Coordinates) -> Expr {
        // As a signed integer, which processors convert in one instruction.
        Expr::random_u32(seed, at).shr(constant(8)).cast(I32).cast(F32) * (1.0 / 16_777_216.0f32)
    }
}

fn constant(v: u32) -> Expr {
    Expr::int(U32, i64::from(v))
}

/// A bijection of u32.
fn mixed(v: Expr) -> Expr {
    let v = v.xor(v.shr(constant(16))) * constant(0x7feb_352d);
    let v = v.xor(v.shr(constant(15))) * constant(0x846c_a68b);
    v.xor(v.shr(constant(16)))
}
