//! The LLVM back end.
//!
//! ```text
//! LoweredFunction -> emit (expr, arith, memory, stmt) -> Ir -> optimize -> object file -> jit -> entry point
//! ```
//! | file | what |
//! |---|---|
//! | `ir.rs` | a thin layer over LLVM's C interface; `message.rs` its strings and errors |
//! | `alias.rs` | which buffers may share memory |
//! | `scope.rs` | values of names and of expressions already emitted |
//! | `expr.rs` | expressions; `arith.rs` their operators, `convert.rs` floats to integers, `integers.rs` what has an instruction for several operators, `memory.rs` loads and stores, `masked.rs` those under a mask |
//! | `stmt.rs` | statements; `parallel.rs` outlined loop bodies, `atomic.rs` indivisible updates, `profile.rs` who computes |
//! | `kernel.rs`, `device.rs` | kernels of a GPU: blocks, threads, barriers; `warp.rs` sums over lanes |
//! | `optimize.rs` | target machine, pass list, object and assembly; `shares.rs` a large module on several threads |
//! | `jit.rs` | linking into this process |
//!
//! Vectors are explicit in our IR, so LLVM's vectorisers do not run. Floats are strict: no flag is set, unless the
//! whole function is `relaxed` (`reassoc nsz contract`; no `nsz` behind the first terms of a long sum).

mod access;
mod alias;
mod arith;
mod atomic;
mod convert;
mod device;
mod expr;
mod integers;
mod ir;
mod jit;
mod kernel;
mod masked;
mod maths;
mod memory;
pub(in crate::backend) mod message;
mod optimize;
mod parallel;
mod parts;
mod profile;
mod record;
mod runs;
mod scope;
mod shares;
mod stmt;
mod tables;
mod warp;

use crate::backend::abi::EntryFn;
use crate::backend::nvptx::widened;
use crate::error::Error;
use crate::ir::stmt::LoweredFunction;
use crate::jobs::cores;
use crate::limits::{Effort, Limits};
use crate::stack::on_large_stack;
use crate::target::Target;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[cfg(test)]
pub(crate) use shares::tests;

pub use jit::Code;
use optimize::{Machine, Object};

/// Machine code of one function, loaded into this process.
pub struct Kernel {
    /// Name of the function.
    pub name: String,
    /// Its assertions in program order: assertion k fails with code k + 1.
    pub assertions: Vec<String>,
    code: Code,
}

/// A function as text at the stages of the back end.
pub struct Listing {
    /// LLVM IR as emitted.
    pub llvm: String,
    /// LLVM IR after the passes.
    pub optimized: String,
    /// Assembly.
    pub asm: String,
}

/// Machine code of one function that is not loaded yet.
#[derive(Serialize, Deserialize)]
pub struct Relocatable {
    name: String,
    symbol: String,
    assertions: Vec<String>,
    /// Number of its object files.
    count: usize,
    /// The object files, which are kept apart from the rest.
    #[serde(skip)]
    objects: Vec<Vec<u8>>,
}

impl Relocatable {
    /// Compiles `f` for `target`. Its entry point is called `symbol`, by default as nothing else in this process.
    pub fn compile(
        f: &LoweredFunction,
        symbol: Option<String>,
        target: &Target,
        limits: &Limits,
    ) -> Result<Relocatable, Error> {
        let symbol = symbol.unwrap_or_else(|| jit::unique_symbol(&f.name));
        let (objects, assertions) = objects(f, &symbol, target, limits)?;
        Ok(Relocatable { name: f.name.clone(), symbol, assertions, count: objects.len(), objects })
    }

    /// Its object files, empty ones where it was read without them.
    pub(crate) fn pieces(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        self.objects.resize(self.count, vec![]);
        self.objects.iter_mut()
    }

