//! Demosaicking: bilinear, by homogeneity, by learned filters.

use crate::common::{Plain, Within, assembles, check, real_input, same_bits_from_c, signed_input};
use sumsq_examples::pipelines::{Filters, Planar};

/// Sizes of mosaics: odd ones, several vectors wide and several strips high, and smaller than what is read around a pixel.
const SIZES: [[i32; 2]; 3] = [[69, 37], [34, 41], [3, 2]];

/// A value per pixel of the plane and number, each computed once, from the mosaic with its mirror images around it.
struct Mosaic {
    values: Plain,
    size: [i32; 2],
}

impl Mosaic {
    fn of(input: &Planar) -> Mosaic {
        Mosaic { values: Plain::of(input), size: [input.extents[0], input.extents[1]] }
    }

    fn at(&self, x: i32, y: i32) -> f64 {
        let folded = |x: i32, n: i32| {
            let x = x.rem_euclid(2 * (n - 1));
            x.min(2 * (n - 1) - x)
        };
        self.values.at(&[folded(x, self.size[0]), folded(y, self.size[1])])
    }

    /// The three channels of every pixel, planes behind each other.
    fn picture(&self, colour: impl Fn(i32, i32) -> [f64; 3]) -> Vec<f64> {
        let pixels = (0..self.size[0] * self.size[1]).map(|i| (i % self.size[0], i / self.size[0]));
        let all: Vec<[f64; 3]> = pixels.map(|(x, y)| colour(x, y)).collect();
        (0..3).flat_map(|c| all.iter().map(move |v| v[c])).collect()
    }
}

/// The channel of a pixel.
fn channel(x: i32, y: i32) -> usize {
    (x.rem_euclid(2) + y.rem_euclid(2)) as usize
}

/// The mean of `value` over the nearest pixels of a channel: those among the eight around that are at the least distance.
fn nearest(x: i32, y: i32, c: usize, value: impl Fn(i32, i32) -> f64) -> f64 {
    for distance in 0..3 {
        let around = (-1..2).flat_map(|j| (-1..2).map(move |i| (i, j)));
        let found: Vec<f64> = around
            .filter(|(i, j)| i * i + j * j == distance && channel(x + i, y + j) == c)
            .map(|(i, j)| value(x + i, y + j))
            .collect();
        if !found.is_empty() {
            return found.iter().sum::<f64>() / found.len() as f64;
        }
    }
    panic!("a channel is missing")
}

/// Each channel from its nearest pixels.
pub fn bilinear(input: &Planar) -> Vec<f64> {
    let mosaic = Mosaic::of(input);
    mosaic.picture(|x, y| [0, 1, 2].map(|c| nearest(x, y, c, |x, y| mosaic.at(x, y))))
}

#[test]
fn means_of_the_nearest() {
    for size in SIZES {
        let input = real_input(&size);
        let expected = bilinear(&input);
        check("demosaic_bilinear", &[], 8, &[input], &expected, Within::Range(1e-6));
    }
}

/// A mosaic filled in along rows (d = 0) and columns (1).
impl Mosaic {
    fn green(&self, x: i32, y: i32, d: usize) -> f64 {
        let along = |k: i32| if d == 0 { self.at(x + k, y) } else { self.at(x, y + k) };
        if channel(x, y) == 1 {
            return along(0);
        }
        let (low, high) = (along(-1).min(along(1)), along(-1).max(along(1)));
        let bent = -along(-2) + 2.0 * along(0) - along(2);
        ((2.0 * along(-1) + 2.0 * along(1) + bent) / 4.0).clamp(low, high)
    }

    fn filled(&self, x: i32, y: i32, d: usize) -> [f64; 3] {
        let green = self.green(x, y, d);
        [0, 1, 2].map(|c| match c {
            1 => green,
            c if c == channel(x, y) => self.at(x, y),
            c => green + nearest(x, y, c, |x, y| self.at(x, y) - self.green(x, y, d)),
        })
    }

    fn lab(&self, x: i32, y: i32, d: usize) -> [f64; 3] {
        let [r, g, b] = self.filled(x, y, d);
        let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let fx = f((0.412453 * r + 0.357580 * g + 0.180423 * b) / 0.950456);
        let fy = f(0.212671 * r + 0.715160 * g + 0.072169 * b);
        let fz = f((0.019334 * r + 0.119193 * g + 0.950227 * b) / 1.088754);
        [116.0 * fy - 16.0, 500.0 * (fx - fy), 200.0 * (fy - fz)]
    }
}

