//! The filters of learned demosaicking: as text, as they were trained, and what training starts from.

use super::run::{Planar, Values};
use crate::random::Random;
use std::fmt::Write;

/// The filters as trained by `cargo xtask bench demosaicking`.
const TRAINED: [(i32, &str); 2] = [
    (2, include_str!("../../../data/demosaicking/filters_2.txt")),
    (9, include_str!("../../../data/demosaicking/filters_9.txt")),
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
    /// Names and extents, x first, for so many filters of green. Filters of colours reach as far, but have taps only where their colour is.
    pub fn arrays(count: i32) -> [(&'static str, Vec<i32>); 5] {
        [
            ("green", vec![5, 5, count]),
            ("edges", vec![5, 5, count]),
            ("beside", vec![2, 3]),
            ("below", vec![3, 2]),
            ("diagonal", vec![2, 2]),
        ]
    }

    /// So many, as they were trained: 2 or 9.
    pub fn trained(count: i32) -> Filters {
        let text = TRAINED.iter().find(|(n, _)| *n == count);
        // A test reads all of them.
        text.and_then(|(_, text)| Filters::parse(count, text).ok())
            .unwrap_or_else(|| Filters::directions().grown(count))
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

    /// More filters that do nearly the same: copies of these in turn, with noise.
    pub fn grown(&self, count: i32) -> Filters {
        let mut random = Random::new(1);
        let of = (25 * self.count.max(1)) as usize;
        let mut grown = self.clone();
        grown.count = count;
        // Those of green and of edges; twins of the same numbers would stay the same.
        for values in grown.values.iter_mut().take(2) {
            let size = values.iter().fold(0.0f32, |most, v| most.max(v.abs()));
            let old = std::mem::take(values);
            let copies = (0..25 * count.max(0) as usize).map(|i| old[i % of]);
            *values = copies.map(|v| v + 0.05 * size * random.normal() as f32).collect();
        }
        grown
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
