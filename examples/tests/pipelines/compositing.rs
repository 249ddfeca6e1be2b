//! Layers, combined in plain loops.

use crate::common::{Plain, Within, assembles, check, noise, same_bits_from_c};
use sumsq_examples::pipelines::{Planar, Values};

pub fn inputs(w: i32, h: i32, ops: [i64; 5]) -> Vec<Planar> {
    inputs_of(w, h, ops, 8)
}

/// Layers of samples of 8 or 16 bits.
fn inputs_of(w: i32, h: i32, ops: [i64; 5], bits: u32) -> Vec<Planar> {
    let extents = vec![w, h, 4];
    let n = (w * h * 4) as usize;
    let white = (1 << bits) - 1;
    let all: Vec<u32> = noise(6 * n, white + 1).collect();
    let layer = |part: &[u32]| {
        let mut values = part.to_vec();
        // Both ends of the transparency occur.
        values[n / 4 * 3..].iter_mut().for_each(|a| *a = (*a * 2).min(white).saturating_sub(white / 4));
        let values = match bits {
            8 => Values::U8(values.into_iter().map(|v| v as u8).collect()),
            _ => Values::U16(values.into_iter().map(|v| v as u16).collect()),
        };
        Planar { extents: extents.clone(), values }
    };
    let layers = all.chunks(n).map(layer);
    let ops = Planar { extents: vec![5], values: Values::Int(ops.to_vec()) };
    layers.chain([ops]).collect()
}

/// `a b` by the greatest of `sample` bits, with the rounding of the description, in `bits` bits.
fn scale(a: u64, b: u64, sample: u32, bits: u32) -> u64 {
    let half = 1 << (sample - 1);
    let t = a * b;
    let t = t + ((t + half) >> sample);
    ((t + half) >> sample) % (1 << bits)
}

fn combine(op: i64, a: [u64; 4], b: [u64; 4], sample: u32) -> [u64; 4] {
    let white = (1 << sample) - 1;
    std::array::from_fn(|i| {
        let bits = if i < 3 { 2 * sample } else { sample };
        let scale = |a, b| scale(a, b, sample, bits);
        let (hidden, shown) = (scale(a[i], white - b[3]), scale(b[i], a[3]));
        let v = match op {
            0 => b[i] + hidden,
            1 if i < 3 => shown + hidden,
            1 => a[3],
            2 => scale(b[i], white - a[3]) + hidden,
            3 => scale(a[i], b[3]),
            _ => hidden,
        };
        v % (1 << bits)
    })
}

pub fn expected(inputs: &[Planar], ops: [i64; 5]) -> Vec<f64> {
    let layers: Vec<Plain> = inputs[..6].iter().map(Plain::of).collect();
    let sample = inputs[0].values.bits();
    let white = (1 << sample) - 1;
    let pixel = |l: usize, x: i32, y: i32| {
        let at = |c| layers[l].at(&[x, y, c]) as u64;
        [at(0) * at(3), at(1) * at(3), at(2) * at(3), at(3)]
    };
    let value = |p: &Vec<i32>| {
        let above = |a, l: usize| combine(ops[l - 1], a, pixel(l, p[0], p[1]), sample);
        let all = (1..6).fold(pixel(0, p[0], p[1]), above);
        let by = if all[3] == 0 { white + 1 } else { all[3] };
        let rounded = (all[p[2] as usize] + all[3] / 2) % (1 << (2 * sample));
        if p[2] == 3 { all[3] as f64 } else { (rounded / by).min(white) as f64 }
    };
    Plain::points(&inputs[0].extents).iter().map(value).collect()
}

#[test]
fn combines() {
    for ops in [[4, 3, 2, 1, 0], [0, 1, 0, 2, 1], [2, 0, 4, 0, 3]] {
        let inputs = inputs(67, 21, ops);
        check("compositing", &[], 8, &inputs, &expected(&inputs, ops), Within::Exactly);
    }
    let ops = [1, 2, 0, 3, 0];
    let inputs = inputs_of(45, 11, ops, 16);
    check("compositing", &[], 16, &inputs, &expected(&inputs, ops), Within::Exactly);
}

#[test]
fn elsewhere() {
    assembles("compositing", &[]);
    same_bits_from_c("compositing", &[], 8, &inputs(40, 20, [0, 1, 2, 3, 4]));
}
