//! The dense blocks of the preconditioner, beside J^T W J written out by hand.

use super::compiled::Numbers;
use super::model::PipelineModel;
use super::{Loss, PipelineEnergy};
use crate::outer::host::{Derivatives, Model};
use crate::problem::options::{CompileOptions, Precision, Preconditioner};
use nalgebra::{DMatrix, DVector};
use sumsq_codegen::ScalarType::F64;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Scalar};
use sumsq_codegen::{Input, Pipeline, RDom, Source, Var};
use sumsq_energy::losses::LossKind;

/// Residuals, scalars with a block, and those of an unknown that is too large for one.
const ROWS: usize = 70;
const DENSE: usize = 8;
const LONG: usize = 65;

/// r(x) = exp(gain sum of c(k) a(k, x)) + e(x mod 65) - b(x), where c, gain and e are unknown.
fn energy(loss: Loss) -> PipelineEnergy {
    let (x, mut p) = (Var::new("x"), Pipeline::new("rows"));
    let [a, b, c, e] =
        [("a", 2), ("b", 1), ("c", 1), ("e", 1)].map(|(n, d)| p.input(Input::new(n, &[F64], d)));
    let gain = p.param("gain", F64);
    let r = RDom::new([("k", 0, DENSE as i32)]);
    let sum = p.sum("sum", &r, c.of(r.var(0)) * a.of((r.var(0), x)));
    p.define("rows", [x], (sum * gain).exp() + e.of(x % LONG as i32) - b.of(x));
    let energy = PipelineEnergy::new(p).unknown("c").unknown("gain").unknown("e");
    energy.residual_over("rows", &[(0.into(), b.extent(0))], loss)
}

/// Numbers from -0.5 to 0.5 that look random.
fn spread(n: usize, from: u32) -> Vec<f64> {
    let number = |i: u32| f64::from((i + from).wrapping_mul(0x9E37_79B1) >> 8) / f64::from(1 << 24) - 0.5;
    (0..n as u32).map(number).collect()
}

fn buffer(extents: &[i32], values: &[f64]) -> Buffer {
    let b = Buffer::new(BufferSpec::new(F64, extents)).unwrap();
    b.copy_from(values).unwrap();
    b
}

/// The unknowns, the numbers of the rows, and J and the weights of its rows that come of them.
struct Rows {
    a: Vec<f64>,
    b: Vec<f64>,
    at: Vec<f64>,
}

impl Rows {
    fn new() -> Rows {
        let at = [spread(DENSE, 1), vec![0.7], spread(LONG, 50)].concat();
        Rows { a: spread(DENSE * ROWS, 200), b: spread(ROWS, 900), at }
    }

    /// J, and r.
    fn jacobian(&self) -> (DMatrix<f64>, Vec<f64>) {
        let mut j = DMatrix::zeros(ROWS, self.at.len());
        let mut r = vec![];
        let (c, gain, e) = (&self.at[..DENSE], self.at[DENSE], &self.at[DENSE + 1..]);
        for x in 0..ROWS {
            let a = &self.a[x * DENSE..][..DENSE];
            let sum: f64 = a.iter().zip(c).map(|(a, c)| a * c).sum();
            let value = (gain * sum).exp();
            (0..DENSE).for_each(|k| j[(x, k)] = value * gain * a[k]);
            j[(x, DENSE)] = value * sum;
            j[(x, DENSE + 1 + x % LONG)] = 1.0;
            r.push(value + e[x % LONG] - self.b[x]);
        }
        (j, r)
    }
}

