//! Funcs as tapes, and how their updates treat each dimension.

use super::number::Number;
use super::tape::{self, Tape};
use rustc_hash::FxHashMap;
use sumsq_codegen::error::Error;
use sumsq_codegen::expr::{Expr, Name, Param};
use sumsq_codegen::func::{Func, Pipeline, Update};
use sumsq_codegen::plan::validate::is_var;

/// Treatment of one dimension of a Func by its updates.
#[derive(Clone, Copy, PartialEq)]
pub enum Dimension {
    /// Every update has the pure variable there: slices do not interact.
    Free,
    /// Some have it: they range over the demanded box.
    Boxed,
    /// None has it.
    Open,
}

/// A Func compiled to tapes.
pub struct Plan<N> {
    /// Values of the pure definition over its variables.
    pub pure: Tape<N>,
    /// In the order in which they run.
    pub updates: Vec<UpdatePlan<N>>,
    /// Of each coordinate.
    pub dimensions: Vec<Dimension>,
}

/// An update compiled to tapes over its pure variables, then (not for the bounds) its reduction variables.
pub struct UpdatePlan<N> {
    /// Dimensions with the pure variable in its own place.
    pub pure_dims: Vec<usize>,
    /// `min, extent` per reduction variable.
    pub bounds: Tape<N>,
    /// Points where this is false are skipped.
    pub predicate: Option<Tape<N>>,
    /// Coordinates, then values.
    pub body: Tape<N>,
}

impl<N: Number> Plan<N> {
    /// The tapes of `f`, whose parameters have the values `params`.
    pub fn new(p: &Pipeline, f: &Func, params: &FxHashMap<Param, N>) -> Result<Plan<N>, Error> {
        let vars: Vec<Name> = f.vars.iter().map(|v| v.name().clone()).collect();
        let dimensions = (0..vars.len())
            .map(|d| match f.updates.iter().filter(|u| is_var(&u.args[d], f.vars[d].name())).count() {
                n if n == f.updates.len() => Dimension::Free,
                0 => Dimension::Open,
                _ => Dimension::Boxed,
            })
            .collect();
        let pure = tape::compile(&f.values, &vars, params, &p.name)?;
        let updates = f.updates.iter().map(|u| UpdatePlan::new(p, f, u, params)).collect::<Result<_, _>>()?;
        Ok(Plan { pure, updates, dimensions })
    }
}

impl<N: Number> UpdatePlan<N> {
    fn new(p: &Pipeline, f: &Func, u: &Update, params: &FxHashMap<Param, N>) -> Result<UpdatePlan<N>, Error> {
        let pure_dims: Vec<usize> =
            (0..f.vars.len()).filter(|&d| is_var(&u.args[d], f.vars[d].name())).collect();
        let mut vars: Vec<Name> = pure_dims.iter().map(|&d| f.vars[d].name().clone()).collect();
        let bounds: Vec<Expr> = u.rdom.vars.iter().flat_map(|v| [v.min.clone(), v.extent.clone()]).collect();
        let bounds = tape::compile(&bounds, &vars, params, &p.name)?;
        vars.extend(u.rdom.vars.iter().map(|v| v.name.clone()));
        let compile = |exprs: &[Expr]| tape::compile(exprs, &vars, params, &p.name);
        let predicate = u.rdom.predicate.as_ref().map(|e| compile(std::slice::from_ref(e))).transpose()?;
        let body = compile(&[&u.args[..], &u.values[..]].concat())?;
        Ok(UpdatePlan { pure_dims, bounds, predicate, body })
    }
}
