//! A thin layer over LLVM's C interface: the instructions that the emitter uses, scalar or vector alike.
//!
//! [`Ir`] owns one context, one module and one builder; the handles [`Val`], [`Ty`] and [`Block`] are plain
//! pointers into them. They carry no lifetime: they must not be used with another `Ir` nor after it is gone.
//! The emitter, which is the only user, creates them from the one `Ir` that it borrows.

use inkwell::llvm_sys::analysis::{LLVMVerifierFailureAction, LLVMVerifyModule};
use inkwell::llvm_sys::bit_reader::LLVMParseBitcodeInContext2;
use inkwell::llvm_sys::bit_writer::LLVMWriteBitcodeToMemoryBuffer;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{
    LLVMAtomicOrdering, LLVMAtomicRMWBinOp, LLVMFastMathFlags, LLVMFastMathNoSignedZeros, LLVMIntPredicate,
    LLVMLinkage, LLVMOpcode, LLVMRealPredicate,
};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::ffi::c_char;
use std::ptr;

use super::message::{c_string, take_message};
use super::optimize::Object;
use crate::backend::x86::Instructions;
use crate::types::{ScalarType, Type};

/// An SSA value or function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Val(LLVMValueRef);

/// A first-class type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Ty(LLVMTypeRef);

/// A basic block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Block(LLVMBasicBlockRef);

/// A metadata node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Meta(LLVMMetadataRef);

/// A function and its type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Fun {
    /// The function as a pointer.
    pub val: Val,
    /// Its signature.
    pub ty: Ty,
}

/// The unsigned integer of as many bytes.
pub(super) fn bits_of(scalar: ScalarType) -> Type {
    Type::of(match scalar.bytes() {
        1 => ScalarType::U8,
        2 => ScalarType::U16,
        4 => ScalarType::U32,
        _ => ScalarType::U64,
    })
}

/// Context, module and builder. Dropped in the order builder, module, context.
pub(super) struct Ir {
    context: LLVMContextRef,
    module: LLVMModuleRef,
    builder: LLVMBuilderRef,
    /// Flags put on every float operation.
    pub fast_flags: Cell<LLVMFastMathFlags>,
    /// Terms of the sums so far, where operations have flags.
    terms: RefCell<FxHashMap<Val, u32>>,
    /// True if the processor's own conversions of floats to integers saturate, as those of a GPU do.
    pub saturates: Cell<bool>,
    /// The processor's instructions for whole vectors.
    pub instructions: RefCell<Instructions>,
    /// Does the processor pick bytes anywhere in two vectors of 64?
    pub permutes: Cell<bool>,
    /// Does the processor gather under a mask?
    pub gathers: Cell<bool>,
    /// Bytes of the smallest elements whose vectors the processor loads and stores under a mask, if there are any.
    pub masks: Cell<Option<u32>>,
}

impl Drop for Ir {
    fn drop(&mut self) {
        // SAFETY: all three are alive, ours alone, and disposed of once, users before what they use.
        unsafe {
            LLVMDisposeBuilder(self.builder);
            LLVMDisposeModule(self.module);
            LLVMContextDispose(self.context);
        }
    }
}

/// Calls into LLVM with handles of one `Ir`.
macro_rules! llvm {
    ($call:expr) => {{
        // SAFETY: every handle comes from this `Ir` (module doc), which is borrowed and thus alive; the types of the
        // operands fit because the verifier of lowered code has checked the expression that is being emitted.
        unsafe { $call }
    }};
}

/// Instructions of a function, and of its longest block.
///
/// # Safety
/// The function is alive, and nothing changes it meanwhile.
unsafe fn counted(f: LLVMValueRef) -> (u64, u64) {
    let (mut all, mut longest) = (0, 0);
    // SAFETY: as the caller says.
    unsafe {
        let mut block = LLVMGetFirstBasicBlock(f);
        while !block.is_null() {
            let mut own = 0;
            let mut i = LLVMGetFirstInstruction(block);
            while !i.is_null() {
                own += 1;
                i = LLVMGetNextInstruction(i);
            }
            (all, longest) = (all + own, own.max(longest));
            block = LLVMGetNextBasicBlock(block);
        }
    }
    (all, longest)
}

/// Terms of a sum that is not long.
const SHORT_SUM: u32 = 32;

/// Indivisible, but not ordered with other memory.
const RELAXED: LLVMAtomicOrdering = LLVMAtomicOrdering::LLVMAtomicOrderingMonotonic;
const NO_NAME: *const c_char = c"".as_ptr();

