//! Shaded pictures of meshes: an orthographic z-buffer with 2 x 2 supersampling.

use crate::geometry::{Vec3, unit};
use crate::io::Mesh;
use crate::raster;
use image::{Rgb, RgbImage};

/// Samples per pixel along each axis.
const SUPERSAMPLING: u32 = 2;
/// Background, linear light, at the top and at the bottom.
const BACKGROUND: [Vec3; 2] = [Vec3::new(0.92, 0.94, 0.97), Vec3::new(0.62, 0.66, 0.72)];
/// Directions to the lights in camera axes (right, up, towards the viewer), and their strengths.
const LIGHTS: [(Vec3, f32); 3] = [
    (Vec3::new(-0.45, 0.75, 0.6), 0.85),
    (Vec3::new(0.8, 0.1, 0.5), 0.28),
    (Vec3::new(0.0, -1.0, 0.2), 0.10),
];
/// Light from everywhere.
const AMBIENT: f32 = 0.10;

/// The colour of a plain surface, linear light.
pub const CLAY: Vec3 = Vec3::new(0.62, 0.57, 0.51);

/// An orthographic camera.
#[derive(Clone, Debug)]
pub struct View {
    right: Vec3,
    up: Vec3,
    towards: Vec3,
    /// Middle of the picture in `right` and `up` coordinates.
    middle: [f32; 2],
    /// Half the width and half the height of what is seen.
    half: [f32; 2],
}

impl View {
    /// A camera that looks from direction `towards`, with `up` upright, and sees all the meshes.
    pub fn of(meshes: &[&Mesh], towards: Vec3, up: Vec3) -> View {
        let towards = unit(towards);
        let right = unit(up.cross(&towards));
        let up = towards.cross(&right);
        let points = || meshes.iter().flat_map(|mesh| &mesh.positions);
        let range = |axis: Vec3| {
            let along = points().map(|p| p.dot(&axis)).filter(|t| t.is_finite());
            along.fold([f32::INFINITY, f32::NEG_INFINITY], |[low, high], t| [low.min(t), high.max(t)])
        };
        let (x, y) = (range(right), range(up));
        let half = |[low, high]: [f32; 2]| if high > low { 0.54 * (high - low) } else { 1.0 };
        let middle = |[low, high]: [f32; 2]| if high >= low { 0.5 * (low + high) } else { 0.0 };
        View { right, up, towards, middle: [middle(x), middle(y)], half: [half(x), half(y)] }
    }

    /// The same direction, with `middle` in the middle and what is seen scaled by `factor`.
    pub(crate) fn closer(self, middle: Vec3, factor: f32) -> View {
        let half = self.half.map(|h| factor * h);
        View { middle: [middle.dot(&self.right), middle.dot(&self.up)], half, ..self }
    }

    /// Tells whether a surface with that normal is seen from outside.
    pub(crate) fn faces(&self, normal: Vec3) -> bool {
        normal.dot(&self.towards) > 0.0
    }

    /// Position in a picture of that size, and depth (larger is nearer).
    pub(crate) fn project(&self, p: Vec3, width: u32, height: u32) -> ([f32; 2], f32) {
        let scale = (width as f32 / (2.0 * self.half[0])).min(height as f32 / (2.0 * self.half[1]));
        let x = 0.5 * width as f32 + scale * (p.dot(&self.right) - self.middle[0]);
        let y = 0.5 * height as f32 - scale * (p.dot(&self.up) - self.middle[1]);
        ([x, y], p.dot(&self.towards))
    }
}

/// Renders a mesh; `colours` are per vertex, in linear light ([`CLAY`] where there are none).
pub fn render(mesh: &Mesh, colours: &[Vec3], view: &View, width: u32, height: u32) -> RgbImage {
    let (w, h) = (width * SUPERSAMPLING, height * SUPERSAMPLING);
    let mut depth = vec![f32::NEG_INFINITY; (w * h) as usize];
    let mut light: Vec<Vec3> = (0..w * h).map(|i| background((i / w) as f32 / h as f32)).collect();
    let normals = normals(mesh);
    let projected: Vec<_> = mesh.positions.iter().map(|&p| view.project(p, w, h)).collect();
    for corners in &mesh.triangles {
        let [a, b, c] = corners.map(|v| projected[v as usize]);
        raster::triangle([a.0, b.0, c.0], w, h, |x, y, k| {
            let at = (y * w + x) as usize;
            let z = k[0] * a.1 + k[1] * b.1 + k[2] * c.1;
            if z > depth[at] {
                depth[at] = z;
                let normal = blend(k, corners.map(|v| normals[v as usize]));
                let colour = blend(k, corners.map(|v| colours.get(v as usize).copied().unwrap_or(CLAY)));
                light[at] = shade(normal, colour, view);
            }
        });
    }
    downsample(&light, width, height)
}

/// Vertex normals: the sum of the adjacent triangles' normals weighted by their areas, unit length.
pub(crate) fn normals(mesh: &Mesh) -> Vec<Vec3> {
    let mut normals = vec![Vec3::zeros(); mesh.positions.len()];
    for corners in &mesh.triangles {
        let weighted = mesh.face_normal(corners);
        for v in corners {
            normals[*v as usize] += weighted;
        }
    }
    normals.into_iter().map(unit).collect()
}

