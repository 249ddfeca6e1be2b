//! `sumsq pipeline`: pictures in and out, every fault a sentence. What the applications compute is tested in `examples`.

use crate::bench::{Bench, array, fit, floats};
use crate::devices::with_driver;
use sumsq::{ArrayData, NamedArray};
use sumsq_examples::pipelines::{ALL, OF_DEMOS, Picture};

/// A picture that looks like noise.
fn noise(width: usize, height: usize, channels: usize, bits: u32) -> Picture {
    let mut state = 7u32;
    let sample = |_| {
        state = state.wrapping_mul(0x915f_77f5).wrapping_add(1);
        (state >> (32 - bits)) as u16
    };
    let samples = (0..width * height * channels).map(sample).collect();
    Picture { width, height, channels, bits, samples }
}

fn write(bench: &Bench, name: &str, picture: &Picture) {
    std::fs::write(bench.path(name), picture.encode_png().unwrap()).unwrap();
}

/// Each channel's means of 3 x 3, rows first, the edge repeated.
fn blurred(of: &Picture) -> Picture {
    let (w, h) = (of.width, of.height);
    let plane = |c: usize| {
        let row = move |x: usize, y: usize| -> u32 {
            let at = |i: usize| u32::from(of.plane(c)[y.min(h - 1) * w + (x + i).min(w - 1)]);
            (at(0) + at(1) + at(2)) / 3
        };
        (0..w * h).map(move |i| ((0..3).map(|j| row(i % w, i / w + j)).sum::<u32>() / 3) as u16)
    };
    Picture { samples: (0..of.channels).flat_map(plane).collect(), ..of.clone() }
}

#[test]
fn all_are_listed() {
    let run = fit().sumsq(&["pipeline"]);
    run.succeeds();
    for application in ALL.into_iter().chain(OF_DEMOS) {
        let line = run.stdout.lines().find(|line| line.split_whitespace().next() == Some(application.name));
        assert!(line.is_some_and(|line| line.ends_with(application.about)), "{}", run.stdout);
        for p in application.parameters {
            let shown = format!("{}={}: {}", p.name, p.default(), p.about);
            assert!(run.stdout.contains(&shown), "{shown} is not in\n{}", run.stdout);
        }
    }
}

/// A run that is too small for a GPU, whether there is one or not; nobody is told where he has asked himself.
#[test]
fn the_machine_that_was_left_open_is_said() {
    let bench = fit();
    write(&bench, "in.png", &noise(37, 23, 3, 8));
    let line = ["pipeline", "unsharp", "--input", "in.png", "--output", "out.png"];
    let runs = [bench.sumsq(&line), with_driver(&bench, &[], &line)];
    for run in &runs {
        run.succeeds();
        let said = run.stdout.lines().find(|l| l.starts_with("on the CPU: ")).expect(&run.stdout);
        assert!(said.ends_with(" MB would not pay for starting a GPU"), "{said}");
    }
    let asked = bench.sumsq(&[&line[..], &["--backend", "cpu"]].concat());
    asked.succeeds();
    assert!(!asked.stdout.contains("on the "), "{}", asked.stdout);
}

#[test]
fn a_picture_keeps_its_size_depth_and_channels() {
    let bench = fit();
    for (channels, bits) in [(1, 8), (2, 8), (3, 8), (4, 8), (1, 16), (3, 16), (4, 16)] {
        let picture = noise(37, 23, channels, bits);
        write(&bench, "in.png", &picture);
        bench.sumsq(&["pipeline", "blur", "--input", "in.png", "--output", "out.png"]).succeeds();
        let came = Picture::read(&bench.path("out.png")).unwrap();
        assert!(came == blurred(&picture), "{channels} channels of {bits} bits");
    }
}

