//! The meaning of the language: each theme against an oracle of its own, in the reference evaluator and as machine code.

mod boundaries;
mod buffers;
mod conversions;
mod fast;
mod functions;
mod half;
mod inline_reductions;
mod integers;
mod mixed;
mod neighbours;
mod random;
mod reductions;
mod strict;
mod strict_expressions;
mod types;

use sumsq_codegen::{Pipeline, ScalarType, Schedule, Tail};
use sumsq_codegen_testing::reference::{Bindings, Realization, Value};

/// A one-dimensional input.
pub fn row(ty: ScalarType, values: Vec<Value>) -> Realization {
    Realization {
        types: vec![ty],
        min: vec![0],
        extents: vec![values.len()],
        halo: vec![0],
        planes: vec![values],
    }
}

pub fn bindings(inputs: Vec<(&str, Realization)>) -> Bindings {
    let inputs = inputs.into_iter().map(|(n, r)| (n.into(), r)).collect();
    Bindings { inputs, params: Default::default() }
}

/// No directives, and every output in vectors of `lanes`.
pub fn scalar_and_vector(p: &Pipeline, lanes: i32) -> [Schedule; 2] {
    let mut vector = Schedule::new();
    for o in &p.outputs {
        let x = p.funcs[&o.func].vars[0].name().clone();
        vector.func(&o.func).vectorize(&x, lanes, Tail::Predicate);
    }
    [Schedule::new(), vector]
}
