//! Responses of corners.

use crate::common::{Plain, Within, assembles, check, real_input, same_bits_from_c};

/// The picture's edge is repeated; slopes are those of the operator of Sobel, a twelfth of it.
pub fn expected(of: &Plain, extents: &[i32]) -> Vec<f64> {
    let gray =
        |x: i32, y: i32| 0.299 * of.at(&[x, y, 0]) + 0.587 * of.at(&[x, y, 1]) + 0.114 * of.at(&[x, y, 2]);
    let weights = [(-1, 1.0), (0, 2.0), (1, 1.0)];
    let ix = |x: i32, y: i32| {
        weights.iter().map(|(d, w)| w * (gray(x + 1, y + d) - gray(x - 1, y + d))).sum::<f64>() / 12.0
    };
    let iy = |x: i32, y: i32| {
        weights.iter().map(|(d, w)| w * (gray(x + d, y + 1) - gray(x + d, y - 1))).sum::<f64>() / 12.0
    };
    let value = |p: &Vec<i32>| {
        let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
        for k in 0..9 {
            let (x, y) = (p[0] + k % 3 - 1, p[1] + k / 3 - 1);
            xx += ix(x, y) * ix(x, y);
            yy += iy(x, y) * iy(x, y);
            xy += ix(x, y) * iy(x, y);
        }
        xx * yy - xy * xy - 0.04 * (xx + yy) * (xx + yy)
    };
    Plain::points(&extents[..2]).iter().map(value).collect()
}

#[test]
fn responds() {
    for extents in [[45, 37, 3], [33, 70, 3]] {
        let input = real_input(&extents);
        let expected = expected(&Plain::of(&input), &extents);
        check("harris", &[], 8, &[input], &expected, Within::Range(1e-4));
    }
}

#[test]
fn elsewhere() {
    assembles("harris", &[]);
    same_bits_from_c("harris", &[], 8, &[real_input(&[35, 20, 3])]);
}
