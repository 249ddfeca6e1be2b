//! Solver parameters of the published interface, with its defaults.

use crate::failure::{Failure, Result};
use std::ffi::c_void;
use sumsq::{Method, SolveOptions};

/// Settings made by `Opt_SetSolverParameter` so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// `nIterations`: steps.
    pub iterations: usize,
    /// `lIterations`: PCG iterations per step.
    pub linear_iterations: usize,
    min_relative_decrease: f64,
    min_diagonal: f64,
    max_diagonal: f64,
    min_radius: f64,
    max_radius: f64,
    /// PCG stops where k (Q_k - Q_{k-1}) <= q_tolerance Q_k: the solver's forcing term.
    q_tolerance: f64,
    function_tolerance: f64,
    gradient_tolerance: f64,
    step_tolerance: f64,
    radius: f64,
    radius_decrease_factor: f64,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            iterations: 10,
            linear_iterations: 10,
            min_relative_decrease: 1e-3,
            min_diagonal: 1e-6,
            max_diagonal: 1e32,
            min_radius: 1e-32,
            max_radius: 1e16,
            q_tolerance: 1e-4,
            function_tolerance: 1e-6,
            gradient_tolerance: 1e-10,
            step_tolerance: 1e-8,
            radius: 1e4,
            radius_decrease_factor: 2.0,
        }
    }
}

impl Parameters {
    /// Sets the parameter `name`; on an error nothing has changed. `residual_reset_period` has no effect by design: PCG never recomputes
    /// its residual.
    ///
    /// # Safety
    /// `value` is null or points to an int or float, whichever the parameter is.
    pub unsafe fn set(&mut self, name: &str, value: *const c_void) -> Result<()> {
        if value.is_null() {
            return Err(Failure::argument(format!("the value of `{name}` is a null pointer")));
        }
        // SAFETY: not null; an int by the contract, wherever this is called below.
        let count = || unsafe { value.cast::<i32>().read_unaligned() };
        // SAFETY: not null; a float by the contract, wherever this is called below.
        let number = || f64::from(unsafe { value.cast::<f32>().read_unaligned() });
        match name {
            "nIterations" => self.iterations = at_least(name, count(), 0)?,
            "lIterations" => self.linear_iterations = at_least(name, count(), 0)?,
            "residual_reset_period" => _ = at_least(name, count(), 1)?,
            "min_relative_decrease" => self.min_relative_decrease = not_negative(name, number())?,
            "min_trust_region_radius" => self.min_radius = not_negative(name, number())?,
            "max_trust_region_radius" => self.max_radius = positive(name, number())?,
            "q_tolerance" => self.q_tolerance = not_negative(name, number())?,
            "function_tolerance" => self.function_tolerance = not_negative(name, number())?,
            "gradient_tolerance" => self.gradient_tolerance = not_negative(name, number())?,
            "step_tolerance" => self.step_tolerance = not_negative(name, number())?,
            "trust_region_radius" => self.radius = positive(name, number())?,
            "radius_decrease_factor" => self.radius_decrease_factor = above_one(name, number())?,
            "min_lm_diagonal" => self.min_diagonal = positive(name, number())?,
            "max_lm_diagonal" => self.max_diagonal = positive(name, number())?,
            _ => return Err(Failure::argument(format!("there is no solver parameter `{name}`"))),
        }
        Ok(())
    }

    /// The options of a solve. Steps are counted by the caller, since `nIterations` may change between them.
    pub fn options(&self, method: Method) -> SolveOptions {
        SolveOptions {
            method,
            iterations: Some(usize::MAX),
            linear_iterations: Some(self.linear_iterations),
            // Gauss-Newton takes all of its linear iterations, as published: no step improves the model by nothing.
            forcing: if method == Method::GaussNewton { 0.0 } else { self.q_tolerance },
            radius: Some(self.radius),
            max_radius: self.max_radius,
            min_radius: self.min_radius,
            min_relative_decrease: self.min_relative_decrease,
            min_lm_diagonal: self.min_diagonal,
            max_lm_diagonal: self.max_diagonal,
            function_tolerance: Some(self.function_tolerance),
            running_scales: Some(false),
            gradient_tolerance: self.gradient_tolerance,
            step_tolerance: self.step_tolerance,
            radius_decrease_factor: self.radius_decrease_factor,
            ..SolveOptions::default()
        }
    }
}

