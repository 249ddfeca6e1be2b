//! Parts of a function as functions of their own: bodies of parallel loops, which the worker pool calls, and loop nests of what is too
//! large to be compiled as one ([`super::parts`]).
//!
//! `void body(const Context*, const Closure*, i32 i)`, `i` being 0 for a nest; the closure is a struct, in the frame of the surrounding function,
//! of every symbol bound there that the body mentions: lets, parameters, buffer pointers, loop variables. The body
//! loads them first, so that no store can come between.

use super::ir::{Fun, Ty, Val};
use super::parts::is_large;
use super::scope::{Scopes, Symbol};
use super::stmt::{Frame, StmtEmitter};
use crate::backend::abi::PARALLEL_FOR;
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::rewrite::visit_stmts;
use crate::ir::stmt::Stmt;
use crate::schedule::{ForKind, Memory};
use crate::types::Type;
use indexmap::IndexMap;
use rustc_hash::FxHashSet;

impl<'f> StmtEmitter<'f> {
    /// `for var in [min, min + extent)` on the pool.
    pub(super) fn parallel(
        &mut self,
        var: &'f Name,
        min: &'f Expr,
        extent: &'f Expr,
        body: &'f Stmt,
    ) -> Result<(), String> {
        let ir = self.exprs.ir;
        let first = self.exprs.emit(min)?;
        let n = self.exprs.emit(extent)?;
        let (first, n) = (self.as_i32(first, min.ty()), self.as_i32(n, extent.ty()));
        let (function, closure) = self.outlined(Some(var), body)?;
        self.exprs.scopes.stored(self.stores_in(body));
        let (ptr, i32_ty) = (ir.ptr_ty(), ir.ty(Type::I32));
        let params = [ptr, ptr, ptr, i32_ty, i32_ty];
        let run = ir.add_function(PARALLEL_FOR, ir.fn_ty(ir.void_ty(), &params));
        ir.call(run, &[self.frame.context, function.val, closure, first, n]);
        if may_fail(body) {
            self.leave_if_failed();
        }
        Ok(())
    }

    /// A loop nest, called where it stands.
    pub(super) fn apart(&mut self, nest: &'f Stmt) -> Result<(), String> {
        let ir = self.exprs.ir;
        let (function, closure) = self.outlined(None, nest)?;
        self.exprs.scopes.stored(self.stores_in(nest));
        ir.call(function, &[self.frame.context, closure, ir.int(Type::I32, 0)]);
        if may_fail(nest) {
            self.leave_if_failed();
        }
        Ok(())
    }

    /// Emits `body` as a function, and a closure of what it mentions.
    fn outlined(&mut self, var: Option<&'f Name>, body: &'f Stmt) -> Result<(Fun, Val), String> {
        let ir = self.exprs.ir;
        let (mut captured, mut readable) = (vec![], vec![]);
        for (symbol, bytes) in symbols_in(body) {
            if let Some(v) = self.exprs.scopes.value(&symbol) {
                captured.push((symbol, v));
                readable.push(bytes);
            }
        }
        let fields: Vec<Field> =
            captured.iter().zip(readable).map(|(c, bytes)| (ir.type_of(c.1), bytes)).collect();
        let closure_ty = ir.struct_ty(&fields.iter().map(|f| f.0).collect::<Vec<_>>());
        let closure = self.alloca(closure_ty, 8);
        for (i, (_, v)) in captured.iter().enumerate() {
            ir.store(*v, ir.field_ptr(closure_ty, closure, i as u32), 1);
        }
        let symbols = captured.into_iter().map(|c| c.0);
        Ok((self.outline(var, body, symbols, &fields, closure_ty)?, closure))
    }

