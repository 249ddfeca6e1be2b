//! Our CPU back end on the same machine.

use super::facts::Facts;
use super::iteration::{Planned, tiny};
use super::problems::{large, natural};
use super::{Done, Extent};
use sumsq::CompileOptions;

pub fn cpu(facts: &mut Facts, extent: Extent) -> Done<()> {
    for name in ["laplacian", "image_warping"] {
        let settings = match extent {
            Extent::Whole => vec![natural(name), large(name, 2048)],
            Extent::Quick => vec![tiny(name)],
        };
        for s in settings {
            let what = format!("{name} ({} elements), all cores of the CPU", s.elements);
            Planned::new(facts, &what, s, CompileOptions::default(), extent)?.iteration(facts, &what)?;
        }
    }
    Ok(())
}
