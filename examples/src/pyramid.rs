//! Grey pictures as numbers, and their pyramids.

/// A grey picture, row by row.
#[derive(Clone, Debug)]
pub(crate) struct Grey {
    pub width: usize,
    pub height: usize,
    pub values: Vec<f32>,
}

impl Grey {
    /// From the value of each pixel.
    pub fn from_fn(width: usize, height: usize, value: impl Fn(usize, usize) -> f32) -> Grey {
        let values = (0..width * height).map(|i| value(i % width, i / width)).collect();
        Grey { width, height, values }
    }

    /// A pixel; outside the picture the nearest one.
    pub fn at(&self, x: isize, y: isize) -> f32 {
        let clamp = |c: isize, size: usize| c.clamp(0, size as isize - 1) as usize;
        self.values[clamp(y, self.height) * self.width + clamp(x, self.width)]
    }

    /// Smoothed by the binomial filter (1 4 6 4 1) / 16 along both axes.
    pub fn smooth(&self) -> Grey {
        const KERNEL: [f32; 5] = [0.0625, 0.25, 0.375, 0.25, 0.0625];
        let pass = |of: &Grey, step: [isize; 2]| {
            Grey::from_fn(of.width, of.height, |x, y| {
                let tap = |k: usize| {
                    let t = k as isize - 2;
                    KERNEL[k] * of.at(x as isize + t * step[0], y as isize + t * step[1])
                };
                (0..5).map(tap).sum()
            })
        };
        pass(&pass(self, [1, 0]), [0, 1])
    }

    /// Half as wide and high: pixel (x, y) lies between (2x, 2y) and (2x+1, 2y+1).
    pub fn half(&self) -> Grey {
        let smooth = self.smooth();
        Grey::from_fn(self.width.div_ceil(2), self.height.div_ceil(2), |x, y| {
            let (x, y) = (2 * x as isize, 2 * y as isize);
            0.25 * (smooth.at(x, y) + smooth.at(x + 1, y) + smooth.at(x, y + 1) + smooth.at(x + 1, y + 1))
        })
    }

    /// Central differences along x and along y.
    pub fn gradient(&self) -> [Grey; 2] {
        [[1, 0], [0, 1]].map(|[dx, dy]| {
            Grey::from_fn(self.width, self.height, |x, y| {
                let (x, y) = (x as isize, y as isize);
                0.5 * (self.at(x + dx, y + dy) - self.at(x - dx, y - dy))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_keeps_its_values_and_its_slope() {
        let ramp = Grey::from_fn(40, 30, |x, y| 2.0 * x as f32 - y as f32);
        let half = ramp.half();
        assert_eq!((half.width, half.height), (20, 15));
        // Pixel (10, 7) lies at (20.5, 14.5).
        assert!((half.at(10, 7) - (41.0 - 14.5)).abs() < 1e-4, "{}", half.at(10, 7));
        let [dx, dy] = half.gradient();
        assert!((dx.at(10, 7) - 4.0).abs() < 1e-4 && (dy.at(10, 7) + 2.0).abs() < 1e-4);
    }
}