#[test]
fn arrays_come_by_name_and_all_outputs_go_into_an_archive() {
    let bench = fit();
    let picture = noise(21, 10, 3, 8);
    write(&bench, "in.png", &picture);
    let line = ["pipeline", "blur", "--input", "in.png", "--output", "out.npz", "--threads", "3"];
    bench.sumsq(&line).succeeds();
    let out = bench.read("out.npz");
    assert_eq!((out.len(), out[0].name.as_str(), &out[0].shape[..]), (1, "output", &[10, 21, 3][..]));
    let expected = blurred(&picture);
    let n = picture.width * picture.height;
    let interleaved: Vec<i64> =
        (0..n).flat_map(|i| (0..3).map(move |c| c * n + i)).map(|i| expected.samples[i].into()).collect();
    assert!(matches!(&out[0].data, ArrayData::Int(v, "uint16") if *v == interleaved));

    let bytes = |c: usize| picture.plane(c).iter().map(|&v| v as u8).collect();
    let gray = crate::bench::array("input", &[10, 21], ArrayData::Bytes(bytes(0)));
    bench.inputs(&[gray]);
    bench.sumsq(&["pipeline", "blur", "--inputs", "inputs.npz", "--output", "out.npz"]).succeeds();
    let first: Vec<i64> = expected.plane(0).iter().map(|&v| v.into()).collect();
    assert!(matches!(&bench.read("out.npz")[0].data, ArrayData::Int(v, "uint16") if *v == first));
}

#[test]
fn a_schedule_is_a_name_or_a_file() {
    let bench = fit();
    let picture = noise(50, 40, 1, 8);
    write(&bench, "in.png", &picture);
    std::fs::write(bench.path("mine.txt"), "across: compute_at(output, y) // a row at a time").unwrap();
    for schedule in ["root", "hand", "mine.txt"] {
        let line = ["pipeline", "blur", "--input", "in.png", "--output", "out.png", "--schedule", schedule];
        bench.sumsq(&line).succeeds();
        assert!(Picture::read(&bench.path("out.png")).unwrap() == blurred(&picture), "{schedule}");
        std::fs::remove_file(bench.path("out.png")).unwrap();
    }
    let shown = bench.sumsq(&["pipeline", "blur", "--show", "loops", "--schedule", "mine.txt"]);
    assert!(shown.stdout.contains("across"), "{}", shown.stdout);
    for (form, word) in
        [("llvm", "define "), ("asm", ".text"), ("ptx", ".visible .entry"), ("loops", "parallel")]
    {
        let shown = bench.sumsq(&["pipeline", "blur", "--show", form]);
        shown.succeeds();
        assert!(shown.stdout.contains(word), "{form}:\n{}", shown.stdout);
    }
}

#[test]
fn how_long_it_takes_and_where() {
    let bench = fit();
    // A run is of all channels.
    for channels in [1, 3] {
        write(&bench, "in.png", &noise(64, 64, channels, 8));
        let line = ["pipeline", "blur", "--input", "in.png", "--bench", "--profile", "--schedule", "root"];
        let run = bench.sumsq(&line);
        run.succeeds();
        assert!(run.stdout.starts_with("blur: ") && run.stdout.contains(" ms, "), "{}", run.stdout);
        assert!(run.stderr.contains("across"), "{}", run.stderr);
    }
}

#[test]
fn c_is_written() {
    let bench = fit();
    bench.sumsq(&["pipeline", "blur", "--emit-c", "c"]).succeeds();
    for file in ["blur.h", "blur.o", "sumsq_runtime.h", "sumsq_runtime.c"] {
        assert!(bench.path("c").join(file).exists(), "{file}");
    }
    // For another architecture it is written, not run.
    let elsewhere = ["--target", "aarch64"];
    bench.sumsq(&[&["pipeline", "blur", "--emit-c", "arm"], &elsewhere[..]].concat()).succeeds();
    let object = std::fs::read(bench.path("arm/blur.o")).unwrap();
    assert_eq!((&object[..4], &object[18..20]), (&b"\x7fELF"[..], &183u16.to_le_bytes()[..]));
    let shown = bench.sumsq(&[&["pipeline", "blur", "--show", "asm"], &elsewhere[..]].concat());
    assert!(shown.stdout.contains("umull"), "{}", shown.stdout);
    write(&bench, "in.png", &noise(8, 8, 1, 8));
    let run = ["pipeline", "blur", "--input", "in.png", "--output", "out.png"];
    bench.sumsq(&[&run, &elsewhere[..]].concat()).fails_with(3, "this machine is no aarch64");
    bench.sumsq(&["pipeline", "blur", "--emit-c", "energy.t/c"]).fails_with(4, "cannot write to energy.t/c");
}

