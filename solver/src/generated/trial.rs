//! The trial point x + s, the model's predicted decrease there and the norms of the step.
//!
//! Outputs `xt<s>` = x + s in the master precision, and the scalar tuple `model` in float64: see the constants.
//! pred = -sum (J s)(2 r + J s), D not included (design section 5).
//!
//! Without bounds s = d. With them s = P(x + d) - x; and where the parameter `descent` is t > 0, t b stands in place of d, b being what
//! `dr` holds before PCG. t < 0 takes -t b as it is, without
//! P: what the length of that step is found with.

use super::fields::{all, over, vars};
use super::reduce::{Op, map_root, reduce, strip_name};
use super::{Scheduled, Skeleton, Space};
use sumsq_codegen::{Expr, Func, Pipeline, ScalarType, Schedule};
use sumsq_energy::dag::{ExprId, Source};
use sumsq_energy::emit::names;
use sumsq_energy::model::{Domain, SpaceId};

/// Element of `model`: sum (J s)(2 r + J s), the negative of the predicted decrease.
pub const MODEL: usize = 0;
/// Element of `model`: |s|^2.
pub const STEP: usize = 1;
/// Element of `model`: |x|^2 over free scalars.
pub const X: usize = 2;

/// The pipeline.
pub fn pipeline(k: &Skeleton) -> Scheduled {
    let (mut p, mut s) = (Pipeline::new("trial"), Schedule::new());
    let zero = || Expr::from(0.0f64);
    let mut totals = [zero(), zero(), zero()];
    let direction = |space: SpaceId, component: usize, at: &[Expr]| {
        let space = k.spaces.iter().find(|s| s.id == space).expect("directions are of unknowns");
        proposed(k, space, component, at).step
    };
    for space in &k.spaces {
        p.input(k.field(over("dr", space.id), &vec![k.linear; 2 * space.components], space.id));
        let x = |at: &[Expr], c: usize| Expr::call(names::unknowns(space.id), k.master, at.to_vec(), c);
        let vars = vars(space.dims);
        let at: Vec<Expr> = vars.iter().map(|v| v.expr()).collect();
        let values = (0..space.components).map(|c| proposed(k, space, c, &at).trial).collect();
        let f = p.func(Func::new(over("xt", space.id), &vars, values));
        map_root(&mut s, &f, &Expr::param(strip_name(Domain::Space(space.id)), ScalarType::I32));
        let layout = k.vector_layout(space.id, Source::Unknown);
        p.output_with(&f, layout, k.halos[space.id.index()].clone());

        let points = k.points(Domain::Space(space.id));
        let at = &points.coordinates;
        let square = |e: Expr| e.cast(ScalarType::F64) * e.cast(ScalarType::F64);
        let norm =
            |f: &dyn Fn(usize) -> Expr| (0..space.components).map(|c| square(f(c))).reduce(|a, b| a + b);
        let terms = [norm(&|c| direction(space.id, c, at)), norm(&|c| x(at, c))];
        // Excluded elements are no part of x: they may hold any number.
        let counted = |t| match k.excluded(space.id) {
            Some(_) => Expr::select(k.free_at(space, at), t, zero()),
            None => t,
        };
        let terms = terms.into_iter().flatten().map(|t| (Op::Add, counted(t))).collect();
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
    k.complete_at_x(&mut p, &mut s);
    (p, s)
}

/// What is proposed for one scalar.
struct Proposed {
    /// x + s.
    trial: Expr,
    /// s.
    step: Expr,
}

fn proposed(k: &Skeleton, space: &Space, c: usize, at: &[Expr]) -> Proposed {
    let component = |c| Expr::call(over("dr", space.id), k.linear, at.to_vec(), c).cast(k.master);
    let (d, b) = (component(c), component(space.components + c));
    let Some(boxed) = k.boxed(space, at) else {
        let x = Expr::call(names::unknowns(space.id), k.master, at.to_vec(), c);
        return Proposed { trial: x + &d, step: d };
    };
    let (t, zero) = (Expr::param("descent", k.master), Expr::float(k.master, 0.0));
    let d = Expr::select(t.gt(zero.clone()), &t * &b, d);
    let step = Expr::select(t.lt(zero), -(&t * &b), boxed.step(c, &d));
    Proposed { trial: boxed.moved(c, &d), step }
}
