//! The seeds of outputs, with which adjoints begin.

use crate::analysis::algebra::Interval;
use crate::analysis::algebra::build::sub;
use crate::error::Error;
use crate::expr::{Expr, Name};
use crate::func::{Pipeline, Shape};
use crate::gradient::terms::Target;
use crate::gradient::tidy::tidy;
use crate::plan::validate::error;
use crate::types::ScalarType;

/// The adjoint of an output.
pub(super) struct Seed {
    pub output: Name,
    /// A Func, input or parameter; none stands for 1.
    pub by: Option<Name>,
    /// Coordinates at which the output counts.
    pub domain: Vec<Interval>,
}

impl Seed {
    /// The seeds of all outputs that have one.
    pub(super) fn all(p: &Pipeline, named: &[(&str, &str)]) -> Result<Vec<Seed>, Error> {
        let mut seeds: Vec<Seed> = vec![];
        for (output, by) in named {
            let seed = Seed::new(p, &Name::from(*output), &Name::from(*by))?;
            if let Some(Seed { by: Some(other), .. }) = seeds.iter().find(|s| s.output == seed.output) {
                let message = format!("{output} has two seeds, {other} and {by}: add them up in a Func");
                return Err(error(p, message));
            }
            seeds.push(seed);
        }
        for o in &p.outputs {
            let f = &p.funcs[&o.func];
            let is_scalar = f.vars.is_empty() && f.types().iter().any(|t| t.is_float());
            if is_scalar && !seeds.iter().any(|s| s.output == o.func) {
                seeds.push(Seed { output: o.func.clone(), by: None, domain: vec![] });
            }
        }
        let none = "no output has a seed, and none is a scalar: name an adjoint for one";
        if seeds.is_empty() { Err(error(p, none.into())) } else { Ok(seeds) }
    }

    /// `by` as the seed of `output`.
    fn new(p: &Pipeline, output: &Name, by: &Name) -> Result<Seed, Error> {
        let refuse = |message: String| Err(error(p, message));
        if !p.outputs.iter().any(|o| o.func == *output) {
            return refuse(format!("{by} is the seed of {output}, which is no output"));
        }
        let Some(target) = Target::find(p, by) else {
            return refuse(format!("there is no {by}, the seed of {output}"));
        };
        let f = &p.funcs[output];
        let (is, wanted) = (target.vars.len(), f.vars.len());
        if is != wanted {
            return refuse(format!("{by} has {is} dimensions: the seed of {output} has {wanted}"));
        }
        let floats: Vec<ScalarType> = f.types().into_iter().filter(|t| t.is_float()).collect();
        if floats != target.types || floats.is_empty() {
            let list = |types: &[ScalarType]| types.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ");
            let (is, wanted) = (list(&target.types), list(&floats));
            return refuse(format!("{by} is of ({is}): the seed of {output} is of its floats, ({wanted})"));
        }
        let own = domain(&p.shape(&f.name), f.vars.len());
        let domain = p.inputs.get(by).map_or(own.clone(), |i| domain(&i.shape(), i.dims));
        for (d, (is, wanted)) in domain.iter().zip(&own).enumerate() {
            // Sizes that are not numbers yet may differ by one.
            let differ = |a: &Expr, b: &Expr| sub(a, b).as_int().is_some_and(|apart| apart != 0);
            if differ(&is.min, &wanted.min) || differ(&is.max, &wanted.max) {
                let [a, b, c, e] = [&is.min, &is.max, &wanted.min, &wanted.max].map(tidy);
                return refuse(format!(
                    "{by} covers {a} to {b} of dimension {d}: {output}, of which it is the seed, covers {c} to {e}"
                ));
            }
        }
        Ok(Seed { domain, output: output.clone(), by: Some(by.clone()) })
    }
}

/// The domain of a buffer.
pub(super) fn domain(shape: &Shape, dims: usize) -> Vec<Interval> {
    let one = |d| {
        let min = shape.min(d);
        Interval { max: tidy(&(&min + shape.extent(d) - 1)), min }
    };
    (0..dims).map(one).collect()
}