impl Ir {
    /// An empty module called `name`.
    pub(super) fn new(name: &str) -> Ir {
        let name = c_string(name);
        // SAFETY: the context is fresh and outlives module and builder, see `drop`.
        unsafe {
            let context = LLVMContextCreate();
            let module = LLVMModuleCreateWithNameInContext(name.as_ptr(), context);
            let builder = LLVMCreateBuilderInContext(context);
            let (fast_flags, terms, saturates, instructions, permutes, gathers, masks) = Default::default();
            Ir {
                context,
                module,
                builder,
                fast_flags,
                terms,
                saturates,
                instructions,
                permutes,
                gathers,
                masks,
            }
        }
    }

    /// The module, for passes and code generation.
    pub(super) fn module(&self) -> LLVMModuleRef {
        self.module
    }

    /// The module as text.
    pub(super) fn text(&self) -> String {
        // SAFETY: the module is alive; the message is ours.
        unsafe { take_message(LLVMPrintModuleToString(self.module)) }
    }

    /// LLVM's own opinion of the module.
    pub(super) fn verify(&self) -> Result<(), String> {
        let mut message = ptr::null_mut();
        let action = LLVMVerifierFailureAction::LLVMReturnStatusAction;
        // SAFETY: the module is alive; the message is set in either case and is ours.
        unsafe {
            let failed = LLVMVerifyModule(self.module, action, &mut message) != 0;
            let message = take_message(message);
            if failed { Err(message) } else { Ok(()) }
        }
    }

    /// Instructions of the module, and of its longest block.
    pub(super) fn instructions(&self) -> (u64, u64) {
        let (mut all, mut longest) = (0, 0);
        // SAFETY: the module is alive, and nothing changes it while its list is walked.
        unsafe {
            let mut f = LLVMGetFirstFunction(self.module);
            while !f.is_null() {
                let (own, block) = counted(f);
                (all, longest) = (all + own, block.max(longest));
                f = LLVMGetNextFunction(f);
            }
        }
        (all, longest)
    }

    /// Instructions of a function.
    pub(super) fn instructions_of(&self, f: Fun) -> u64 {
        // SAFETY: the function is one of this module's, which is borrowed.
        unsafe { counted(f.val.0) }.0
    }

    /// The module as LLVM's bitcode.
    pub(super) fn bitcode(&self) -> Object {
        // SAFETY: the module is alive, and the buffer is given away here.
        unsafe { Object::of(LLVMWriteBitcodeToMemoryBuffer(self.module)) }
    }

    /// A module of its own from bitcode.
    pub(super) fn of_bitcode(bitcode: &Object) -> Result<Ir, String> {
        let empty = Ir::new("");
        let (mut ir, mut module) = (empty, ptr::null_mut());
        let copy = Object::from_bytes(bitcode.bytes());
        // SAFETY: the context is the fresh one of `ir`; the buffer is read, and disposed of by `copy`. The empty module is replaced by the one that
        // was read, both of that context.
        unsafe {
            if LLVMParseBitcodeInContext2(ir.context, copy.buffer(), &mut module) != 0 {
                return Err("LLVM cannot read its own bitcode".into());
            }
            LLVMDisposeModule(std::mem::replace(&mut ir.module, module));
        }
        Ok(ir)
    }

    /// Marks the function of that name as one that another object has, whose body is here to be looked at.
    pub(super) fn lend(&self, name: &str) {
        let c_name = c_string(name);
        // SAFETY: as in `llvm!`; the name is a NUL-terminated string.
        unsafe {
            let f = LLVMGetNamedFunction(self.module, c_name.as_ptr());
            if !f.is_null() {
                LLVMSetLinkage(f, LLVMLinkage::LLVMAvailableExternallyLinkage);
            }
        }
    }

