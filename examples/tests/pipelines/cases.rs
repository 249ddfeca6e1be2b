//! Every application once, small and of odd sizes, of noise or of a part of a photograph, with what plain loops say of it; runs of it over a part of
//! the output.

use crate::common::{Plain, Within, photographed, photographed_bytes, real_input, set_up, whole_input};
use crate::{
    bilateral_grid, blur, camera_pipe, compositing, conv_layer, demosaic, depthwise_separable_conv, fft,
    guided_upsampling, harris, hist, iir_blur, interpolate, layers, lens_blur, local_laplacian, max_filter,
    nl_means, resize, sgemm, stencil_chain, unsharp,
};
use sumsq::codegen::compile::{Compiled, Signature};
use sumsq::codegen::limits::{Effort, Limits};
use sumsq::codegen::lower::{LowerOptions, lower};
use sumsq::codegen::runtime::Scalar;
use sumsq::codegen::{Error, Name, Pipeline, Schedule, Target};
use sumsq_codegen_testing::native::{execute, scalar};
use sumsq_codegen_testing::reference::{Bindings, Realization, Value};
use sumsq_examples::pipelines::{Application, Planar, Planes, Setup, Slot};

/// First coordinate and number of coordinates, per dimension.
pub type Domain = Vec<(i32, usize)>;

/// An application on inputs.
pub struct Case {
    pub application: &'static Application,
    pub pipeline: Pipeline,
    /// The extents of all its outputs.
    pub extents: Vec<i32>,
    /// Of each output, by plain loops.
    pub expected: Vec<Vec<f64>>,
    pub within: Within,
    /// The first pixel of pictures: columns, rows.
    pub origin: [i32; 2],
    pub setup: Setup,
    params: Vec<(Name, Value)>,
    inputs: Vec<Planar>,
}

/// The numbers of a realization.
pub fn numbers(of: &Realization) -> Vec<f64> {
    of.planes[0].iter().map(|v| v.as_f64()).collect()
}

impl Case {
    fn new(
        name: &str,
        params: &[(&str, &str)],
        bits: u32,
        inputs: impl Into<Vec<Planar>>,
        expected: impl Into<Vec<Vec<f64>>>,
        within: Within,
    ) -> Case {
        let ((application, setup), inputs) = (set_up(name, params, bits), inputs.into());
        let pipeline = (application.build)(&setup);
        let sizes: Vec<Vec<i32>> = inputs.iter().map(|input| input.extents.clone()).collect();
        let extents = (application.extents)(&setup, &sizes).expect("the inputs fit each other");
        let params = pipeline.params.iter();
        let params = params.map(|(name, ty)| (name.clone(), Value::of(*ty, setup.real(name)))).collect();
        let expected = expected.into();
        Case { application, pipeline, extents, expected, within, origin: [0, 0], setup, params, inputs }
    }

    /// A result that must not be an error.
    pub fn must<T>(&self, what: &str, result: Result<T, Error>) -> T {
        result.unwrap_or_else(|e| panic!("{}, {what}: {e}", self.application.name))
    }

    /// All of the output.
    pub fn whole(&self) -> Domain {
        self.extents.iter().map(|&n| (0, n as usize)).collect()
    }

    /// A schedule of the application.
    pub fn schedule(&self, name: &str) -> Schedule {
        self.application.schedule(name).expect("it is listed").expect("it is a schedule")
    }

    /// Code under a schedule, made fast.
    pub fn compiled(&self, schedule: &Schedule) -> Result<Compiled, Error> {
        let limits = Limits { effort: Effort::Least, instructions: 1 << 19, ..Limits::default() };
        let options = LowerOptions { limits, ..LowerOptions::default() };
        let lowered = lower(&self.pipeline, schedule, &options)?;
        let signature = Signature::of(&self.pipeline, schedule)?;
        Compiled::from_lowered_within(&lowered, signature, &Target::host(), &options.limits)
    }

