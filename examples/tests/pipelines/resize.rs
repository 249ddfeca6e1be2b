//! Pictures of another size.

use crate::common::{Plain, Within, assembles, check, real_input, same_bits_from_c, set_up, whole_input};
use std::f64::consts::PI;
use sumsq::codegen::Target;
use sumsq::codegen::runtime::{Buffer, Dimension, Element, Pool, View};
use sumsq_examples::pipelines::{Algorithm, Planar, Prepared, Values};

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

/// Planes, or the channels of each pixel side by side.
fn laid_out(extents: &[i32], is_packed: bool) -> Vec<Dimension> {
    let (w, c) = (i64::from(extents[0]), i64::from(extents[2]));
    let strides = if is_packed { [c, c * w, 1] } else { [1, w, w * i64::from(extents[1])] };
    extents.iter().zip(strides).map(|(&n, stride)| Dimension::new(0, n, stride)).collect()
}

/// The output of `to` as planes, of code for planes or for pixels whose channels lie side by side.
fn through<T: Element + Default + Into<f64>>(
    prepared: &Prepared,
    planes: &[T],
    (from, to): (&[i32], &[i32]),
    is_packed: bool,
) -> Vec<f64> {
    let (pixels, channels) = (planes.len() / from[2] as usize, from[2] as usize);
    let mut values = planes.to_vec();
    if is_packed {
        values = (0..planes.len()).map(|i| planes[i % channels * pixels + i / channels]).collect();
    }
    let pixels = (to[0] * to[1]) as usize;
    let mut made = vec![T::default(); pixels * channels];
    {
        let input = View::reading(&values, &laid_out(from, is_packed)).expect("a view");
        let output = View::new(&mut made, &laid_out(to, is_packed)).expect("a view");
        let bound: [(&str, &Buffer); 2] = [("input", &input), ("output", &output)];
        prepared.compiled().run(&Pool::new(2), &bound, &prepared.params()).expect("it runs");
    }
    let place = |i: usize| if is_packed { i % pixels * channels + i / pixels } else { i };
    (0..made.len()).map(|i| made[place(i)].into()).collect()
}

/// Pixels whose channels lie side by side come to the same bits as planes; of floats, where stages are relaxed, what is fused differs with the layout.
#[test]
fn packed_pixels_come_to_the_same() {
    let prepared = |layout: &str, ty: &str, bits: u32, way: &str, scale: &str| {
        let params = [("type", ty), ("way", way), ("scale", scale), ("layout", layout)];
        let (application, setup) = set_up("resize", &params, bits);
        let name = application.by_hand(&Target::host(), &setup);
        assert_eq!(name == "packed", layout != "planar", "{name}");
        let schedule = application.schedule(name).expect("it is listed").expect("it is a schedule");
        Prepared::new(Algorithm::new(application, setup), &schedule, &Target::host()).expect("it is compiled")
    };
    let types = [("sample", 8), ("sample", 16), ("float", 8)];
    for ((ty, bits), (way, scale)) in
        types.into_iter().flat_map(|ty| [("down", "0.5"), ("up", "2.5")].map(|way| (ty, way)))
    {
        let planar = prepared("planar", ty, bits, way, scale);
        let by: f64 = scale.parse().expect("a number");
        for (layout, channels) in [("rgb", 3), ("rgba", 4)] {
            let packed = prepared(layout, ty, bits, way, scale);
            let from = [83, 29, channels];
            let to = [(83.0 * by) as i32, (29.0 * by) as i32, channels];
            let input = match (ty, bits) {
                ("float", _) => real_input(&from),
                (_, 8) => bytes(&from),
                _ => whole_input(&from, 65536),
            };
            let sizes = (&from[..], &to[..]);
            let [expected, came] =
                [(&planar, false), (&packed, true)].map(|(p, is_packed)| match &input.values {
                    Values::U8(v) => through(p, v, sizes, is_packed),
                    Values::U16(v) => through(p, v, sizes, is_packed),
                    Values::F32(v) => through(p, v, sizes, is_packed),
                    other => unreachable!("{other:?}"),
                });
            let apart = came.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(expected.iter().any(|v| *v != expected[0]), "{ty} of {bits} bits, {way}");
            let within = if ty == "float" { 1e-6 } else { 0.0 };
            assert!(apart <= within, "{ty} of {bits} bits, {way}, {layout}: {apart}");
        }
    }
}

#[test]
fn elsewhere() {
    assembles("resize", &[("way", "up")]);
    assembles("resize", &[]);
    assembles("resize", &[("layout", "rgba")]);
    same_bits_from_c("resize", &[("way", "up"), ("scale", "2")], 8, &[bytes(&[25, 20, 3])]);
}
