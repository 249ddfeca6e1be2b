//! The applications against plain loops, written here independently of them: on small inputs of odd sizes, under every schedule, by one
//! thread and by three; each on a tiny one (`cases`) also over other domains and against the reference evaluator (`parts`), and under random
//! schedules (`random`).

mod bilateral_grid;
mod blur;
mod camera_pipe;
mod cases;
mod common;
mod compositing;
mod conv_layer;
mod demosaic;
mod depthwise_separable_conv;
mod fft;
mod guided_upsampling;
mod harris;
mod hist;
mod iir_blur;
mod interpolate;
mod layers;
mod lengths;
mod lens_blur;
mod local_laplacian;
mod max_filter;
mod nl_means;
mod parts;
mod random;
mod resize;
mod sgemm;
mod stencil_chain;
mod unsharp;
