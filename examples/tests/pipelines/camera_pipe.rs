//! Raw sensor data to pictures.

use crate::common::{Plain, Within, assembles, check, given, same_bits_from_c, whole_input};
use sumsq_examples::pipelines::{Application, Planar};

pub fn inputs(w: i32, h: i32) -> [Planar; 3] {
    let application = Application::find("camera_pipe").expect("it is listed");
    let setup = application.setup(&[], 16).expect("defaults are taken");
    let matrix = |k: usize| application.slots[k].default.expect("matrices have defaults")(&setup);
    [whole_input(&[w, h], 1024), matrix(1), matrix(2)]
}

/// The parameters, in their order.
pub struct Settings {
    pub kelvin: f32,
    pub gamma: f32,
    pub contrast: f32,
    pub sharpen: f32,
    pub black: i32,
    pub white: i32,
}

/// The mosaic without hot pixels, and what becomes of it.
struct Camera<'a> {
    mosaic: &'a Plain,
    matrix: [[i32; 4]; 3],
    curve: Vec<i32>,
}

fn avg(a: i32, b: i32) -> i32 {
    (a + b + 1) / 2
}

impl Camera<'_> {
    fn clean(&self, x: i32, y: i32) -> i32 {
        let at = |dx: i32, dy: i32| self.mosaic.at(&[x + 16 + dx, y + 12 + dy]) as i32;
        at(0, 0).min(at(-2, 0).max(at(2, 0)).max(at(0, -2)).max(at(0, 2)))
    }

    /// Greens, red and blue of a block of four.
    fn gr(&self, x: i32, y: i32) -> i32 {
        self.clean(2 * x, 2 * y)
    }
    fn r(&self, x: i32, y: i32) -> i32 {
        self.clean(2 * x + 1, 2 * y)
    }
    fn b(&self, x: i32, y: i32) -> i32 {
        self.clean(2 * x, 2 * y + 1)
    }
    fn gb(&self, x: i32, y: i32) -> i32 {
        self.clean(2 * x + 1, 2 * y + 1)
    }

    fn green_at_red(&self, x: i32, y: i32) -> i32 {
        let (up, down, left, right) = (self.gb(x, y - 1), self.gb(x, y), self.gr(x, y), self.gr(x + 1, y));
        if right.abs_diff(left) < up.abs_diff(down) { avg(left, right) } else { avg(up, down) }
    }

    fn green_at_blue(&self, x: i32, y: i32) -> i32 {
        let (up, down, left, right) = (self.gr(x, y), self.gr(x, y + 1), self.gb(x - 1, y), self.gb(x, y));
        if right.abs_diff(left) < up.abs_diff(down) { avg(left, right) } else { avg(up, down) }
    }

    /// Red (or blue) between two places of it, by the green at these and here, in 16 bits that wrap.
    fn between(&self, green: i32, red: bool, [(ax, ay), (bx, by)]: [(i32, i32); 2]) -> (i32, u32) {
        let colour = |x, y| if red { self.r(x, y) } else { self.b(x, y) };
        let greens = |x, y| if red { self.green_at_red(x, y) } else { self.green_at_blue(x, y) };
        let value = green - avg(greens(ax, ay), greens(bx, by)) + avg(colour(ax, ay), colour(bx, by));
        (i32::from(value as i16), colour(ax, ay).abs_diff(colour(bx, by)))
    }

    fn colours(&self, x: i32, y: i32) -> [i32; 3] {
        let (u, v) = (x.div_euclid(2), y.div_euclid(2));
        let at = |green: i32, red: bool, places| self.between(green, red, places).0;
        let smoother = |a: (i32, u32), b: (i32, u32)| if a.1 < b.1 { a.0 } else { b.0 };
        match (y.rem_euclid(2), x.rem_euclid(2)) {
            (0, 0) => {
                let g = self.gr(u, v);
                [at(g, true, [(u - 1, v), (u, v)]), g, at(g, false, [(u, v), (u, v - 1)])]
            }
            (0, _) => {
                let g = self.green_at_red(u, v);
                let first = self.between(g, false, [(u, v), (u + 1, v - 1)]);
                let second = self.between(g, false, [(u + 1, v), (u, v - 1)]);
                [self.r(u, v), g, smoother(first, second)]
            }
            (_, 0) => {
                let g = self.green_at_blue(u, v);
                let first = self.between(g, true, [(u, v), (u - 1, v + 1)]);
                let second = self.between(g, true, [(u - 1, v), (u, v + 1)]);
                [smoother(first, second), g, self.b(u, v)]
            }
            _ => {
                let g = self.gb(u, v);
                [at(g, true, [(u, v), (u, v + 1)]), g, at(g, false, [(u, v), (u + 1, v)])]
            }
        }
    }

    fn tone(&self, x: i32, y: i32, c: usize) -> i32 {
        let (rgb, m) = (self.colours(x, y), &self.matrix[c]);
        let sum = m[3] + m[0] * rgb[0] + m[1] * rgb[1] + m[2] * rgb[2];
        self.curve[i32::from(sum.div_euclid(256) as i16).clamp(0, 1023) as usize]
    }
}

