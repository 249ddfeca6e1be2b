//! IEEE half precision: rounding to it, and its bits.
//!
//! 1 sign, 5 exponent and 10 stored significand bits: least subnormal 2^-24, greatest finite value 65504.

/// Bits of infinity.
const INFINITY: u16 = 0x7c00;
/// Bits of a quiet NaN.
const NAN: u16 = 0x7e00;

/// The nearest half, ties to even, as f64.
pub fn round(v: f64) -> f64 {
    if !v.is_finite() || v == 0.0 {
        return v;
    }
    // Exponent of the last kept bit; below 2^-14 the spacing no longer shrinks.
    let exponent = ((v.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let ulp = 2f64.powi((exponent - 10).max(-24));
    let rounded = (v / ulp).round_ties_even() * ulp;
    if rounded.abs() > 65504.0 { f64::INFINITY.copysign(v) } else { rounded.copysign(v) }
}

/// The bits of the nearest half.
pub fn to_bits(v: f64) -> u16 {
    let sign = (v.to_bits() >> 48) as u16 & 0x8000;
    let magnitude = round(v).abs();
    let bits = if magnitude.is_nan() {
        NAN
    } else if magnitude.is_infinite() {
        INFINITY
    } else if magnitude < 2f64.powi(-14) {
        (magnitude * 2f64.powi(24)) as u16
    } else {
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023 + 15) as u16;
        exponent << 10 | (magnitude.to_bits() >> 42) as u16 & 0x3ff
    };
    sign | bits
}

/// The value of a half's bits.
pub fn from_bits(bits: u16) -> f64 {
    let significand = (bits & 0x3ff) as f64;
    let magnitude = match (bits >> 10) & 0x1f {
        0 => significand * 2f64.powi(-24),
        31 if significand == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        e => (1024.0 + significand) * 2f64.powi(e as i32 - 25),
    };
    if bits & 0x8000 != 0 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_nearest_even() {
        for (v, r) in [
            (2049.0, 2048.0),
            (2051.0, 2052.0),
            (65519.9, 65504.0),
            (65520.0, f64::INFINITY),
            (2f64.powi(-25), 0.0),
            (1.5 * 2f64.powi(-24), 2f64.powi(-23)),
            (0.1, 0.0999755859375),
        ] {
            assert_eq!(round(v), r, "{v}");
        }
        assert!(round(-1e-30).is_sign_negative());
    }

    #[test]
    fn all_bits_go_there_and_back() {
        for bits in 0..=u16::MAX {
            let v = from_bits(bits);
            assert_eq!(round(v).to_bits(), v.to_bits(), "{bits:#x}");
            let back = to_bits(v);
            assert!(back == bits || v.is_nan() && back & 0x7fff == NAN, "{bits:#x} became {back:#x}");
        }
    }
}
