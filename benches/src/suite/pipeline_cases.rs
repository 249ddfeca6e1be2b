//! The applications of `peers/halide/pipelines/ALGORITHMS.md`: their arguments, in that order, with contents that are the same in every run.

use crate::yardstick::memory;
use std::f32::consts::PI;

/// Calls `$run` with the elements as a vector of their type.
macro_rules! with_elements {
    ($elements:expr, $v:ident => $run:expr) => {
        match $elements {
            $crate::suite::pipeline_cases::Elements::U8($v) => $run,
            $crate::suite::pipeline_cases::Elements::U16($v) => $run,
            $crate::suite::pipeline_cases::Elements::I32($v) => $run,
            $crate::suite::pipeline_cases::Elements::F32($v) => $run,
        }
    };
}
pub(super) use with_elements;

/// Elements of an array.
#[derive(Clone, PartialEq, Debug)]
pub enum Elements {
    /// Of u8.
    U8(Vec<u8>),
    /// Of u16.
    U16(Vec<u16>),
    /// Of i32.
    I32(Vec<i32>),
    /// Of f32.
    F32(Vec<f32>),
}

impl Elements {
    fn len(&self) -> usize {
        with_elements!(self, v => v.len())
    }

    fn reals(&self) -> Vec<f64> {
        with_elements!(self, v => v.iter().map(|&v| f64::from(v)).collect())
    }
}

/// Types of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 32 bits.
    I32,
    /// Single precision.
    F32,
}

/// A dense array, the first dimension the fastest.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// As in the description.
    pub name: &'static str,
    /// First coordinates.
    pub min: Vec<i32>,
    /// Numbers of coordinates.
    pub extents: Vec<i32>,
    /// `extents` multiplied.
    pub elements: Elements,
}

/// An argument of a pipeline.
#[derive(Clone, PartialEq, Debug)]
pub enum Argument {
    /// An array that is read.
    Input(Array),
    /// A whole number.
    Whole(&'static str, i32),
    /// A real number.
    Real(&'static str, f32),
    /// An array that is written.
    Output(Array),
}

/// Distance that outputs may have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tolerance {
    /// The same values.
    Exact,
    /// Integers within 1, floats within 1e-4 of the range.
    Near,
    /// As `Near`, but for one of 10000 elements.
    Decisions,
}

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

impl Array {
    fn new(
        name: &'static str,
        kind: Kind,
        domain: &[(i32, i32)],
        mut value: impl FnMut(&[i32]) -> f32,
    ) -> Array {
        let (min, extents): (Vec<i32>, Vec<i32>) = domain.iter().copied().unzip();
        let len = extents.iter().map(|&n| n as usize).product();
        let mut at = min.clone();
        let mut next = || {
            let v = value(&at);
            for (d, c) in at.iter_mut().enumerate() {
                *c += 1;
                if *c < min[d] + extents[d] {
                    break;
                }
                *c = min[d];
            }
            v
        };
        let elements = match kind {
            Kind::U8 => Elements::U8(filled(len, || next() as u8)),
            Kind::U16 => Elements::U16(filled(len, || next() as u16)),
            Kind::I32 => Elements::I32(filled(len, || next() as i32)),
            Kind::F32 => Elements::F32(filled(len, &mut next)),
        };
        Array { name, min, extents, elements }
    }

    /// Bytes of its elements.
    pub fn bytes(&self) -> usize {
        with_elements!(&self.elements, v => size_of_val(&v[..]))
    }

