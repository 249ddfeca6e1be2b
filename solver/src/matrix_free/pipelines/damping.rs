//! From g and the blocks of J^T J to the linear system: scales, D, field 0 of M^-1, b and the norms at the start of PCG.
//!
//! D_i = clamp(diag_i, min, max) / R, diag to first order in losses, and 0 for Gauss-Newton (`inv_radius` = 0). min and max are multiples of the largest entry that
//! diag(J^T J) has had for the component; by option the running maximum of diag_i takes its place. M^-1 is made of
//! A = J^T J + D; 0 at excluded elements, where diag_i = 0 and at held scalars.

use crate::matrix_free::draft::{Draft, all, coordinates, vars};
use crate::matrix_free::params::Number;
use crate::matrix_free::pipelines::boxed::Boxed;
use crate::matrix_free::preconditioner::M;
use crate::matrix_free::preconditioner::diagonal::{self, Block};
use crate::matrix_free::scalars::{PcgScalar, StartScalar};
use crate::matrix_free::schedule::Strip;
use crate::matrix_free::schedule::reduce::Op;
use crate::matrix_free::skeleton::{Scheduled, Skeleton, Space};
use crate::matrix_free::stop::{is_finite, number};
use crate::matrix_free::vectors::{Role, What};
use crate::problem::report::LinearStop;
use rustc_hash::FxHashSet;
use sumsq_codegen::{Expr, ExprKind, Func, ScalarType};
use sumsq_energy::model::Domain;

/// g and the blocks of J^T J as read by both pipelines, at one element.
struct System {
    gradient: Vec<Expr>,
    /// Entry (i, j) of the block; those that are not kept are absent.
    block: Vec<Vec<Option<Expr>>>,
    /// The diagonal of J^T J to first order: what is damped with. A loss of second order may leave nothing of it in the block.
    first_order: Vec<Expr>,
    free: Expr,
    boxed: Option<Boxed>,
}

impl System {
    fn at(d: &mut Draft, space: &Space, at: &[Expr]) -> System {
        let c = space.components;
        let gb = d.input(What::GradientAndBlocks.of(space.id));
        let free = d.input(What::Free.of(space.id));
        let entry = |i, j| space.kept_at(i, j).map(|e| gb.at(at, c + e));
        let block: Vec<Vec<_>> = (0..c).map(|i| (0..c).map(|j| entry(i, j)).collect()).collect();
        let diagonal = |i: usize| block[i][i].clone().expect("the diagonal is always kept");
        let behind = c + space.kept_entries().len();
        let first_order = |i| if d.k.energy.bends() { gb.at(at, behind + i) } else { diagonal(i) };
        System {
            gradient: (0..c).map(|i| gb.at(at, i)).collect(),
            first_order: (0..c).map(first_order).collect(),
            block,
            free: free.at(at, 0).ne_(Expr::int(ScalarType::U8, 0)),
            boxed: d.boxed(space, at),
        }
    }

    fn diagonal(&self, i: usize) -> Expr {
        self.block[i][i].clone().expect("the diagonal is always kept")
    }
    /// True where scalar i is free and constrained by some residual.
    fn constrained(&self, i: usize) -> Expr {
        let d = self.diagonal(i);
        self.free.and(d.gt(Expr::float(d.ty(), 0.0)))
    }
    /// True where scalar i takes part: constrained, and not held at a bound.
    fn active(&self, i: usize) -> Expr {
        let constrained = self.constrained(i);
        match &self.boxed {
            Some(b) => constrained.and(b.is_held(i, &self.gradient[i]).not_()),
            None => constrained,
        }
    }
    /// |g_i| / sqrt(diag_i): how much of |r| scalar i could take off on its own, within its bounds. 0 where it is not constrained.
    fn scaled_gradient(&self, i: usize) -> Expr {
        let (g, diag) = (&self.gradient[i], self.diagonal(i));
        let root = diag.sqrt();
        let step = -(g / &diag);
        let length = self.boxed.as_ref().map_or(g.abs() / &root, |b| b.step(i, &step).abs() * &root);
        let zero = Expr::float(g.ty(), 0.0);
        // As of the gradient: the larger of two numbers drops a NaN.
        let length = Expr::select(g.is_nan(), Expr::float(g.ty(), f64::INFINITY), length);
        Expr::select(self.constrained(i).or(g.is_nan()).and(self.free.clone()), length, zero)
    }
    /// P(x - g) - x of scalar i; without bounds -g.
    fn projected_gradient(&self, i: usize) -> Expr {
        let descent = -self.gradient[i].clone();
        self.boxed.as_ref().map_or(descent.clone(), |b| b.step(i, &descent))
    }
}

