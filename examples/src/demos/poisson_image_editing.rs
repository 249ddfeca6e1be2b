//! Poisson image editing: a piece of one picture is cloned into another (Perez, Gangnet and Blake, "Poisson image editing",
//! 2003). The energy is quadratic, so that one step does it.

use super::run::{Run, decode};
use super::{DemoError, Problem, floats, rows};
use crate::panels;
use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};
use sumsq::{NamedArray, Options, SolveOptions};

/// Photographs by Rachel Michetti (cup), Stefan van der Walt (cat) and riaphotographs (tulips).
const CUP: &[u8] = include_bytes!("../../../data/poisson_image_editing/coffee.jpg");
const CAT: &[u8] = include_bytes!("../../../data/poisson_image_editing/chelsea.jpg");
const TULIPS: &[u8] = include_bytes!("../../../data/image_warping/tulips.png");

/// Place of the cat's picture: the pixel of the cup's picture under its upper left corner, and its width there. It covers the
/// surface and the pixels around that: differences to what lies outside of the picture would be a seam.
const PLACE: (i64, i64) = (91, 125);
const WIDTH: u32 = 244;
/// Centre and half axes of an ellipse, in pixels.
type Ellipse = ([f32; 2], [f32; 2]);
/// The surface of the coffee.
const SURFACE: Ellipse = ([219.0, 218.0], [108.0, 66.0]);

/// Clones the cat into the cup.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let scene = Scene::cat_in_a_cup()?;
    let solution = run.solve(&scene.problem())?;
    let cloned = scene.cloned(&solution)?;
    let panels = [("target", &scene.target), ("pasted", &scene.pasted()), ("cloned", &cloned)];
    run.picture("", &panels::row(&panels)?)?;
    run.plot()
}

/// Returns what the first solve is given.
pub(super) fn first() -> Result<Problem, DemoError> {
    Ok(Scene::cat_in_a_cup()?.problem())
}

/// A picture, another one laid over it, and which pixels are to come from the latter.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The picture that is changed.
    pub target: RgbImage,
    /// Whose gradients are taken, of the same size.
    pub source: RgbImage,
    /// Per pixel, row by row: whether it changes.
    pub inside: Vec<bool>,
}

impl Scene {
    /// The demo's: a cat, to be cloned into a cup of coffee.
    pub fn cat_in_a_cup() -> Result<Scene, DemoError> {
        let target = decode(CUP)?.to_rgb8();
        let cat = decode(CAT)?.to_rgb8();
        let height = WIDTH * cat.height() / cat.width();
        let cat = imageops::resize(&cat, WIDTH, height, FilterType::CatmullRom);
        let mut source = RgbImage::new(target.width(), target.height());
        imageops::replace(&mut source, &cat, PLACE.0, PLACE.1);
        Ok(Scene::within(SURFACE, target, source))
    }

    /// The benchmark's: tulips, to be cloned into the picture of the cup without regard to what it shows, 448 x 320 pixels of which
    /// 22 thousand change.
    pub fn tulips_in_coffee() -> Result<Scene, DemoError> {
        let [target, source] = [CUP, TULIPS]
            .map(|bytes| decode(bytes).map(|picture| picture.crop_imm(16, 60, 448, 320).to_rgb8()));
        Ok(Scene::within(([250.5, 174.0], [87.0, 83.0]), target?, source?))
    }

    /// A scene in which the pixels inside of an ellipse change.
    fn within((centre, half): Ellipse, target: RgbImage, source: RgbImage) -> Scene {
        let inside = |x: u32, y: u32| {
            let (u, v) = ((x as f32 - centre[0]) / half[0], (y as f32 - centre[1]) / half[1]);
            u * u + v * v < 1.0
        };
        let inside = target.enumerate_pixels().map(|(x, y, _)| inside(x, y)).collect();
        Scene { target, source, inside }
    }

    /// The problem: colours of every pixel, started at the target's. The fourth channel is opacity.
    pub fn problem(&self) -> Problem {
        let (width, height) = (self.target.width() as usize, self.target.height() as usize);
        let colours = |picture: &RgbImage| {
            picture.pixels().flat_map(|p| [p.0[0], p.0[1], p.0[2], 255].map(f32::from)).collect::<Vec<_>>()
        };
        let mask = self.inside.iter().map(|&inside| if inside { 0.0 } else { 255.0 }).collect();
        Problem {
            energy: "poisson_image_editing",
            text: include_str!("../../energies/poisson_image_editing.t"),
            inputs: vec![
                floats("X", &[height, width, 4], colours(&self.target)),
                floats("T", &[height, width, 4], colours(&self.source)),
                floats("M", &[height, width], mask),
            ],
            options: Options {
                solve: SolveOptions { linear_tolerance: Some(1e-5), ..SolveOptions::default() },
                ..Options::default()
            },
        }
    }

    /// The picture that a solution says.
    pub fn cloned(&self, solution: &[NamedArray]) -> Result<RgbImage, DemoError> {
        let (width, height) = self.target.dimensions();
        let colours = rows::<4>(solution, "X", self.inside.len())?;
        Ok(RgbImage::from_fn(width, height, |x, y| {
            let [r, g, b, _] = colours[(y * width + x) as usize];
            Rgb([r, g, b].map(|c| c.round().clamp(0.0, 255.0) as u8))
        }))
    }

    /// The piece as it is, laid over the target.
    fn pasted(&self) -> RgbImage {
        let mut pasted = self.target.clone();
        let changed = pasted.pixels_mut().zip(self.source.pixels()).zip(&self.inside);
        changed.filter(|(_, inside)| **inside).for_each(|((under, over), _)| *under = *over);
        pasted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pixel that changes, and each of its neighbours, whose differences are taken, comes from the cat's picture.
    #[test]
    fn the_cat_covers_the_surface() {
        let scene = Scene::cat_in_a_cup().unwrap();
        let cat = decode(CAT).unwrap();
        let (left, top) = (PLACE.0 as u32, PLACE.1 as u32);
        let (right, bottom) = (left + WIDTH, top + WIDTH * cat.height() / cat.width());
        let inside = scene.target.enumerate_pixels().zip(&scene.inside).filter(|(_, inside)| **inside);
        assert!(inside.clone().count() > 15_000);
        for ((x, y, _), _) in inside {
            assert!(left < x && x + 1 < right && top < y && y + 1 < bottom, "pixel {x}, {y}");
        }
        let changed = scene.pasted().pixels().zip(scene.target.pixels()).filter(|(a, b)| a != b).count();
        assert!(changed <= scene.inside.iter().filter(|&&inside| inside).count());
    }
}