    /// Sets all elements to what no pipeline computes everywhere, so that one that writes nothing is found out.
    pub fn spoil(&mut self) {
        match &mut self.elements {
            Elements::U8(v) => v.fill(0xA5),
            Elements::U16(v) => v.fill(0xA5A5),
            Elements::I32(v) => v.fill(-7),
            Elements::F32(v) => v.fill(f32::NAN),
        }
    }
}

/// `len` values on huge pages.
fn filled<T>(len: usize, value: impl FnMut() -> T) -> Vec<T> {
    let mut v = Vec::with_capacity(len);
    memory::advise(v.spare_capacity_mut());
    v.extend(std::iter::repeat_with(value).take(len));
    v
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

    fn output(self, kind: Kind, extents: &[i32]) -> Case {
        self.output_as("output", kind, &from_zero(extents))
    }

    fn output_as(self, name: &'static str, kind: Kind, domain: &[(i32, i32)]) -> Case {
        self.with(Argument::Output(Array::new(name, kind, domain, |_| 0.0)))
    }
}

/// Least work of a run.
pub struct Work {
    /// Bytes of all arrays.
    pub bytes: f64,
    /// Millions of pixels of the first output: elements of its first two dimensions; of four, of all.
    pub megapixels: f64,
}

impl Work {
    /// Of these arguments.
    pub fn of(arguments: &[Argument]) -> Work {
        let mut work = Work { bytes: 0.0, megapixels: 0.0 };
        for argument in arguments {
            let (Argument::Input(array) | Argument::Output(array)) = argument else { continue };
            work.bytes += array.bytes() as f64;
            if matches!(argument, Argument::Output(_)) && work.megapixels == 0.0 {
                let dims = if array.extents.len() == 4 { 4 } else { 2 };
                work.megapixels =
                    array.extents.iter().take(dims).map(|&n| f64::from(n)).product::<f64>() / 1e6;
            }
        }
        work
    }
}

/// Says whether outputs are near enough; if not, where.
pub fn agree(a: &[Elements], b: &[Elements], tolerance: Tolerance) -> Result<(), String> {
    a.iter().zip(b).enumerate().try_for_each(|(i, (a, b))| {
        let (worst, outside, limit) = distance(a, b, tolerance);
        let allowed = if tolerance == Tolerance::Decisions { a.len() / 10_000 } else { 0 };
        let counts = format!("output {i}: {outside} of {} elements differ by more than {limit}", a.len());
        if outside <= allowed { Ok(()) } else { Err(format!("{counts}, one by {worst}")) }
    })
}

/// The largest difference, the number of elements that differ by more than is allowed, and how much that is.
fn distance(a: &Elements, b: &Elements, tolerance: Tolerance) -> (f64, usize, f64) {
    let (a, b) = (a.reals(), b.reals());
    let (low, high) = a.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &v| (l.min(v), h.max(v)));
    let whole = a.iter().all(|v| v.fract() == 0.0) && b.iter().all(|v| v.fract() == 0.0);
    let limit = match tolerance {
        Tolerance::Exact => 0.0,
        _ if whole => 1.0,
        _ => 1e-4 * (high - low),
    };
    let apart = a.iter().zip(&b).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
    // A number that is none is apart from all.
    let outside = apart.clone().filter(|d| d.is_nan() || *d > limit).count() + a.len().abs_diff(b.len());
    (apart.fold(0.0, |worst, d| if d.is_nan() { f64::INFINITY } else { d.max(worst) }), outside, limit)
}

fn from_zero(extents: &[i32]) -> Vec<(i32, i32)> {
    extents.iter().map(|&n| (0, n)).collect()
}

/// A number in [0, 1) that depends on the coordinates alone.
fn noise(at: &[i32]) -> f32 {
    let mix =
        |h: u32, c: i32| (h ^ c as u32).wrapping_mul(0x9E37_79B1).rotate_left(13).wrapping_mul(0x85EB_CA6B);
    let h = at.iter().fold(0x2545_F491, |h, &c| mix(h, c));
    ((h ^ (h >> 15)) >> 8) as f32 / (1 << 24) as f32
}

/// A picture in [1/64, 1]: waves, an edge, and noise.
fn picture(at: &[i32]) -> f32 {
    let coordinate = |d: usize| at.get(d).map_or(0.0, |&c| c as f32);
    let (x, y, c) = (coordinate(0), coordinate(1), coordinate(2));
    let waves = (x / 37.0 + c).sin() * (y / 53.0 - 2.0 * c).cos();
    let edge = if (x / 96.0).floor() as i32 & 1 == (y / 128.0).floor() as i32 & 1 { 0.25 } else { -0.25 };
    let bright = 0.5 + 0.25 * waves + 0.5 * edge + 0.125 * (noise(at) - 0.5);
    bright.clamp(1.0 / 64.0, 1.0)
}

fn signed(at: &[i32]) -> f32 {
    2.0 * noise(at) - 1.0
}

/// The right one of two pictures: what is near is shifted more.
fn shifted(at: &[i32]) -> f32 {
    let depth = 4 + (at[1] / 40) * 2;
    picture(&[at[0] - 2 * depth, at[1], at[2]])
}

