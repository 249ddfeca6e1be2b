//! Preconditioners with levels against the sparse matrices of the assembled path: A on every level, steps, iterations of PCG.

use crate::small::Small;
use crate::{Case, Random, assert_vectors_close, bind, doubles, indices, made_fast};
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use sumsq::assembled::{Explicit, Hierarchies, Jacobian, LinearSolver};
use sumsq::codegen::cache::Key;
use sumsq::energy::model::{Energy, SpaceId};
use sumsq::{
    CompileOptions, Method, Precision, Preconditioner, Problem, ProblemData, Report, SolveOptions, Solver,
    assembled,
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

/// Two unknowns of which bounds hold some, and others have no room.
pub fn boxed(w: usize, h: usize) -> Small {
    let mut random = Random::new((w * 1000 + h) as u64);
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local T = Unknown("T", opt_float, {W,H}, 1)
        local L, U = Array("L", opt_float2, {W,H}, 2), Array("U", opt_float2, {W,H}, 3)
        local M = Array("M", opt_float, {W,H}, 4)
        Exclude(greater(M(0,0), 0.8))
        Energy(0.3 * X(0,0), T(0,0) - X(0,0,0) * X(0,0,1), X(0,0) - X(1,0) - 0.2 * T(0,0), X(0,0) - X(0,1))
        Bounds(X, L(0,0), U(0,0))
    "#;
    let n = w * h;
    let ends: Vec<[f64; 2]> = (0..2 * n).map(|_| [random.number(), random.number()]).collect();
    let upper = |(i, [a, b]): (usize, &[f64; 2])| if i % 7 == 0 { a.min(*b) } else { a.max(*b) };
    let arrays = [
        doubles("X", &[h, w, 2], random.numbers(2 * n).into_iter().map(|x| 1.5 * x).collect()),
        doubles("T", &[h, w], random.numbers(n)),
        doubles("L", &[h, w, 2], ends.iter().map(|[a, b]| a.min(*b)).collect()),
        doubles("U", &[h, w, 2], ends.iter().enumerate().map(upper).collect()),
        doubles("M", &[h, w], random.numbers(n)),
    ];
    bind(text, &arrays)
}

/// Two unknowns under a loss on a grid of up to three dims, in text; its arrays for extents are those of [`masked`].
pub fn on_grid(dims: usize) -> Energy {
    let names = &["U", "V", "W"][..dims];
    let here = vec!["0"; dims].join(",");
    let beside =
        |dim: usize| (0..dims).map(|d| if d == dim { "1" } else { "0" }).collect::<Vec<_>>().join(",");
    let space = names.join(",");
    let declared: String =
        names.iter().enumerate().map(|(i, name)| format!("local {name} = Dim(\"{name}\", {i})\n")).collect();
    let smooth: String = (0..dims)
        .map(|dim| {
            let beside = beside(dim);
            format!(
                "Residual{{loss=Cauchy(0.7), X({here}) - X({beside}) - 0.3 * sin(T({here}))}}
                Energy(0.5 * (T({here}) - T({beside})))\n"
            )
        })
        .collect();
    let text = format!(
        r#"{declared}
        local X = Unknown("X", opt_float2, {{{space}}}, 0)
        local T = Unknown("T", opt_float, {{{space}}}, 1)
        local A = Array("A", opt_float, {{{space}}}, 2)
        local M = Array("M", opt_float, {{{space}}}, 3)
        Exclude(greater(M({here}), 0.5))
        Energy(0.1 * A({here}) * X({here}) - A({here}))
        {smooth}"#
    );
    Energy::from_text("on_grid.t", &text).unwrap_or_else(|e| panic!("{e}"))
}

/// Data of [`on_grid`] for these extents, the first dim fastest. A share of the elements is excluded at random, and in the middle a block with
/// all of some coarser elements' children; there A is no number.
pub fn masked(energy: &Energy, extents: &[usize], excluded: f64, seed: u64) -> ProblemData<'static> {
    let mut random = Random::new(seed);
    let n: usize = extents.iter().product();
    let shape: Vec<usize> = extents.iter().rev().copied().collect();
    let in_hole = |e: usize| {
        let mut rest = e;
        extents.iter().all(|n| {
            let x = rest % n;
            rest /= n;
            *n > 16 && (*n / 4..*n / 4 + 11).contains(&x)
        })
    };
    let out: Vec<bool> = (0..n).map(|e| random.number() > 1.0 - 2.0 * excluded || in_hole(e)).collect();
    let a = out.iter().map(|&out| if out { f64::NAN } else { random.number() }).collect();
    let mask = out.iter().map(|&out| f64::from(u8::from(out))).collect();
    let arrays = [
        doubles("X", &[&shape[..], &[2]].concat(), random.numbers(2 * n)),
        doubles("T", &shape, random.numbers(n)),
        doubles("A", &shape, a),
        doubles("M", &shape, mask),
    ];
    ProblemData::bind(energy, &arrays).unwrap_or_else(|e| panic!("{e}")).into_owned()
}

