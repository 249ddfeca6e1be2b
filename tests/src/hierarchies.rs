//! Preconditioners with levels against the sparse matrices of the assembled path: A on every level, steps, iterations of PCG.

use crate::small::Small;
use crate::{Random, assert_vectors_close, bind, doubles, indices};
use std::collections::BTreeMap;
use sumsq::assembled::{Explicit, Hierarchies, Jacobian, LinearSolver};
use sumsq::energy::model::SpaceId;
use sumsq::{
    CompileOptions, Method, Precision, Preconditioner, ProblemData, Report, SolveOptions, Solver, assembled,
};

/// Options of a kind.
pub fn compiled(preconditioner: Preconditioner, precision: Precision, threads: usize) -> CompileOptions {
    CompileOptions { precision, threads: Some(threads), preconditioner, ..CompileOptions::default() }
}

/// Two unknowns, coupled within an element and across, with an excluded part, on a grid of these sizes.
pub fn coupled(w: usize, h: usize, excluded: f64) -> Small {
    let mut random = Random::new(w as u64 * 1000 + h as u64);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local T = Unknown("T", opt_float, {W,H}, 1)
        local A = Array("A", opt_float, {W,H}, 2)
        Exclude(greater(A(0,0), 0.9))
        Energy(0.01 * (X(0,0) - A(0,0)), X(0,0) - X(1,0) - 0.3 * sin(T(0,0)), X(0,0) - X(0,1) - 0.2 * T(0,0),
               T(0,0) - T(1,0), 0.5 * (T(0,0) - T(0,1)))
    "#;
    let n = w * h;
    let mask = random.numbers(n).into_iter().map(|m| if m > 1.0 - 2.0 * excluded { 1.0 } else { 0.4 * m });
    let mask = mask.collect();
    let arrays = [
        doubles("X", &[h, w], random.numbers(n)),
        doubles("T", &[h, w], random.numbers(n)),
        doubles("A", &[h, w], mask),
    ];
    bind(text, &arrays)
}

/// Positions and turns on a lattice whose edges keep their shape, a graph with a hyperedge of two in either direction, some of them twice or
/// from an element to itself.
pub fn lattice(w: usize, h: usize) -> Small {
    lattice_held(w, h, 0.1)
}

/// The same, with this share of its vertices held in place.
pub fn lattice_held(w: usize, h: usize, share: f64) -> Small {
    let mut random = Random::new((w * 1000 + h) as u64);
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float2, {N}, 0)
        local T = Unknown("T", opt_float, {N}, 1)
        local U = Array("U", opt_float2, {N}, 2)
        local F = Array("F", opt_float, {N}, 3)
        local G = Graph("G", 4, "v0", {N}, 5, "v1", {N}, 6)
        Energy(Select(greater(F(0), 0.8), 2 * (X(0) - U(0) - 0.3), 0))
        local e, r = X(G.v0) - X(G.v1), U(G.v0) - U(G.v1)
        local c, s = cos(T(G.v0)), sin(T(G.v0))
        Energy(e(0) - c * r(0) + s * r(1), e(1) - s * r(0) - c * r(1))
    "#;
    let n = w * h;
    let (mut v0, mut v1) = (vec![], vec![]);
    for (x, y) in (0..h).flat_map(|y| (0..w).map(move |x| (x, y))) {
        let at = |x: usize, y: usize| (y * w + x) as i64;
        let mut edge = |a: i64, b: i64| {
            v0.extend([a, b]);
            v1.extend([b, a]);
        };
        if x + 1 < w {
            edge(at(x, y), at(x + 1, y));
        }
        if y + 1 < h {
            edge(at(x, y), at(x, y + 1));
        }
        if (x + y) % 17 == 0 {
            edge(at(x, y), at(x, y));
        }
    }
    let place = |i: usize| [(i % w) as f64, (i / w) as f64];
    let rest: Vec<f64> = (0..n).flat_map(place).collect();
    let x = rest.iter().map(|v| v + 0.1 * random.number()).collect();
    let arrays = [
        doubles("X", &[n, 2], x),
        doubles("T", &[n], random.numbers(n).into_iter().map(|t| 0.2 * t).collect()),
        doubles("U", &[n, 2], rest),
        doubles("F", &[n], random.numbers(n).into_iter().map(|f| f + 2.0 * (share - 0.1)).collect()),
        indices("G.v0", 1, v0),
        indices("G.v1", 1, v1),
    ];
    bind(text, &arrays)
}

