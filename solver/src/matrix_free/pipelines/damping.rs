//! From g and the blocks of J^T J to the linear system: scales, D, M^-1, b and the norms at the start of PCG.
//!
//! s_i = 1/(1 + sqrt(diag_i)), fixed at the first iterate; D_i = clamp(s_i^2 diag_i, min, max) / (s_i^2 R), and 0 for
//! Gauss-Newton (`inv_radius` = 0). M^-1 is the inverse of the diagonal, or of the blocks, of A = J^T J + D; 0 at excluded elements, where
//! diag_i = 0 and at held scalars.

use crate::matrix_free::draft::{Draft, all, coordinates, vars};
use crate::matrix_free::pipelines::boxed::Boxed;
use crate::matrix_free::preconditioner::diagonal;
use crate::matrix_free::scalars::StartScalar;
use crate::matrix_free::schedule::Strip;
use crate::matrix_free::schedule::reduce::Op;
use crate::matrix_free::skeleton::{Scheduled, Skeleton, Space, kept_entries, packed};
use crate::matrix_free::vectors::{Role, What};
use sumsq_codegen::{Expr, Func, ScalarType};
use sumsq_energy::model::Domain;

/// g and the packed blocks as read by both pipelines, at one element.
struct System {
    gradient: Vec<Expr>,
    /// Entry (i, j) of the block; off-diagonal entries are absent where only the diagonal is kept.
    block: Vec<Vec<Option<Expr>>>,
    free: Expr,
    boxed: Option<Boxed>,
}

impl System {
    fn at(d: &mut Draft, space: &Space, at: &[Expr]) -> System {
        let kept = kept_entries(space);
        let c = space.components;
        let gb = d.input(What::GradientAndBlocks.of(space.id));
        let free = d.input(What::Free.of(space.id));
        let entry = |i, j| kept.iter().position(|&e| e == packed(i, j)).map(|e| gb.at(at, c + e));
        System {
            gradient: (0..c).map(|i| gb.at(at, i)).collect(),
            block: (0..c).map(|i| (0..c).map(|j| entry(i, j)).collect()).collect(),
            free: free.at(at, 0).ne_(Expr::int(ScalarType::U8, 0)),
            boxed: d.boxed(space, at),
        }
    }

    fn diagonal(&self, i: usize) -> Expr {
        self.block[i][i].clone().expect("the diagonal is always kept")
    }
    /// Whether scalar i is free and constrained by some residual.
    fn constrained(&self, i: usize) -> Expr {
        let d = self.diagonal(i);
        self.free.and(d.gt(Expr::float(d.ty(), 0.0)))
    }
    /// Whether scalar i takes part: constrained, and not held at a bound.
    fn active(&self, i: usize) -> Expr {
        let constrained = self.constrained(i);
        match &self.boxed {
            Some(b) => constrained.and(b.is_held(i, &self.gradient[i]).not_()),
            None => constrained,
        }
    }
    /// P(x - g) - x of scalar i; without bounds -g.
    fn projected_gradient(&self, i: usize) -> Expr {
        let descent = -self.gradient[i].clone();
        self.boxed.as_ref().map_or(descent.clone(), |b| b.step(i, &descent))
    }
}

/// `Scales`, once per solve.
pub fn scales(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "scales", Role::Master);
    for space in &k.spaces {
        let vars = vars(space.dims);
        let at = coordinates(&vars);
        let system = System::at(&mut d, space, &at);
        let values = (0..space.components).map(|i| diagonal::scale(&system.diagonal(i))).collect();
        let f = d.func(What::Scales.of(space.id), &vars, values);
        d.map(&f, Strip::Of(Domain::Space(space.id)));
        d.skip_unless(&f, k.live_at(space.id, &at));
        d.output(&f, What::Scales.of(space.id));
    }
    d.finish()
}