/// Extents of [`on_grid`]: odd ones, of 1, and such as have coarser elements without free children.
pub const EXTENTS: &[&[usize]] = &[
    &[1],
    &[2],
    &[301],
    &[1, 1],
    &[1, 37],
    &[37, 1],
    &[45, 31],
    &[1, 9, 5],
    &[7, 1, 1],
    &[9, 7, 1],
    &[17, 5, 7],
    &[18, 19, 17],
];

/// The levels of [`on_grid`] for all [`EXTENTS`], under random masks.
pub fn assert_levels_of_all_extents(kind: Preconditioner) {
    for dims in 1..=3 {
        let energy = on_grid(dims);
        let solver = Solver::compile(energy.clone(), &quickly(kind)).unwrap();
        for extents in EXTENTS.iter().filter(|extents| extents.len() == dims) {
            let large = extents.iter().product::<usize>() > 2000;
            for (seed, excluded) in
                [(1, 0.0), (2, 0.2), (3, 0.6)].into_iter().filter(|(n, _)| !large || *n == 2)
            {
                let data = masked(&energy, extents, excluded, seed);
                let name = format!("{extents:?}, {excluded} excluded");
                let levels = assert_levels_of(kind, &name, &solver, (&energy, &data), 1e-12);
                // One element, or such as are alone, make no aggregate.
                let few = extents.iter().product::<usize>() < 30 || excluded > 0.5;
                assert!(levels >= 2 || few, "{name}: {levels} levels");
            }
        }
    }
}

/// The levels of one of the examples' energies.
pub fn assert_levels_of_example(
    kind: Preconditioner,
    name: &str,
    of: (&Energy, &ProblemData<'_>),
    tolerance: f64,
) {
    let solver = Solver::compile(of.0.clone(), &quickly(kind)).unwrap();
    assert!(assert_levels_of(kind, name, &solver, of, tolerance) >= 2, "{name}: one level");
}

/// Likewise those of cases that have a grid.
pub fn assert_levels_of_grids(kind: Preconditioner) {
    for name in [
        "laplacian_small",
        "image_warping_small",
        "poisson_image_editing_small",
        "shape_from_shading_small",
        "optical_flow_flower",
        "volumetric_mesh_deformation",
    ] {
        assert_levels_of_case(kind, name);
    }
}

/// Likewise those of a case.
pub fn assert_levels_of_case(kind: Preconditioner, name: &str) {
    let case = Case::open(name);
    assert_levels_of_example(kind, name, (&case.energy, &case.data()), 1e-12);
}

/// M is symmetric to 1e-12 and positive, under random masks and for all radii of a certificate.
pub fn assert_certified(kind: Preconditioner, problems: Vec<(String, Small)>) {
    for (name, (energy, data)) in problems {
        let solver = solver(kind, &energy);
        let x = data.x();
        let v = Random::new(5).numbers(x.len());
        let certificate = solver.plan(&data).unwrap().certify(&data, &x, &v).unwrap();
        println!(
            "{name}, {}: asymmetry {:.1e}, least {:.1e}",
            kind.name(),
            certificate.preconditioner_asymmetry,
            certificate.preconditioner_least
        );
        assert!(certificate.passed(), "{name}, {}: {:?}", kind.name(), certificate.failures());
    }
}

/// The solver of an energy in float64, by two threads: compiled by whoever asks for it first, for all sizes and all tests of a program.
fn solver(kind: Preconditioner, energy: &Energy) -> &'static Solver {
    static KNOWN: Mutex<BTreeMap<String, &OnceLock<Solver>>> = Mutex::new(BTreeMap::new());
    let mut places = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = format!("{}, {}", kind.name(), Key::of(energy).name());
    let place = *places.entry(key).or_insert_with(|| Box::leak(Box::default()));
    drop(places);
    place.get_or_init(|| Solver::compile(energy.clone(), &compiled(kind, Precision::F64, 2)).unwrap())
}

/// Options of a kind whose code is made fast.
fn quickly(kind: Preconditioner) -> CompileOptions {
    CompileOptions { limits: made_fast(), ..compiled(kind, Precision::F64, 2) }
}

/// Entries of a matrix by row and column.
type Entries = BTreeMap<(usize, usize), f64>;

/// The levels that sparse matrices give a kind.
struct Oracle(Box<dyn Fn(SpaceId, usize) -> Option<Entries>>);