fn at_least(name: &str, value: i32, least: i32) -> Result<usize> {
    let ok = usize::try_from(value).ok().filter(|_| value >= least);
    ok.ok_or_else(|| {
        Failure::argument(format!("`{name}`: expected an int of at least {least}, came {value}"))
    })
}

fn not_negative(name: &str, value: f64) -> Result<f64> {
    within(name, value, value >= 0.0, "a float of at least 0")
}

fn positive(name: &str, value: f64) -> Result<f64> {
    within(name, value, value > 0.0, "a float above 0")
}

fn above_one(name: &str, value: f64) -> Result<f64> {
    within(name, value, value > 1.0, "a float above 1")
}

fn within(name: &str, value: f64, ok: bool, expected: &str) -> Result<f64> {
    if ok && value.is_finite() {
        return Ok(value);
    }
    Err(Failure::argument(format!(
        "`{name}`: expected {expected}, came {value} (is it a pointer to a float?)"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(p: &mut Parameters, name: &str, value: f32) {
        // SAFETY: a float parameter.
        unsafe { p.set(name, (&raw const value).cast()) }.unwrap();
    }

    #[test]
    fn every_parameter_arrives_in_the_options() {
        let mut p = Parameters::default();
        let names = [
            "min_relative_decrease",
            "min_trust_region_radius",
            "max_trust_region_radius",
            "q_tolerance",
            "function_tolerance",
            "gradient_tolerance",
            "step_tolerance",
            "trust_region_radius",
            "radius_decrease_factor",
            "min_lm_diagonal",
            "max_lm_diagonal",
        ];
        names
            .iter()
            .zip([0.25, 0.5, 64.0, 0.125, 0.0625, 0.75, 0.375, 8.0, 4.0, 2.0, 32.0])
            .for_each(|(n, v)| set(&mut p, n, v));
        let count = 77i32;
        // SAFETY: an int parameter.
        unsafe { p.set("lIterations", (&raw const count).cast()) }.unwrap();
        let o = p.options(Method::LevenbergMarquardt);
        let radii = (o.min_radius, o.max_radius, o.radius, o.radius_decrease_factor);
        assert_eq!(radii, (0.5, 64.0, Some(8.0), 4.0));
        assert_eq!((o.min_lm_diagonal, o.max_lm_diagonal), (2.0, 32.0));
        assert_eq!((o.min_relative_decrease, o.function_tolerance, o.forcing), (0.25, Some(0.0625), 0.125));
        assert_eq!((o.gradient_tolerance, o.step_tolerance), (0.75, 0.375));
        assert_eq!(o.linear_iterations, Some(77));
        assert_eq!(p.options(Method::GaussNewton).forcing, 0.0);
    }

    #[test]
    fn defaults_are_the_published_ones_where_both_have_them() {
        let (ours, theirs) = (SolveOptions::default(), Parameters::default().options(Method::default()));
        assert_eq!(
            (ours.radius(), ours.max_radius, ours.min_radius, ours.radius_decrease_factor),
            (theirs.radius(), theirs.max_radius, theirs.min_radius, theirs.radius_decrease_factor)
        );
        assert_eq!(
            (ours.min_relative_decrease, ours.function_tolerance()),
            (theirs.min_relative_decrease, theirs.function_tolerance())
        );
        assert_eq!(
            (ours.gradient_tolerance, ours.step_tolerance),
            (theirs.gradient_tolerance, theirs.step_tolerance)
        );
        let diagonals = |o: &SolveOptions| (o.min_lm_diagonal, o.max_lm_diagonal);
        assert_eq!(diagonals(&ours), diagonals(&theirs));
    }
}
