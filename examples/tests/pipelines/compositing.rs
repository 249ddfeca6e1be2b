//! Layers, combined in plain loops.

use crate::common::{Plain, Within, assembles, check, noise, same_bits_from_c};
use sumsq_examples::pipelines::{Planar, Values};

pub fn inputs(w: i32, h: i32, ops: [i64; 5]) -> Vec<Planar> {
    let extents = vec![w, h, 4];
    let n = (w * h * 4) as usize;
    let all: Vec<u8> = noise(6 * n, 256).map(|v| v as u8).collect();
    let layer = |part: &[u8]| {
        let mut values = part.to_vec();
        // Both ends of the transparency occur.
        values[n / 4 * 3..].iter_mut().for_each(|a| *a = a.saturating_mul(2).saturating_sub(60));
        Planar { extents: extents.clone(), values: Values::U8(values) }
    };
    let layers = all.chunks(n).map(layer);
    let ops = Planar { extents: vec![5], values: Values::Int(ops.to_vec()) };
    layers.chain([ops]).collect()
}

/// `a b / 255` with the rounding of the description, in `bits` bits.
fn scale(a: u64, b: u64, bits: u32) -> u64 {
    let t = a * b;
    let t = t + ((t + 128) >> 8);
    ((t + 128) >> 8) % (1 << bits)
}

fn combine(op: i64, a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
    std::array::from_fn(|i| {
        let bits = if i < 3 { 16 } else { 8 };
        let (hidden, shown) = (scale(a[i], 255 - b[3], bits), scale(b[i], a[3], bits));
        let v = match op {
            0 => b[i] + hidden,
            1 if i < 3 => shown + hidden,
            1 => a[3],
            2 => scale(b[i], 255 - a[3], bits) + hidden,
            3 => scale(a[i], b[3], bits),
            _ => hidden,
        };
        v % (1 << bits)
    })
}

pub fn expected(inputs: &[Planar], ops: [i64; 5]) -> Vec<f64> {
    let layers: Vec<Plain> = inputs[..6].iter().map(Plain::of).collect();
    let pixel = |l: usize, x: i32, y: i32| {
        let at = |c| layers[l].at(&[x, y, c]) as u64;
        [at(0) * at(3), at(1) * at(3), at(2) * at(3), at(3)]
    };
    let value = |p: &Vec<i32>| {
        let all = (1..6).fold(pixel(0, p[0], p[1]), |a, l| combine(ops[l - 1], a, pixel(l, p[0], p[1])));
        let by = if all[3] == 0 { 256 } else { all[3] };
        let rounded = (all[p[2] as usize] + all[3] / 2) % 65536;
        if p[2] == 3 { all[3] as f64 } else { (rounded / by).min(255) as f64 }
    };
    Plain::points(&inputs[0].extents).iter().map(value).collect()
}

#[test]
fn combines() {
    for ops in [[4, 3, 2, 1, 0], [0, 1, 0, 2, 1], [2, 0, 4, 0, 3]] {
        let inputs = inputs(67, 21, ops);
        check("compositing", &[], 8, &inputs, &expected(&inputs, ops), Within::Exactly);
    }
}

#[test]
fn elsewhere() {
    assembles("compositing", &[]);
    same_bits_from_c("compositing", &[], 8, &inputs(40, 20, [0, 1, 2, 3, 4]));
}