/// Per space the tuples `Largest` and `Clamps`, and `Scales` in place, once per linearisation.
pub fn scales(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "scales", Role::Master);
    for space in &k.spaces {
        let vars = vars(space.dims);
        let at = coordinates(&vars);
        let old = d.input(What::Scales.of(space.id));
        let system = System::at(&mut d, space, &at);
        let values = (0..space.components).map(|i| running(&system.first_order[i], old.at(&at, i))).collect();
        let scales = d.p.func(Func::new(format!("scn{}", space.id.0), &vars, values));
        let points = k.points(Domain::Space(space.id));
        let at = &points.coordinates;
        let system = System::at(&mut d, space, at);
        let entry = |i| {
            let free = Expr::select(system.free.clone(), scales.at(at, i), Expr::float(k.master, 0.0));
            (Op::Max, free.cast(ScalarType::F64))
        };
        let largest = (0..space.components).map(entry).collect();
        let f = d.reduce(&format!("peak{}", space.id.0), &points, largest);
        d.skip_unless(&f, k.live_at(space.id, at));
        d.store_over(&f, &scales, What::Scales.of(space.id));
        d.output(&scales, What::Scales.of(space.id));
        clamps(&mut d, space, &f);
    }
    d.finish()
}

/// The tuples of a space that follow from the largest entries now and before.
fn clamps(d: &mut Draft, space: &Space, now: &Func) {
    let number = |n: Number| n.expr(ScalarType::F64);
    let largest = |c| now.at(&[], c).max(number(Number::LargestBefore(space.id, c as u16)));
    let largest: Vec<Expr> = (0..space.components).map(largest).collect();
    let bounds = [Number::LeastDiagonal, Number::MostDiagonal].into_iter();
    let bounds = bounds.flat_map(|bound| largest.iter().map(move |l| number(bound) * l.clone())).collect();
    for (what, values) in [(What::Clamps, bounds), (What::Largest, largest)] {
        let f = d.func(what.of(space.id), &[], values);
        d.output(&f, what.of(space.id));
    }
}

/// `diag`, or the larger one of it and what it was before, if the running maximum is wanted.
fn running(diag: &Expr, before: Expr) -> Expr {
    let wanted = Number::Running.expr(diag.ty().scalar).gt(Expr::float(diag.ty(), 0.0));
    Expr::select(wanted, diag.max(before), diag.clone())
}

/// Per space the outputs `DR` (0, then b) and, unless the sweeps compute them, field 0 of M^-1 and `Damp`; and the tuples `Start` and, where it
/// has r0.z0, `State`.
pub fn pipeline(k: &Skeleton, m: M) -> Vec<Scheduled> {
    let mut d = Draft::new(k, m.pipeline("damping"), Role::Master);
    let mut totals: Option<Vec<Expr>> = None;
    for space in &k.spaces {
        let ([dr, damp, minv], beside) = damp_space(&mut d, m, space);
        let sums = start(&mut d, m, space, [&dr, &minv]);
        let reader = store(&mut d, m, space, &sums, [&dr, &damp, &minv]);
        beside.iter().for_each(|f| d.array_in(&reader, space.dims, f));
        let e = all(&sums, &[]);
        totals = Some(match totals {
            None => e,
            Some(t) => {
                let combine = |(s, (a, b)): (StartScalar, (Expr, Expr))| match s {
                    StartScalar::GradientMax | StartScalar::ScaledGradient => a.max(b),
                    _ => a + b,
                };
                StartScalar::ALL.into_iter().zip(t.into_iter().zip(e)).map(combine).collect()
            }
        });
    }
    let start = d.func(What::Start.of(()), &[], totals.unwrap_or_default());
    d.output(&start, What::Start.of(()));
    if !m.follows_damping() {
        let [rz, bb] = [StartScalar::Rz, StartScalar::Bb].map(|s| start.at(&[], s as usize));
        begin(&mut d, &rz, &bb);
    }
    d.finish()
}