    /// A function's name.
    pub(super) fn name(&self, f: Fun) -> String {
        let mut length = 0;
        // SAFETY: the name belongs to the function, which lives as long as the module, and is copied at once.
        let bytes = unsafe {
            let start = LLVMGetValueName2(f.val.0, &mut length);
            std::slice::from_raw_parts(start.cast::<u8>(), length)
        };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Sets triple and data layout.
    pub(super) fn set_target(&self, triple: &str, data_layout: &str) {
        let (triple, layout) = (c_string(triple), c_string(data_layout));
        llvm!(LLVMSetTarget(self.module, triple.as_ptr()));
        llvm!(LLVMSetDataLayout(self.module, layout.as_ptr()));
    }

    // ---- types

    /// The register type of `ty`: bool is i1.
    pub(super) fn ty(&self, ty: Type) -> Ty {
        use ScalarType::*;
        let c = self.context;
        let element = llvm!(match ty.scalar {
            Bool => LLVMInt1TypeInContext(c),
            I8 | U8 => LLVMInt8TypeInContext(c),
            I16 | U16 => LLVMInt16TypeInContext(c),
            I32 | U32 => LLVMInt32TypeInContext(c),
            I64 | U64 => LLVMInt64TypeInContext(c),
            F16 => LLVMHalfTypeInContext(c),
            F32 => LLVMFloatTypeInContext(c),
            F64 => LLVMDoubleTypeInContext(c),
        });
        self.vector_of(Ty(element), ty.lanes)
    }

    /// The memory type of `ty`: bool is i8.
    pub(super) fn memory_ty(&self, ty: Type) -> Ty {
        match ty.scalar {
            ScalarType::Bool => self.ty(Type { scalar: ScalarType::U8, ..ty }),
            _ => self.ty(ty),
        }
    }

    /// `lanes` of `element`, or `element` itself for one lane.
    pub(super) fn vector_of(&self, element: Ty, lanes: u16) -> Ty {
        if lanes == 1 { element } else { Ty(llvm!(LLVMVectorType(element.0, lanes as u32))) }
    }

    /// An opaque pointer.
    pub(super) fn ptr_ty(&self) -> Ty {
        Ty(llvm!(LLVMPointerTypeInContext(self.context, 0)))
    }

    /// `void`.
    pub(super) fn void_ty(&self) -> Ty {
        Ty(llvm!(LLVMVoidTypeInContext(self.context)))
    }

    /// `[n x element]`.
    pub(super) fn array_ty(&self, element: Ty, n: u64) -> Ty {
        Ty(llvm!(LLVMArrayType2(element.0, n)))
    }

    /// A struct with natural alignment.
    pub(super) fn struct_ty(&self, fields: &[Ty]) -> Ty {
        let mut f: Vec<_> = fields.iter().map(|t| t.0).collect();
        Ty(llvm!(LLVMStructTypeInContext(self.context, f.as_mut_ptr(), f.len() as u32, 0)))
    }

    /// A function type.
    pub(super) fn fn_ty(&self, ret: Ty, params: &[Ty]) -> Ty {
        let mut p: Vec<_> = params.iter().map(|t| t.0).collect();
        Ty(llvm!(LLVMFunctionType(ret.0, p.as_mut_ptr(), p.len() as u32, 0)))
    }

    /// The type of a value.
    pub(super) fn type_of(&self, v: Val) -> Ty {
        Ty(llvm!(LLVMTypeOf(v.0)))
    }

    // ---- constants

    /// An integer or bool constant in every lane.
    pub(super) fn int(&self, ty: Type, v: i64) -> Val {
        let element = self.ty(Type::of(ty.scalar));
        self.splat_const(Val(llvm!(LLVMConstInt(element.0, v as u64, 1))), ty.lanes)
    }

    /// A float constant in every lane.
    pub(super) fn float(&self, ty: Type, v: f64) -> Val {
        let element = self.ty(Type::of(ty.scalar));
        self.splat_const(Val(llvm!(LLVMConstReal(element.0, v))), ty.lanes)
    }

    fn splat_const(&self, v: Val, lanes: u16) -> Val {
        if lanes == 1 { v } else { self.const_vector(&vec![v; lanes as usize]) }
    }

    /// A vector of constants.
    pub(super) fn const_vector(&self, vs: &[Val]) -> Val {
        let mut vs: Vec<_> = vs.iter().map(|v| v.0).collect();
        Val(llvm!(LLVMConstVector(vs.as_mut_ptr(), vs.len() as u32)))
    }

    /// Zero of any type.
    pub(super) fn zero(&self, ty: Ty) -> Val {
        Val(llvm!(LLVMConstNull(ty.0)))
    }

    /// An integer whose bits are all set.
    pub(super) fn ones(&self, ty: Ty) -> Val {
        Val(llvm!(LLVMConstAllOnes(ty.0)))
    }

    /// A value that is never looked at.
    pub(super) fn poison(&self, ty: Ty) -> Val {
        Val(llvm!(LLVMGetPoison(ty.0)))
    }

    // ---- functions and blocks

    /// Declares or defines function `name`.
    pub(super) fn add_function(&self, name: &str, ty: Ty) -> Fun {
        let name = c_string(name);
        // SAFETY: as in `llvm!`; the name is a NUL-terminated string.
        let existing = unsafe { LLVMGetNamedFunction(self.module, name.as_ptr()) };
        if !existing.is_null() {
            return Fun { val: Val(existing), ty };
        }
        Fun { val: Val(llvm!(LLVMAddFunction(self.module, name.as_ptr(), ty.0))), ty }
    }

    /// Gives a function another name.
    pub(super) fn rename(&self, f: Fun, name: &str) {
        llvm!(LLVMSetValueName2(f.val.0, name.as_ptr().cast(), name.len()));
    }

    /// Hides a function from the linker.
    pub(super) fn make_internal(&self, f: Fun) {
        llvm!(LLVMSetLinkage(f.val.0, LLVMLinkage::LLVMInternalLinkage));
    }

    /// Parameter `i`.
    pub(super) fn param(&self, f: Fun, i: u32) -> Val {
        Val(llvm!(LLVMGetParam(f.val.0, i)))
    }

    /// Attribute `"key"="value"` on a function.
    pub(super) fn function_attribute(&self, f: Fun, key: &str, value: &str) {
        let a = llvm!(LLVMCreateStringAttribute(
            self.context,
            key.as_ptr().cast(),
            key.len() as u32,
            value.as_ptr().cast(),
            value.len() as u32
        ));
        llvm!(LLVMAddAttributeAtIndex(f.val.0, inkwell::llvm_sys::LLVMAttributeFunctionIndex, a));
    }

    /// Gives `f` the attribute of that key that the function being filled has.
    pub(super) fn inherit_attribute(&self, f: Fun, key: &str) {
        let index = inkwell::llvm_sys::LLVMAttributeFunctionIndex;
        llvm!({
            let from = LLVMGetBasicBlockParent(self.current_block().0);
            let a = LLVMGetStringAttributeAtIndex(from, index, key.as_ptr().cast(), key.len() as u32);
            if !a.is_null() {
                LLVMAddAttributeAtIndex(f.val.0, index, a);
            }
        });
    }

    /// True of a function without a body.
    pub(super) fn is_declaration(&self, f: Fun) -> bool {
        llvm!(LLVMIsDeclaration(f.val.0)) != 0
    }

    fn enum_attribute(&self, name: &str, value: u64) -> LLVMAttributeRef {
        let kind = llvm!(LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()));
        assert_ne!(kind, 0, "LLVM has no attribute {name}");
        llvm!(LLVMCreateEnumAttribute(self.context, kind, value))
    }

