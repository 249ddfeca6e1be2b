//! Recursive blurs.

use crate::common::{Plain, Within, assembles, check, real_input, same_bits_from_c};

/// Filters the values at `start`, `start + step`, ... down and up.
fn line(values: &mut [f64], start: usize, step: usize, n: usize, alpha: f64) {
    let at = |i: usize| start + i * step;
    for i in 1..n {
        values[at(i)] = (1.0 - alpha) * values[at(i - 1)] + alpha * values[at(i)];
    }
    for i in (0..n - 1).rev() {
        values[at(i)] = (1.0 - alpha) * values[at(i + 1)] + alpha * values[at(i)];
    }
}

pub fn expected(input: &Plain, extents: &[i32], alpha: f64) -> Vec<f64> {
    let mut values: Vec<f64> = Plain::points(extents).iter().map(|p| input.at(p)).collect();
    let (w, h) = (extents[0] as usize, extents[1] as usize);
    for plane in values.chunks_mut(w * h) {
        (0..w).for_each(|x| line(plane, x, w, h, alpha));
        (0..h).for_each(|y| line(plane, y * w, 1, w, alpha));
    }
    values
}

#[test]
fn filters_columns_and_rows() {
    for (extents, alpha) in [([67, 41, 3], 0.1), ([33, 70, 3], 0.75)] {
        let input = real_input(&extents);
        let expected = expected(&Plain::of(&input), &extents, alpha);
        check("iir_blur", &[("alpha", &alpha.to_string())], 8, &[input], &expected, Within::Range(1e-4));
    }
}

#[test]
fn elsewhere() {
    assembles("iir_blur", &[]);
    same_bits_from_c("iir_blur", &[], 8, &[real_input(&[35, 20, 3])]);
}
