//! Sections of lenses with rays, and spots.

use super::lens::{Beams, Lens};
use super::trace::trace;
use super::{Spots, lost};
use crate::demos::DemoError;
use crate::raster::stroke;
use image::{Rgb, RgbImage};

/// Colours of fields, from the axis outwards.
const COLOURS: [[u8; 3]; 4] = [[31, 90, 158], [60, 150, 90], [214, 125, 44], [170, 50, 90]];
const OUTLINE: Rgb<u8> = Rgb([60, 66, 76]);
const SIZE: [u32; 2] = [720, 580];
/// Side of a spot's panel, and what it shows of the sensor in focal lengths.
const SPOT: u32 = 178;
const SHOWN: f64 = 0.012;

/// A lens in section, drawn to the scale of one of `length`.
pub fn section(lens: &Lens, beams: &Beams, length: f64) -> Result<RgbImage, DemoError> {
    let mut picture = RgbImage::from_pixel(SIZE[0], SIZE[1], Rgb([255; 3]));
    let scale = f64::from(SIZE[0] - 40) / (1.12 * length);
    let at = |[z, y]: [f64; 2]| {
        [(20.0 + (z + 0.1 * length) * scale) as f32, (f64::from(SIZE[1]) / 2.0 - y * scale) as f32]
    };
    let vertex: Vec<f64> = std::iter::once(0.0)
        .chain(lens.gaps.iter().scan(0.0, |z, gap| {
            *z += gap;
            Some(*z)
        }))
        .collect();
    let ways = trace(lens, beams)?;
    let mut rims = vec![0.0f64; vertex.len()];
    for (j, of_field) in ways.iter().enumerate() {
        for way in of_field.iter().filter(|way| !lost(way)) {
            let points: Vec<[f64; 2]> = way.iter().zip(&vertex).map(|(r, z)| [r[2] + z, r[1]]).collect();
            let tangent = beams.fields.get(j).map_or(0.0, |f| f[0]);
            let before = [-0.08 * length, points[0][1] - tangent * (points[0][0] + 0.08 * length)];
            let colour = Rgb(COLOURS[j % COLOURS.len()]);
            for (a, b) in std::iter::once(&before).chain(&points).zip(&points) {
                stroke(&mut picture, at(*a), at(*b), 0.5, colour);
            }
            rims.iter_mut().zip(&points).for_each(|(rim, p)| *rim = rim.max(p[1].abs()));
        }
    }
    let bulge = |k: usize, y: f64| {
        let c = lens.curvatures[k];
        vertex[k] + c * y * y / (1.0 + (1.0 - (c * y).powi(2)).max(0.0).sqrt())
    };
    for k in 0..lens.curvatures.len() {
        // Both faces of a lens reach as far as the wider one, unless it would end before.
        let within = |k: usize, rim: f64| rim.min(0.98 / lens.curvatures[k].abs().max(1e-9));
        let glass = lens.is_glass(k) && k + 1 < lens.curvatures.len();
        let behind = k > 0 && lens.is_glass(k - 1);
        let mut rim = rims[k];
        rim = if glass { rim.max(rims[k + 1]) } else { rim };
        rim = if behind { rim.max(rims[k - 1]) } else { rim };
        let rim = within(k, 1.04 * rim);
        let points: Vec<[f64; 2]> =
            (0..=40).map(|n| rim * (f64::from(n) / 20.0 - 1.0)).map(|y| [bulge(k, y), y]).collect();
        for (a, b) in points.iter().zip(&points[1..]) {
            stroke(&mut picture, at(*a), at(*b), 1.2, OUTLINE);
        }
        if glass {
            let next = within(k + 1, 1.04 * rims[k].max(rims[k + 1]));
            for side in [-1.0, 1.0] {
                let (a, b) = ([bulge(k, rim), side * rim], [bulge(k + 1, next), side * next]);
                stroke(&mut picture, at(a), at(b), 1.2, OUTLINE);
            }
        }
    }
    let sensor = vertex[vertex.len() - 1];
    let half = 1.06 * rims[rims.len() - 1];
    stroke(&mut picture, at([sensor, -half]), at([sensor, half]), 2.5, Rgb([20, 20, 20]));
    Ok(picture)
}

/// The spots of all fields beside each other, enlarged.
pub fn spots(spots: &Spots, focal: f64) -> RgbImage {
    let count = spots.fields.len() as u32;
    let mut picture = RgbImage::from_pixel(count * SPOT, SPOT, Rgb([255; 3]));
    for (j, points) in spots.fields.iter().enumerate() {
        let middle = [(j as f32 + 0.5) * SPOT as f32, 0.5 * SPOT as f32];
        let half = SPOT as f32 / 2.0 - 6.0;
        let frame = [[-half, -half], [half, -half], [half, half], [-half, half]]
            .map(|[x, y]| [middle[0] + x, middle[1] + y]);
        for (a, b) in frame.iter().zip(frame.iter().cycle().skip(1)) {
            stroke(&mut picture, *a, *b, 0.4, Rgb([205, 210, 216]));
        }
        for p in points {
            let place = |c: usize| (p[c] / (SHOWN * focal) * f64::from(SPOT)) as f32;
            let at = [middle[0] + place(0), middle[1] - place(1)];
            if (at[0] - middle[0]).abs() < half && (at[1] - middle[1]).abs() < half {
                stroke(&mut picture, at, at, 1.2, Rgb(COLOURS[j % COLOURS.len()]));
            }
        }
    }
    picture
}
