//! Copies unrolled loops.
//!
//! Before: flat statements, `For` of any kind. After: no `Unrolled` loop; the copies follow each other in order, each under
//! a `Let` of the loop variable, which simplification substitutes. Of selects whose condition a copy decides only the chosen arm is left: of a
//! choice among as many values as there are copies (`mux`) vectorising would make as many in each. Follows flattening, precedes vectorising.

use super::simplify::simplify_index;
use crate::error::Error;
use crate::expr::walk::{Memo, any, rewrite, substitute, uses_var};
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::rewrite::{block, map_children, own_exprs, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::schedule::ForKind;
use rustc_hash::FxHashMap;

/// More copies than this are refused: it is a mistake, and would take minutes to compile.
const MAX_COPIES: i64 = 256;

/// See the module's description. An extent that is no constant is an error.
pub fn unroll(s: &Stmt) -> Result<Stmt, Error> {
    let mut error = None;
    let out = walk(s, &mut error);
    error.map_or(Ok(out), Err)
}

fn walk(s: &Stmt, error: &mut Option<Error>) -> Stmt {
    let Stmt::For { var, min, extent, kind: ForKind::Unrolled, body } = s else {
        return map_children(s, &mut Expr::clone, &mut |s| walk(s, error));
    };
    let body = walk(body, error);
    let copies = simplify_index(extent).as_int();
    match copies {
        Some(n) if n <= MAX_COPIES => {}
        Some(n) => *error = Some(refuse(var, format!("{n} copies are too many (at most {MAX_COPIES})"))),
        None => {
            let rule = format!("the extent {extent} is no constant: split by a constant first");
            *error = Some(refuse(var, rule));
        }
    }
    if error.is_some() {
        return Stmt::Block(vec![]);
    }
    let chooses = chooses(&body, var);
    let copy = |k: i64| {
        let value = simplify_index(&(min + &Expr::int(min.ty(), k)));
        let body = match chooses && value.as_int().is_some() {
            true => decided(&body, &FxHashMap::from_iter([(var.clone(), value.clone())])),
            false => body.clone(),
        };
        Stmt::Let { name: var.clone(), value, body: Box::new(body) }
    };
    block((0..copies.unwrap_or(0)).map(copy).collect())
}

/// True if a condition of a select mentions `var`.
fn chooses(s: &Stmt, var: &str) -> bool {
    let mut found = false;
    let on = |e: &Expr| matches!(e.kind(), ExprKind::Select(c, ..) if uses_var(c, var));
    visit_stmts(s, &mut |s| own_exprs(s, &mut |e| found = found || any(e, on)));
    found
}

/// Selects whose condition is known with these values become the chosen arm.
fn decided(s: &Stmt, values: &FxHashMap<Name, Expr>) -> Stmt {
    let mut choose = |_: &Expr, new: Expr| match new.kind() {
        ExprKind::Select(c, a, b) => match simplify_index(&substitute(c, values)).as_int() {
            Some(0) => b.clone(),
            Some(_) => a.clone(),
            None => new,
        },
        _ => new,
    };
    let mut expr = |e: &Expr| rewrite(e, &mut Memo::default(), &mut choose);
    map_children(s, &mut expr, &mut |s| decided(s, values))
}

fn refuse(var: &Name, rule: String) -> Error {
    Error::Schedule { func: var.to_string(), directive: format!("unroll({var})"), rule }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ScalarType;

    fn loop_of(extent: Expr) -> Stmt {
        let body = Stmt::store("f.0", (Expr::var("k") * 8).cast(ScalarType::I64), Expr::from(0.5f32));
        let kind = ForKind::Unrolled;
        Stmt::For { var: "k".into(), min: Expr::var("x"), extent, kind, body: Box::new(body) }
    }

    #[test]
    fn copies_follow_each_other() {
        let s = unroll(&loop_of(Expr::from(3))).unwrap();
        let text = "{\n  let k = x\n  f.0[i64(k * 8)] = 0.5f\n}\n{\n  let k = x + 1\n  f.0[i64(k * 8)] = 0.5f\n}\n\
                    let k = x + 2\nf.0[i64(k * 8)] = 0.5f\n";
        assert_eq!(s.to_string(), text);
    }

    #[test]
    fn copies_choose() {
        let value = Expr::select(Expr::var("k").eq_(4), Expr::var("a"), Expr::var("b"));
        let value = Expr::select(Expr::var("x").eq_(4), value, Expr::var("c")).cast(ScalarType::F32);
        let index = Expr::from(0).cast(ScalarType::I64);
        let (predicate, aligned, non_temporal) = (None, false, false);
        let body = Stmt::Store { buffer: "f.0".into(), index, value, predicate, aligned, non_temporal };
        let (min, extent, kind) = (Expr::from(3), Expr::from(2), ForKind::Unrolled);
        let s = Stmt::For { var: "k".into(), min, extent, kind, body: Box::new(body) };
        let text = "{\n  let k = 3\n  f.0[i64(0)] = f32(select(x == 4, b, c))\n}\n\
                    let k = 4\nf.0[i64(0)] = f32(select(x == 4, a, c))\n";
        assert_eq!(unroll(&s).unwrap().to_string(), text);
    }

    #[test]
    fn symbolic_extents_are_refused() {
        let e = unroll(&loop_of(Expr::var("n"))).unwrap_err().to_string();
        assert_eq!(e, "k: unroll(k): the extent n is no constant: split by a constant first");
        let e = unroll(&loop_of(Expr::from(MAX_COPIES as i32 + 1))).unwrap_err().to_string();
        assert_eq!(e, "k: unroll(k): 257 copies are too many (at most 256)");
    }
}
