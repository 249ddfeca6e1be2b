//! The layers of networks whose sampling places are data: outputs against plain loops. Gradients: `tests/gradients`.

use crate::common::{Plain, Within, assembles, check, real_input, same_bits_from_c, signed_input};
use sumsq_examples::pipelines::{Planar, Values};

/// `of` with other values.
fn map(mut of: Planar, f: impl Fn(f32) -> f32) -> Planar {
    if let Values::F32(v) = &mut of.values {
        v.iter_mut().for_each(|v| *v = f(*v));
    }
    of
}

/// Linear interpolation between the two whole numbers around `at`: each with its share.
fn around(at: f64) -> [(i32, f64); 2] {
    let low = at.floor();
    [(low as i32, 1.0 - (at - low)), (low as i32 + 1, at - low)]
}

/// Bilinear interpolation in plane (c, n) of `of` at (px, py).
fn sampled(of: &Plain, [px, py]: [f64; 2], c: i32, n: i32, counts: impl Fn(i32, i32) -> bool) -> f64 {
    let mut sum = 0.0;
    for (j, by_j) in around(py) {
        for (i, by_i) in around(px) {
            sum += if counts(i, j) { by_i * by_j * of.at(&[i, j, c, n]) } else { 0.0 };
        }
    }
    sum
}

const CELL: i32 = 4;

pub fn slice_inputs([w, h, co, ci, depth, n]: [i32; 6]) -> [Planar; 3] {
    let cells = |n: i32| (n + CELL - 1) / CELL;
    [
        signed_input(&[cells(w), cells(h), depth, co * (ci + 1), n]),
        // Beyond the ends of the grid, too.
        map(real_input(&[w, h, n]), |v| 1.2 * v - 0.1),
        signed_input(&[w, h, ci, n]),
    ]
}

pub fn sliced(inputs: &[Planar; 3]) -> Vec<f64> {
    let [grid, guide, input] = inputs.each_ref().map(Plain::of);
    let [g, size] = [&inputs[0].extents, &inputs[2].extents];
    let ci = size[2];
    let value = |p: &Vec<i32>| {
        let &[x, y, c, n] = &p[..] else { unreachable!("four dimensions") };
        let place = |v: i32| (f64::from(v) + 0.5) / f64::from(CELL) - 0.5;
        let depth = guide.at(&[x, y, n]) * f64::from(g[2]) - 0.5;
        let entry = |k: i32| {
            let mut sum = 0.0;
            for (k0, by_depth) in around(depth) {
                for (j, by_j) in around(place(y)) {
                    for (i, by_i) in around(place(x)) {
                        sum += by_depth * by_j * by_i * grid.at(&[i, j, k0, c * (ci + 1) + k, n]);
                    }
                }
            }
            sum
        };
        (0..ci).fold(entry(ci), |sum, k| sum + entry(k) * input.at(&[x, y, k, n]))
    };
    Plain::points(&[size[0], size[1], g[3] / (ci + 1), size[3]]).iter().map(value).collect()
}

#[test]
fn bilateral_slice() {
    let params = [("cell", "4")];
    for size in [[37, 21, 3, 3, 5, 2], [64, 5, 1, 3, 1, 1]] {
        let inputs = slice_inputs(size);
        check("bilateral_slice", &params, 8, &inputs, &sliced(&inputs), Within::Range(1e-5));
    }
    assembles("bilateral_slice", &params);
    same_bits_from_c("bilateral_slice", &params, 8, &slice_inputs([33, 9, 2, 3, 4, 1]));
}

pub fn transformer_inputs([w, h, c, n]: [i32; 4]) -> [Planar; 2] {
    let mut theta = signed_input(&[3, 2, n]);
    if let Values::F32(v) = &mut theta.values {
        // Near the identity.
        v.iter_mut().enumerate().for_each(|(k, v)| *v = 0.4 * *v + f32::from([0, 4].contains(&(k % 6))));
    }
    [signed_input(&[w, h, c, n]), theta]
}

pub fn transformed(inputs: &[Planar; 2]) -> Vec<f64> {
    let [input, theta] = inputs.each_ref().map(Plain::of);
    let size = &inputs[0].extents;
    let value = |p: &Vec<i32>| {
        let n = p[3];
        let place = [0, 1].map(|d| {
            let of = |v: usize| (2.0 * f64::from(p[v]) + 1.0) / f64::from(size[v]) - 1.0;
            let at = theta.at(&[0, d, n]) * of(0) + theta.at(&[1, d, n]) * of(1) + theta.at(&[2, d, n]);
            ((at + 1.0) * f64::from(size[d as usize]) - 1.0) / 2.0
        });
        let inside = |i: i32, j: i32| (0..size[0]).contains(&i) && (0..size[1]).contains(&j);
        sampled(&input, place, p[2], n, inside)
    };
    Plain::points(size).iter().map(value).collect()
}

#[test]
fn spatial_transformer() {
    for size in [[37, 21, 3, 2], [16, 2, 5, 1]] {
        let inputs = transformer_inputs(size);
        check("spatial_transformer", &[], 8, &inputs, &transformed(&inputs), Within::Range(1e-4));
    }
    assembles("spatial_transformer", &[]);
    same_bits_from_c("spatial_transformer", &[], 8, &transformer_inputs([33, 9, 2, 2]));
}

