//! Sharpened luminance.

use crate::common::{Plain, Within, assembles, check, real_input, same_bits_from_c};
use sumsq_examples::pipelines::{Planar, Values};

/// Values in (0, 1]: the luminance divides.
pub fn input(extents: &[i32]) -> Planar {
    let mut input = real_input(extents);
    if let Values::F32(v) = &mut input.values {
        v.iter_mut().for_each(|v| *v = v.max(1.0 / 64.0));
    }
    input
}

pub fn expected(of: &Plain, extents: &[i32]) -> Vec<f64> {
    let gray =
        |x: i32, y: i32| 0.299 * of.at(&[x, y, 0]) + 0.587 * of.at(&[x, y, 1]) + 0.114 * of.at(&[x, y, 2]);
    let k = |i: i32| {
        let i = f64::from(i);
        (-i * i / 4.5).exp() / (1.5 * (2.0 * std::f64::consts::PI).sqrt())
    };
    let value = |p: &Vec<i32>| {
        let (x, y) = (p[0], p[1]);
        let mut smooth = 0.0;
        for i in -3..=3 {
            for j in -3..=3 {
                smooth += k(i) * k(j) * gray(x + i, y + j);
            }
        }
        (2.0 * gray(x, y) - smooth) / gray(x, y) * of.at(p)
    };
    Plain::points(extents).iter().map(value).collect()
}

#[test]
fn sharpens() {
    for extents in [[45, 37, 3], [70, 33, 3]] {
        let input = input(&extents);
        let expected = expected(&Plain::of(&input), &extents);
        check("unsharp", &[], 8, &[input], &expected, Within::Range(1e-4));
    }
}

#[test]
fn elsewhere() {
    assembles("unsharp", &[]);
    same_bits_from_c("unsharp", &[], 8, &[input(&[35, 20, 3])]);
}
