//! Bilateral guided upsampling.

use crate::common::{
    Grid, Plain, Within, assembles, blurred, check, given, real_input, same_bits_from_c, sampled,
};
use sumsq_examples::pipelines::{Planar, Values};

pub fn inputs(large: [i32; 2], small: [i32; 2]) -> [Planar; 3] {
    let scene = real_input(&[small[0], small[1], 3]);
    let mut after = scene.clone();
    if let Values::F32(v) = &mut after.values {
        v.iter_mut().for_each(|v| *v = *v * *v * (3.0 - 2.0 * *v));
    }
    [real_input(&[large[0], large[1], 3]), scene, after]
}

/// Solves `A X = B` for the map of one cell, by elimination with pivots.
fn fitted(sums: &[f64; 22]) -> [f64; 12] {
    let mut m = [[0.0; 7]; 4];
    let upper = (0..4).flat_map(|i| (i..4).map(move |j| (i, j)));
    upper.zip(sums).for_each(|((i, j), sum)| (m[i][j], m[j][i]) = (*sum, *sum));
    for c in 0..3 {
        (0..4).for_each(|i| m[i][4 + c] = sums[10 + 4 * c + i]);
    }
    (0..4).for_each(|i| m[i][i] += 0.1);
    (0..3).for_each(|c| m[c][4 + c] += 0.1);
    for i in 0..4 {
        let pivot = (i..4).max_by(|&a, &b| m[a][i].abs().total_cmp(&m[b][i].abs())).unwrap_or(i);
        m.swap(i, pivot);
        let row = m[i].map(|v| v / m[i][i]);
        for (j, other) in m.iter_mut().enumerate() {
            let factor = other[i];
            (0..7).for_each(|k| other[k] = if j == i { row[k] } else { other[k] - factor * row[k] });
        }
    }
    std::array::from_fn(|k| m[k % 4][4 + k / 4])
}

pub fn expected(inputs: &[Planar; 3], r_sigma: f32, cell: i32) -> Vec<f64> {
    let [large, before, after] = inputs.each_ref().map(Plain::of);
    let [size, small] = [&inputs[0].extents, &inputs[1].extents];
    let gray = |p: &Plain, x: i32, y: i32| {
        let at = |c: i32| p.at(&[x, y, c]) as f32;
        (at(0) * 0.25 + at(1) * 0.5 + at(2) * 0.25).clamp(0.0, 1.0)
    };
    let mut grid = Grid::<22>::new();
    let margin = 6 * cell;
    for y in -margin..small[1] + margin {
        for x in -margin..small[0] + margin {
            let z = (gray(&before, x, y) * (1.0 / r_sigma)).round_ties_even() as i32;
            let s: [f64; 4] = std::array::from_fn(|c| if c < 3 { before.at(&[x, y, c as i32]) } else { 1.0 });
            let at = [(x + cell / 2).div_euclid(cell), (y + cell / 2).div_euclid(cell), z];
            let sums = grid.entry(at).or_insert([0.0; 22]);
            let upper = (0..4).flat_map(|i| (i..4).map(move |j| (i, j)));
            upper.enumerate().for_each(|(k, (i, j))| sums[k] += s[i] * s[j]);
            (0..12).for_each(|k| sums[10 + k] += after.at(&[x, y, k as i32 / 4]) * s[k % 4]);
        }
    }
    let weights = [1.0 / 64.0, 1.0 / 27.0, 1.0 / 8.0, 1.0, 1.0 / 8.0, 1.0 / 27.0, 1.0 / 64.0];
    let grid = [2, 1, 0].iter().fold(grid, |grid, &d| blurred(&grid, &weights, d));
    let lines: Grid<12> = grid.iter().map(|(at, sums)| (*at, fitted(sums))).collect();
    let empty = fitted(&[0.0; 22]);
    let over = |n: i32, by: i32| (n + by - 1) / by;
    let big = f64::from(cell * over(size[0], small[0]).max(over(size[1], small[1])));
    let value = |p: &Vec<i32>| {
        let depth = gray(&large, p[0], p[1]) * (1.0 / r_sigma).trunc();
        let at = [f64::from(p[0]) / big, f64::from(p[1]) / big, f64::from(depth)];
        let map = sampled(&lines, at, empty);
        let row = &map[4 * p[2] as usize..];
        let linear: f64 = (0..3).map(|i| row[i] * large.at(&[p[0], p[1], i as i32])).sum();
        (linear + row[3]).clamp(0.0, 1.0)
    };
    Plain::points(size).iter().map(value).collect()
}

#[test]
fn applies_the_filter() {
    for (large, small, r_sigma, cell) in [([67, 45], [20, 15], 0.125, 8), ([50, 70], [50, 35], 0.25, 11)] {
        let inputs = inputs(large, small);
        let expected = expected(&inputs, r_sigma, cell);
        let params = [("r_sigma", r_sigma.to_string()), ("s_sigma", cell.to_string())];
        check("guided_upsampling", &given(&params), 8, &inputs, &expected, Within::Range(1e-4));
    }
}

#[test]
fn elsewhere() {
    assembles("guided_upsampling", &[]);
    same_bits_from_c("guided_upsampling", &[("s_sigma", "8")], 8, &inputs([40, 35], [20, 18]));
}
