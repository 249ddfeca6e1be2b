//! Pictures of another size.

use crate::common::{Plain, Within, assembles, check, real_input, same_bits_from_c, whole_input};
use std::f64::consts::PI;
use sumsq_examples::pipelines::{Planar, Values};

fn kernel(lanczos: bool, t: f64) -> f64 {
    let t = t.abs();
    let sinc = |t: f64| if t == 0.0 { 1.0 } else { (PI * t).sin() / (PI * t) };
    match t {
        t if lanczos && t > 3.0 => 0.0,
        t if lanczos => sinc(t) * sinc(t / 3.0),
        t if t < 1.0 => 1.5 * t * t * t - 2.5 * t * t + 1.0,
        t if t < 2.0 => -0.5 * t * t * t + 2.5 * t * t - 4.0 * t + 2.0,
        _ => 0.0,
    }
}

/// First pixel and weights for each of the `m` pixels that `n` become.
fn weights(lanczos: bool, up: bool, scale: f64, n: i32, m: i32) -> Vec<(i32, Vec<f64>)> {
    let width = if lanczos { 6.0 } else { 4.0 };
    let (shrink, grown) = if up { (1.0, 1.0) } else { (scale, 1.0 / scale) };
    let taps = (width * grown).ceil() as i32;
    let one = |x: i32| {
        let source = (f64::from(x) + 0.5) / scale - 0.5;
        let first = ((source - 0.5 * width * grown).ceil() as i32).clamp(0, n - taps);
        let raw: Vec<f64> =
            (0..taps).map(|k| kernel(lanczos, (f64::from(k + first) - source) * shrink)).collect();
        let sum: f64 = raw.iter().sum();
        (first, raw.iter().map(|w| w / sum).collect())
    };
    (0..m).map(one).collect()
}

pub fn expected(input: &Plain, from: &[i32], lanczos: bool, up: bool, scale: f64, white: f64) -> Vec<f64> {
    let to = [(f64::from(from[0]) * scale) as i32, (f64::from(from[1]) * scale) as i32, from[2]];
    let across = weights(lanczos, up, scale, from[0], to[0]);
    let along = weights(lanczos, up, scale, from[1], to[1]);
    let value = |p: &Vec<i32>| {
        let ((left, wx), (top, wy)) = (&across[p[0] as usize], &along[p[1] as usize]);
        let mut sum = 0.0;
        for (j, wy) in (0..).zip(wy) {
            for (i, wx) in (0..).zip(wx) {
                sum += wx * wy * input.at(&[left + i, top + j, p[2]]);
            }
        }
        let v = sum.clamp(0.0, white);
        if white > 1.0 { v.floor() } else { v }
    };
    Plain::points(&to).iter().map(value).collect()
}

pub fn bytes(extents: &[i32]) -> Planar {
    let Values::U16(v) = whole_input(extents, 256).values else { unreachable!("it is of u16") };
    Planar { extents: extents.to_vec(), values: Values::U8(v.into_iter().map(|v| v as u8).collect()) }
}

#[test]
fn scales() {
    for (kernel, way, scale, extents) in [
        ("cubic", "down", 0.5, [67, 45, 3]),
        ("lanczos", "down", 0.375, [50, 70, 1]),
        ("cubic", "up", 4.0, [17, 9, 3]),
        ("lanczos", "up", 2.5, [13, 22, 2]),
    ] {
        let scaled = |input: &Planar, white| {
            expected(&Plain::of(input), &extents, kernel == "lanczos", way == "up", scale, white)
        };
        let scale_text = scale.to_string();
        let params = [("kernel", kernel), ("way", way), ("scale", &*scale_text)];
        let floats = [&params[..], &[("type", "float")]].concat();
        let (input, depth) = (real_input(&extents), whole_input(&extents, 65536));
        check("resize", &floats, 8, std::slice::from_ref(&input), &scaled(&input, 1.0), Within::Range(1e-4));
        check("resize", &params, 16, std::slice::from_ref(&depth), &scaled(&depth, 65535.0), Within::One);
        let input = bytes(&extents);
        check("resize", &params, 8, std::slice::from_ref(&input), &scaled(&input, 255.0), Within::One);
    }
}

#[test]
fn elsewhere() {
    assembles("resize", &[("way", "up")]);
    assembles("resize", &[]);
    same_bits_from_c("resize", &[("way", "up"), ("scale", "2")], 8, &[bytes(&[25, 20, 3])]);
}