/// The state of PCG at d = 0, the output `State`. Where there is nothing to solve, or no number to begin with, it has ended: an iteration
/// leaves d as it is then.
fn begin(d: &mut Draft, rz: &Expr, bb: &Expr) {
    let numbers = is_finite(rz).and(is_finite(bb));
    let ready = numbers.and(rz.gt(number(0.0)));
    let code = |stop: LinearStop| number(stop.code());
    let why = Expr::select(numbers, code(LinearStop::Limit), code(LinearStop::NotFinite));
    let value = |s: PcgScalar| match s {
        PcgScalar::Rz => Expr::select(ready.clone(), rz.clone(), number(0.0)),
        PcgScalar::Rr => bb.clone(),
        PcgScalar::Stop => Expr::select(ready.clone(), number(0.0), why.clone()),
        PcgScalar::Beta | PcgScalar::Q | PcgScalar::K => number(0.0),
    };
    let state = d.func(What::State.of(()), &[], PcgScalar::ALL.map(value).to_vec());
    d.output(&state, What::State.of(()));
}

/// r0.z0 where M has stages between b and it: the scalar `StartProduct`, and `State`.
pub fn start_product(k: &Skeleton, m: M) -> Vec<Scheduled> {
    let mut d = Draft::new(k, m.pipeline("start"), Role::Linear);
    if !m.follows_damping() {
        return vec![];
    }
    let mut total = Expr::from(0.0f64);
    for space in &k.spaces {
        d.input(What::DR.of(space.id));
        let points = k.points(Domain::Space(space.id));
        let at = &points.coordinates;
        let r = d.all(What::DR.of(space.id), at).split_off(space.components);
        let rz = m.of.product(&r, &m.of.apply_own(&m.at(&d, space, at), &r));
        let f = d.reduce(&format!("start{}", space.id.0), &points, vec![(Op::Add, rz)]);
        d.skip_unless(&f, k.live_at(space.id, at));
        total = total + f.at(&[], 0);
        if let Some(rest) = m.of.product_of_levels(&mut d, m.kind, space) {
            total = total + rest;
        }
    }
    let rz = d.func(What::StartProduct.of(()), &[], vec![total]);
    d.output(&rz, What::StartProduct.of(()));
    begin(&mut d, &rz.at(&[], 0), &k.scalar(StartScalar::Bb));
    d.finish()
}

/// Adds `DR`, `Damp` and field 0 of M^-1; and what is computed beside that, readers first.
fn damp_space(d: &mut Draft, m: M, space: &Space) -> ([Func; 3], Vec<Func>) {
    let (k, c) = (d.k, space.components);
    let vars = vars(space.dims);
    let at = coordinates(&vars);
    let system = System::at(d, space, &at);
    let scale = d.input(What::Scales.of(space.id));
    let constant = |v| Expr::float(k.master, v);
    let mut func = |what: What, values: Vec<Expr>| {
        let values = values.into_iter().map(|v| v.cast(k.linear)).collect();
        d.func(what.of(space.id), &vars, values)
    };
    let b = (0..c).map(|i| Expr::select(system.active(i), -system.gradient[i].clone(), constant(0.0)));
    let dr = func(What::DR, (0..c).map(|_| constant(0.0)).chain(b).collect());
    let damp = (0..c).map(|i| {
        let diag = running(&system.first_order[i], scale.at(&at, i));
        Expr::select(system.active(i), diagonal::damping(&diag, space, i), constant(0.0))
    });
    let damp = func(What::Damp, damp.collect());
    let block = Block {
        space,
        vars: &vars,
        ty: k.master,
        linear: k.linear,
        // M is that of A with the D that it has in PCG.
        damp: all(&damp, &at).into_iter().map(|d| d.cast(k.master)).collect(),
        active: (0..c).map(|i| system.active(i)).collect(),
        entries: system.block,
    };
    // 1/diag may be more than float32 holds, times an entry of b that it rounds to 0.
    let limit = if k.linear == ScalarType::F32 { f64::from(f32::MAX) } else { f64::MAX };
    let mut beside = vec![];
    let minv = m.of.inverse(&block, &mut beside).into_iter();
    let minv = minv.map(|v| v.max(constant(-limit)).min(constant(limit))).collect();
    let funcs = [dr, damp, func(What::M { kind: m.kind, field: 0 }, minv)];
    (funcs, beside.into_iter().map(|f| d.p.func(f)).collect())
}

