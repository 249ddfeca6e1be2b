//! Where adjoints begin: the seeds of outputs.

use crate::analysis::algebra::Interval;
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
    /// A Func or input; none stands for 1.
    pub by: Option<Name>,
    /// Where the output counts.
    pub domain: Vec<Interval>,
}

impl Seed {
    /// The seeds of all outputs that have one.
    pub(super) fn all(p: &Pipeline, named: &[(&str, &str)]) -> Result<Vec<Seed>, Error> {
        let mut seeds = vec![];
        for (output, by) in named {
            let (output, by) = (Name::from(*output), Name::from(*by));
            if !p.outputs.iter().any(|o| o.func == output) {
                return Err(error(p, format!("{by} is the seed of {output}, which is no output")));
            }
            if let Some(Seed { by: Some(other), .. }) = seeds.iter().find(|s: &&Seed| s.output == output) {
                let message = format!("{output} has two seeds, {other} and {by}: add them up in a Func");
                return Err(error(p, message));
            }
            let f = &p.funcs[&output];
            let target = Target::find(p, &by)
                .ok_or_else(|| error(p, format!("there is no {by}, the seed of {output}")))?;
            if target.vars.len() != f.vars.len() {
                let (is, wanted) = (target.vars.len(), f.vars.len());
                return Err(error(p, format!("{by} has {is} dimensions: the seed of {output} has {wanted}")));
            }
            let floats = |types: &[ScalarType]| -> Vec<ScalarType> {
                types.iter().filter(|t| t.is_float()).copied().collect()
            };
            if floats(&f.types()) != target.types || target.types.is_empty() {
                let list = |types: &[ScalarType]| {
                    types.iter().map(|t| t.name().to_string()).collect::<Vec<_>>().join(", ")
                };
                let (is, wanted) = (list(&target.types), list(&floats(&f.types())));
                return Err(error(
                    p,
                    format!("{by} is of ({is}): the seed of {output} is of its floats, ({wanted})"),
                ));
            }
            let own = domain(&p.shape(&f.name), f.vars.len());
            let domain = p.inputs.get(&by).map_or(own.clone(), |i| domain(&i.shape(), i.dims));
            for (d, (is, wanted)) in domain.iter().zip(&own).enumerate() {
                let ends = [&is.min, &is.max, &wanted.min, &wanted.max].map(Expr::as_int);
                if let [Some(a), Some(b), Some(c), Some(e)] = ends
                    && (a, b) != (c, e)
                {
                    let message = format!(
                        "{by} covers {a} to {b} of dimension {d}: {output}, of which it is the seed, covers {c} to {e}"
                    );
                    return Err(error(p, message));
                }
            }
            seeds.push(Seed { domain, output, by: Some(by) });
        }
        for o in &p.outputs {
            let f = &p.funcs[&o.func];
            let is_scalar = f.vars.is_empty() && f.types().iter().any(|t| t.is_float());
            if is_scalar && !seeds.iter().any(|s| s.output == o.func) {
                seeds.push(Seed { output: o.func.clone(), by: None, domain: vec![] });
            }
        }
        if seeds.is_empty() {
            return Err(error(
                p,
                "no output has a seed, and none is a scalar: name an adjoint for one".into(),
            ));
        }
        Ok(seeds)
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
