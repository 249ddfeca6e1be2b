//! A choice among several values by their number.

use crate::expr::{Expr, ExprKind};
use crate::types::Type;

impl Expr {
    /// The value with number `index` of these, counted from 0; the last one for any other number. All are of one type, which they agree
    /// on as operands do. Of no values it is an expression that every pipeline refuses.
    ///
    /// ```
    /// use sumsq_codegen::{Expr, Input, Pipeline, ScalarType::F32, Source, Var};
    ///
    /// let [x, y, c] = Var::all(["x", "y", "c"]);
    /// let mut p = Pipeline::new("swapped");
    /// let input = p.input(Input::new("input", &[F32], 3));
    /// let colours = [2, 1, 0].map(|k| input.of((x, y, k)));
    /// let output = p.define("output", [x, y, c], Expr::mux(c, colours));
    /// p.output(&output);
    /// ```
    pub fn mux<V: Into<Expr>>(index: impl Into<Expr>, values: impl IntoIterator<Item = V>) -> Expr {
        let index = index.into();
        let mut values: Vec<Expr> = values.into_iter().map(V::into).collect();
        let Some(last) = values.pop() else {
            return Expr::new(ExprKind::Interleave(vec![]), Type::I32);
        };
        let numbered = values.iter().enumerate();
        numbered.rfold(last, |rest, (i, v)| Expr::select(index.eq_(i as i64), v, rest))
    }
}
