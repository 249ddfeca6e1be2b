//! Depth of field.

use crate::common::{Plain, Within, assembles, check, noise, same_bits_from_c};
use std::collections::HashMap;
use sumsq_examples::pipelines::{Planar, Values};

/// Blocks of noise; in the right view each has moved by its depth.
pub fn inputs(w: i32, h: i32) -> [Planar; 2] {
    let texture: Vec<u32> = noise((w * h) as usize * 3, 256).collect();
    let view = |is_right: bool| {
        let value = |p: &Vec<i32>| {
            let depth = 2 * ((p[1] / 12 + p[0] / 40) % 3);
            let x = if is_right { p[0] - 2 * depth } else { p[0] }.clamp(0, w - 1);
            texture[((p[2] * h + p[1]) * w + x) as usize] as u8
        };
        let values = Plain::points(&[w, h, 3]).iter().map(value).collect();
        Planar { extents: vec![w, h, 3], values: Values::U8(values) }
    };
    [view(false), view(true)]
}

/// The same of 16 bits, that are no multiples of those.
fn deep_inputs(w: i32, h: i32) -> [Planar; 2] {
    inputs(w, h).map(|view| {
        let Values::U8(bytes) = view.values else { unreachable!("it is of u8") };
        let values = bytes.into_iter().map(|v| u16::from(v) * 257 - u16::from(v % 7)).collect();
        Planar { extents: view.extents, values: Values::U16(values) }
    })
}

/// A plane of numbers, which repeats its edge.
#[derive(Clone)]
struct Plane {
    size: [i32; 2],
    values: Vec<f32>,
}

impl Plane {
    fn new(size: [i32; 2], mut of: impl FnMut(i32, i32) -> f32) -> Plane {
        let values = (0..size[1]).flat_map(|y| (0..size[0]).map(move |x| (x, y)));
        Plane { size, values: values.map(|(x, y)| of(x, y)).collect() }
    }

    fn at(&self, x: i32, y: i32) -> f32 {
        let (x, y) = (x.clamp(0, self.size[0] - 1), y.clamp(0, self.size[1] - 1));
        self.values[(y * self.size[0] + x) as usize]
    }
}

/// Half of `f`, defined beyond its own domain: by a function.
fn halved(f: impl Fn(i32, i32) -> f32, size: [i32; 2]) -> Plane {
    let mean = |tap: &dyn Fn(i32) -> f32| (tap(-1) + (tap(0) + tap(1)) * 3.0 + tap(2)) / 8.0;
    Plane::new(size, |x, y| mean(&|j| mean(&|i| f(2 * x + i, 2 * y + j))))
}

pub struct Settings {
    pub slices: i32,
    pub focus: i32,
    pub scale: f32,
    pub samples: u32,
}

/// Values that `first` gives anywhere, filled in for a picture of this size and `margin` pixels around it, from where it starts.
fn filled(first: &dyn Fn(i32, i32) -> f32, size: [i32; 2], margin: i32) -> Plane {
    let at_level = |l: i32| [(size[0] >> l).max(1), (size[1] >> l).max(1)];
    let mut push = vec![halved(first, at_level(1))];
    for l in 2..8 {
        let finer = push[l as usize - 2].clone();
        push.push(halved(|x, y| finer.at(x, y), at_level(l)));
    }
    // Beyond its domain a level is filled in like inside: values by recursion, each of them once.
    struct Pull<'a> {
        push: &'a [Plane],
        first: &'a dyn Fn(i32, i32) -> f32,
        known: HashMap<(usize, i32, i32), f32>,
    }
    impl Pull<'_> {
        fn at(&mut self, l: usize, x: i32, y: i32) -> f32 {
            if let Some(v) = self.known.get(&(l, x, y)) {
                return *v;
            }
            let own = if l == 0 { (self.first)(x, y) } else { self.push[l - 1].at(x, y) };
            let value = if l == 7 { own } else { 0.5 * self.coarser(l, x, y) + 0.5 * own };
            self.known.insert((l, x, y), value);
            value
        }

        fn coarser(&mut self, l: usize, x: i32, y: i32) -> f32 {
            let near = |v: i32| [(v.div_euclid(2) - 1 + 2 * v.rem_euclid(2), 0.25), (v.div_euclid(2), 0.75)];
            let mut sum = 0.0;
            for (y, wy) in near(y) {
                for (x, wx) in near(x) {
                    sum += wx * wy * self.at(l + 1, x, y);
                }
            }
            sum
        }
    }
    let mut pull = Pull { push: &push, first, known: HashMap::new() };
    Plane::new(size.map(|n| n + 2 * margin), |x, y| pull.at(0, x - margin, y - margin))
}

