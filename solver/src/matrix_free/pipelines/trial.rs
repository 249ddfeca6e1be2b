//! The trial point x + s, the model's predicted decrease there and the norms of the step.
//!
//! Outputs `xt<s>` = x + s in the master precision, and the scalar tuple `model` in float64: see the constants.
//! pred = -sum (J s)(2 r + J s), D not included.
//!
//! Without bounds s = d. With them s = P(x + d) - x; and where the parameter `descent` is t > 0, t b stands in place of d, b being what
//! `dr` holds before PCG. t < 0 takes -t b as it is, without
//! P: what the length of that step is found with.

use crate::matrix_free::domain::fields::{all, over, vars};
use crate::matrix_free::schedule::reduce::{Op, reduce, sink, skip_unless};
use crate::matrix_free::{Scheduled, Skeleton, Space};
use sumsq_codegen::{Expr, Func, Pipeline, ScalarType, Schedule, Var};
use sumsq_energy::dag::Source;
use sumsq_energy::derive::Kind;
use sumsq_energy::emit::names;
use sumsq_energy::model::{Domain, SpaceId};

/// Element of `model`: sum (J s)(2 r + J s), the negative of the predicted decrease.
pub const MODEL: usize = 0;
/// Element of `model`: |s|^2.
pub const STEP: usize = 1;
/// Element of `model`: |x + s|^2 over free scalars. The rule that compares |s| with |x| holds only where this is |x|^2 to its tolerance, and
/// x + s is at hand.
pub const X: usize = 2;

/// The pipeline.
pub fn pipeline(k: &Skeleton) -> Scheduled {
    let (mut p, mut s) = (Pipeline::new("trial"), Schedule::new());
    let mut totals = [const { None::<Expr> }; 3];
    let mut add = |element: usize, e: Expr| {
        totals[element] = Some(match totals[element].take() {
            None => e,
            Some(sum) => sum + e,
        });
    };
    let mut domains = k.domains();
    for space in &k.spaces {
        p.input(k.field(over("dr", space.id), &vec![k.linear; 2 * space.components], space.id));
        let vars = vars(space.dims);
        let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
        let values = (0..space.components).map(|c| proposed(k, space, c, &at).trial).collect();
        let xt = p.func(Func::new(over("xt", space.id), &vars, values));
        let layout = k.vector_layout(space.id, Source::Unknown);
        p.output_with(&xt, layout, k.halos[space.id.index()].clone());

        let points = k.points(Domain::Space(space.id));
        let mut terms = norms(k, space, &xt, &points.coordinates);
        // What residuals there are over the same elements reads the same x and d.
        let own = domains.iter().position(|&d| d == Domain::Space(space.id)).map(|i| domains.remove(i));
        terms.extend(own.map(|d| model(k, d, &points.coordinates)));
        let terms = terms.into_iter().map(|t| (Op::Add, t)).collect();
        let (f, loops) = reduce(&mut p, &mut s, &over("steps", space.id), &points, terms);
        skip_unless(&mut s, &loops.vector, k.near_at(space.id, &points.coordinates));
        sink(&mut s, &xt, &loops.vector);
        [STEP, X, MODEL].into_iter().zip(all(&f, &[])).for_each(|(element, e)| add(element, e));
    }
    for (i, domain) in domains.into_iter().enumerate() {
        let points = k.points(domain);
        let term = (Op::Add, model(k, domain, &points.coordinates));
        let (f, _) = reduce(&mut p, &mut s, &format!("model{i}"), &points, vec![term]);
        add(MODEL, f.at(&[], 0));
    }
    let totals = totals.into_iter().map(|t| t.unwrap_or(Expr::from(0.0f64))).collect();
    let model = p.func(Func::new("model", &[], totals));
    p.output(&model);
    k.complete_at_x(&mut p, &mut s);
    (p, s)
}

fn direction(k: &Skeleton, space: SpaceId, component: usize, at: &[Expr]) -> Expr {
    let space = k.spaces.iter().find(|s| s.id == space).expect("directions are of unknowns");
    proposed(k, space, component, at).step
}

/// The terms of [`STEP`] and [`X`] at an element.
fn norms(k: &Skeleton, space: &Space, xt: &Func, at: &[Expr]) -> Vec<Expr> {
    let square = |e: Expr| e.cast(ScalarType::F64) * e.cast(ScalarType::F64);
    let norm = |f: &dyn Fn(usize) -> Expr| (0..space.components).map(|c| square(f(c))).reduce(|a, b| a + b);
    let terms = [norm(&|c| direction(k, space.id, c, at)), norm(&|c| xt.at(at, c))];
    // Excluded elements are no part of x: they may hold any number.
    let counted = |t| match k.excluded(space.id) {
        Some(_) => Expr::select(k.free_at(space, at), t, Expr::from(0.0f64)),
        None => t,
    };
    terms.into_iter().flatten().map(counted).collect()
}

/// The term of [`MODEL`] at an instance of a domain that has residuals.
fn model(k: &Skeleton, domain: Domain, at: &[Expr]) -> Expr {
    let roots = k.instance_roots(Kind::Model, domain);
    let place = k.place(domain, at.to_vec());
    let terms = k.emit(&roots, k.master, place, &|space, c, at| direction(k, space, c, at));
    let terms = terms.into_iter().map(|t| t.cast(ScalarType::F64));
    terms.reduce(|a, b| a + b).expect("the domain has residuals")
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
