//! The trial point x + d, the model's predicted decrease there and the norms of the step.
//!
//! Outputs `xt<s>` = x + d in the master precision, and the scalar tuple `model` in float64: see the constants.
//! pred = -sum (J d)(2 r + J d), D not included (design section 5).

use super::fields::{all, over, vars};
use super::reduce::{Op, map_root, reduce, strip_name};
use super::{Scheduled, Skeleton};
use sumsq_codegen::{Expr, Func, Layout, Pipeline, ScalarType, Schedule};
use sumsq_energy::dag::ExprId;
use sumsq_energy::emit::names;
use sumsq_energy::model::{Domain, SpaceId};

/// Element of `model`: sum (J d)(2 r + J d), the negative of the predicted decrease.
pub const MODEL: usize = 0;
/// Element of `model`: |d|^2.
pub const STEP: usize = 1;
/// Element of `model`: |x|^2.
pub const X: usize = 2;

/// The pipeline.
pub fn pipeline(k: &Skeleton) -> Scheduled {
    let (mut p, mut s) = (Pipeline::new("trial"), Schedule::new());
    let zero = || Expr::from(0.0f64);
    let mut totals = [zero(), zero(), zero()];
    let direction = |space: SpaceId, component: usize, at: &[Expr]| {
        Expr::call(over("dr", space), k.linear, at.to_vec(), component).cast(k.master)
    };
    for space in &k.spaces {
        p.input(k.field(over("dr", space.id), &vec![k.linear; 2 * space.components], space.id));
        let x = |at: &[Expr], c: usize| Expr::call(names::unknowns(space.id), k.master, at.to_vec(), c);
        let vars = vars(space.dims);
        let at: Vec<Expr> = vars.iter().map(|v| v.expr()).collect();
        let values = (0..space.components).map(|c| x(&at, c) + direction(space.id, c, &at)).collect();
        let f = p.func(Func::new(over("xt", space.id), &vars, values));
        map_root(&mut s, &f, &Expr::param(strip_name(Domain::Space(space.id)), ScalarType::I32));
        p.output_with(&f, Layout::Planar, k.halos[space.id.index()].clone());

        let points = k.points(Domain::Space(space.id));
        let at = &points.coordinates;
        let square = |e: Expr| e.cast(ScalarType::F64) * e.cast(ScalarType::F64);
        let norm =
            |f: &dyn Fn(usize) -> Expr| (0..space.components).map(|c| square(f(c))).reduce(|a, b| a + b);
        let terms = [norm(&|c| direction(space.id, c, at)), norm(&|c| x(at, c))];
        let terms = terms.into_iter().flatten().map(|t| (Op::Add, t)).collect();
        let (f, _) = reduce(&mut p, &mut s, &over("norms", space.id), &points, terms);
        totals[STEP] = totals[STEP].clone() + f.at(&[], 0);
        totals[X] = totals[X].clone() + f.at(&[], 1);
    }
    for (i, domain) in k.domains().into_iter().enumerate() {
        let points = k.points(domain);
        let costs = k.routines.costs.iter().filter(|c| k.energy.residuals[c.residual].domain == domain);
        let roots: Vec<ExprId> = costs.map(|c| c.model).collect();
        let terms = k.emit(&roots, k.master, k.place(domain, points.coordinates.clone()), &direction);
        let term = terms.into_iter().map(|t| t.cast(ScalarType::F64)).reduce(|a, b| a + b);
        let Some(term) = term else { continue };
        let (f, _) = reduce(&mut p, &mut s, &format!("model{i}"), &points, vec![(Op::Add, term)]);
        totals[MODEL] = totals[MODEL].clone() + all(&f, &[])[0].clone();
    }
    let model = p.func(Func::new("model", &[], totals.to_vec()));
    p.output(&model);
    k.complete(&mut p, &mut s, k.master);
    (p, s)
}
