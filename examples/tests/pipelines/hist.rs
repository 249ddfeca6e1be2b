//! Equalised histograms.

use crate::common::{Plain, Within, assembles, check, same_bits_from_c};
use sumsq_examples::pipelines::{Planar, Values};

/// Dark, with some structure.
pub fn input(extents: &[i32]) -> Planar {
    let n = extents.iter().product::<i32>() as usize;
    let values = crate::common::noise(n, 120).enumerate().map(|(i, v)| (v as usize / 2 + i % 90) as u8);
    Planar { extents: extents.to_vec(), values: Values::U8(values.collect()) }
}

/// The same of 16 bits, that are no multiples of those.
fn deep(extents: &[i32]) -> Planar {
    let Values::U8(bytes) = input(extents).values else { unreachable!("it is of u8") };
    let values = bytes.iter().zip(crate::common::noise(bytes.len(), 256));
    let values = values.map(|(&v, low)| u16::from(v) * 256 + low as u16).collect();
    Planar { extents: extents.to_vec(), values: Values::U16(values) }
}

pub fn expected(of: &Plain, extents: &[i32]) -> Vec<f64> {
    equalised(of, extents, 8)
}

/// Of 16 bits the 256 bins are crossed by straight lines.
fn equalised(of: &Plain, extents: &[i32], bits: u32) -> Vec<f64> {
    let white = f64::from((1 << bits) - 1);
    let bright = |x: i32, y: i32| {
        let at = |c| of.at(&[x, y, c]) as f32;
        at(0) * 0.299f32 + at(1) * 0.587f32 + at(2) * 0.114f32
    };
    let place = |x: i32, y: i32| bright(x, y).clamp(0.0, white as f32) / (1 << (bits - 8)) as f32;
    let pixels = f64::from(extents[0] * extents[1]);
    let mut counts = [0; 256];
    (0..extents[1]).for_each(|y| (0..extents[0]).for_each(|x| counts[place(x, y) as usize] += 1));
    let value = |p: &Vec<i32>| {
        let (x, y) = (p[0], p[1]);
        let (lum, place) = (f64::from(bright(x, y)), place(x, y));
        let bin = place as usize;
        let own = if bits > 8 { f64::from(place.fract()) } else { 1.0 };
        let darker = f64::from(counts[..bin].iter().sum::<i32>());
        let even = (darker + own * f64::from(counts[bin])) * white / pixels;
        let (cr, cb) = ((of.at(&[x, y, 0]) - lum) * 0.713, (of.at(&[x, y, 2]) - lum) * 0.564);
        let colour = [even + 1.4 * cr, even - 0.343 * cb - 0.711 * cr, even + 1.765 * cb][p[2] as usize];
        colour.clamp(0.0, white).floor()
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
    let extents = [45, 37, 3];
    let input = deep(&extents);
    check(
        "hist",
        &[],
        16,
        std::slice::from_ref(&input),
        &equalised(&Plain::of(&input), &extents, 16),
        Within::One,
    );
}

#[test]
fn elsewhere() {
    assembles("hist", &[]);
    same_bits_from_c("hist", &[], 8, &[input(&[35, 20, 3])]);
}
