//! A photograph that a moving camera blurred, made sharp again by the known way of the camera: by published numbers and by trained ones.

use super::DemoError;
use super::run::{Run, decode};
use crate::deconvolution::{Blurred, Deconvolver, Parameters, Plane, SIDE, motion};
use crate::demosaicking::decibels;
use crate::panels;
use image::{Rgb, RgbImage};
use sumsq::Precision;

/// The photograph: by Stefan van der Walt, none of those that the numbers were trained on.
const CHELSEA: &[u8] = include_bytes!("../../../data/poisson_image_editing/chelsea.jpg");
/// Size of the sharp picture, and the seed of the camera's way.
const SIZE: [usize; 2] = [270, 238];
const WAY: u64 = 12;

/// Blurs a photograph, and makes it sharp channel by channel.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let photograph = decode(CHELSEA)?.to_rgb8();
    let channels = [0, 1, 2].map(|c| {
        let at = |x: usize, y: usize| f32::from(photograph.get_pixel(x as u32, y as u32)[c]) / 255.0;
        let plane = Plane::from_fn(photograph.width() as usize, photograph.height() as usize, at);
        Blurred::of(plane.middle(SIZE), motion(WAY, SIDE), c as u64)
    });
    let deconvolver = Deconvolver::new(SIDE, SIZE, Precision::F32, None, 1e-4)?;
    let ways = [("published", Parameters::published(1)), ("trained", Parameters::trained())];
    let mut pictures = vec![];
    for (way, numbers) in ways {
        let mut planes: Vec<Vec<f64>> = vec![];
        for (of, channel) in channels.iter().zip(["red", "green", "blue"]) {
            let solution = deconvolver.run(of, &numbers)?;
            planes.push(solution.image());
            for (k, report) in solution.reports.into_iter().enumerate() {
                let label = format!("{way}, {channel}, stage {}", k + 1);
                report.iterations.iter().for_each(|step| run.observe(&label, step));
                run.reported(&label, report);
            }
        }
        pictures.push(planes);
    }
    let start: Vec<Vec<f64>> = channels.iter().map(|of| doubles(&of.start())).collect();
    let truth: Vec<Vec<f64>> = channels.iter().map(|of| doubles(&of.truth)).collect();
    let error = |planes: &[Vec<f64>]| {
        let all = channels.iter().zip(planes).map(|(of, plane)| of.error(plane).0);
        all.sum::<f64>() / channels.len() as f64
    };
    let [blurred, published, trained] = [&start, &pictures[0], &pictures[1]].map(|planes| error(planes));
    let unit = "of 1, root mean square";
    run.measure(
        "error of the picture: blurred, and by trained numbers",
        unit,
        blurred.sqrt(),
        trained.sqrt(),
    );
    run.measure(
        "error of the picture: by published numbers, and by trained ones",
        unit,
        published.sqrt(),
        trained.sqrt(),
    );
    let captions = [
        format!("blurred: {:.1} dB", decibels(blurred)),
        format!("by published numbers: {:.1} dB", decibels(published)),
        format!("by trained numbers: {:.1} dB", decibels(trained)),
    ];
    let shown = [&start, &pictures[0], &pictures[1], &truth].map(|planes| drawn(planes));
    let above = [(captions[0].as_str(), &shown[0]), (captions[1].as_str(), &shown[1])];
    let below = [(captions[2].as_str(), &shown[2]), ("the photograph", &shown[3])];
    run.picture("", &panels::column(&[panels::row(&above)?, panels::row(&below)?]))?;
    run.plot()
}

fn doubles(plane: &Plane) -> Vec<f64> {
    plane.values.iter().map(|v| f64::from(*v)).collect()
}

/// Pixels that one becomes.
const LARGE: u32 = 2;

/// Three channels as a picture, without the border that no blurred pixel is at.
fn drawn(planes: &[Vec<f64>]) -> RgbImage {
    let border = SIDE / 2;
    let [width, height] = SIZE.map(|n| (n - 2 * border) as u32 * LARGE);
    RgbImage::from_fn(width, height, |x, y| {
        let [x, y] = [x, y].map(|v| (v / LARGE) as usize + border);
        let value = |c: usize| planes[c][y * SIZE[0] + x];
        Rgb([0, 1, 2].map(|c| (255.0 * value(c)).round().clamp(0.0, 255.0) as u8))
    })
}