/// Per space the outputs `DR` (0, then b) and, unless the sweeps compute them, `MInv` and `Damp`; and the tuple `Start`.
pub fn pipeline(k: &Skeleton) -> Vec<Scheduled> {
    let mut d = Draft::new(k, "damping", Role::Master);
    let mut totals: Option<Vec<Expr>> = None;
    for space in &k.spaces {
        let [dr, damp, minv] = damp_space(&mut d, space);
        let sums = start(&mut d, space, [&dr, &minv]);
        store(&mut d, space, &sums, [&dr, &damp, &minv]);
        let e = all(&sums, &[]);
        totals = Some(match totals {
            None => e,
            Some(t) => {
                let combine = |(s, (a, b)): (StartScalar, (Expr, Expr))| match s {
                    StartScalar::GradientMax => a.max(b),
                    _ => a + b,
                };
                StartScalar::ALL.into_iter().zip(t.into_iter().zip(e)).map(combine).collect()
            }
        });
    }
    let start = d.func(What::Start.of(()), &[], totals.unwrap_or_default());
    d.output(&start, What::Start.of(()));
    d.finish()
}

/// Adds `DR`, `Damp` and `MInv`.
fn damp_space(d: &mut Draft, space: &Space) -> [Func; 3] {
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
        let d = diagonal::damping(&system.diagonal(i), &scale.at(&at, i));
        Expr::select(system.active(i), d, constant(0.0))
    });
    let damp = func(What::Damp, damp.collect());
    // M is that of A with the D that it has in PCG.
    let held: Vec<Expr> = all(&damp, &at).into_iter().map(|d| d.cast(k.master)).collect();
    // 1/diag may be more than float32 holds, times an entry of b that it rounds to 0.
    let limit = if k.linear == ScalarType::F32 { f64::from(f32::MAX) } else { f64::MAX };
    let minv = inverse(k, space, &system, &held).into_iter();
    let minv = func(What::MInv, minv.map(|v| v.max(constant(-limit)).min(constant(limit))).collect());
    [dr, damp, minv]
}

/// Stores what the sweeps read of a space in the nest of its share of `Start`, which reads it.
fn store(d: &mut Draft, space: &Space, sums: &Func, [dr, damp, minv]: [&Func; 3]) {
    d.store_in(sums, dr);
    d.output(dr, What::DR.of(space.id));
    if space.inline_diagonal {
        return;
    }
    if d.k.identity {
        // M = I reads no D.
        d.map(damp, Strip::Of(Domain::Space(space.id)));
    } else {
        d.store_in(sums, damp);
    }
    d.output(damp, What::Damp.of(space.id));
    d.store_in(sums, minv);
    d.output(minv, What::MInv.of(space.id));
}

/// Relative shift of the diagonal of a block before it is inverted: well above the rounding of the inverse's entries, which are
/// up to 1/shift times those of the matrix. Where it was too small, a singular block's inverse would be indefinite.
fn block_shift(linear: ScalarType) -> f64 {
    if linear == ScalarType::F32 { 1e-5 } else { 1e-12 }
}

/// The packed inverse of the block of A, or the inverses of its diagonal, 0 where inactive.
fn inverse(k: &Skeleton, space: &Space, system: &System, damp: &[Expr]) -> Vec<Expr> {
    let c = damp.len();
    let (zero, one) = (Expr::float(k.master, 0.0), Expr::float(k.master, 1.0));
    let damped = |i: usize| system.diagonal(i) + &damp[i];
    if k.identity {
        return (0..c).map(|i| Expr::select(system.active(i), one.clone(), zero.clone())).collect();
    }
    if !space.block {
        return (0..c).map(|i| Expr::select(system.active(i), &one / &damped(i), zero.clone())).collect();
    }
    // An inactive scalar becomes an identity row, so that the others' block is inverted alone.
    let shift = Expr::float(k.master, 1.0 + block_shift(k.linear));
    let entry = |i: usize, j: usize| {
        if i == j {
            return Expr::select(system.active(i), damped(i) * &shift, one.clone());
        }
        let e = system.block[i][j].clone().unwrap_or_else(|| zero.clone());
        Expr::select(system.active(i).and(system.active(j)), e, zero.clone())
    };
    let a: Vec<Expr> = (0..c).flat_map(|i| (0..=i).map(move |j| (i, j))).map(|(i, j)| entry(i, j)).collect();
    let inv = spd_inverse(&a, c, 0.5 * block_shift(k.linear));
    let masked = (0..c).flat_map(|i| (0..=i).map(move |j| (i, j))).map(|(i, j)| {
        let active = if i == j { system.active(i) } else { system.active(i).and(system.active(j)) };
        Expr::select(active, inv[packed(i, j)].clone(), zero.clone())
    });
    masked.collect()
}

