//! The gallery of the README: what each image pipeline makes of a photograph, before and after, in `data/pictures/pipelines`.

use crate::suite::pipeline_cases::noise;
use std::error::Error;
use std::path::{Path, PathBuf};
use sumsq::codegen::Target;
use sumsq::codegen::runtime::Pool;
use sumsq_examples::demosaicking::moire;
use sumsq_examples::pipelines::{Algorithm, Application, Picture, Planar, Prepared, Values};

/// Pixels of the photograph, in each direction, that become one.
const STEP: usize = 16;

/// Pipelines with pictures; the others compute layers of networks, matrices and transforms.
const SHOWN: [&str; 18] = [
    "blur",
    "unsharp",
    "harris",
    "bilateral_grid",
    "local_laplacian",
    "interpolate",
    "guided_upsampling",
    "camera_pipe",
    "demosaic_ahd",
    "demosaic_learned",
    "lens_blur",
    "nl_means",
    "stencil_chain",
    "hist",
    "iir_blur",
    "max_filter",
    "resize",
    "compositing",
];

/// Draws all and says where they are.
pub fn draw() -> Result<PathBuf, Box<dyn Error>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
    let photograph = Picture::read(&data.join("pipelines/seeding.jpg"))?;
    let folder = data.join("pictures/pipelines");
    std::fs::create_dir_all(&folder)?;
    for name in SHOWN {
        let (before, after) = shown(name, &photograph)?;
        let (width, height) = (before.width.min(after.width), before.height.min(after.height));
        let at = |x: usize, y: usize, c: usize| match x {
            x if x < width => sample(&before, x, y, c),
            x if x < width + 4 => before.white(),
            x => sample(&after, x - width - 4, y, c),
        };
        write(&folder.join(format!("{name}.jpg")), &made(2 * width + 4, height, at))?;
    }
    Ok(folder)
}

/// Eight bits of a channel of a picture, gray being all of them.
fn sample(of: &Picture, x: usize, y: usize, c: usize) -> u16 {
    let v = of.plane(c.min(of.channels - 1))[y * of.width + x];
    if of.bits > 8 { v >> (of.bits - 8) } else { v }
}

/// A picture of three colours.
fn made(width: usize, height: usize, at: impl Fn(usize, usize, usize) -> u16) -> Picture {
    let points = (0..3 * width * height).map(|i| (i % width, i / width % height, i / (width * height)));
    Picture { width, height, channels: 3, bits: 8, samples: points.map(|(x, y, c)| at(x, y, c)).collect() }
}

fn write(path: &Path, picture: &Picture) -> Result<(), Box<dyn Error>> {
    let pixels = picture.width * picture.height;
    let bytes: Vec<u8> =
        (0..3 * pixels).map(|i| picture.samples[i % 3 * pixels + i / 3].min(255) as u8).collect();
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut file, 88);
    let size = (picture.width as u32, picture.height as u32);
    Ok(encoder.encode(&bytes, size.0, size.1, image::ExtendedColorType::Rgb8)?)
}

/// Means of `step` x `step` pixels.
fn reduced(of: &Picture, step: usize) -> Picture {
    let mean = |x: usize, y: usize, c: usize| {
        let row = |j: usize| &of.plane(c)[(y * step + j) * of.width + x * step..][..step];
        let sum: usize = (0..step).flat_map(row).map(|&v| usize::from(v)).sum();
        (sum / (step * step)) as u16
    };
    made(of.width / step, of.height / step, mean)
}

/// The same picture with other samples, from the place and the old one.
fn changed(of: &Picture, to: impl Fn(usize, usize, usize, f64) -> f64) -> Picture {
    made(of.width, of.height, |x, y, c| {
        to(x, y, c, f64::from(sample(of, x, y, c))).clamp(0.0, 255.0).round() as u16
    })
}

/// The mosaic of a picture that provokes moire, as wide as the others.
fn patterns() -> Picture {
    let scene = moire(0, 256).part([16, 80], [166, 92]);
    let pixels = (0..scene.width * scene.height).map(|i| (i % scene.width, i / scene.width));
    let samples = pixels.map(|(x, y)| (255.0 * scene.at(x, y, x % 2 + y % 2)).round() as u16).collect();
    Picture { width: scene.width, height: scene.height, channels: 1, bits: 8, samples }
}

/// Outputs by name.
type Results = Vec<(String, Planar)>;

/// Runs an application on pictures, and on arrays for the slots behind them.
fn run(
    name: &str,
    params: &[(&str, &str)],
    pictures: &[Picture],
    bits: u32,
) -> Result<(Prepared, Results), Box<dyn Error>> {
    let application = Application::find(name).ok_or("no application")?;
    let given: Vec<(String, String)> = params.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let setup = application.setup(&given, bits)?;
    let schedule =
        application.schedule(application.by_hand(&Target::host(), &setup)).ok_or("no schedule")??;
    let prepared = Prepared::new(Algorithm::new(application, setup), &schedule, &Target::host())?;
    let mut inputs = vec![];
    for (k, slot) in application.slots.iter().enumerate() {
        inputs.push(match (pictures.get(k), slot.default) {
            (Some(picture), _) => prepared.algorithm.taken(slot, picture)?,
            (None, Some(default)) => default(&prepared.algorithm.setup),
            (None, None) => return Err(format!("{name} lacks {}", slot.name).into()),
        });
    }
    let outputs = prepared.run(&Pool::new(2), &inputs)?;
    Ok((prepared, outputs))
}