#[test]
fn faults_are_said_and_nothing_is_written() {
    let bench = fit();
    write(&bench, "in.png", &noise(8, 8, 3, 8));
    std::fs::write(bench.path("text.png"), "no picture").unwrap();
    std::fs::write(bench.path("bad.txt"), "across: compute_at(nowhere, y)").unwrap();
    std::fs::write(bench.path("worse.txt"), "across: paint(y)").unwrap();
    bench.inputs(&[floats("input", &[2, 3, 4, 5], &[0.0; 120])]);
    let given = ["pipeline", "blur", "--output", "out.png"];
    for (more, said) in [
        (&["--input", "absent.png"][..], "absent.png"),
        (&["--input", "text.png"], "text.png"),
        (&["--inputs", "absent.npz"], "absent.npz"),
        (&[], "blur needs `input`, the picture: give it with --input IMG"),
        (&["--input", "in.png", "in.png"], "blur takes fewer pictures than the 2 that were given"),
        (&["--inputs", "inputs.npz"], "input: expected 2 dimensions, came 4"),
        (&["--input", "in.png", "--param", "radius=3"], "blur has no parameter radius; it has none"),
        (
            &["--input", "in.png", "--schedule", "fast"],
            "--schedule fast: no schedule of blur (hand, root, gpu), and no file",
        ),
        (&["--input", "in.png", "--schedule", "bad.txt"], "nowhere"),
        (&["--input", "in.png", "--schedule", "worse.txt"], "worse.txt: "),
    ] {
        bench.sumsq(&[&given[..], more].concat()).fails_with(2, said);
        assert!(!bench.path("out.png").exists(), "{said}");
    }
    bench.inputs(&[floats("input", &[4, 5], &[0.0; 20]), floats("stray", &[1], &[0.0])]);
    let said = "`stray` is no input of blur, which has input";
    bench.sumsq(&[&given[..], &["--inputs", "inputs.npz"]].concat()).fails_with(2, said);
    assert!(!bench.path("out.png").exists(), "{said}");
    bench
        .sumsq(&["pipeline", "blur", "--input", "in.png"])
        .fails_with(2, "give --output FILE for the result, or --bench");
    bench.sumsq(&["pipeline", "blurr"]).fails_with(2, "blurr");
    write(&bench, "tiny.png", &noise(9, 7, 3, 8));
    for (kernel, pixels) in [("cubic", 8), ("lanczos", 12)] {
        let kernel = format!("kernel={kernel}");
        let line = ["pipeline", "resize", "--input", "tiny.png", "--output", "out.png", "--param", &kernel];
        let said = format!("the picture is smaller than the kernel, which reads {pixels} pixels");
        bench.sumsq(&line).fails_with(2, &said);
        assert!(!bench.path("out.png").exists(), "{said}");
    }
    // The command binds planes.
    let packed = ["--param", "layout=rgb", "--output", "out.png"];
    bench
        .sumsq(&[&["pipeline", "resize", "--input", "in.png"], &packed[..]].concat())
        .fails_with(2, "stride");
    assert!(!bench.path("out.png").exists());
    let line = ["pipeline", "blur", "--input", "in.png", "--output", "absent/out.png"];
    bench.sumsq(&line).fails_with(4, "absent");
    let line = ["pipeline", "blur", "--input", "in.png", "--output", "out.png", "--backend", "cuda"];
    with_driver(&bench, &[("SUMSQ_LIBCUDA_DEVICES", "0")], &line).fails_with(3, "GPU not used");
}

