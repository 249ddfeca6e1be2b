//! Means of 3 x 3 pixels.

use crate::common::{Plain, Within, assembles, check, same_bits_from_c, whole_input};

/// The mean of rows of three, then of columns of three, each rounded down; the picture's edge is repeated.
pub fn expected(input: &Plain, extents: &[i32]) -> Vec<f64> {
    let row = |x: i32, y: i32| (0..3).map(|i| input.at(&[x + i, y]) as i64).sum::<i64>() / 3;
    let mean = |p: &Vec<i32>| ((0..3).map(|j| row(p[0], p[1] + j)).sum::<i64>() / 3) as f64;
    Plain::points(extents).iter().map(mean).collect()
}

#[test]
fn is_the_mean() {
    for (extents, bits) in [([101, 37], 8), ([33, 70], 12), ([40, 33], 16), ([1, 1], 8)] {
        let input = whole_input(&extents, 1 << bits);
        check(
            "blur",
            &[],
            bits,
            std::slice::from_ref(&input),
            &expected(&Plain::of(&input), &extents),
            Within::Exactly,
        );
    }
}

#[test]
fn assembles_for_a_gpu() {
    assembles("blur", &[]);
}

#[test]
fn from_c() {
    same_bits_from_c("blur", &[], 8, &[whole_input(&[67, 41], 256)]);
}
