//! One golden case: its arrays, and what a pipeline makes of them.

use std::path::Path;
use sumsq::codegen::gradient::{propagate_adjoints, schedule};
use sumsq::codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq::codegen::{
    Constraint, Func, Input, Layout, Pipeline, ScalarType, Schedule, Target, compile::Compiled,
};
use sumsq::{ArrayData, NamedArray};
use sumsq_examples::io::npz::Archive;

/// The arrays of a group, `constructs`, `layers` or `themes`, whose names begin with `case/`; without that.
pub fn arrays(group: &str, case: &str) -> Vec<NamedArray> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../data/gradients/{group}.npz"));
    let all = Archive::open(&path).and_then(|archive| archive.read_all()).expect("golden vectors");
    let own = all.into_iter().filter_map(|a| {
        let name = a.name.strip_prefix(case)?.strip_prefix('/')?.to_string();
        Some(NamedArray { name, ..a })
    });
    let own: Vec<NamedArray> = own.collect();
    assert!(!own.is_empty(), "{case} is no golden case");
    own
}

/// The values of an array of floats.
pub fn values(array: &NamedArray) -> &[f64] {
    match &array.data {
        ArrayData::F64(v) => v,
        other => panic!("{}: {other:?} is not of float64", array.name),
    }
}

/// Equal to 1e-12 of the greatest value.
pub fn assert_near(what: &str, came: &[f64], expected: &[f64]) {
    assert_eq!(came.len(), expected.len(), "{what}: number of values");
    let most = expected.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    for (i, (a, b)) in came.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-12 * most, "{what}: value {i} is {a}, expected {b}");
    }
}

/// The case's arrays that are inputs of the pipeline.
struct Case {
    name: &'static str,
    arrays: Vec<NamedArray>,
}

impl Case {
    fn named(&self, name: &str) -> &NamedArray {
        self.arrays.iter().find(|a| a.name == name).unwrap_or_else(|| panic!("{}: no {name}", self.name))
    }

    /// Inputs and parameters.
    fn inputs(&self) -> impl Iterator<Item = &NamedArray> {
        self.arrays.iter().filter(|a| !a.name.starts_with("d.") && a.name != "out" && a.name != "w")
    }

    fn extents(&self, name: &str) -> Vec<i32> {
        self.named(name).shape.iter().rev().map(|&n| n as i32).collect()
    }

    /// A buffer of the shape of an array: zeros.
    fn zeros(&self, like: &str) -> Buffer {
        let spec = BufferSpec::new(ScalarType::F64, &self.extents(like)).layout(Layout::Strided);
        Buffer::new(spec).expect("memory")
    }

    fn buffer(&self, name: &str) -> Buffer {
        let buffer = self.zeros(name);
        buffer.copy_from(values(self.named(name))).expect("as many values");
        buffer
    }
}

/// As [`check_in`] of the constructs.
pub fn check(name: &'static str, build: impl Fn(&mut Pipeline, &[Input]) -> Func) {
    check_in("constructs", name, build);
}

/// Builds a pipeline over the case's inputs, which are given in the order of their names; derives it for all inputs and parameters, and compares its output and
/// J^T w with the golden ones, without directives and under the first schedule.
pub fn check_in(group: &str, name: &'static str, build: impl Fn(&mut Pipeline, &[Input]) -> Func) {
    let case = Case { name, arrays: arrays(group, name) };
    let mut p = Pipeline::new(name);
    let is_param = |a: &&NamedArray| a.shape.is_empty();
    let arrays = case.inputs().filter(|a| !is_param(a));
    let inputs: Vec<Input> =
        arrays.map(|a| p.input(Input::strided(a.name.as_str(), &[ScalarType::F64], a.shape.len()))).collect();
    let out = build(&mut p, &inputs);
    let dims = out.vars.len();
    p.output_strided(&out, Constraint::defaults(dims));
    // A scalar has the seed 1.
    let (seeds, scale) = match dims {
        0 => (vec![], values(case.named("w"))[0]),
        _ => {
            p.input(Input::strided("w", &[ScalarType::F64], dims));
            (vec![(&*out.name, "w")], 1.0)
        }
    };
    let wrt: Vec<&str> = case.inputs().map(|a| a.name.as_str()).collect();
    let d = propagate_adjoints(&mut p, &seeds, &wrt).unwrap_or_else(|e| panic!("{e}"));
    let mut results = vec![(out.name.to_string(), "out".to_string(), 1.0)];
    for name in &wrt {
        let d = d.of(name).unwrap_or_else(|| panic!("{name} has no adjoint"));
        p.output_strided(d, Constraint::defaults(d.vars.len()));
        results.push((d.name.to_string(), format!("d.{name}"), scale));
    }
    let sizes = [4096; 4];
    let estimates: Vec<(&str, &[i32])> = wrt.iter().chain(&["w"]).map(|name| (*name, &sizes[..])).collect();
    for s in [Schedule::new(), schedule(&p, &estimates, &[], &[]).unwrap_or_else(|e| panic!("{e}"))] {
        let compiled = Compiled::new(&p, &s, &Target::host()).unwrap_or_else(|e| panic!("{e}\n{s}"));
        let arrays = case.inputs().filter(|a| !is_param(a)).map(|a| a.name.as_str());
        let seed = std::iter::once("w").filter(|_| dims > 0);
        let mut buffers: Vec<(&str, Buffer)> =
            arrays.chain(seed).map(|name| (name, case.buffer(name))).collect();
        buffers.extend(results.iter().map(|(func, of, _)| (func.as_str(), case.zeros(of))));
        let named: Vec<(&str, &Buffer)> = buffers.iter().map(|(name, b)| (*name, b)).collect();
        let params = case.inputs().filter(is_param);
        let params: Vec<(&str, Scalar)> =
            params.map(|a| (a.name.as_str(), Scalar::F64(values(a)[0]))).collect();
        compiled.run(&Pool::new(2), &named, &params).unwrap_or_else(|e| panic!("{name}: {e}\n{s}"));
        for (func, of, scale) in &results {
            let (_, came) = buffers.iter().find(|(name, _)| name == func).expect("an output");
            let came: Vec<f64> = came.to_vec::<f64>().iter().map(|v| v * scale).collect();
            assert_near(&format!("{name}, {of}"), &came, values(case.named(of)));
        }
    }
}