fn shown(name: &str, photograph: &Picture) -> Result<(Picture, Picture), Box<dyn Error>> {
    let scene = reduced(photograph, STEP);
    let (width, height) = (scene.width, scene.height);
    let result = |params: &[(&str, &str)], pictures: &[Picture]| -> Result<Picture, Box<dyn Error>> {
        let (prepared, outputs) = run(name, params, pictures, pictures[0].bits)?;
        Ok(prepared.algorithm.shown(&outputs, pictures.first())?)
    };
    let plain = |before: Picture, params: &[(&str, &str)]| {
        let after = result(params, std::slice::from_ref(&before))?;
        Ok((before, after))
    };
    match name {
        "harris" => {
            let (prepared, mut outputs) = run(name, &[], std::slice::from_ref(&scene), 8)?;
            if let Some((_, Planar { values: Values::F32(v), .. })) = outputs.first_mut() {
                v.iter_mut().for_each(|v| *v *= 100.0);
            }
            let after = prepared.algorithm.shown(&outputs, None)?;
            Ok((scene, after))
        }
        "hist" => plain(changed(&scene, |_, _, _, v| 40.0 + 0.3 * v), &[]),
        "nl_means" => plain(
            changed(&scene, |x, y, c, v| v + 50.0 * f64::from(noise(&[x, y, c].map(|v| v as i32))) - 25.0),
            &[("sigma", "0.2")],
        ),
        "local_laplacian" => plain(scene, &[("alpha", "1")]),
        "max_filter" => plain(scene, &[("radius", "15")]),
        "interpolate" => {
            let known = |x: usize, y: usize| noise(&[x as i32, y as i32]) < 0.125;
            let before = changed(&scene, |x, y, _, v| if known(x, y) { v } else { 0.0 });
            let alpha = (0..width * height).map(|i| if known(i % width, i / width) { 255 } else { 0 });
            let samples = before.samples.iter().copied().chain(alpha).collect();
            let after = result(&[], &[Picture { channels: 4, samples, ..before.clone() }])?;
            Ok((before, after))
        }
        "resize" => {
            let small = reduced(photograph, 4 * STEP);
            let before = made(4 * small.width, 4 * small.height, |x, y, c| sample(&small, x / 4, y / 4, c));
            Ok((before, result(&[("way", "up"), ("scale", "4"), ("kernel", "lanczos")], &[small])?))
        }
        "camera_pipe" => {
            let scene = reduced(photograph, 14);
            // Green in the first and last pixel of a block of four, red and blue between.
            let colour = |i: usize| [1, 0, 2, 1][i / scene.width % 2 * 2 + i % scene.width % 2];
            let raw = |i: usize| 25 + (scene.plane(colour(i))[i] * 3);
            let samples = (0..scene.width * scene.height).map(raw).collect();
            let mosaic = Picture { channels: 1, bits: 16, samples, ..scene };
            let (prepared, outputs) = run(name, &[], std::slice::from_ref(&mosaic), 16)?;
            let after = prepared.algorithm.shown(&outputs, None)?;
            let gray = |x: usize, y: usize| mosaic.samples[(y + 24) * mosaic.width + x + 16];
            Ok((made(after.width, after.height, |x, y, _| gray(x, y).div_ceil(4).min(255)), after))
        }
        "demosaic_ahd" | "demosaic_learned" => {
            let before = if name == "demosaic_ahd" { "demosaic_bilinear" } else { "demosaic_ahd" };
            let mosaic = patterns();
            let picture = |name: &str| -> Result<Picture, Box<dyn Error>> {
                let params: &[(&str, &str)] =
                    if name == "demosaic_learned" { &[("filters", "9")] } else { &[] };
                let (prepared, outputs) = run(name, params, std::slice::from_ref(&mosaic), 8)?;
                let made_of = prepared.algorithm.shown(&outputs, Some(&mosaic))?;
                Ok(made(2 * made_of.width, 2 * made_of.height, |x, y, c| sample(&made_of, x / 2, y / 2, c)))
            };
            Ok((picture(before)?, picture(name)?))
        }
        "guided_upsampling" => {
            let small = reduced(photograph, 8 * STEP);
            let curve = |_: usize, _: usize, c: usize, v: f64| {
                let v = v / 255.0;
                255.0 * v * v * (3.0 - 2.0 * v) * [1.1, 1.0, 0.8][c]
            };
            let after = result(&[("s_sigma", "8")], &[scene.clone(), small.clone(), changed(&small, curve)])?;
            Ok((scene, after))
        }
        "lens_blur" => {
            // What is lower in the picture is nearer.
            let depth = |y: usize| 12 * y / height;
            let right = made(width, height, |x, y, c| {
                sample(&scene, (x + width - 2 * depth(y)).saturating_sub(width).min(width - 1), y, c)
            });
            let params = [("slices", "16"), ("focus", "9"), ("scale", "0.5"), ("samples", "64")];
            Ok((scene.clone(), result(&params, &[scene, right])?))
        }
        "compositing" => {
            let layer = |l: usize| {
                let tinted = changed(&scene, |_, _, c, v| if l == 0 || c == l % 3 { v } else { v * 0.4 });
                let (x0, y0) = (width * (2 * l + 1) / 12, height * (1 + l % 2) / 3);
                let cover = |i: usize| {
                    let apart = (i % width).abs_diff(x0).max((i / width).abs_diff(y0));
                    if l == 0 { 255 } else { 200 - (4 * apart).min(200) as u16 }
                };
                let samples = tinted.samples.iter().copied().chain((0..width * height).map(cover)).collect();
                Picture { channels: 4, samples, ..tinted }
            };
            let layers: Vec<Picture> = (0..6).map(layer).collect();
            Ok((scene, result(&[], &layers)?))
        }
        _ => plain(scene, &[]),
    }
}