/// Calls `f` with the model at the unknowns of `rows`.
fn with_model(
    rows: &Rows,
    loss: Loss,
    preconditioner: Preconditioner,
    f: impl FnOnce(&mut PipelineModel<'_>),
) {
    let options =
        CompileOptions { precision: Precision::F64, threads: Some(2), preconditioner, ..Default::default() };
    let solver = energy(loss).compile(&options, &[]).unwrap();
    let (dense, rest) = rows.at.split_at(DENSE);
    let c = buffer(&[DENSE as i32], dense);
    let e = buffer(&[LONG as i32], &rest[1..]);
    let a = buffer(&[DENSE as i32, ROWS as i32], &rows.a);
    let b = buffer(&[ROWS as i32], &rows.b);
    let buffers = [("a", &a), ("b", &b), ("c", &c), ("e", &e)];
    let params = [("gain", Scalar::F64(rest[0]))];
    let numbers = Numbers::new(&solver.energy, &solver.routines, &buffers, &params, &solver.pool).unwrap();
    f(&mut PipelineModel::new(numbers, &solver.routines, preconditioner).unwrap());
}

/// J^T W J of the scalars with a block.
fn block(j: &DMatrix<f64>, weights: &[f64]) -> DMatrix<f64> {
    let own = j.columns(0, DENSE);
    own.transpose() * DMatrix::from_diagonal(&DVector::from_column_slice(weights)) * own
}

fn assert_near(came: &DMatrix<f64>, expected: &DMatrix<f64>, tolerance: f64) {
    let apart = (came - expected).amax();
    assert!(apart <= tolerance * expected.amax(), "{apart} apart\n{came}{expected}");
}

/// M^-1 as a matrix: what it makes of unit vectors.
fn inverse(model: &PipelineModel<'_>, damping: &[f64]) -> DMatrix<f64> {
    let n = damping.len();
    let m = model.inverse(damping);
    let unit = |i: usize| {
        let (r, mut z) = (DVector::from_fn(n, |k, _| f64::from(k == i)), DVector::zeros(n));
        m.apply(r.as_slice(), z.as_mut_slice());
        z
    };
    DMatrix::from_columns(&(0..n).map(unit).collect::<Vec<_>>())
}

#[test]
fn blocks_are_those_of_the_matrix() {
    let rows = Rows::new();
    let (j, r) = rows.jacobian();
    let scale = 0.4;
    let robust = Loss::Robust { kind: LossKind::SoftL1, scale, second_order: false };
    // The slope of 2 s^2 (sqrt(1 + q / s^2) - 1).
    let slopes = r.iter().map(|r| 1.0 / (1.0 + r * r / (scale * scale)).sqrt()).collect();
    for (loss, weights) in [(Loss::Squares, vec![1.0; ROWS]), (robust, slopes)] {
        let expected = block(&j, &weights);
        with_model(&rows, loss, Preconditioner::Auto, |model| {
            let n = rows.at.len();
            let mut at = Derivatives::default();
            model.linearise(&rows.at, &mut at);
            let diagonal = at.diagonal;
            let damping: Vec<f64> = (0..n).map(|i| 0.01 + 0.001 * i as f64).collect();
            let m = inverse(model, &damping);
            let damped = |of: &DMatrix<f64>| {
                let more = DVector::from_column_slice(&damping[..of.nrows()]);
                (of + DMatrix::from_diagonal(&more)).try_inverse().unwrap()
            };
            assert_near(&m.view((0, 0), (DENSE, DENSE)).into_owned(), &damped(&expected), 1e-10);
            // A single number has no block, and one of 65 none either.
            for i in DENSE..n {
                let wanted = 1.0 / (diagonal[i] + damping[i]);
                assert!((m[(i, i)] - wanted).abs() <= 1e-14 * wanted, "{} for {wanted}", m[(i, i)]);
            }
            let outside = |(i, k): (usize, usize)| i != k && (i >= DENSE || k >= DENSE);
            let all = (0..n).flat_map(|i| (0..n).map(move |k| (i, k)));
            assert!(all.filter(|at| outside(*at)).all(|at| m[at] == 0.0));

            // What is held is no part of it.
            let held: Vec<bool> = (0..n).map(|i| i == 2 || i == 5 || i == DENSE + 3).collect();
            model.hold(&held);
            let m = inverse(model, &damping);
            let free: Vec<usize> = (0..DENSE).filter(|i| !held[*i]).collect();
            let mut left = expected.select_rows(&free).select_columns(&free);
            free.iter().enumerate().for_each(|(k, &i)| left[(k, k)] += damping[i]);
            let own = m.select_rows(&free).select_columns(&free);
            assert_near(&own, &left.try_inverse().unwrap(), 1e-10);
            assert!((0..n).filter(|i| held[*i]).all(|i| m.row(i).amax() == 0.0 && m.column(i).amax() == 0.0));
        });
    }
    // Without blocks: what stands for the diagonal, here the diagonal itself.
    with_model(&rows, Loss::Squares, Preconditioner::Jacobi, |model| {
        let mut at = Derivatives::default();
        model.linearise(&rows.at, &mut at);
        let diagonal = at.diagonal;
        let own = block(&j, &[1.0; ROWS]).diagonal();
        let m = inverse(model, &vec![0.0; rows.at.len()]);
        for k in 0..DENSE {
            assert!((diagonal[k] - own[k]).abs() <= 1e-12 * own[k], "{} for {}", diagonal[k], own[k]);
            assert!((m[(k, k)] - 1.0 / own[k]).abs() <= 1e-12 / own[k]);
        }
    });
}
