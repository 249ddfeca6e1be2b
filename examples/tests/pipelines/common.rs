//! Checks of all applications.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, OnceLock, PoisonError};
use sumsq::codegen::compile::BufferSlot;
use sumsq::codegen::compile::aot::{compile_to_object, write_runtime};
use sumsq::codegen::limits::{Effort, Limits};
use sumsq::codegen::runtime::{Buffer, Pool, Scalar};
use sumsq::codegen::{Level, ScalarType, Schedule, Target};
use sumsq_examples::pipelines::{Algorithm, Application, Picture, Planar, Prepared, Setup, Values};

/// Values that look like noise, the same in every run: in `[0, below)`.
pub fn noise(count: usize, below: u32) -> impl Iterator<Item = u32> {
    let mut state = 0x2545_f491u32;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 7) % below
    })
}

/// An input of u16 below a limit.
pub fn whole_input(extents: &[i32], below: u32) -> Planar {
    let n = extents.iter().product::<i32>() as usize;
    Planar { extents: extents.to_vec(), values: Values::U16(noise(n, below).map(|v| v as u16).collect()) }
}

/// An input of floats in [0, 1].
pub fn real_input(extents: &[i32]) -> Planar {
    let n = extents.iter().product::<i32>() as usize;
    Planar {
        extents: extents.to_vec(),
        values: Values::F32(noise(n, 4097).map(|v| v as f32 / 4096.0).collect()),
    }
}

/// A part of a photograph with an edge in it: all colours, or green where there is no third dimension.
fn photograph(extents: &[i32]) -> Vec<u8> {
    static READ: OnceLock<Picture> = OnceLock::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/pipelines/seeding.jpg");
    let picture = READ.get_or_init(|| Picture::read(path.as_ref()).expect("the project's photograph"));
    let sample = |p: &Vec<i32>| {
        let (x, y, c) = (p[0] as usize + 2656, p[1] as usize + 1494, p.get(2).map_or(1, |&c| c as usize));
        picture.plane(c)[y * picture.width + x] as u8
    };
    Plain::points(extents).iter().map(sample).collect()
}

/// A part of a photograph, of bytes.
pub fn photographed_bytes(extents: &[i32]) -> Planar {
    Planar { extents: extents.to_vec(), values: Values::U8(photograph(extents)) }
}

/// The same of floats in [0, 1].
pub fn photographed(extents: &[i32]) -> Planar {
    let values = photograph(extents).into_iter().map(|v| f32::from(v) / 255.0).collect();
    Planar { extents: extents.to_vec(), values: Values::F32(values) }
}

/// An input of floats in [-1, 1].
pub fn signed_input(extents: &[i32]) -> Planar {
    let mut input = real_input(extents);
    if let Values::F32(v) = &mut input.values {
        v.iter_mut().for_each(|v| *v = 2.0 * *v - 1.0);
    }
    input
}

/// Parameters with values that were made, as they are given.
pub fn given<'a>(params: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
    params.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// Numbers by cell, and by bin of it; those of other cells are absent.
pub type Grid<const N: usize> = HashMap<[i32; 3], [f64; N]>;

/// A grid blurred along a dimension, by weights that are centred.
pub fn blurred<const N: usize>(grid: &Grid<N>, weights: &[f64], d: usize) -> Grid<N> {
    let mut all = Grid::new();
    for (at, value) in grid {
        for (k, weight) in (0..).zip(weights) {
            let mut to = *at;
            to[d] += k - weights.len() as i32 / 2;
            let sum = all.entry(to).or_insert([0.0; N]);
            (0..N).for_each(|c| sum[c] += weight * value[c]);
        }
    }
    all
}

/// Trilinear interpolation at a place that is nowhere negative; `absent` is the value of absent cells.
pub fn sampled<const N: usize>(grid: &Grid<N>, at: [f64; 3], absent: [f64; N]) -> [f64; N] {
    let mut sum = [0.0; N];
    for corner in 0..8 {
        let side = |d: usize| (corner >> d & 1) as f64;
        let weight: f64 = (0..3).map(|d| (1.0 - side(d) - at[d].fract()).abs()).product();
        let cell = std::array::from_fn(|d| at[d] as i32 + side(d) as i32);
        let value = grid.get(&cell).unwrap_or(&absent);
        (0..N).for_each(|c| sum[c] += weight * value[c]);
    }
    sum
}

