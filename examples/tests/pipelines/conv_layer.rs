//! Layers of convolutional networks.

use crate::common::{Plain, Within, assembles, check, same_bits_from_c, signed_input};
use sumsq_examples::pipelines::Planar;

fn inputs(co: i32, ci: i32, w: i32, h: i32, n: i32) -> [Planar; 3] {
    [signed_input(&[ci, w + 2, h + 2, n]), signed_input(&[co, 3, 3, ci]), signed_input(&[co])]
}

fn expected(inputs: &[Planar; 3]) -> Vec<f64> {
    let [input, filter, bias] = inputs.each_ref().map(Plain::of);
    let (co, channels) = (inputs[2].extents[0], inputs[0].extents[0]);
    let size = &inputs[0].extents;
    let value = |p: &Vec<i32>| {
        let mut sum = bias.at(&p[..1]);
        for ci in 0..channels {
            for k in 0..9 {
                let (i, j) = (k % 3, k / 3);
                sum += filter.at(&[p[0], i, j, ci]) * input.at(&[ci, p[1] + i, p[2] + j, p[3]]);
            }
        }
        sum.max(0.0)
    };
    Plain::points(&[co, size[1] - 2, size[2] - 2, size[3]]).iter().map(value).collect()
}

#[test]
fn convolves() {
    for [co, ci, w, h, n] in [[48, 5, 11, 7, 2], [37, 16, 5, 3, 1]] {
        let inputs = inputs(co, ci, w, h, n);
        check("conv_layer", &[], 8, &inputs, &expected(&inputs), Within::Range(1e-4));
    }
}

#[test]
fn elsewhere() {
    assembles("conv_layer", &[]);
    same_bits_from_c("conv_layer", &[], 8, &inputs(35, 3, 9, 4, 2));
}
