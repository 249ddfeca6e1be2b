//! Reductions written where their value is used.
//!
//! `p.sum("s", &r, term)` adds a Func called `s` to the pipeline, over the variables of `term` that are not `r`'s (pure
//! ones, or reduction variables of a domain around), and is the call of it there. The Func is scheduled by its name.

use crate::expr::{BinaryOp, Expr, Name};
use crate::func::{Func, Pipeline, RDom, Var, free_variables};

impl Pipeline {
    /// The sum of `term` over `r`, in the term's type; 0 over nothing.
    pub fn sum(&mut self, name: impl Into<Name>, r: &RDom, term: Expr) -> Expr {
        let start = Expr::whole(term.ty(), 0);
        self.reduced(name, r, term, start, BinaryOp::Add)
    }

    /// The product of `term` over `r`, in the term's type; 1 over nothing.
    pub fn product(&mut self, name: impl Into<Name>, r: &RDom, term: Expr) -> Expr {
        let start = Expr::whole(term.ty(), 1);
        self.reduced(name, r, term, start, BinaryOp::Mul)
    }

    /// The least `term` over `r`; the greatest value of its type (floats: infinity) over nothing.
    pub fn minimum(&mut self, name: impl Into<Name>, r: &RDom, term: Expr) -> Expr {
        let start = Expr::greatest(term.ty());
        self.reduced(name, r, term, start, BinaryOp::Min)
    }

    /// The greatest `term` over `r`; the least value of its type (floats: negative infinity) over nothing.
    pub fn maximum(&mut self, name: impl Into<Name>, r: &RDom, term: Expr) -> Expr {
        let start = Expr::least(term.ty());
        self.reduced(name, r, term, start, BinaryOp::Max)
    }

    /// Returns where `term` is least over `r`, and that value: one i32 per dimension of `r`, then the value. Of equal terms the first
    /// counts, in the order of the domain. Where no term is less than [`Pipeline::minimum`] over nothing: the first point
    /// of the domain, whether its predicate holds there or not.
    pub fn argmin(&mut self, name: impl Into<Name>, r: &RDom, term: Expr) -> Vec<Expr> {
        let start = Expr::greatest(term.ty());
        self.extreme(name, r, term, start, BinaryOp::Lt)
    }

    /// Returns where `term` is greatest over `r`, and that value, as [`Pipeline::argmin`].
    pub fn argmax(&mut self, name: impl Into<Name>, r: &RDom, term: Expr) -> Vec<Expr> {
        let start = Expr::least(term.ty());
        self.extreme(name, r, term, start, BinaryOp::Gt)
    }

    fn reduced(&mut self, name: impl Into<Name>, r: &RDom, term: Expr, start: Expr, op: BinaryOp) -> Expr {
        let (vars, at) = outer_variables(r, &term);
        let f = Func::new(name, &vars, vec![start]);
        let value = Expr::binary(op, f.at(&at, 0), term);
        self.func(f.update(at.clone(), vec![value], r.clone())).at(&at, 0)
    }

    fn extreme(
        &mut self,
        name: impl Into<Name>,
        r: &RDom,
        term: Expr,
        start: Expr,
        better: BinaryOp,
    ) -> Vec<Expr> {
        let (vars, at) = outer_variables(r, &term);
        let mut first: Vec<Expr> = r.vars.iter().map(|v| v.min.clone()).collect();
        first.push(start);
        let f = Func::new(name, &vars, first);
        let last = r.vars.len();
        let better = Expr::binary(better, term.clone(), f.at(&at, last));
        let mut values: Vec<Expr> =
            (0..last).map(|i| Expr::select(&better, r.var(i), f.at(&at, i))).collect();
        values.push(Expr::select(better, term, f.at(&at, last)));
        let f = self.func(f.update(at.clone(), values, r.clone()));
        (0..=last).map(|k| f.at(&at, k)).collect()
    }
}

/// The variables that a term over `r` uses beside those of `r`, as the dimensions of a Func and as coordinates.
fn outer_variables(r: &RDom, term: &Expr) -> (Vec<Var>, Vec<Expr>) {
    let bounds = r.vars.iter().flat_map(|v| [&v.min, &v.extent]);
    let mut vars = free_variables(std::iter::once(term).chain(&r.predicate).chain(bounds));
    vars.retain(|v| r.vars.iter().all(|own| own.name != *v));
    let vars: Vec<Var> = vars.into_iter().map(Var::new).collect();
    let at = vars.iter().map(|v| v.expr()).collect();
    (vars, at)
}
