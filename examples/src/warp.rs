//! Drawing an image whose pixels have moved.

use crate::raster;
use image::{Rgb, RgbImage};

/// Samples per pixel along each axis.
const SUPERSAMPLING: u32 = 3;

/// Draws `source` with the centre of pixel (x, y) moved to `moved[y * width + x]` (x, y, in the units of pixel indices) over
/// `background`. Each square of four pixel centres, all in `inside`, becomes a quadrilateral with the four colours
/// interpolated; later rows hide earlier ones where the map folds.
///
/// All have the size of `source`.
pub fn warp(source: &RgbImage, inside: &[bool], moved: &[[f32; 2]], background: &RgbImage) -> RgbImage {
    let (width, height) = source.dimensions();
    assert_eq!(inside.len(), (width * height) as usize);
    assert_eq!(moved.len(), inside.len());
    assert_eq!(background.dimensions(), source.dimensions());
    let (w, h) = (width * SUPERSAMPLING, height * SUPERSAMPLING);
    let mut samples: Vec<Option<[f32; 3]>> = vec![None; (w * h) as usize];
    for y in 1..height {
        for x in 1..width {
            let quad = [(x - 1, y - 1), (x, y - 1), (x, y), (x - 1, y)];
            let ids = quad.map(|(x, y)| (y * width + x) as usize);
            if ids.iter().any(|&i| !inside[i]) {
                continue;
            }
            let at = ids.map(|i| moved[i].map(|c| (c + 0.5) * SUPERSAMPLING as f32));
            let colours = quad.map(|(x, y)| source.get_pixel(x, y).0.map(f32::from));
            for [a, b, c] in [[0, 1, 2], [0, 2, 3]] {
                raster::triangle([at[a], at[b], at[c]], w, h, |x, y, k| {
                    let colour =
                        [0, 1, 2].map(|i| k[0] * colours[a][i] + k[1] * colours[b][i] + k[2] * colours[c][i]);
                    samples[(y * w + x) as usize] = Some(colour);
                });
            }
        }
    }
    downsample(&samples, background)
}

/// The mean of each pixel's samples, the background where nothing was drawn.
fn downsample(samples: &[Option<[f32; 3]>], background: &RgbImage) -> RgbImage {
    let row_length = background.width() * SUPERSAMPLING;
    RgbImage::from_fn(background.width(), background.height(), |x, y| {
        let under = background.get_pixel(x, y).0.map(f32::from);
        let mut sum = [0.0; 3];
        for sy in 0..SUPERSAMPLING {
            for sx in 0..SUPERSAMPLING {
                let at = (y * SUPERSAMPLING + sy) * row_length + x * SUPERSAMPLING + sx;
                let sample = samples[at as usize].unwrap_or(under);
                sum = [0, 1, 2].map(|i| sum[i] + sample[i]);
            }
        }
        Rgb(sum.map(|s| (s / (SUPERSAMPLING * SUPERSAMPLING) as f32).round() as u8))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 12;

    /// A picture linear in x and y: interpolation reproduces it.
    fn ramp() -> RgbImage {
        RgbImage::from_fn(SIZE, SIZE, |x, y| Rgb([(10 * x) as u8, (20 * y) as u8, 50]))
    }

    fn positions(map: impl Fn(f32, f32) -> [f32; 2]) -> Vec<[f32; 2]> {
        (0..SIZE * SIZE).map(|i| map((i % SIZE) as f32, (i / SIZE) as f32)).collect()
    }

    #[test]
    fn no_motion_gives_the_picture() {
        let black = RgbImage::new(SIZE, SIZE);
        let all = vec![true; (SIZE * SIZE) as usize];
        let drawn = warp(&ramp(), &all, &positions(|x, y| [x, y]), &black);
        for (x, y, pixel) in drawn.enumerate_pixels() {
            if (1..SIZE - 1).contains(&x) && (1..SIZE - 1).contains(&y) {
                let close = pixel.0.iter().zip(ramp().get_pixel(x, y).0).all(|(a, b)| a.abs_diff(b) <= 1);
                assert!(close, "({x}, {y}): {pixel:?}");
            }
        }
    }

    #[test]
    fn a_shift_moves_it_and_uncovers_the_background() {
        let green = RgbImage::from_pixel(SIZE, SIZE, Rgb([0, 255, 0]));
        let all = vec![true; (SIZE * SIZE) as usize];
        let drawn = warp(&ramp(), &all, &positions(|x, y| [x + 3.0, y]), &green);
        assert!(drawn.get_pixel(8, 6).0[0].abs_diff(ramp().get_pixel(5, 6).0[0]) <= 1);
        assert_eq!(drawn.get_pixel(1, 6), &Rgb([0, 255, 0]));
    }

    #[test]
    fn what_is_outside_is_not_drawn() {
        let black = RgbImage::new(SIZE, SIZE);
        let inside: Vec<bool> = (0..SIZE * SIZE).map(|i| i % SIZE < 6).collect();
        let drawn = warp(&ramp(), &inside, &positions(|x, y| [x, y]), &black);
        assert_eq!(drawn.get_pixel(9, 6), &Rgb([0; 3]));
        assert_eq!(drawn.get_pixel(3, 6).0[2], 50);
    }
}
