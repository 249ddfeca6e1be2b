//! `sumsq_report`, and terminations as numbers.

use super::options::Growing;
use crate::instance::Progress;
use std::ffi::CStr;
use std::mem::size_of;
use sumsq::{Preconditioner, Termination};

/// `sumsq_report` of the header.
#[allow(non_camel_case_types, missing_docs)]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct sumsq_report {
    pub size: usize,
    pub energy_initial: f64,
    pub energy: f64,
    pub iterations: i64,
    pub linear_iterations: i64,
    pub termination: i32,
    pub accepted: i32,
    pub gradient_max_norm: f64,
    pub step_norm: f64,
    pub radius: f64,
    pub device_copies: i64,
    pub arrays_in_place: i64,
    pub preconditioner: i32,
    pub levels: i32,
    pub eta: f64,
    pub setup_seconds: f64,
    pub level_bytes: i64,
    pub operator_complexity: f64,
}

// SAFETY: repr(C), the size first, then integers and floats.
unsafe impl Growing for sumsq_report {
    const NAME: &'static str = "sumsq_report";
}

impl From<Progress> for sumsq_report {
    fn from(p: Progress) -> sumsq_report {
        let last = p.last.as_ref();
        sumsq_report {
            size: size_of::<sumsq_report>(),
            energy_initial: p.energy_initial,
            energy: p.energy,
            iterations: p.steps as i64,
            linear_iterations: p.linear_iterations as i64,
            termination: p.termination.map_or(RUNNING, code),
            accepted: last.map_or(0, |i| i32::from(i.accepted)),
            gradient_max_norm: last.map_or(f64::NAN, |i| i.gradient_max_norm),
            step_norm: last.map_or(f64::NAN, |i| i.step_norm),
            radius: last.map_or(f64::NAN, |i| i.radius),
            device_copies: p.lent.copies as i64,
            arrays_in_place: p.lent.in_place as i64,
            preconditioner: last
                .and_then(|i| Preconditioner::named(i.preconditioner))
                .map_or(Preconditioner::Auto as i32, |of| of as i32),
            levels: p.grids.iter().map(|of| of.levels.len() as i32).max().unwrap_or(0),
            eta: last.and_then(|i| i.eta).unwrap_or(f64::NAN),
            setup_seconds: p.setup_seconds,
            level_bytes: p.grids.iter().map(|of| of.bytes as i64).sum(),
            operator_complexity: p.grids.iter().map(|of| of.operator_complexity).fold(0.0, f64::max),
        }
    }
}

/// `SUMSQ_RUNNING`.
pub const RUNNING: i32 = 0;

/// The `sumsq_termination` of the header.
pub fn code(termination: Termination) -> i32 {
    match termination {
        Termination::GradientTolerance => 1,
        Termination::FunctionTolerance => 2,
        Termination::StepTolerance => 3,
        Termination::NoiseFloor => 4,
        Termination::MaxIterations => 5,
        Termination::MaxSeconds => 6,
        Termination::UserAbort => 7,
        Termination::MinRadius => 8,
        Termination::NoFreeUnknown => 9,
        Termination::Diverged => 10,
        Termination::InvalidSteps => 11,
        Termination::Interrupted => 12,
        Termination::Failed => 13,
    }
}

/// The name of a code, for C: that of [`Termination::name`].
pub fn name(code: i32) -> &'static CStr {
    match code {
        RUNNING => c"running",
        1 => c"gradient_tolerance",
        2 => c"function_tolerance",
        3 => c"step_tolerance",
        4 => c"noise_floor",
        5 => c"max_iterations",
        6 => c"max_seconds",
        7 => c"user_abort",
        8 => c"min_radius",
        9 => c"no_free_unknown",
        10 => c"diverged",
        11 => c"invalid_steps",
        12 => c"interrupted",
        13 => c"failed",
        _ => c"unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Termination::*;

    #[test]
    fn names_agree_with_the_report_of_the_library() {
        let all =
            [GradientTolerance, FunctionTolerance, StepTolerance, NoiseFloor, MaxIterations, MaxSeconds]
                .into_iter()
                .chain([UserAbort, MinRadius, NoFreeUnknown, Diverged, InvalidSteps, Interrupted, Failed]);
        for t in all {
            assert_eq!(name(code(t)).to_str(), Ok(t.name()));
        }
    }
}
