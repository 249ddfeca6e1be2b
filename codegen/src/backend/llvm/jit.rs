//! Linking object files into this process, through LLVM's ORC.
//!
//! One JIT serves the whole process. Its only definitions are the symbols of [`abi::symbols`]; an object that refers to
//! anything else fails to load with an error. The code of an object is freed with its [`Code`].

use super::message::{c_string, check};
use super::optimize::Object;
use crate::backend::abi::{self, EntryFn};
use inkwell::llvm_sys::orc2::lljit::*;
use inkwell::llvm_sys::orc2::*;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Jit {
    lljit: LLVMOrcLLJITRef,
    dylib: LLVMOrcJITDylibRef,
}

// SAFETY: LLJIT and its session lock internally; the pointers are never freed.
unsafe impl Send for Jit {}
// SAFETY: as above.
unsafe impl Sync for Jit {}

/// Machine code with one entry point, alive as long as this value.
pub struct Code {
    tracker: LLVMOrcResourceTrackerRef,
    entry: EntryFn,
}

// SAFETY: generated code has no thread-bound state; the tracker is used under the session's lock.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the tracker is ours. Whoever runs the code borrows it, so nothing runs it now. Failure to
        // remove leaks the code, which is harmless.
        unsafe {
            let _ = check(LLVMOrcResourceTrackerRemove(self.tracker));
            LLVMOrcReleaseResourceTracker(self.tracker);
        }
    }
}

/// A symbol that no other object in this process has.
pub(super) fn unique_symbol(name: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("sumsq.{}.{name}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Code {
    /// Loads `object` and finds `symbol` in it.
    pub(super) fn load(object: Object, symbol: &str) -> Result<Code, String> {
        let jit = jit()?;
        let name = c_string(symbol);
        let mut address = 0;
        // SAFETY: the JIT lives as long as the process. Adding takes the object's buffer. The tracker is released in
        // `drop`, also on the error paths below.
        unsafe {
            let tracker = LLVMOrcJITDylibCreateResourceTracker(jit.dylib);
            let mut code = Code { tracker, entry: not_loaded };
            check(LLVMOrcLLJITAddObjectFileWithRT(jit.lljit, tracker, object.into_raw()))?;
            check(LLVMOrcLLJITLookup(jit.lljit, &mut address, name.as_ptr()))?;
            // The symbol is an entry point emitted with the signature of `EntryFn`.
            code.entry = std::mem::transmute::<usize, EntryFn>(address as usize);
            Ok(code)
        }
    }

    /// The entry point.
    pub fn entry(&self) -> EntryFn {
        self.entry
    }
}

unsafe extern "C" fn not_loaded(
    _: *const abi::Context,
    _: *const *mut std::ffi::c_void,
    _: *const u64,
) -> i32 {
    abi::OUT_OF_MEMORY
}

fn jit() -> Result<&'static Jit, String> {
    static JIT: OnceLock<Result<Jit, String>> = OnceLock::new();
    JIT.get_or_init(create).as_ref().map_err(Clone::clone)
}

fn create() -> Result<Jit, String> {
    let mut lljit = ptr::null_mut();
    // SAFETY: a null builder means the defaults; the host's target was initialised by `Machine::new`, which ran before,
    // as there is an object to load.
    unsafe {
        check(LLVMOrcCreateLLJIT(&mut lljit, ptr::null_mut()))?;
        let dylib = LLVMOrcLLJITGetMainJITDylib(lljit);
        let mut pairs: Vec<LLVMOrcCSymbolMapPair> = abi::symbols()
            .into_iter()
            .map(|(name, address)| {
                let flags = LLVMJITSymbolFlags {
                    GenericFlags: LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported as u8
                        | LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsCallable as u8,
                    TargetFlags: 0,
                };
                LLVMOrcCSymbolMapPair {
                    Name: LLVMOrcLLJITMangleAndIntern(lljit, c_string(&name).as_ptr()),
                    Sym: LLVMJITEvaluatedSymbol { Address: address as u64, Flags: flags },
                }
            })
            .collect();
        let unit = LLVMOrcAbsoluteSymbols(pairs.as_mut_ptr(), pairs.len());
        check(LLVMOrcJITDylibDefine(dylib, unit))?;
        Ok(Jit { lljit, dylib })
    }
}
