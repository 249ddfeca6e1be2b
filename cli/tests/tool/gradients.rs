//! `sumsq pipeline NAME --gradient`: J^T w against central differences of the same command, every fault a sentence.

use crate::bench::{Bench, array, doubles, fit, floats, ints};
use crate::devices::with_driver;
use crate::pipelines::{numbers, small};
use sumsq::{ArrayData, NamedArray};
use sumsq_examples::pipelines::{ALL, OF_DEMOS};

/// Applications whose outputs are integers.
const INTEGERS: [&str; 6] =
    ["blur", "stencil_chain", "hist", "local_laplacian", "camera_pipe", "compositing"];

fn is_real(of: &NamedArray) -> bool {
    matches!(of.data, ArrayData::F32(_))
}

/// Numbers that look like noise, the same in every run: in [-1, 1].
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(0x915f_77f5).wrapping_add(1);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Inputs whose values lie so far from kinks and steps of the application that a small change does not get there.
fn smooth(name: &str) -> (Vec<NamedArray>, Vec<&'static str>) {
    let (mut arrays, params) = small(name);
    let mut params = params.to_vec();
    match name {
        "resize" => params.push("type=float"),
        // Single precision rounds away what the smallest of its changes do to the output.
        "deconvolution" => params.push("type=f64"),
        _ => {}
    }
    for a in &mut arrays {
        if let ("input", "resize", ArrayData::Bytes(v)) = (a.name.as_str(), name, &a.data) {
            a.data = ArrayData::F32(v.iter().map(|&v| f32::from(v) / 255.0).collect());
        }
        let count = a.data.len();
        let ArrayData::F32(v) = &mut a.data else { continue };
        match name {
            // Between the steps of bins that are 0.1 wide, at their ends and at their centres; all channels of a pixel alike.
            "bilateral_grid" | "guided_upsampling" => {
                let channels = if a.shape.len() == 3 { 3 } else { 1 };
                let level = |k: usize| 0.1 * (3 + (k / channels * 7 % 11) % 4) as f32 + 0.027;
                v.iter_mut().enumerate().for_each(|(k, v)| *v = level(k));
            }
            // No two alike.
            "max_filter" => {
                v.iter_mut().enumerate().for_each(|(k, v)| *v = (k * 389 % count) as f32 / count as f32)
            }
            "sgemm" | "conv_layer" | "depthwise_separable_conv" | "fft" | "lens_design" => {}
            // As much light as before; slopes of about the thresholds, of which more of the picture's change a target.
            "deconvolution" if a.name == "kernel" => v.iter_mut().for_each(|v| *v *= 0.08),
            "deconvolution" if a.name == "threshold" => v.iter_mut().for_each(|v| *v = 0.06 + 0.04 * *v),
            "deconvolution" if a.name == "image" => {
                let width = a.shape[1];
                v.iter_mut().enumerate().for_each(|(k, v)| *v = 0.05 + 0.04 * (k % width) as f32 + 0.05 * *v);
            }
            // Within the picture, between its pixels.
            "burst_demosaicking" if a.name == "homography" => v.iter_mut().for_each(|v| *v = 0.3 * *v - 0.15),
            _ => v.iter_mut().for_each(|v| *v = 0.3 + 0.4 * *v),
        }
    }
    (arrays, params)
}

/// Runs it, with J^T w or without.
fn run(bench: &Bench, name: &str, params: &[&str], arrays: &[NamedArray], gradient: bool) -> Vec<NamedArray> {
    bench.inputs(arrays);
    let mut line = vec!["pipeline", name, "--inputs", "inputs.npz", "--output", "out.npz", "--threads", "2"];
    line.extend(params.iter().flat_map(|p| ["--param", p]));
    line.extend(gradient.then_some("--gradient"));
    // What was compiled once is loaded by later runs, those of other tests too: inputs and parameters differ, not the code.
    bench.sumsq(&line).succeeds();
    bench.read("out.npz")
}