/// Arrays whose values the pipeline's types have are taken, of whatever type they are.
#[test]
fn arrays_are_converted_where_nothing_is_lost() {
    let bench = fit();
    let run = |name: &str, input: ArrayData| {
        bench.inputs(&[array("input", &[2, 4, 3], input)]);
        let line = ["pipeline", name, "--inputs", "inputs.npz", "--output", "out.npz"];
        bench.sumsq(&line).succeeds();
        numbers(&bench.read("out.npz")[0])
    };
    let values = [0u8, 7, 255, 100, 3, 250, 1, 2, 90, 91, 92, 93];
    let values = || values.into_iter().chain(values.into_iter().rev());
    let wide = || values().map(|v| v.into()).collect::<Vec<i64>>();
    let reals = || values().map(f64::from).collect::<Vec<f64>>();
    let bytes = || ArrayData::Bytes(values().collect());
    // Samples of 8 bits are bytes; what comes as numbers of other types has 16.
    let deep = run("hist", ArrayData::Int(wide(), "uint16"));
    assert_ne!(run("hist", bytes()), deep);
    assert_eq!(run("hist", ArrayData::Int(wide(), "int64")), deep);
    assert_eq!(run("hist", ArrayData::F64(reals())), deep);
    assert_eq!(run("hist", ArrayData::F32(values().map(f32::from).collect())), deep);
    // Of floats the pipeline takes numbers as they are.
    let sharp = run("unsharp", ArrayData::F32(values().map(f32::from).collect()));
    assert!(sharp.iter().any(|&v| v > 0.0));
    assert_eq!(run("unsharp", bytes()), sharp);
    assert_eq!(run("unsharp", ArrayData::Int(wide(), "int64")), sharp);
    assert_eq!(run("unsharp", ArrayData::F64(reals())), sharp);
    let near = |v: f64| f64::from(v as f32);
    let thirds = || reals().into_iter().map(|v| v / 3.0);
    assert_eq!(
        run("unsharp", ArrayData::F64(thirds().collect())),
        run("unsharp", ArrayData::F64(thirds().map(near).collect()))
    );
}

/// And others are refused: a picture of zeros, or of remainders, would be of no use to anybody.
#[test]
fn values_that_an_input_does_not_hold_are_refused() {
    let bench = fit();
    let whole = |v| ArrayData::Int(vec![v; 12], "int64");
    let single = |v| ArrayData::F32(vec![v; 12]);
    let double = |v| ArrayData::F64(vec![v; 12]);
    let words = "whole numbers from 0 to 65535 (u16)";
    let precise = "integers that f32 holds exactly";
    for (name, input, expected, came) in [
        ("hist", single(0.5), words, "0.5"),
        ("hist", double(0.25), words, "0.25"),
        ("hist", double(65536.0), words, "65536"),
        ("hist", single(f32::NAN), words, "NaN"),
        ("hist", whole(-1), words, "-1"),
        ("stencil_chain", single(0.5), words, "0.5"),
        ("stencil_chain", whole(65536), words, "65536"),
        ("unsharp", whole((1 << 24) + 1), precise, "16777217"),
        ("unsharp", double(1e300), "values of f32", "1000000"),
    ] {
        bench.inputs(&[array("input", &[2, 2, 3], input)]);
        let said = format!("input: expected {expected}, came {came}");
        for more in [&["--output", "out.npz"][..], &["--output", "out.png"], &["--bench"]] {
            let line = ["pipeline", name, "--inputs", "inputs.npz"];
            bench.sumsq(&[&line, more].concat()).fails_with(2, &said);
        }
        assert!(!bench.path("out.npz").exists() && !bench.path("out.png").exists(), "{said}");
    }
    // Beside a picture of 8 bits.
    write(&bench, "left.png", &noise(2, 2, 3, 8));
    bench.inputs(&[array("right", &[2, 2, 3], whole(300))]);
    bench
        .sumsq(&[
            "pipeline",
            "lens_blur",
            "--input",
            "left.png",
            "--inputs",
            "inputs.npz",
            "--output",
            "out.png",
        ])
        .fails_with(2, "right: expected whole numbers from 0 to 255 (u8), came 300");
    assert!(!bench.path("out.png").exists());
}

/// Pictures of 8 bits beside one of 16 have as much white as that one.
#[test]
fn depths_are_mixed() {
    let bench = fit();
    let (left, right) = (noise(20, 9, 3, 8), noise(20, 9, 3, 16));
    let deep = Picture { bits: 16, samples: left.samples.iter().map(|v| v * 257).collect(), ..left.clone() };
    write(&bench, "left.png", &left);
    write(&bench, "deep.png", &deep);
    write(&bench, "right.png", &right);
    let blurred = |left: &str| {
        let given = ["pipeline", "lens_blur", "--input", left, "right.png", "--output", "out.npz"];
        bench.sumsq(&[&given[..], &["--param", "slices=3", "--param", "focus=1"]].concat()).succeeds();
        numbers(&bench.read("out.npz")[0])
    };
    let mixed = blurred("left.png");
    assert_eq!(mixed, blurred("deep.png"));
    assert!(mixed.iter().any(|&v| v > 0.5), "{mixed:?}");
}