/// The values as numbers, with the offset of coordinates clamped to the domain.
pub struct Plain {
    extents: Vec<i32>,
    values: Vec<f64>,
}

impl Plain {
    /// Of an input or output.
    pub fn of(planar: &Planar) -> Plain {
        let values = match &planar.values {
            Values::U8(v) => v.iter().map(|&v| v.into()).collect(),
            Values::U16(v) => v.iter().map(|&v| v.into()).collect(),
            Values::F32(v) => v.iter().map(|&v| v.into()).collect(),
            Values::F64(v) => v.clone(),
            Values::Int(v) => v.iter().map(|&v| v as f64).collect(),
        };
        Plain { extents: planar.extents.clone(), values }
    }

    /// The value at these coordinates, or the nearest one.
    pub fn at(&self, at: &[i32]) -> f64 {
        let mut offset = 0;
        for (&x, &n) in at.iter().zip(&self.extents).rev() {
            offset = offset * n as usize + x.clamp(0, n - 1) as usize;
        }
        self.values[offset]
    }

    /// All points of a domain, the first coordinate the fastest.
    pub fn points(extents: &[i32]) -> Vec<Vec<i32>> {
        let mut all = vec![vec![]];
        for &n in extents.iter().rev() {
            all = all
                .iter()
                .flat_map(|tail: &Vec<i32>| (0..n).map(|x| [&[x], tail.as_slice()].concat()))
                .collect();
        }
        // Built from the last coordinate on: sorted by it, and by those before it.
        all.sort_by(|a, b| a.iter().rev().cmp(b.iter().rev()));
        all
    }
}

/// Applications with so many stages above each other that not all can be inlined.
const PYRAMIDS: [&str; 5] = ["demosaic_ahd", "interpolate", "local_laplacian", "lens_blur", "stencil_chain"];

/// The empty schedule is refused at once where it would take the memory of the machine.
#[test]
fn inlining_has_an_end() {
    for name in PYRAMIDS {
        let application = Application::find(name).expect("the application is listed");
        let setup = application.setup(&[], 8).expect("defaults are taken");
        let refused =
            Prepared::new(Algorithm::new(application, setup), &Schedule::new(), &Target::host()).err();
        let said = refused.expect("it is refused").to_string();
        assert!(said.contains(": inline: more than 524288 expressions would take the places"), "{said}");
    }
}

/// Values by keys, each made by whoever asks for it first, for all tests of this program.
pub struct Shared<T: 'static>(Mutex<BTreeMap<String, &'static OnceLock<T>>>);

impl<T> Shared<T> {
    /// Nothing yet.
    pub const fn new() -> Shared<T> {
        Shared(Mutex::new(BTreeMap::new()))
    }

    /// The value of a key. Others are made meanwhile.
    pub fn get(&self, key: String, make: impl FnOnce() -> T) -> &'static T {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = *places.entry(key).or_insert_with(|| Box::leak(Box::default()));
        drop(places);
        place.get_or_init(make)
    }
}

/// Distance that an output may have from what the loops say.
#[derive(Clone, Copy, Debug)]
pub enum Within {
    /// Not at all.
    Exactly,
    /// One, where floats are cut to integers.
    One,
    /// This share of the range of the expected values.
    Range(f64),
}

impl Within {
    /// The distance, where these are all expected values.
    pub fn of(self, expected: &[f64]) -> f64 {
        let least = expected.iter().copied().fold(f64::INFINITY, f64::min);
        let most = expected.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match self {
            Within::Exactly => 0.0,
            Within::One => 1.0,
            Within::Range(share) => share * (most - least),
        }
    }
}

/// An application of this name, set up.
pub fn set_up(name: &str, params: &[(&str, &str)], bits: u32) -> (&'static Application, Setup) {
    let application = Application::find(name).expect("the application is listed");
    let given: Vec<(String, String)> = params.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    (application, application.setup(&given, bits).expect("the parameters are taken"))
}

