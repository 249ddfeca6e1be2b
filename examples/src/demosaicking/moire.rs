//! Patterns finer than a mosaic resolves, as of cloth, fences and roofs: cells with gratings, checks and rings of two colours each.

use super::{FINER, Scene};
use crate::random::Random;
use std::f64::consts::{PI, TAU};

/// Cycles per pixel of the patterns: from such as every filter resolves nearly up to the finest that pixels hold.
const FREQUENCY: [f64; 2] = [0.08, 0.4];
/// Cells per pixel of the picture's side.
const CELLS: f64 = 1.0 / 16.0;

/// A cell: what is nearer to its centre than to any other.
struct Cell {
    centre: [f64; 2],
    direction: [f64; 2],
    frequency: f64,
    kind: usize,
    colours: [[f64; 3]; 2],
}

impl Cell {
    fn new(random: &mut Random, size: f64) -> Cell {
        let mut within = |least: f64, most: f64| least + (most - least) * random.uniform();
        let centre = [within(0.0, size), within(0.0, size)];
        let angle = within(0.0, PI);
        let frequency = within(FREQUENCY[0], FREQUENCY[1]);
        let kind = within(0.0, 3.0) as usize;
        // Mostly brightness, as of most things.
        let bright = within(0.0, 1.0);
        let mut colour = |bright: f64| [(); 3].map(|()| 0.65 * bright + 0.35 * within(0.0, 1.0));
        let colours = [colour(bright), colour(1.0 - bright)];
        Cell { centre, direction: [angle.cos(), angle.sin()], frequency, kind, colours }
    }

    /// A channel at a point.
    fn at(&self, [x, y]: [f64; 2], size: f64, c: usize) -> f64 {
        let [u, v] = [x - self.centre[0], y - self.centre[1]];
        let [cos, sin] = self.direction;
        let wave = |t: f64| (TAU * self.frequency * t).cos();
        let value = match self.kind {
            0 => wave(u * cos + v * sin),
            1 => wave(u * cos + v * sin) * wave(v * cos - u * sin),
            // Rings that become finer outwards.
            _ => wave(0.15 * u.hypot(v) + (u * u + v * v) / size),
        };
        let share = 0.5 + 0.5 * value;
        self.colours[0][c] * (1.0 - share) + self.colours[1][c] * share
    }
}

/// A square picture of such patterns, one for each seed, averaged over each pixel as a photograph is.
pub fn moire(seed: u64, size: usize) -> Scene {
    let mut random = Random::new(seed);
    let side = size as f64;
    let cells: Vec<Cell> =
        (0..((CELLS * side) as usize).max(1)).map(|_| Cell::new(&mut random, side)).collect();
    let nearest = |[x, y]: [f64; 2]| {
        let distance = |cell: &Cell| (x - cell.centre[0]).powi(2) + (y - cell.centre[1]).powi(2);
        cells.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))
    };
    let mean = |x: usize, y: usize, c: usize| {
        let place = |k: usize, i: usize| k as f64 + (i as f64 + 0.5) / FINER as f64;
        let at = |k: usize| [place(x, k % FINER), place(y, k / FINER)];
        let value = |k: usize| nearest(at(k)).map_or(0.0, |cell| cell.at(at(k), side, c));
        ((0..FINER * FINER).map(value).sum::<f64>() / (FINER * FINER) as f64) as f32
    };
    Scene::from_fn(size, size, mean)
}