    /// Loads it into this process.
    pub fn load(self) -> Result<Kernel, Error> {
        let Relocatable { name, symbol, assertions, objects, .. } = self;
        let objects = objects.iter().map(|bytes| Object::from_bytes(bytes)).collect();
        match Code::load(objects, &symbol) {
            Ok(code) => Ok(Kernel { name, assertions, code }),
            Err(message) => Err(Error::Backend { pipeline: name, message }),
        }
    }
}

impl Kernel {
    /// The entry point; good as long as the kernel lives.
    pub fn entry(&self) -> EntryFn {
        self.code.entry()
    }
}

/// `f` as emitted, if limits admit that.
fn admitted(
    f: &LoweredFunction,
    target: &Target,
    machine: &Machine,
    limits: &Limits,
) -> Result<stmt::Module, Error> {
    let module =
        emit(f, target, machine).map_err(|message| Error::Backend { pipeline: f.name.clone(), message })?;
    let (instructions, block) = module.ir.instructions();
    limits.admit(&f.name, instructions, block)?;
    Ok(module)
}

/// Fails where `f` has more instructions than limits admit.
pub fn admit(f: &LoweredFunction, target: &Target, limits: &Limits) -> Result<(), Error> {
    let machine = Machine::new(target, limits.effort);
    let machine = machine.map_err(|message| Error::Backend { pipeline: f.name.clone(), message })?;
    admitted(f, target, &machine, limits).map(drop)
}

/// `f` as an object file whose entry point is called `symbol`, and its assertions as in [`Kernel`]. Writes `kernel.ll`, `kernel.opt.ll` and
/// `kernel.s` to `$SUMSQ_DUMP/<name>/` if that variable is set.
pub fn object(
    f: &LoweredFunction,
    symbol: &str,
    target: &Target,
    limits: &Limits,
) -> Result<(Vec<u8>, Vec<String>), Error> {
    let fail = |message| Error::Backend { pipeline: f.name.clone(), message };
    let machine = Machine::new(target, limits.effort).map_err(fail)?;
    let module = admitted(f, target, &machine, limits)?;
    whole(module, &f.name, symbol, &machine, limits)
}

/// As [`object`], but a large function as several object files, made on all cores.
fn objects(
    f: &LoweredFunction,
    symbol: &str,
    target: &Target,
    limits: &Limits,
) -> Result<(Vec<Vec<u8>>, Vec<String>), Error> {
    let fail = |message| Error::Backend { pipeline: f.name.clone(), message };
    let machine = Machine::new(target, limits.effort).map_err(fail)?;
    let module = admitted(f, target, &machine, limits)?;
    let shares = shares::shares(&module, cores());
    if shares.len() == 1 || dump_dir(&f.name).is_some() {
        let (object, assertions) = whole(module, &f.name, symbol, &machine, limits)?;
        return Ok((vec![object], assertions));
    }
    module.name_after(symbol);
    let objects = shares::objects(&module, &f.name, target, limits, shares)?;
    Ok((objects, module.assertions))
}

/// A module as one object file, and its assertions.
fn whole(
    module: stmt::Module,
    name: &str,
    symbol: &str,
    machine: &Machine,
    limits: &Limits,
) -> Result<(Vec<u8>, Vec<String>), Error> {
    let fail = |message| Error::Backend { pipeline: name.into(), message };
    module.hide_bodies();
    let dump = dump_dir(name);
    if let Some(dir) = &dump {
        write(dir, "kernel.ll", &module.ir.text()).map_err(fail)?;
    }
    machine.optimize(&module.ir).map_err(fail)?;
    if let Some(dir) = &dump {
        write(dir, "kernel.opt.ll", &module.ir.text()).map_err(fail)?;
        write(dir, "kernel.s", &machine.assembly(&module.ir).map_err(fail)?).map_err(fail)?;
    }
    limits.in_time(name)?;
    module.ir.rename(module.entry, symbol);
    let object = machine.object(&module.ir).map_err(fail)?;
    Ok((object.bytes().to_vec(), module.assertions))
}

