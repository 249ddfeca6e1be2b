//! A burst of raw frames whose truth is known: a photograph of several times the size, seen from slightly different sides, averaged over
//! each pixel, of which the sensor keeps one colour, with noise.

use super::homography::Homography;
use crate::demos::DemoError;
use crate::demos::run::decode;
use crate::random::Random;
use image::RgbImage;

/// Photograph by Clemens Engelhardt.
const PICTURE: &[u8] = include_bytes!("../../../../data/pipelines/seeding.jpg");
/// Frames, the first of which everything is aligned to.
const FRAMES: usize = 13;
/// Pixels of the photograph along each side of a pixel.
const FINER: usize = 4;
/// Standard deviation of the noise, of 1.
const NOISE: f64 = 0.01;
/// Largest shift, and largest effect of each other number of a homography, in pixels.
const SHIFT: f64 = 6.0;
const TURN: f64 = 8.0;
const TILT: f64 = 2.0;

/// The channel that a sensor of pattern RGGB has at a pixel: 0 red, 1 green, 2 blue.
pub fn channel(x: usize, y: usize) -> usize {
    x % 2 + y % 2
}

/// Raw frames of one scene, and what is true of them.
#[derive(Clone, Debug)]
pub struct Burst {
    /// Width of a frame, even.
    pub width: usize,
    /// Height of a frame, even.
    pub height: usize,
    /// The values of all frames, frame after frame, row by row, from 0 to 1.
    pub frames: Vec<f32>,
    /// The picture that the first frame is a mosaic of: plane after plane, row by row.
    pub truth: Vec<f32>,
    /// The homographies that take pixels of frames 1, 2... to the first.
    pub homographies: Vec<Homography>,
}

impl Burst {
    /// A photograph of a field, in a megapixel.
    pub fn of_seeding() -> Result<Burst, DemoError> {
        let photograph = decode(PICTURE)?.to_rgb8();
        let size = |n: u32| n as usize / FINER / 2 * 2;
        let (width, height) = (size(photograph.width()), size(photograph.height()));
        Ok(Burst::of(&photograph, [0, 0], [width, height], FRAMES))
    }

    /// The part of a photograph that begins at pixel `corner`, in frames of this size, a quarter of its resolution.
    pub fn of(photograph: &RgbImage, corner: [usize; 2], size: [usize; 2], count: usize) -> Burst {
        let mut random = Random::new(1);
        let mut within = |most: f64| most * (2.0 * random.uniform() - 1.0);
        let mut homography = || {
            let (turn, grow) = (within(TURN), within(0.2 * TURN));
            let [shift_x, shift_y, tilt_x, tilt_y] = [SHIFT, SHIFT, TILT, TILT].map(&mut within);
            Homography([grow, -turn, shift_x, turn, grow, shift_y, tilt_x, tilt_y])
        };
        let homographies: Vec<Homography> = (1..count).map(|_| homography()).collect();
        let [width, height] = size;
        let view = View { photograph, corner, size };
        let mut truth = vec![0.0; 3 * width * height];
        let mut frames = vec![0.0; count * width * height];
        std::thread::scope(|scope| {
            for (c, plane) in truth.chunks_mut(width * height).enumerate() {
                scope.spawn(move || view.render(&Homography::default(), plane, |_, _| c));
            }
            for (k, frame) in frames.chunks_mut(width * height).enumerate() {
                let h = k.checked_sub(1).map_or(Homography::default(), |k| homographies[k]);
                scope.spawn(move || {
                    view.render(&h, frame, channel);
                    let mut random = Random::new(100 + k as u64);
                    frame.iter_mut().for_each(|v| *v += (NOISE * random.normal()) as f32);
                });
            }
        });
        Burst { width, height, frames, truth, homographies }
    }

    /// Index of channel `c` at a pixel of a picture.
    pub fn at(&self, x: usize, y: usize, c: usize) -> usize {
        (c * self.height + y) * self.width + x
    }

    /// The raw value of a frame at a pixel.
    pub fn raw(&self, frame: usize, x: usize, y: usize) -> f32 {
        self.frames[self.at(x, y, frame)]
    }

