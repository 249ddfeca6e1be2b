//! The filters of learned demosaicking: as text, as they were trained, and what training starts from.

use super::run::{Planar, Values};
use crate::random::Random;
use std::fmt::Write;

/// The filters as trained by `cargo xtask bench demosaicking`.
const TRAINED: [(i32, &str); 3] = [
    (2, include_str!("../../../data/demosaicking/filters_2.txt")),
    (9, include_str!("../../../data/demosaicking/filters_9.txt")),
    (15, include_str!("../../../data/demosaicking/filters_15.txt")),
];

/// The filters of learned demosaicking.
#[derive(Clone, PartialEq, Debug)]
pub struct Filters {
    /// Number of the filters of green.
    pub count: i32,
    /// The numbers of each of [`Filters::arrays`], x the fastest.
    pub values: Vec<Vec<f32>>,
}

impl Filters {
    /// Names and extents, x first, for so many filters of green: of 5 x 5 taps, from 15 filters on of 7 x 7. Filters of colours reach as far, but
    /// have taps only where their colour is.
    pub fn arrays(count: i32) -> [(&'static str, Vec<i32>); 5] {
        let width = if count < 15 { 5 } else { 7 };
        let (odd, even) = ((width / 2 + 1) / 2 * 2, width / 4 * 2 + 1);
        [
            ("green", vec![width, width, count]),
            ("edges", vec![5, 5, count]),
            ("beside", vec![odd, even]),
            ("below", vec![even, odd]),
            ("diagonal", vec![odd, odd]),
        ]
    }

    /// So many, as they were trained: 2, 9 or 15.
    pub fn trained(count: i32) -> Filters {
        let text = TRAINED.iter().find(|(n, _)| *n == count);
        // A test reads all of them.
        text.and_then(|(_, text)| Filters::parse(count, text).ok()).unwrap_or_else(|| Filters::directions().grown(count))
    }

    /// Array `k` of [`Filters::arrays`].
    pub fn array(&self, k: usize) -> Planar {
        let (_, extents) = &Filters::arrays(self.count)[k];
        Planar { extents: extents.clone(), values: Values::F32(self.values[k].clone()) }
    }

    /// Two filters, untrained: those of AHD, along rows and along columns, each with the difference of second order by which it bends as
    /// that of edges; differences of colours are means of the nearest ones.
    pub fn directions() -> Filters {
        let lines = |taps: [f32; 5]| {
            let (mut rows, mut columns) = (vec![0.0; 25], vec![0.0; 25]);
            for (k, tap) in taps.into_iter().enumerate() {
                (rows[10 + k], columns[5 * k + 2]) = (tap, tap);
            }
            [rows, columns].concat()
        };
        let values = vec![
            lines([-0.25, 0.5, 0.5, 0.5, -0.25]),
            lines([1.0, 0.0, -2.0, 0.0, 1.0]),
            vec![0.0, 0.0, 0.5, 0.5, 0.0, 0.0],
            vec![0.0, 0.5, 0.0, 0.0, 0.5, 0.0],
            vec![0.25; 4],
        ];
        Filters { count: 2, values }
    }

    /// More filters that do nearly the same: copies of these in turn, with noise, in the middle of the larger ones.
    pub fn grown(&self, count: i32) -> Filters {
        let mut random = Random::new(1);
        let (from, to) = (Filters::arrays(self.count), Filters::arrays(count));
        let copied = |(values, (from, to)): (&Vec<f32>, (&Vec<i32>, &Vec<i32>))| {
            let sizes = |n: &Vec<i32>| (n[0] as usize, n[1] as usize, n.get(2).map_or(1, |&k| k as usize));
            let ((width, height, copies), (across, down, all)) = (sizes(from), sizes(to));
            let size = values.iter().fold(0.0f32, |most, v| most.max(v.abs()));
            let mut grown = vec![0.0; across * down * all];
            for (i, v) in grown.iter_mut().enumerate() {
                let (x, y, k) = (i % across, i / across % down, i / (across * down));
                let inside = |x: usize, border: usize, n: usize| x.checked_sub(border).filter(|x| *x < n);
                let place = (inside(x, (across - width) / 2, width), inside(y, (down - height) / 2, height));
                if let (Some(x), Some(y)) = place {
                    *v = values[(k % copies * height + y) * width + x];
                }
                // Twins of the same numbers would stay the same.
                if all > copies {
                    *v += 0.05 * size * random.normal() as f32;
                }
            }
            grown
        };
        let sizes = from.iter().map(|(_, n)| n).zip(to.iter().map(|(_, n)| n));
        Filters { count, values: self.values.iter().zip(sizes).map(copied).collect() }
    }

    /// From text as [`Filters::text`] writes it.
    ///
    /// # Errors
    /// In words: the array that is not as expected.
    pub fn parse(count: i32, text: &str) -> Result<Filters, String> {
        let lines = text.lines().map(|line| line.split("//").next().unwrap_or("").trim());
        let mut words = lines.flat_map(str::split_whitespace).peekable();
        let mut values = vec![];
        for (name, extents) in Filters::arrays(count) {
            if words.next() != Some(name) {
                return Err(format!("{name} is missing"));
            }
            let numbers: Vec<f32> = std::iter::from_fn(|| words.next_if(|w| w.parse::<f32>().is_ok()))
                .filter_map(|w| w.parse().ok())
                .collect();
            let expected = extents.iter().product::<i32>() as usize;
            if numbers.len() != expected || numbers.iter().any(|v| !v.is_finite()) {
                return Err(format!("{name}: expected {expected} finite numbers, came {}", numbers.len()));
            }
            values.push(numbers);
        }
        Ok(Filters { count, values })
    }

    /// A line for each array's name and for each row of its numbers.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for ((name, extents), values) in Filters::arrays(self.count).iter().zip(&self.values) {
            let _ = writeln!(text, "{name}");
            for row in values.chunks(extents[0].max(1) as usize) {
                let _ = writeln!(text, "{}", row.iter().map(f32::to_string).collect::<Vec<_>>().join(" "));
            }
        }
        text
    }
}
