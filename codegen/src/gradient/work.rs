//! The work of a pipeline, counted from sizes alone.

use crate::analysis::evaluate::evaluate;
use crate::error::Error;
use crate::expr::walk::visit;
use crate::expr::{BinaryOp, Expr, ExprKind, Param};
use crate::func::Pipeline;
use crate::gradient::schedule::{boxes, sizes};
use crate::gradient::support::{Stage, known};
use crate::plan::validate::{error, validate};

/// Operations and reads of one run: each definition once at each point that is needed of it, wherever a schedule computes it. A division counts
/// as 8 and a function as 20 operations, as in energies; a reduction over as many elements as data says as over one. `estimates` are the
/// extents of inputs and outputs, `params` the values of parameters.
///
/// # Errors
/// A pipeline that is refused anyway; a Func whose size does not follow from these.
pub fn work(p: &Pipeline, estimates: &[(&str, &[i32])], params: &[(&str, f64)]) -> Result<u64, Error> {
    validate(p)?;
    let mut known = known(p, estimates);
    let declared = params.iter().filter_map(|(name, v)| Some((*name, *p.params.get(*name)?, *v)));
    known.params.extend(declared.map(|(name, ty, v)| (Param::Named(name.into()), Expr::constant(ty, v))));
    let sizes = sizes(&boxes(p, &known)?, &known);
    let mut all = 0u64;
    for f in p.funcs.values() {
        let Some(own) = sizes.get(&f.name) else { continue };
        let own: Option<Vec<i64>> = own.iter().copied().collect();
        let own = own
            .ok_or_else(|| error(p, format!("the size of {} follows from what only a run knows", f.name)))?;
        for s in Stage::all(f) {
            let pure = (0..own.len()).filter(|&d| s.is_pure(f, d)).map(|d| own[d]);
            let terms = s.rdom.vars.iter().map(|r| evaluate(&r.extent, &known).unwrap_or(1));
            let points = pure.chain(terms).fold(1, |n: u64, m| n.saturating_mul(m.max(0) as u64));
            all = all.saturating_add(points.saturating_mul(operations(&s)));
        }
    }
    Ok(all)
}

/// Operations of one point.
fn operations(s: &Stage) -> u64 {
    let mut n = 0;
    for root in s.values.iter().chain(&s.rdom.predicate).chain(s.args.into_iter().flatten()) {
        visit(root, &mut |e| {
            n += weight(e);
            true
        });
    }
    n
}

fn weight(e: &Expr) -> u64 {
    match e.operation() {
        ExprKind::Unary(op, _) if op.function().is_some() => 20,
        ExprKind::Binary(op, ..) if op.function().is_some() => 20,
        ExprKind::Binary(BinaryOp::Div | BinaryOp::Mod, _, b) if b.as_int().is_none() => 8,
        ExprKind::Unary(..)
        | ExprKind::Binary(..)
        | ExprKind::Select(..)
        | ExprKind::Cast(_)
        | ExprKind::Call { .. } => 1,
        ExprKind::Fma(..) => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::func::{Func, Input, RDom, Source, Var};
    use crate::types::ScalarType;

    #[test]
    fn each_point_counts_once() {
        let [x, y] = Var::all(["x", "y"]);
        let mut p = Pipeline::new("blur");
        let input = p.input(Input::new("in", &[ScalarType::F32], 2));
        // Two reads, a coordinate and a sum, at 10 x 9 points; the same with a quotient at 10 x 8.
        let down = p.define("down", [x, y], input.of((x, y)) + input.of((x, y + 1)));
        let out = p.define("out", [x, y], down.of((x, y)) / down.of((x, y + 1)));
        p.output(&out);
        let sizes: [(&str, &[i32]); 2] = [("in", &[10, 10]), ("out", &[10, 8])];
        assert_eq!(work(&p, &sizes, &[]).unwrap(), 10 * (4 * 9 + 11 * 8));
    }

    #[test]
    fn terms_of_reductions_count() {
        let mut p = Pipeline::new("total");
        let input = p.input(Input::new("in", &[ScalarType::F32], 2));
        let r = RDom::new([("r", Expr::from(0), input.extent(0)), ("s", Expr::from(0), input.extent(1))]);
        let total = p.func(Func::sum("total", &[], r.clone(), vec![input.of((r.var(0), r.var(1)))]));
        p.output(&total);
        assert_eq!(work(&p, &[("in", &[10, 9]), ("total", &[])], &[]).unwrap(), 10 * 9 * 3);
    }

    #[test]
    fn parameters_are_known_or_asked_for() {
        let x = Var::new("x");
        let mut p = Pipeline::new("stretched");
        let n = p.param_in("n", ScalarType::I32, 1, 9);
        let long = p.define("long", [x], x.expr() + 1);
        let last = p.define("last", [x], long.of(x * &n));
        p.output(&last);
        let said = |params: &[(&str, f64)]| work(&p, &[("last", &[7])], params).map_err(|e| e.to_string());
        // A sum at 3 x 6 + 1 points, a product and a read at 7.
        assert_eq!(said(&[("n", 3.0)]), Ok(19 + 14));
        let rule = "pipeline stretched: the size of long follows from what only a run knows";
        assert_eq!(said(&[]), Err(rule.into()));
    }
}