fn byte(v: f32) -> f32 {
    v * 255.0
}

fn word(v: f32) -> f32 {
    v * 65535.0
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
    names.extend(["lens_blur", "guided_upsampling", "compositing", "sgemm", "fft"].map(String::from));
    names
}

/// The application of this name, or none.
pub fn case(name: &str) -> Option<Case> {
    use Kind::{F32, U8, U16};
    let case = Case::new(name);
    let unit = picture;
    Some(match name {
        "blur" => case
            .input("input", U16, &[6408, 4802], |at| picture(at) * 4095.0)
            .output(U16, &[6400, 4800])
            .exact(),
        "unsharp" => case.input("input", F32, &COLOURS, unit).output(F32, &COLOURS),
        "harris" => {
            case.input("input", F32, &COLOURS, unit).output_as("output", F32, &[(3, 1530), (3, 2554)])
        }
        "hist" => case.input("input", U8, &COLOURS, |at| byte(picture(at))).output(U8, &COLOURS).decisions(),
        "bilateral_grid" => {
            case.input("input", F32, &FLAT, unit).real("r_sigma", 0.1).output(F32, &FLAT).decisions()
        }
        "local_laplacian" => case
            .input("input", U16, &COLOURS, |at| word(picture(at)))
            .whole("levels", 8)
            .real("alpha", 1.0 / 7.0)
            .real("beta", 1.0)
            .output(U16, &COLOURS)
            .decisions(),
        "interpolate" => case.input("input", F32, &[1536, 2560, 4], sparse).output(F32, &COLOURS),
        "stencil_chain" => case.input("input", U16, &FLAT, |at| word(picture(at))).output(U16, &FLAT).exact(),
        "iir_blur" => case.input("input", F32, &COLOURS, unit).real("alpha", 0.1).output(F32, &COLOURS),
        "max_filter" => case.input("input", F32, &COLOURS, unit).output(F32, &COLOURS).exact(),
        "nl_means" => case
            .input("input", F32, &COLOURS, unit)
            .whole("patch", 7)
            .whole("search", 7)
            .real("sigma", 0.12)
            .output(F32, &COLOURS),
        "camera_pipe" => camera(case),
        "conv_layer" | "depthwise_separable_conv" => layer(case),
        "lens_blur" => case
            .input("left", U8, &[192, 320, 3], |at| byte(picture(at)))
            .input("right", U8, &[192, 320, 3], |at| byte(shifted(at)))
            .whole("slices", 32)
            .whole("focus", 13)
            .real("scale", 0.5)
            .whole("samples", 32)
            .output(F32, &[192, 320, 3])
            .decisions(),
        "guided_upsampling" => guided(case),
        "compositing" => compositing(case),
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
        _ => return resize(case),
    })
}

/// Colours, of which one in eight is known.
fn sparse(at: &[i32]) -> f32 {
    if at[2] < 3 { picture(at) } else { f32::from(noise(at) < 0.125) }
}

