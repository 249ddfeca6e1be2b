//! Inputs and parameters as given at run time: checked, and every parameter with its number.

use super::number::{Number, constant};
use super::{Bindings, Realization, Value};
use rustc_hash::FxHashMap;
use sumsq_codegen::error::Error;
use sumsq_codegen::expr::{Name, Param, Part};
use sumsq_codegen::func::Pipeline;
use sumsq_codegen::plan::validate::error;

/// Checks all that is given, and gives every parameter its number, implied extents included.
pub fn bind<N: Number>(
    p: &Pipeline,
    b: &Bindings,
    directions: &Bindings,
    domains: &[Vec<(i32, usize)>],
) -> Result<FxHashMap<Param, N>, Error> {
    let mut params = FxHashMap::default();
    for name in p.params.keys() {
        let value = b.params.get(name).ok_or_else(|| refusal(p, name, "parameter has no value"))?;
        let direction = || directions.params.get(name).map_or(0.0, |d| d.as_f64());
        params.insert(Param::Named(name.clone()), N::new(*value, direction));
    }
    let mut sizes_of = |name: &Name, domain: &[(i32, usize)]| {
        for (d, &(min, n)) in domain.iter().enumerate() {
            params.insert(Param::Of(name.clone(), Part::Min(d)), constant(Value::Int(min as i64)));
            params.insert(Param::Of(name.clone(), Part::Extent(d)), constant(Value::Int(n as i64)));
        }
    };
    for (name, input) in &p.inputs {
        let r = b.inputs.get(name).ok_or_else(|| refusal(p, name, "input is not bound"))?;
        if r.types != input.types || r.extents.len() != input.dims {
            let (want, came) = (&input.types, &r.types);
            let (dims, n) = (input.dims, r.extents.len());
            return Err(refusal(p, name, format!("expected {want:?} of {dims} dims, came {came:?} of {n}")));
        }
        let domain: Vec<_> = r.min.iter().copied().zip(r.extents.iter().copied()).collect();
        sizes_of(name, &domain);
    }
    if domains.len() != p.outputs.len() {
        let (n, m) = (domains.len(), p.outputs.len());
        return Err(error(p, format!("{n} extents for {m} outputs")));
    }
    for (o, domain) in p.outputs.iter().zip(domains) {
        if domain.len() != p.funcs[&o.func].vars.len() {
            return Err(refusal(p, &o.func, "an extent per dimension is needed"));
        }
        sizes_of(&o.func, domain);
    }
    check_directions(p, b, directions)?;
    Ok(params)
}

/// Refuses a direction of what is not there, and one of another shape than what it moves.
fn check_directions(p: &Pipeline, b: &Bindings, directions: &Bindings) -> Result<(), Error> {
    if let Some(name) = directions.params.keys().find(|&n| !p.params.contains_key(n)) {
        return Err(refusal(p, name, "a direction of what is no parameter"));
    }
    for (name, d) in &directions.inputs {
        let Some(r) = b.inputs.get(name).filter(|_| p.inputs.contains_key(name)) else {
            return Err(refusal(p, name, "a direction of what is no input"));
        };
        let shape = |r: &Realization| (r.planes.len(), r.min.clone(), r.extents.clone());
        if shape(r) != shape(d) {
            let (n, min, extents) = shape(d);
            let message =
                format!("a direction of {n} elements over {extents:?} from {min:?} is of other shape");
            return Err(refusal(p, name, message));
        }
    }
    Ok(())
}

/// The error that refuses what was given for `name`.
fn refusal(p: &Pipeline, name: &Name, message: impl Into<String>) -> Error {
    Error::Bind { pipeline: p.name.clone(), name: name.clone(), message: message.into() }
}
