//! Runs statements of every level on checked memory, and compares with the reference evaluator.
//!
//! Memory knows which elements were written: reading one that was not, or touching one outside of its buffer, is an
//! error, so that regions, guards and storage are tested and not only results.

mod machine;

use machine::{Buffer, Machine};
use sumsq_codegen::expr::Name;
use sumsq_codegen::func::Pipeline;
use sumsq_codegen::lower::{self, LowerOptions, build_nests::build_nests};
use sumsq_codegen::reference::{Bindings, Realization, Value, evaluate_over};
use sumsq_codegen::schedule::Schedule;
use sumsq_codegen::{Error, ScalarType};

/// What a run left behind.
pub struct Ran {
    /// The nests, as text.
    pub nests: String,
    /// The lowered body, as text.
    #[allow(dead_code, reason = "not every test file looks at it")]
    pub body: String,
    /// How often the elements of each Func were stored in intermediate storage by the nests.
    #[allow(dead_code, reason = "not every test file looks at it")]
    pub stores: std::collections::HashMap<Name, usize>,
}

/// Lowers, runs both the nests and the lowered function, and compares every output with the reference: integers and
/// floats exactly, or within `tolerance` relative to the largest magnitude.
#[allow(dead_code, reason = "not every test file uses it")]
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
    let plan = lower::plan(p, s)?;
    let built = build_nests(&plan)?;
    let nests = built.body.to_string();
    let compare = |m: &Machine, level: &str, text: &str| {
        for (o, want) in p.outputs.iter().zip(&expected) {
            for (k, plane) in want.planes.iter().enumerate() {
                let scale = plane.iter().fold(1.0f64, |a, v| a.max(number(*v).abs()));
                for (i, at) in want.points().iter().enumerate() {
                    let got = m.output(&o.func, k, at);
                    let near = |g: Value| (number(g) - number(plane[i])).abs() <= tolerance * scale;
                    let same = got.is_some_and(|g| g.same(plane[i]) || near(g));
                    assert!(same, "{level}: {}.{k}{at:?} is {got:?}, not {:?}\n{text}", o.func, plane[i]);
                }
            }
        }
    };
    let mut m = bind(p, b, domains);
    m.folds = plan.funcs.values().map(|f| (f.func.name.clone(), f.fold.clone())).collect();
    m.run(&built.body).map_err(|message| Error::Run {
        pipeline: p.name.clone(),
        message: format!("nests: {message}\n{nests}"),
    })?;
    compare(&m, "nests", &nests);
    let f = lower::lower(p, s, &LowerOptions { dump: None, verify: true })?;
    let body = f.body.to_string();
    let mut flat = bind(p, b, domains);
    flat.run(&f.body)
        .map_err(|message| Error::Run { pipeline: p.name.clone(), message: format!("{message}\n{body}") })?;
    compare(&flat, "lowered", &body);
    Ok(Ran { nests, body, stores: m.stores })
}

fn number(v: Value) -> f64 {
    match v {
        Value::Int(i) => i as f64,
        Value::Float(x) => x,
    }
}

fn bind(p: &Pipeline, b: &Bindings, domains: &[Vec<(i32, usize)>]) -> Machine {
    let mut m = Machine::default();
    for (n, i) in &p.inputs {
        m.bind(n, Buffer::input(&b.inputs[n], i.layout), i.layout);
    }
    for (o, e) in p.outputs.iter().zip(domains) {
        let f = &p.funcs[&o.func];
        m.bind(&o.func, Buffer::output(&f.types(), e, o.layout), o.layout);
    }
    for (n, v) in &b.params {
        m.names.insert(n.clone(), vec![*v]);
    }
    m
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
            for ((&c, &n), &h) in at.iter().zip(&r.extents).zip(halo) {
                index += (c as usize + h) * stride;
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
