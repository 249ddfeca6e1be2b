//! The applications of `peers/halide/pipelines/ALGORITHMS.md`: their arguments, in that order. What is a picture is cut out of a photograph;
//! other contents are noise that is the same in every run.

use super::photograph::{Part, Photograph};
use super::pipeline_arrays::{Argument, Array, Kind, Tolerance};
use std::f32::consts::PI;

/// An application with its arguments.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// In the order of the description.
    pub arguments: Vec<Argument>,
    /// Of its outputs.
    pub tolerance: Tolerance,
}

impl Case {
    fn new(name: impl Into<String>) -> Case {
        Case { name: name.into(), arguments: vec![], tolerance: Tolerance::Near }
    }

    fn exact(self) -> Case {
        Case { tolerance: Tolerance::Exact, ..self }
    }

    fn decisions(self) -> Case {
        Case { tolerance: Tolerance::Decisions, ..self }
    }

    fn with(mut self, argument: Argument) -> Case {
        self.arguments.push(argument);
        self
    }

    fn input(
        self,
        name: &'static str,
        kind: Kind,
        extents: &[i32],
        value: impl FnMut(&[i32]) -> f32,
    ) -> Case {
        self.with(Argument::Input(Array::new(name, kind, &from_zero(extents), value)))
    }

    fn whole(self, name: &'static str, value: i32) -> Case {
        self.with(Argument::Whole(name, value))
    }

    fn real(self, name: &'static str, value: f32) -> Case {
        self.with(Argument::Real(name, value))
    }

    /// With the channels of each pixel side by side.
    fn packed(mut self) -> Case {
        let packed = |argument| match argument {
            Argument::Input(array) => Argument::Input(array.packed()),
            Argument::Output(array) => Argument::Output(array.packed()),
            scalar => scalar,
        };
        self.arguments = self.arguments.into_iter().map(packed).collect();
        self
    }

    fn output(self, kind: Kind, extents: &[i32]) -> Case {
        self.output_as("output", kind, &from_zero(extents))
    }

    fn output_as(self, name: &'static str, kind: Kind, domain: &[(i32, i32)]) -> Case {
        self.with(Argument::Output(Array::new(name, kind, domain, |_| 0.0)))
    }
}

fn from_zero(extents: &[i32]) -> Vec<(i32, i32)> {
    extents.iter().map(|&n| (0, n)).collect()
}

/// A number in [0, 1) that depends on the coordinates alone.
pub fn noise(at: &[i32]) -> f32 {
    let mix =
        |h: u32, c: i32| (h ^ c as u32).wrapping_mul(0x9E37_79B1).rotate_left(13).wrapping_mul(0x85EB_CA6B);
    let h = at.iter().fold(0x2545_F491, |h, &c| mix(h, c));
    ((h ^ (h >> 15)) >> 8) as f32 / (1 << 24) as f32
}

fn signed(at: &[i32]) -> f32 {
    2.0 * noise(at) - 1.0
}

/// The right one of two views: what is lower is nearer, and shifted more.
fn shifted(left: Part, at: &[i32]) -> f32 {
    let depth = 4 + (at[1] / 40) * 2;
    left.at(&[at[0] - 2 * depth, at[1], at[2]])
}

fn byte(v: f32) -> f32 {
    (v * 255.0).round()
}

fn word(v: f32) -> f32 {
    (v * 65535.0).round()
}

/// Width and height of the images, and with three colours.
const FLAT: [i32; 2] = [1536, 2560];
const COLOURS: [i32; 3] = [1536, 2560, 3];

/// Names of all applications, in the order of the description.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = [
        "blur",
        "unsharp",
        "harris",
        "hist",
        "bilateral_grid",
        "local_laplacian",
        "interpolate",
        "stencil_chain",
        "iir_blur",
        "max_filter",
        "nl_means",
        "camera_pipe",
        "conv_layer",
        "depthwise_separable_conv",
    ]
    .map(String::from)
    .into();
    for kernel in ["cubic", "lanczos"] {
        for kind in ["u8", "u16", "f32"] {
            names.extend(["up", "down"].map(|way| format!("resize_{kernel}_{kind}_{way}")));
        }
    }
    for layout in ["rgb", "rgba"] {
        names.extend(["up", "down"].map(|way| format!("resize_cubic_u8_{way}_{layout}")));
    }
    names.extend(["lens_blur", "guided_upsampling", "compositing", "sgemm", "fft"].map(String::from));
    names
}

