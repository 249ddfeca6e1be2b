//! Fourier transforms.

use crate::common::{Plain, Within, assembles, check_all, same_bits_from_c, signed_input};
use std::f64::consts::PI;
use sumsq_examples::pipelines::{Planar, Values};

pub fn inputs(n: i32) -> [Planar; 2] {
    let re = signed_input(&[32, 32, n]);
    let mut im = re.clone();
    if let Values::F32(v) = &mut im.values {
        v.reverse();
    }
    [re, im]
}

/// The transform by its definition, one dimension after the other.
pub fn expected(inputs: &[Planar; 2]) -> [Vec<f64>; 2] {
    let n = inputs[0].extents[2] as usize;
    let mut values: Vec<[f64; 2]> = {
        let [re, im] = inputs.each_ref().map(Plain::of);
        Plain::points(&inputs[0].extents).iter().map(|p| [re.at(p), im.at(p)]).collect()
    };
    for image in values.chunks_mut(32 * 32) {
        for stride in [1, 32] {
            let old = image.to_vec();
            for (i, v) in image.iter_mut().enumerate() {
                let (k, start) = (i / stride % 32, i - i / stride % 32 * stride);
                *v = [0.0; 2];
                for x in 0..32 {
                    let (angle, [re, im]) = (-2.0 * PI * (k * x) as f64 / 32.0, old[start + x * stride]);
                    v[0] += angle.cos() * re - angle.sin() * im;
                    v[1] += angle.cos() * im + angle.sin() * re;
                }
            }
        }
    }
    assert_eq!(values.len(), n * 1024);
    [0, 1].map(|k| values.iter().map(|v| v[k]).collect())
}

#[test]
fn transforms() {
    for n in [1, 19] {
        let inputs = inputs(n);
        let expected = expected(&inputs);
        check_all("fft", &[], 8, &inputs, &expected, Within::Range(1e-4));
    }
}

#[test]
fn elsewhere() {
    assembles("fft", &[]);
    same_bits_from_c("fft", &[], 8, &inputs(3));
}
