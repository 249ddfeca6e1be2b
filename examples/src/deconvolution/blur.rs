//! Pictures whose sharp version is known, and what a moving camera makes of them.

use crate::pipelines::Picture;
use crate::random::Random;

/// Width and height of the kernel, odd.
pub const SIDE: usize = 15;
/// Standard deviation of the noise, of white.
pub const NOISE: f64 = 0.01;
/// Pixels along the shorter side of a photograph, about.
const SHORT: usize = 300;
/// Pixels between parts that are looked at for their details.
const STEP: usize = 8;

/// Brightness, row after row.
#[derive(Clone, PartialEq, Debug)]
pub struct Plane {
    /// In pixels.
    pub width: usize,
    /// In pixels.
    pub height: usize,
    /// From 0 to 1.
    pub values: Vec<f32>,
}

impl Plane {
    /// The plane with these values at x, y.
    pub fn from_fn(width: usize, height: usize, at: impl Fn(usize, usize) -> f32) -> Plane {
        let values = (0..width * height).map(|i| at(i % width, i / width)).collect();
        Plane { width, height, values }
    }

    /// A channel of a photograph, or its brightness, averaged over squares so that the shorter side has about 300 pixels.
    pub fn of(photograph: &Picture, channel: Option<usize>) -> Plane {
        let finer = (photograph.width.min(photograph.height) / SHORT).max(1);
        let colours = if photograph.channels < 3 { 1 } else { 3 };
        let planes: Vec<&[u16]> = match channel {
            Some(c) => vec![photograph.plane(c.min(colours - 1))],
            None => (0..colours).map(|c| photograph.plane(c)).collect(),
        };
        let white = f32::from(photograph.white()) * (finer * finer * planes.len()) as f32;
        let mean = |x: usize, y: usize| {
            let row = |plane: &[u16], j: usize| -> f32 {
                let row = &plane[(y * finer + j) * photograph.width + x * finer..][..finer];
                row.iter().map(|v| f32::from(*v)).sum()
            };
            planes.iter().flat_map(|p| (0..finer).map(move |j| row(p, j))).sum::<f32>() / white
        };
        Plane::from_fn(photograph.width / finer, photograph.height / finer, mean)
    }

    /// At a pixel.
    pub fn at(&self, x: usize, y: usize) -> f32 {
        self.values[y * self.width + x]
    }

    /// The part in the middle of this size, or of its own where that is smaller.
    pub fn middle(&self, [width, height]: [usize; 2]) -> Plane {
        let [width, height] = [width.min(self.width), height.min(self.height)];
        let [left, top] = [(self.width - width) / 2, (self.height - height) / 2];
        self.part([left, top], [width, height])
    }

    /// The part of this size from this corner on.
    fn part(&self, [left, top]: [usize; 2], [width, height]: [usize; 2]) -> Plane {
        Plane::from_fn(width, height, |x, y| self.at(x + left, y + top))
    }

    /// The parts of this size with the largest differences of neighbours, `count` of them or as many as fit, from the steepest on. Two of them lie
    /// apart by two thirds of their width or height at least.
    pub fn detailed(&self, size: [usize; 2], count: usize) -> Vec<Plane> {
        let [right, bottom] = [(self.width, size[0]), (self.height, size[1])]
            .map(|(n, part)| (0..(n + 1).saturating_sub(part)).step_by(STEP));
        let corners = bottom.flat_map(|top| right.clone().map(move |left| [left, top]));
        let mut rated: Vec<_> = corners.map(|at| (self.part(at, size).roughness(), at)).collect();
        rated.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let mut kept: Vec<[usize; 2]> = vec![];
        for (_, at) in rated {
            let is_near = |other: &[usize; 2]| (0..2).all(|d| 3 * other[d].abs_diff(at[d]) < 2 * size[d]);
            if kept.len() < count && !kept.iter().any(is_near) {
                kept.push(at);
            }
        }
        kept.into_iter().map(|at| self.part(at, size)).collect()
    }

    /// Sum of squared differences of neighbours.
    fn roughness(&self) -> f64 {
        let pixels = (1..self.height).flat_map(|y| (1..self.width).map(move |x| (x, y)));
        let differences = |(x, y)| [self.at(x, y) - self.at(x - 1, y), self.at(x, y) - self.at(x, y - 1)];
        pixels.flat_map(differences).map(|d| f64::from(d * d)).sum()
    }
}