/// The choice of AHD at each pixel.
struct Ahd<'a> {
    mosaic: &'a Mosaic,
    lab: [Values; 2],
}

impl Ahd<'_> {
    /// The difference of (x + i, y + j): in brightness, and in colour, squared.
    fn change(&self, [x, y]: [i32; 2], [i, j]: [i32; 2], d: usize) -> [f64; 2] {
        let (a, b) = ((self.lab[d])(x, y), (self.lab[d])(x + i, y + j));
        [(a[0] - b[0]).abs(), (a[1] - b[1]).powi(2) + (a[2] - b[2]).powi(2)]
    }

    fn count(&self, x: i32, y: i32, d: usize) -> i32 {
        let most = |n: usize| {
            let larger = |steps: [[i32; 2]; 2], d| {
                steps.map(|s| self.change([x, y], s, d)[n]).into_iter().fold(0.0, f64::max)
            };
            larger([[-1, 0], [1, 0]], 0).min(larger([[0, -1], [0, 1]], 1))
        };
        let most = [most(0), most(1)];
        let around = [[-1, 0], [1, 0], [0, -1], [0, 1]].map(|s| self.change([x, y], s, d));
        around.iter().filter(|c| c[0] <= most[0] && c[1] <= most[1]).count() as i32
    }

    fn chosen(&self, x: i32, y: i32) -> [f64; 3] {
        let alike = |d| (0..9).map(|k| self.count(x + k % 3 - 1, y + k / 3 - 1, d)).sum::<i32>();
        let [rows, columns] = [0, 1].map(|d| self.mosaic.filled(x, y, d));
        match alike(0).cmp(&alike(1)) {
            std::cmp::Ordering::Greater => rows,
            std::cmp::Ordering::Less => columns,
            std::cmp::Ordering::Equal => [0, 1, 2].map(|c| 0.5 * (rows[c] + columns[c])),
        }
    }
}

/// The median of what is around a pixel.
fn median(x: i32, y: i32, value: impl Fn(i32, i32) -> f64) -> f64 {
    let mut all: Vec<f64> = (0..9).map(|k| value(x + k % 3 - 1, y + k / 3 - 1)).collect();
    all.sort_by(f64::total_cmp);
    all[4]
}

/// Three numbers for each pixel.
type Values = Box<dyn Fn(i32, i32) -> [f64; 3]>;

/// Values at pixels of a picture and a border around it, computed once.
fn kept(size: [i32; 2], border: i32, value: &dyn Fn(i32, i32) -> [f64; 3]) -> Values {
    let width = size[0] + 2 * border;
    let all: Vec<[f64; 3]> =
        (0..width * (size[1] + 2 * border)).map(|i| value(i % width - border, i / width - border)).collect();
    Box::new(move |x, y| all[((y + border) * width + x + border) as usize])
}

/// Along rows or columns, with the medians of differences after it.
pub fn homogeneous(input: &Planar) -> Vec<f64> {
    let mosaic = Mosaic::of(input);
    let size = mosaic.size;
    let lab = [0, 1].map(|d| kept(size, 4, &|x, y| mosaic.lab(x, y, d)));
    let ahd = Ahd { mosaic: &mosaic, lab };
    let chosen = kept(size, 2, &|x, y| ahd.chosen(x, y));
    let others = kept(size, 1, &|x, y| {
        [0, 1, 2].map(|c| match c {
            c if c == channel(x, y) => mosaic.at(x, y),
            c => chosen(x, y)[1] + median(x, y, |x, y| chosen(x, y)[c] - chosen(x, y)[1]),
        })
    });
    mosaic.picture(|x, y| {
        let green = |c: usize| others(x, y)[c] + median(x, y, |x, y| chosen(x, y)[1] - others(x, y)[c]);
        let green = if channel(x, y) == 1 { mosaic.at(x, y) } else { (green(0) + green(2)) / 2.0 };
        [others(x, y)[0], green, others(x, y)[2]]
    })
}

#[test]
fn the_more_homogeneous_direction() {
    for size in SIZES {
        let input = real_input(&size);
        let expected = homogeneous(&input);
        check("demosaic_ahd", &[], 8, &[input], &expected, Within::Range(1e-5));
    }
}

