//! Preconditioned conjugate gradients for A d = b, from d = 0, in float64.
//!
//! A is symmetric positive definite on the space where M^-1 is not 0, r = b - A d, Q = d.(b + r)/2 the decrease of the
//! quadratic model so far. The residual is the recurred one. After iteration k it stops at the first of
//! - |r| <= tau |b|, where a linear tolerance tau is given;
//! - k >= 2 and k (Q_k - Q_{k-1}) <= zeta Q_k, where none is (Nash and Sofer, "Assessing a search direction within a
//!   truncated-Newton method", 1990);
//! - k = limit.
//!
//! With multigrid and aggregation sqrt(r.z) <= eta sqrt(r0.z0), k >= 2, takes the place of the second rule.

use crate::outer::vectors::{Workers, dot};
use crate::problem::cancel::Watch;
use crate::problem::report::LinearStop;

/// Stopping rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopping<'a> {
    /// tau.
    pub tolerance: Option<f64>,
    /// zeta, without effect where there is a tolerance.
    pub forcing: f64,
    /// eta^2 of the rule of r.z, where M goes by it.
    pub eta: Option<f64>,
    /// Iterations at most.
    pub limit: usize,
    /// Ends it before any iteration.
    pub watch: &'a Watch,
}

/// Solution, and how it was found.
#[derive(Clone, Debug)]
pub(crate) struct Solution {
    pub d: Vec<f64>,
    pub iterations: usize,
    pub stop: LinearStop,
    /// |r| / |b|.
    pub residual: f64,
    /// False if it broke down in the first iteration: d is 0 then.
    pub usable: bool,
}

/// Solves A d = b for `apply`, which sets its second argument to A p, and `precondition`, which does so with M^-1 r.
pub(crate) fn pcg(
    apply: &mut dyn FnMut(&[f64], &mut [f64]),
    precondition: &dyn Fn(&[f64], &mut [f64]),
    b: &[f64],
    stopping: &Stopping<'_>,
    workers: Workers<'_>,
) -> Solution {
    let b_norm = workers.dot(b, b).sqrt();
    let [mut d, mut q, mut z] = [(); 3].map(|()| vec![0.0; b.len()]);
    let mut r = b.to_vec();
    precondition(&r, &mut z);
    let mut p = z.clone();
    let mut rz = workers.dot(&r, &z);
    let first_rz = rz;
    let mut q_before = 0.0;
    let mut ended = (0, LinearStop::Limit);
    for k in 1..=stopping.limit {
        if stopping.watch.is_over() {
            ended.1 = LinearStop::Interrupted;
            break;
        }
        apply(&p, &mut q);
        let pq = workers.dot(&p, &q);
        if !(pq > 0.0 && pq.is_finite()) {
            let stop = if pq <= 0.0 { LinearStop::Indefinite } else { LinearStop::NotFinite };
            ended = (k - 1, stop);
            break;
        }
        let measure = advance(stopping, rz / pq, [&mut d, &mut r], [&p, &q, b], workers);
        ended.0 = k;
        let stop = reached(stopping, k, b_norm, measure, &mut q_before);
        let eta = stopping.eta.filter(|_| stopping.tolerance.is_none());
        if let Some(stop) = stop.filter(|stop| !(eta.is_some() && *stop == LinearStop::Model)) {
            ended.1 = stop;
            break;
        }
        precondition(&r, &mut z);
        let rz_next = workers.dot(&r, &z);
        if k >= 2 && eta.is_some_and(|eta| rz_next <= eta * first_rz) {
            ended.1 = LinearStop::PreconditionedNorm;
            break;
        }
        if rz_next == 0.0 {
            // Solved to the last bit: another direction would be 0.
            ended.1 = LinearStop::Tolerance;
            break;
        }
        let beta = rz_next / rz;
        rz = rz_next;
        workers
            .pass([&mut p], [&z], |_, [p], [z]| p.iter_mut().zip(z).for_each(|(p, &z)| *p = z + beta * *p));
    }
    let (iterations, stop) = ended;
    let residual = workers.dot(&r, &r).sqrt() / b_norm;
    Solution { d, iterations, stop, residual, usable: iterations > 0 }
}

/// Goes along p: d += alpha p, r -= alpha q. Returns what the stopping rule measures: |r|^2, or 2 Q.
fn advance(
    stopping: &Stopping<'_>,
    alpha: f64,
    [d, r]: [&mut [f64]; 2],
    [p, q, b]: [&[f64]; 3],
    workers: Workers<'_>,
) -> f64 {
    let by_residual = stopping.tolerance.is_some();
    let parts = workers.pass([d, r], [p, q, b], |_, [d, r], [p, q, b]| {
        d.iter_mut().zip(p).for_each(|(d, p)| *d += alpha * p);
        r.iter_mut().zip(q).for_each(|(r, q)| *r -= alpha * q);
        if by_residual { dot(r, r) } else { dot(d, b) + dot(d, r) }
    });
    parts.into_iter().sum()
}

/// Tells whether iteration k meets a stopping rule, by what `advance` has measured. `q_before` is Q_{k-1} and becomes Q_k.
fn reached(
    stopping: &Stopping<'_>,
    k: usize,
    b_norm: f64,
    measure: f64,
    q_before: &mut f64,
) -> Option<LinearStop> {
    if let Some(tau) = stopping.tolerance {
        return (measure.sqrt() <= tau * b_norm).then_some(LinearStop::Tolerance);
    }
    let q = 0.5 * measure;
    let gained = q - *q_before;
    *q_before = q;
    (k >= 2 && k as f64 * gained <= stopping.forcing * q).then_some(LinearStop::Model)
}
