//! As-rigid-as-possible deformation of an image: a few pixels of a masked shape are dragged, the rest follows.

use super::run::{Run, decode};
use super::{DemoError, Problem, floats, param, rows};
use crate::io::picture::side_by_side;
use crate::{raster, warp};
use image::{Rgb, RgbImage};
use sumsq::{NamedArray, Options, SolveOptions};

/// Photograph by riaphotographs.
const PICTURE: &[u8] = include_bytes!("../../../data/image_warping/tulips.png");
const MASK: &[u8] = include_bytes!("../../../data/image_warping/tulips_mask.png");
const HANDLES: &str = include_str!("../../../data/image_warping/tulips.handles");

/// Weights of handles and of rigidity, as the square roots that the energy takes.
const W_FIT_SQRT: f32 = 10.0;
const W_REG_SQRT: f32 = 0.1;

/// Bends the tulips.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let scene = Scene::tulips()?;
    let solution = run.solve(&scene.problem())?;
    run.picture("", &scene.before_and_after(&solution)?)?;
    run.plot()
}

/// Returns what the first solve is given.
pub(super) fn first() -> Result<Problem, DemoError> {
    Ok(Scene::tulips()?.problem())
}

/// A pixel that is dragged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Handle {
    /// The pixel, x and y.
    pub from: [u32; 2],
    /// The pixel it goes to.
    pub to: [f32; 2],
}

/// A picture, the shape in it, and its handles.
#[derive(Clone, Debug)]
pub struct Scene {
    picture: RgbImage,
    /// Per pixel, row by row: whether it belongs to the shape.
    inside: Vec<bool>,
    handles: Vec<Handle>,
}

impl Scene {
    /// The two tulips.
    pub fn tulips() -> Result<Scene, DemoError> {
        Scene::new(PICTURE, MASK, HANDLES)
    }

    /// From the bytes of a picture and of a mask of the same size (black is the shape), and handles: a line of `x y to_x to_y`
    /// each.
    pub fn new(picture: &[u8], mask: &[u8], handles: &str) -> Result<Scene, DemoError> {
        let picture = decode(picture)?.to_rgb8();
        let mask = decode(mask)?.to_luma8();
        if mask.dimensions() != picture.dimensions() {
            let problem =
                format!("the picture is {:?}, its mask {:?}", picture.dimensions(), mask.dimensions());
            return Err(DemoError::Data(problem));
        }
        let inside = mask.pixels().map(|pixel| pixel.0[0] == 0).collect();
        let scene = Scene { handles: parse_handles(handles)?, picture, inside };
        match scene.handles.iter().find(|handle| !scene.contains(handle.from)) {
            Some(handle) => {
                Err(DemoError::Data(format!("the handle at {:?} is not in the shape", handle.from)))
            }
            None => Ok(scene),
        }
    }

    fn contains(&self, [x, y]: [u32; 2]) -> bool {
        x < self.picture.width() && y < self.picture.height() && self.inside[self.at([x, y])]
    }

    fn at(&self, [x, y]: [u32; 2]) -> usize {
        (y * self.picture.width() + x) as usize
    }

    /// The problem: Offset and Angle of every pixel, started at rest.
    pub fn problem(&self) -> Problem {
        let (width, height) = (self.picture.width() as usize, self.picture.height() as usize);
        let rest: Vec<f32> =
            (0..width * height).flat_map(|i| [(i % width) as f32, (i / width) as f32]).collect();
        let mut constraints = vec![-1.0; 2 * width * height];
        for handle in &self.handles {
            constraints[2 * self.at(handle.from)..][..2].copy_from_slice(&handle.to);
        }
        let mask = self.inside.iter().map(|&inside| if inside { 0.0 } else { 255.0 }).collect();
        Problem {
            energy: "image_warping",
            text: include_str!("../../energies/image_warping.t"),
            inputs: vec![
                floats("Offset", &[height, width, 2], rest.clone()),
                floats("Angle", &[height, width], vec![0.0; width * height]),
                floats("UrShape", &[height, width, 2], rest),
                floats("Constraints", &[height, width, 2], constraints),
                floats("Mask", &[height, width], mask),
                param("w_fitSqrt", W_FIT_SQRT),
                param("w_regSqrt", W_REG_SQRT),
            ],
            options: Options {
                solve: SolveOptions { iterations: Some(100), ..SolveOptions::default() },
                ..Options::default()
            },
        }
    }

    /// The warped picture beside the source.
    fn before_and_after(&self, solution: &[NamedArray]) -> Result<RgbImage, DemoError> {
        let moved = rows::<2>(solution, "Offset", self.inside.len())?;
        Ok(side_by_side(&self.source(), &self.warped(&moved), 8))
    }