/// Diffuse light, the same on both sides of a surface.
fn shade(normal: Vec3, colour: Vec3, view: &View) -> Vec3 {
    let normal = unit(normal);
    let facing = if normal.dot(&view.towards) < 0.0 { -1.0 } else { 1.0 };
    let camera = facing * Vec3::new(normal.dot(&view.right), normal.dot(&view.up), normal.dot(&view.towards));
    let diffuse: f32 = LIGHTS.iter().map(|(to, strength)| strength * camera.dot(&unit(*to)).max(0.0)).sum();
    let rim = 0.12 * (1.0 - camera[2].clamp(0.0, 1.0)).powi(3);
    colour.map(|c| c * (AMBIENT + diffuse) + rim)
}

fn background(t: f32) -> Vec3 {
    BACKGROUND[0] + t * (BACKGROUND[1] - BACKGROUND[0])
}

/// Averages the samples of each pixel in linear light and encodes as sRGB.
fn downsample(light: &[Vec3], width: u32, height: u32) -> RgbImage {
    let samples = (SUPERSAMPLING * SUPERSAMPLING) as f32;
    RgbImage::from_fn(width, height, |x, y| {
        let mut sum = Vec3::zeros();
        for sy in 0..SUPERSAMPLING {
            for sx in 0..SUPERSAMPLING {
                let row = (y * SUPERSAMPLING + sy) * width * SUPERSAMPLING;
                sum += light[(row + x * SUPERSAMPLING + sx) as usize];
            }
        }
        Rgb(sum.map(|s| srgb(s / samples)).into())
    })
}

/// The sRGB transfer function, IEC 61966-2-1.
pub(crate) fn srgb(linear: f32) -> u8 {
    let linear = linear.clamp(0.0, 1.0);
    let encoded = if linear <= 0.003_130_8 { 12.92 * linear } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 };
    (255.0 * encoded).round() as u8
}

fn blend(k: [f32; 3], of: [Vec3; 3]) -> Vec3 {
    k[0] * of[0] + k[1] * of[1] + k[2] * of[2]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two squares facing +z, the nearer one smaller and drawn first.
    fn squares() -> (Mesh, Vec<Vec3>) {
        let mut mesh = Mesh::default();
        let mut colours = Vec::new();
        for (size, z, colour) in [(0.5, 1.0, Vec3::x()), (1.0, 0.0, Vec3::z())] {
            let first = mesh.positions.len() as u32;
            for [x, y] in [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0f32]] {
                mesh.positions.push(Vec3::new(size * x, size * y, z));
                colours.push(colour);
            }
            mesh.triangles.push([first, first + 1, first + 2]);
            mesh.triangles.push([first, first + 2, first + 3]);
        }
        (mesh, colours)
    }

    #[test]
    fn the_nearer_surface_hides_the_farther_one() {
        let (mesh, colours) = squares();
        let view = View::of(&[&mesh], Vec3::z(), Vec3::y());
        let picture = render(&mesh, &colours, &view, 64, 64);
        let (middle, side) = (picture.get_pixel(32, 32).0, picture.get_pixel(8, 32).0);
        assert!(middle[0] > 100 && middle[2] < 60, "red in the middle: {middle:?}");
        assert!(side[2] > 100 && side[0] < 60, "blue around it: {side:?}");
        let behind = View::of(&[&mesh], -Vec3::z(), Vec3::y());
        let middle = render(&mesh, &colours, &behind, 64, 64).get_pixel(32, 32).0;
        assert!(middle[2] > 100 && middle[0] < 60, "blue from behind: {middle:?}");
    }

    #[test]
    fn everything_fits() {
        let (mesh, _) = squares();
        let view = View::of(&[&mesh], Vec3::new(0.3, -1.0, 0.4), Vec3::z());
        for &p in &mesh.positions {
            let ([x, y], _) = view.project(p, 80, 30);
            assert!((0.0..=80.0).contains(&x) && (0.0..=30.0).contains(&y), "({x}, {y})");
        }
    }

    #[test]
    fn normals_are_weighted_by_area() {
        // A corner of a large triangle facing +z and of a small one facing +x.
        let mesh = Mesh {
            positions: vec![Vec3::zeros(), 2.0 * Vec3::x(), 2.0 * Vec3::y(), Vec3::y(), Vec3::z()],
            triangles: vec![[0, 1, 2], [0, 3, 4]],
        };
        let expected = unit(Vec3::new(1.0, 0.0, 4.0));
        let normal = normals(&mesh)[0];
        assert!((normal - expected).abs().max() < 1e-6, "{normal:?}");
    }

    #[test]
    fn an_empty_mesh_leaves_the_background() {
        let mesh = Mesh::default();
        let view = View::of(&[&mesh], Vec3::z(), Vec3::y());
        let picture = render(&mesh, &[], &view, 8, 256);
        assert_eq!(picture.get_pixel(0, 0).0, <[u8; 3]>::from(BACKGROUND[0].map(srgb)));
        assert!(picture.rows().all(|mut row| row.clone().all(|p| p == row.next().unwrap())));
    }
}