    /// LLVM's number of a calling convention.
    pub(super) fn calling_convention(&self, f: Fun, number: u32) {
        llvm!(LLVMSetFunctionCallConv(f.val.0, number));
    }

    /// An attribute without value on a parameter (`noalias`).
    pub(super) fn param_flag(&self, f: Fun, i: u32, name: &str) {
        let a = self.enum_attribute(name, 0);
        llvm!(LLVMAddAttributeAtIndex(f.val.0, i + 1, a));
    }

    /// The address, in the generic address space, of memory in another one that belongs to this module and has no values yet.
    pub(super) fn global_in(&self, name: &str, ty: Ty, space: u32, align: u32) -> Val {
        let name = c_string(name);
        llvm!({
            let g = LLVMAddGlobalInAddressSpace(self.module, ty.0, name.as_ptr(), space);
            LLVMSetLinkage(g, LLVMLinkage::LLVMInternalLinkage);
            LLVMSetInitializer(g, LLVMGetUndef(ty.0));
            LLVMSetAlignment(g, align);
            Val(LLVMConstAddrSpaceCast(g, self.ptr_ty().0))
        })
    }

    /// The address of eight bytes that are zero.
    pub(super) fn zeros(&self) -> Val {
        let (ty, name) = (self.ty(Type::I64), c"zeros".as_ptr());
        llvm!({
            let known = LLVMGetNamedGlobal(self.module, name);
            if !known.is_null() {
                return Val(known);
            }
            let g = LLVMAddGlobal(self.module, ty.0, name);
            LLVMSetLinkage(g, LLVMLinkage::LLVMPrivateLinkage);
            LLVMSetInitializer(g, LLVMConstNull(ty.0));
            LLVMSetGlobalConstant(g, 1);
            Val(g)
        })
    }

    /// An attribute without value on a function (`nounwind`).
    pub(super) fn function_flag(&self, f: Fun, name: &str) {
        let a = self.enum_attribute(name, 0);
        llvm!(LLVMAddAttributeAtIndex(f.val.0, inkwell::llvm_sys::LLVMAttributeFunctionIndex, a));
    }

    /// `memory(none)` on a function.
    pub(super) fn touches_no_memory(&self, f: Fun) {
        let a = self.enum_attribute("memory", 0);
        llvm!(LLVMAddAttributeAtIndex(f.val.0, inkwell::llvm_sys::LLVMAttributeFunctionIndex, a));
    }

    /// `align` on argument `i` of a call (of a pointer or a vector of pointers).
    pub(super) fn call_align(&self, call: Val, i: u32, bytes: u64) {
        let a = self.enum_attribute("align", bytes);
        llvm!(LLVMAddCallSiteAttribute(call.0, i + 1, a));
    }

