//! Products of matrices.

use crate::common::{Plain, Within, assembles, check, real_input, same_bits_from_c};
use sumsq_examples::pipelines::{Planar, Values};

pub fn inputs(m: i32, n: i32, k: i32) -> [Planar; 3] {
    let centred = |extents: [i32; 2], by: f32| {
        let mut input = real_input(&extents);
        if let Values::F32(v) = &mut input.values {
            v.iter_mut().for_each(|v| *v = (2.0 * *v - 1.0) * by);
        }
        input
    };
    [centred([m, k], 1.0), centred([k, n], 0.75), centred([m, n], 0.5)]
}

pub fn expected(inputs: &[Planar; 3], a: f64, b: f64) -> Vec<f64> {
    let [left, right, added] = inputs.each_ref().map(Plain::of);
    let k = inputs[0].extents[1];
    let value = |p: &Vec<i32>| {
        let product: f64 = (0..k).map(|k| left.at(&[p[0], k]) * right.at(&[k, p[1]])).sum();
        a * product + b * added.at(p)
    };
    Plain::points(&inputs[2].extents).iter().map(value).collect()
}

#[test]
fn multiplies() {
    for (m, n, k) in [(67, 41, 23), (33, 8, 100)] {
        let inputs = inputs(m, n, k);
        check("sgemm", &[], 8, &inputs, &expected(&inputs, 1.5, 0.5), Within::Range(1e-4));
        let params = [("a", "-2"), ("b", "3")];
        check("sgemm", &params, 8, &inputs, &expected(&inputs, -2.0, 3.0), Within::Range(1e-4));
    }
}

#[test]
fn elsewhere() {
    assembles("sgemm", &[]);
    same_bits_from_c("sgemm", &[], 8, &inputs(40, 35, 20));
}
