//! Helpers of these tests.

use sumsq_codegen::Target;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool};
use sumsq_codegen::{Error, Input, Pipeline, ScalarType, Schedule, Var};

/// The schedule of a text.
pub fn schedule(text: &str) -> Schedule {
    Schedule::parse(text).expect("text")
}

/// A pipeline with `in`, an i32 input of two dimensions, and the variables of Funcs over the same space.
pub fn plane(name: &str) -> (Pipeline, Input, [Var; 2]) {
    let mut p = Pipeline::new(name);
    let i = p.input(Input::new("in", &[ScalarType::I32], 2));
    (p, i, ["x", "y"].map(Var::new))
}

/// The text with which a schedule is refused.
pub fn refused(p: &Pipeline, s: &Schedule) -> String {
    let options = LowerOptions { verify: true, ..LowerOptions::default() };
    match lower(p, s, &options) {
        Ok(_) => panic!("legal:\n{s}"),
        Err(e @ Error::Schedule { .. }) => e.to_string(),
        Err(e) => panic!("{e}\n{s}"),
    }
}

/// Compiles `p` and runs it on input `in` and output `out` of these extents, filled with zeros.
pub fn ran(p: &Pipeline, s: &Schedule, input: &[i32], out: &[i32]) -> Result<(), Error> {
    let compiled = Compiled::new(p, s, &Target::host())?;
    let buffer = |n: &[i32]| Buffer::new(BufferSpec::new(ScalarType::I32, n)).expect("memory");
    let (input, out) = (buffer(input), buffer(out));
    compiled.run(&Pool::new(1), &[("in", &input), ("out", &out)], &[])
}

/// The places of some texts in the nests rise.
pub fn in_order(nests: &str, texts: &[&str]) {
    let mut from = 0;
    for t in texts {
        from +=
            nests[from..].find(t).unwrap_or_else(|| panic!("{t} is not there, or too early, in\n{nests}"))
                + t.len();
    }
}
