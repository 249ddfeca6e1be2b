//! Functions of floats that are no instructions: a module has each that it calls once per type, as a function of its own.
//!
//! Its body is the arithmetic of [`define`], operation by operation: it carries no fast flags, whoever calls it.

use super::alias::Aliasing;
use super::arith::Arith;
use super::expr::ExprEmitter;
use super::ir::{Fun, Val};
use super::scope::{Scopes, Symbol};
use crate::expr::{Expr, Param};
use crate::functions::Function;
use crate::lower::expand_math::define;
use crate::types::{ScalarType, Type};

impl Arith<'_> {
    /// `f` of operands of type `ty`. f16 is computed in f32.
    pub(super) fn function(&self, f: Option<Function>, args: &[Val], ty: Type) -> Result<Val, String> {
        let f = f.ok_or("an operator that is no function")?;
        if ty.scalar == ScalarType::F16 {
            let wide: Vec<Val> = args.iter().map(|&a| self.cast(a, ty, ScalarType::F32)).collect();
            let single = Type { scalar: ScalarType::F32, ..ty };
            return Ok(self.cast(self.function(Some(f), &wide, single)?, single, ScalarType::F16));
        }
        Ok(self.0.call(self.module_function(f, ty)?, args))
    }

    /// The module's function, which is made where it is asked for first.
    fn module_function(&self, f: Function, ty: Type) -> Result<Fun, String> {
        let ir = self.0;
        let t = ir.ty(ty);
        let fun = ir.add_function(&format!("sumsq.{}.{ty}", f.name()), ir.fn_ty(t, &vec![t; f.arity()]));
        if !ir.is_declaration(fun) {
            return Ok(fun);
        }
        ir.make_internal(fun);
        for flag in ["nounwind", "willreturn"] {
            ir.function_flag(fun, flag);
        }
        ir.touches_no_memory(fun);
        for key in ["target-cpu", "target-features", "prefer-vector-width"] {
            ir.inherit_attribute(fun, key);
        }
        let caller = ir.current_block();
        let flags = ir.fast_flags.replace(0);
        ir.at_end(ir.block(fun, "entry"));
        let params: Vec<Param> = ["x", "y"][..f.arity()].iter().map(|&name| name.into()).collect();
        let operands: Vec<Expr> = params.iter().map(|param| Expr::param(param.clone(), ty)).collect();
        let body = define(f, &operands).ok_or_else(|| format!("{} of {ty}", f.name()))?;
        let (aliasing, mut scopes) = (Aliasing::default(), Scopes::new());
        for (param, i) in params.into_iter().zip(0..) {
            scopes.bind(Symbol::Param(param), ir.param(fun, i));
        }
        let value = ExprEmitter::new(ir, &aliasing, scopes).emit(&body)?;
        ir.ret(Some(value));
        ir.fast_flags.set(flags);
        ir.at_end(caller);
        Ok(fun)
    }
}