    /// A frame alone as a picture: each missing channel is the mean of that channel's pixels among the eight neighbours.
    pub fn demosaicked(&self, frame: usize) -> Vec<f32> {
        let mut picture = vec![0.0; 3 * self.width * self.height];
        for y in 0..self.height {
            for x in 0..self.width {
                let (mut sums, mut counts) = ([0.0; 3], [0.0f32; 3]);
                for ny in y.saturating_sub(1)..(y + 2).min(self.height) {
                    for nx in x.saturating_sub(1)..(x + 2).min(self.width) {
                        let c = channel(nx, ny);
                        // Of green where green is missing, only the four nearest.
                        let counts_here = c != 1 || channel(x, y) == 1 || nx == x || ny == y;
                        if counts_here {
                            sums[c] += self.raw(frame, nx, ny);
                            counts[c] += 1.0;
                        }
                    }
                }
                for c in 0..3 {
                    let own = c == channel(x, y);
                    picture[self.at(x, y, c)] = if own { self.raw(frame, x, y) } else { sums[c] / counts[c] };
                }
            }
        }
        picture
    }

    /// Root mean square of a picture's error, a margin apart that not all frames see.
    pub fn error(&self, picture: &[f32]) -> f64 {
        let margin = (SHIFT + TURN + TILT) as usize + 4;
        let (mut sum, mut count) = (0.0, 0.0);
        for c in 0..3 {
            for y in margin..self.height - margin {
                for x in margin..self.width - margin {
                    let i = self.at(x, y, c);
                    sum += f64::from(picture[i] - self.truth[i]).powi(2);
                    count += 1.0;
                }
            }
        }
        (sum / f64::max(count, 1.0)).sqrt()
    }

    /// Mean distance from where the corners of the frames lie in the first to where these homographies take them.
    pub fn corners(&self, homographies: &[Homography]) -> f64 {
        let size = [self.width, self.height];
        let [right, bottom] = size.map(|n| n as f64 - 1.0);
        let corners = [[0.0, 0.0], [right, 0.0], [0.0, bottom], [right, bottom]];
        let off = |(a, b): (&Homography, &Homography)| {
            let distance = |p: &[f64; 2]| {
                let ([ax, ay], [bx, by]) = (a.apply(*p, size), b.apply(*p, size));
                (ax - bx).hypot(ay - by)
            };
            corners.iter().map(distance).sum::<f64>() / 4.0
        };
        let count = homographies.len().max(1) as f64;
        homographies.iter().zip(&self.homographies).map(off).sum::<f64>() / count
    }
}

/// A photograph, and the part of it that frames show.
#[derive(Clone, Copy)]
struct View<'p> {
    photograph: &'p RgbImage,
    corner: [usize; 2],
    size: [usize; 2],
}

impl View<'_> {
    /// One channel, by pixel, of the view that `h` takes to the first frame: means over the area of each pixel.
    fn render(&self, h: &Homography, into: &mut [f32], channel: impl Fn(usize, usize) -> usize) {
        let width = self.size[0];
        for (i, value) in into.iter_mut().enumerate() {
            let (x, y) = (i % width, i / width);
            let c = channel(x, y);
            let mut sum = 0.0;
            for k in 0..FINER * FINER {
                let part = |k: usize| (k as f64 + 0.5) / FINER as f64 - 0.5;
                let p = [x as f64 + part(k % FINER), y as f64 + part(k / FINER)];
                let fine = |(u, corner): (f64, usize)| (u + 0.5) * FINER as f64 - 0.5 + corner as f64;
                let [u, v] = h.apply(p, self.size);
                sum += self.sample(fine((u, self.corner[0])), fine((v, self.corner[1])), c);
            }
            *value = sum / (FINER * FINER) as f32;
        }
    }

    /// The photograph between its pixels.
    fn sample(&self, x: f64, y: f64, c: usize) -> f32 {
        let last = [self.photograph.width(), self.photograph.height()].map(|n| f64::from(n - 2));
        let (x, y) = (x.clamp(0.0, last[0]), y.clamp(0.0, last[1]));
        let (left, top) = (x as u32, y as u32);
        let (fx, fy) = ((x - f64::from(left)) as f32, (y - f64::from(top)) as f32);
        let at = |dx, dy| f32::from(self.photograph.get_pixel(left + dx, top + dy).0[c]) / 255.0;
        let row = |dy| at(0, dy) * (1.0 - fx) + at(1, dy) * fx;
        row(0) * (1.0 - fy) + row(1) * fy
    }
}