    /// Inputs and parameters for a part of the outputs: pictures over what the code reads for it, their edges repeated.
    pub fn bindings(&self, compiled: &Compiled, domain: &Domain) -> Result<Bindings, Error> {
        let asked: Vec<(i32, i32)> = domain.iter().map(|&(min, n)| (min, n as i32)).collect();
        let slots = || self.application.slots.iter().zip(&self.inputs);
        let first = |slot: &Slot, d: usize| match slot.planes {
            Planes::Array => 0,
            _ => self.origin.get(d).copied().unwrap_or(0),
        };
        let given = |slot: &Slot, input: &Planar| {
            let extents = input.extents.iter().enumerate();
            extents.map(|(d, &n)| (first(slot, d), n)).collect::<Vec<(i32, i32)>>()
        };
        let own: Vec<_> = slots().map(|(slot, input)| (slot.name, given(slot, input))).collect();
        let outputs = self.pipeline.outputs.iter().map(|o| (&*o.func, &asked[..]));
        let domains: Vec<_> = own.iter().map(|(name, d)| (*name, &d[..])).chain(outputs).collect();
        let params = self.params.iter().map(|(name, v)| (&**name, scalar(self.pipeline.params[name], *v)));
        let params: Vec<(&str, Scalar)> = params.collect();
        let required = compiled.required_regions_over(&domains, &params)?;
        let inputs = slots().map(|(slot, input)| {
            let given = given(slot, input);
            let mut from: Vec<i64> = given.iter().map(|d| d.0.into()).collect();
            let mut to: Vec<i64> = given.iter().map(|d| (d.0 + d.1).into()).collect();
            let read = required.get(slot.name).filter(|_| slot.planes != Planes::Array);
            for (d, &(first, last)) in read.into_iter().flatten().enumerate() {
                (from[d], to[d]) = (from[d].min(first), to[d].max(last + 1));
            }
            let extents: Vec<usize> = from.iter().zip(&to).map(|(a, b)| (b - a) as usize).collect();
            let min: Vec<i32> = from.iter().map(|&v| v as i32).collect();
            let (types, plain) = (&self.pipeline.inputs[slot.name].types, Plain::of(input));
            let mut made = Realization::zeros(types, &extents).moved_to(&min);
            let own = |p: &Vec<i32>| p.iter().zip(&given).map(|(x, d)| x - d.0).collect::<Vec<i32>>();
            made.planes[0] = made.points().iter().map(|p| Value::of(types[0], plain.at(&own(p)))).collect();
            (slot.name.into(), made)
        });
        let params = self.params.iter().map(|(name, v)| (name.clone(), *v));
        Ok(Bindings { inputs: inputs.collect(), params: params.collect() })
    }

    /// The outputs over a part, by machine code.
    pub fn run(&self, compiled: &Compiled, domain: &Domain, threads: usize) -> Result<Vec<Vec<f64>>, Error> {
        let bindings = self.bindings(compiled, domain)?;
        let domains = vec![domain.clone(); self.pipeline.outputs.len()];
        let outputs = execute(&self.pipeline, compiled, &bindings, &domains, threads)?;
        Ok(outputs.iter().map(numbers).collect())
    }

    /// Compares outputs over a part with that part of what is expected, or of outputs over the whole domain.
    pub fn compare(&self, what: &str, came: &[Vec<f64>], of: &[Vec<f64>], domain: &Domain, within: Within) {
        assert_eq!(came.len(), of.len(), "{what}: number of outputs");
        let inside =
            |p: &Vec<i32>| p.iter().zip(domain).all(|(&x, &(min, n))| (min..min + n as i32).contains(&x));
        for (came, of) in came.iter().zip(of) {
            let points = Plain::points(&self.extents);
            let part: Vec<(&Vec<i32>, f64)> =
                points.iter().zip(of.iter().copied()).filter(|(p, _)| inside(p)).collect();
            assert_eq!(came.len(), part.len(), "{what}: number of values");
            let tolerance = within.of(of);
            for (&a, (at, b)) in came.iter().zip(part) {
                let near = (a - b).abs() <= tolerance || a.is_nan() && b.is_nan();
                assert!(near, "{}, {what}: at {at:?} is {a}, expected {b}", self.application.name);
            }
        }
    }
}

