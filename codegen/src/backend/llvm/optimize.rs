//! Target machine and pass list: from a module to an object file.

use super::ir::Ir;
use super::message::{c_string, check, take_message};
use crate::backend::initialise;
use crate::limits::Effort;
use crate::target::Target;
use inkwell::llvm_sys::core::{
    LLVMCreateMemoryBufferWithMemoryRangeCopy, LLVMDisposeMemoryBuffer, LLVMGetBufferSize, LLVMGetBufferStart,
};
use inkwell::llvm_sys::prelude::LLVMMemoryBufferRef;
use inkwell::llvm_sys::target::*;
use inkwell::llvm_sys::target_machine::*;
use inkwell::llvm_sys::transforms::pass_builder::*;
use std::ptr;

/// The passes for a processor, in order. Expressions come shared and vectorised, so what is left is: frame slots to registers, common
/// values across statements, peepholes, loop invariants out of loops, dead stores, counters of loops in 64 bits. Vectorisers and unrolling do not run.
/// A counter in 32 bits is extended for each address; strength reduction then gives the innermost loop of sgemm two counters, and its schedule loads all
/// twelve columns before it multiplies: 19 accesses of the stack instead of 1, and 2.3 times the time.
///
/// Measured on a function of 2400 instructions (AVX-512): the list takes an eighth of the time of code generation and a fifth
/// of `default<O3>`'s, for code of the same size. Code generation at `Less` is no faster than at `Default`; at `None` it
/// takes a third of the time and its code is a fifth larger.
const PASSES: &str = "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,\
    simplifycfg,sroa,loop-mssa(licm),gvn,dse,loop(indvars),instcombine<no-verify-fixpoint>,\
    simplifycfg,adce)";

/// As few as there can be: frame slots to registers, which leaves less to select.
const LEAST_PASSES: &str = "function(sroa,early-cse)";

/// The passes for a GPU, behind which code generation does nothing but select instructions: what LLVM does there by default is for processors with few
/// registers and cheap addresses. Strength reduction of loops gives every plane that a loop reads an address of its own, in two registers each, and
/// moving invariants out of loops as many again; the assembler of the driver moves what fits. Measured with ptxas 12.9 for compute capability 9.0, registers of
/// sweep A against `default` code generation behind [`PASSES`]: volumetric deformation 130 (255, and 368 bytes spilled), shape from shading 101 (175), image
/// warping 54 (127), with up to a third less instructions.
///
/// The last passes are those that code generation would have run: address spaces of pointers, shared parts of addresses, wide accesses, reads of what no
/// kernel writes.
const GPU_PASSES: &str = "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,\
    simplifycfg,sroa,gvn,dse,instcombine<no-verify-fixpoint>,simplifycfg,adce,\
    nvptx-lower-args,infer-address-spaces,separate-const-offset-from-gep,early-cse<memssa>,slsr,early-cse<memssa>,\
    load-store-vectorizer,adce,nvptx-tag-invariant-loads)";

/// A target machine.
pub(super) struct Machine {
    machine: LLVMTargetMachineRef,
    passes: &'static str,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: the machine is ours and disposed of once.
        unsafe { LLVMDisposeTargetMachine(self.machine) }
    }
}

impl Machine {
    /// A machine that generates code for `target`.
    pub(super) fn new(target: &Target, effort: Effort) -> Result<Machine, String> {
        let p = &target.processor;
        let (level, passes) = match target.gpu {
            Some(_) => (LLVMCodeGenOptLevel::LLVMCodeGenLevelNone, GPU_PASSES),
            None => match effort {
                Effort::Full => (LLVMCodeGenOptLevel::LLVMCodeGenLevelDefault, PASSES),
                Effort::Least => (LLVMCodeGenOptLevel::LLVMCodeGenLevelNone, LEAST_PASSES),
            },
        };
        initialise(target);
        let (triple, cpu, features) = (c_string(&p.triple), c_string(&p.name), c_string(&p.features));
        let (mut t, mut message) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: all strings are NUL-terminated and outlive the calls; the message is ours.
        unsafe {
            if LLVMGetTargetFromTriple(triple.as_ptr(), &mut t, &mut message) != 0 {
                return Err(take_message(message));
            }
            let machine = LLVMCreateTargetMachine(
                t,
                triple.as_ptr(),
                cpu.as_ptr(),
                features.as_ptr(),
                level,
                LLVMRelocMode::LLVMRelocPIC,
                LLVMCodeModel::LLVMCodeModelSmall,
            );
            if machine.is_null() {
                return Err(format!("no target machine for {}", p.triple));
            }
            Ok(Machine { machine, passes })
        }
    }