/// A picture whose gradients are sparse, with an excluded part, and residuals of a graph over it.
pub fn jumps(w: usize, h: usize) -> Small {
    let mut random = Random::new((w * 1000 + h) as u64);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local A = Array("A", opt_float2, {W,H}, 1)
        local K = Array("K", opt_float, {W,H}, 2)
        local G = Graph("G", 3, "a", {W,H}, 4, "b", {W,H}, 5)
        Exclude(greater(K(0,0), 0.9))
        Energy(0.05 * (X(0,0) - A(0,0)), 0.1 * (X(0,0,0) - X(0,0,1)))
        Residual{loss=Cauchy(0.1), X(0,0) - X(1,0)}
        Residual{loss=Cauchy(0.1), X(0,0) - X(0,1)}
        Energy(0.3 * (X(G.a) - X(G.b)))
    "#;
    let n = w * h;
    let ends = |random: &mut Random| {
        let (x, y) = (random.below(w, n / 20), random.below(h, n / 20));
        x.into_iter().zip(y).flat_map(|(x, y)| [x, y]).collect::<Vec<i64>>()
    };
    let steps = (0..n).flat_map(|i| [f64::from(u8::from(i % w > w / 2)), f64::from(u8::from(i / w > h / 3))]);
    let x = steps.map(|v| v + 0.05 * random.number()).collect();
    let arrays = [
        doubles("X", &[h, w, 2], x),
        doubles("A", &[h, w, 2], random.numbers(2 * n)),
        doubles("K", &[h, w], random.numbers(n)),
        indices("G.a", 2, ends(&mut random)),
        indices("G.b", 2, ends(&mut random)),
    ];
    bind(text, &arrays)
}

/// Entries of a matrix by row and column.
type Entries = BTreeMap<(usize, usize), f64>;

/// The levels that sparse matrices give a kind, for Gauss-Newton's system at the start.
struct Oracle(Box<dyn Fn(SpaceId, usize) -> Option<Entries>>);

impl Oracle {
    fn new(kind: Preconditioner, problem: &Explicit<'_>) -> Oracle {
        let x = problem.initial();
        let jacobian = problem.linearise(&x).1;
        let (diag, damping) = (jacobian.diag(), vec![0.0; problem.free()]);
        macro_rules! levels {
            ($of:expr) => {{
                let of = $of;
                Oracle(Box::new(move |space, level| {
                    Some(of.level(space, level)?.iter().map(|(v, at)| (at, *v)).collect())
                }))
            }};
        }
        match kind {
            Preconditioner::Multigrid => {
                levels!(Hierarchies::multigrid(problem, &jacobian, (&diag, &damping), None))
            }
            _ => levels!(Hierarchies::aggregation(problem, &x, &jacobian, (&diag, &damping), 1)),
        }
    }
}

/// A on every level is P^T A P, to 1e-12 of its largest entry. A level 0 that is never stored is what level 1 is made of.
pub fn assert_levels(kind: Preconditioner, problems: Vec<(String, Small)>) {
    let options = SolveOptions { method: Method::GaussNewton, ..SolveOptions::default() };
    for (name, (energy, data)) in problems {
        let solver = Solver::compile(energy.clone(), &compiled(kind, Precision::F64, 2)).unwrap();
        let mut problem = solver.plan(&data).unwrap();
        drop(problem.init(&data, &options).unwrap());
        let oracle = Oracle::new(kind, &Explicit::new(&energy, &data).unwrap());
        let mut levels = 0;
        for space in (0..energy.spaces.len() as u32).map(SpaceId) {
            for level in 0..40 {
                let Some(expected) = oracle.0(space, level) else { break };
                let came = problem.level(space, level as u8);
                levels += 1;
                if level == 0 && came.is_none() {
                    assert!(problem.level(space, 1).is_some(), "{name}: no levels");
                    continue;
                }
                let mut came: Entries = came
                    .unwrap_or_else(|| panic!("{name}: no level {level}"))
                    .into_iter()
                    .map(|(i, j, v)| ((i, j), v))
                    .collect();
                let largest = expected.values().fold(0.0f64, |m, v| m.max(v.abs()));
                let mut off = 0.0f64;
                for (at, v) in expected {
                    off = off.max((came.remove(&at).unwrap_or(0.0) - v).abs());
                }
                off = came.values().fold(off, |m, v| m.max(v.abs()));
                assert!(largest > 0.0 && off <= 1e-12 * largest, "{name}, level {level}: off by {off:e}");
            }
            assert_eq!(problem.level(space, 40), None);
        }
        assert!(levels >= 2, "{name}: {levels} levels");
    }
}

