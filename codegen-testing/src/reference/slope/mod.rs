//! Slopes of the operators on floats, by hand: apart from the engine's table of derivatives, so that either can tell of faults in the other.
//!
//! An operand is `(x, dx)`: its value, rounded to its type, and its slope, which is f64 and never rounded. An operand of
//! slope 0 contributes 0, however steep the operator is there; so does one that the result does not depend on, however large its slope.
//! At singular points the language fixes the slope:
//!
//! | operator | slope |
//! |---|---|
//! | min, max | that of the operand whose value is returned |
//! | abs | +1 for x >= 0, else -1 |
//! | sqrt | 0 at 0 |
//! | pow(x, c) | by x: 0 if c = 0, and at x = 0 if 0 < c < 1 |
//! | atan2 | 0 at (0, 0) |
//! | floor, ceil, round, trunc | 0 |
//! | a mod b | `da - floor(a / b) db` |

use super::value;
use sumsq_codegen::expr::{BinaryOp, UnaryOp};
use sumsq_codegen::types::ScalarType;

/// A value and its slope.
type Moving = (f64, f64);

/// `partial * slope`; 0 if the operand does not move.
fn along(partial: f64, slope: f64) -> f64 {
    if slope == 0.0 { 0.0 } else { partial * slope }
}

/// Slope of `op x`.
pub fn unary(op: UnaryOp, (x, dx): Moving) -> f64 {
    use UnaryOp::*;
    let partial = match op {
        Not | Floor | Ceil | Round | Trunc | IsNan => return 0.0,
        Sqrt if x == 0.0 => return 0.0,
        Neg => -1.0,
        Abs if x >= 0.0 => 1.0,
        Abs => -1.0,
        // Factors apart: 1 - x^2 cancels next to 1, and x^2 overflows.
        Acos => -1.0 / ((1.0 - x) * (1.0 + x)).sqrt(),
        Asin => 1.0 / ((1.0 - x) * (1.0 + x)).sqrt(),
        Acosh => 1.0 / ((x - 1.0).sqrt() * (x + 1.0).sqrt()),
        Asinh => 1.0 / x.hypot(1.0),
        Atan => 1.0 / (1.0 + x * x),
        Atanh => 1.0 / ((1.0 - x) * (1.0 + x)),
        Cos => -x.sin(),
        Cosh => x.sinh(),
        Exp => x.exp(),
        Log => 1.0 / x,
        Log10 => 1.0 / (x * std::f64::consts::LN_10),
        Sin => x.cos(),
        Sinh => x.cosh(),
        Sqrt => 0.5 / x.sqrt(),
        Tan => 1.0 / (x.cos() * x.cos()),
        Tanh => 1.0 / (x.cosh() * x.cosh()),
    };
    along(partial, dx)
}

/// Slope of `x op y` in type `ty`, whose rounding decides between the pieces of a modulus.
pub fn binary(op: BinaryOp, ty: ScalarType, (x, dx): Moving, (y, dy): Moving) -> f64 {
    use BinaryOp::*;
    match op {
        Add => dx + dy,
        Sub => dx - dy,
        Mul => along(y, dx) + along(x, dy),
        Div => along(1.0 / y, dx) - along(x / y / y, dy),
        Mod => dx - along(value::floored_quotient(ty, x, y), dy),
        Min | Max if value::first_is_chosen(op, x, y) => dx,
        Min | Max => dy,
        Atan2 => atan2((x, dx), (y, dy)),
        Pow => power((x, dx), (y, dy)),
        And | Or | Xor | Shl | Shr | Eq | Ne | Lt | Le | Gt | Ge => 0.0,
    }
}

/// Slope of `a * b + c`.
pub fn fma((a, da): Moving, (b, db): Moving, dc: f64) -> f64 {
    along(b, da) + along(a, db) + dc
}

/// Slope of the angle of `(x, y)`: what moves across the radius, by the radius.
fn atan2((y, dy): Moving, (x, dx): Moving) -> f64 {
    let radius = y.hypot(x);
    if radius == 0.0 {
        return 0.0;
    }
    along(x / radius / radius, dy) - along(y / radius / radius, dx)
}

/// Slope of `x^c`.
fn power((x, dx): Moving, (c, dc): Moving) -> f64 {
    let flat = c == 0.0 || (x == 0.0 && 0.0 < c && c < 1.0);
    let by_base = if flat { 0.0 } else { along(c * x.powf(c - 1.0), dx) };
    by_base + along(x.powf(c) * x.ln(), dc)
}

#[cfg(test)]
mod tests;