    /// Gives the module this machine's triple and data layout.
    pub(super) fn prepare(&self, ir: &Ir) {
        // SAFETY: the machine is alive; layout and strings are ours and disposed of here.
        let (triple, layout) = unsafe {
            let data = LLVMCreateTargetDataLayout(self.machine);
            let layout = take_message(LLVMCopyStringRepOfTargetData(data));
            LLVMDisposeTargetData(data);
            (take_message(LLVMGetTargetMachineTriple(self.machine)), layout)
        };
        ir.set_target(&triple, &layout);
    }

    /// Runs the pass list.
    pub(super) fn optimize(&self, ir: &Ir) -> Result<(), String> {
        self.run(self.passes, ir)
    }

    /// Drops the bodies of functions that are lent ([`Ir::lend`]), and what only these needed.
    pub(super) fn drop_lent(&self, ir: &Ir) -> Result<(), String> {
        self.run("elim-avail-extern,globaldce", ir)
    }

    fn run(&self, passes: &str, ir: &Ir) -> Result<(), String> {
        let passes = c_string(passes);
        // SAFETY: module, machine and strings are alive; the options are ours.
        unsafe {
            let options = LLVMCreatePassBuilderOptions();
            let error = LLVMRunPasses(ir.module(), passes.as_ptr(), self.machine, options);
            LLVMDisposePassBuilderOptions(options);
            check(error)
        }
    }

    /// The module as assembly text.
    pub(super) fn assembly(&self, ir: &Ir) -> Result<String, String> {
        let buffer = self.generate(ir, LLVMCodeGenFileType::LLVMAssemblyFile)?;
        Ok(String::from_utf8_lossy(buffer.bytes()).into_owned())
    }

    /// The module as an object file.
    pub(super) fn object(&self, ir: &Ir) -> Result<Object, String> {
        self.generate(ir, LLVMCodeGenFileType::LLVMObjectFile)
    }

    fn generate(&self, ir: &Ir, kind: LLVMCodeGenFileType) -> Result<Object, String> {
        let (mut message, mut buffer) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: module and machine are alive; message and buffer are ours.
        unsafe {
            if LLVMTargetMachineEmitToMemoryBuffer(self.machine, ir.module(), kind, &mut message, &mut buffer)
                != 0
            {
                return Err(take_message(message));
            }
        }
        Ok(Object(buffer))
    }
}

/// A buffer of generated code, or of bitcode.
pub(super) struct Object(LLVMMemoryBufferRef);

// SAFETY: the buffer is memory without ties to a thread.
unsafe impl Sync for Object {}

impl Object {
    /// Takes a buffer.
    ///
    /// # Safety
    /// It is one, and nobody else disposes of it.
    pub(super) unsafe fn of(buffer: LLVMMemoryBufferRef) -> Object {
        Object(buffer)
    }

    /// The buffer, to be read as long as `self` lives.
    pub(super) fn buffer(&self) -> LLVMMemoryBufferRef {
        self.0
    }

    /// A copy of kept bytes.
    pub(super) fn from_bytes(bytes: &[u8]) -> Object {
        // SAFETY: the bytes are copied, and need no NUL behind them.
        Object(unsafe {
            LLVMCreateMemoryBufferWithMemoryRangeCopy(bytes.as_ptr().cast(), bytes.len(), c"kept".as_ptr())
        })
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the buffer is alive as long as `self`, and is not written to.
        unsafe { std::slice::from_raw_parts(LLVMGetBufferStart(self.0).cast(), LLVMGetBufferSize(self.0)) }
    }

    /// Gives the buffer away.
    pub(super) fn into_raw(self) -> LLVMMemoryBufferRef {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the buffer is ours and disposed of once.
        unsafe { LLVMDisposeMemoryBuffer(self.0) }
    }
}