/// The PTX of kernels, one module.
pub(crate) fn ptx(
    name: &str,
    kernels: &[crate::ir::segments::Kernel],
    target: &Target,
    limits: &Limits,
) -> Result<String, Error> {
    let fail = |message| Error::Backend { pipeline: name.into(), message };
    let machine = Machine::new(target, Effort::Full).map_err(fail)?;
    let ir = kernel::emit_kernels(name, kernels, target).map_err(fail)?;
    machine.prepare(&ir);
    ir.verify().map_err(|e| fail(format!("LLVM refused the module: {e}")))?;
    let (instructions, block) = ir.instructions();
    limits.admit(name, instructions, block)?;
    let dump = dump_dir(name);
    if let Some(dir) = &dump {
        write(dir, "kernel.ll", &ir.text()).map_err(fail)?;
    }
    machine.optimize(&ir).map_err(fail)?;
    if let Some(dir) = &dump {
        write(dir, "kernel.opt.ll", &ir.text()).map_err(fail)?;
    }
    limits.in_time(name)?;
    let text = widened(&machine.assembly(&ir).map_err(fail)?);
    if let Some(dir) = &dump {
        write(dir, "kernel.ptx", &text).map_err(fail)?;
    }
    Ok(text)
}

/// The PTX of the kernel that steers a device's loops, and its name: it counts iterations, and says whether the loop goes on.
///
/// # Errors
/// LLVM has no code for the target.
pub fn tick(target: &Target, in_chunks: bool) -> Result<(String, &'static str), Error> {
    let fail = |message| Error::Backend { pipeline: "loop".into(), message };
    let machine = Machine::new(target, Effort::Full).map_err(fail)?;
    let ir = kernel::emit_tick(target, in_chunks);
    machine.prepare(&ir);
    ir.verify().map_err(fail)?;
    machine.optimize(&ir).map_err(fail)?;
    Ok((machine.assembly(&ir).map_err(fail)?, kernel::TICK))
}

/// LLVM's version.
pub fn version() -> String {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: the three numbers are ours.
    unsafe { inkwell::llvm_sys::core::LLVMGetVersion(&mut major, &mut minor, &mut patch) };
    format!("{major}.{minor}.{patch}")
}

/// The stages of `f` as text, without loading it.
pub fn listing(f: &LoweredFunction, target: &Target) -> Result<Listing, Error> {
    listing_within(f, target, &Limits::default())
}

/// As [`listing`], within limits.
pub fn listing_within(f: &LoweredFunction, target: &Target, limits: &Limits) -> Result<Listing, Error> {
    on_large_stack(|| listing_here(f, target, limits))
}

fn listing_here(f: &LoweredFunction, target: &Target, limits: &Limits) -> Result<Listing, Error> {
    let fail = |message| Error::Backend { pipeline: f.name.clone(), message };
    let machine = Machine::new(target, Effort::Full).map_err(fail)?;
    let module = admitted(f, target, &machine, limits)?;
    module.hide_bodies();
    let llvm = module.ir.text();
    machine.optimize(&module.ir).map_err(fail)?;
    limits.in_time(&f.name)?;
    let optimized = module.ir.text();
    let asm = machine.assembly(&module.ir).map_err(fail)?;
    Ok(Listing { llvm, optimized, asm })
}

fn emit(f: &LoweredFunction, target: &Target, machine: &Machine) -> Result<stmt::Module, String> {
    let module = stmt::emit_function(f, target)?;
    machine.prepare(&module.ir);
    module.ir.verify().map_err(|e| format!("LLVM refused the module: {e}"))?;
    Ok(module)
}

fn dump_dir(name: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("SUMSQ_DUMP").filter(|d| !d.is_empty())?;
    Some(PathBuf::from(dir).join(name))
}

fn write(dir: &std::path::Path, file: &str, text: &str) -> Result<(), String> {
    let path = dir.join(file);
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|e| format!("SUMSQ_DUMP: cannot write {}: {e}", path.display()))
}
