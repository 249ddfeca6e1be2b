//! The loop of PCG by every way: as a while node, as while nodes of so many iterations, in chunks, as one kernel whose blocks wait for each other, and on the
//! host.

use super::facts::Facts;
use super::iteration::{Planned, on_device, tiny};
use super::problems::natural;
use super::{Done, Extent};
use crate::ways::Way;
use sumsq::codegen::runtime::cuda::Device;

const WAYS: [Way; 6] =
    [Way::While(usize::MAX), Way::While(64), Way::While(8), Way::Chunks, Way::Kernel, Way::Host];

pub fn loops(facts: &mut Facts, extent: Extent) -> Done<()> {
    let device = Device::shared(0)?;
    for name in &["laplacian", "image_warping", "arap_mesh_deformation"][..extent.of(3, 1)] {
        for way in WAYS.into_iter().filter(|way| way.is_there(&device)) {
            way.choose(&device);
            let setting = if extent == Extent::Whole { natural(name) } else { tiny(name) };
            let what = format!("{name} ({} elements), loop by {way}", setting.elements);
            let mut quiet = Facts::default();
            let mut planned = Planned::new(&mut quiet, &what, setting, on_device(), extent)?;
            let n = extent.of(128, 4);
            let times = planned.runs(n)?;
            let each: Vec<_> = times.iter().map(|t| *t / n as u32).collect();
            facts.times(format!("{what}: iteration, in runs of {n}"), &each, super::iteration::US);
        }
    }
    Ok(())
}
