//! Image pipelines: each application is an algorithm, and schedules of it as text.
//!
//! ```text
//! Application::find -> setup (parameters, depth of the pictures) -> Algorithm: a Pipeline of the engine, with its gradient or without
//!                      schedule (by name, or a file's text)      -> Prepared::new -> run on arrays or pictures
//! ```
//! An application is a file here that defines one `APPLICATION`, and a folder of `examples/schedules` with its schedules.

/// The schedules of an application, each the text of a file.
///
/// One more may be named: `narrow`, for the registers of other machines than those of AVX-512, shorter and fewer; `packed`, of pixels whose
/// channels lie side by side; or `gradient`, of a layer's gradient by hand.
macro_rules! schedules {
    ($name:literal $(, $more:ident)?) => {
        &[
            ("hand", include_str!(concat!("../../schedules/", $name, "/hand.txt"))),
            ("root", include_str!(concat!("../../schedules/", $name, "/root.txt"))),
            ("gpu", include_str!(concat!("../../schedules/", $name, "/gpu.txt"))),
            $((stringify!($more), include_str!(concat!("../../schedules/", $name, "/", stringify!($more), ".txt"))),)?
        ]
    };
}

mod algorithm;
mod application;
mod bicubic_warp;
mod bilateral_grid;
mod bilateral_slice;
mod bilateral_slice_3d;
mod blur;
mod camera_pipe;
mod compositing;
mod conv_layer;
mod demosaic;
mod demosaic_ahd;
mod demosaic_bilinear;
mod demosaic_filters;
mod demosaic_learned;
mod depthwise_separable_conv;
mod fft;
mod flow_warp;
mod gradient;
mod guided_upsampling;
mod harris;
mod hist;
mod iir_blur;
mod interpolate;
mod layer;
mod lens_blur;
mod local_laplacian;
mod max_filter;
mod nl_means;
mod pictures;
mod planar;
mod resize;
mod run;
mod setup;
mod sgemm;
mod spatial_transformer;
mod stencil_chain;
mod unsharp;

use sumsq::codegen::{Constraint, Expr, Func, Input, Pipeline, ScalarType, boundary};

pub use algorithm::Algorithm;
pub use application::{Application, Planes, Sizes, Slot};
pub use demosaic_filters::Filters;
pub use gradient::{Gradient, GradientError};
pub use layer::{Argument, LAYERS, Layer, Lines, Pass, Routine};
pub use pictures::{Picture, PictureError};
pub use planar::{Planar, Values};
pub use run::{PipelineError, Prepared};
pub(crate) use setup::FLOATS;
pub use setup::{Kind, Parameter, Setup, SetupError};

/// Every application, in the order of the list that the command prints.
pub const ALL: [&Application; 28] = [
    &blur::APPLICATION,
    &unsharp::APPLICATION,
    &harris::APPLICATION,
    &bilateral_grid::APPLICATION,
    &local_laplacian::APPLICATION,
    &interpolate::APPLICATION,
    &guided_upsampling::APPLICATION,
    &camera_pipe::APPLICATION,
    &demosaic_bilinear::APPLICATION,
    &demosaic_ahd::APPLICATION,
    &demosaic_learned::APPLICATION,
    &lens_blur::APPLICATION,
    &nl_means::APPLICATION,
    &stencil_chain::APPLICATION,
    &hist::APPLICATION,
    &iir_blur::APPLICATION,
    &max_filter::APPLICATION,
    &resize::APPLICATION,
    &compositing::APPLICATION,
    &conv_layer::APPLICATION,
    &depthwise_separable_conv::APPLICATION,
    &sgemm::APPLICATION,
    &fft::APPLICATION,
    &bilateral_slice::APPLICATION,
    &bilateral_slice_3d::APPLICATION,
    &spatial_transformer::APPLICATION,
    &flow_warp::APPLICATION,
    &bicubic_warp::APPLICATION,
];

/// Parts of demos and their energies as applications: residuals, and a stage that is solved. They take arrays alone, and have no schedules by hand:
/// theirs are made from sizes.
pub const OF_DEMOS: [&Application; 3] = [
    &crate::deconvolution::APPLICATION,
    &crate::demos::burst_demosaicking::APPLICATION,
    &crate::demos::lens_design::APPLICATION,
];

/// A picture of several channels as Func `name`, its edge repeated.
fn edge(p: &mut Pipeline, name: &str, picture: &Input) -> Func {
    let mut domain = picture.domain();
    domain[2..].fill(None);
    p.func(boundary::repeat_edge(name, picture, &domain))
}

/// An array of a layer: its coordinates begin at 0, in all dimensions.
pub(crate) fn tensor(p: &mut Pipeline, name: &str, ty: ScalarType, dims: usize) -> Input {
    let from_0 = |input: Input, (d, c): (usize, Constraint)| input.constrain(d, c.min(0));
    let constraints = Constraint::defaults(dims).into_iter().enumerate();
    p.input(constraints.fold(Input::strided(name, &[ty], dims), from_0))
}

/// A pixel of the next coarser level: the mean of four taps from -1 to 2, weighted 1, 3, 3, 1.
fn halved(tap: &dyn Fn(i32) -> Expr) -> Expr {
    (tap(-1) + (tap(0) + tap(1)) * 3.0 + tap(2)) / 8.0
}

/// Luminance of a colour, given by channel: f32.
fn luminance(channel: impl Fn(i32) -> Expr) -> Expr {
    channel(0) * 0.299f32 + channel(1) * 0.587f32 + channel(2) * 0.114f32
}
