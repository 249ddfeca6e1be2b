//! Maxima in discs.

use crate::common::{Plain, Within, assembles, check, real_input, same_bits_from_c};

/// The maximum over rows of columns: at distance dx one of half height h, which counts the dy >= 0 inside of the disc.
pub fn expected(input: &Plain, extents: &[i32], radius: i32) -> Vec<f64> {
    let edge = (f64::from(radius) + 0.25).powi(2);
    let value = |p: &Vec<i32>| {
        let mut most = f64::NEG_INFINITY;
        for dx in -radius..=radius {
            let h = (0..=radius).take_while(|&dy| f64::from(dx * dx + dy * dy) < edge).count() as i32;
            for dy in -h..=h {
                most = most.max(input.at(&[p[0] + dx, p[1] + dy, p[2]]));
            }
        }
        most
    };
    Plain::points(extents).iter().map(value).collect()
}

#[test]
fn is_the_maximum() {
    for (extents, radius) in [([67, 41, 3], 26), ([97, 135, 1], 15)] {
        let input = real_input(&extents);
        let expected = expected(&Plain::of(&input), &extents, radius);
        check("max_filter", &[("radius", &radius.to_string())], 8, &[input], &expected, Within::Exactly);
    }
}

#[test]
fn elsewhere() {
    assembles("max_filter", &[]);
    same_bits_from_c("max_filter", &[], 8, &[real_input(&[65, 20, 3])]);
}
