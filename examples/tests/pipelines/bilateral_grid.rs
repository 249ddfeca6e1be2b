//! Bilateral grids.

use crate::common::{Grid, Plain, Within, assembles, blurred, check, real_input, same_bits_from_c, sampled};

pub fn expected(input: &Plain, extents: &[i32], r_sigma: f64) -> Vec<f64> {
    let value = |x: i32, y: i32| input.at(&[x, y]).clamp(0.0, 1.0);
    let mut grid = Grid::<2>::new();
    // Cells around the picture see its edge, repeated.
    for y in -20..extents[1] + 28 {
        for x in -20..extents[0] + 28 {
            let v = value(x, y);
            let cell = [(x + 4).div_euclid(8), (y + 4).div_euclid(8), (v / r_sigma + 0.5) as i32];
            let sum = grid.entry(cell).or_insert([0.0; 2]);
            *sum = [sum[0] + v, sum[1] + 1.0];
        }
    }
    let grid = [2, 0, 1].iter().fold(grid, |grid, &d| blurred(&grid, &[1.0, 4.0, 6.0, 4.0, 1.0], d));
    let sample = |p: &Vec<i32>| {
        let depth = value(p[0], p[1]) / r_sigma;
        let at = [f64::from(p[0]) / 8.0, f64::from(p[1]) / 8.0, depth];
        let sum = sampled(&grid, at, [0.0; 2]);
        sum[0] / sum[1]
    };
    Plain::points(extents).iter().map(sample).collect()
}

#[test]
fn smooths() {
    for (extents, r_sigma) in [([67, 41], 0.125), ([33, 70], 0.25)] {
        let input = real_input(&extents);
        let expected = expected(&Plain::of(&input), &extents, r_sigma);
        let params = [("r_sigma", &*r_sigma.to_string())];
        check("bilateral_grid", &params, 8, &[input], &expected, Within::Range(1e-4));
    }
}

#[test]
fn elsewhere() {
    assembles("bilateral_grid", &[]);
    same_bits_from_c("bilateral_grid", &[], 8, &[real_input(&[35, 20])]);
}