fn curve(s: &Settings, i: i32) -> i32 {
    if i <= s.black {
        return 0;
    }
    if i > s.white {
        return 255;
    }
    let q = 2.0 - 2f32.powf(s.contrast / 100.0);
    let p = 2.0 - 2.0 * q;
    let t = ((i - s.black) as f32 * (1.0 / (s.white - s.black) as f32)).clamp(0.0, 1.0);
    let g = t.powf(1.0 / s.gamma);
    let low = p * g * g + q * g;
    let high = 1.0 - (p * (1.0 - g) * (1.0 - g) + q * (1.0 - g));
    ((if g > 0.5 { high } else { low }) * 255.0 + 0.5).clamp(0.0, 255.0) as i32
}

pub fn expected(inputs: &[Planar; 3], s: &Settings) -> Vec<f64> {
    let [mosaic, warm, cold] = inputs.each_ref().map(Plain::of);
    let share = (1.0 / s.kelvin - 1.0 / 3200.0) / (1.0 / 7000.0 - 1.0 / 3200.0);
    let entry = |x: usize, y: usize| {
        let at = [x as i32, y as i32];
        (((warm.at(&at) as f32) * share + (cold.at(&at) as f32) * (1.0 - share)) * 256.0) as i32
    };
    let matrix = std::array::from_fn(|y| std::array::from_fn(|x| entry(x, y)));
    let curve = (0..1024).map(|i| curve(s, i)).collect();
    let camera = Camera { mosaic: &mosaic, matrix, curve };
    let strength = (s.sharpen * 32.0) as i32;
    let value = |p: &Vec<i32>| {
        let tone = |dx: i32, dy: i32| camera.tone(p[0] + dx, p[1] + dy, p[2] as usize);
        let tall = |dx: i32| avg(avg(tone(dx, -1), tone(dx, 1)), tone(dx, 0));
        let smooth = avg(avg(tall(-1), tall(1)), tall(0));
        let sharp = tone(0, 0) + ((tone(0, 0) - smooth) * strength).div_euclid(32);
        f64::from(sharp.clamp(0, 255))
    };
    let size = &inputs[0].extents;
    Plain::points(&[size[0] - 32, size[1] - 48, 3]).iter().map(value).collect()
}

#[test]
fn develops() {
    let first = Settings { kelvin: 3700.0, gamma: 2.0, contrast: 50.0, sharpen: 1.0, black: 25, white: 1023 };
    let second =
        Settings { kelvin: 6000.0, gamma: 1.5, contrast: 20.0, sharpen: 3.0, black: 100, white: 900 };
    for (w, h, s) in [(99, 83, first), (66, 118, second)] {
        let inputs = inputs(w, h);
        let params = [
            ("color_temp", s.kelvin.to_string()),
            ("gamma", s.gamma.to_string()),
            ("contrast", s.contrast.to_string()),
            ("sharpen", s.sharpen.to_string()),
            ("black", s.black.to_string()),
            ("white", s.white.to_string()),
        ];
        check("camera_pipe", &given(&params), 16, &inputs, &expected(&inputs, &s), Within::One);
    }
}

#[test]
fn elsewhere() {
    assembles("camera_pipe", &[]);
    same_bits_from_c("camera_pipe", &[], 16, &inputs(80, 70));
}