pub fn warp_inputs([w, h, c, n]: [i32; 4]) -> [Planar; 2] {
    [signed_input(&[w, h, c, n]), map(signed_input(&[w, h, 2, n]), |v| 7.0 * v)]
}

pub fn warped(inputs: &[Planar; 2]) -> Vec<f64> {
    let [input, flow] = inputs.each_ref().map(Plain::of);
    let size = &inputs[0].extents;
    let value = |p: &Vec<i32>| {
        let place = [0usize, 1].map(|d| {
            let way = flow.at(&[p[0], p[1], d as i32, p[3]]);
            (f64::from(p[d]) + way).clamp(0.0, f64::from(size[d] - 1))
        });
        sampled(&input, place, p[2], p[3], |_, _| true)
    };
    Plain::points(size).iter().map(value).collect()
}

#[test]
fn flow_warp() {
    for size in [[37, 21, 3, 2], [16, 2, 5, 1]] {
        let inputs = warp_inputs(size);
        check("flow_warp", &[], 8, &inputs, &warped(&inputs), Within::Range(1e-4));
    }
    assembles("flow_warp", &[]);
    same_bits_from_c("flow_warp", &[], 8, &warp_inputs([33, 9, 2, 2]));
}

/// The kernel of Keys 1981 with a = -1/2.
fn cubic(s: f64) -> f64 {
    match s.abs() {
        s if s <= 1.0 => (1.5 * s - 2.5) * s * s + 1.0,
        s if s <= 2.0 => ((-0.5 * s + 2.5) * s - 4.0) * s + 2.0,
        _ => 0.0,
    }
}

pub fn warped_bicubically(inputs: &[Planar; 2]) -> Vec<f64> {
    let [input, flow] = inputs.each_ref().map(Plain::of);
    let size = &inputs[0].extents;
    let value = |p: &Vec<i32>| {
        let [px, py] = [0usize, 1].map(|d| {
            let way = flow.at(&[p[0], p[1], d as i32, p[3]]);
            (f64::from(p[d]) + way).clamp(0.0, f64::from(size[d] - 1))
        });
        let near = |at: f64| (at.floor() as i32 - 1)..=(at.floor() as i32 + 2);
        let mut sum = 0.0;
        for j in near(py) {
            for i in near(px) {
                let weight = cubic(px - f64::from(i)) * cubic(py - f64::from(j));
                sum += weight * input.at(&[i, j, p[2], p[3]]);
            }
        }
        sum
    };
    Plain::points(size).iter().map(value).collect()
}

#[test]
fn bicubic_warp() {
    let inputs = warp_inputs([37, 11, 3, 2]);
    check("bicubic_warp", &[], 8, &inputs, &warped_bicubically(&inputs), Within::Range(1e-4));
    assembles("bicubic_warp", &[]);
}

pub fn volume_inputs([w, h, z, co, ci, depth, n]: [i32; 7]) -> [Planar; 3] {
    let cells = |n: i32| (n + CELL - 1) / CELL;
    [
        signed_input(&[cells(w), cells(h), cells(z), depth, co * (ci + 1), n]),
        map(real_input(&[w, h, z, n]), |v| 1.2 * v - 0.1),
        signed_input(&[w, h, z, ci, n]),
    ]
}

pub fn sliced_volume(inputs: &[Planar; 3]) -> Vec<f64> {
    let [grid, guide, input] = inputs.each_ref().map(Plain::of);
    let [g, size] = [&inputs[0].extents, &inputs[2].extents];
    let ci = size[3];
    let value = |p: &Vec<i32>| {
        let &[x, y, z, c, n] = &p[..] else { unreachable!("five dimensions") };
        let place = |v: i32| (f64::from(v) + 0.5) / f64::from(CELL) - 0.5;
        let depth = guide.at(&[x, y, z, n]) * f64::from(g[3]) - 0.5;
        let entry = |k: i32| {
            let mut sum = 0.0;
            for corner in 0..16usize {
                let places = [place(x), place(y), place(z), depth];
                let taps: [(i32, f64); 4] = std::array::from_fn(|d| around(places[d])[corner >> d & 1]);
                let at = [taps[0].0, taps[1].0, taps[2].0, taps[3].0, c * (ci + 1) + k, n];
                sum += taps.iter().map(|tap| tap.1).product::<f64>() * grid.at(&at);
            }
            sum
        };
        (0..ci).fold(entry(ci), |sum, k| sum + entry(k) * input.at(&[x, y, z, k, n]))
    };
    Plain::points(&[size[0], size[1], size[2], g[4] / (ci + 1), size[4]]).iter().map(value).collect()
}

#[test]
fn bilateral_slice_3d() {
    let params = [("cell", "4"), ("channels", "2")];
    let inputs = volume_inputs([21, 7, 5, 2, 2, 3, 2]);
    check("bilateral_slice_3d", &params, 8, &inputs, &sliced_volume(&inputs), Within::Range(1e-5));
    assembles("bilateral_slice_3d", &params);
}
