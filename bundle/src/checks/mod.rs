//! The checks of a device: one list, which CI runs on the stand-in for the driver and `run check` on a real one.
//!
//! A check is a function that panics, in a process of its own. Those that record results run twice, on the driver and on the interpreter,
//! and both must agree to the bit.

mod applications;
mod cases;
mod constructs;
mod instructions;
mod kernels;
mod load;
mod loops;
mod maths;
mod memory;
mod pipelines;
pub mod records;
mod run;

pub use run::{Order, Outcome, check, child};

use records::Records;

/// Extent of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// As much as a device does in seconds.
    Whole,
    /// As much as the interpreter does in seconds.
    Quick,
}

impl Extent {
    /// One of two numbers.
    pub(crate) fn of<T>(self, whole: T, quick: T) -> T {
        if self == Extent::Whole { whole } else { quick }
    }
}

/// The work of a check.
#[derive(Clone, Copy)]
pub enum Work {
    /// It decides by itself.
    Plain(fn(Extent)),
    /// It is compared with the interpreter's.
    Recorded(fn(&mut Records, Extent)),
    /// A reference case by name, which decides by itself.
    Case(&'static str),
}

/// A check.
#[derive(Clone, Copy)]
pub struct Check {
    /// Its name, which is that of its files.
    pub name: &'static str,
    /// Seconds after which it is ended.
    pub limit: u64,
    /// The work.
    pub work: Work,
    /// Is it part of a quick run?
    pub quick: bool,
}

/// All checks, cheapest and most telling first.
pub const CHECKS: [Check; 21] = [
    check_of("load", 60, Work::Plain(load::load)),
    check_of("instructions", 60, Work::Plain(instructions::instructions)),
    check_of("kernels", 30, Work::Recorded(kernels::kernels)),
    check_of("pipelines", 120, Work::Recorded(pipelines::pipelines)),
    check_of("applications", 120, Work::Plain(applications::applications)),
    check_of("functions", 60, Work::Recorded(maths::bits)),
    check_of("maths", 60, Work::Plain(maths::errors)),
    check_of("constructs", 120, Work::Plain(constructs::constructs)),
    case("curveFitting_small", true),
    case("laplacian_small", true),
    case("arap_hand", true),
    case("image_warping_small", false),
    case("curveFitting", false),
    case("laplacian", false),
    case("poisson_image_editing_small", false),
    case("volumetric_mesh_deformation", false),
    case("shape_from_shading_small", false),
    case("optical_flow_flower", false),
    case("image_warping", false),
    check_of("loops", 60, Work::Plain(loops::loops)),
    check_of("memory", 120, Work::Plain(memory::memory)),
];

const fn check_of(name: &'static str, limit: u64, work: Work) -> Check {
    Check { name, limit, work, quick: true }
}

const fn case(name: &'static str, quick: bool) -> Check {
    Check { name, limit: 120, work: Work::Case(name), quick }
}

impl Check {
    /// The check of that name.
    pub fn find(name: &str) -> Option<&'static Check> {
        CHECKS.iter().find(|c| c.name == name)
    }
}
