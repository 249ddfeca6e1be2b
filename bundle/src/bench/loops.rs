//! The loop of PCG as a while node, as while nodes of so many iterations, in chunks, and on the host. (One cooperative kernel for problems that fit the cache
//! is not there yet.)

use super::facts::Facts;
use super::iteration::{Planned, on_device, tiny};
use super::problems::natural;
use super::{Done, Extent};
use sumsq::codegen::runtime::cuda::Device;

pub fn loops(facts: &mut Facts, extent: Extent) -> Done<()> {
    let device = Device::shared(0)?;
    for name in &["laplacian", "image_warping", "arap_mesh_deformation"][..extent.of(3, 1)] {
        for (how, turns, in_chunks) in [
            ("while node", usize::MAX, false),
            ("while nodes of 64", 64, false),
            ("while nodes of 8", 8, false),
            ("chunks of 8", usize::MAX, true),
            ("host", 0, false),
        ] {
            device.set_loops_in_chunks(in_chunks);
            device.set_loop_turns(turns);
            let setting = if extent == Extent::Whole { natural(name) } else { tiny(name) };
            let what = format!("{name} ({} elements), loop as {how}", setting.elements);
            let mut quiet = Facts::default();
            let mut planned = Planned::new(&mut quiet, &what, setting, on_device(), extent)?;
            let n = extent.of(128, 4);
            let times = planned.runs(n)?;
            let each: Vec<_> = times.iter().map(|t| *t / n as u32).collect();
            facts.times(format!("{what}: iteration, in runs of {n}"), &each, super::iteration::US);
        }
    }
    facts.note("one cooperative kernel for problems that fit the cache: not there yet");
    Ok(())
}