/// Small inputs of an application, and parameters that keep its work small.
pub fn small(name: &str) -> (Vec<NamedArray>, &'static [&'static str]) {
    let mut state = 1u32;
    let mut next = move |below: u32| {
        state = state.wrapping_mul(0x915f_77f5).wrapping_add(1);
        (state >> 8) % below
    };
    let mut real = |name: &str, shape: &[usize]| {
        let values = (0..shape.iter().product()).map(|_| next(4097) as f32 / 4096.0).collect();
        array(name, shape, ArrayData::F32(values))
    };
    let whole = |of: NamedArray, below: f32| match of.data {
        ArrayData::F32(v) => {
            let values = v.iter().map(|v| (v * below) as i64).collect();
            NamedArray { data: ArrayData::Int(values, "uint16"), ..of }
        }
        data => NamedArray { data, ..of },
    };
    let bytes = |of: NamedArray| match of.data {
        ArrayData::F32(v) => {
            NamedArray { data: ArrayData::Bytes(v.iter().map(|v| (v * 255.0) as u8).collect()), ..of }
        }
        data => NamedArray { data, ..of },
    };
    match name {
        "blur" | "stencil_chain" => (vec![whole(real("input", &[9, 37]), 4095.0)], &[]),
        "bilateral_grid" => (vec![real("input", &[21, 37])], &[]),
        "hist" => (vec![bytes(real("input", &[21, 37, 3]))], &[]),
        "local_laplacian" => (vec![whole(real("input", &[15, 18, 3]), 65535.0)], &["levels=3"]),
        "interpolate" => (vec![real("input", &[15, 18, 4])], &[]),
        "camera_pipe" => (vec![whole(real("input", &[68, 70]), 1023.0)], &[]),
        "demosaic_bilinear" | "demosaic_ahd" => (vec![real("mosaic", &[21, 37])], &[]),
        "demosaic_learned" => {
            let filters = ["green", "edges"].map(|name| real(name, &[2, 5, 5]));
            let colours = [real("beside", &[3, 2]), real("below", &[2, 3]), real("diagonal", &[2, 2])];
            ([&[real("mosaic", &[9, 37])], &filters[..], &colours].concat(), &[])
        }
        "nl_means" => (vec![real("input", &[9, 37, 3])], &["patch=3", "search=3"]),
        "max_filter" => (vec![real("input", &[9, 37, 3])], &["radius=15"]),
        // Of other channels than three, for which its schedule of a GPU has a version.
        "resize" => (vec![bytes(real("input", &[22, 36, 4]))], &["scale=0.5"]),
        "lens_blur" => {
            let views = ["left", "right"].map(|name| bytes(real(name, &[9, 33, 3])));
            (views.into(), &["slices=4", "focus=1", "samples=3"])
        }
        "guided_upsampling" => {
            let small = ["splat_loc", "values"].map(|name| real(name, &[9, 17, 3]));
            ([&small[..], &[real("slice_loc", &[18, 34, 3])]].concat(), &["s_sigma=8"])
        }
        "compositing" => ((0..6).map(|l| bytes(real(&format!("layer{l}"), &[9, 37, 4]))).collect(), &[]),
        "conv_layer" => {
            (vec![real("input", &[1, 5, 9, 4]), real("filter", &[4, 3, 3, 67]), real("bias", &[67])], &[])
        }
        "depthwise_separable_conv" => {
            let weights =
                [real("depthwise", &[3, 3, 6, 1]), real("pointwise", &[6, 17]), real("bias", &[17])];
            ([&[real("input", &[1, 5, 9, 6])], &weights[..]].concat(), &[])
        }
        "sgemm" => (vec![real("A", &[7, 35]), real("B", &[19, 7]), real("C", &[19, 35])], &[]),
        "fft" => (vec![real("re", &[2, 32, 32]), real("im", &[2, 32, 32])], &[]),
        "bilateral_slice" => {
            let image = [real("guide", &[2, 9, 18]), real("input", &[2, 3, 9, 18])];
            ([&[real("grid", &[2, 8, 4, 3, 5])], &image[..]].concat(), &["cell=4"])
        }
        "spatial_transformer" => (vec![real("input", &[2, 5, 9, 18]), real("theta", &[2, 2, 3])], &[]),
        "flow_warp" => (vec![real("input", &[2, 5, 9, 18]), real("flow", &[2, 2, 9, 18])], &[]),
        "bicubic_warp" => (vec![real("input", &[1, 3, 9, 18]), real("flow", &[1, 2, 9, 18])], &[]),
        "bilateral_slice_3d" => {
            let volume = [real("guide", &[1, 4, 5, 18]), real("input", &[1, 3, 4, 5, 18])];
            ([&[real("grid", &[1, 8, 3, 1, 2, 5])], &volume[..]].concat(), &["cell=4"])
        }
        "burst_demosaicking" => {
            let frames = real("frames", &[2, 9, 14]);
            (vec![real("picture", &[3, 18, 28]), real("homography", &[2, 8]), frames], &[])
        }
        "deconvolution" => {
            let images = [real("image", &[16, 23]), real("blurred", &[12, 19]), real("kernel", &[5, 5])];
            let numbers = [real("weight", &[3]), real("threshold", &[3]), real("smooth", &[2])];
            ([images, numbers].into_iter().flatten().collect(), &["steps=1"])
        }
        // A biconvex one.
        "lens_design" => {
            let surfaces = [("curvature", [0.5, -0.4]), ("least", [0.1, 1.2]), ("more", [0.05, 0.2])];
            let mut arrays = surfaces.map(|(name, values)| floats(name, &[2], &values)).to_vec();
            arrays.push(floats("index", &[4], &[1.0, 1.5, 1.0, 1.0]));
            arrays.push(floats("sample", &[4, 2], &[0.7, 0.1, -0.5, 0.4, 0.2, -0.8, -0.3, -0.6]));
            arrays.push(floats("field", &[3, 2], &[0.05, 1.0, 0.1, 0.9, 0.2, 0.7]));
            (arrays, &["pupil=0.1", "aperture=0.25"])
        }
        _ => (vec![real("input", &[21, 37, 3])], &[]),
    }
}

