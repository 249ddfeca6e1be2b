//! From a tree of text to code: names become registers, offsets and addresses; each instruction is understood or refused.
//!
//! Literals become registers that hold them from the start, so that every operand is one.

mod access;
mod body;
mod instruction;
mod names;

use crate::code::Code;
use crate::error::{LoadError, Refusal};
use crate::memory::Memory;
use crate::module::{Kernel, Module, SHARED_MOST, SharedVariable};
use crate::text::{Function, Space, StatementKind, Text, Variable};
use body::Body;
use names::{Globals, Symbol};

/// First address of shared memory, so that null is none.
const SHARED_START: u64 = 0x400;

/// Bytes between two variables of shared memory.
const SHARED_GAP: u64 = 64;

/// Fills a module from a text.
pub fn decode<'a>(unit: &'a Text<'a>, module: &mut Module, memory: &mut Memory) -> Result<(), LoadError> {
    let mut globals = Globals::default();
    for variable in &unit.variables {
        let symbol = place(variable, module, memory)?;
        globals.declare(variable.name, symbol, variable.line)?;
    }
    let functions = definitions(&unit.functions);
    for (index, f) in functions.iter().enumerate() {
        globals.declare(f.name, Symbol::Function(index as u32), f.line)?;
    }
    for f in &functions {
        for statement in f.body.iter().flatten() {
            if let StatementKind::Variable(v) = &statement.kind
                && v.space == Space::Shared
            {
                // Names of shared variables within functions are those of the unit, and unlike.
                let symbol = place(v, module, memory)?;
                globals.declare(v.name, symbol, v.line)?;
            }
        }
    }
    for f in &functions {
        let code = Body::decode(f, &functions, &globals, &mut module.accesses)?;
        module.functions.push(code);
    }
    for (index, f) in functions.iter().enumerate().filter(|(_, f)| f.kernel) {
        let kernel = kernel(index, f, module)?;
        module.kernels.push(kernel);
    }
    Ok(())
}

/// Functions by their names: a definition stands for the declarations before it.
fn definitions<'a>(all: &'a [Function<'a>]) -> Vec<&'a Function<'a>> {
    let defined = |name: &str| all.iter().any(|f| f.name == name && f.body.is_some());
    let mut found: Vec<&Function> = vec![];
    for f in all {
        if f.body.is_some() || !defined(f.name) && !found.iter().any(|g| g.name == f.name) {
            found.push(f);
        }
    }
    found
}

/// Gives a variable of the module its address.
fn place(v: &Variable, module: &mut Module, memory: &mut Memory) -> Result<Symbol, LoadError> {
    match v.space {
        Space::Shared => {
            let end = module.shared.last().map_or(SHARED_START, |s| s.address + s.bytes as u64 + SHARED_GAP);
            let address = end.next_multiple_of(v.align.max(16) as u64);
            module.shared.push(SharedVariable { address, bytes: v.size, align: v.align });
            Ok(Symbol::Shared(module.shared.len() as u32 - 1, address))
        }
        Space::Global | Space::Const => {
            let taken = memory.allocate_variable(v.size as u64, &v.init, v.space == Space::Const);
            let address = taken.ok_or_else(|| Refusal::Memory.at(v.line))?;
            module.variables.push((v.name.to_string(), address, v.size as u64));
            Ok(Symbol::Address(address))
        }
        _ => Err(Refusal::Text(format!("`{}` stands outside of every function", v.name)).at(v.line)),
    }
}

/// A kernel with what all its functions need.
fn kernel(index: usize, f: &Function, module: &Module) -> Result<Kernel, LoadError> {
    let reached = reached(index as u32, &module.functions);
    let mut used: Vec<u32> =
        reached.iter().flat_map(|f| module.functions[*f as usize].shared.iter().copied()).collect();
    used.sort_unstable();
    used.dedup();
    let bytes = used.iter().fold(0, |end: usize, s| {
        let s = &module.shared[*s as usize];
        end.next_multiple_of(s.align) + s.bytes
    });
    if bytes > SHARED_MOST {
        let kernel = f.name.to_string();
        return Err(Refusal::Shared { kernel, bytes, most: SHARED_MOST }.at(f.line));
    }
    let code = &module.functions[index];
    Ok(Kernel {
        name: f.name.to_string(),
        params: code.own_params.iter().map(|(at, bytes)| (*at as usize, *bytes as usize)).collect(),
        shared: bytes,
        local: code.local.0,
        reqntid: f.reqntid,
        most_threads: f.maxntid.map_or(1024, |n| n.iter().product::<u32>().min(1024)),
        function: index as u32,
        shared_variables: used,
    })
}

/// A function and all that it may call.
fn reached(start: u32, functions: &[Code]) -> Vec<u32> {
    let mut found = vec![start];
    let mut at = 0;
    while at < found.len() {
        let calls = &functions[found[at] as usize].calls;
        calls.iter().for_each(|c| {
            if !found.contains(c) {
                found.push(*c);
            }
        });
        at += 1;
    }
    found
}
