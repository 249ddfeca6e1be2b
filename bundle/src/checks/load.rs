//! The driver takes all code: kernels written by hand, and those of the example energies, with its remarks.

use super::{Extent, kernels};
use std::time::Instant;
use sumsq::codegen::runtime::cuda::{Device, Module};
use sumsq::{Backend, CompileOptions, Precision};
use sumsq_tests::example_energy;

/// The example energies, short ones first.
const ENERGIES: [&str; 12] = [
    "laplacian",
    "curveFitting",
    "image_warping",
    "arap_mesh_deformation",
    "poisson_image_editing",
    "optical_flow",
    "shape_from_shading",
    "intrinsic_image_decomposition",
    "volumetric_mesh_deformation",
    "cotangent_mesh_smoothing",
    "embedded_deformation",
    "robust_nonrigid_alignment",
];

pub fn load(extent: Extent) {
    let start = Instant::now();
    let device = Device::open(0).unwrap_or_else(|e| panic!("{e}"));
    println!("{:.3} s to open {:?}", start.elapsed().as_secs_f64(), device.info());
    println!("{:?}, loops in graphs: {}", device.memory(), device.has_loops());
    let mut refused = vec![];
    let mut load = |name: &str, ptx: &str| {
        let start = Instant::now();
        match Module::load(&device, ptx) {
            Ok(module) => println!("{name}: {:.4} s {}", start.elapsed().as_secs_f64(), module.log()),
            Err(e) => refused.push(format!("{name}: {e}\n{ptx}")),
        }
    };
    kernels::TEXTS.iter().for_each(|(name, ptx)| load(name, ptx));
    for energy in &ENERGIES[..extent.of(ENERGIES.len(), 3)] {
        let options = CompileOptions {
            backend: Backend::Cuda,
            precision: Precision::Mixed,
            ..CompileOptions::default()
        };
        let all = sumsq::ptx(&example_energy(energy), &options).unwrap_or_else(|e| panic!("{energy}: {e}"));
        all.iter().for_each(|(pipeline, ptx)| load(&format!("{energy}/{pipeline}"), ptx));
    }
    assert!(refused.is_empty(), "{} modules are refused:\n{}", refused.len(), refused.join("\n"));
}
