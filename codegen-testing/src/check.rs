//! Runs statements of every level on checked memory, and compares with the reference evaluator.
//!
//! See [`crate::checked`] for what that notices beside wrong results.

use crate::checked::{Counters, Run, run_lowered_over, run_nests_over};
use crate::reference::{Bindings, Realization, Value, evaluate_over};
use sumsq_codegen::func::Pipeline;
use sumsq_codegen::schedule::Schedule;
use sumsq_codegen::{Error, ScalarType};

/// Results of a run.
pub struct Ran {
    /// The nests, as text.
    pub nests: String,
    /// The lowered body, as text.
    pub body: String,
    /// Counters of the nests.
    pub counters: Counters,
    /// Counters of the lowered function.
    pub lowered: Counters,
}

/// Lowers, runs both the nests and the lowered function, and compares every output with the reference: integers and
/// floats exactly, or within `tolerance` relative to the largest magnitude.
pub fn check(p: &Pipeline, s: &Schedule, b: &Bindings, extents: &[Vec<usize>], tolerance: f64) -> Ran {
    match try_check(p, s, b, extents, tolerance) {
        Ok(r) => r,
        Err(e) => panic!("{e}"),
    }
}

/// As [`check`], with errors of lowering and of assertions in the code returned.
pub fn try_check(
    p: &Pipeline,
    s: &Schedule,
    b: &Bindings,
    extents: &[Vec<usize>],
    tolerance: f64,
) -> Result<Ran, Error> {
    let domain = |extents: &Vec<usize>| extents.iter().map(|&n| (0, n)).collect();
    try_check_over(p, s, b, &extents.iter().map(domain).collect::<Vec<_>>(), tolerance)
}

/// As [`try_check`] over domains, `(min, extent)` per dimension.
pub fn try_check_over(
    p: &Pipeline,
    s: &Schedule,
    b: &Bindings,
    domains: &[Vec<(i32, usize)>],
    tolerance: f64,
) -> Result<Ran, Error> {
    let expected = evaluate_over(p, b, domains)?;
    let compare = |run: &Run, level: &str| {
        for ((o, want), came) in p.outputs.iter().zip(&expected).zip(&run.outputs) {
            for (k, plane) in want.planes.iter().enumerate() {
                let scale = plane.iter().fold(1.0f64, |a, v| a.max(number(*v).abs()));
                for (i, at) in want.points().iter().enumerate() {
                    let (got, text) = (came.planes[k][i], &run.text);
                    let near = (number(got) - number(plane[i])).abs() <= tolerance * scale;
                    let same = got.same(plane[i]) || near;
                    assert!(same, "{level}: {}.{k}{at:?} is {got:?}, not {:?}\n{text}", o.func, plane[i]);
                }
            }
        }
    };
    let nests = run_nests_over(p, s, b, domains)?;
    compare(&nests, "nests");
    let lowered = run_lowered_over(p, s, b, domains)?;
    compare(&lowered, "lowered");
    Ok(Ran { nests: nests.text, body: lowered.text, counters: nests.counters, lowered: lowered.counters })
}

fn number(v: Value) -> f64 {
    match v {
        Value::Int(i) => i as f64,
        Value::Float(x) => x,
    }
}

/// Small whole numbers, different at neighbouring points, for which sums are exact.
pub fn pattern(types: &[ScalarType], extents: &[usize], seed: i64) -> Realization {
    Realization::from_fn(types, extents, |c, k| {
        let h =
            c.iter().enumerate().fold(seed + 17 * k as i64, |h, (d, &c)| h * 31 + (7 + d as i64) * c as i64);
        (h.rem_euclid(19) - 7) as f64
    })
}

/// `r` with a halo of zeros.
pub fn with_halo(r: &Realization, halo: &[usize]) -> Realization {
    let mut out = r.clone();
    out.halo = halo.to_vec();
    let size: usize = r.extents.iter().zip(halo).map(|(n, h)| n + 2 * h).product();
    for (k, plane) in out.planes.iter_mut().enumerate() {
        *plane = vec![Value::of(r.types[k], 0.0); size];
        for at in r.points() {
            let (mut index, mut stride) = (0, 1);
            for (d, (&n, &h)) in r.extents.iter().zip(halo).enumerate() {
                index += ((at[d] - r.min[d]) as usize + h) * stride;
                stride *= n + 2 * h;
            }
            plane[index] = r.get(&at, k).expect("in the domain");
        }
    }
    out
}

/// Bindings of inputs and parameters.
pub fn bindings(inputs: Vec<(&str, Realization)>, params: Vec<(&str, Value)>) -> Bindings {
    Bindings {
        inputs: inputs.into_iter().map(|(n, r)| (n.into(), r)).collect(),
        params: params.into_iter().map(|(n, v)| (n.into(), v)).collect(),
    }
}