fn camera(case: Case) -> Case {
    const WARM: [f32; 12] = [
        1.6697, -0.2693, -0.4004, -42.4346, -0.3576, 1.0615, 1.5949, -37.1158, -0.2175, -1.8751, 6.9640,
        -26.6970,
    ];
    const COLD: [f32; 12] = [
        2.2997, -0.4478, 0.1706, -39.0923, -0.3826, 1.5906, -0.2080, -25.4311, -0.0888, -0.7344, 2.2832,
        -20.0826,
    ];
    let of = |m: [f32; 12]| move |at: &[i32]| m[(at[1] * 4 + at[0]) as usize];
    // The colour of a site by its place in the mosaic.
    let raw = |at: &[i32]| {
        let colour = [1, 0, 2, 1][(at[1] % 2 * 2 + at[0] % 2) as usize];
        picture(&[at[0], at[1], colour]) * 1023.0
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

fn guided(case: Case) -> Case {
    let small = |at: &[i32]| picture(&[at[0] * 8 + 4, at[1] * 8 + 4, at[2]]);
    let boosted = move |at: &[i32]| {
        let v = small(at);
        v * v * (3.0 - 2.0 * v)
    };
    case.input("splat_loc", Kind::F32, &[192, 320, 3], small)
        .input("values", Kind::F32, &[192, 320, 3], boosted)
        .input("slice_loc", Kind::F32, &COLOURS, picture)
        .real("r_sigma", 0.125)
        .whole("s_sigma", 16)
        .output(Kind::F32, &COLOURS)
        .decisions()
}

fn compositing(mut case: Case) -> Case {
    const LAYERS: [&str; 6] = ["layer0", "layer1", "layer2", "layer3", "layer4", "layer5"];
    for (i, name) in LAYERS.into_iter().enumerate() {
        let i = i as i32;
        // A blob of its own place is opaque, beyond it the layer fades; the lowest is opaque everywhere.
        let (x, y) =
            (768.0 + 300.0 * (i as f32 * 0.4 * PI).cos(), 1280.0 + 300.0 * (i as f32 * 0.4 * PI).sin());
        let value = move |at: &[i32]| match at[2] {
            3 if i == 0 => 255.0,
            3 => (900.0 - (at[0] as f32 - x).abs().max((at[1] as f32 - y).abs())).clamp(0.0, 255.0),
            c => byte(picture(&[at[0], at[1], c + i])),
        };
        case = case.input(name, Kind::U8, &[1536, 2560, 4], value);
    }
    case.input("ops", Kind::I32, &[5], |at| (4 - at[0]) as f32).output(Kind::U8, &[1536, 2560, 4]).exact()
}

fn resize(case: Case) -> Option<Case> {
    let parts: Vec<&str> = case.name.split('_').collect();
    let ["resize", "cubic" | "lanczos", kind, way] = parts[..] else { return None };
    let (kind, white) = match kind {
        "u8" => (Kind::U8, 255.0),
        "u16" => (Kind::U16, 65535.0),
        _ => (Kind::F32, 1.0),
    };
    let (scale, extents) = if way == "up" { (4.0, [192, 320, 3]) } else { (0.5, COLOURS) };
    let case = case.input("input", kind, &extents, |at| picture(at) * white).real("scale", scale);
    Some(case.output(kind, &[768, 1280, 3]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_arguments_that_end_with_outputs() {
        for name in
            names().iter().filter(|n| n.contains("resize") || n.ends_with("conv") || n.contains("lens"))
        {
            let case = case(name).unwrap();
            assert!(matches!(case.arguments.last(), Some(Argument::Output(_))), "{name}");
            assert!(Work::of(&case.arguments).megapixels > 0.0, "{name}");
        }
        assert_eq!(
            (names().len(), case("resize_cubic_u8_sideways").is_some(), case("none")),
            (31, true, None)
        );
    }

    #[test]
    fn coordinates_run_from_the_first_dimension_on() {
        let array = Array::new("a", Kind::I32, &[(3, 2), (5, 2)], |at| (10 * at[0] + at[1]) as f32);
        assert_eq!(array.elements, Elements::I32(vec![35, 45, 36, 46]));
    }

    #[test]
    fn outputs_agree_within_their_tolerance_alone() {
        use Tolerance::{Decisions, Exact, Near};
        let words = |v: &[u16]| [Elements::U16(v.to_vec())];
        let reals = |v: &[f32]| [Elements::F32(v.to_vec())];
        assert!(agree(&words(&[7, 9]), &words(&[8, 9]), Near).is_ok());
        assert!(agree(&words(&[7, 9]), &words(&[8, 9]), Exact).is_err());
        assert!(agree(&words(&[7, 9]), &words(&[9, 9]), Near).is_err());
        assert!(agree(&reals(&[0.0, 0.50]), &reals(&[0.00004, 0.5]), Near).is_ok());
        assert!(agree(&reals(&[0.0, 0.50]), &reals(&[0.00006, 0.5]), Near).is_err());
        assert!(agree(&reals(&[0.0, 0.5]), &reals(&[f32::NAN, 0.5]), Near).is_err());
        let mut many = vec![0.25; 20_000];
        let (same, one) = (many.clone(), {
            many[7] = 0.5;
            many.clone()
        });
        many[8..10].fill(0.5);
        assert!(agree(&reals(&same), &reals(&one), Decisions).is_ok());
        assert!(agree(&reals(&same), &reals(&one), Near).is_err());
        assert!(agree(&reals(&same), &reals(&many), Decisions).is_err());
    }
}