/// The depth of a picture of this size and of `margin` pixels around it.
fn depths(inputs: &[Plain; 2], white: f64, size: [i32; 2], margin: i32, s: &Settings) -> Plane {
    let [left, right] = inputs;
    let unit = (white / 255.0) as f32;
    let cost = |x: i32, y: i32, z: i32| -> f32 {
        let one = |c: i32| {
            let apart = |shift: i32| (left.at(&[x, y, c]) - right.at(&[x + 2 * z + shift, y, c])).abs();
            (apart(0).min(apart(1)) as f32 / unit).powi(2)
        };
        one(0) + one(1) + one(2)
    };
    let confidence = |x: i32, y: i32| {
        let all: Vec<f32> = (0..s.slices).map(|z| cost(x, y, z)).collect();
        let n = s.slices as f32;
        let mean: f32 = all.iter().map(|c| c / n).sum();
        all.iter().map(|c| c * c).sum::<f32>() / n - mean * mean
    };
    let sure = filled(&|x, y| confidence(x, y), size, margin);
    let filtered: Vec<Plane> =
        (0..s.slices).map(|z| filled(&|x, y| cost(x, y, z) * confidence(x, y), size, margin)).collect();
    Plane::new(sure.size, |x, y| {
        let ratio = |z: &usize| filtered[*z].at(x, y) / sure.at(x, y);
        let best = (0..filtered.len()).reduce(|a, b| if ratio(&b) < ratio(&a) { b } else { a });
        best.unwrap_or(0) as f32
    })
}

fn random(seed: u32, x: i32, y: i32, s: u32) -> f32 {
    let mix = |t: u32| {
        t.wrapping_mul(0x2545_F490).wrapping_add(0x9E37_79B1).wrapping_mul(t).wrapping_add(0x7F4A_7C15)
    };
    let h = mix(mix(mix(seed.wrapping_add(x as u32)).wrapping_add(y as u32)).wrapping_add(s));
    (h >> 8) as f32 / (1 << 24) as f32
}

/// The output for depths that are given also outside of the picture.
fn gathered(
    left: &Plain,
    white: f64,
    depth: &dyn Fn(i32, i32) -> f32,
    extents: &[i32],
    s: &Settings,
) -> Vec<f64> {
    let reach = ((s.slices - s.focus).max(s.focus) as f32 * s.scale) as i32;
    let radius = |x: i32, y: i32| (depth(x, y) - s.focus as f32).abs() * s.scale;
    let value = |p: &Vec<i32>| {
        let (x, y) = (p[0], p[1]);
        let around = (-reach..=reach).flat_map(|j| (-reach..=reach).map(move |i| (i, j)));
        let worst = around.map(|(i, j)| radius(x + i, y + j)).fold(0.0, f32::max);
        let colour = |x: i32, y: i32| left.at(&[x, y, p[2]]) as f32 / white as f32;
        let (mut sum, mut weights) = (colour(x, y), 1.0);
        for k in 0..s.samples {
            let place = |seed| (((random(seed, x, y, k) - 0.5) * 2.0 * worst) as i32).clamp(-reach, reach);
            let (u, v) = (place(0x3C6E_F372), place(0xDAA6_6D2B));
            let covers = |r: f32| ((u * u + v * v) as f32) < r * r;
            let in_front = depth(x + u, y + v) < depth(x, y);
            if (covers(radius(x, y)) || in_front) && covers(radius(x + u, y + v)) {
                sum += colour(x + u, y + v);
                weights += 1.0;
            }
        }
        f64::from(sum / weights)
    };
    Plain::points(extents).iter().map(value).collect()
}

pub fn expected(inputs: &[Planar; 2], s: &Settings) -> Vec<f64> {
    let views = inputs.each_ref().map(Plain::of);
    let extents = &inputs[0].extents;
    // Depths are read beyond the picture, too, by no more than the greatest radius.
    let margin = ((s.slices - s.focus) as f32 * s.scale) as i32;
    let white = f64::from((1 << inputs[0].values.bits()) - 1);
    let depth = depths(&views, white, [extents[0], extents[1]], margin, s);
    gathered(&views[0], white, &|x, y| depth.at(x + margin, y + margin), extents, s)
}

#[test]
fn blurs() {
    let (w, h) = (141, 37);
    let s = Settings { slices: 6, focus: 2, scale: 0.75, samples: 9 };
    let inputs = inputs(w, h);
    let expected = expected(&inputs, &s);
    let params = [("slices", "6"), ("focus", "2"), ("scale", "0.75"), ("samples", "9")];
    check("lens_blur", &params, 8, &inputs, &expected, Within::Range(1e-4));
}

#[test]
fn blurs_samples_of_16_bits() {
    let s = Settings { slices: 4, focus: 1, scale: 0.75, samples: 5 };
    let inputs = deep_inputs(61, 19);
    let params = [("slices", "4"), ("focus", "1"), ("scale", "0.75"), ("samples", "5")];
    check("lens_blur", &params, 16, &inputs, &expected(&inputs, &s), Within::Range(1e-4));
}

#[test]
fn elsewhere() {
    assembles("lens_blur", &[]);
    let params = [("slices", "4"), ("focus", "1"), ("samples", "3")];
    same_bits_from_c("lens_blur", &params, 8, &inputs(64, 40));
}