    /// An attribute without value on a call.
    pub(super) fn call_flag(&self, call: Val, name: &str) {
        let a = self.enum_attribute(name, 0);
        llvm!(LLVMAddCallSiteAttribute(call.0, inkwell::llvm_sys::LLVMAttributeFunctionIndex, a));
    }

    /// A new block at the end of the function being filled.
    pub(super) fn sibling_block(&self, name: &str) -> Block {
        let name = c_string(name);
        let here = self.current_block();
        Block(llvm!(LLVMAppendBasicBlockInContext(
            self.context,
            LLVMGetBasicBlockParent(here.0),
            name.as_ptr()
        )))
    }

    /// A new block at the end of `f`.
    pub(super) fn block(&self, f: Fun, name: &str) -> Block {
        let name = c_string(name);
        Block(llvm!(LLVMAppendBasicBlockInContext(self.context, f.val.0, name.as_ptr())))
    }

    /// Continues at the end of `b`.
    pub(super) fn at_end(&self, b: Block) {
        llvm!(LLVMPositionBuilderAtEnd(self.builder, b.0));
    }

    /// Continues before the terminator of `b`.
    pub(super) fn before_terminator(&self, b: Block) {
        llvm!({
            let t = LLVMGetBasicBlockTerminator(b.0);
            if t.is_null() {
                LLVMPositionBuilderAtEnd(self.builder, b.0);
            } else {
                LLVMPositionBuilderBefore(self.builder, t);
            }
        });
    }

    /// The block being filled.
    pub(super) fn current_block(&self) -> Block {
        Block(llvm!(LLVMGetInsertBlock(self.builder)))
    }

    // ---- control flow

    /// Jump.
    pub(super) fn br(&self, to: Block) {
        llvm!(LLVMBuildBr(self.builder, to.0));
    }

    /// Conditional jump.
    pub(super) fn cond_br(&self, cond: Val, then: Block, otherwise: Block) {
        llvm!(LLVMBuildCondBr(self.builder, cond.0, then.0, otherwise.0));
    }

    /// `ret v` or `ret void`.
    pub(super) fn ret(&self, v: Option<Val>) {
        llvm!(match v {
            Some(v) => LLVMBuildRet(self.builder, v.0),
            None => LLVMBuildRetVoid(self.builder),
        });
    }

    /// An empty phi.
    pub(super) fn phi(&self, ty: Ty) -> Val {
        Val(llvm!(LLVMBuildPhi(self.builder, ty.0, NO_NAME)))
    }

    /// `v` where control comes from `from`.
    pub(super) fn add_incoming(&self, phi: Val, v: Val, from: Block) {
        let (mut v, mut b) = (v.0, from.0);
        llvm!(LLVMAddIncoming(phi.0, &mut v, &mut b, 1));
    }

    /// Calls `f`.
    pub(super) fn call(&self, f: Fun, args: &[Val]) -> Val {
        let mut args: Vec<_> = args.iter().map(|a| a.0).collect();
        Val(llvm!(LLVMBuildCall2(
            self.builder,
            f.ty.0,
            f.val.0,
            args.as_mut_ptr(),
            args.len() as u32,
            NO_NAME
        )))
    }

    /// Calls intrinsic `name`, overloaded on `types`.
    pub(super) fn intrinsic(&self, name: &str, types: &[Ty], args: &[Val]) -> Val {
        let mut types: Vec<_> = types.iter().map(|t| t.0).collect();
        let id = llvm!(LLVMLookupIntrinsicID(name.as_ptr().cast(), name.len()));
        assert_ne!(id, 0, "LLVM has no intrinsic {name}");
        let (p, n) = (types.as_mut_ptr(), types.len());
        let val = Val(llvm!(LLVMGetIntrinsicDeclaration(self.module, id, p, n)));
        let ty = Ty(llvm!(LLVMIntrinsicGetType(self.context, id, p, n)));
        self.call(Fun { val, ty }, args)
    }

    /// Like [`Ir::intrinsic`], for one that computes floats: carries the fast flags.
    pub(super) fn float_intrinsic(&self, name: &str, types: &[Ty], args: &[Val]) -> Val {
        self.with_fast_flags(self.intrinsic(name, types, args))
    }

    // ---- arithmetic

