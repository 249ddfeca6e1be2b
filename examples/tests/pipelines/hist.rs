//! Equalised histograms.

use crate::common::{Plain, Within, assembles, check, same_bits_from_c};
use sumsq_examples::pipelines::{Planar, Values};

/// Dark, with some structure.
pub fn input(extents: &[i32]) -> Planar {
    let n = extents.iter().product::<i32>() as usize;
    let values = crate::common::noise(n, 120).enumerate().map(|(i, v)| (v as usize / 2 + i % 90) as u8);
    Planar { extents: extents.to_vec(), values: Values::U8(values.collect()) }
}

pub fn expected(of: &Plain, extents: &[i32]) -> Vec<f64> {
    let bright = |x: i32, y: i32| {
        let at = |c| of.at(&[x, y, c]) as f32;
        at(0) * 0.299f32 + at(1) * 0.587f32 + at(2) * 0.114f32
    };
    let bin = |x: i32, y: i32| bright(x, y).clamp(0.0, 255.0) as usize;
    let pixels = f64::from(extents[0] * extents[1]);
    let mut counts = [0; 256];
    (0..extents[1]).for_each(|y| (0..extents[0]).for_each(|x| counts[bin(x, y)] += 1));
    let value = |p: &Vec<i32>| {
        let (x, y) = (p[0], p[1]);
        let lum = f64::from(bright(x, y));
        let even = f64::from(counts[..=bin(x, y)].iter().sum::<i32>()) * 255.0 / pixels;
        let (cr, cb) = ((of.at(&[x, y, 0]) - lum) * 0.713, (of.at(&[x, y, 2]) - lum) * 0.564);
        let colour = [even + 1.4 * cr, even - 0.343 * cb - 0.711 * cr, even + 1.765 * cb][p[2] as usize];
        colour.clamp(0.0, 255.0).floor()
    };
    Plain::points(extents).iter().map(value).collect()
}

#[test]
fn equalises() {
    for extents in [[45, 37, 3], [33, 70, 3]] {
        let input = input(&extents);
        let expected = expected(&Plain::of(&input), &extents);
        check("hist", &[], 8, &[input], &expected, Within::One);
    }
}

#[test]
fn elsewhere() {
    assembles("hist", &[]);
    same_bits_from_c("hist", &[], 8, &[input(&[35, 20, 3])]);
}