/// All applications.
pub fn cases() -> Vec<Case> {
    [pictures(), mosaics(), pyramids(), layers_of_networks()].into_iter().flatten().collect()
}

/// A case with one output, of the extents of its first input.
fn one(
    name: &str,
    params: &[(&str, &str)],
    input: Planar,
    expected: impl Fn(&Plain, &[i32]) -> Vec<f64>,
    within: Within,
) -> Case {
    let expected = expected(&Plain::of(&input), &input.extents);
    Case::new(name, params, 8, [input], [expected], within)
}

fn pictures() -> Vec<Case> {
    let (near, flat, colour) = (Within::Range(1e-4), [13, 7], [13, 7, 3]);
    let grid = |input: &Plain, n: &[i32]| bilateral_grid::expected(input, n, 0.25);
    let recursive = |input: &Plain, n: &[i32]| iir_blur::expected(input, n, 0.5);
    let disc = |input: &Plain, n: &[i32]| max_filter::expected(input, n, 15);
    let means = |input: &Plain, n: &[i32]| nl_means::expected(input, n, 3, 3, 0.4);
    let grown = |input: &Plain, n: &[i32]| resize::expected(input, n, false, true, 2.5, 255.0);
    let shrunk = |input: &Plain, n: &[i32]| resize::expected(input, n, true, false, 0.5, 1.0);
    let grown_by = [("way", "up"), ("scale", "2.5")];
    let shrunk_by = [("kernel", "lanczos"), ("type", "float")];
    let patches = [("patch", "3"), ("search", "3"), ("sigma", "0.4")];
    let upsampled = guided_upsampling::inputs([13, 9], [7, 5]);
    let by_guide = guided_upsampling::expected(&upsampled, 0.25, 4);
    let ops = [2, 0, 4, 1, 3];
    let combined = compositing::inputs(13, 7, ops);
    let by_ops = compositing::expected(&combined, ops);
    let transformed = fft::inputs(1);
    let by_definition = fft::expected(&transformed);
    vec![
        one("blur", &[], whole_input(&flat, 256), blur::expected, Within::Exactly),
        one("unsharp", &[], unsharp::input(&colour), unsharp::expected, near),
        one("harris", &[], photographed(&colour), harris::expected, near),
        one("bilateral_grid", &[("r_sigma", "0.25")], photographed(&flat), grid, near),
        one("stencil_chain", &[], whole_input(&[7, 5], 1 << 16), stencil_chain::expected, Within::Exactly),
        one("hist", &[], photographed_bytes(&colour), hist::expected, Within::One),
        one("iir_blur", &[("alpha", "0.5")], real_input(&colour), recursive, near),
        one("max_filter", &[("radius", "15")], real_input(&[11, 7, 1]), disc, Within::Exactly),
        one("nl_means", &patches, photographed(&[11, 7, 3]), means, near),
        one("resize", &grown_by, resize::bytes(&[7, 5, 3]), grown, Within::One),
        one("resize", &shrunk_by, photographed(&[15, 13, 1]), shrunk, near),
        Case::new(
            "guided_upsampling",
            &[("r_sigma", "0.25"), ("s_sigma", "4")],
            8,
            upsampled,
            [by_guide],
            near,
        ),
        Case::new("compositing", &[], 8, combined, [by_ops], Within::Exactly),
        Case::new("fft", &[], 8, transformed, by_definition, near),
    ]
}

