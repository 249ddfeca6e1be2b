//! Filled-in colours.

use crate::common::{Plain, Within, assembles, check, noise, real_input, same_bits_from_c};
use std::collections::HashMap;
use sumsq_examples::pipelines::{Planar, Values};

/// One pixel in four is known.
pub fn input(w: i32, h: i32) -> Planar {
    let mut input = real_input(&[w, h, 4]);
    let n = (w * h) as usize;
    if let Values::F32(v) = &mut input.values {
        v[3 * n..].iter_mut().zip(noise(n, 4)).for_each(|(a, v)| *a = f32::from(v == 0));
    }
    input
}

/// Values by level and place, each computed once.
struct Levels<'a> {
    input: &'a Plain,
    size: [i32; 2],
    down: HashMap<[i32; 3], [f64; 4]>,
    up: HashMap<[i32; 3], [f64; 4]>,
}

fn mean(parts: &[([f64; 4], f64)]) -> [f64; 4] {
    std::array::from_fn(|c| parts.iter().map(|(v, w)| v[c] * w).sum())
}

impl Levels<'_> {
    fn down(&mut self, l: i32, x: i32, y: i32) -> [f64; 4] {
        if let Some(v) = self.down.get(&[l, x, y]) {
            return *v;
        }
        let v = if l == 0 {
            let a = self.input.at(&[x, y, 3]);
            std::array::from_fn(|c| if c < 3 { self.input.at(&[x, y, c as i32]) * a } else { a })
        } else {
            let mut parts = vec![];
            for (j, wy) in [(-1, 0.25), (0, 0.5), (1, 0.25)] {
                for (i, wx) in [(-1, 0.25), (0, 0.5), (1, 0.25)] {
                    let (mut x, mut y) = (2 * x + i, 2 * y + j);
                    if l == 4 {
                        (x, y) = (x.clamp(0, self.size[0] / 8), y.clamp(0, self.size[1] / 8));
                    }
                    parts.push((self.down(l - 1, x, y), wx * wy));
                }
            }
            mean(&parts)
        };
        self.down.insert([l, x, y], v);
        v
    }

    fn filled(&mut self, l: i32, x: i32, y: i32) -> [f64; 4] {
        if let Some(v) = self.up.get(&[l, x, y]) {
            return *v;
        }
        let own = self.down(l, x, y);
        let v = if l == 9 {
            own
        } else {
            let half = |v: i32| [v.div_euclid(2), (v + 1).div_euclid(2)];
            let mut parts = vec![(own, 1.0)];
            for y in half(y) {
                for x in half(x) {
                    parts.push((self.filled(l + 1, x, y), 0.25 * (1.0 - own[3])));
                }
            }
            mean(&parts)
        };
        self.up.insert([l, x, y], v);
        v
    }
}

pub fn expected(input: &Plain, w: i32, h: i32) -> Vec<f64> {
    let mut levels = Levels { input, size: [w, h], down: HashMap::new(), up: HashMap::new() };
    let value = |p: &Vec<i32>| {
        let v = levels.filled(0, p[0], p[1]);
        v[p[2] as usize] / v[3]
    };
    Plain::points(&[w, h, 3]).iter().map(value).collect()
}

#[test]
fn fills_in() {
    for (w, h) in [(67, 41), (33, 70)] {
        let input = input(w, h);
        let expected = expected(&Plain::of(&input), w, h);
        check("interpolate", &[], 8, &[input], &expected, Within::Range(1e-4));
    }
}

#[test]
fn elsewhere() {
    assembles("interpolate", &[]);
    same_bits_from_c("interpolate", &[], 8, &[input(35, 20)]);
}
