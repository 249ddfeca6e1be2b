//! The photograph that inputs of image pipelines are cut out of.

use super::root;
use std::sync::OnceLock;
use sumsq_examples::pipelines::Picture;

/// A photograph of three colours, as it is and at half the size.
pub struct Photograph {
    whole: Pixels,
    half: Pixels,
}

/// Samples from 0 to `white`: plane after plane, each row after row.
struct Pixels {
    size: [i32; 2],
    white: f32,
    samples: Vec<u16>,
}

/// A part of a photograph from its middle, which goes on mirrored where that ends.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    of: &'a Pixels,
    corner: [i32; 2],
}

/// `data/pipelines/seeding.jpg`, read once in a process.
///
/// # Errors
/// It is missing, or no picture of three colours.
pub fn photograph() -> Result<&'static Photograph, String> {
    static READ: OnceLock<Result<Photograph, String>> = OnceLock::new();
    let read = || {
        let path = root().join("data/pipelines/seeding.jpg");
        let picture = Picture::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        if picture.channels != 3 {
            return Err(format!("{} has {} channels, not 3", path.display(), picture.channels));
        }
        Ok(Photograph::new(&picture))
    };
    READ.get_or_init(read).as_ref().map_err(String::clone)
}

impl Photograph {
    /// From a picture of three colours.
    pub fn new(picture: &Picture) -> Photograph {
        let (white, samples) = (f32::from(picture.white()), picture.samples.clone());
        let whole = Pixels { size: [picture.width as i32, picture.height as i32], white, samples };
        let half = whole.halved();
        Photograph { whole, half }
    }

    /// A part of this width and height, as the photograph is.
    pub fn part(&self, size: [i32; 2]) -> Part<'_> {
        self.whole.part(size)
    }

    /// A part of this width and height at half the size, and upright: rows are the columns of the photograph.
    pub fn small(&self, size: [i32; 2]) -> Part<'_> {
        self.half.part(size)
    }
}

impl Pixels {
    fn part(&self, size: [i32; 2]) -> Part<'_> {
        let corner = std::array::from_fn(|d| (self.size[d] - size[d]).div_euclid(2));
        Part { of: self, corner }
    }

    fn sample(&self, x: i32, y: i32, c: i32) -> u16 {
        let [width, height] = self.size;
        self.samples[((c * height + y) * width + x) as usize]
    }

    /// Sums of 2 x 2 pixels, with rows and columns exchanged.
    fn halved(&self) -> Pixels {
        let size = [self.size[1] / 2, self.size[0] / 2];
        let mut samples = Vec::with_capacity(3 * (size[0] * size[1]) as usize);
        for (c, y, x) in
            (0..3).flat_map(|c| (0..size[1]).flat_map(move |y| (0..size[0]).map(move |x| (c, y, x))))
        {
            let block = [(0, 0), (1, 0), (0, 1), (1, 1)];
            samples.push(block.iter().map(|(i, j)| self.sample(2 * y + i, 2 * x + j, c)).sum());
        }
        Pixels { size, white: 4.0 * self.white, samples }
    }
}

impl Part<'_> {
    /// A value in [0, 1] by x, y and the colour, green if none is said.
    pub fn at(&self, at: &[i32]) -> f32 {
        let place = |d: usize| mirrored(at[d] + self.corner[d], self.of.size[d]);
        let colour = at.get(2).copied().unwrap_or(1);
        f32::from(self.of.sample(place(0), place(1), colour)) / self.of.white
    }
}

/// The coordinate in 0..n that a mirror at either end shows at c.
fn mirrored(c: i32, n: i32) -> i32 {
    let c = c.rem_euclid(2 * n);
    if c < n { c } else { 2 * n - 1 - c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_in_the_middle_and_go_on_mirrored() {
        let samples = (0..4 * 2 * 3).map(|i| i % 8 + 100 * (i / 8)).collect();
        let photograph = Photograph::new(&Picture { width: 4, height: 2, channels: 3, bits: 8, samples });
        let whole = |size, at: &[i32]| (photograph.part(size).at(at) * 255.0).round();
        assert_eq!(
            [whole([4, 2], &[3, 1, 2]), whole([2, 2], &[0, 1]), whole([4, 2], &[1, 1])],
            [207.0, 105.0, 105.0]
        );
        assert_eq!([-1, -4, 4, 7, 8].map(|x| whole([4, 2], &[x, 0, 0])), [0.0, 3.0, 3.0, 0.0, 0.0]);
        // One column of two means: (0 + 1 + 4 + 5) / 4 and (2 + 3 + 6 + 7) / 4.
        let half = |y| photograph.small([1, 2]).at(&[0, y, 0]) * 255.0;
        assert!((half(0) - 2.5).abs() < 1e-4 && (half(1) - 4.5).abs() < 1e-4, "{} {}", half(0), half(1));
    }
}