/// Runs an application, set up with `params`, by one thread and by three, under every schedule of the CPU and, unless it is refused since too
/// much would be inlined, the empty one; and compares its only output with `expected`, x the fastest.
pub fn check(
    name: &str,
    params: &[(&str, &str)],
    bits: u32,
    inputs: &[Planar],
    expected: &[f64],
    within: Within,
) {
    check_all(name, params, bits, inputs, &[expected.to_vec()], within);
}

/// As [`check`], of all outputs.
pub fn check_all(
    name: &str,
    params: &[(&str, &str)],
    bits: u32,
    inputs: &[Planar],
    expected: &[Vec<f64>],
    within: Within,
) {
    let (application, setup) = set_up(name, params, bits);
    let is_for_outputs = |name: &&str| !["gpu", "gradient", "packed"].contains(name);
    let named = application.schedules.iter().map(|(name, _)| *name).filter(is_for_outputs);
    for schedule in std::iter::once("").filter(|_| !PYRAMIDS.contains(&name)).chain(named) {
        let target = Target::host();
        // What nobody runs without naming it takes LLVM a minute for some, which would tell nothing about the engine.
        let effort =
            if schedule == application.by_hand(&target, &setup) { Effort::Full } else { Effort::Least };
        // Inputs of other sizes run the same code.
        static KNOWN: Shared<Prepared> = Shared::new();
        let prepared = KNOWN.get(format!("{name}, {setup:?}, {schedule}"), || {
            let text = match schedule {
                "" => Schedule::new(),
                known => application.schedule(known).expect("it is listed").expect("it is a schedule"),
            };
            let algorithm = Algorithm::new(application, setup.clone());
            let limits = Limits { effort, ..Limits::default() };
            let prepared = Prepared::within(algorithm, &text, &target, limits);
            prepared.unwrap_or_else(|e| panic!("{name}, schedule `{schedule}`: {e}"))
        });
        for threads in [1, 3] {
            let outputs = prepared.run(&Pool::new(threads), inputs);
            let outputs = outputs.unwrap_or_else(|e| panic!("{name}, schedule `{schedule}`: {e}"));
            assert_eq!(outputs.len(), expected.len(), "outputs of {name}");
            for ((output, came), expected) in outputs.iter().zip(expected) {
                let what = format!("{name}, schedule `{schedule}`, {threads} threads, {output}");
                compare(&what, &Plain::of(came), expected, within);
            }
        }
    }
}

fn compare(what: &str, came: &Plain, expected: &[f64], within: Within) {
    assert_eq!(came.values.len(), expected.len(), "{what}: number of values");
    let tolerance = within.of(expected);
    for (i, (a, b)) in came.values.iter().zip(expected).enumerate() {
        let near = (a - b).abs() <= tolerance || a.is_nan() && b.is_nan();
        assert!(near, "{what}: value {i} of extents {:?} is {a}, expected {b}", came.extents);
    }
}

/// Assembles the schedules of a GPU, where `ptxas` is found, for an application set up so.
pub fn assembles(name: &str, params: &[(&str, &str)]) {
    use sumsq::codegen::compile;
    use sumsq::ptxas;
    let (application, setup) = set_up(name, params, 8);
    let schedule = application.schedule("gpu").expect("a schedule of a GPU").expect("it is a schedule");
    let pipeline = (application.build)(&setup);
    let ptx = compile::ptx(&pipeline, &schedule, &Target::cuda(80)).expect("it is compiled");
    let kernels = ptxas::assemble(&ptx, 80).expect("ptxas is installed by `cargo xtask setup`");
    assert!(!kernels.is_empty());
}