/// The application of this name on parts of a photograph, or none.
pub fn case(name: &str, photograph: &Photograph) -> Option<Case> {
    use Kind::{F32, U8, U16};
    let case = Case::new(name);
    let picture = photograph.small(FLAT);
    let unit = |at: &[i32]| picture.at(at);
    Some(match name {
        "blur" => {
            let picture = photograph.part([6408, 4802]);
            let value = |at: &[i32]| (picture.at(at) * 4095.0).round();
            case.input("input", U16, &[6408, 4802], value).output(U16, &[6400, 4800]).exact()
        }
        // The luminance divides.
        "unsharp" => case.input("input", F32, &COLOURS, |at| unit(at).max(1.0 / 64.0)).output(F32, &COLOURS),
        "harris" => {
            case.input("input", F32, &COLOURS, unit).output_as("output", F32, &[(3, 1530), (3, 2554)])
        }
        "hist" => case.input("input", U8, &COLOURS, |at| byte(unit(at))).output(U8, &COLOURS).decisions(),
        "bilateral_grid" => {
            case.input("input", F32, &FLAT, unit).real("r_sigma", 0.1).output(F32, &FLAT).decisions()
        }
        "local_laplacian" => case
            .input("input", U16, &COLOURS, |at| word(unit(at)))
            .whole("levels", 8)
            .real("alpha", 1.0 / 7.0)
            .real("beta", 1.0)
            .output(U16, &COLOURS)
            .decisions(),
        "interpolate" => {
            case.input("input", F32, &[1536, 2560, 4], |at| sparse(picture, at)).output(F32, &COLOURS)
        }
        "stencil_chain" => case.input("input", U16, &FLAT, |at| word(unit(at))).output(U16, &FLAT).exact(),
        "iir_blur" => case.input("input", F32, &COLOURS, unit).real("alpha", 0.1).output(F32, &COLOURS),
        "max_filter" => case.input("input", F32, &COLOURS, unit).output(F32, &COLOURS).exact(),
        "nl_means" => case
            .input("input", F32, &COLOURS, unit)
            .whole("patch", 7)
            .whole("search", 7)
            .real("sigma", 0.12)
            .output(F32, &COLOURS),
        "camera_pipe" => camera(case, photograph),
        "conv_layer" | "depthwise_separable_conv" => layer(case),
        "lens_blur" => lens(case, photograph.small([192, 320])),
        "guided_upsampling" => guided(case, picture),
        "compositing" => compositing(case, picture),
        "sgemm" => case
            .real("a", 1.5)
            .input("A", F32, &[1024, 1024], signed)
            .input("B", F32, &[1024, 1024], |at| signed(&[at[1], at[0], 1]))
            .real("b", 0.5)
            .input("C", F32, &[1024, 1024], |at| signed(&[at[0], at[1], 2]))
            .output(F32, &[1024, 1024]),
        "fft" => {
            let domain = from_zero(&[32, 32, 1000]);
            let case =
                case.input("re", F32, &[32, 32, 1000], signed)
                    .input("im", F32, &[32, 32, 1000], |at| signed(&[at[2], at[0], at[1]]));
            case.output_as("out_re", F32, &domain).output_as("out_im", F32, &domain)
        }
        _ => return resize(case, photograph),
    })
}

/// Colours, of which one in eight is known.
fn sparse(picture: Part, at: &[i32]) -> f32 {
    if at[2] < 3 { picture.at(at) } else { f32::from(noise(at) < 0.125) }
}

fn camera(case: Case, photograph: &Photograph) -> Case {
    const WARM: [f32; 12] = [
        1.6697, -0.2693, -0.4004, -42.4346, -0.3576, 1.0615, 1.5949, -37.1158, -0.2175, -1.8751, 6.9640,
        -26.6970,
    ];
    const COLD: [f32; 12] = [
        2.2997, -0.4478, 0.1706, -39.0923, -0.3826, 1.5906, -0.2080, -25.4311, -0.0888, -0.7344, 2.2832,
        -20.0826,
    ];
    let of = |m: [f32; 12]| move |at: &[i32]| m[(at[1] * 4 + at[0]) as usize];
    let picture = photograph.part([2592, 1968]);
    // The colour of a site by its place in the mosaic.
    let raw = |at: &[i32]| {
        let colour = [1, 0, 2, 1][(at[1] % 2 * 2 + at[0] % 2) as usize];
        (picture.at(&[at[0], at[1], colour]) * 1023.0).round()
    };
    case.input("input", Kind::U16, &[2592, 1968], raw)
        .input("matrix_3200", Kind::F32, &[4, 3], of(WARM))
        .input("matrix_7000", Kind::F32, &[4, 3], of(COLD))
        .real("color_temp", 3700.0)
        .real("gamma", 2.0)
        .real("contrast", 50.0)
        .real("sharpen", 1.0)
        .whole("black", 25)
        .whole("white", 1023)
        .output(Kind::U8, &[2560, 1920, 3])
}

fn layer(case: Case) -> Case {
    use Kind::F32;
    if case.name == "conv_layer" {
        case.input("input", F32, &[128, 102, 82, 5], signed)
            .input("filter", F32, &[128, 3, 3, 128], signed)
            .input("bias", F32, &[128], signed)
            .output(F32, &[128, 100, 80, 5])
    } else {
        case.input("input", F32, &[32, 112, 112, 4], signed)
            .input("depthwise", F32, &[1, 32, 3, 3], signed)
            .input("pointwise", F32, &[16, 32], signed)
            .input("bias", F32, &[16], signed)
            .output(F32, &[16, 112, 112, 4])
    }
}