/// Two steps of five iterations each lead to the same x.
pub fn assert_steps(kind: Preconditioner, problems: Vec<(String, Small)>) {
    let options = SolveOptions { iterations: Some(2), linear_iterations: Some(5), ..SolveOptions::default() };
    for (name, problem) in problems {
        assert_same_steps(kind, &name, &problem, &options);
    }
}

/// Rejected steps take another radius to the same linearisation: A is made anew of J^T J and another D.
pub fn assert_rejected_steps(kind: Preconditioner) {
    let (w, h) = (53, 41);
    let mut random = Random::new(77);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        Exclude(greater(A(0,0), 0.9))
        Energy(10 * (X(0,0,1) - X(0,0,0) * X(0,0,0)), 1 - X(0,0,0), 0.1 * (X(0,0) - X(1,0)), 0.2 * (X(0,0) - X(0,1)))
    "#;
    // The valley of Rosenbrock's function, from its far end.
    let far = random.numbers(2 * w * h).into_iter().enumerate();
    let far = far.map(|(i, x)| [-1.2, 1.0][i % 2] + 0.1 * x).collect();
    let arrays = [doubles("X", &[h, w, 2], far), doubles("A", &[h, w], random.numbers(w * h))];
    let options = SolveOptions {
        iterations: Some(6),
        linear_iterations: Some(8),
        radius: Some(1e6),
        ..SolveOptions::default()
    };
    let accepted = assert_same_steps(kind, "valley", &bind(text, &arrays), &options);
    assert!(accepted.windows(2).any(|w| w == [false, true]), "{accepted:?}");
}

/// Generated code and sparse matrices take the same steps; which of them were accepted.
fn assert_same_steps(
    kind: Preconditioner,
    name: &str,
    (energy, data): &Small,
    options: &SolveOptions,
) -> Vec<bool> {
    let compiled = compiled(kind, Precision::F64, 2);
    let (mut ours, mut theirs) = (data.clone(), data.clone());
    let solver = Solver::compile(energy.clone(), &compiled).unwrap();
    let report = solver.plan(data).unwrap().solve(&mut ours, options).unwrap();
    let expected = assembled::solve(energy, &mut theirs, &compiled, options, LinearSolver::Cg).unwrap();
    let taken = |report: &Report| {
        report.iterations.iter().map(|i| (i.linear_iterations, i.accepted)).collect::<Vec<_>>()
    };
    assert_eq!(taken(&report), taken(&expected), "{name}");
    assert_vectors_close(name, &ours.x(), &theirs.x(), 1e-8);
    report.iterations.iter().map(|i| i.accepted).collect()
}

/// A solve has the same bits on 1, 2, 3, 5 and 8 threads.
pub fn assert_same_bits(solve: impl Fn(usize) -> ProblemData<'static>) {
    let one = crate::bits(&solve(1));
    for threads in [2, 3, 5, 8] {
        assert_eq!(crate::bits(&solve(threads)), one, "{threads} threads");
    }
}

/// Iterations of PCG to |r| <= 1e-6 |b| with this M^-1, 2000 at most.
pub fn pcg(jacobian: &Jacobian, damping: &[f64], residuals: &[f64], m: &dyn Fn(&[f64]) -> Vec<f64>) -> usize {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut r: Vec<f64> = jacobian.apply_transpose(residuals).into_iter().map(|g| -g).collect();
    let end = 1e-12 * dot(&r, &r);
    let mut p = m(&r);
    let mut rz = dot(&r, &p);
    for k in 1..2000 {
        let mut q = jacobian.apply_transpose(&jacobian.apply(&p));
        q.iter_mut().zip(p.iter().zip(damping)).for_each(|(q, (p, d))| *q += d * p);
        let alpha = rz / dot(&p, &q);
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
        if dot(&r, &r) <= end {
            return k;
        }
        let z = m(&r);
        let next = dot(&r, &z);
        p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + next / rz * *p);
        rz = next;
    }
    2000
}
