//! Conditions that are worth a test for the interior of a kernel.

use crate::analysis::algebra::Facts;
use crate::analysis::algebra::poly::{Poly, is_index};
use crate::analysis::algebra::rebuild::rebuild;
use crate::expr::walk::{loads, substitute, variables, visit};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::ir::rewrite::{for_each_child, own_exprs};
use crate::ir::stmt::Stmt;
use crate::lower::interior::worst::Worst;
use crate::lower::partition::strip_expr;
use crate::types::Type;
use rustc_hash::{FxHashMap, FxHashSet};

/// The conditions of a statement that stands in the loops of a kernel.
pub(super) struct Conditions<'a> {
    worst: Worst<'a>,
    /// Values of integers that are bound in the kernel; none of those that read memory.
    values: FxHashMap<Name, Option<Expr>>,
    /// Those that are marked, with what they come to for all threads, if that is known.
    pub(super) marked: Vec<(Expr, Option<Vec<Expr>>)>,
    /// Tests by which minima and maxima are not cut off.
    pub(super) cuts: Vec<Vec<Expr>>,
}

impl<'a> Conditions<'a> {
    /// Those of `s`, which stands in `lets` and in the loops of these variables.
    pub(super) fn of(s: &Stmt, lets: &[(Name, Expr)], loops: &'a FxHashSet<Name>) -> Conditions<'a> {
        let mut all = Conditions {
            worst: Worst::new(loops),
            values: FxHashMap::default(),
            marked: vec![],
            cuts: vec![],
        };
        for (name, value) in lets {
            all.bind(name, value);
        }
        all.collect(s);
        all
    }

    /// Binds a name, and returns what it stood for.
    fn bind(&mut self, name: &Name, value: &Expr) -> Option<Option<Expr>> {
        let is_known = is_index(value.ty()) && value.ty().lanes == 1 && !loads(value);
        if is_known {
            self.cut(value);
        }
        let value = self.value(value).filter(|_| is_known);
        self.values.insert(name.clone(), value)
    }

    /// An expression in terms of what is known in front of the statement; none if it is not.
    fn value(&self, e: &Expr) -> Option<Expr> {
        let unknown = |v: &Name| matches!(self.values.get(v), Some(None));
        if loads(e) || variables(e).iter().any(unknown) {
            return None;
        }
        let by = self.values.iter().filter_map(|(n, v)| Some((n.clone(), v.clone()?))).collect();
        Some(substitute(e, &by))
    }

    fn collect(&mut self, s: &Stmt) {
        own_exprs(s, &mut |e| {
            visit(e, &mut |n| {
                if let ExprKind::Likely(c) = n.kind() {
                    let mut tests = vec![];
                    let holds = self.condition(c, &mut tests);
                    self.marked.push((c.clone(), holds.map(|()| tests)));
                }
                true
            });
        });
        match s {
            Stmt::Let { name, value, body } => {
                let outer = self.bind(name, value);
                self.collect(body);
                match outer {
                    Some(value) => _ = self.values.insert(name.clone(), value),
                    None => _ = self.values.remove(name),
                }
            }
            Stmt::For { var, min, extent, body, .. } => {
                self.cut(extent);
                let range = self.value(min).zip(self.value(extent));
                let known =
                    range.map(|(min, extent)| self.worst.enter(var, &min, &(min.clone() + extent - 1)));
                if known.is_none() {
                    self.values.insert(var.clone(), None);
                }
                self.collect(body);
            }
            s => for_each_child(s, &mut |s| self.collect(s)),
        }
    }

    /// Adds what a condition comes to.
    fn condition(&mut self, c: &Expr, tests: &mut Vec<Expr>) -> Option<()> {
        match c.kind() {
            ExprKind::Binary(BinaryOp::And, a, b) if c.ty() == Type::BOOL => {
                self.condition(a, tests)?;
                self.condition(b, tests)
            }
            ExprKind::Binary(_, a, _) if a.ty() == Type::I32 => {
                let p = Facts::new().at_most_zero(&self.value(&strip_expr(c))?)?;
                tests.extend(self.tests(&p)?);
                Some(())
            }
            _ => None,
        }
    }

    /// Minima and maxima have the value that is typical.
    fn cut(&mut self, e: &Expr) {
        let mut all = vec![];
        visit(e, &mut |n| {
            if let ExprKind::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) = n.kind()
                && n.ty() == Type::I32
            {
                all.extend(self.value(a).zip(self.value(b)).map(|(a, b)| (*op, a, b)));
            }
            true
        });
        for (op, a, b) in all {
            let less = self.worst.cut(op == BinaryOp::Min, &a, &b);
            let tests = less.and_then(|p| self.tests(&p));
            self.cuts.extend(tests);
        }
    }

    /// The tests for `p <= 0`.
    fn tests(&mut self, p: &Poly) -> Option<Vec<Expr>> {
        let all = self.worst.of(p)?;
        Some(all.iter().map(|p| rebuild(p, Type::I32).le(0)).collect())
    }
}