    /// The source, each handle a disc and the way it goes a line.
    fn source(&self) -> RgbImage {
        let mut picture = self.picture.clone();
        for handle in &self.handles {
            let from = handle.from.map(|c| c as f32 + 0.5);
            let to = handle.to.map(|c| c + 0.5);
            raster::stroke(&mut picture, from, to, 2.2, WHITE);
            raster::stroke(&mut picture, from, to, 1.2, BLUE);
            draw_handle(&mut picture, from);
        }
        picture
    }

    /// The shape where it went, over a pale copy of the picture.
    fn warped(&self, moved: &[[f32; 2]]) -> RgbImage {
        let mut pale = self.picture.clone();
        for pixel in pale.pixels_mut() {
            let grey = (u32::from(pixel.0[0]) + 2 * u32::from(pixel.0[1]) + u32::from(pixel.0[2])) / 4;
            pixel.0 = [(255 - (255 - grey) / 4) as u8; 3];
        }
        let mut picture = warp::warp(&self.picture, &self.inside, moved, &pale);
        for handle in &self.handles {
            draw_handle(&mut picture, handle.to.map(|c| c + 0.5));
        }
        picture
    }
}

const WHITE: Rgb<u8> = Rgb([255; 3]);
const BLUE: Rgb<u8> = Rgb([24, 92, 200]);

fn draw_handle(picture: &mut RgbImage, at: [f32; 2]) {
    raster::stroke(picture, at, at, 5.5, WHITE);
    raster::stroke(picture, at, at, 4.0, BLUE);
}

fn parse_handles(text: &str) -> Result<Vec<Handle>, DemoError> {
    let lines =
        text.lines().map(|line| line.split('#').next().unwrap_or("").trim()).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let numbers: Result<Vec<u16>, _> = line.split_whitespace().map(str::parse).collect();
            match numbers.as_deref() {
                Ok(&[x, y, to_x, to_y]) => {
                    Ok(Handle { from: [x.into(), y.into()], to: [to_x.into(), to_y.into()] })
                }
                _ => Err(DemoError::Data(format!("a handle is four whole numbers, not `{line}`"))),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sumsq::ArrayData;

    fn values<'a>(problem: &'a Problem, name: &str) -> (&'a [usize], &'a [f32]) {
        let array = problem.inputs.iter().find(|array| array.name == name).unwrap();
        let ArrayData::F32(values) = &array.data else { panic!("{name}") };
        (&array.shape, values)
    }

    #[test]
    fn the_problem_has_the_conventions_of_the_energy() {
        let scene = Scene::tulips().unwrap();
        let problem = scene.problem();
        let (shape, rest) = values(&problem, "UrShape");
        assert_eq!(shape, [500, 500, 2]);
        assert_eq!(rest[2 * (500 * 3 + 7)..][..2], [7.0, 3.0], "x, then y");
        let (_, constraints) = values(&problem, "Constraints");
        let set = constraints.chunks(2).filter(|c| c[0] >= 0.0 && c[1] >= 0.0).count();
        assert_eq!(set, scene.handles.len());
        let (_, mask) = values(&problem, "Mask");
        let free = mask.iter().filter(|&&m| m == 0.0).count();
        assert!((20_000..30_000).contains(&free), "{free}");
    }

    #[test]
    fn at_rest_the_pictures_agree_inside_the_shape() {
        let scene = Scene::tulips().unwrap();
        let problem = scene.problem();
        let (_, rest) = values(&problem, "UrShape");
        let drawn = scene.warped(rest.as_chunks::<2>().0);
        let (x, y) = (347, 190);
        let (a, b) = (drawn.get_pixel(x, y).0, scene.picture.get_pixel(x, y).0);
        assert!(a.iter().zip(b).all(|(a, b)| a.abs_diff(b) <= 3), "{a:?} {b:?}");
    }

    #[test]
    fn handles_are_checked() {
        assert!(parse_handles("# none\n\n").unwrap().is_empty());
        let read = parse_handles("1 2 3 4 # moved\n").unwrap();
        assert_eq!(read, [Handle { from: [1, 2], to: [3.0, 4.0] }]);
        for bad in ["1 2 3", "1 2 3 4 5", "a b c d", "-1 2 3 4"] {
            assert!(parse_handles(bad).is_err(), "{bad}");
        }
        let outside = Scene::new(PICTURE, MASK, "0 0 5 5").unwrap_err().to_string();
        assert!(outside.contains("[0, 0]"), "{outside}");
    }
}
