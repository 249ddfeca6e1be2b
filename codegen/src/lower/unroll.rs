//! Copies unrolled loops.
//!
//! Before: flat statements, `For` of any kind. After: no `Unrolled` loop; the copies follow each other in order, each under
//! a `Let` of the loop variable, which simplification substitutes. Follows flattening, precedes vectorising.

use super::simplify::simplify_index;
use crate::error::Error;
use crate::expr::{Expr, Name};
use crate::ir::rewrite::{block, map_children};
use crate::ir::stmt::Stmt;
use crate::schedule::ForKind;

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
    let copy = |k: i64| Stmt::Let {
        name: var.clone(),
        value: simplify_index(&(min + &Expr::int(min.ty(), k))),
        body: Box::new(body.clone()),
    };
    block((0..copies.unwrap_or(0)).map(copy).collect())
}

fn refuse(var: &Name, rule: String) -> Error {
    Error::Schedule { func: var.to_string(), directive: format!("unroll({var})"), rule }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ScalarType;

    fn loop_of(extent: Expr) -> Stmt {
        let body = Stmt::Store {
            buffer: "f.0".into(),
            index: (Expr::var("k") * 8).cast(ScalarType::I64),
            value: Expr::from(0.5f32),
            predicate: None,
            aligned: false,
            non_temporal: false,
        };
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
    fn symbolic_extents_are_refused() {
        let e = unroll(&loop_of(Expr::var("n"))).unwrap_err().to_string();
        assert_eq!(e, "k: unroll(k): the extent n is no constant: split by a constant first");
        let e = unroll(&loop_of(Expr::from(MAX_COPIES as i32 + 1))).unwrap_err().to_string();
        assert_eq!(e, "k: unroll(k): 257 copies are too many (at most 256)");
    }
}