/// The program of an application in C: reads its inputs from files, calls it, and writes its outputs to files.
fn program(prepared: &Prepared, buffers: &[(String, Buffer)]) -> String {
    let name = &prepared.algorithm.pipeline.name;
    let mut text = format!(
        "#include \"{name}.h\"\n#include <stdio.h>\n#include <stdlib.h>\n\n\
         static sumsq_buffer made(sumsq_type type, size_t size, size_t count, int32_t dims, const int32_t *min, const int32_t *extent, \
         const int64_t *stride, const char *file) {{\n    void *memory = calloc(count, size);\n    FILE *f = file ? fopen(file, \"rb\") : NULL;\n    \
         if (f) {{\n        if (fread(memory, size, count, f) != count) exit(2);\n        fclose(f);\n    }}\n    \
         return sumsq_view(type, memory, dims, min, extent, stride);\n}}\n\nint main(void) {{\n"
    );
    let mut arguments = vec![];
    for (k, (slot, (_, buffer))) in prepared.compiled().signature().buffers.iter().zip(buffers).enumerate() {
        let spec = buffer.spec();
        let list = |v: Vec<String>| v.join(", ");
        let strides = spec
            .extents
            .iter()
            .scan(1i64, |stride, &n| Some(std::mem::replace(stride, *stride * i64::from(n))));
        let file = if slot.written { "NULL".to_string() } else { format!("\"in{k}\"") };
        text += &format!(
            "    static const int32_t min{k}[] = {{ {} }}, extent{k}[] = {{ {} }};\n    static const int64_t stride{k}[] = {{ {} }};\n    \
             sumsq_buffer b{k} = made(SUMSQ_{}, {}, {}, {}, min{k}, extent{k}, stride{k}, {file});\n",
            list(spec.min.iter().map(i32::to_string).collect()),
            list(spec.extents.iter().map(i32::to_string).collect()),
            list(strides.map(|n| n.to_string()).collect()),
            spec.ty.name().to_uppercase(),
            spec.ty.bytes(),
            spec.len(),
            spec.extents.len(),
        );
        arguments.push(format!("&b{k}"));
    }
    arguments.extend(prepared.params().iter().map(|(_, value)| match value {
        Scalar::F32(v) => format!("{v:?}f"),
        Scalar::F64(v) => format!("{v:?}"),
        v => v.as_int().unwrap_or(0).to_string(),
    }));
    text += &format!(
        "    if ({name}({})) {{\n        fprintf(stderr, \"%s\\n\", sumsq_message());\n        return 1;\n    }}\n",
        arguments.join(", ")
    );
    for (k, (slot, (_, buffer))) in prepared.compiled().signature().buffers.iter().zip(buffers).enumerate() {
        if slot.written {
            let (size, count) = (buffer.spec().ty.bytes(), buffer.spec().len());
            text += &format!(
                "    FILE *out{k} = fopen(\"out{k}\", \"wb\");\n    if (!out{k} || fwrite(b{k}.origin, {size}, {count}, out{k}) != {count}) return 3;\n    \
                 fclose(out{k});\n"
            );
        }
    }
    text + "    return 0;\n}\n"
}

/// The values of a buffer as bytes.
fn bytes(buffer: &Buffer) -> Vec<u8> {
    match buffer.spec().ty {
        ScalarType::U8 => buffer.to_vec::<u8>(),
        ScalarType::U16 => buffer.to_vec::<u16>().iter().flat_map(|v| v.to_ne_bytes()).collect(),
        ScalarType::I32 => buffer.to_vec::<i32>().iter().flat_map(|v| v.to_ne_bytes()).collect(),
        ScalarType::F32 => buffer.to_vec::<f32>().iter().flat_map(|v| v.to_ne_bytes()).collect(),
        other => panic!("{other:?} is no type of these tests"),
    }
}