fn named<'a>(all: &'a [NamedArray], name: &str) -> &'a NamedArray {
    all.iter().find(|a| a.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// An application in a folder, with weights of its outputs.
struct Case {
    bench: Bench,
    name: &'static str,
    params: Vec<&'static str>,
    arrays: Vec<NamedArray>,
    weights: Vec<NamedArray>,
}

impl Case {
    fn new(name: &'static str) -> Case {
        let (arrays, params) = smooth(name);
        let bench = fit();
        let outputs = run(&bench, name, &params, &arrays, false);
        let weight = |(seed, o): (u32, &NamedArray)| {
            floats(&format!("w.{}", o.name), &o.shape, &noise(o.data.len(), 17 + seed))
        };
        let weights = (0..).zip(&outputs).map(weight).collect();
        Case { bench, name, params, arrays, weights }
    }

    /// J^T w, as the command says.
    fn gradient(&self) -> Vec<NamedArray> {
        let all = [&self.arrays[..], &self.weights].concat();
        run(&self.bench, self.name, &self.params, &all, true)
    }

    /// The sum of weighted outputs, term by term.
    fn weighted(&self, params: &[&str], arrays: &[NamedArray]) -> Vec<f64> {
        let outputs = run(&self.bench, self.name, params, arrays, false);
        let terms = |w: &NamedArray| {
            let v = numbers(named(&outputs, &w.name[2..]));
            v.into_iter().zip(numbers(w)).map(|(v, w)| v * w).collect::<Vec<f64>>()
        };
        self.weights.iter().flat_map(terms).collect()
    }

    /// Is `slope` the change from `below` to `above`, which are `2 h` apart, to 0.3 percent of what its terms sum up to?
    fn assert_slope(&self, what: &str, slope: f64, above: &[f64], below: &[f64], h: f64) {
        let changes: Vec<f64> = above.iter().zip(below).map(|(a, b)| (a - b) / (2.0 * h)).collect();
        let (sum, size) = (changes.iter().sum::<f64>(), changes.iter().map(|c| c.abs()).sum::<f64>());
        let name = self.name;
        assert!(
            (sum - slope).abs() <= 3e-3 * size,
            "{name}, {what}: {slope}, but differences say {sum} of {size}"
        );
        assert!(size > 0.0, "{name}, {what}: nothing was tested");
    }
}

/// Takes weights away where outputs bend or jump when the inputs change so little.
fn away_from_kinks(case: &mut Case, h: f32) {
    for (k, a) in case.arrays.iter().enumerate() {
        let v = noise(a.data.len(), 5);
        let at = |h: f32| {
            let mut arrays = case.arrays.clone();
            if let ArrayData::F32(x) = &mut arrays[k].data {
                x.iter_mut().zip(&v).for_each(|(x, v)| *x += h * v);
            }
            numbers(&run(&case.bench, case.name, &case.params, &arrays, false)[0])
        };
        let [below, here, above] = [-h, 0.0, h].map(at);
        let ArrayData::F32(weights) = &mut case.weights[0].data else { panic!("weights are floats") };
        let mut left = 0;
        for (i, w) in weights.iter_mut().enumerate() {
            let bend = (above[i] - 2.0 * here[i] + below[i]).abs();
            *w *= f32::from(u8::from(bend < 1e-3 * f64::from(h)));
            left += usize::from(*w != 0.0);
        }
        assert!(3 * left > weights.len(), "{}: {left} of {} values are smooth", case.name, weights.len());
    }
}

fn agrees_with_differences(name: &'static str) {
    let mut case = Case::new(name);
    if name == "demosaic_ahd" {
        away_from_kinks(&mut case, 1e-3);
    }
    let d = case.gradient();
    for (k, a) in case.arrays.iter().enumerate().filter(|(_, a)| is_real(a)) {
        let h = if name == "max_filter" { 2e-4 } else { 1e-3 };
        let v = noise(a.data.len(), 5);
        let moved = |h: f32| {
            let mut arrays = case.arrays.clone();
            if let ArrayData::F32(x) = &mut arrays[k].data {
                x.iter_mut().zip(&v).for_each(|(x, v)| *x += h * v);
            }
            case.weighted(&case.params, &arrays)
        };
        let slopes = named(&d, &format!("d.{}", a.name));
        assert_eq!(slopes.shape, a.shape, "{name}: {}", slopes.name);
        let slope = numbers(slopes).iter().zip(&v).map(|(d, v)| d * f64::from(*v)).sum();
        case.assert_slope(&a.name, slope, &moved(h), &moved(-h), h.into());
    }
}

/// Applications whose gradients take ten seconds and more to compile, each.
const LONG: [&str; 4] = ["guided_upsampling", "interpolate", "demosaic_ahd", "max_filter"];

#[test]
#[ignore = "compiles for a minute and a half; the nightly run has it"]
fn long_applications_agree_with_differences() {
    LONG.into_iter().for_each(agrees_with_differences);
}

#[test]
fn applications_agree_with_differences() {
    for application in ALL.iter().filter(|a| !LONG.contains(&a.name)) {
        let name = application.name;
        if INTEGERS.contains(&name) {
            let bench = fit();
            let (arrays, params) = small(name);
            bench.inputs(&arrays);
            let mut line =
                vec!["pipeline", name, "--gradient", "--inputs", "inputs.npz", "--output", "out.npz"];
            line.extend(params.iter().flat_map(|p| ["--param", p]));
            let said = format!(
                "{name} has no gradient: its outputs are of integers, whose slope is 0 wherever there is one"
            );
            bench.sumsq(&line).fails_with(2, &said);
            assert!(!bench.path("out.npz").exists());
        } else if name == "lens_blur" {
            // Its pictures are integers.
            let d = Case::new(name).gradient();
            let names: Vec<&str> = d.iter().map(|a| a.name.as_str()).collect();
            assert_eq!(names, ["d.scale", "output"]);
        } else {
            agrees_with_differences(name);
        }
    }
}

/// Parts of demos and of their energies: J^T w by the arrays that they take.
#[test]
fn parts_of_demos_agree_with_differences() {
    for application in OF_DEMOS {
        agrees_with_differences(application.name);
    }
}

#[test]
fn parameters_have_slopes() {
    for (name, param, at, h) in [
        ("iir_blur", "alpha", 0.1, 1e-3),
        ("sgemm", "a", 1.5, 0.1),
        ("nl_means", "sigma", 0.12, 1e-3),
        ("lens_design", "aperture", 0.25, 1e-3),
    ] {
        let case = Case::new(name);
        let d = case.gradient();
        let slope = named(&d, &format!("d.{param}"));
        assert_eq!(slope.shape, [] as [usize; 0]);
        let moved = |h: f64| {
            let value = format!("{param}={}", at + h);
            let params: Vec<&str> = case.params.iter().copied().chain([&*value]).collect();
            case.weighted(&params, &case.arrays)
        };
        case.assert_slope(param, numbers(slope)[0], &moved(h), &moved(-h), h);
    }
}

/// Schedules of gradients that follow from sizes have names beside the application's own.
#[test]
fn schedules_that_there_are_not_are_refused() {
    let bench = fit();
    let (arrays, _) = small("unsharp");
    bench.inputs(&arrays);
    let line = ["pipeline", "unsharp", "--gradient", "--inputs", "inputs.npz", "--output", "out.npz"];
    let line = [&line[..], &["--schedule", "second"]].concat();
    bench.sumsq(&line).fails_with(2, "--schedule second: no schedule of unsharp (first, hand, ");
    assert!(!bench.path("out.npz").exists());
}

#[test]
fn weights_that_are_not_given_are_ones() {
    let case = Case::new("unsharp");
    let values = |more: &[NamedArray], gradient: bool, name: &str| {
        let all = [&case.arrays[..], more].concat();
        numbers(named(&run(&case.bench, case.name, &[], &all, gradient), name))
    };
    let none = values(&[], true, "d.input");
    let shape = [21, 37, 3];
    assert!(none == values(&[floats("w.output", &shape, &[1.0; 21 * 37 * 3])], true, "d.input"));
    assert!(none == values(&[doubles("w.output", &shape, &[1.0; 21 * 37 * 3])], true, "d.input"));
    let (beside, alone) = (values(&[], true, "output"), values(&[], false, "output"));
    assert!(beside.iter().zip(&alone).all(|(a, b)| (a - b).abs() <= 1e-6));
}

/// A pipeline that runs plane by plane: planes of pictures have slopes of their own, parameters the sum of all.
#[test]
fn planes_are_derived_one_by_one() {
    let bench = fit();
    let plane = |seed: u32| -> Vec<f32> { noise(21 * 37, seed).iter().map(|v| 0.5 + 0.4 * v).collect() };
    let planes = [plane(1), plane(2), plane(3)];
    let colour: Vec<f32> = (0..21 * 37 * 3).map(|k| planes[k % 3][k / 3]).collect();
    let all = run(&bench, "bilateral_grid", &[], &[floats("input", &[21, 37, 3], &colour)], true);
    let one = |p: &Vec<f32>| run(&bench, "bilateral_grid", &[], &[floats("input", &[21, 37], p)], true);
    let each: Vec<Vec<NamedArray>> = planes.iter().map(one).collect();
    assert_eq!(named(&all, "d.input").shape, [21, 37, 3]);
    for (k, v) in numbers(named(&all, "d.input")).iter().enumerate() {
        assert_eq!(*v, numbers(named(&each[k % 3], "d.input"))[k / 3]);
    }
    let sum: f64 = each.iter().map(|d| numbers(named(d, "d.r_sigma"))[0]).sum();
    let came = numbers(named(&all, "d.r_sigma"))[0];
    assert!((came - sum).abs() <= 1e-5 * sum.abs().max(1.0), "{came} instead of {sum}");
}

#[test]
fn schedules_are_made_named_or_read() {
    let case = Case::new("unsharp");
    let shown = case.bench.sumsq(&["pipeline", "unsharp", "--gradient", "--show", "schedule"]);
    shown.succeeds();
    assert!(shown.stdout.contains("output: ") && shown.stdout.contains("d_input"), "{}", shown.stdout);
    std::fs::write(case.bench.path("first.txt"), &shown.stdout).unwrap();
    let expected = numbers(named(&case.gradient(), "d.input"));
    case.bench.inputs(&[&case.arrays[..], &case.weights].concat());
    for schedule in ["first.txt", "root"] {
        let line = ["pipeline", "unsharp", "--gradient", "--inputs", "inputs.npz", "--output", "out.npz"];
        case.bench.sumsq(&[&line[..], &["--schedule", schedule]].concat()).succeeds();
        let came = numbers(named(&case.bench.read("out.npz"), "d.input"));
        let apart = came.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart <= 1e-5, "{schedule}: {apart}");
    }
}