fn mosaics() -> Vec<Case> {
    let settings = camera_pipe::Settings {
        kelvin: 3700.0,
        gamma: 2.0,
        contrast: 50.0,
        sharpen: 1.0,
        black: 25,
        white: 1023,
    };
    let developed = camera_pipe::inputs(43, 55);
    let by_settings = camera_pipe::expected(&developed, &settings);
    let size = [13, 7];
    let mosaic = || real_input(&size);
    let filters = demosaic::learned_inputs(size, 2);
    let by_filters = demosaic::learned(&filters, 2);
    vec![
        Case::new("camera_pipe", &[], 16, developed, [by_settings], Within::One),
        Case::new(
            "demosaic_bilinear",
            &[],
            8,
            [mosaic()],
            [demosaic::bilinear(&mosaic())],
            Within::Range(1e-4),
        ),
        Case::new(
            "demosaic_ahd",
            &[],
            8,
            [mosaic()],
            [demosaic::homogeneous(&mosaic())],
            Within::Range(1e-4),
        ),
        Case::new("demosaic_learned", &[], 8, filters, [by_filters], Within::Range(1e-4)),
    ]
}

fn pyramids() -> Vec<Case> {
    let settings = lens_blur::Settings { slices: 3, focus: 1, scale: 0.75, samples: 3 };
    let focused = [("slices", "3"), ("focus", "1"), ("scale", "0.75"), ("samples", "3")];
    let views = lens_blur::inputs(17, 13);
    let by_depth = lens_blur::expected(&views, &settings);
    let filled = interpolate::input(13, 9);
    let by_known = interpolate::expected(&Plain::of(&filled), 13, 9);
    let contrast = [("levels", "2"), ("alpha", "0.5"), ("beta", "0.75")];
    let bright = whole_input(&[9, 7, 3], 256);
    let by_levels = local_laplacian::expected(&Plain::of(&bright), &[9, 7, 3], 8, 2, 0.5, 0.75);
    vec![
        Case::new("lens_blur", &focused, 8, views, [by_depth], Within::Range(1e-4)),
        Case::new("interpolate", &[], 8, [filled], [by_known], Within::Range(1e-4)),
        Case::new("local_laplacian", &contrast, 8, [bright], [by_levels], Within::One),
    ]
}

fn layers_of_networks() -> Vec<Case> {
    let near = Within::Range(1e-4);
    // Parts are no smaller than the tiles of the schedules by hand: 64 channels (all) and 5 columns; 16 channels.
    let convolved = conv_layer::inputs(67, 2, 11, 3, 1);
    let separated = depthwise_separable_conv::inputs(37, 3, 2, 5, 3, 1);
    let factors = sgemm::inputs(13, 9, 5);
    let slices = layers::slice_inputs([9, 5, 2, 3, 3, 1]);
    let volumes = layers::volume_inputs([9, 5, 3, 2, 2, 2, 1]);
    let features = layers::transformer_inputs([9, 5, 3, 1]);
    let flow = layers::warp_inputs([9, 5, 3, 1]);
    let case = |name, params: &[(&str, &str)], inputs: &[Planar], expected| {
        Case::new(name, params, 8, inputs, [expected], near)
    };
    let multiplied = [("multiplier", "2")];
    let cells = [("cell", "4")];
    let cubes = [("cell", "4"), ("channels", "2")];
    vec![
        case("conv_layer", &[], &convolved, conv_layer::expected(&convolved)),
        case(
            "depthwise_separable_conv",
            &multiplied,
            &separated,
            depthwise_separable_conv::expected(&separated),
        ),
        case("sgemm", &[], &factors, sgemm::expected(&factors, 1.5, 0.5)),
        case("bilateral_slice", &cells, &slices, layers::sliced(&slices)),
        case("bilateral_slice_3d", &cubes, &volumes, layers::sliced_volume(&volumes)),
        case("spatial_transformer", &[], &features, layers::transformed(&features)),
        case("flow_warp", &[], &flow, layers::warped(&flow)),
        case("bicubic_warp", &[], &flow, layers::warped_bicubically(&flow)),
    ]
}
