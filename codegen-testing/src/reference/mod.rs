//! The reference evaluator: runs the definitions of a pipeline directly, slowly and obviously.
//!
//! It knows nothing of schedules, regions or loops, which makes it the oracle of all of them. A value of a Func is
//! computed when somebody asks for it, and remembered:
//!
//! * a Func without updates, point by point;
//! * a Func with updates, slice by slice: dimensions that every update leaves to its own pure variable do not
//!   interact, so that one *slice* (fixed coordinates in those dimensions) is computed at a time, by running the
//!   updates in order over a sparse map, a point not in the map having its pure value. Where a pure variable
//!   runs over another dimension of a slice, it ranges over the box that was asked for, which grows when the updates
//!   themselves read beyond it.
//!
//! With values or with dual numbers: [`evaluate_dual`] gives the slopes of all outputs along a direction of inputs and parameters.
//!
//! Sines, cosines, exponentials and logarithms are those of the f64 library, rounded to the type; other functions are the arithmetic of
//! their definitions ([`define`](sumsq_codegen::lower::expand_math::define)); everything else is exact.

mod bind;
mod dual;
mod evaluate;
mod number;
mod plan;
mod slope;
mod tape;
pub mod value;

pub use dual::evaluate_dual;
pub use evaluate::{evaluate, evaluate_over};
pub use value::{Value, ulps};

use indexmap::IndexMap;
use rustc_hash::FxHashMap;
use sumsq_codegen::error::Error;
use sumsq_codegen::expr::{Expr, Name, Param};
use sumsq_codegen::types::ScalarType;

/// The values of an input or output over `[min - halo, min + extent + halo)` in each dimension.
#[derive(Clone, PartialEq, Debug)]
pub struct Realization {
    /// Element type of each tuple element.
    pub types: Vec<ScalarType>,
    /// First coordinates, fastest dimension first.
    pub min: Vec<i32>,
    /// Domain, fastest dimension first.
    pub extents: Vec<usize>,
    /// Elements stored on either side of the domain.
    pub halo: Vec<usize>,
    /// One array per tuple element, of `prod(extent + 2 halo)` values, fastest dimension first.
    pub planes: Vec<Vec<Value>>,
}

impl Realization {
    /// Zeros without a halo.
    pub fn zeros(types: &[ScalarType], extents: &[usize]) -> Realization {
        let len = extents.iter().product();
        Realization {
            types: types.to_vec(),
            min: vec![0; extents.len()],
            extents: extents.to_vec(),
            halo: vec![0; extents.len()],
            planes: types.iter().map(|&t| vec![Value::zero(t); len]).collect(),
        }
    }

    /// The same values from other coordinates on.
    pub fn moved_to(mut self, min: &[i32]) -> Realization {
        self.min = min.to_vec();
        self
    }

    /// Values `f(coordinates, tuple element)` over the domain, rounded (integers: truncated) to `types`.
    pub fn from_fn(
        types: &[ScalarType],
        extents: &[usize],
        mut f: impl FnMut(&[i32], usize) -> f64,
    ) -> Realization {
        let mut r = Realization::zeros(types, extents);
        for (i, point) in r.points().into_iter().enumerate() {
            for (k, &ty) in types.iter().enumerate() {
                r.planes[k][i] = Value::of(ty, f(&point, k));
            }
        }
        r
    }

    /// Coordinates of the domain, in storage order if there is no halo.
    pub fn points(&self) -> Vec<Vec<i32>> {
        let mut points = Vec::with_capacity(self.extents.iter().product());
        let mut point = self.min.clone();
        if self.extents.contains(&0) {
            return points;
        }
        loop {
            points.push(point.clone());
            let advanced =
                point.iter_mut().zip(self.min.iter().zip(&self.extents)).any(|(c, (&min, &extent))| {
                    *c += 1;
                    let fits = ((*c - min) as usize) < extent;
                    if !fits {
                        *c = min;
                    }
                    fits
                });
            if !advanced {
                return points;
            }
        }
    }

    /// Tuple element `value` at `coords`, if stored.
    pub fn get(&self, coords: &[i32], value: usize) -> Option<Value> {
        let (mut index, mut stride) = (0, 1);
        for (d, &c) in coords.iter().enumerate() {
            let (extent, halo) = (self.extents[d], self.halo[d]);
            let (c, size) =
                (usize::try_from(c as i64 - self.min[d] as i64 + halo as i64).ok()?, extent + 2 * halo);
            if c >= size {
                return None;
            }
            index += c * stride;
            stride *= size;
        }
        self.planes.get(value)?.get(index).copied()
    }
}

/// Inputs and parameters given at run time.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    /// Values of every input.
    pub inputs: IndexMap<Name, Realization>,
    /// Values of every declared parameter (extents of buffers are implied).
    pub params: IndexMap<Name, Value>,
}

/// Evaluates a closed expression (no calls, no loads) over integer variables and parameters: one value per lane.
pub fn eval_lanes(e: &Expr, vars: &[(Name, i64)], params: &[(Param, Value)]) -> Result<Vec<Value>, Error> {
    struct NoCalls;
    impl tape::Calls<Value> for NoCalls {
        fn call(&mut self, name: &Name, _: &[i32], _: usize) -> Result<Value, Error> {
            Err(Error::Pipeline { pipeline: "expression".into(), message: format!("call of `{name}`") })
        }
    }
    let (names, values): (Vec<Name>, Vec<i64>) = vars.iter().cloned().unzip();
    let params: FxHashMap<Param, Value> = params.iter().cloned().collect();
    tape::compile(std::slice::from_ref(e), &names, &params, "expression")?.run(&values, &mut NoCalls)
}

/// [`eval_lanes`] of a scalar expression: the value of its only lane.
pub fn eval_scalar(e: &Expr, vars: &[(Name, i64)], params: &[(Param, Value)]) -> Result<Value, Error> {
    match eval_lanes(e, vars, params)?[..] {
        [v] => Ok(v),
        ref lanes => Err(Error::Pipeline {
            pipeline: "expression".into(),
            message: format!("a scalar was expected, not {} lanes", lanes.len()),
        }),
    }
}

#[cfg(test)]
mod tests;
