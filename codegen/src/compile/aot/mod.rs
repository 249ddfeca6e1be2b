//! Ahead of time: a pipeline as an object file and a C header.
//!
//! ```text
//! let library = compile_to_object(&pipeline, &schedule, &target)?;   // NAME.o and NAME.h
//! library.write(dir)?; write_runtime(dir)?;                          // and sumsq_runtime.{h,c}
//! $ cc program.c NAME.o sumsq_runtime.c -lm -lpthread
//! ```
//! The header declares `int NAME(const sumsq_buffer *..., params...)`, with the buffers of the signature in their order and then
//! the parameters; those of a tuple of several types are `f_0`, `f_1`, ... It returns 0, or says why not in `sumsq_message()`, in
//! the words of [`super::Compiled`], whose code it is too. What the code calls comes from the runtime, a C file that needs libc,
//! libm and threads alone.

mod c;
mod header;

use super::bind::Plan;
// For C programs that tests write around a library.
#[doc(hidden)]
pub use c::c_type;

use super::signature::Signature;
use crate::backend::llvm;
use crate::error::{Error, bind_error};
use crate::func::Pipeline;
use crate::limits::Limits;
use crate::lower::{LowerOptions, lower};
use crate::schedule::Schedule;
use crate::stack::on_large_stack;
use crate::target::Target;
use header::Header;
use std::path::Path;

/// The runtime's header and its source.
const RUNTIME_H: &str = include_str!("../../../runtime/sumsq_runtime.h");
const RUNTIME_C: &str = include_str!("../../../runtime/sumsq_runtime.c");

/// Dimensions of a buffer that the runtime has room for.
const MAX_DIMS: usize = 8;

/// A compiled pipeline for C.
pub struct Library {
    /// Name of the function and of the files.
    pub name: String,
    /// An object file of the target's format.
    pub object: Vec<u8>,
    /// The C header.
    pub header: String,
}

impl Library {
    /// Writes `NAME.o` and `NAME.h`.
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        std::fs::write(dir.join(format!("{}.o", self.name)), &self.object)?;
        std::fs::write(dir.join(format!("{}.h", self.name)), &self.header)
    }
}

/// Writes the runtime's two files.
pub fn write_runtime(dir: &Path) -> std::io::Result<()> {
    std::fs::write(dir.join("sumsq_runtime.h"), RUNTIME_H)?;
    std::fs::write(dir.join("sumsq_runtime.c"), RUNTIME_C)
}

/// Compiles `p` under `s` for `target`. The pipeline's name and those of its buffers and parameters must be C identifiers.
pub fn compile_to_object(p: &Pipeline, s: &Schedule, target: &Target) -> Result<Library, Error> {
    on_large_stack(|| compile_here(p, s, target))
}

fn compile_here(p: &Pipeline, s: &Schedule, target: &Target) -> Result<Library, Error> {
    let signature = Signature::of(p, s)?;
    let f = lower(p, s, &LowerOptions { profile: false, ..LowerOptions::default() })?;
    let plan = Plan::new(&f, signature.clone())?;
    check_names(&p.name, &signature)?;
    let (object, assertions) = llvm::object(&f, &format!("{}_entry", p.name), target, &Limits::default())?;
    let header = Header { name: &p.name, signature: &signature, plan: &plan, assertions: &assertions };
    Ok(Library { name: p.name.clone(), object, header: header.text()? })
}

/// Refuses names that C cannot say, or not apart.
fn check_names(pipeline: &str, signature: &Signature) -> Result<(), Error> {
    let buffers = signature.buffers.iter().map(c::buffer_name);
    let names: Vec<String> = buffers.chain(signature.params.keys().map(|n| n.to_string())).collect();
    for name in std::iter::once(pipeline).chain(names.iter().map(String::as_str)) {
        if !c::is_identifier(name) {
            return Err(bind_error(
                pipeline,
                name,
                "is no C identifier; give it another name for use from C",
            ));
        }
    }
    if let Some((_, name)) = names.iter().enumerate().find(|(i, n)| names[..*i].contains(n)) {
        return Err(bind_error(pipeline, name.as_str(), "is the name of two arguments in C"));
    }
    if let Some(name) = names.iter().find(|n| **n == header::pipeline_name(pipeline)) {
        let message = "is a name of the header's own; give it another name for use from C";
        return Err(bind_error(pipeline, name.as_str(), message));
    }
    match signature.buffers.iter().find(|b| b.dims > MAX_DIMS) {
        Some(b) => {
            let message = format!("has {} dimensions; from C there are {MAX_DIMS} at most", b.dims);
            Err(bind_error(pipeline, b.name.clone(), message))
        }
        None => Ok(()),
    }
}