/// Stores what the sweeps read of a space: in the nest of its share of `Start`, if that reads it. Returns the Func in whose nest M^-1 is.
fn store(d: &mut Draft, m: M, space: &Space, sums: &Func, [dr, damp, minv]: [&Func; 3]) -> Func {
    d.store_in(sums, dr);
    d.output(dr, What::DR.of(space.id));
    if space.inline_diagonal {
        return sums.clone();
    }
    let mut store = |f: &Func, what: What, reader: Option<&Func>| {
        match reader {
            Some(reader) => d.store_in(reader, f),
            None => {
                d.map(f, Strip::Of(Domain::Space(space.id)));
                d.skip_unless(f, d.k.live_at(space.id, &coordinates(&vars(space.dims))));
            }
        }
        d.output(f, what.of(space.id));
    };
    let of_minv = reads(sums, minv).then_some(sums);
    store(minv, What::M { kind: m.kind, field: 0 }, of_minv);
    let at = of_minv.unwrap_or(minv);
    store(damp, What::Damp, reads(minv, damp).then_some(at));
    at.clone()
}

/// Tells whether what `f` is computed from reads `g`.
fn reads(f: &Func, g: &Func) -> bool {
    fn calls(e: &Expr, name: &str, seen: &mut FxHashSet<usize>) -> bool {
        let mut found = matches!(e.kind(), ExprKind::Call { name: called, .. } if &**called == name);
        if seen.insert(e.id()) {
            e.for_each_child(|c| found = found || calls(c, name, seen));
        }
        found
    }
    let mut seen = FxHashSet::default();
    let values = f.values.iter().chain(f.updates.iter().flat_map(|u| &u.values));
    values.into_iter().any(|e| calls(e, &g.name, &mut seen))
}

/// The share of a space in `Start`.
fn start(d: &mut Draft, m: M, space: &Space, [dr, minv]: [&Func; 2]) -> Func {
    let (k, c) = (d.k, space.components);
    let points = k.points(Domain::Space(space.id));
    let at = &points.coordinates;
    let system = System::at(d, space, at);
    let r = all(dr, at).split_off(c);
    let f64 = |e: Expr| e.cast(ScalarType::F64);
    let sum = |e: Vec<Expr>| e.into_iter().reduce(|a, b| a + b).expect("at least one component");
    let count = |on: Expr| Expr::select(on, Expr::from(1.0f64), Expr::from(0.0f64));
    let maximum = (0..c).map(|i| {
        let g = system.projected_gradient(i);
        // The larger of two numbers drops a NaN: let it through as infinity.
        let g = Expr::select(g.is_nan(), Expr::float(g.ty(), f64::INFINITY), g.abs());
        Expr::select(system.free.clone(), f64(g), Expr::from(0.0f64))
    });
    let maximum = maximum.reduce(|a, b| a.max(b)).expect("at least one component");
    let rz = (!m.follows_damping()).then(|| {
        let z = m.of.apply(&m.at_with(d, space, at, all(minv, at)), &r);
        let [r, z] = [r.clone(), z].map(|v| v.into_iter().map(f64).collect::<Vec<Expr>>());
        m.of.product(&r, &z)
    });
    let scaled = (0..c).map(|i| system.scaled_gradient(i));
    let scaled = scaled.reduce(|a, b| a.max(b)).expect("at least one component");
    let loose = (0..c).map(|i| count(system.free.and(system.constrained(i).not_())));
    let term = |s: StartScalar| match s {
        StartScalar::Bb => (Op::Add, sum(r.iter().map(|e| f64(e.clone()) * f64(e.clone())).collect())),
        // Where z is not had yet, it is no part of this.
        StartScalar::Rz => (Op::Add, rz.clone().unwrap_or(Expr::from(0.0f64))),
        StartScalar::GradientMax => (Op::Max, maximum.clone()),
        StartScalar::ScaledGradient => (Op::Max, f64(scaled.clone())),
        StartScalar::Unconstrained => (Op::Add, sum(loose.clone().collect())),
    };
    let f = d.reduce(&format!("start{}", space.id.0), &points, StartScalar::ALL.map(term).to_vec());
    d.skip_unless(&f, k.live_at(space.id, at));
    f
}
