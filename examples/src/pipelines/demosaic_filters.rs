//! The filters of learned demosaicking: as text, as they were trained, and what training starts from.

use super::planar::{Planar, Values};
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
    /// Taps along each side of what so many filters of green and of edges see: 7 for 15 filters, else 5.
    pub fn side(count: i32) -> i32 {
        if count == 15 { 7 } else { 5 }
    }

    /// Names and extents, x first, for so many filters of green. Filters of colours reach as far, but have taps only where their colour is.
    pub fn arrays(count: i32) -> [(&'static str, Vec<i32>); 5] {
        let side = Filters::side(count);
        // In a row: of pixels at odd distances, and at even ones.
        let (odd, even) = if side == 7 { (4, 3) } else { (2, 3) };
        [
            ("green", vec![side, side, count]),
            ("edges", vec![side, side, count]),
            ("beside", vec![odd, even]),
            ("below", vec![even, odd]),
            ("diagonal", vec![odd, odd]),
        ]
    }

    /// So many, as they were trained: 2, 9 or 15.
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

    /// More filters that do nearly the same: copies of these in turn, with noise; taps farther out begin at 0.
    pub fn grown(&self, count: i32) -> Filters {
        let mut random = Random::new(1);
        let mut grown = Filters { count, values: vec![] };
        let extents = Filters::arrays(self.count).into_iter().zip(Filters::arrays(count));
        for (k, ((_, from), (_, to))) in extents.enumerate() {
            let old = &self.values[k];
            // In the middle of the new taps; 0 beyond.
            let at = |[i, j, of]: [i32; 3]| {
                let [i, j] = [i - (to[0] - from[0]) / 2, j - (to[1] - from[1]) / 2];
                let of = of % from.get(2).copied().unwrap_or(1).max(1);
                let inside = (0..from[0]).contains(&i) && (0..from[1]).contains(&j);
                if inside { old[((of * from[1] + j) * from[0] + i) as usize] } else { 0.0 }
            };
            // Those of green and of edges: twins of the same numbers would stay the same.
            let size = old.iter().fold(0.0f32, |most, v| most.max(v.abs()));
            let noise = if k < 2 { 0.05 * size } else { 0.0 };
            let places =
                (0..to.iter().product::<i32>()).map(|n| [n % to[0], n / to[0] % to[1], n / (to[0] * to[1])]);
            grown.values.push(places.map(|place| at(place) + noise * random.normal() as f32).collect());
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
