//! Inputs of every application of `sumsq pipeline`, and what its outputs are compared by.

use sumsq::codegen::limits::{Effort, Limits};
use sumsq::codegen::{Schedule, Target};
use sumsq_examples::pipelines::{Algorithm, Application, PipelineError, Planar, Prepared, Values};

/// Size of inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// For interpreters: kernels have some blocks.
    Small,
    /// As in use: those of Halide's app suite, where it has the application.
    Natural,
}

impl Size {
    /// One of two.
    fn of<T>(self, small: T, natural: T) -> T {
        if self == Size::Small { small } else { natural }
    }
}

/// Numbers that look like noise, the same in every run: in [0, 1).
fn noise(extents: &[i32]) -> Vec<f32> {
    let mut state = 1u32;
    let next = || {
        state = state.wrapping_mul(0x915f_77f5).wrapping_add(1);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    std::iter::repeat_with(next).take(extents.iter().product::<i32>() as usize).collect()
}

fn real(extents: &[i32]) -> Planar {
    Planar { extents: extents.to_vec(), values: Values::F32(noise(extents)) }
}

fn bytes(extents: &[i32]) -> Planar {
    let values = noise(extents).iter().map(|v| (v * 256.0) as u8).collect();
    Planar { extents: extents.to_vec(), values: Values::U8(values) }
}

fn whole(extents: &[i32], below: u16) -> Planar {
    let values = noise(extents).iter().map(|v| (v * f32::from(below)) as u16).collect();
    Planar { extents: extents.to_vec(), values: Values::U16(values) }
}

/// Width and height of most pictures in use.
const PICTURE: [i32; 2] = [1536, 2560];
const COLOURS: [i32; 3] = [1536, 2560, 3];

/// Inputs of an application, and parameters; small ones keep the work small.
fn inputs(name: &str, size: Size) -> (Vec<Planar>, &'static [(&'static str, &'static str)]) {
    match name {
        "blur" => (vec![whole(&size.of([128, 96], [6400, 4800]), 4096)], &[]),
        "stencil_chain" => (vec![whole(&size.of([64, 64], PICTURE), 4096)], &[]),
        "bilateral_grid" => (vec![real(&size.of([128, 96], PICTURE))], &[]),
        "hist" => (vec![bytes(&size.of([128, 96, 3], COLOURS))], &[]),
        "local_laplacian" => (
            vec![whole(&size.of([384, 256, 3], COLOURS), u16::MAX)],
            size.of(&[("levels", "4")], &[("levels", "8")]),
        ),
        "interpolate" => (vec![real(&size.of([128, 96, 4], [1536, 2560, 4]))], &[]),
        "camera_pipe" => {
            (vec![whole(&size.of([160, 144], [2592, 1968]), 1023), real(&[4, 3]), real(&[4, 3])], &[])
        }
        "demosaic_bilinear" | "demosaic_ahd" => (vec![real(&size.of([128, 96], PICTURE))], &[]),
        "demosaic_learned" => {
            let filters = [&[5, 5, 2][..], &[5, 5, 2], &[2, 3], &[3, 2], &[2, 2]].map(real);
            ([&[real(&size.of([128, 96], PICTURE))], &filters[..]].concat(), &[])
        }
        "nl_means" => (
            vec![real(&size.of([64, 64, 3], COLOURS))],
            size.of(&[("patch", "5"), ("search", "5")], &[("patch", "7"), ("search", "7")]),
        ),
        "max_filter" => (vec![real(&size.of([64, 64, 3], COLOURS))], &[]),
        "resize" => (vec![bytes(&size.of([256, 192, 3], COLOURS))], &[]),
        "lens_blur" => {
            let view = || bytes(&size.of([64, 64, 3], [192, 320, 3]));
            let small: &[_] = &[("slices", "8"), ("focus", "3"), ("samples", "8")];
            (vec![view(), view()], size.of(small, &[]))
        }
        "guided_upsampling" => {
            let small = real(&size.of([48, 32, 3], [192, 320, 3]));
            let large = real(&size.of([192, 128, 3], COLOURS));
            (vec![large, small.clone(), small], size.of(&[("s_sigma", "8")], &[("s_sigma", "16")]))
        }
        "compositing" => {
            let ways = Planar { extents: vec![5], values: Values::Int(vec![0, 1, 2, 3, 4]) };
            let layer = bytes(&size.of([128, 96, 4], [1536, 2560, 4]));
            (std::iter::repeat_n(layer, 6).chain([ways]).collect(), &[])
        }
        "sgemm" => {
            let factors = size.of([[128, 64], [64, 128], [128, 128]], [[1024, 1024]; 3]);
            (factors.map(|n| real(&n)).into(), &[])
        }
        "fft" => (vec![real(&[32, 32, size.of(4, 1000)]), real(&[32, 32, size.of(4, 1000)])], &[]),
        _ => tensors(name, size),
    }
}

/// The same of applications that take tensors.
fn tensors(name: &str, size: Size) -> (Vec<Planar>, &'static [(&'static str, &'static str)]) {
    let all = |extents: &[&[i32]]| extents.iter().map(|n| real(n)).collect();
    let plane = size.of([128, 96], [512, 512]);
    let [w, h] = plane;
    let (maps, batch) = (size.of(3, 16), size.of(1, 4));
    match name {
        "conv_layer" => (
            all(&size.of(
                [&[32, 34, 18, 1][..], &[64, 3, 3, 32], &[64]],
                [&[128, 102, 82, 5], &[128, 3, 3, 128], &[128]],
            )),
            &[],
        ),
        "depthwise_separable_conv" => (
            all(&size.of(
                [&[32, 32, 16, 1][..], &[1, 32, 3, 3], &[32, 32], &[32]],
                [&[32, 112, 112, 4], &[1, 32, 3, 3], &[16, 32], &[16]],
            )),
            &[],
        ),
        "bilateral_slice" => {
            (all(&[&[w / 8, h / 8, 8, 12, batch], &[w, h, batch], &[w, h, 3, batch]]), &[("cell", "8")])
        }
        "bilateral_slice_3d" => {
            let [w, h, z] = size.of([32, 16, 8], [128, 128, 64]);
            (all(&[&[w / 8, h / 8, z / 8, 8, 12, 1], &[w, h, z, 1], &[w, h, z, 3, 1]]), &[("cell", "8")])
        }
        "spatial_transformer" => (all(&[&[w, h, maps, batch], &[3, 2, batch]]), &[]),
        "flow_warp" | "bicubic_warp" => (all(&[&[w, h, maps, batch], &[w, h, 2, batch]]), &[]),
        _ => (vec![real(&size.of([128, 96, 3], COLOURS))], &[]),
    }
}

/// An application, compiled under a schedule, and its inputs.
///
/// # Errors
/// A schedule that the machine refuses.
pub fn prepared(
    application: &'static Application,
    schedule: &Schedule,
    target: &Target,
    effort: Effort,
    size: Size,
) -> Result<(Prepared, Vec<Planar>), PipelineError> {
    let (inputs, params) = inputs(application.name, size);
    let params: Vec<(String, String)> = params.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let bits = if matches!(inputs[0].values, Values::U8(_)) { 8 } else { 16 };
    let setup = application.setup(&params, bits).map_err(|e| PipelineError::Given(e.to_string()))?;
    let limits = Limits { effort, ..Limits::default() };
    let prepared = Prepared::within(Algorithm::new(application, setup), schedule, target, limits)?;
    Ok((prepared, inputs))
}

/// All values of an output.
pub fn numbers(of: &Planar) -> Vec<f64> {
    match &of.values {
        Values::U8(v) => v.iter().map(|&v| v.into()).collect(),
        Values::U16(v) => v.iter().map(|&v| v.into()).collect(),
        Values::F32(v) => v.iter().map(|&v| v.into()).collect(),
        other => panic!("{other:?} is no output"),
    }
}

/// Says where outputs of a GPU are not those that are expected, to 1e-4 of the greatest value.
pub fn same(came: &[(String, Planar)], expected: &[(String, Planar)]) -> Result<(), String> {
    if came.len() != expected.len() {
        return Err(format!("{} outputs, expected {}", came.len(), expected.len()));
    }
    for ((output, came), (_, expected)) in came.iter().zip(expected) {
        let (came, expected) = (numbers(came), numbers(expected));
        let most = expected.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        if came.len() != expected.len() || most <= 0.0 {
            return Err(format!("{output}: {} values up to {most}, expected {}", came.len(), expected.len()));
        }
        let near = |(_, (a, b)): &(usize, (&f64, &f64))| (*a - *b).abs() <= 1e-4 * most;
        if let Some((i, (a, b))) = came.iter().zip(&expected).enumerate().find(|pair| !near(pair)) {
            return Err(format!("{output}, value {i}: {a}, expected {b}"));
        }
    }
    Ok(())
}