/// A mosaic and filters.
pub fn learned_inputs(size: [i32; 2], count: i32) -> Vec<Planar> {
    let arrays = Filters::arrays(count);
    std::iter::once(real_input(&size)).chain(arrays.iter().map(|(_, n)| signed_input(n))).collect()
}

/// Learned demosaicking of a mosaic with filters.
pub fn learned(inputs: &[Planar], count: i32) -> Vec<f64> {
    let mosaic = &Mosaic::of(&inputs[0]);
    let arrays: Vec<Plain> = inputs[1..].iter().map(Plain::of).collect();
    let [green, edges, beside, below, diagonal] = &arrays[..] else { panic!("five arrays") };
    let width = Filters::side(count);
    let filtered = |taps: &Plain, x: i32, y: i32, k: i32| {
        let taps = (0..width * width).map(|n| (n % width, n / width, taps.at(&[n % width, n / width, k])));
        taps.map(|(i, j, tap)| tap * mosaic.at(x + i - width / 2, y + j - width / 2)).sum::<f64>()
    };
    let filled = kept(mosaic.size, width / 2, &|x, y| {
        let (mut sum, mut weights) = (0.0, 0.0);
        for k in 0..count {
            let response = |n: i32| filtered(edges, x + n % 3 - 1, y + n / 3 - 1, k).powi(2);
            let weight = 1.0 / ((0..9).map(response).sum::<f64>() + 1e-3);
            sum += weight * filtered(green, x, y, k);
            weights += weight;
        }
        [if channel(x, y) == 1 { mosaic.at(x, y) } else { sum / weights }; 3]
    });
    let filled = |x: i32, y: i32| filled(x, y)[0];
    mosaic.picture(|x, y| {
        let missing = |c: usize| {
            // In which columns and rows around the pixel the channel is.
            let is_beside = (x - c as i32 / 2).rem_euclid(2) == 1;
            let is_below = (y - c as i32 / 2).rem_euclid(2) == 1;
            let places = |is_apart: bool| {
                (-width / 2..=width / 2).filter(|d| (d % 2 != 0) == is_apart).collect::<Vec<i32>>()
            };
            let (columns, rows) = (places(is_beside), places(is_below));
            let taps = match (is_beside, is_below) {
                (true, true) => diagonal,
                (true, false) => beside,
                _ => below,
            };
            let mut sum = filled(x, y);
            for (i, dx) in (0..).zip(&columns) {
                for (j, dy) in (0..).zip(&rows) {
                    sum += taps.at(&[i, j]) * (mosaic.at(x + dx, y + dy) - filled(x + dx, y + dy));
                }
            }
            sum
        };
        [0, 1, 2].map(|c| match c {
            c if c == channel(x, y) => mosaic.at(x, y),
            1 => filled(x, y),
            c => missing(c),
        })
    })
}

#[test]
fn filters_weighted_by_edges() {
    for (size, count) in [(SIZES[0], 2), (SIZES[1], 9), (SIZES[2], 9), (SIZES[1], 15), (SIZES[2], 15)] {
        let inputs = learned_inputs(size, count);
        let expected = learned(&inputs, count);
        check(
            "demosaic_learned",
            &[("filters", &count.to_string())],
            8,
            &inputs,
            &expected,
            Within::Range(1e-5),
        );
    }
}

/// The filters that come with the application are such as were trained, not what stands for them.
#[test]
fn trained_filters_are_read() {
    for count in [2, 9, 15] {
        let filters = Filters::trained(count);
        assert_eq!(Filters::parse(count, &filters.text()), Ok(filters.clone()));
        assert!(filters != Filters::directions().grown(count), "{count}");
    }
    assert_eq!(Filters::parse(2, "green 1 2"), Err("green: expected 50 finite numbers, came 2".into()));
    assert_eq!(Filters::parse(2, ""), Err("green is missing".into()));
}

#[test]
fn elsewhere() {
    let inputs = |count: i32| {
        let filters = Filters::trained(count);
        let arrays = (0..filters.values.len()).map(|k| filters.array(k));
        [real_input(&[37, 20])].into_iter().chain(arrays).collect::<Vec<Planar>>()
    };
    for name in ["demosaic_bilinear", "demosaic_ahd"] {
        assembles(name, &[]);
        same_bits_from_c(name, &[], 8, &inputs(2)[..1]);
    }
    for count in [2, 9, 15] {
        let params = [("filters", &*count.to_string())];
        assembles("demosaic_learned", &params);
        same_bits_from_c("demosaic_learned", &params, 8, &inputs(count));
    }
}
