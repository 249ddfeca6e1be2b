//! Local Laplacian filters.

use crate::common::{Plain, Within, assembles, check, given, same_bits_from_c, whole_input};
use std::collections::HashMap;

/// Levels of the pyramids.
const PYRAMID: i32 = 8;

/// The pyramids, each value computed once. Plane -1 is the luminance, the others are those of the intensities.
struct Pyramids<'a> {
    input: &'a Plain,
    white: f32,
    levels: i32,
    alpha: f64,
    beta: f64,
    down: HashMap<[i32; 4], f64>,
    result: HashMap<[i32; 3], f64>,
}

/// The value of a pyramid at a level and place, halved from the one before.
fn halved(x: i32, y: i32, mut of: impl FnMut(i32, i32) -> f64) -> f64 {
    let weights = [(-1, 0.125), (0, 0.375), (1, 0.375), (2, 0.125)];
    let mut sum = 0.0;
    for (j, wy) in weights {
        for (i, wx) in weights {
            sum += wx * wy * of(2 * x + i, 2 * y + j);
        }
    }
    sum
}

/// Linear interpolation in the next coarser level.
fn doubled(x: i32, y: i32, mut of: impl FnMut(i32, i32) -> f64) -> f64 {
    let near = |v: i32| {
        let w = f64::from(v.rem_euclid(2) * 2 + 1) / 4.0;
        [((v + 1).div_euclid(2), 1.0 - w), ((v - 1).div_euclid(2), w)]
    };
    let mut sum = 0.0;
    for (y, wy) in near(y) {
        for (x, wx) in near(x) {
            sum += wx * wy * of(x, y);
        }
    }
    sum
}

impl Pyramids<'_> {
    fn gray(&self, x: i32, y: i32) -> f32 {
        let v = |c: i32| self.input.at(&[x, y, c]) as f32 / self.white;
        v(0) * 0.299f32 + v(1) * 0.587f32 + v(2) * 0.114f32
    }

    fn down(&mut self, plane: i32, j: i32, x: i32, y: i32) -> f64 {
        let key = [plane, j, x, y];
        if let Some(v) = self.down.get(&key) {
            return *v;
        }
        let v = if j > 0 {
            halved(x, y, |x, y| self.down(plane, j - 1, x, y))
        } else if plane < 0 {
            f64::from(self.gray(x, y))
        } else {
            let (gray, top) = (self.gray(x, y), self.levels - 1);
            let bin = ((gray * (top * 256) as f32) as i32).clamp(0, top * 256);
            let f = f64::from(bin - 256 * plane) / 256.0;
            let level = f64::from(plane) / f64::from(top);
            self.beta * (f64::from(gray) - level) + level + self.alpha * f * (-f * f / 2.0).exp()
        };
        self.down.insert(key, v);
        v
    }

    fn detail(&mut self, plane: i32, j: i32, x: i32, y: i32) -> f64 {
        let own = self.down(plane, j, x, y);
        if j == PYRAMID - 1 { own } else { own - doubled(x, y, |x, y| self.down(plane, j + 1, x, y)) }
    }

    fn result(&mut self, j: i32, x: i32, y: i32) -> f64 {
        if let Some(v) = self.result.get(&[j, x, y]) {
            return *v;
        }
        let depth = self.down(-1, j, x, y) * f64::from(self.levels - 1);
        let bin = (depth as i32).clamp(0, self.levels - 2);
        let share = depth - f64::from(bin);
        let picked = (1.0 - share) * self.detail(bin, j, x, y) + share * self.detail(bin + 1, j, x, y);
        let coarser = if j == PYRAMID - 1 { 0.0 } else { doubled(x, y, |x, y| self.result(j + 1, x, y)) };
        self.result.insert([j, x, y], picked + coarser);
        picked + coarser
    }
}

pub fn expected(input: &Plain, extents: &[i32], bits: u32, levels: i32, alpha: f64, beta: f64) -> Vec<f64> {
    let white = ((1 << bits) - 1) as f32;
    let (down, result) = (HashMap::new(), HashMap::new());
    let mut pyramids = Pyramids { input, white, levels, alpha, beta, down, result };
    let value = |p: &Vec<i32>| {
        let ratio = (pyramids.result(0, p[0], p[1]) + 0.01) / (f64::from(pyramids.gray(p[0], p[1])) + 0.01);
        (input.at(p) * ratio).clamp(0.0, f64::from(white)).floor()
    };
    Plain::points(extents).iter().map(value).collect()
}

#[test]
fn changes_contrast() {
    for (extents, bits, levels, alpha, beta) in
        [([45, 37, 3], 8, 8, 1.0 / 7.0, 1.0), ([33, 50, 3], 16, 5, 0.5, 0.75)]
    {
        let input = whole_input(&extents, 1 << bits);
        let expected = expected(&Plain::of(&input), &extents, bits, levels, alpha, beta);
        let params =
            [("levels", levels.to_string()), ("alpha", alpha.to_string()), ("beta", beta.to_string())];
        let within = if bits == 8 { Within::One } else { Within::Range(1e-4) };
        check("local_laplacian", &given(&params), bits, &[input], &expected, within);
    }
}

#[test]
fn elsewhere() {
    assembles("local_laplacian", &[]);
    same_bits_from_c("local_laplacian", &[], 8, &[whole_input(&[35, 20, 3], 256)]);
}