/// A blurred plane, and the sharp one.
#[derive(Clone, PartialEq, Debug)]
pub struct Blurred {
    /// Weights of what a pixel sees, `side` x `side`, row after row; their sum is 1.
    pub kernel: Plane,
    /// Smaller than the sharp plane by what is seen beyond the border.
    pub blurred: Plane,
    /// The sharp one.
    pub truth: Plane,
}

impl Blurred {
    /// A plane seen through a kernel, with noise.
    pub fn of(truth: Plane, kernel: Plane, seed: u64) -> Blurred {
        let mut random = Random::new(seed);
        let less = |n: usize, side: usize| (n + 1).saturating_sub(side);
        let seen = |x: usize, y: usize| {
            let tap = |i: usize| kernel.values[i] * truth.at(x + i % kernel.width, y + i / kernel.width);
            (0..kernel.values.len()).map(tap).sum()
        };
        let mut blurred =
            Plane::from_fn(less(truth.width, kernel.width), less(truth.height, kernel.height), seen);
        blurred.values.iter_mut().for_each(|v| *v += (NOISE * random.normal()) as f32);
        Blurred { kernel, blurred, truth }
    }

    /// The blurred plane, its border repeated up to the size of the sharp one.
    pub fn start(&self) -> Plane {
        let near = |v: usize, side: usize, n: usize| v.saturating_sub(side / 2).min(n - 1);
        let (b, k) = (&self.blurred, &self.kernel);
        let at = |x: usize, y: usize| b.at(near(x, k.width, b.width), near(y, k.height, b.height));
        Plane::from_fn(self.truth.width, self.truth.height, at)
    }

    /// Does a pixel of the sharp plane count in comparisons? Those beyond the blurred one's border do not.
    fn counts(&self, i: usize) -> bool {
        let inside = |v: usize, side: usize, n: usize| (side / 2..side / 2 + n).contains(&v);
        let (b, k) = (&self.blurred, &self.kernel);
        inside(i % self.truth.width, k.width, b.width) && inside(i / self.truth.width, k.height, b.height)
    }

    /// Mean square of what an image of the sharp plane's size is off, and its slope.
    pub fn error(&self, image: &[f64]) -> (f64, Vec<f64>) {
        let count = (self.blurred.width * self.blurred.height) as f64;
        let off = |(i, (v, t)): (usize, (&f64, &f32))| if self.counts(i) { v - f64::from(*t) } else { 0.0 };
        let off: Vec<f64> = image.iter().zip(&self.truth.values).enumerate().map(off).collect();
        let square = off.iter().map(|d| d * d).sum::<f64>() / count;
        (square, off.iter().map(|d| 2.0 * d / count).collect())
    }
}

/// The way of a camera during an exposure, as weights of what a pixel sees: a smooth random walk with a few sudden turns, of 6 to 12 pixels.
pub fn motion(seed: u64, side: usize) -> Plane {
    let mut random = Random::new(seed);
    const STEPS: usize = 400;
    let length = side as f64 * (0.4 + 0.4 * random.uniform());
    let (mut angle, mut turning) = (std::f64::consts::TAU * random.uniform(), 0.0);
    let mut way = vec![[0.0; 2]];
    for _ in 0..STEPS {
        turning = 0.98 * turning + 0.004 * random.normal();
        angle += turning + if random.uniform() < 0.004 { 2.0 * random.normal() } else { 0.0 };
        let [x, y] = way[way.len() - 1];
        let step = length / STEPS as f64;
        way.push([x + step * angle.cos(), y + step * angle.sin()]);
    }
    let middle = |c: usize| {
        let all = way.iter().map(|p| p[c]);
        (all.clone().fold(f64::INFINITY, f64::min) + all.fold(f64::NEG_INFINITY, f64::max)) / 2.0
    };
    let middle = [middle(0), middle(1)];
    let mut kernel = Plane::from_fn(side, side, |_, _| 0.0);
    for p in &way {
        let at = [0, 1].map(|c| (p[c] - middle[c] + (side / 2) as f64).clamp(0.0, side as f64 - 1.001));
        let [x, y] = at.map(|v| v as usize);
        let [u, v] = at.map(|v| v.fract());
        for (i, j, share) in
            [(0, 0, (1.0 - u) * (1.0 - v)), (1, 0, u * (1.0 - v)), (0, 1, (1.0 - u) * v), (1, 1, u * v)]
        {
            kernel.values[(y + j) * side + x + i] += (share / way.len() as f64) as f32;
        }
    }
    kernel
}
