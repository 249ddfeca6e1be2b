//! Filling triangles and drawing strokes. Pixel (x, y) has its centre at (x + 0.5, y + 0.5).

use image::{Rgb, RgbImage};

/// Calls `pixel(x, y, weights)` for each pixel of a `width` x `height` picture whose centre lies in the triangle, of either
/// orientation; the weights are the corners' barycentric ones. A centre on an edge belongs to both triangles that share it.
pub fn triangle(corners: [[f32; 2]; 3], width: u32, height: u32, mut pixel: impl FnMut(u32, u32, [f32; 3])) {
    let [a, b, c] = corners;
    let area = cross(a, b, c);
    if !(area.is_finite() && area != 0.0) {
        return;
    }
    let columns = span([a[0], b[0], c[0]], width);
    let rows = span([a[1], b[1], c[1]], height);
    for y in rows {
        for x in columns.clone() {
            let p = [x as f32 + 0.5, y as f32 + 0.5];
            let weights = [cross(p, b, c) / area, cross(a, p, c) / area, cross(a, b, p) / area];
            if weights.iter().all(|&w| w >= 0.0) {
                pixel(x, y, weights);
            }
        }
    }
}

/// Twice the signed area.
fn cross(a: [f32; 2], b: [f32; 2], c: [f32; 2]) -> f32 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

/// Pixels of `0..size` whose centres lie between the least and the largest coordinate.
fn span<const N: usize>(coordinates: [f32; N], size: u32) -> std::ops::Range<u32> {
    let least = coordinates.into_iter().fold(f32::INFINITY, f32::min);
    let largest = coordinates.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let first = (least - 0.5).ceil().clamp(0.0, size as f32) as u32;
    let end = ((largest - 0.5).floor() + 1.0).clamp(0.0, size as f32) as u32;
    first..end
}

/// Draws the round-ended line from `from` to `to` (a disc where they agree), antialiased.
pub fn stroke(picture: &mut RgbImage, from: [f32; 2], to: [f32; 2], radius: f32, colour: Rgb<u8>) {
    let reach = radius + 1.0;
    let columns = span([from[0] - reach, from[0] + reach, to[0] - reach, to[0] + reach], picture.width());
    let rows = span([from[1] - reach, from[1] + reach, to[1] - reach, to[1] + reach], picture.height());
    for y in rows {
        for x in columns.clone() {
            let distance = to_segment([x as f32 + 0.5, y as f32 + 0.5], from, to);
            let cover = (radius + 0.5 - distance).clamp(0.0, 1.0);
            let under = picture.get_pixel_mut(x, y);
            for (under, over) in under.0.iter_mut().zip(colour.0) {
                *under = (f32::from(*under) + cover * (f32::from(over) - f32::from(*under))).round() as u8;
            }
        }
    }
}

fn to_segment(p: [f32; 2], a: [f32; 2], b: [f32; 2]) -> f32 {
    let (ab, ap) = ([b[0] - a[0], b[1] - a[1]], [p[0] - a[0], p[1] - a[1]]);
    let length2 = ab[0] * ab[0] + ab[1] * ab[1];
    let along = if length2 > 0.0 { ((ap[0] * ab[0] + ap[1] * ab[1]) / length2).clamp(0.0, 1.0) } else { 0.0 };
    (ap[0] - along * ab[0]).hypot(ap[1] - along * ab[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_triangles_cover_a_rectangle_once_and_weights_interpolate() {
        let (w, h) = (7, 5);
        let corners = [[-1.0, -1.0], [9.0, -1.0], [9.0, 7.0], [-1.0, 7.0]];
        let mut cover = vec![0; (w * h) as usize];
        for [a, b, c] in [[0, 1, 2], [3, 0, 2]] {
            triangle([corners[a], corners[b], corners[c]], w, h, |x, y, weights| {
                cover[(y * w + x) as usize] += 1;
                let at: f32 = [a, b, c].iter().zip(weights).map(|(&i, k)| k * corners[i][0]).sum();
                assert!((at - (x as f32 + 0.5)).abs() < 1e-4, "barycentric weights reproduce the position");
            });
        }
        assert!(cover.iter().all(|&n| n >= 1));
        assert!(cover.iter().filter(|&&n| n == 2).count() <= 1, "only centres on the diagonal");
    }

    #[test]
    fn nothing_is_drawn_for_no_area_or_no_number() {
        for bad in [[3.0, 3.0], [f32::NAN, 1.0], [f32::INFINITY, 1.0]] {
            triangle([[0.0, 0.0], [5.0, 5.0], bad], 9, 9, |_, _, _| panic!("{bad:?} covers nothing"));
        }
    }

    #[test]
    fn a_disc_has_its_area() {
        let mut picture = RgbImage::new(40, 40);
        stroke(&mut picture, [20.0, 20.0], [20.0, 20.0], 10.0, Rgb([255; 3]));
        let area: f64 = picture.pixels().map(|p| f64::from(p.0[0]) / 255.0).sum();
        assert!((area - std::f64::consts::PI * 100.0).abs() < 3.0, "{area}");
    }

    #[test]
    fn strokes_reach_from_end_to_end_in_every_direction_and_are_clipped() {
        for to in [[30.0, 4.0], [2.0, 25.0], [-50.0, -50.0], [90.0, 15.0]] {
            let mut picture = RgbImage::new(32, 32);
            stroke(&mut picture, [15.5, 15.5], to, 2.0, Rgb([255; 3]));
            for t in [0.0, 0.2, 0.5, 0.9] {
                let at = [15.5 + t * (to[0] - 15.5), 15.5 + t * (to[1] - 15.5)];
                if at.iter().all(|&c| (0.0..32.0).contains(&c)) {
                    assert_eq!(picture.get_pixel(at[0] as u32, at[1] as u32).0[0], 255, "{to:?} at {t}");
                }
            }
        }
    }
}