/// Floats of little-endian bytes.
fn raw(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect()
}

/// On a GPU, each layer and an application by kernels alone but for large sums into one element; with atomics, too.
#[test]
fn slopes_on_a_gpu() {
    for name in ["bilateral_slice", "spatial_transformer", "flow_warp", "bicubic_warp", "harris"] {
        let case = Case::new(name);
        let expected = case.gradient();
        let mut line = vec!["pipeline", name, "--gradient", "--inputs", "inputs.npz", "--output", "out.npz"];
        line.extend(case.params.iter().flat_map(|p| ["--param", p]));
        line.extend(["--backend", "cuda"]);
        for more in [&[][..], &["--schedule", "gpu_atomics"]] {
            let line = [&line[..], more].concat();
            with_driver(&case.bench, &[], &line).succeeds();
            let came = case.bench.read("out.npz");
            assert_eq!(came.len(), expected.len(), "{name}");
            for expected in &expected {
                let [a, b] = [expected, named(&came, &expected.name)].map(numbers);
                let largest = a.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
                let off = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(
                    off <= 1e-5 * largest && largest > 0.0,
                    "{name}, {}: {off} of {largest}",
                    expected.name
                );
            }
            let schedule = with_driver(&case.bench, &[], &[&line[..], &["--show", "schedule"]].concat());
            schedule.succeeds();
            let atomic = schedule.stdout.contains("atomic");
            assert_eq!(atomic, !more.is_empty() && name != "harris", "{}", schedule.stdout);
            assert!(schedule.stdout.contains("gpu_threads"), "{}", schedule.stdout);
        }
    }
}

