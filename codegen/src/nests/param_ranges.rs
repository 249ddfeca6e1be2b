//! Promised ranges of parameters ([`crate::func::Pipeline::param_in`]).
//!
//! Regions, sizes and folds count on them, so the code tests them before anything else, however it is called. In this process binding a
//! value tests it before that.

use crate::analysis::algebra::Facts;
use crate::analysis::algebra::poly::is_index;
use crate::expr::{Expr, Name};
use crate::func::Pipeline;
use crate::ir::stmt::Stmt;
use crate::types::{ScalarType, Type};

/// The ranges become facts. Before any region is inferred.
pub(super) fn enter_param_ranges(facts: &mut Facts, p: &Pipeline) {
    let ranges = p.param_ranges.iter().filter_map(|(n, r)| Some((n, *p.params.get(n)?, r)));
    for (name, ty, (low, high)) in ranges.filter(|(_, ty, _)| is_index(Type::from(*ty))) {
        let end = |v: i64| (ty.wrap(v) == v).then(|| Expr::int(ty, v));
        facts.param_interval(name.clone(), end(*low), end(*high));
    }
}

/// One assertion per range.
pub(super) fn param_checks(p: &Pipeline) -> Vec<Stmt> {
    let check = |(name, (low, high)): (&Name, &(i64, i64))| {
        let ty = p.params.get(name).copied().filter(|ty| ty.is_int())?;
        let value = Expr::param(name.clone(), ty).cast(ScalarType::I64);
        let end = |v: i64| Expr::int(ScalarType::I64, v);
        let cond = end(*low).le(&value).and(value.le(end(*high)));
        let message = format!("{name} must be in [{low}, {high}], it is");
        Some(Stmt::Assert { cond, message, args: vec![value] })
    };
    p.param_ranges.iter().filter_map(check).collect()
}