    /// A two-operand instruction without flags.
    pub(super) fn binary(&self, op: LLVMOpcode, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildBinOp(self.builder, op, a.0, b.0, NO_NAME)))
    }

    /// A two-operand float instruction, with the fast flags. Additions to a long sum keep the signs of zeros: code generation looks behind each
    /// fma whose zeros have none for negations, six terms deep, which takes a third of the time where sums are long.
    pub(super) fn float_binary(&self, op: LLVMOpcode, a: Val, b: Val) -> Val {
        let (v, flags) = (self.binary(op, a, b), self.fast_flags.get());
        let terms = |of: &Val| self.terms.borrow().get(of).copied().unwrap_or(1);
        let sum = matches!(op, LLVMOpcode::LLVMFAdd | LLVMOpcode::LLVMFSub);
        let terms = if sum && flags != 0 { terms(&a).saturating_add(terms(&b)) } else { 1 };
        if terms > 1 {
            self.terms.borrow_mut().insert(v, terms);
        }
        let long = terms > SHORT_SUM;
        self.with_flags(v, if long { flags & !LLVMFastMathNoSignedZeros } else { flags })
    }

    /// `a + b` that does not overflow.
    pub(super) fn add_nsw(&self, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildNSWAdd(self.builder, a.0, b.0, NO_NAME)))
    }

    /// `a * b` that does not overflow.
    pub(super) fn mul_nsw(&self, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildNSWMul(self.builder, a.0, b.0, NO_NAME)))
    }

    /// Float negation.
    pub(super) fn fneg(&self, a: Val) -> Val {
        self.with_fast_flags(Val(llvm!(LLVMBuildFNeg(self.builder, a.0, NO_NAME))))
    }

    /// A float of type `ty` that `f` computes without the fast flags, and that operations with flags take as it is: code generation looks at the flags of
    /// an operation, and not at those of its operands, before it rewrites both together.
    pub(super) fn strict(&self, ty: Type, f: impl FnOnce() -> Result<Val, String>) -> Result<Val, String> {
        let flags = self.fast_flags.replace(0);
        let value = f();
        self.fast_flags.set(flags);
        Ok(match flags {
            0 => value?,
            _ => self.intrinsic("llvm.arithmetic.fence", &[self.ty(ty)], &[value?]),
        })
    }

    fn with_fast_flags(&self, v: Val) -> Val {
        self.with_flags(v, self.fast_flags.get())
    }

    fn with_flags(&self, v: Val, flags: LLVMFastMathFlags) -> Val {
        if flags != 0 {
            // Constant folding may have made `v` something other than an instruction.
            llvm!({
                if !LLVMIsAInstruction(v.0).is_null() && LLVMCanValueUseFastMathFlags(v.0) != 0 {
                    LLVMSetFastMathFlags(v.0, flags);
                }
            });
        }
        v
    }

    /// Integer comparison. Of numbers that were truncated exactly, what was truncated is compared: code generation of LLVM 22 does so as well, and
    /// aborts where that takes 256 bits and the processor has AVX2 alone.
    pub(super) fn icmp(&self, p: LLVMIntPredicate, a: Val, b: Val) -> Val {
        let (a, b) = self.before_truncation(p, a, b).unwrap_or((a, b));
        Val(llvm!(LLVMBuildICmp(self.builder, p, a.0, b.0, NO_NAME)))
    }

    /// The numbers that two values are exact truncations of, if these compare as the values do.
    fn before_truncation(&self, p: LLVMIntPredicate, a: Val, b: Val) -> Option<(Val, Val)> {
        use LLVMIntPredicate::*;
        let any_sign = matches!(p, LLVMIntEQ | LLVMIntNE);
        let signed = any_sign || matches!(p, LLVMIntSGT | LLVMIntSGE | LLVMIntSLT | LLVMIntSLE);
        let unsigned = any_sign || !signed;
        llvm!({
            if LLVMIsATruncInst(a.0).is_null() || LLVMIsATruncInst(b.0).is_null() {
                return None;
            }
            let exact = signed && LLVMGetNSW(a.0) != 0 && LLVMGetNSW(b.0) != 0
                || unsigned && LLVMGetNUW(a.0) != 0 && LLVMGetNUW(b.0) != 0;
            let (a, b) = (LLVMGetOperand(a.0, 0), LLVMGetOperand(b.0, 0));
            (exact && LLVMTypeOf(a) == LLVMTypeOf(b)).then_some((Val(a), Val(b)))
        })
    }

    /// Float comparison.
    pub(super) fn fcmp(&self, p: LLVMRealPredicate, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildFCmp(self.builder, p, a.0, b.0, NO_NAME)))
    }

    /// Is the value known already?
    pub(super) fn is_constant(&self, v: Val) -> bool {
        llvm!(LLVMIsConstant(v.0)) != 0
    }

    /// `c ? a : b`; `c` is i1, or i1 in every lane.
    pub(super) fn select(&self, c: Val, a: Val, b: Val) -> Val {
        Val(llvm!(LLVMBuildSelect(self.builder, c.0, a.0, b.0, NO_NAME)))
    }

    /// Conversion.
    pub(super) fn cast(&self, op: LLVMOpcode, v: Val, to: Ty) -> Val {
        Val(llvm!(LLVMBuildCast(self.builder, op, v.0, to.0, NO_NAME)))
    }

    /// A number that is not negative as an integer of another size.
    pub(super) fn resize(&self, v: Val, to: Ty) -> Val {
        Val(llvm!(LLVMBuildIntCast2(self.builder, v.0, to.0, 0, NO_NAME)))
    }

    /// The low bits of an integer, which have its value: as signed or unsigned numbers.
    pub(super) fn truncate_exactly(&self, v: Val, to: Ty, signed: bool) -> Val {
        let t = self.cast(LLVMOpcode::LLVMTrunc, v, to);
        // Constant folding may have made it something other than an instruction.
        llvm!({
            match LLVMIsATruncInst(t.0).is_null() {
                true => {}
                false if signed => LLVMSetNSW(t.0, 1),
                false => LLVMSetNUW(t.0, 1),
            }
        });
        t
    }

    // ---- vectors

    /// Lane `i`.
    pub(super) fn extract(&self, v: Val, i: u16) -> Val {
        let i = self.int(Type::I32, i as i64);
        Val(llvm!(LLVMBuildExtractElement(self.builder, v.0, i.0, NO_NAME)))
    }

    /// Lane `i`, an integer that is known when the program runs.
    pub(super) fn extract_at(&self, v: Val, i: Val) -> Val {
        Val(llvm!(LLVMBuildExtractElement(self.builder, v.0, i.0, NO_NAME)))
    }

    /// The lanes of a mask as bits of an integer, the first as the lowest.
    pub(super) fn mask_bits(&self, mask: Val) -> Val {
        let ty = Ty(llvm!(LLVMIntTypeInContext(self.context, self.lanes(mask).into())));
        self.cast(LLVMOpcode::LLVMBitCast, mask, ty)
    }

    /// `v` with lane `i` replaced.
    pub(super) fn insert(&self, v: Val, x: Val, i: u16) -> Val {
        let i = self.int(Type::I32, i as i64);
        Val(llvm!(LLVMBuildInsertElement(self.builder, v.0, x.0, i.0, NO_NAME)))
    }

    /// Lanes `mask` of the concatenation of `a` and `b`.
    pub(super) fn shuffle(&self, a: Val, b: Val, mask: &[u16]) -> Val {
        let mask: Vec<_> = mask.iter().map(|&i| self.int(Type::I32, i as i64)).collect();
        let mask = self.const_vector(&mask);
        Val(llvm!(LLVMBuildShuffleVector(self.builder, a.0, b.0, mask.0, NO_NAME)))
    }

    /// Lanes of a vector.
    pub(super) fn lanes(&self, v: Val) -> u16 {
        llvm!(LLVMGetVectorSize(LLVMTypeOf(v.0))) as u16
    }

    /// Lanes `mask` of `a`.
    pub(super) fn pick(&self, a: Val, mask: &[u16]) -> Val {
        let b = self.poison(self.type_of(a));
        self.shuffle(a, b, mask)
    }

    /// A scalar in every lane.
    pub(super) fn splat(&self, v: Val, lanes: u16) -> Val {
        if lanes == 1 {
            return v;
        }
        let undefined = self.poison(self.vector_of(self.type_of(v), lanes));
        let first = self.insert(undefined, v, 0);
        self.pick(first, &vec![0; lanes as usize])
    }

    /// `<1 x ty>`, which [`Ir::vector_of`] does not make.
    pub(super) fn vector_type_of_one(&self, ty: Ty) -> Ty {
        Ty(llvm!(LLVMVectorType(ty.0, 1)))
    }

    /// A scalar as a vector of one lane.
    pub(super) fn vector_of_one(&self, v: Val) -> Val {
        let undefined = self.poison(self.vector_type_of_one(self.type_of(v)));
        self.insert(undefined, v, 0)
    }

    // ---- memory

    /// `base + index` elements of type `element`, both ends within one object; `index` an integer or a vector of them.
    pub(super) fn element_ptr(&self, element: Ty, base: Val, index: Val) -> Val {
        let mut i = index.0;
        Val(llvm!(LLVMBuildInBoundsGEP2(self.builder, element.0, base.0, &mut i, 1, NO_NAME)))
    }

    /// As [`Ir::element_ptr`], where `base` may lie outside of the object.
    pub(super) fn far_element_ptr(&self, element: Ty, base: Val, index: Val) -> Val {
        let mut i = index.0;
        Val(llvm!(LLVMBuildGEP2(self.builder, element.0, base.0, &mut i, 1, NO_NAME)))
    }

    /// Field `i` of the struct at `p`.
    pub(super) fn field_ptr(&self, ty: Ty, p: Val, i: u32) -> Val {
        Val(llvm!(LLVMBuildStructGEP2(self.builder, ty.0, p.0, i, NO_NAME)))
    }

    /// A load with known alignment.
    pub(super) fn load(&self, ty: Ty, p: Val, align: u32) -> Val {
        let v = llvm!(LLVMBuildLoad2(self.builder, ty.0, p.0, NO_NAME));
        llvm!(LLVMSetAlignment(v, align));
        Val(v)
    }

    /// A store with known alignment.
    pub(super) fn store(&self, v: Val, p: Val, align: u32) -> Val {
        let s = llvm!(LLVMBuildStore(self.builder, v.0, p.0));
        llvm!(LLVMSetAlignment(s, align));
        Val(s)
    }

    /// `*p = *p op v` in one indivisible step.
    pub(super) fn atomic_update(&self, op: LLVMAtomicRMWBinOp, p: Val, v: Val) {
        llvm!(LLVMBuildAtomicRMW(self.builder, op, p.0, v.0, RELAXED, 0));
    }

    /// An indivisible load of an integer.
    pub(super) fn atomic_load(&self, ty: Ty, p: Val, align: u32) -> Val {
        let v = self.load(ty, p, align);
        llvm!(LLVMSetOrdering(v.0, RELAXED));
        v
    }

    /// Stores `new` at `p` if `old` is there, in one indivisible step: what was there, and whether it was `old`.
    pub(super) fn compare_exchange(&self, p: Val, old: Val, new: Val) -> (Val, Val) {
        let pair = llvm!(LLVMBuildAtomicCmpXchg(self.builder, p.0, old.0, new.0, RELAXED, RELAXED, 0));
        let part = |i| Val(llvm!(LLVMBuildExtractValue(self.builder, pair, i, NO_NAME)));
        (part(0), part(1))
    }

    /// `llvm.masked.store` or `llvm.masked.scatter` of `v`, a `ty`, to `p`, a `ptrs`.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn masked_store(
        &self,
        name: &str,
        ty: Ty,
        ptrs: Ty,
        v: Val,
        p: Val,
        mask: Val,
        align: u32,
    ) -> Val {
        let s = self.intrinsic(name, &[ty, ptrs], &[v, p, mask]);
        self.call_align(s, 1, align as u64);
        s
    }

    /// Marks an aligned store as bypassing the caches.
    pub(super) fn mark_non_temporal(&self, store: Val) {
        let one = self.int(Type::I32, 1);
        let one = Meta(llvm!(LLVMValueAsMetadata(one.0)));
        self.annotate(store, "nontemporal", self.meta(&[one]));
    }

    /// Stack space with known alignment, at the current position.
    pub(super) fn alloca(&self, ty: Ty, align: u32) -> Val {
        let v = llvm!(LLVMBuildAlloca(self.builder, ty.0, NO_NAME));
        llvm!(LLVMSetAlignment(v, align));
        Val(v)
    }

    /// Sets `bytes` (i64) bytes at `p` to zero.
    pub(super) fn memset_zero(&self, p: Val, bytes: Val, align: u32) -> Val {
        let zero = self.int(Type::of(ScalarType::U8), 0);
        Val(llvm!(LLVMBuildMemSet(self.builder, p.0, zero.0, bytes.0, align)))
    }

    // ---- metadata

    /// A metadata node over `parts`.
    pub(super) fn meta(&self, parts: &[Meta]) -> Meta {
        let mut p: Vec<_> = parts.iter().map(|m| m.0).collect();
        Meta(llvm!(LLVMMDNodeInContext2(self.context, p.as_mut_ptr(), p.len())))
    }

    /// A metadata string.
    pub(super) fn meta_string(&self, s: &str) -> Meta {
        Meta(llvm!(LLVMMDStringInContext2(self.context, s.as_ptr().cast(), s.len())))
    }

    /// An i64 as metadata.
    pub(super) fn meta_int(&self, v: i64) -> Meta {
        Meta(llvm!(LLVMValueAsMetadata(self.int(Type::I64, v).0)))
    }

    /// Attaches `!kind node` to an instruction.
    pub(super) fn annotate(&self, instruction: Val, kind: &str, node: Meta) {
        llvm!({
            if LLVMIsAInstruction(instruction.0).is_null() {
                return;
            }
            let kind = LLVMGetMDKindIDInContext(self.context, kind.as_ptr().cast(), kind.len() as u32);
            LLVMSetMetadata(instruction.0, kind, LLVMMetadataAsValue(self.context, node.0));
        });
    }
}