/// The outputs and J^T w as two libraries for C: a program has the bits that the command has without a gradient, and those of its slopes.
#[test]
fn c_has_both_halves() {
    let case = Case::new("flow_warp");
    let slopes = case.gradient();
    let outputs = run(&case.bench, case.name, &case.params, &case.arrays, false);
    case.bench.sumsq(&["pipeline", "flow_warp", "--gradient", "--emit-c", "c"]).succeeds();
    for a in case.arrays.iter().chain(&case.weights) {
        let bytes: Vec<u8> = numbers(a).iter().flat_map(|&v| (v as f32).to_le_bytes()).collect();
        std::fs::write(case.bench.path("c").join(&a.name), bytes).unwrap();
    }
    let dir = case.bench.path("c");
    std::fs::write(dir.join("program.c"), include_str!("flow_warp.c")).unwrap();
    let run = |program: &str, args: &[&str]| {
        let out = std::process::Command::new(program).args(args).current_dir(&dir).output().unwrap();
        assert!(out.status.success(), "{program}: {}", String::from_utf8_lossy(&out.stderr));
    };
    let files = ["program.c", "sumsq_runtime.c", "flow_warp_forward.o", "flow_warp_backward.o"];
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "program"];
    run("cc", &[&flags[..], &files[..], &["-lm", "-lpthread"]].concat());
    run(&dir.join("program").to_string_lossy(), &[]);
    for (result, of) in [("output", &outputs), ("d.input", &slopes), ("d.flow", &slopes)] {
        let came = raw(&std::fs::read(dir.join(result)).unwrap());
        assert!(came == numbers(named(of, result)), "{result}: other bits");
    }
}