/// Compiles the application's C as C and as C++, links it into a program of each, and compares what they write with what this process computes:
/// the same bits. Then makes an object of it for AArch64; where `SUMSQ_AARCH64` names an emulator, a program of that must write the same, too, but
/// for rounding where the schedule is relaxed.
pub fn same_bits_from_c(name: &str, params: &[(&str, &str)], bits: u32, inputs: &[Planar]) {
    let (application, setup) = set_up(name, params, bits);
    let (own, _) = application.schedules[0];
    let schedule = application.schedule(own).expect("it is listed").expect("it is a schedule");
    let prepared = Prepared::new(Algorithm::new(application, setup), &schedule, &Target::host())
        .expect("it is compiled");
    let buffers = prepared.buffers(inputs).expect("the inputs fit");
    let dir = tempfile::tempdir().expect("a folder for the test");
    let library =
        compile_to_object(&prepared.algorithm.pipeline, &schedule, &Target::host()).expect("it is compiled");
    library.write(dir.path()).and_then(|()| write_runtime(dir.path())).expect("written");
    let slots = &prepared.compiled().signature().buffers;
    for (k, (slot, (_, buffer))) in slots.iter().zip(&buffers).enumerate() {
        if !slot.written {
            std::fs::write(dir.path().join(format!("in{k}")), bytes(buffer)).expect("written");
        }
    }
    let named: Vec<(&str, &Buffer)> = buffers.iter().map(|(name, b)| (name.as_str(), b)).collect();
    prepared.compiled().run(&Pool::new(2), &named, &prepared.params()).expect("it runs");
    let object = format!("{}.o", prepared.algorithm.pipeline.name);
    let text = program(&prepared, &buffers);
    run(dir.path(), "cc", &["-std=c11", "-c", "sumsq_runtime.c"]);
    for (file, compiler, standard) in [("p.c", "cc", "-std=c11"), ("p.cc", "c++", "-std=c++14")] {
        std::fs::write(dir.path().join(file), &text).expect("written");
        let flags =
            [standard, "-Wall", "-Wextra", "-Werror", "-o", "program", file, &object, "sumsq_runtime.o"];
        run(dir.path(), compiler, &[&flags[..], &["-lm", "-lpthread"]].concat());
        run(dir.path(), &dir.path().join("program").to_string_lossy(), &[]);
        same_files(dir.path(), slots, &buffers, None, &format!("{name} from {file}"));
    }
    let library = compile_to_object(&prepared.algorithm.pipeline, &schedule, &Level::Aarch64.anywhere());
    let library = library.expect("it is compiled for AArch64");
    // The machine in the header of an ELF file.
    assert_eq!(library.object[18..20], 183u16.to_le_bytes(), "{name}: no object for AArch64");
    if let Ok(emulator) = std::env::var("SUMSQ_AARCH64") {
        library.write(dir.path()).expect("written");
        let files = ["p.c", &object, "sumsq_runtime.c", "-lm", "-lpthread"];
        run(
            dir.path(),
            "aarch64-linux-gnu-gcc",
            &[&["-std=c11", "-static", "-o", "program"], &files[..]].concat(),
        );
        run(dir.path(), &emulator, &["./program"]);
        // What a relaxed stage may fuse and reorder follows from the processor.
        let relaxed = schedule.to_string().contains("relaxed");
        same_files(dir.path(), slots, &buffers, relaxed.then_some(1e-5), &format!("{name} on AArch64"));
    }
}

/// Compares what a program has written with the buffers of this process: the same bits, or as floats within a part of the greatest one.
fn same_files(
    dir: &std::path::Path,
    slots: &[BufferSlot],
    buffers: &[(String, Buffer)],
    within: Option<f32>,
    who: &str,
) {
    for (k, (slot, (_, buffer))) in slots.iter().zip(buffers).enumerate().filter(|(_, (s, _))| s.written) {
        let came = std::fs::read(dir.join(format!("out{k}"))).expect("written");
        let expected = bytes(buffer);
        let Some(within) = within.filter(|_| slot.ty == ScalarType::F32) else {
            assert!(came == expected, "{who}: other bits");
            continue;
        };
        let floats = |bytes: &[u8]| -> Vec<f32> {
            bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect()
        };
        let (came, expected) = (floats(&came), floats(&expected));
        let greatest = expected.iter().fold(0.0, |a: f32, v| a.max(v.abs()));
        let apart = came.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(came.len() == expected.len() && apart <= within * greatest, "{who}: {apart} of {greatest}");
    }
}

fn run(dir: &std::path::Path, program: &str, args: &[&str]) {
    let out = std::process::Command::new(program).args(args).current_dir(dir).output();
    let out = out.unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
}