    /// Emits `body` as a function that takes its symbols from a closure, and returns to the current position.
    fn outline(
        &mut self,
        var: Option<&'f Name>,
        body: &'f Stmt,
        symbols: impl Iterator<Item = Symbol>,
        fields: &[Field],
        closure_ty: Ty,
    ) -> Result<Fun, String> {
        let ir = self.exprs.ir;
        let here = ir.current_block();
        let (ptr, i32_ty) = (ir.ptr_ty(), ir.ty(Type::I32));
        let name = format!("body.{}.{}", self.bodies.len(), var.map_or("nest", |v| v));
        let fun = ir.add_function(&name, ir.fn_ty(ir.void_ty(), &[ptr, ptr, i32_ty]));
        self.bodies.push(fun);
        let outer = std::mem::replace(&mut self.frame, Frame::new(ir, self.target, fun, true));
        let outer_scopes = std::mem::replace(&mut self.exprs.scopes, Scopes::new());
        for (i, symbol) in symbols.enumerate() {
            let p = ir.field_ptr(closure_ty, ir.param(fun, 1), i as u32);
            let (ty, readable) = fields[i];
            let v = ir.load(ty, p, 1);
            if readable > 0 {
                ir.annotate(v, "dereferenceable", ir.meta(&[ir.meta_int(readable)]));
                ir.annotate(v, "align", ir.meta(&[ir.meta_int(readable)]));
            }
            self.exprs.scopes.bind(symbol, v);
        }
        if let Some(var) = var {
            self.exprs.scopes.bind(Symbol::Var(var.clone()), ir.param(fun, 2));
            self.profile_worker();
        }
        self.frame.in_parts = is_large(body);
        let done = match (var, body) {
            (None, Stmt::For { var, min, extent, body, .. }) => self.serial(var, min, extent, body),
            _ => self.stmt(body),
        };
        self.frame_exit();
        self.frame = outer;
        self.exprs.scopes = outer_scopes;
        ir.at_end(here);
        done.map(|()| fun)
    }
}

/// True if running `s` can fail: an assertion or a heap allocation somewhere in it.
fn may_fail(s: &Stmt) -> bool {
    let mut found = false;
    visit_stmts(s, &mut |s| {
        found |= matches!(
            s,
            Stmt::Assert { .. }
                | Stmt::Allocate { memory: Memory::Heap, .. }
                | Stmt::For { kind: ForKind::Parallel | ForKind::GpuBlock, .. }
        );
    });
    found
}

/// A captured value's type and, of a buffer, the bytes at its (aligned) origin that can be read wherever in the body: an element that is
/// loaded at the constant index 0 is there, and LLVM may then move the load out of loops and conditions.
type Field = (Ty, i64);

/// All symbols that `s` mentions, in order of first mention, with the bytes that [`Field`] is about.
fn symbols_in(s: &Stmt) -> IndexMap<Symbol, i64> {
    let mut symbols: IndexMap<Symbol, i64> = IndexMap::new();
    let mut seen = FxHashSet::default();
    visit_stmts(s, &mut |s| {
        let mut work: Vec<&Expr> = vec![];
        match s {
            Stmt::Let { value, .. } => work.push(value),
            Stmt::For { min, extent, .. } => work.extend([min, extent]),
            Stmt::If { cond, .. } => work.push(cond),
            Stmt::Assert { cond, args, .. } => {
                work.push(cond);
                work.extend(args);
            }
            Stmt::Allocate { extent, .. } => work.push(extent),
            Stmt::PrefetchByte { buffer, byte } => {
                symbols.entry(Symbol::Buffer(buffer.clone())).or_default();
                work.push(byte);
            }
            Stmt::Store { buffer, index, value, predicate, .. }
            | Stmt::Accumulate { buffer, index, value, predicate, .. } => {
                symbols.entry(Symbol::Buffer(buffer.clone())).or_default();
                work.extend([index, value]);
                work.extend(predicate);
            }
            Stmt::Block(_)
            | Stmt::Realize { .. }
            | Stmt::Produce { .. }
            | Stmt::Provide { .. }
            | Stmt::Prefetch { .. } => {}
        }
        while let Some(e) = work.pop() {
            if !seen.insert(e.id()) {
                continue;
            }
            match e.kind() {
                ExprKind::Var(n) => {
                    symbols.entry(Symbol::Var(n.clone())).or_default();
                }
                ExprKind::Param(p) => {
                    symbols.entry(Symbol::Param(p.clone())).or_default();
                }
                ExprKind::Load { buffer, index, .. } => {
                    let bytes = symbols.entry(Symbol::Buffer(buffer.clone())).or_default();
                    if index.as_int() == Some(0) {
                        *bytes = (*bytes).max(e.ty().scalar.bytes() as i64);
                    }
                }
                _ => {}
            }
            e.for_each_child(|c| work.push(c));
        }
    });
    symbols
}
