//! Statements that both arms of a condition begin with, once in front of it.
//!
//! Before: a kernel. After: no condition has arms that begin with the same statement, unless the condition reads memory, which that might change. What a
//! tile stores of its own elements beside computing all of them is written twice by [`crate::nests`], so that loops inside test nothing; where
//! every thread has its own element, there are no loops inside.

use crate::expr::Expr;
use crate::expr::walk::{loads, variables};
use crate::ir::rewrite::{block, map_children};
use crate::ir::stmt::Stmt;

/// See the module's description.
pub(super) fn alike(s: &Stmt) -> Stmt {
    match map_children(s, &mut Expr::clone, &mut alike) {
        Stmt::If { cond, then, otherwise: Some(no) } if !loads(&cond) => merged(&cond, *then, *no),
        s => s,
    }
}

/// `if cond { yes } else { no }`.
fn merged(cond: &Expr, yes: Stmt, no: Stmt) -> Stmt {
    match (yes, no) {
        (yes, no) if yes == no => yes,
        (Stmt::Let { name, value, body: yes }, Stmt::Let { name: other, value: same, body: no })
            if name == other && value == same && !variables(cond).contains(&name) =>
        {
            let body = Box::new(merged(cond, *yes, *no));
            Stmt::Let { name, value, body }
        }
        (
            Stmt::If { cond: inner, then: yes, otherwise: None },
            Stmt::If { cond: same, then: no, otherwise: None },
        ) if inner == same => {
            let then = Box::new(merged(cond, *yes, *no));
            Stmt::If { cond: inner, then, otherwise: None }
        }
        (yes, no) => {
            let [mut yes, mut no] = [yes, no].map(list);
            let n = yes.iter().zip(&no).take_while(|(a, b)| a == b).count();
            let mut all: Vec<Stmt> = yes.drain(..n).collect();
            no.drain(..n);
            let otherwise = (!no.is_empty()).then(|| Box::new(block(no)));
            let (cond, then) = (cond.clone(), Box::new(block(yes)));
            all.push(Stmt::If { cond, then, otherwise });
            block(all)
        }
    }
}

fn list(s: Stmt) -> Vec<Stmt> {
    match s {
        Stmt::Block(all) => all,
        s => vec![s],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::ExprKind;
    use crate::types::{ScalarType, Type};

    fn store(buffer: &str, value: Expr) -> Stmt {
        Stmt::store(crate::expr::Flat::plane(buffer, 0), Expr::from(0).cast(ScalarType::I64), value)
    }

    fn branch(cond: Expr, then: Stmt, otherwise: Option<Stmt>) -> Stmt {
        Stmt::If { cond, then: Box::new(then), otherwise: otherwise.map(Box::new) }
    }

    fn bound(body: Stmt) -> Stmt {
        Stmt::Let { name: "v".into(), value: Expr::from(2.0f32), body: Box::new(body) }
    }

    #[test]
    fn what_arms_begin_with_stands_in_front() {
        let v = Expr::new(ExprKind::Var("v".into()), Type::F32);
        let (own, inside) = (Expr::var("y").le(3), Expr::var("x").le(7));
        let both = store("tile", v.clone());
        let more = Stmt::Block(vec![both.clone(), branch(inside.clone(), store("out", v), None)]);
        let around = |s: Stmt| branch(inside.clone(), bound(s), None);
        let text = alike(&branch(own, around(more), Some(around(both)))).to_string();
        let expected = "\
if x <= 7 {
  let v = 2f
  tile.0[i64(0)] = v
  if y <= 3 {
    if x <= 7 {
      out.0[i64(0)] = v
    }
  }
}
";
        assert_eq!(text, expected);
    }

    #[test]
    fn arms_that_differ_or_change_the_condition_stay() {
        let [one, two] = [1.0f32, 2.0].map(|v| store("f", Expr::from(v)));
        let differ = branch(Expr::var("y").le(3), one.clone(), Some(two.clone()));
        assert_eq!(alike(&differ), differ);
        let (buffer, index) = (crate::expr::Flat::plane("f", 0), Expr::from(0).cast(ScalarType::I64));
        let read = Expr::load(buffer, index, Type::F32);
        let arm = |last: &Stmt| Stmt::Block(vec![one.clone(), last.clone()]);
        let changes = branch(read.gt(Expr::from(0.0f32)), arm(&one), Some(arm(&two)));
        assert_eq!(alike(&changes), changes);
    }
}