impl Oracle {
    /// Those of the system of the first step: of this radius, or of Gauss-Newton.
    fn new(kind: Preconditioner, of: (&Energy, &ProblemData<'_>), radius: Option<f64>) -> Oracle {
        let problem = &Explicit::new(of.0, of.1).unwrap();
        let x = feasible(problem);
        let (mut residuals, mut jacobian) = problem.linearise(&x);
        let first_order = problem.linearise_into(&x, &mut residuals, &mut jacobian);
        let mut diag = jacobian.diag();
        let damping = damping(of, problem, &first_order.unwrap_or_else(|| diag.clone()), radius);
        for i in held(problem, &x, &jacobian.apply_transpose(&residuals)) {
            diag[i] = 0.0;
        }
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

/// D of a radius, by columns of J: the diagonal of J^T J over R, of which no entry is less than a millionth of the largest of its channel.
fn damping(
    (energy, data): (&Energy, &ProblemData<'_>),
    problem: &Explicit<'_>,
    diag: &[f64],
    radius: Option<f64>,
) -> Vec<f64> {
    let Some(radius) = radius else { return vec![0.0; diag.len()] };
    let mut channels = vec![];
    for (u, values) in data.unknowns().iter().enumerate() {
        let width = usize::from(energy.unknowns[u].channels);
        channels.extend((0..values.len()).map(|i| (100 * u + i % width) as f64));
    }
    let channels = problem.gather(&channels);
    let mut largest: BTreeMap<usize, f64> = BTreeMap::new();
    for (d, c) in diag.iter().zip(&channels) {
        let most = largest.entry(*c as usize).or_insert(0.0);
        *most = most.max(*d);
    }
    diag.iter().zip(&channels).map(|(d, c)| d.max(1e-6 * largest[&(*c as usize)]) / radius).collect()
}

/// The unknowns as bound, moved into their bounds.
fn feasible(problem: &Explicit<'_>) -> Vec<f64> {
    let mut x = problem.initial();
    if let Some(bounds) = problem.bounds() {
        let [lower, upper] = [bounds.lower.concat(), bounds.upper.concat()];
        for i in problem.free_scalars().iter().map(|&i| i as usize) {
            x[i] = x[i].max(lower[i]).min(upper[i]);
        }
    }
    x
}

/// The columns of J that bounds hold at x.
fn held(problem: &Explicit<'_>, x: &[f64], gradient: &[f64]) -> Vec<usize> {
    let Some(bounds) = problem.bounds() else { return vec![] };
    let [x, lower, upper] =
        [x, &bounds.lower.concat(), &bounds.upper.concat()].map(|all| problem.gather(all));
    let out = |i: usize| x[i] <= lower[i] && gradient[i] > 0.0 || x[i] >= upper[i] && gradient[i] < 0.0;
    (0..x.len()).filter(|&i| out(i) || lower[i] == upper[i]).collect()
}

/// A on every level is P^T A P, to 1e-12 of its largest entry. A level 0 that is never stored is what level 1 is made of.
pub fn assert_levels(kind: Preconditioner, problems: Vec<(String, Small)>) {
    for (name, (energy, data)) in problems {
        let solver = solver(kind, &energy);
        assert!(assert_levels_of(kind, &name, solver, (&energy, &data), 1e-12) >= 2, "{name}: one level");
    }
}

/// The same of one problem, without damping and with much, to this share of the largest entry. The number of levels.
pub fn assert_levels_of(
    kind: Preconditioner,
    name: &str,
    solver: &Solver,
    (energy, data): (&Energy, &ProblemData<'_>),
    tolerance: f64,
) -> usize {
    let mut least = usize::MAX;
    let mut problem = solver.plan(data).unwrap();
    for radius in [None, Some(3.0)] {
        let method = if radius.is_some() { Method::LevenbergMarquardt } else { Method::GaussNewton };
        let options = SolveOptions { method, radius, ..SolveOptions::default() };
        drop(problem.init(data, &options).unwrap());
        let oracle = Oracle::new(kind, (energy, data), radius);
        let spaces = (0..energy.spaces.len() as u32).map(SpaceId);
        let levels = spaces.map(|space| compare(name, &problem, &oracle, space, tolerance)).sum();
        least = least.min(levels);
    }
    least
}

/// Compares the levels of a space; their number.
fn compare(name: &str, problem: &Problem, oracle: &Oracle, space: SpaceId, tolerance: f64) -> usize {
    let mut levels = 0;
    while let Some(expected) = oracle.0(space, levels) {
        let came = problem.level(space, levels as u8);
        levels += 1;
        if levels == 1 && came.is_none() {
            assert!(problem.level(space, 1).is_some(), "{name}: no levels");
            continue;
        }
        let level = levels - 1;
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
        assert!(
            off <= tolerance * largest && (largest > 0.0 || off == 0.0),
            "{name}, level {level}: off by {off:e} of {largest:e}"
        );
    }
    assert_eq!(problem.level(space, levels as u8), None, "{name}: more levels than {levels}");
    levels
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
    let report = solver(kind, energy).plan(data).unwrap().solve(&mut ours, options).unwrap();
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
