//! Non-local means.

use crate::common::{Plain, Within, assembles, check, given, real_input, same_bits_from_c};

pub fn expected(input: &Plain, extents: &[i32], patch: i32, search: i32, sigma: f64) -> Vec<f64> {
    let around = |n: i32| -(n / 2)..n - n / 2;
    let value = |p: &Vec<i32>| {
        let (mut sum, mut weights) = (0.0, 0.0);
        for dy in around(search) {
            for dx in around(search) {
                let mut apart = 0.0;
                for j in around(patch) {
                    for i in around(patch) {
                        // The edge is repeated for the pixel and its counterpart, each for itself.
                        let at = |x: i32, y: i32, c: i32| input.at(&[x, y, c]);
                        let (x, y) = (p[0] + i, p[1] + j);
                        apart += (0..3).map(|c| (at(x, y, c) - at(x + dx, y + dy, c)).powi(2)).sum::<f64>();
                    }
                }
                let weight = (-apart / (sigma * sigma * f64::from(patch * patch))).exp();
                sum += weight * input.at(&[p[0] + dx, p[1] + dy, p[2]]);
                weights += weight;
            }
        }
        (sum / weights).clamp(0.0, 1.0)
    };
    Plain::points(extents).iter().map(value).collect()
}

#[test]
fn is_the_weighted_mean() {
    for (extents, patch, search, sigma) in [([69, 11, 3], 7, 7, 0.4), ([65, 34, 3], 4, 3, 0.3)] {
        let input = real_input(&extents);
        let expected = expected(&Plain::of(&input), &extents, patch, search, sigma);
        let params =
            [("patch", patch.to_string()), ("search", search.to_string()), ("sigma", sigma.to_string())];
        check("nl_means", &given(&params), 8, &[input], &expected, Within::Range(1e-4));
    }
}

#[test]
fn elsewhere() {
    assembles("nl_means", &[]);
    same_bits_from_c("nl_means", &[("search", "3")], 8, &[real_input(&[65, 20, 3])]);
}
