//! Depthwise separable layers.

use crate::common::{Plain, Within, assembles, check, same_bits_from_c, signed_input};
use sumsq_examples::pipelines::Planar;

pub fn inputs(co: i32, ci: i32, each: i32, w: i32, h: i32, n: i32) -> [Planar; 4] {
    let pointwise = signed_input(&[co, ci * each]);
    [signed_input(&[ci, w, h, n]), signed_input(&[each, ci * each, 3, 3]), pointwise, signed_input(&[co])]
}

pub fn expected(inputs: &[Planar; 4]) -> Vec<f64> {
    let [input, depthwise, pointwise, bias] = inputs.each_ref().map(Plain::of);
    let (size, each) = (&inputs[0].extents, inputs[1].extents[0]);
    let inside = |x: i32, n: i32| (0..n).contains(&x);
    // As the description has it: weights of channel e itself, values of channel e / M, for each of the M.
    let apart = |e: i32, x: i32, y: i32, n: i32| {
        let mut sum = 0.0;
        for m in 0..each {
            for (i, j) in (0..9).map(|k| (k % 3, k / 3)) {
                let (x, y) = (x + i - 1, y + j - 1);
                if inside(x, size[1]) && inside(y, size[2]) {
                    sum += depthwise.at(&[m, e, i, j]) * input.at(&[e / each, x, y, n]);
                }
            }
        }
        sum
    };
    let value = |p: &Vec<i32>| {
        let terms = (0..size[0] * each).map(|e| pointwise.at(&[p[0], e]) * apart(e, p[1], p[2], p[3]));
        (bias.at(&p[..1]) + terms.sum::<f64>()).max(0.0)
    };
    Plain::points(&[inputs[3].extents[0], size[1], size[2], size[3]]).iter().map(value).collect()
}

#[test]
fn convolves_and_mixes() {
    for [co, ci, each, w, h, n] in [[16, 20, 1, 11, 7, 2], [37, 5, 2, 6, 3, 1]] {
        let inputs = inputs(co, ci, each, w, h, n);
        let expected = expected(&inputs);
        let params = [("multiplier", &*each.to_string())];
        check("depthwise_separable_conv", &params, 8, &inputs, &expected, Within::Range(1e-4));
    }
}

#[test]
fn elsewhere() {
    assembles("depthwise_separable_conv", &[]);
    same_bits_from_c("depthwise_separable_conv", &[], 8, &inputs(19, 6, 1, 9, 4, 2));
}