/// All values of an array.
pub fn numbers(of: &NamedArray) -> Vec<f64> {
    match &of.data {
        ArrayData::F32(v) => v.iter().map(|&v| v.into()).collect(),
        ArrayData::F64(v) => v.clone(),
        ArrayData::Bytes(v) => v.iter().map(|&v| v.into()).collect(),
        ArrayData::Int(v, _) => v.iter().map(|&v| v as f64).collect(),
        other => panic!("{other:?} is no output"),
    }
}

/// Bytes as samples of 16 bits.
fn deep(data: &ArrayData) -> ArrayData {
    match data {
        ArrayData::Bytes(v) => ArrayData::Int(v.iter().map(|&v| i64::from(v) * 257).collect(), "uint16"),
        other => other.clone(),
    }
}

/// Every application by its schedule for a GPU, and by that for a CPU; of those that have another algorithm for 16 bits both.
#[test]
fn a_gpu_computes_the_same() {
    let all = ALL.map(|application| (application.name, false));
    for (name, is_deep) in
        all.into_iter().chain(["hist", "lens_blur", "compositing"].map(|name| (name, true)))
    {
        let bench = fit();
        let (mut arrays, params) = small(name);
        if is_deep {
            arrays.iter_mut().for_each(|array| array.data = deep(&array.data));
        }
        bench.inputs(&arrays);
        let mut line = vec!["pipeline", name, "--inputs", "inputs.npz", "--output"];
        let params: Vec<&str> = params.iter().flat_map(|p| ["--param", p]).collect();
        bench.sumsq(&[&line[..], &["cpu.npz"], &params].concat()).succeeds();
        line.push("gpu.npz");
        with_driver(&bench, &[], &[&line[..], &["--backend", "cuda"], &params].concat()).succeeds();
        let (cpu, gpu) = (bench.read("cpu.npz"), bench.read("gpu.npz"));
        assert_eq!(cpu.len(), gpu.len(), "{name}");
        for (a, b) in cpu.iter().zip(&gpu) {
            let (a, b) = (numbers(a), numbers(b));
            let most = a.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
            let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(a.len() == b.len() && most > 0.0 && apart <= 1e-4 * most, "{name}: {apart} of {most}");
        }
    }
}