#[test]
fn faults_are_said() {
    let bench = fit();
    let flow = floats("flow", &[1, 2, 3, 4], &[0.3; 24]);
    let input = floats("input", &[1, 5, 3, 4], &[0.5; 60]);
    let line = ["pipeline", "flow_warp", "--gradient", "--inputs", "inputs.npz", "--output", "out.npz"];
    let expected = |arrays: &[NamedArray], said: &str| {
        bench.inputs(arrays);
        bench.sumsq(&line).fails_with(2, said);
        assert!(!bench.path("out.npz").exists(), "{said}");
    };
    let both = [input.clone(), flow.clone()];
    let with = |w: NamedArray| [&both[..], &[w]].concat();
    expected(
        std::slice::from_ref(&input),
        "flow_warp needs `flow`, way to the right and down, in pixels, of shape (N, 2, H, W): give it with --inputs F.npz",
    );
    expected(
        &with(floats("w.output", &[5, 3, 4], &[1.0; 60])),
        "w.output: expected the shape of output, (1, 5, 3, 4), came (5, 3, 4)",
    );
    expected(
        &with(floats("w.output", &[60], &[1.0; 60])),
        "w.output: expected the shape of output, (1, 5, 3, 4), came (60,)",
    );
    expected(&with(ints("w.output", &[1, 5, 3, 4], &[1; 60])), "w.output: expected floats, came int64");
    expected(
        &with(floats("w.result", &[1, 5, 3, 4], &[1.0; 60])),
        "w.result: flow_warp has no output result of floats; it has output",
    );
    expected(
        &[floats("input", &[5, 3, 4], &[0.5; 60]), flow.clone()],
        "input: expected 4 dimensions, came 3",
    );
    expected(
        &[floats("input", &[1, 5, 3, 3], &[0.5; 45]), flow.clone()],
        "sizes of input and flow do not fit each other",
    );
    bench.inputs(&with(array("w.output", &[1, 5, 3, 4], ArrayData::F32(vec![1.0; 60]))));
    bench.sumsq(&line).succeeds();
    // The same archive serves without a gradient.
    let run = bench.sumsq(&["pipeline", "flow_warp", "--inputs", "inputs.npz", "--output", "out.npz"]);
    run.succeeds();
    assert!(run.stderr.contains("`w.output` is of --gradient and is not used"), "{}", run.stderr);
}
