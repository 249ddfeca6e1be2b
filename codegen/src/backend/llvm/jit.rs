//! Linking object files into this process, through LLVM's ORC.
//!
//! One JIT serves the whole process. Its only definitions are the symbols of [`abi::symbols`]; an object that refers to
//! anything else fails to load with an error. The code of an object is freed with its [`Code`].

use super::message::{c_string, check};
use super::optimize::Object;
use crate::backend::abi::{self, EntryFn};
use crate::backend::initialise;
use crate::target::Target;
use inkwell::llvm_sys::orc2::lljit::*;
use inkwell::llvm_sys::orc2::*;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

struct Jit {
    lljit: LLVMOrcLLJITRef,
    dylib: LLVMOrcJITDylibRef,
}

// SAFETY: LLJIT and its session lock internally; the pointers are never freed.
unsafe impl Send for Jit {}
// SAFETY: as above.
unsafe impl Sync for Jit {}

/// Machine code with one entry point, alive as long as this value. Those of one symbol share it: objects that were kept have the same one
/// in every process, and may be loaded twice in one.
pub struct Code {
    symbol: String,
    entry: EntryFn,
}

/// An object that is loaded.
struct Loaded {
    tracker: LLVMOrcResourceTrackerRef,
    entry: EntryFn,
    /// Number of [`Code`]s.
    uses: usize,
}

// SAFETY: the tracker is used under the lock of `LOADED`, the code itself has no thread-bound state.
unsafe impl Send for Loaded {}

/// By symbol.
static LOADED: Mutex<BTreeMap<String, Loaded>> = Mutex::new(BTreeMap::new());

fn loaded() -> MutexGuard<'static, BTreeMap<String, Loaded>> {
    LOADED.lock().unwrap_or_else(|e| e.into_inner())
}

impl Drop for Code {
    fn drop(&mut self) {
        let mut all = loaded();
        let Some(own) = all.get_mut(&self.symbol) else { return };
        own.uses -= 1;
        if own.uses == 0 {
            let tracker = own.tracker;
            all.remove(&self.symbol);
            unload(tracker);
        }
    }
}

/// Frees what a tracker has.
fn unload(tracker: LLVMOrcResourceTrackerRef) {
    // SAFETY: the tracker is ours, and given away here. Whoever runs its code borrows a `Code`, of which there is none left. Failure to
    // remove leaks the code, which is harmless.
    unsafe {
        let _ = check(LLVMOrcResourceTrackerRemove(tracker));
        LLVMOrcReleaseResourceTracker(tracker);
    }
}

/// A symbol that no other object in this process has.
pub(super) fn unique_symbol(name: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("sumsq.{}.{name}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Code {
    /// Loads objects that refer to each other and finds `symbol` in them, or shares what was loaded under it.
    pub(super) fn load(objects: Vec<Object>, symbol: &str) -> Result<Code, String> {
        let jit = jit()?;
        let mut all = loaded();
        if let Some(known) = all.get_mut(symbol) {
            known.uses += 1;
            return Ok(Code { symbol: symbol.into(), entry: known.entry });
        }
        let name = c_string(symbol);
        let mut address = 0;
        // SAFETY: the JIT lives as long as the process. Adding takes an object's buffer.
        let (tracker, found) = unsafe {
            let tracker = LLVMOrcJITDylibCreateResourceTracker(jit.dylib);
            let mut objects = objects.into_iter();
            let found = objects
                .try_for_each(|o| check(LLVMOrcLLJITAddObjectFileWithRT(jit.lljit, tracker, o.into_raw())))
                .and_then(|()| check(LLVMOrcLLJITLookup(jit.lljit, &mut address, name.as_ptr())));
            (tracker, found)
        };
        if let Err(message) = found {
            unload(tracker);
            return Err(message);
        }
        // SAFETY: the symbol is an entry point emitted with the signature of `EntryFn`.
        let entry = unsafe { std::mem::transmute::<usize, EntryFn>(address as usize) };
        all.insert(symbol.into(), Loaded { tracker, entry, uses: 1 });
        Ok(Code { symbol: symbol.into(), entry })
    }

    /// The entry point.
    pub fn entry(&self) -> EntryFn {
        self.entry
    }
}

fn jit() -> Result<&'static Jit, String> {
    static JIT: OnceLock<Result<Jit, String>> = OnceLock::new();
    JIT.get_or_init(create).as_ref().map_err(Clone::clone)
}

fn create() -> Result<Jit, String> {
    initialise(&Target::host());
    let mut lljit = ptr::null_mut();
    // SAFETY: a null builder means the defaults; the host's target is initialised.
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