fn lens(case: Case, left: Part) -> Case {
    case.input("left", Kind::U8, &[192, 320, 3], |at| byte(left.at(at)))
        .input("right", Kind::U8, &[192, 320, 3], |at| byte(shifted(left, at)))
        .whole("slices", 32)
        .whole("focus", 13)
        .real("scale", 0.5)
        .whole("samples", 32)
        .output(Kind::F32, &[192, 320, 3])
        .decisions()
}

fn guided(case: Case, picture: Part) -> Case {
    let small = |at: &[i32]| picture.at(&[at[0] * 8 + 4, at[1] * 8 + 4, at[2]]);
    let boosted = move |at: &[i32]| {
        let v = small(at);
        v * v * (3.0 - 2.0 * v)
    };
    case.input("splat_loc", Kind::F32, &[192, 320, 3], small)
        .input("values", Kind::F32, &[192, 320, 3], boosted)
        .input("slice_loc", Kind::F32, &COLOURS, |at| picture.at(at))
        .real("r_sigma", 0.125)
        .whole("s_sigma", 16)
        .output(Kind::F32, &COLOURS)
        .decisions()
}

fn compositing(mut case: Case, picture: Part) -> Case {
    const LAYERS: [&str; 6] = ["layer0", "layer1", "layer2", "layer3", "layer4", "layer5"];
    for (i, name) in LAYERS.into_iter().enumerate() {
        let i = i as i32;
        // A blob of its own place is opaque, beyond it the layer fades; the lowest is opaque everywhere.
        let (x, y) =
            (768.0 + 300.0 * (i as f32 * 0.4 * PI).cos(), 1280.0 + 300.0 * (i as f32 * 0.4 * PI).sin());
        let value = move |at: &[i32]| match at[2] {
            3 if i == 0 => 255.0,
            3 => (900.0 - (at[0] as f32 - x).abs().max((at[1] as f32 - y).abs())).clamp(0.0, 255.0),
            c => byte(picture.at(&[at[0], at[1], (c + i) % 3])),
        };
        case = case.input(name, Kind::U8, &[1536, 2560, 4], value);
    }
    case.input("ops", Kind::I32, &[5], |at| (4 - at[0]) as f32).output(Kind::U8, &[1536, 2560, 4]).exact()
}

fn resize(case: Case, photograph: &Photograph) -> Option<Case> {
    let parts: Vec<&str> = case.name.split('_').collect();
    let (["resize", "cubic" | "lanczos", kind, way] | ["resize", "cubic" | "lanczos", kind, way, _]) =
        parts[..]
    else {
        return None;
    };
    let (is_packed, channels) = (parts.len() > 4, if parts.last() == Some(&"rgba") { 4 } else { 3 });
    let (kind, white) = match kind {
        "u8" => (Kind::U8, 255.0),
        "u16" => (Kind::U16, 65535.0),
        _ => (Kind::F32, 1.0),
    };
    let (scale, [width, height]) = if way == "up" { (4.0, [192, 320]) } else { (0.5, FLAT) };
    let picture = photograph.small([width, height]);
    // Transparency is the green of the mirror image.
    let colour =
        |at: &[i32]| if at[2] < 3 { picture.at(at) } else { picture.at(&[width - 1 - at[0], at[1], 1]) };
    let value = |at: &[i32]| if kind == Kind::F32 { colour(at) } else { (colour(at) * white).round() };
    let case = case.input("input", kind, &[width, height, channels], value).real("scale", scale);
    let case = case.output(kind, &[768, 1280, channels]);
    Some(if is_packed { case.packed() } else { case })
}

#[cfg(test)]
mod tests {
    use super::super::pipeline_arrays::{Elements, Work};
    use super::*;
    use sumsq_examples::pipelines::Picture;

    /// Red, green and blue of one value each.
    fn plain() -> Photograph {
        let samples = [51, 102, 204].map(|v| [v; 4]).concat();
        Photograph::new(&Picture { width: 2, height: 2, channels: 3, bits: 8, samples })
    }

    #[test]
    fn every_name_has_arguments_that_end_with_outputs() {
        for name in
            names().iter().filter(|n| n.contains("resize") || n.ends_with("conv") || n.contains("lens"))
        {
            let case = case(name, &plain()).unwrap();
            assert!(matches!(case.arguments.last(), Some(Argument::Output(_))), "{name}");
            assert!(Work::of(&case.arguments).megapixels > 0.0, "{name}");
        }
        assert_eq!(names().len(), 35);
        assert!(case("resize_cubic_u8_sideways", &plain()).is_some());
        assert_eq!(case("none", &plain()), None);
    }

    #[test]
    fn a_mosaic_has_one_colour_at_a_place() {
        let case = case("camera_pipe", &plain()).unwrap();
        let Some(Argument::Input(Array { elements: Elements::U16(v), .. })) = case.arguments.first() else {
            panic!("{:?}", case.arguments.first());
        };
        // Green and red, below them blue and green.
        assert_eq!([v[0], v[1], v[2592], v[2593], v[2]], [409, 205, 818, 409, 409]);
    }
}