/// The packed inverse of a packed symmetric positive definite matrix, by Cholesky: A = L L^T, A^-1 = L^-T L^-1. A pivot that rounding
/// made less than `least` times its diagonal entry counts as that much.
pub fn spd_inverse(a: &[Expr], n: usize, least: f64) -> Vec<Expr> {
    let ty = a[0].ty();
    let mut l: Vec<Expr> = a.to_vec();
    let mut inv_diagonal = Vec::with_capacity(n);
    for j in 0..n {
        let mut d = a[packed(j, j)].clone();
        for m in 0..j {
            d = d - &l[packed(j, m)] * &l[packed(j, m)];
        }
        let d = d.max(&a[packed(j, j)] * &Expr::float(ty, least));
        inv_diagonal.push(Expr::float(ty, 1.0) / d.sqrt());
        for i in j + 1..n {
            let mut v = a[packed(i, j)].clone();
            for m in 0..j {
                v = v - &l[packed(i, m)] * &l[packed(j, m)];
            }
            l[packed(i, j)] = v * &inv_diagonal[j];
        }
    }
    // W = L^-1, lower triangular.
    let mut w: Vec<Expr> = a.to_vec();
    for j in 0..n {
        w[packed(j, j)] = inv_diagonal[j].clone();
        for i in j + 1..n {
            let sum = (j..i).map(|m| &l[packed(i, m)] * &w[packed(m, j)]).reduce(|x, y| x + y);
            w[packed(i, j)] = -(sum.expect("i > j") * &inv_diagonal[i]);
        }
    }
    let entry = |i: usize, j: usize| {
        let products = (i.max(j)..n).map(|m| &w[packed(m, i)] * &w[packed(m, j)]);
        products.reduce(|x, y| x + y).expect("at least one term")
    };
    (0..n).flat_map(|i| (0..=i).map(move |j| (i, j))).map(|(i, j)| entry(i, j)).collect()
}

/// (M^-1 v)_i of a packed block or diagonal.
pub fn apply_inverse(space: &Space, minv: &[Expr], v: &[Expr], i: usize) -> Expr {
    if !space.block {
        return &minv[i] * &v[i];
    }
    let products = (0..v.len()).map(|j| &minv[packed(i, j)] * &v[j]);
    products.reduce(|a, b| a + b).expect("at least one component")
}

/// Position of diagonal entry i among the kept entries of a block.
pub fn inverse_diagonal_entry(space: &Space, i: usize) -> usize {
    if space.block { packed(i, i) } else { i }
}

/// The diagonal entry of M^-1 for scalar i.
pub fn inverse_diagonal<'a>(space: &Space, minv: &'a [Expr], i: usize) -> &'a Expr {
    if space.block { &minv[packed(i, i)] } else { &minv[i] }
}

/// The share of a space in `Start`.
fn start(d: &mut Draft, space: &Space, [dr, minv]: [&Func; 2]) -> Func {
    let (k, c) = (d.k, space.components);
    let points = k.points(Domain::Space(space.id));
    let at = &points.coordinates;
    let system = System::at(d, space, at);
    let (r, minv) = (all(dr, at).split_off(c), all(minv, at));
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
    let loose = (0..c).map(|i| count(system.free.and(system.constrained(i).not_())));
    let term = |s: StartScalar| match s {
        StartScalar::Bb => (Op::Add, sum(r.iter().map(|e| f64(e.clone()) * f64(e.clone())).collect())),
        StartScalar::Rz => {
            let z = |i: usize| f64(apply_inverse(space, &minv, &r, i));
            (Op::Add, sum((0..c).map(|i| f64(r[i].clone()) * z(i)).collect()))
        }
        StartScalar::GradientMax => (Op::Max, maximum.clone()),
        StartScalar::Unconstrained => (Op::Add, sum(loose.clone().collect())),
        StartScalar::Free => (Op::Add, count(system.free.clone()) * c as f64),
    };
    let f = d.reduce(&format!("start{}", space.id.0), &points, StartScalar::ALL.map(term).to_vec());
    d.skip_unless(&f, k.live_at(space.id, at));
    f
}
