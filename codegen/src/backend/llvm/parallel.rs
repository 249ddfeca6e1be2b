//! Parallel loops: the body becomes a function of its own, which the worker pool calls.
//!
//! `void body(const Context*, const Closure*, i32 i)`; the closure is a struct, in the frame of the surrounding function,
//! of every name bound there that the body mentions: lets, parameters, buffer pointers, loop variables. The body
//! loads them first, so that no store can come between.

use indexmap::IndexMap;
use rustc_hash::FxHashSet;

use super::alias::for_each_stmt;
use super::ir::{Fun, Ty, Val};
use super::scope::Scopes;
use super::stmt::{Frame, StmtEmitter};
use crate::backend::abi::PARALLEL_FOR;
use crate::expr::{Expr, ExprKind, Name};
use crate::schedule::{ForKind, Memory};
use crate::stmt::Stmt;
use crate::types::Type;

impl<'f> StmtEmitter<'f> {
    /// `for var in [min, min + extent)` on the pool.
    pub fn parallel(
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
        let captured: Vec<(Name, Val)> = names_in(body)
            .into_iter()
            .filter_map(|n| Some((n.clone(), self.exprs.scopes.name(&n)?)))
            .collect();
        let fields: Vec<Ty> = captured.iter().map(|c| ir.type_of(c.1)).collect();
        let closure_ty = ir.struct_ty(&fields);
        let closure = self.alloca(closure_ty, 8);
        for (i, (_, v)) in captured.iter().enumerate() {
            ir.store(*v, ir.field_ptr(closure_ty, closure, i as u32), 1);
        }
        let names = captured.into_iter().map(|c| c.0);
        let function = self.outline(var, body, names, &fields, closure_ty)?;
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

    /// Emits `body` as a function that takes its names from a closure, and returns to the current position.
    fn outline(
        &mut self,
        var: &'f Name,
        body: &'f Stmt,
        names: impl Iterator<Item = Name>,
        fields: &[Ty],
        closure_ty: Ty,
    ) -> Result<Fun, String> {
        let ir = self.exprs.ir;
        let here = ir.current_block();
        let (ptr, i32_ty) = (ir.ptr_ty(), ir.ty(Type::I32));
        let name = format!("body.{}.{var}", self.bodies);
        self.bodies += 1;
        let fun = ir.add_function(&name, ir.fn_ty(ir.void_ty(), &[ptr, ptr, i32_ty]));
        ir.make_internal(fun);
        let outer = std::mem::replace(&mut self.frame, Frame::new(ir, self.target, fun, true));
        let outer_scopes = std::mem::replace(&mut self.exprs.scopes, Scopes::new());
        for (i, name) in names.enumerate() {
            let p = ir.field_ptr(closure_ty, ir.param(fun, 1), i as u32);
            let v = ir.load(fields[i], p, 1);
            self.exprs.scopes.bind(&name, v);
        }
        let i = ir.param(fun, 2);
        self.exprs.scopes.bind(var, i);
        let done = self.stmt(body);
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
    for_each_stmt(s, &mut |s| {
        found |= matches!(
            s,
            Stmt::Assert { .. }
                | Stmt::Allocate { memory: Memory::Heap, .. }
                | Stmt::For { kind: ForKind::Parallel, .. }
        );
    });
    found
}

/// All names that `s` mentions, in order of first mention: variables, parameters, buffers.
fn names_in(s: &Stmt) -> Vec<Name> {
    let mut names: IndexMap<Name, ()> = IndexMap::new();
    let mut seen = FxHashSet::default();
    for_each_stmt(s, &mut |s| {
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
            Stmt::Store { buffer, index, value, predicate, .. } => {
                names.insert(buffer.clone(), ());
                work.extend([index, value]);
                work.extend(predicate);
            }
            Stmt::Block(_) | Stmt::Realize { .. } | Stmt::Produce { .. } | Stmt::Provide { .. } => {}
        }
        while let Some(e) = work.pop() {
            if !seen.insert(e.id()) {
                continue;
            }
            match e.kind() {
                ExprKind::Var(n) | ExprKind::Param(n) => {
                    names.insert(n.clone(), ());
                }
                ExprKind::Load { buffer, .. } => {
                    names.insert(buffer.clone(), ());
                }
                _ => {}
            }
            e.for_each_child(|c| work.push(c));
        }
    });
    names.into_keys().collect()
}
