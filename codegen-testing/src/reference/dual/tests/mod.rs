//! Slopes of whole pipelines against central differences of their values, in f64; values against those of the plain evaluator.

mod definitions;
mod reductions;

use super::*;
use crate::random::program::program;
use crate::reference::evaluate_over;
use crate::rng::Rng;
use ScalarType::*;
use sumsq_codegen::expr::Expr;
use sumsq_codegen::func::{Func, Input, Var};

const STEP: f64 = 1e-5;

type Domains = [Vec<(i32, usize)>];

/// Between -1 and 1.
fn random(rng: &mut Rng) -> f64 {
    rng.range(-1000, 1000) as f64 / 1000.0
}

/// An input of whole and broken numbers between -1 and 1, different at neighbouring points.
fn numbers(extents: &[usize], seed: u64) -> Realization {
    let mut rng = Rng::new(seed);
    Realization::from_fn(&[F64], extents, |_, _| random(&mut rng))
}

/// Random directions of all inputs and parameters of `b`.
fn directions(b: &Bindings, rng: &mut Rng) -> Bindings {
    let mut directions = b.clone();
    for r in directions.inputs.values_mut() {
        r.types.fill(F64);
        r.planes.iter_mut().flatten().for_each(|v| *v = Value::Float(random(rng)));
    }
    directions.params.values_mut().for_each(|v| *v = Value::Float(random(rng)));
    directions
}

/// The bindings, `t` along the directions.
fn moved(b: &Bindings, directions: &Bindings, t: f64) -> Bindings {
    let go = |v: &mut Value, d: &Value| match v {
        Value::Int(_) => (),
        Value::Float(x) => *x += t * d.as_f64(),
    };
    let mut b = b.clone();
    for (r, d) in b.inputs.iter_mut().map(|(name, r)| (r, &directions.inputs[name])) {
        r.planes.iter_mut().flatten().zip(d.planes.iter().flatten()).for_each(|(v, d)| go(v, d));
    }
    b.params.iter_mut().for_each(|(name, v)| go(v, &directions.params[name]));
    b
}

/// All values of all outputs.
fn flat(outputs: &[Realization]) -> Vec<Value> {
    outputs.iter().flat_map(|r| r.planes.iter().flatten().copied()).collect()
}

fn bits(v: &Value) -> u64 {
    match v {
        Value::Int(v) => *v as u64,
        Value::Float(v) => v.to_bits(),
    }
}

/// Slopes along `directions`, the values beside them being the plain evaluator's to the bit.
#[track_caller]
fn slopes(p: &Pipeline, b: &Bindings, directions: &Bindings, domains: &Domains) -> Vec<Realization> {
    let (values, slopes) = evaluate_dual(p, b, directions, domains).unwrap();
    let plain = evaluate_over(p, b, domains).unwrap();
    for (a, b) in values.iter().zip(&plain) {
        assert_eq!((&a.types, &a.min, &a.extents, &a.halo), (&b.types, &b.min, &b.extents, &b.halo));
    }
    let (values, plain) = (flat(&values), flat(&plain));
    assert_eq!(values.iter().map(bits).collect::<Vec<_>>(), plain.iter().map(bits).collect::<Vec<_>>());
    slopes
}

/// Fails unless slopes along random directions are central differences; integers must not move, and some floats must.
#[track_caller]
fn check(p: &Pipeline, b: &Bindings, domains: &Domains) {
    let mut rng = Rng::new(11);
    for _ in 0..3 {
        let directions = directions(b, &mut rng);
        let slopes = flat(&slopes(p, b, &directions, domains));
        let [low, high] =
            [-STEP, STEP].map(|t| flat(&evaluate_over(p, &moved(b, &directions, t), domains).unwrap()));
        for (i, slope) in slopes.iter().map(|v| v.as_f64()).enumerate() {
            let difference = (high[i].as_f64() - low[i].as_f64()) / (2.0 * STEP);
            let error = (slope - difference).abs();
            assert!(error <= 1e-7 * (1.0 + slope.abs()), "number {i}: {slope}, by differences {difference}");
            assert!(slope == 0.0 || high[i].as_int().is_none(), "number {i} is an integer of slope {slope}");
        }
        assert!(slopes.iter().any(|v| v.as_f64() != 0.0), "nothing moves");
    }
}

/// Bindings of inputs and parameters in f64.
fn given(inputs: &[(&str, Realization)], params: &[(&str, f64)]) -> Bindings {
    Bindings {
        inputs: inputs.iter().map(|(name, r)| ((*name).into(), r.clone())).collect(),
        params: params.iter().map(|(name, v)| ((*name).into(), Value::Float(*v))).collect(),
    }
}

fn vars() -> (Var, Var) {
    (Var::new("x"), Var::new("y"))
}

#[test]
fn random_pipelines() {
    let mut moving = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let case = program(&mut rng);
        let (p, b, domains) = (&case.pipeline, &case.bindings, &case.domains);
        let one = directions(b, &mut rng);
        let doubled = moved(&one, &one, 1.0);
        let single = flat(&slopes(p, b, &one, domains));
        let double = flat(&slopes(p, b, &doubled, domains));
        for (i, (s, d)) in single.iter().zip(&double).enumerate() {
            // Scaling by a power of two is exact.
            assert!(Value::Float(2.0 * s.as_f64()).same(*d), "program {seed}, number {i}: {s}, doubled {d}");
        }
        moving += single.iter().filter(|s| s.as_f64() != 0.0).count();
        let still = flat(&slopes(p, b, &Bindings::default(), domains));
        assert!(still.iter().all(|v| bits(v) == 0), "program {seed} moves at rest");
    }
    assert!(moving > 1000, "only {moving} numbers move");
}
