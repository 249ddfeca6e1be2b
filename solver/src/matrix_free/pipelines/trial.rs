//! The trial point x + s, the model's predicted decrease there and the norms of the step.
//!
//! Outputs `xt<s>` = x + s in the master precision, and the scalar tuple `model` in float64: see the constants.
//! pred = -sum (J s)(2 r + J s), D not included.
//!
//! Without bounds s = d. With them s = P(x + d) - x; and where the parameter `descent` is t > 0, t b stands in place of d, b being what
//! `dr` holds before PCG. t < 0 takes -t b as it is, without
//! P: what the length of that step is found with.

use crate::matrix_free::draft::{Draft, all, coordinates, vars};
use crate::matrix_free::params::Number;
use crate::matrix_free::scalars::ModelScalar;
use crate::matrix_free::schedule::reduce::Op;
use crate::matrix_free::skeleton::{Scheduled, Skeleton, Space};
use crate::matrix_free::sums::Sum;
use crate::matrix_free::vectors::{Role, What};
use sumsq_codegen::{Expr, Func, ScalarType};
use sumsq_energy::derive::Kind;
use sumsq_energy::model::Domain;

/// The pipeline.
pub fn pipeline(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "trial", Role::Master);
    let mut totals = ModelScalar::ALL.map(|_| None::<Expr>);
    let mut add = |s: ModelScalar, e: Expr| {
        let total = &mut totals[s as usize];
        *total = Some(match total.take() {
            None => e,
            Some(sum) => sum + e,
        });
    };
    let mut sums: Vec<&Sum> = k.shares.iter().flat_map(|s| &s.sums).collect();
    for space in &k.spaces {
        d.input(What::DR.of(space.id));
        let vars = vars(space.dims);
        let at = coordinates(&vars);
        let values = (0..space.components).map(|c| proposed(&d, space, c, &at).trial).collect();
        let xt = d.func(What::Trial.of(space.id), &vars, values);
        d.output(&xt, What::Trial.of(space.id));

        let points = k.points(Domain::Space(space.id));
        let mut terms = norms(&d, space, &xt, &points.coordinates);
        // What residuals there are over the same elements reads the same x and d.
        let own = sums.iter().position(|s| s.domain == Domain::Space(space.id)).map(|i| sums.remove(i));
        terms.extend(own.map(|sum| model(&d, sum, &points.coordinates)));
        let terms = terms.into_iter().map(|t| (Op::Add, t)).collect();
        let f = d.reduce(&format!("steps{}", space.id.0), &points, terms);
        d.skip_unless(&f, k.near_at(space.id, &points.coordinates));
        d.store_in(&f, &xt);
        let elements = [ModelScalar::Step, ModelScalar::X, ModelScalar::Model];
        elements.into_iter().zip(all(&f, &[])).for_each(|(element, e)| add(element, e));
    }
    for (i, sum) in sums.into_iter().enumerate() {
        let points = k.points(sum.domain);
        let term = (Op::Add, model(&d, sum, &points.coordinates));
        let f = d.reduce(&format!("model{i}"), &points, vec![term]);
        if let Domain::Space(space) = sum.domain {
            d.skip_unless(&f, k.near_at(space, &points.coordinates));
        }
        add(ModelScalar::Model, f.at(&[], 0));
    }
    let totals = totals.into_iter().map(|t| t.unwrap_or(Expr::from(0.0f64))).collect();
    let model = d.func(What::Model.of(()), &[], totals);
    d.output(&model, What::Model.of(()));
    d.finish_at_x()
}

/// The terms of [`ModelScalar::Step`] and [`ModelScalar::X`] at an element.
fn norms(d: &Draft, space: &Space, xt: &Func, at: &[Expr]) -> Vec<Expr> {
    let square = |e: Expr| e.cast(ScalarType::F64) * e.cast(ScalarType::F64);
    let norm = |f: &dyn Fn(usize) -> Expr| (0..space.components).map(|c| square(f(c))).reduce(|a, b| a + b);
    let terms = [norm(&|c| proposed(d, space, c, at).step), norm(&|c| xt.at(at, c))];
    // Excluded elements are no part of x: they may hold any number.
    let counted = |t| match d.k.excluded(space.id) {
        Some(_) => Expr::select(d.k.free_at(space, at), t, Expr::from(0.0f64)),
        None => t,
    };
    terms.into_iter().flatten().map(counted).collect()
}

/// The term of [`ModelScalar::Model`] at an instance of a sum.
fn model(d: &Draft, sum: &Sum, at: &[Expr]) -> Expr {
    let k = d.k;
    let roots = k.instance_roots(Kind::Model, sum);
    let step = |space, c, at: &[Expr]| proposed(d, k.space_of_unknowns(space), c, at).step;
    let terms = d.emit(&roots, k.place(sum.domain, at.to_vec()), &step);
    let terms = terms.into_iter().map(|t| t.cast(ScalarType::F64));
    terms.reduce(|a, b| a + b).expect("a sum has residuals")
}

/// The trial of one scalar.
struct Proposed {
    /// x + s.
    trial: Expr,
    /// s.
    step: Expr,
}

fn proposed(d: &Draft, space: &Space, c: usize, at: &[Expr]) -> Proposed {
    let component = |c| d.element(What::DR.of(space.id), at, c).cast(d.ty());
    let (direction, b) = (component(c), component(space.components + c));
    let Some(boxed) = d.boxed(space, at) else {
        let x = d.element(What::X.of(space.id), at, c);
        return Proposed { trial: x + &direction, step: direction };
    };
    let (t, zero) = (Number::Descent.expr(d.ty()), Expr::float(d.ty(), 0.0));
    let direction = Expr::select(t.gt(zero.clone()), &t * &b, direction);
    let step = Expr::select(t.lt(zero), -(&t * &b), boxed.step(c, &direction));
    Proposed { trial: boxed.moved(c, &direction), step }
}
